// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wait set: one descriptor for several queues and counters (`fi_poll(3)`), and what attributes
//! say of how a queue or a counter is waited for.
//!
//! Queues that are opened with `FI_WAIT_SET` join the set; each has a descriptor of its own, and
//! the set is an epoll of those. Before a sleep every member is asked whether it must be read
//! first, which also arms its timers (`cq`). Members leave by being closed.
//!
//! Bounds: the queues that the application opens.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::abi;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::eq::Eq;
use crate::errno::Error;
use crate::fabric::Fabric;
use crate::ops::FidOps;
use crate::progress::now;
use crate::wait::Wait;

/// What the readers of a queue wait on.
#[derive(Clone, Debug, Default)]
pub(crate) enum WaitObject {
    /// Nobody waits.
    #[default]
    None,
    /// An object of the queue's own, of this kind.
    Own(abi::fi_wait_obj),
    /// The set that the queue joins.
    Set(Arc<WaitSet>),
}

impl WaitObject {
    /// Whether there is anything to be woken.
    pub(crate) const fn waits(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether the blocking reads are allowed: not without an object, nor on a member of a set.
    pub(crate) const fn may_block(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// `FI_WAIT_FD` and so on.
    pub(crate) const fn kind(&self) -> abi::fi_wait_obj {
        match self {
            Self::None => abi::FI_WAIT_NONE,
            Self::Own(kind) => *kind,
            Self::Set(_) => abi::FI_WAIT_SET,
        }
    }

    /// The set to join, if there is one.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is another fabric's.
    pub(crate) fn set(&self, fabric: &Arc<Fabric>) -> Result<Option<&Arc<WaitSet>>, Error> {
        match self {
            Self::Set(set) if Arc::ptr_eq(&set.fabric, fabric) => Ok(Some(set)),
            Self::Set(_) => Err(Error::Invalid),
            _ => Ok(None),
        }
    }
}

/// A queue or counter in the set.
#[derive(Clone, Debug)]
pub(crate) enum Member {
    /// A completion queue.
    Cq(Weak<Cq>),
    /// A counter.
    Cntr(Weak<Cntr>),
    /// An event queue.
    Eq(Weak<Eq>),
}

impl Member {
    fn is_open(&self) -> bool {
        match self {
            Self::Cq(queue) => queue.strong_count() > 0,
            Self::Cntr(counter) => counter.strong_count() > 0,
            Self::Eq(queue) => queue.strong_count() > 0,
        }
    }

    /// What [`WaitSet::try_wait`] says of this one; a member that is gone has nothing to read.
    fn try_wait(&self) -> Result<(), Error> {
        match self {
            Self::Cq(queue) => queue.upgrade().map_or(Ok(()), |queue| queue.try_wait()),
            Self::Cntr(counter) => counter.upgrade().map_or(Ok(()), |counter| counter.try_wait()),
            Self::Eq(queue) => queue.upgrade().map_or(Ok(()), |queue| queue.try_wait()),
        }
    }

    /// Nobody waits for it any more.
    fn recall(&self) {
        match self {
            Self::Cq(queue) => drop(queue.upgrade().inspect(|queue| queue.recall())),
            Self::Cntr(counter) => drop(counter.upgrade().inspect(|counter| counter.recall())),
            Self::Eq(_) => {}
        }
    }

    fn join(&self, outer: &Wait) -> Result<(), Error> {
        match self {
            Self::Cq(queue) => queue.upgrade().map_or(Ok(()), |queue| queue.join(outer)),
            Self::Cntr(counter) => counter.upgrade().map_or(Ok(()), |counter| counter.join(outer)),
            Self::Eq(queue) => queue.upgrade().map_or(Ok(()), |queue| queue.join(outer)),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WaitSet {
    fabric: Arc<Fabric>,
    kind: abi::fi_wait_obj,
    wait: Wait,
    members: Mutex<Vec<Member>>,
}

impl WaitSet {
    /// `fi_wait_open`.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(crate) fn open(fabric: &Arc<Fabric>, kind: abi::fi_wait_obj) -> Result<Arc<Self>, Error> {
        let (fabric, wait) = (Arc::clone(fabric), Wait::new()?);
        Ok(Arc::new(Self { fabric, kind, wait, members: Mutex::default() }))
    }

    /// A queue joins.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn add(&self, member: Member) -> Result<(), Error> {
        member.join(&self.wait)?;
        let mut members = self.lock();
        members.retain(Member::is_open);
        members.push(member);
        Ok(())
    }

    /// `fi_trywait`: prepares the descriptor to be waited on.
    ///
    /// # Errors
    /// [`Error::Again`] if a member must be read first.
    pub(crate) fn try_wait(&self) -> Result<(), Error> {
        let _open = self.fabric.look();
        let members = self.lock().clone();
        // Each is asked, so that each makes progress.
        let asked = members.iter().map(Member::try_wait).collect::<Vec<_>>();
        let all: Result<(), Error> = asked.into_iter().collect();
        if all.is_err() {
            members.iter().for_each(Member::recall);
        }
        all
    }

    /// `fi_wait`: until a member has something to read.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Interrupted`], [`Error::Os`].
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let result = self.sleep(timeout);
        let _open = self.fabric.look();
        self.lock().clone().iter().for_each(Member::recall);
        result
    }

    fn sleep(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let deadline = timeout.map(|timeout| now().after(timeout));
        // bound: the timeout, an event, a signal
        loop {
            match self.try_wait() {
                Err(Error::Again) => return Ok(()),
                result => result?,
            }
            let time = now();
            if deadline.is_some_and(|deadline| time >= deadline) {
                return Err(Error::TimedOut);
            }
            self.wait.sleep(deadline.map(|deadline| deadline.since(time)))?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FidOps for WaitSet {
    fn wait_fd(&self) -> Result<RawFd, Error> {
        Ok(self.wait.descriptor())
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.kind)
    }
}

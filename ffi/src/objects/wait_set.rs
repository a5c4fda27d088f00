// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wait set: one descriptor for several queues and counters (`fi_poll(3)`); and the wait object
//! of a queue or counter.
//!
//! In: queues and counters that are opened with `FI_WAIT_SET`. Out: a descriptor, an epoll set of
//! the members' descriptors. Before a sleep, `try_wait` of every member reports whether the member
//! must be read first, and arms its timers. A closed member leaves the set.
//!
//! Bound: the queues and counters that the application opens.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::objects::fabric::Fabric;
use crate::objects::object_ops::ObjectOps;
use crate::sys::abi;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::wait::wait_fd::Wait;

/// The wait object of a queue or counter.
#[derive(Clone, Debug, Default)]
pub(crate) enum WaitObject {
    /// None: there are no blocking calls.
    #[default]
    None,
    /// An object of its own, of this kind.
    Own(abi::fi_wait_obj),
    /// A wait set, which it joins.
    Set(Arc<WaitSet>),
}

impl WaitObject {
    /// Whether threads may wait.
    pub(crate) const fn waits(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether blocking calls are allowed: they need a wait object of its own.
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

    /// A queue or counter with this object is closed: it leaves the set that it has joined.
    pub(crate) fn leave(&self, member: &impl WaitMember) {
        if let Self::Set(set) = self {
            member.leave(&set.wait);
        }
    }

    /// The wait set to join, if there is one.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it belongs to another fabric.
    pub(crate) fn set(&self, fabric: &Arc<Fabric>) -> Result<Option<&Arc<WaitSet>>, Error> {
        match self {
            Self::Set(set) if Arc::ptr_eq(&set.fabric, fabric) => Ok(Some(set)),
            Self::Set(_) => Err(Error::Invalid),
            _ => Ok(None),
        }
    }
}

/// A queue or counter, as a wait set uses it.
pub(crate) trait WaitMember: std::fmt::Debug + Send + Sync {
    /// Adds the descriptor of the member to `outer`.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::NotSupported`] if the member has no descriptor.
    fn join(&self, outer: &Wait) -> Result<(), Error>;

    /// Reverses [`Self::join`], before the descriptor is closed.
    fn leave(&self, outer: &Wait);

    /// `fi_trywait`: prepares the descriptor to be waited on.
    ///
    /// # Errors
    /// [`Error::Again`] if the member must be read first; [`Error::NotSupported`] if it has no
    /// descriptor.
    fn try_wait(&self) -> Result<(), Error>;

    /// Undoes [`Self::try_wait`] without a poll afterwards.
    fn cancel_wait(&self);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WaitSet {
    fabric: Arc<Fabric>,
    kind: abi::fi_wait_obj,
    pub(super) wait: Wait,
    members: Mutex<Vec<Weak<dyn WaitMember>>>,
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

    /// Adds a member.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn add<M: WaitMember + 'static>(&self, member: &Arc<M>) -> Result<(), Error> {
        member.join(&self.wait)?;
        let member: Weak<M> = Arc::downgrade(member);
        let mut members = self.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(member);
        Ok(())
    }

    /// The members that are open.
    fn members(&self) -> Vec<Arc<dyn WaitMember>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// `fi_trywait`: prepares the descriptor to be waited on.
    ///
    /// # Errors
    /// [`Error::Again`] if a member must be read first.
    pub(crate) fn try_wait(&self) -> Result<(), Error> {
        let _open = self.fabric.inspect();
        let members = self.members();
        // Every member is called, so that each makes progress.
        let ready = members.iter().map(|member| member.try_wait());
        let all = ready.fold(Ok(()), Result::and);
        if all.is_err() {
            members.iter().for_each(|member| member.cancel_wait());
        }
        all
    }

    /// `fi_wait`: until a member has something to read.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Interrupted`], [`Error::Os`].
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let result = self.sleep(timeout);
        let _open = self.fabric.inspect();
        self.members().iter().for_each(|member| member.cancel_wait());
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

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn WaitMember>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectOps for WaitSet {
    fn wait_fd(&self) -> Result<RawFd, Error> {
        Ok(self.wait.descriptor())
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.kind)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A poll set: one call that finds the completion queues and counters with something to read
//! (`fi_poll(3)`).
//!
//! The answer names members by the context of their `fid`, which the application may write. A
//! member is therefore known by its C pointer too, and `c_api` reads the context under the lock
//! that keeps members open (`object::close`). A closed member is removed by the next poll.
//!
//! Bound: the members that the application adds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::objects::cntr::{Cntr, CounterValues};
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::object_ops::ObjectOps;
use crate::sys::errno::Error;
use crate::wait::spin_yield;

/// An object that can be a member.
#[derive(Clone, Debug)]
pub(crate) enum PollMember {
    /// A counter.
    Cntr(Arc<Cntr>),
    /// A completion queue.
    Cq(Arc<Cq>),
}

impl PollMember {
    fn domain(&self) -> &Arc<Domain> {
        match self {
            Self::Cntr(counter) => counter.domain(),
            Self::Cq(queue) => queue.domain(),
        }
    }
}

#[derive(Debug)]
enum WeakMember {
    /// A counter, with the values that this set reported last.
    Cntr(Weak<Cntr>, CounterValues),
    Cq(Weak<Cq>),
}

impl WeakMember {
    /// Makes progress; returns whether the member is to be reported, for which there must be
    /// `room`. `None`: the member is closed.
    fn poll(&mut self, room: bool) -> Option<bool> {
        match self {
            Self::Cntr(counter, reported) => counter.upgrade().map(|counter| {
                let counted = counter.poll();
                // Values that are not reported stay unreported.
                room && std::mem::replace(reported, counted) != counted
            }),
            Self::Cq(queue) => queue.upgrade().map(|queue| queue.poll() && room),
        }
    }
}

#[derive(Debug)]
struct SetMember {
    /// C's pointer, exposed.
    fid: usize,
    object: WeakMember,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PollSet {
    domain: Arc<Domain>,
    members: Mutex<Vec<SetMember>>,
}

impl PollSet {
    /// `fi_poll_open`.
    pub(crate) fn open(domain: &Arc<Domain>) -> Arc<Self> {
        Arc::new(Self { domain: Arc::clone(domain), members: Mutex::default() })
    }

    /// `fi_poll_add` of the object with C's pointer `fid`. Adding a member again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an object of another domain.
    pub(crate) fn add(&self, fid: usize, object: &PollMember) -> Result<(), Error> {
        if !Arc::ptr_eq(object.domain(), &self.domain) {
            return Err(Error::Invalid);
        }
        let object = match object {
            PollMember::Cntr(counter) => {
                WeakMember::Cntr(Arc::downgrade(counter), CounterValues::default())
            }
            PollMember::Cq(queue) => WeakMember::Cq(Arc::downgrade(queue)),
        };
        let mut members = self.lock();
        // A closed earlier member may have had the same pointer.
        members.retain(|member| member.fid != fid);
        members.push(SetMember { fid, object });
        Ok(())
    }

    /// `fi_poll_del`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no member.
    pub(crate) fn remove(&self, fid: usize) -> Result<(), Error> {
        let mut members = self.lock();
        let before = members.len();
        members.retain(|member| member.fid != fid);
        if members.len() < before { Ok(()) } else { Err(Error::Invalid) }
    }

    /// Makes progress on every member, and calls `found` with C's pointer of each one that has
    /// something to read, at most `room` times. No member is closed meanwhile.
    pub(crate) fn poll(&self, mut room: usize, mut found: impl FnMut(usize)) {
        let (open, before) = (self.domain.fabric().inspect(), room);
        self.lock().retain_mut(|member| {
            let ready = member.object.poll(room > 0);
            if ready == Some(true) {
                room -= 1;
                found(member.fid);
            }
            ready.is_some()
        });
        drop(open);
        if room == before {
            spin_yield::found_nothing();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SetMember>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectOps for PollSet {}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A poll set: asks several completion queues and counters at once which of them have something
//! (`fi_poll(3)`).
//!
//! The answer names them by the context of their `fid`, which is C's to write: so a member is
//! known here by C's pointer too, and the shim reads the context while the queue is open, which it
//! stays for the time of a look (`fid::close`). A member that is closed leaves by itself.
//!
//! Bounds: the queues that the application adds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::cntr::{Cntr, Values};
use crate::cq::Cq;
use crate::domain::Domain;
use crate::errno::Error;
use crate::idle;
use crate::ops::FidOps;

/// What can be asked.
#[derive(Clone, Debug)]
pub(crate) enum Pollable {
    /// A counter.
    Cntr(Arc<Cntr>),
    /// A completion queue.
    Cq(Arc<Cq>),
}

impl Pollable {
    fn domain(&self) -> &Arc<Domain> {
        match self {
            Self::Cntr(counter) => counter.domain(),
            Self::Cq(queue) => queue.domain(),
        }
    }
}

#[derive(Debug)]
enum Asked {
    /// With what this set has reported of it last.
    Cntr(Weak<Cntr>, Values),
    Cq(Weak<Cq>),
}

impl Asked {
    /// Makes progress; whether there is anything to report, if there is `room`. None: it was
    /// closed.
    fn ask(&mut self, room: bool) -> Option<bool> {
        match self {
            Self::Cntr(counter, reported) => counter.upgrade().map(|counter| {
                let counted = counter.poll();
                // What is not reported stays news.
                room && std::mem::replace(reported, counted) != counted
            }),
            Self::Cq(queue) => queue.upgrade().map(|queue| queue.poll() && room),
        }
    }
}

#[derive(Debug)]
struct Member {
    /// C's pointer, exposed.
    fid: usize,
    asked: Asked,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PollSet {
    domain: Arc<Domain>,
    members: Mutex<Vec<Member>>,
}

impl PollSet {
    /// `fi_poll_open`.
    pub(crate) fn open(domain: &Arc<Domain>) -> Arc<Self> {
        Arc::new(Self { domain: Arc::clone(domain), members: Mutex::default() })
    }

    /// `fi_poll_add`, of the object behind C's pointer `fid`. One that is there stays once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an object of another domain.
    pub(crate) fn add(&self, fid: usize, object: &Pollable) -> Result<(), Error> {
        if !Arc::ptr_eq(object.domain(), &self.domain) {
            return Err(Error::Invalid);
        }
        let asked = match object {
            Pollable::Cntr(counter) => Asked::Cntr(Arc::downgrade(counter), Values::default()),
            Pollable::Cq(queue) => Asked::Cq(Arc::downgrade(queue)),
        };
        let mut members = self.lock();
        // A pointer may be that of an earlier member, which is closed.
        members.retain(|member| member.fid != fid);
        members.push(Member { fid, asked });
        Ok(())
    }

    /// `fi_poll_del`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not there.
    pub(crate) fn remove(&self, fid: usize) -> Result<(), Error> {
        let mut members = self.lock();
        let before = members.len();
        members.retain(|member| member.fid != fid);
        if members.len() < before { Ok(()) } else { Err(Error::Invalid) }
    }

    /// Makes progress on every member, and calls `found` with C's pointer of each that has
    /// something, for `room` of them at most. None of them is closed meanwhile.
    pub(crate) fn poll(&self, mut room: usize, mut found: impl FnMut(usize)) {
        let (open, before) = (self.domain.fabric().look(), room);
        self.lock().retain_mut(|member| {
            let ready = member.asked.ask(room > 0);
            if ready == Some(true) {
                room -= 1;
                found(member.fid);
            }
            ready.is_some()
        });
        drop(open);
        if room == before {
            idle::found_nothing();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FidOps for PollSet {}

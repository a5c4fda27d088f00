// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event queue: what became of asynchronous control operations, and what the application writes
//! to itself.
//!
//! Events come from address vectors that insert asynchronously (`av`) and from `fi_eq_write`. They
//! are kept as the bytes that C reads. Errors have a queue of their own: while one waits there,
//! [`Eq::read`] says so and nothing else is read (`fi_eq(3)`).
//!
//! Bounds: [`Eq::capacity`] events; who would add one more is told to read first. An insertion that
//! has begun may add one error for each of its addresses beyond that.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::errno::Error;
use crate::fabric::Fabric;
use crate::ops::FidOps;
use crate::progress::now;
use crate::wait::Wait;
use crate::wait_set::{Member, WaitObject};
use crate::waker::sleep;

/// Events that a queue holds, unless it was opened for more.
const CAPACITY_MIN: usize = 1024;
/// Bytes of the longest event that an application may write to itself.
pub(crate) const EVENT_LEN_MAX: usize = 4096;

/// How a queue is to work.
#[derive(Clone, Debug, Default)]
pub(crate) struct EqAttributes {
    /// Least number of events that it holds.
    pub(crate) size: usize,
    /// The application may write to it (`FI_WRITE`).
    pub(crate) writable: bool,
    /// What readers wait on.
    pub(crate) wait: WaitObject,
}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// `FI_AV_COMPLETE` and so on.
    pub(crate) code: u32,
    /// The structure that belongs to it, as C reads it.
    pub(crate) bytes: Vec<u8>,
}

/// What went wrong in a control operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorEvent {
    /// C's pointer to the object, exposed.
    pub(crate) fid: usize,
    /// The application's word for the operation.
    pub(crate) context: usize,
    /// What the operation says of it: for an insertion, the index of the address.
    pub(crate) data: u64,
    /// libfabric's error number.
    pub(crate) number: c_int,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    errors: VecDeque<ErrorEvent>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Eq {
    /// Keeps the fabric busy.
    fabric: Arc<Fabric>,
    capacity: usize,
    writable: bool,
    wait: WaitObject,
    /// Readable while there is anything to read.
    ready: EventFd,
    state: Mutex<State>,
}

impl Eq {
    /// `fi_eq_open`.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out; [`Error::Invalid`] for a wait set of another fabric.
    pub(crate) fn open(fabric: &Arc<Fabric>, attributes: EqAttributes) -> Result<Arc<Self>, Error> {
        let EqAttributes { size, writable, wait } = attributes;
        let ready = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let queue = Arc::new(Self {
            fabric: Arc::clone(fabric),
            capacity: size.max(CAPACITY_MIN),
            writable,
            wait,
            ready,
            state: Mutex::default(),
        });
        if let Some(set) = queue.wait.set(fabric)? {
            set.add(Member::Eq(Arc::downgrade(&queue)))?;
        }
        Ok(queue)
    }

    /// The fabric that it belongs to.
    pub(crate) const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// Takes the first event, once `copy` has found room for it; with `peek` it stays.
    ///
    /// # Errors
    /// [`Error::Available`] while an error must be read first; [`Error::Again`] if there is
    /// nothing; whatever `copy` says.
    pub(crate) fn read(
        &self,
        peek: bool,
        copy: impl FnOnce(&Event) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut state = self.lock();
        if !state.errors.is_empty() {
            return Err(Error::Available);
        }
        let event = state.events.front().ok_or(Error::Again)?;
        copy(event)?;
        let len = event.bytes.len();
        if !peek {
            state.events.pop_front();
            self.settle(&state);
        }
        Ok(len)
    }

    /// `fi_eq_sread`: calls `read` until it has something to say, and sleeps in between. Another
    /// reader may take what ended a sleep: then there is a next one.
    ///
    /// # Errors
    /// [`Error::Again`] when the time is over, [`Error::Interrupted`]; [`Error::NotSupported`] if
    /// nobody may wait here; whatever else `read` says.
    pub(crate) fn read_wait(
        &self,
        timeout: Option<Duration>,
        mut read: impl FnMut() -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        if !self.wait.may_block() {
            return Err(Error::NotSupported);
        }
        let deadline = timeout.map(|timeout| now().after(timeout));
        // bound: the timeout, an event, a signal
        loop {
            let answer = read();
            let time = now();
            if answer != Err(Error::Again) || deadline.is_some_and(|deadline| time >= deadline) {
                return answer;
            }
            let left = deadline.map(|deadline| deadline.since(time));
            sleep(&mut [PollFd::new(self.ready.as_fd(), PollFlags::POLLIN)], left)?;
        }
    }

    /// Takes the first error.
    ///
    /// # Errors
    /// [`Error::Again`] if there is none.
    pub(crate) fn read_error(&self, peek: bool) -> Result<ErrorEvent, Error> {
        let mut state = self.lock();
        let error = *state.errors.front().ok_or(Error::Again)?;
        if !peek {
            state.errors.pop_front();
            self.settle(&state);
        }
        Ok(error)
    }

    /// `fi_eq_write`.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless the queue was opened for it, or if the event is too long;
    /// [`Error::Again`] when the queue is full.
    pub(crate) fn write(&self, event: Event) -> Result<usize, Error> {
        if !self.writable || event.bytes.len() > EVENT_LEN_MAX {
            return Err(Error::Invalid);
        }
        self.admit()?;
        let len = event.bytes.len();
        self.push(event);
        Ok(len)
    }

    /// Whether an operation that will make events may begin.
    ///
    /// # Errors
    /// [`Error::Again`] when the queue is full.
    pub(crate) fn admit(&self) -> Result<(), Error> {
        let state = self.lock();
        let full = state.events.len().max(state.errors.len()) >= self.capacity;
        if full { Err(Error::Again) } else { Ok(()) }
    }

    /// Adds an event of an operation that [`Self::admit`] let begin.
    pub(crate) fn push(&self, event: Event) {
        let mut state = self.lock();
        state.events.push_back(event);
        self.announce(&state);
    }

    /// Adds an error of such an operation.
    pub(crate) fn push_error(&self, error: ErrorEvent) {
        let mut state = self.lock();
        state.errors.push_back(error);
        self.announce(&state);
    }

    /// `fi_trywait`.
    ///
    /// # Errors
    /// [`Error::Again`] if there is something to read first.
    pub(crate) fn try_wait(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::Again) }
    }

    /// Makes `outer` wait for this queue's descriptor too.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn join(&self, outer: &Wait) -> Result<(), Error> {
        outer.add(self.ready.as_fd())
    }

    fn is_empty(&self) -> bool {
        let state = self.lock();
        state.events.is_empty() && state.errors.is_empty()
    }

    /// Makes the descriptor readable. Called under the lock, as [`Self::settle`] is, so that it is
    /// readable exactly while there is something to read.
    fn announce(&self, _state: &State) {
        // A counter that is full is readable already.
        let _ = self.ready.write(1);
    }

    /// Makes the descriptor unreadable once there is nothing to read.
    fn settle(&self, state: &State) {
        if state.events.is_empty() && state.errors.is_empty() {
            // It is readable, or another reader was faster: both are fine.
            let _ = self.ready.read();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FidOps for Eq {
    fn looks(&self) -> Option<Arc<RwLock<()>>> {
        Some(self.fabric.looks())
    }

    fn wait_fd(&self) -> Result<RawFd, Error> {
        if self.wait.may_block() {
            Ok(self.ready.as_fd().as_raw_fd())
        } else {
            Err(Error::NotSupported)
        }
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.wait.kind())
    }
}

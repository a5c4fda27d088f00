// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event queue: results of asynchronous control operations, and events that the application
//! writes.
//!
//! In: events of address vectors and memory registrations, and of `fi_eq_write`. Out: events, as
//! the bytes that C reads. Errors have a queue of their own: while it is not empty, [`Eq::read`]
//! returns [`Error::Available`] (`fi_eq(3)`).
//!
//! Bounds: [`Eq::capacity`] events; a further operation is refused until events are read. An
//! insertion that has started may add one error for each of its addresses beyond that.

mod entries;

use std::ffi::c_int;
use std::mem::replace;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::objects::connection_manager::ConnectionRequest;
use crate::objects::fabric::Fabric;
use crate::objects::object_ops::ObjectOps;
use crate::objects::wait_set::{WaitMember, WaitObject};
use crate::sys::abi;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;
use crate::wait::wait_fd::Wait;
use crate::wait::waker::sleep;

use entries::EventEntries;

/// Least capacity of a queue, in events.
const CAPACITY_MIN: usize = 1024;
/// Length of the longest event that an application may write, in bytes.
pub(crate) const EVENT_LEN_MAX: usize = 4096;

/// The attributes of a new queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct EqAttributes {
    /// Least capacity, in events.
    pub(crate) size: usize,
    /// The application may write to it (`FI_WRITE`).
    pub(crate) writable: bool,
    /// The wait object of readers.
    pub(crate) wait: WaitObject,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// `FI_AV_COMPLETE` and so on.
    pub(crate) code: u32,
    /// The structure of the event, as C reads it.
    pub(crate) bytes: Vec<u8>,
    /// The connection request that it reports.
    pub(crate) arrival: Option<ArrivedRequest>,
}

impl Event {
    /// An event that is all in its structure.
    pub(crate) const fn new(code: u32, bytes: Vec<u8>) -> Self {
        Self { code, bytes, arrival: None }
    }

    fn is_of_connection(&self) -> bool {
        matches!(self.code, abi::FI_CONNREQ | abi::FI_CONNECTED | abi::FI_SHUTDOWN)
    }

    /// The object of a connection event, with which `struct fi_eq_cm_entry` begins.
    fn fid_of_connection(&self) -> Option<usize> {
        self.is_of_connection()
            .then(|| self.bytes.first_chunk().copied().map(usize::from_ne_bytes))?
    }

    /// The bytes for a buffer of `room` bytes. The data of a connection event are limited to the
    /// room behind its structure (`fi_eq(3)`).
    ///
    /// # Errors
    /// [`Error::TooSmall`] if there is no room for the others.
    pub(crate) fn bytes_for(&self, room: usize) -> Result<&[u8], Error> {
        let all = self.bytes.len();
        let cut = self.is_of_connection() && room >= size_of::<abi::fi_eq_cm_entry>();
        self.bytes
            .get(..if cut { room.min(all) } else { all })
            .filter(|it| it.len() <= room)
            .ok_or(Error::TooSmall)
    }
}

/// A connection request that has arrived (`FI_CONNREQ`). Its `fi_info` is made when the event is
/// first read. The interfaces are not looked at then: that takes long, and the queue is locked.
#[derive(Debug)]
pub(crate) struct ArrivedRequest {
    /// The request.
    pub(crate) request: Arc<ConnectionRequest>,
    /// The offer that the passive endpoint was opened with.
    pub(crate) template: Arc<OwnedInfo>,
    /// The names of the fabric and of the domain that the peer has asked, unless they are those of
    /// the template.
    pub(crate) names: Option<(String, String)>,
    /// The `fi_info` that the application has seen by `FI_PEEK`.
    pub(crate) info: Option<OwnedInfo>,
}

/// A failed control operation.
#[derive(Clone, Debug)]
pub(crate) struct ErrorEvent {
    /// C's pointer to the object, exposed.
    pub(crate) fid: usize,
    /// The application's context of the operation.
    pub(crate) context: usize,
    /// Data of the operation: for an insertion, the index of the address.
    pub(crate) data: u64,
    /// libfabric's error number.
    pub(crate) number: c_int,
    /// The provider's number, which may say more (`prov_errno`).
    pub(crate) detail: c_int,
    /// Data that the other side's application has added to a rejection.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    events: EventEntries<Event>,
    errors: EventEntries<ErrorEvent>,
    /// The descriptor of readers is readable.
    is_announced: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Eq {
    /// The parent, which stays busy.
    fabric: Arc<Fabric>,
    capacity: usize,
    writable: bool,
    wait: WaitObject,
    /// Readable while an event or an error is queued.
    ready: EventFd,
    state: Mutex<State>,
    /// Data of the error that was read last, for C.
    last_data: Mutex<Vec<u8>>,
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
            last_data: Mutex::default(),
        });
        if let Some(set) = queue.wait.set(fabric)? {
            set.add(&queue)?;
        }
        Ok(queue)
    }

    /// The fabric that it belongs to.
    pub(crate) const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// Takes the first event after `copy` has succeeded; with `peek` the event stays. Returns the
    /// number of bytes that were copied.
    ///
    /// # Errors
    /// [`Error::Available`] while an error must be read first; [`Error::Again`] if there is
    /// no event; the errors of `copy`.
    pub(crate) fn read(
        &self,
        peek: bool,
        copy: impl FnOnce(&mut Event) -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        let mut state = self.lock();
        if !state.errors.is_empty() {
            return Err(Error::Available);
        }
        let event = state.events.first_mut().ok_or(Error::Again)?;
        let len = copy(event)?;
        if !peek {
            state.events.pop();
            self.clear_if_empty(&mut state);
        }
        Ok(len)
    }

    /// `fi_eq_sread`: calls `read` until it returns an event or an error, and sleeps in between.
    /// Another reader may take the event that ended a sleep: then this one sleeps again.
    ///
    /// # Errors
    /// [`Error::Again`] after the timeout, [`Error::Interrupted`]; [`Error::NotSupported`] without
    /// a wait object of its own; other errors of `read`.
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
        let error = state.errors.first().ok_or(Error::Again)?.clone();
        if !peek {
            state.errors.pop();
            self.clear_if_empty(&mut state);
        }
        Ok(error)
    }

    /// Keeps the data of an error until the next one is read (`fi_eq(3)`, `err_data`). Returns
    /// where it is.
    pub(crate) fn keep_data(&self, bytes: Vec<u8>) -> *const u8 {
        let mut kept = self.last_data.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = bytes;
        kept.as_ptr()
    }

    /// `fi_eq_write`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the queue is not writable, or the event too long;
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

    /// Admits an operation that will add events.
    ///
    /// # Errors
    /// [`Error::Again`] when the queue is full.
    pub(crate) fn admit(&self) -> Result<(), Error> {
        let state = self.lock();
        let full = state.events.len().max(state.errors.len()) >= self.capacity;
        if full { Err(Error::Again) } else { Ok(()) }
    }

    /// Adds an event of an admitted operation.
    pub(crate) fn push(&self, event: Event) {
        let mut state = self.lock();
        state.events.push(event.fid_of_connection(), event);
        self.announce(&mut state);
    }

    /// Removes the connection events and the errors of an object that is closed: C's pointer ends.
    /// The caller keeps the requests of a passive endpoint: the last reference to one is dropped
    /// without the lock of this queue.
    pub(crate) fn forget(&self, fid: usize) {
        let mut state = self.lock();
        state.events.forget(fid);
        state.errors.forget(fid);
        self.clear_if_empty(&mut state);
    }

    /// Adds an error of an admitted operation.
    pub(crate) fn push_error(&self, error: ErrorEvent) {
        let mut state = self.lock();
        state.errors.push(Some(error.fid), error);
        self.announce(&mut state);
    }

    fn is_empty(&self) -> bool {
        let state = self.lock();
        state.events.is_empty() && state.errors.is_empty()
    }

    /// Makes the descriptor readable. Called under the lock, like [`Self::clear_if_empty`], so that
    /// the descriptor is readable exactly while an event or an error is queued.
    fn announce(&self, state: &mut State) {
        if !replace(&mut state.is_announced, true) {
            // A counter that is full is readable already.
            let _ = self.ready.write(1);
        }
    }

    /// Makes the descriptor unreadable if both queues are empty.
    fn clear_if_empty(&self, state: &mut State) {
        let is_empty = state.events.is_empty() && state.errors.is_empty();
        if is_empty && replace(&mut state.is_announced, false) {
            // The read fails if the application has read the descriptor, which is harmless.
            let _ = self.ready.read();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitMember for Eq {
    fn join(&self, outer: &Wait) -> Result<(), Error> {
        outer.add(self.ready.as_fd())
    }

    fn leave(&self, outer: &Wait) {
        // It cannot fail on two open descriptors.
        let _ = outer.remove(self.ready.as_fd());
    }

    fn try_wait(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::Again) }
    }

    fn cancel_wait(&self) {}
}

impl ObjectOps for Eq {
    fn close(&self) -> Result<(), Error> {
        self.wait.leave(self);
        Ok(())
    }

    fn member_lock(&self) -> Option<Arc<RwLock<()>>> {
        Some(self.fabric.member_lock())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::wait_set::WaitSet;

    /// A fork may have copied the descriptor.
    #[test]
    fn a_closed_queue_leaves_its_wait_set_where_a_copy_of_it_is_open() {
        let fabric = Fabric::open(None, 0).unwrap();
        let set = WaitSet::open(&fabric, abi::FI_WAIT_FD).unwrap();
        let wait = WaitObject::Set(Arc::clone(&set));
        let queue = Eq::open(&fabric, EqAttributes { wait, ..EqAttributes::default() }).unwrap();
        let _copy = queue.ready.as_fd().try_clone_to_owned().unwrap();
        queue.push(Event::new(abi::FI_AV_COMPLETE, vec![]));
        queue.close().unwrap();
        drop(queue);
        let (start, pause) = (now(), Duration::from_millis(20));
        set.wait.sleep(Some(pause)).unwrap();
        assert!(now().since(start) >= pause, "it ends each sleep");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receives of a shared receive context, in posting order.
//!
//! In: receives as they are posted, cancels, ends of slices. Out: each receive, or a slice of it,
//! to the source that claims it. Called by `endpoint::shared_rx` and `receive_source`. Bound: the
//! size of the context, allocated at once.
//!
//! A receive gets a serial number, so that a source knows which ones it has offered. The end of the
//! last slice releases a multi-receive buffer, and its completion reports that. If no queue reads
//! that completion, because the endpoint is closed or has no queue, the buffer keeps its slot until
//! another endpoint reports it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::matching::matches;
use ofi_xdp_core::{Context, MultiRecv, PeerAddress, RecvRequest, UnmatchedMessage};

use super::memory::buffer::Buffer;
use super::request::{CompletionPolicy, Recv};
use crate::sys::errno::Error;
use crate::wait::waker::Waker;

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) recv: Recv,
    pub(super) source: Option<PeerAddress>,
    /// `FI_COMPLETION`: it writes a completion under the selective policy.
    requested: bool,
    serial: u64,
    /// Set for a multi-receive buffer. A slice is open until its completion is read.
    multi: Option<MultiRecv>,
}

impl Entry {
    pub(super) fn takes(&self, arrival: &UnmatchedMessage) -> bool {
        matches((self.source, self.recv.tag), (arrival.source, arrival.tag))
    }
}

/// The queue behind its lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Slots in posting order: untagged receives, then tagged ones.
    pub(super) order: [VecDeque<u32>; 2],
    /// Slots of multi-receive buffers with an unreported release.
    pub(super) unreported: VecDeque<u32>,
    /// The endpoints that can report, with the wakers of their readers.
    notifiers: Vec<Option<Arc<Waker>>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    state: Mutex<State>,
    /// The serial number of the next receive. Changed under the lock.
    serial: AtomicU64,
    /// Whether there are unreported releases. Changed under the lock.
    pub(super) has_unreported: AtomicBool,
}

/// A receive, or a slice of one, for an engine.
pub(super) struct Claimed {
    pub(super) request: RecvRequest,
    pub(super) buffer: Buffer,
}

/// The end of a slice of a multi-receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SliceEnd {
    /// Whether it releases the buffer.
    pub(crate) released: bool,
    /// Whether its success writes a completion.
    pub(crate) signal: bool,
}

impl RecvQueue {
    /// A queue for `size` receives.
    pub(crate) fn new(size: usize) -> Self {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let capacity = size as usize;
        let order = [VecDeque::with_capacity(capacity), VecDeque::with_capacity(capacity)];
        let state = State {
            slots: vec![None; capacity],
            free: (0..size).rev().collect(),
            order,
            unreported: VecDeque::with_capacity(capacity),
            notifiers: Vec::new(),
        };
        let (state, serial) = (Mutex::new(state), AtomicU64::new(1));
        Self { state, serial, has_unreported: AtomicBool::new(false) }
    }

    /// Sets the endpoints that report unreported releases.
    pub(crate) fn set_notifiers(&self, notifiers: impl Iterator<Item = Option<Arc<Waker>>>) {
        let mut state = self.lock();
        state.notifiers.clear();
        state.notifiers.extend(notifiers);
        if !state.unreported.is_empty() {
            state.wake_notifiers();
        }
    }

    /// Adds a receive; with `min_free`, a multi-receive buffer that ends when fewer bytes are free.
    ///
    /// # Errors
    /// [`Error::Again`] when all slots are in use.
    pub(crate) fn push(
        &self,
        recv: &Recv,
        source: Option<PeerAddress>,
        min_free: Option<u64>,
        requested: bool,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let slot = state.free.pop().ok_or(Error::Again)?;
        let serial = self.serial.load(Ordering::Relaxed);
        let multi = min_free.map(MultiRecv::new);
        if let Some(place) = state.slots.get_mut(slot as usize) {
            *place = Some(Entry { recv: *recv, source, requested, serial, multi });
        }
        state.order[usize::from(recv.tag.is_some())].push_back(slot);
        // Sequentially consistent, like `has_unmatched`: see `endpoint::shared_rx`.
        self.serial.store(serial + 1, Ordering::SeqCst);
        Ok(())
    }

    /// Removes the oldest receive with this context after `complete` has completed it; the flag
    /// says whether it is a multi-receive buffer.
    ///
    /// # Errors
    /// Those of `complete`; the receive keeps its place then.
    pub(crate) fn cancel(
        &self,
        context: Context,
        complete: impl FnOnce(&Recv, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let places = (0..2).flat_map(|class| {
            let count = state.order[class].len();
            (0..count).map(move |at| (class, at))
        });
        let found = places
            .filter_map(|(class, at)| Some((class, at, *state.entry(class, at)?)))
            .filter(|(_, _, entry)| entry.recv.context == context)
            .min_by_key(|(_, _, entry)| entry.serial);
        let Some((class, at, entry)) = found else { return Ok(()) };
        let Some(slot) = state.order[class].remove(at) else { return Ok(()) };
        if entry.multi.is_some_and(|multi| multi.open() > 0) {
            // The end of its last slice releases it.
            state.close(slot);
            return Ok(());
        }
        // Completed without the lock, which comes after a runtime's. No engine has or gets a slice.
        drop(state);
        let completed = complete(&entry.recv, entry.multi.is_some());
        let mut state = self.lock();
        if completed.is_ok() {
            state.release(slot);
        } else {
            let at = state.first_since(class, entry.serial);
            state.order[class].insert(at, slot);
        }
        completed
    }

    /// The free slots.
    pub(crate) fn room(&self) -> usize {
        self.lock().free.len()
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial.load(Ordering::SeqCst)
    }

    /// Ends a slice of the buffer in `slot`, at an endpoint with this policy; `read`: its
    /// completion is read there. The last end releases the buffer if the endpoint has a queue, or
    /// if no endpoint has one. Otherwise the release is unreported.
    pub(super) fn finish(&self, slot: u32, policy: CompletionPolicy, read: bool) -> SliceEnd {
        let mut state = self.lock();
        let reports = read && (policy != CompletionPolicy::None || state.notifiers.is_empty());
        let entry = state.slots.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(Entry { requested, multi: Some(multi), .. }) = entry else {
            return SliceEnd { released: false, signal: policy.admits(true) };
        };
        let last = multi.end_slice();
        let end = SliceEnd { released: last && reports, signal: policy.admits(*requested) };
        if end.released {
            state.release(slot);
        } else if last {
            state.unreported.push_back(slot);
            self.has_unreported.store(true, Ordering::SeqCst);
            state.wake_notifiers();
        }
        end
    }

    // No code under the lock panics between two changes.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn entry(&self, class: usize, at: usize) -> Option<&Entry> {
        let slot = *self.order[class].get(at)?;
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The place of the first receive with a serial number from `serial` on.
    pub(super) fn first_since(&self, class: usize, serial: u64) -> usize {
        self.order[class].partition_point(|&slot| {
            let entry = self.slots.get(slot as usize).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.serial < serial)
        })
    }

    pub(super) fn release(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = None;
            self.free.push(slot);
        }
    }

    /// Wakes the readers of the notifiers, asleep or not: no common lock orders this call and one
    /// that is about to sleep.
    fn wake_notifiers(&self) {
        self.notifiers.iter().flatten().for_each(|waker| waker.force());
    }

    /// Ends a multi-receive buffer: it takes no more messages.
    fn close(&mut self, slot: u32) {
        let entry = self.slots.get_mut(slot as usize).and_then(Option::as_mut);
        if let Some(Entry { multi: Some(multi), .. }) = entry {
            multi.close();
        }
    }

    /// Claims the receive at a place of its queue, or a slice of `len` bytes of it.
    pub(super) fn claim(
        &mut self,
        class: usize,
        at: usize,
        len: u64,
        policy: CompletionPolicy,
    ) -> Option<Claimed> {
        let slot = *self.order[class].get(at)?;
        let entry = self.slots.get_mut(slot as usize)?.as_mut()?;
        let Recv { buffer, tag, context, .. } = entry.recv;
        let whole = buffer.len() as u64;
        let mut request = RecvRequest { from: None, len: whole, context, tag, signal: false };
        let Some(multi) = &mut entry.multi else {
            request.signal = policy.admits(entry.requested);
            self.order[class].remove(at);
            self.release(slot);
            return Some(Claimed { request, buffer });
        };
        let (offset, len) = multi.next_slice(whole, len);
        request.len = len;
        // Each slice ends in a completion for the runtime: it may be written until then.
        request.signal = true;
        let buffer = buffer.slice(offset, slot);
        multi.open_slice(whole, len);
        if multi.is_closed() {
            self.order[class].remove(at);
        }
        Some(Claimed { request, buffer })
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receives of a shared receive context, in posting order.
//!
//! In: receives as they are posted. Out: each to the engine that has a message for it, by
//! [`SharedSource`], which every endpoint has for itself. A receive gets a serial number; a source
//! remembers below which number everything was offered to the messages that its endpoint stores,
//! so that a new receive costs one search. While a source is behind, its endpoint's messages are
//! stored, for they would overtake those that wait.
//!
//! A buffer for many messages is the application's again when the last of them has ended, which
//! the completion of that one says. Where nobody reads it, because the endpoint is closed or has
//! no queue, the buffer keeps its slot until an endpoint that has one tells of it
//! ([`SharedSource::tell`]). Bounds: the size, which is allocated at once; the endpoints.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::{Arrival, Context, Engine, PeerAddress, RecvRequest};

use crate::ep::Reports;
use crate::errno::Error;
use crate::memory::{AppMemory, Buffer};
use crate::ops::Recv;
use crate::waker::Waker;

/// How far a buffer for many messages is given away.
#[derive(Clone, Copy, Debug)]
struct Many {
    /// Bytes from its beginning on that belong to messages.
    used: u64,
    /// No more messages when fewer bytes than this are left.
    least: u64,
    /// Messages in it whose completions were not read.
    open: u32,
    /// It takes no more messages.
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    recv: Recv,
    source: Option<PeerAddress>,
    /// It asks for a completion where that is not given to all (`FI_COMPLETION`).
    told: bool,
    serial: u64,
    many: Option<Many>,
}

impl Entry {
    fn takes(&self, arrival: &Arrival) -> bool {
        self.source.is_none_or(|source| source == arrival.source)
            && match (self.recv.tag, arrival.tag) {
                (Some(wanted), Some(tag)) => wanted.takes(tag),
                (None, None) => true,
                _ => false,
            }
    }
}

#[derive(Debug)]
struct State {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Slots in posting order: untagged receives, then tagged ones.
    order: [VecDeque<u32>; 2],
    /// Slots of buffers for many messages that have ended, and nobody told.
    untold: VecDeque<u32>,
    /// Wakers, where there are any, of the endpoints that can tell.
    tellers: Vec<Option<Arc<Waker>>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    state: Mutex<State>,
    /// The next receive's serial number. Changed under the lock.
    serial: AtomicU64,
    /// There is something untold. Changed under the lock.
    owes: AtomicBool,
}

/// A receive, or a part of one, that goes to an engine.
struct Given {
    request: RecvRequest,
    buffer: Buffer,
}

/// What the end of a message means for the buffer that it lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartEnd {
    /// The buffer is the application's again.
    pub(crate) released: bool,
    /// Its success makes a completion.
    pub(crate) told: bool,
}

impl RecvQueue {
    /// For `size` receives at a time.
    pub(crate) fn new(size: usize) -> Self {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let capacity = size as usize;
        let order = [VecDeque::with_capacity(capacity), VecDeque::with_capacity(capacity)];
        let state = State {
            slots: vec![None; capacity],
            free: (0..size).rev().collect(),
            order,
            untold: VecDeque::with_capacity(capacity),
            tellers: Vec::new(),
        };
        let (state, serial) = (Mutex::new(state), AtomicU64::new(1));
        Self { state, serial, owes: AtomicBool::new(false) }
    }

    /// From now on these endpoints tell what nobody told.
    pub(crate) fn set_tellers(&self, tellers: impl Iterator<Item = Option<Arc<Waker>>>) {
        let mut state = self.lock();
        state.tellers.clear();
        state.tellers.extend(tellers);
        if !state.untold.is_empty() {
            state.wake_tellers();
        }
    }

    /// Adds a receive; with `least`, a buffer for many messages until fewer bytes are left.
    ///
    /// # Errors
    /// [`Error::Again`] when there are as many as it was made for.
    pub(crate) fn push(
        &self,
        recv: &Recv,
        source: Option<PeerAddress>,
        least: Option<u64>,
        told: bool,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let slot = state.free.pop().ok_or(Error::Again)?;
        let serial = self.serial.load(Ordering::Relaxed);
        let many = least.map(|least| Many { used: 0, least, open: 0, closed: false });
        if let Some(place) = state.slots.get_mut(slot as usize) {
            *place = Some(Entry { recv: *recv, source, told, serial, many });
        }
        state.order[usize::from(recv.tag.is_some())].push_back(slot);
        // Sequentially consistent, as the word that an endpoint is hungry: see `srx`.
        self.serial.store(serial + 1, Ordering::SeqCst);
        Ok(())
    }

    /// Takes the oldest receive with this context out, if `tell` can say so.
    ///
    /// # Errors
    /// What `tell` says; the receive is where it was then.
    pub(crate) fn cancel(
        &self,
        context: Context,
        tell: impl FnOnce(&Recv, bool) -> Result<(), Error>,
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
        if entry.many.is_some_and(|many| many.open > 0) {
            // The last of its messages says that it is the application's again.
            state.close(slot);
            return Ok(());
        }
        // Told without the lock, which comes after an endpoint's. Nobody has, or gets, any of it.
        drop(state);
        let told = tell(&entry.recv, entry.many.is_some());
        let mut state = self.lock();
        if told.is_ok() {
            state.release(slot);
        } else {
            let at = state.first_since(class, entry.serial);
            state.order[class].insert(at, slot);
        }
        told
    }

    /// How many more receives fit.
    pub(crate) fn room(&self) -> usize {
        self.lock().free.len()
    }

    fn serial(&self) -> u64 {
        self.serial.load(Ordering::SeqCst)
    }

    /// A message in the buffer in `slot` has ended, at an endpoint with these reports; whether
    /// that is `read` there. If it is the last, an endpoint that has a queue says so then; others
    /// leave it to those that have, if there are any.
    fn finish(&self, slot: u32, reports: Reports, read: bool) -> PartEnd {
        let mut state = self.lock();
        let over = read && (reports != Reports::Never || state.tellers.is_empty());
        let entry = state.slots.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(Entry { told, many: Some(many), .. }) = entry else {
            return PartEnd { released: false, told: reports.asked(true) };
        };
        many.open = many.open.saturating_sub(1);
        let last = many.closed && many.open == 0;
        let end = PartEnd { released: last && over, told: reports.asked(*told) };
        if end.released {
            state.release(slot);
        } else if last {
            state.untold.push_back(slot);
            self.owes.store(true, Ordering::SeqCst);
            state.wake_tellers();
        }
        end
    }

    // Nothing under the lock panics half way.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entry(&self, class: usize, at: usize) -> Option<&Entry> {
        let slot = *self.order[class].get(at)?;
        self.slots.get(slot as usize)?.as_ref()
    }

    /// Where the receives begin whose serial numbers are not below `serial`.
    fn first_since(&self, class: usize, serial: u64) -> usize {
        self.order[class].partition_point(|&slot| {
            let entry = self.slots.get(slot as usize).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.serial < serial)
        })
    }

    fn release(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = None;
            self.free.push(slot);
        }
    }

    /// Wakes whoever may tell, sleeper or not: who is about to sleep has no lock in common with
    /// this endpoint that would order the two.
    fn wake_tellers(&self) {
        self.tellers.iter().flatten().for_each(|waker| waker.force());
    }

    /// The buffer takes no more messages.
    fn close(&mut self, slot: u32) {
        let entry = self.slots.get_mut(slot as usize).and_then(Option::as_mut);
        if let Some(Entry { many: Some(many), .. }) = entry {
            many.closed = true;
        }
    }

    /// Gives away the receive at a place of its queue, or the next `len` bytes of it.
    fn give(&mut self, class: usize, at: usize, len: u64, reports: Reports) -> Option<Given> {
        let slot = *self.order[class].get(at)?;
        let entry = self.slots.get_mut(slot as usize)?.as_mut()?;
        let Recv { buffer, tag, context, .. } = entry.recv;
        let whole = buffer.len() as u64;
        let mut request = RecvRequest { from: None, len: whole, context, tag, signal: false };
        let Some(many) = &mut entry.many else {
            request.signal = reports.asked(entry.told);
            self.order[class].remove(at);
            self.release(slot);
            return Some(Given { request, buffer });
        };
        let left = whole - many.used;
        request.len = len.min(left);
        // The end of each is seen here, whether it is told or not: so long it may be written to.
        request.signal = true;
        let buffer = buffer.part(many.used, slot);
        many.used += request.len;
        many.open += 1;
        if left - request.len < many.least {
            many.closed = true;
            self.order[class].remove(at);
        }
        Some(Given { request, buffer })
    }
}

/// An endpoint's way to the receives of its shared context. Belongs to the endpoint's lock.
#[derive(Debug)]
pub(crate) struct SharedSource {
    queue: Arc<RecvQueue>,
    reports: Reports,
    /// Receives below this serial number fit nothing that the endpoint stores.
    seen: u64,
}

impl SharedSource {
    pub(super) const fn new(queue: Arc<RecvQueue>, reports: Reports) -> Self {
        Self { queue, reports, seen: 0 }
    }

    /// The first receive that fits a message, or nothing: it will be stored then.
    pub(crate) fn supply(&mut self, arrival: &Arrival) -> Option<(RecvRequest, Buffer)> {
        let mut state = self.queue.lock();
        if !arrival.room {
            // Not looked for: it may fit any of them.
            self.seen = 0;
            return None;
        }
        let serial = self.queue.serial();
        if arrival.overtakes && self.seen != serial {
            return None;
        }
        let class = usize::from(arrival.tag.is_some());
        let count = state.order[class].len();
        let fits = |&at: &usize| state.entry(class, at).is_some_and(|it| it.takes(arrival));
        let Some(at) = (0..count).find(fits) else {
            self.seen = serial;
            return None;
        };
        let Given { request, buffer } = state.give(class, at, arrival.len, self.reports)?;
        Some((request, buffer))
    }

    /// Gives the messages that the endpoint stores the receives that are new to it; whether any
    /// fitted.
    pub(crate) fn offer(&mut self, engine: &mut Engine<'_>, memory: &mut AppMemory) -> bool {
        if self.seen == self.queue.serial() {
            return false;
        }
        let mut state = self.queue.lock();
        let serial = self.queue.serial();
        let mut fitted = false;
        for class in 0..2 {
            let mut at = state.first_since(class, self.seen);
            // bound: receives, and stored messages
            while let Some(entry) = state.entry(class, at) {
                let Some((request, len)) = fitting(engine, entry) else {
                    at += 1;
                    continue;
                };
                if engine.free_receives() == 0 {
                    // All over again, when completions have been read.
                    self.seen = 0;
                    return fitted;
                }
                let Some(given) = state.give(class, at, len, self.reports) else { break };
                let request = RecvRequest { from: request.from, ..given.request };
                // There is a message that fits, and a slot: both were asked for above.
                let posted = engine.post_shared(request, given.buffer, memory);
                debug_assert!(posted.is_ok(), "{posted:?}");
                fitted = true;
            }
        }
        self.seen = serial;
        fitted
    }

    /// A message in the buffer in `slot` has ended.
    pub(crate) fn finish(&self, slot: u32) -> PartEnd {
        self.queue.finish(slot, self.reports, true)
    }

    /// The same of one whose end nobody reads.
    pub(crate) fn abandon(&self, slot: u32) {
        self.queue.finish(slot, self.reports, false);
    }

    /// Tells of the buffers that have ended where nobody could tell, if this endpoint can.
    #[inline]
    pub(crate) fn tell(&self, engine: &mut Engine<'_>) {
        if self.reports != Reports::Never && self.queue.owes.load(Ordering::SeqCst) {
            self.tell_untold(engine);
        }
    }

    #[cold]
    fn tell_untold(&self, engine: &mut Engine<'_>) {
        let mut state = self.queue.lock();
        // bound: the size
        while let Some(&slot) = state.untold.front() {
            if let Some(Some(entry)) = state.slots.get(slot as usize) {
                let Recv { tag, context, .. } = entry.recv;
                let request = RecvRequest { from: None, len: 0, context, tag, signal: true };
                if engine.post_cancelled(request, true).is_err() {
                    // Later, when completions have been read.
                    return;
                }
            }
            state.untold.pop_front();
            state.release(slot);
        }
        self.queue.owes.store(false, Ordering::SeqCst);
    }
}

/// The length of the stored message that a receive fits, and the question that found it.
fn fitting(engine: &mut Engine<'_>, entry: &Entry) -> Option<(RecvRequest, u64)> {
    let from = match entry.source {
        None => None,
        // A peer that the engine does not know has sent nothing.
        Some(source) => Some(engine.find(&source)?),
    };
    let Recv { tag, context, .. } = entry.recv;
    let request = RecvRequest { from, len: 0, context, tag, signal: false };
    Some((request, engine.stored_len(&request)?))
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The deferred work of a domain, and triggered operations (`fi_trigger(3)`): what begins when a
//! counter has come far enough.
//!
//! What comes in: work, from `fi_control(domain, FI_QUEUE_WORK)` and from calls with `FI_TRIGGER`;
//! the word that something may have changed ([`WorkQueue::run`]), from whoever has made progress or
//! changed a counter. What goes out: posts to endpoints, changes of counters, in the order of the
//! thresholds; and, when an operation of deferred work has ended, one more in its completion
//! counter.
//!
//! Nothing here is told when a counter moves, for counters are sums over endpoints (`cntr`): while
//! there is any work, each progress call ends with a look at the counters that work waits for. With
//! no work that is one load.
//!
//! ```text
//!   queued ──threshold──▶ posted (deferred work: under way) ──▶ ended, counted
//! ```
//!
//! Locks: this one, then a counter's, an endpoint's. Nobody calls in with one of those held. Bound:
//! [`WORK_MAX`] queued, the endpoints' operations under way.

mod triggered;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::DeferredId;

use crate::cntr::Cntr;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::{Atomic, Recv, Rma, Send};
use crate::progress::ActiveEndpoint;

/// Most works that wait in a domain.
pub(crate) const WORK_MAX: usize = 4096;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Op {
    /// A send, tagged or not.
    Send(Arc<Endpoint>, Send),
    /// A receive, tagged or not.
    Recv(Arc<Endpoint>, Recv),
    /// A write to a peer's memory.
    Write(Arc<Endpoint>, Rma),
    /// A read of it.
    Read(Arc<Endpoint>, Rma),
    /// An atomic operation of any form.
    Atomic(Arc<Endpoint>, Atomic),
    /// `FI_OP_CNTR_SET`.
    Set(Arc<Cntr>, u64),
    /// `FI_OP_CNTR_ADD`.
    Add(Arc<Cntr>, u64),
}

/// A work, and what it waits for.
#[derive(Debug)]
pub(crate) struct Work {
    /// The application's structure: its name for the work.
    pub(crate) id: usize,
    /// What it waits for: values and errors of this counter.
    pub(crate) counter: Arc<Cntr>,
    /// To reach this.
    pub(crate) threshold: u64,
    /// What is to be done then.
    pub(crate) op: Op,
    /// Counts its end.
    pub(crate) completion: Option<Arc<Cntr>>,
}

/// What waits for one counter, by threshold and, of one threshold, in order of submission.
#[derive(Debug)]
struct Trigger {
    counter: Arc<Cntr>,
    waiting: BTreeMap<(u64, u64), Work>,
}

/// Operations of deferred work that one endpoint has not ended, with their completion counters.
#[derive(Debug)]
struct UnderWay {
    endpoint: Arc<ActiveEndpoint>,
    ops: HashMap<DeferredId, Option<Arc<Cntr>>>,
}

#[derive(Debug, Default)]
struct State {
    triggers: Vec<Trigger>,
    queued: usize,
    submissions: u64,
    under_way: Vec<UnderWay>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    /// There is work, queued or under way. Changed under the lock.
    busy: AtomicBool,
    state: Mutex<State>,
}

impl WorkQueue {
    /// Whether there is any work.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Adds a work; it begins at once if its condition is met.
    ///
    /// # Errors
    /// [`Error::Again`] when there are [`WORK_MAX`].
    pub(crate) fn push(&self, work: Work) -> Result<(), Error> {
        let mut state = self.lock();
        if state.queued >= WORK_MAX {
            return Err(Error::Again);
        }
        state.push(work);
        self.busy.store(true, Ordering::Relaxed);
        self.work_off(&mut state);
        Ok(())
    }

    /// Takes back deferred work that has not begun; calls that wait are their endpoint's.
    ///
    /// # Errors
    /// [`Error::Os`] with `ENOENT` if there is none.
    pub(crate) fn cancel(&self, id: usize) -> Result<(), Error> {
        self.remove(|work| work.id == id && work.op.call().is_none())
    }

    /// Takes back all deferred work that has not begun, or what of it waits for `counter`.
    pub(crate) fn flush(&self, counter: Option<&Arc<Cntr>>) {
        let chosen = |work: &Work| {
            work.op.call().is_none() && counter.is_none_or(|it| Arc::ptr_eq(it, &work.counter))
        };
        // Nothing to take back is no error.
        let _ = self.remove(chosen);
    }

    fn remove(&self, chosen: impl Fn(&Work) -> bool) -> Result<(), Error> {
        let removed = self.remove_from(&mut self.lock(), chosen);
        if removed > 0 { Ok(()) } else { Err(Error::Os(libc::ENOENT)) }
    }

    /// Takes back what has not begun; how much that is.
    fn remove_from(&self, state: &mut State, chosen: impl Fn(&Work) -> bool) -> usize {
        let before = state.queued;
        for trigger in &mut state.triggers {
            trigger.waiting.retain(|_, work| !chosen(work));
        }
        state.queued = state.works().count();
        let removed = before - state.queued;
        self.settle(state);
        removed
    }

    /// An endpoint closes: what it has under way ends with it, uncounted.
    pub(crate) fn forget(&self, endpoint: &Arc<ActiveEndpoint>) {
        let mut state = self.lock();
        state.under_way.retain(|it| !Arc::ptr_eq(&it.endpoint, endpoint));
        self.settle(&mut state);
    }

    /// Does what is due: called when progress was made, or a counter changed.
    #[inline]
    pub(crate) fn run(&self) {
        if self.is_busy() {
            self.work_off(&mut self.lock());
        }
    }

    #[cold]
    fn work_off(&self, state: &mut State) {
        // bound: the queued works, of which each round but the last does one
        loop {
            state.count_ends();
            if !state.fire() {
                break;
            }
        }
        self.settle(state);
    }

    fn settle(&self, state: &mut State) {
        state.triggers.retain(|trigger| !trigger.waiting.is_empty());
        state.under_way.retain(|endpoint| !endpoint.ops.is_empty());
        let busy = !state.triggers.is_empty() || !state.under_way.is_empty();
        self.busy.store(busy, Ordering::Relaxed);
    }

    // What the lock protects is consistent between any two statements that can panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What has not begun.
    fn works(&self) -> impl Iterator<Item = &Work> {
        self.triggers.iter().flat_map(|trigger| trigger.waiting.values())
    }

    fn push(&mut self, work: Work) {
        let place = (work.threshold, self.submissions);
        self.submissions += 1;
        self.queued += 1;
        let known = |it: &&mut Trigger| Arc::ptr_eq(&it.counter, &work.counter);
        if let Some(trigger) = self.triggers.iter_mut().find(known) {
            trigger.waiting.insert(place, work);
        } else {
            let counter = Arc::clone(&work.counter);
            self.triggers.push(Trigger { counter, waiting: BTreeMap::from([(place, work)]) });
        }
    }

    /// Counts what has ended.
    fn count_ends(&mut self) {
        for UnderWay { endpoint, ops } in &mut self.under_way {
            // Taken first, counted then: a counter's lock comes before an endpoint's.
            for (id, success) in endpoint.take_ended() {
                if let Some(counter) = ops.remove(&id).flatten() {
                    counter.change(u64::from(success), u64::from(!success));
                }
            }
        }
    }

    /// Begins what is due; whether anything was.
    fn fire(&mut self) -> bool {
        let Self { triggers, queued, under_way, .. } = self;
        let mut fired = false;
        for Trigger { counter, waiting } in triggers {
            let total = counter.total();
            // bound: the works that wait for it
            while let Some(first) = waiting.first_entry()
                && first.get().threshold <= total
            {
                // Where the endpoint has no room it keeps its place.
                let Ok(begun) = first.get().begin() else { break };
                let Work { completion, .. } = first.remove();
                if let Some((endpoint, id)) = begun {
                    note(under_way, &endpoint, id, completion);
                }
                *queued -= 1;
                fired = true;
            }
        }
        fired
    }
}

impl Work {
    /// Does it, as [`Op::begin`]; or tells who waits for its end that it cannot be done.
    ///
    /// # Errors
    /// [`Error::Again`] when the endpoint has no room.
    fn begin(&self) -> Result<Option<(Arc<ActiveEndpoint>, DeferredId)>, Error> {
        match self.op.begin() {
            Err(error) if error != Error::Again => {
                if let Some(call) = self.op.call() {
                    call.refuse(error)?;
                }
                log::warn!(target: "ep_data", "deferred work cannot begin: {error}");
                if let Some(counter) = &self.completion {
                    counter.change(0, 1);
                }
                Ok(None)
            }
            begun => begun,
        }
    }
}

/// Remembers an operation until it ends.
fn note(
    under_way: &mut Vec<UnderWay>,
    endpoint: &Arc<ActiveEndpoint>,
    id: DeferredId,
    completion: Option<Arc<Cntr>>,
) {
    let known = under_way.iter_mut().find(|it| Arc::ptr_eq(&it.endpoint, endpoint));
    if let Some(known) = known {
        known.ops.insert(id, completion);
    } else {
        let ops = HashMap::from([(id, completion)]);
        under_way.push(UnderWay { endpoint: Arc::clone(endpoint), ops });
    }
}

impl Op {
    /// The endpoint that it is for.
    pub(crate) const fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        match self {
            Self::Send(endpoint, _)
            | Self::Recv(endpoint, _)
            | Self::Write(endpoint, _)
            | Self::Read(endpoint, _)
            | Self::Atomic(endpoint, _) => Some(endpoint),
            Self::Set(..) | Self::Add(..) => None,
        }
    }

    /// The counter that it changes.
    pub(crate) const fn counter(&self) -> Option<&Arc<Cntr>> {
        match self {
            Self::Set(counter, _) | Self::Add(counter, _) => Some(counter),
            _ => None,
        }
    }

    /// Does it; of an operation whose end is to be counted, where it is under way and as what.
    fn begin(&self) -> Result<Option<(Arc<ActiveEndpoint>, DeferredId)>, Error> {
        let id = match self {
            Self::Set(counter, value) => {
                counter.change_to(Some(*value), None);
                return Ok(None);
            }
            Self::Add(counter, value) => {
                counter.change(*value, 0);
                return Ok(None);
            }
            Self::Send(endpoint, send) => endpoint.post_send(send)?,
            Self::Write(endpoint, write) => endpoint.post_write(write)?,
            Self::Read(endpoint, read) => endpoint.post_read(read)?,
            Self::Atomic(endpoint, atomic) => endpoint.post_atomic(atomic)?,
            Self::Recv(endpoint, recv) => endpoint.post_recv(recv)?,
        };
        let (Some(endpoint), Some(id)) = (self.endpoint(), id) else { return Ok(None) };
        Ok(Some((Arc::clone(&endpoint.running()?.active), id)))
    }
}

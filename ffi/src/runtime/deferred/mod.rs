// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deferred work and triggered operations (`fi_trigger(3)`): actions that start when a counter
//! reaches a threshold.
//!
//! In: work, from `fi_control(domain, FI_QUEUE_WORK)` and from calls with `FI_TRIGGER`;
//! [`WorkQueue::run`], from each call that has made progress or changed a counter. Out: posts to
//! endpoints and changes of counters, in the order of the thresholds. Also out: one increment of
//! the completion counter when an operation of deferred work ends.
//!
//! A counter is a sum over runtimes and notifies the queue of nothing. While there is work, each
//! progress call ends with a comparison of the counters that work waits for. Without work it is one
//! load.
//!
//! ```text
//!   queued ──threshold──▶ posted (deferred work: under way) ──▶ ended, counted
//! ```
//!
//! Lock order: this one, then a counter's, a runtime's. No caller holds one of those. Bound:
//! [`WORK_MAX`] queued, and the runtimes' operations under way.

mod triggered;

use std::collections::{BTreeMap, HashMap};
use std::ptr::addr_eq;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::{DeferredId, PeerId};

use crate::runtime::{Recv, Request, Runtime};
use crate::sys::errno::Error;

/// An endpoint, as work that waits for a counter needs it.
pub(crate) trait Initiator: std::fmt::Debug + Send + Sync {
    /// Posts an operation; the name of a deferred one.
    ///
    /// # Errors
    /// As [`Runtime::post`]; [`Error::BadFlags`].
    fn post(&self, request: &Request) -> Result<Option<DeferredId>, Error>;

    /// Posts a receive; the name of a deferred one.
    ///
    /// # Errors
    /// As [`Runtime::receive`]; [`Error::BadFlags`]; [`Error::NotSupported`].
    fn receive(&self, recv: &Recv) -> Result<Option<DeferredId>, Error>;

    /// The runtime that it is enabled on.
    ///
    /// # Errors
    /// [`Error::BadState`] before `fi_enable`.
    fn runtime(&self) -> Result<&Arc<Runtime>, Error>;

    /// The peer of a connected endpoint, after `fi_enable`.
    fn peer(&self) -> Option<PeerId>;
}

/// A counter, as work that waits for it or changes it needs it.
pub(crate) trait WorkCounter: std::fmt::Debug + Send + Sync {
    /// The sum of successes and errors, without further progress.
    fn total(&self) -> u64;

    /// Adds successes and errors.
    fn change(&self, done: u64, failed: u64);

    /// Sets the number of successes.
    fn set_done(&self, done: u64);
}

/// Most works that wait in a domain.
pub(crate) const WORK_MAX: usize = 4096;

/// The action that a work starts.
#[derive(Debug)]
pub(crate) enum Action {
    /// A send, write, read or atomic operation.
    Post(Arc<dyn Initiator>, Request),
    /// A receive.
    Receive(Arc<dyn Initiator>, Recv),
    /// `FI_OP_CNTR_SET`.
    Set(Arc<dyn WorkCounter>, u64),
    /// `FI_OP_CNTR_ADD`.
    Add(Arc<dyn WorkCounter>, u64),
}

/// An action, and the condition that starts it.
#[derive(Debug)]
pub(crate) struct Work {
    /// The address of the application's structure, which names the work.
    pub(crate) id: usize,
    /// The counter of the condition.
    pub(crate) counter: Arc<dyn WorkCounter>,
    /// The total that starts the action.
    pub(crate) threshold: u64,
    /// The action.
    pub(crate) action: Action,
    /// Counts the end of the operation.
    pub(crate) completion: Option<Arc<dyn WorkCounter>>,
}

/// The works that wait for one counter, by threshold, then by order of submission.
#[derive(Debug)]
struct Trigger {
    counter: Arc<dyn WorkCounter>,
    waiting: BTreeMap<(u64, u64), Work>,
}

/// Deferred operations of one runtime that have not ended, with their completion counters.
#[derive(Debug)]
struct UnderWay {
    runtime: Arc<Runtime>,
    ops: HashMap<DeferredId, Option<Arc<dyn WorkCounter>>>,
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
    /// Whether there is work, queued or under way. Changed under the lock.
    busy: AtomicBool,
    state: Mutex<State>,
}

impl WorkQueue {
    /// Whether there is work.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Adds a work; it starts at once if its condition holds.
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

    /// Cancels deferred work that has not started. Triggered operations belong to their endpoint.
    ///
    /// # Errors
    /// [`Error::Os`] with `ENOENT` if there is none.
    pub(crate) fn cancel(&self, id: usize) -> Result<(), Error> {
        self.remove(|work| work.id == id && work.action.call().is_none())
    }

    /// Cancels all deferred work that has not started; with `counter`, the works that wait for it.
    pub(crate) fn flush(&self, counter: Option<&dyn WorkCounter>) {
        let chosen = |work: &Work| {
            work.action.call().is_none()
                && counter.is_none_or(|it| addr_eq(it, Arc::as_ptr(&work.counter)))
        };
        // An empty selection is no error.
        let _ = self.remove(chosen);
    }

    fn remove(&self, chosen: impl Fn(&Work) -> bool) -> Result<(), Error> {
        let removed = self.remove_from(&mut self.lock(), chosen);
        if removed > 0 { Ok(()) } else { Err(Error::Os(libc::ENOENT)) }
    }

    /// Removes works that have not started; returns their number.
    fn remove_from(&self, state: &mut State, chosen: impl Fn(&Work) -> bool) -> usize {
        let before = state.queued;
        for trigger in &mut state.triggers {
            trigger.waiting.retain(|_, work| !chosen(work));
        }
        state.queued = state.works().count();
        let removed = before - state.queued;
        self.prune(state);
        removed
    }

    /// Drops the operations under way of a runtime that closes: they end uncounted.
    pub(crate) fn forget(&self, runtime: &Arc<Runtime>) {
        let mut state = self.lock();
        state.under_way.retain(|it| !Arc::ptr_eq(&it.runtime, runtime));
        self.prune(&mut state);
    }

    /// Whether this is the only reference to a counter. A work that has started keeps its own until
    /// the caller that has started it leaves the lock; its effects are seen before.
    pub(crate) fn is_only_reference<C: WorkCounter>(&self, counter: &Arc<C>) -> bool {
        let _state = self.lock();
        Arc::strong_count(counter) == 1
    }

    /// Starts the works that are due. Called after progress, and after a change of a counter.
    #[inline]
    pub(crate) fn run(&self) {
        if self.is_busy() {
            self.work_off(&mut self.lock());
        }
    }

    #[cold]
    fn work_off(&self, state: &mut State) {
        // bound: the queued works; each round but the last starts one
        loop {
            state.count_ends();
            if !state.fire() {
                break;
            }
        }
        self.prune(state);
    }

    fn prune(&self, state: &mut State) {
        state.triggers.retain(|trigger| !trigger.waiting.is_empty());
        state.under_way.retain(|it| !it.ops.is_empty());
        let busy = !state.triggers.is_empty() || !state.under_way.is_empty();
        self.busy.store(busy, Ordering::Relaxed);
    }

    // The state is consistent between any two statements that can panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The works that have not started.
    fn works(&self) -> impl Iterator<Item = &Work> {
        self.triggers.iter().flat_map(|trigger| trigger.waiting.values())
    }

    fn push(&mut self, work: Work) {
        let key = (work.threshold, self.submissions);
        self.submissions += 1;
        self.queued += 1;
        let known = |it: &&mut Trigger| Arc::ptr_eq(&it.counter, &work.counter);
        if let Some(trigger) = self.triggers.iter_mut().find(known) {
            trigger.waiting.insert(key, work);
        } else {
            let counter = Arc::clone(&work.counter);
            self.triggers.push(Trigger { counter, waiting: BTreeMap::from([(key, work)]) });
        }
    }

    /// Counts the operations that have ended.
    fn count_ends(&mut self) {
        for UnderWay { runtime, ops } in &mut self.under_way {
            // Taken before they are counted: a counter's lock comes before a runtime's.
            for (id, success) in runtime.take_ended() {
                if let Some(counter) = ops.remove(&id).flatten() {
                    counter.change(u64::from(success), u64::from(!success));
                }
            }
        }
    }

    /// Starts the works that are due; whether there were any.
    fn fire(&mut self) -> bool {
        let Self { triggers, queued, under_way, .. } = self;
        let mut fired = false;
        for Trigger { counter, waiting } in triggers {
            let total = counter.total();
            // bound: the works that wait for it
            while let Some(first) = waiting.first_entry()
                && first.get().threshold <= total
            {
                // Without a free slot at the endpoint the work keeps its position.
                let Ok(begun) = first.get().begin() else { break };
                let Work { completion, .. } = first.remove();
                if let Some((runtime, id)) = begun {
                    track(under_way, &runtime, id, completion);
                }
                *queued -= 1;
                fired = true;
            }
        }
        fired
    }
}

impl Work {
    /// Starts the action. If that fails for good, the failure is reported as the end of the
    /// operation.
    ///
    /// # Errors
    /// [`Error::Again`] when the endpoint has no room.
    fn begin(&self) -> Result<Option<(Arc<Runtime>, DeferredId)>, Error> {
        match self.action.begin() {
            Err(error) if error != Error::Again => {
                if let Some(call) = self.action.call() {
                    call.fail(error)?;
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
fn track(
    under_way: &mut Vec<UnderWay>,
    runtime: &Arc<Runtime>,
    id: DeferredId,
    completion: Option<Arc<dyn WorkCounter>>,
) {
    let known = under_way.iter_mut().find(|it| Arc::ptr_eq(&it.runtime, runtime));
    if let Some(known) = known {
        known.ops.insert(id, completion);
    } else {
        let ops = HashMap::from([(id, completion)]);
        under_way.push(UnderWay { runtime: Arc::clone(runtime), ops });
    }
}

impl Action {
    /// Starts it. For an operation of deferred work: its runtime, and its name there.
    fn begin(&self) -> Result<Option<(Arc<Runtime>, DeferredId)>, Error> {
        let (endpoint, id) = match self {
            Self::Set(counter, value) => {
                counter.set_done(*value);
                return Ok(None);
            }
            Self::Add(counter, value) => {
                counter.change(*value, 0);
                return Ok(None);
            }
            Self::Post(endpoint, request) => (endpoint, endpoint.post(request)?),
            Self::Receive(endpoint, recv) => (endpoint, endpoint.receive(recv)?),
        };
        let Some(id) = id else { return Ok(None) };
        Ok(Some((Arc::clone(endpoint.runtime()?), id)))
    }
}

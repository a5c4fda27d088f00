// SPDX-License-Identifier: MIT OR Apache-2.0
//! A counter (`fi_cntr(3)`): the number of operations that have ended.
//!
//! In: the endpoints and regions that are bound, each with the kinds of operations to count. Out:
//! the sum of the engines' operation counters, which include operations without a completion. Each
//! read makes progress on the bound endpoints. `fi_cntr_add` and `fi_cntr_set` change the sum.
//! Bound: the number of bound endpoints and regions.

mod announced;
mod sleepers;
mod values;
mod waiting;

use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ofi_xdp_core::{OpCounters, TargetCounters};

use crate::objects::domain::Domain;
use crate::objects::object_ops::ObjectOps;
use crate::objects::wait_set::WaitObject;
use crate::runtime::Runtime;
use crate::runtime::deferred::WorkCounter;
use crate::sys::abi::bits;
use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::wait::spin_yield;
use crate::wait::wait_fd::Wait;
use crate::wait::waker::Waker;

use announced::Announcers;
pub(crate) use values::CounterValues;

/// Longest sleep on a counter with regions, or while there is deferred work: other threads that
/// drive the endpoints do not wake this sleeper. Also the longest wait for a thread that may need
/// the signal of the descriptor.
const RECHECK: Duration = Duration::from_millis(1);

/// Flags with which an endpoint may be bound (`fi_ep_bind`).
pub(crate) const ENDPOINT_FLAGS: u64 =
    bits::SEND | bits::RECV | bits::READ | bits::WRITE | bits::REMOTE_READ | bits::REMOTE_WRITE;

#[derive(Debug)]
struct CountedEndpoint {
    endpoint: Arc<Runtime>,
    flags: u64,
}

/// The caller that makes progress for a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Caller {
    /// The armed sleeper.
    Leader,
    /// A thread that sleeps next, and that the leader then serves.
    Follower,
    /// Any other one.
    Reader,
}

/// The threads that sleep in `fi_cntr_wait`.
#[derive(Debug, Default)]
struct Sleepers {
    is_led: bool,
    /// The number of those that sleep without the lead.
    following: usize,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<CountedEndpoint>,
    /// Regions by key, with their flags.
    regions: Vec<(u64, u64)>,
    /// Changes by the application, and counts of members that were removed.
    base: CounterValues,
    /// The values at the application's last read.
    read: CounterValues,
    announcers: Announcers,
    /// Changes by the application (`fi_cntr_add`, `fi_cntr_set`).
    added: CounterValues,
    /// The values that some call found last.
    found: CounterValues,
    sleepers: Sleepers,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cntr {
    domain: Arc<Domain>,
    object: WaitObject,
    wait: Option<Wait>,
    state: Mutex<State>,
    /// New values are found, or no thread leads the sleepers.
    changed: Condvar,
}

impl Cntr {
    /// `fi_cntr_open`; `object` is the wait object.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out; [`Error::Invalid`] for a wait set of another fabric.
    pub(crate) fn open(domain: &Arc<Domain>, object: WaitObject) -> Result<Arc<Self>, Error> {
        let wait = if object.waits() { Some(Wait::new()?) } else { None };
        let (domain_of, state, changed) = (Arc::clone(domain), Mutex::default(), Condvar::new());
        let counter = Arc::new(Self { domain: domain_of, object, wait, state, changed });
        if let Some(set) = counter.object.set(domain.fabric())? {
            set.add(&counter)?;
        }
        Ok(counter)
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The waker of waiting threads; `None` without a wait object.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.wait.as_ref().map(Wait::waker)
    }

    /// Counts operations of `endpoint` from now on.
    ///
    /// # Errors
    /// [`Error::Os`] when its descriptors cannot be waited on; [`Error::NoMemory`].
    pub(crate) fn add_endpoint(&self, endpoint: &Arc<Runtime>, flags: u64) -> Result<(), Error> {
        if let Some(wait) = &self.wait {
            endpoint.descriptors(|descriptor| wait.add(descriptor))?;
        }
        let member = CountedEndpoint { endpoint: Arc::clone(endpoint), flags };
        let mut state = self.lock();
        push(&mut state.members, member)?;
        let before = CounterValues::of_endpoint(&endpoint.op_counters(), flags);
        state.base = state.base.minus(before);
        drop(state);
        self.wake_sleepers();
        Ok(())
    }

    /// Removes an endpoint; its operations stay counted.
    pub(crate) fn remove_endpoint(&self, endpoint: &Arc<Runtime>) {
        let mut state = self.lock();
        let State { members, base, .. } = &mut *state;
        members.retain(|member| {
            let stays = !Arc::ptr_eq(&member.endpoint, endpoint);
            if !stays {
                *base =
                    base.plus(CounterValues::of_endpoint(&endpoint.op_counters(), member.flags));
            }
            stays
        });
        drop(state);
        // The end of the endpoint may have counted some.
        self.wake_sleepers();
    }

    /// Counts operations of peers on a region of the domain from now on.
    ///
    /// # Errors
    /// [`Error::Os`] when the descriptors of the endpoints cannot be waited on;
    /// [`Error::NoMemory`].
    pub(crate) fn add_region(&self, key: u64, flags: u64) -> Result<(), Error> {
        if let Some(wait) = &self.wait {
            let add = |it: &Arc<Runtime>| it.descriptors(|fd| wait.add(fd));
            self.domain.registry().visit(add)?;
        }
        let mut state = self.lock();
        push(&mut state.regions, (key, flags))?;
        let before = CounterValues::of_region(self.domain.registry().served(key), flags);
        state.base = state.base.minus(before);
        drop(state);
        self.wake_sleepers();
        Ok(())
    }

    /// Wakes sleepers so that they look at the values and at the bound objects again.
    fn wake_sleepers(&self) {
        self.waker().inspect(|waker| waker.wake());
    }

    /// Removes a region by `remove`; the operations of peers on it stay counted.
    pub(crate) fn remove_region(&self, key: u64, remove: impl FnOnce() -> TargetCounters) {
        let mut state = self.lock();
        let State { regions, base, .. } = &mut *state;
        // Under the lock: no reader finds the region gone and its operations not counted yet.
        let served = remove();
        regions.retain(|&(known, flags)| {
            if known == key {
                *base = base.plus(CounterValues::of_region(served, flags));
            }
            known != key
        });
    }

    /// Makes progress, for a poll set; returns the values without the application's changes.
    pub(crate) fn poll(&self) -> CounterValues {
        self.progress(Caller::Reader).minus(self.lock().added)
    }

    /// Ends the application's wait on the descriptor, if there was one.
    #[inline]
    fn end_wait(&self) {
        let Some(wait) = &self.wait else { return };
        wait.cancel_wait();
        if wait.waker().is_signaled() {
            self.clear_signal(&mut self.lock(), Caller::Reader);
        }
    }

    /// Makes progress, and runs deferred work that is due: it may change this counter, and a
    /// waiting application may make no other progress call. Returns the sum.
    #[inline]
    fn progress(&self, caller: Caller) -> CounterValues {
        if self.domain.work().is_busy() { self.work_off(caller) } else { self.values(caller) }
    }

    /// The work waits for counters of any endpoint. No packet is received after it has run.
    #[cold]
    fn work_off(&self, caller: Caller) -> CounterValues {
        self.poll_all(caller);
        self.domain.work().run();
        let mut state = self.lock();
        let values = self.sum(&state, Runtime::op_counters);
        self.note(&mut state, values, caller);
        values
    }

    /// Makes progress on all endpoints of the domain.
    fn poll_all(&self, caller: Caller) {
        // The closure returns no error.
        let _ = self.domain.registry().visit(|endpoint| {
            endpoint.count(self.awake(caller));
            Ok(())
        });
    }

    /// The number of operations that ended with success.
    pub(crate) fn value(&self) -> u64 {
        self.read(|seen, values| seen.done = values.done).done
    }

    /// The number of operations that ended in error.
    pub(crate) fn errors(&self) -> u64 {
        self.read(|seen, values| seen.failed = values.failed).failed
    }

    /// `fi_cntr_add`, `fi_cntr_adderr`.
    pub(crate) fn add(&self, done: u64, failed: u64) {
        self.add_by_hand(self.lock(), CounterValues { done, failed });
    }

    /// `fi_cntr_set`, `fi_cntr_seterr`; `None` leaves a value as it is.
    pub(crate) fn set(&self, done: Option<u64>, failed: Option<u64>) {
        self.values(Caller::Reader);
        let state = self.lock();
        let added = self.up_to(&state, done, failed);
        self.add_by_hand(state, added);
    }

    /// The change that leads to these values, to be added under the same lock.
    fn up_to(&self, state: &State, done: Option<u64>, failed: Option<u64>) -> CounterValues {
        let now = self.sum(state, Runtime::op_counters);
        let up = |to: Option<u64>, from: u64| to.map_or(0, |to| to.wrapping_sub(from));
        CounterValues { done: up(done, now.done), failed: up(failed, now.failed) }
    }

    /// Adds to the values for the application, which a poll set does not report to it.
    fn add_by_hand(&self, mut state: MutexGuard<'_, State>, added: CounterValues) {
        state.added = state.added.plus(added);
        self.apply(state, added);
        self.domain.work().run();
    }

    /// Changes the values, and wakes threads that may sleep until new ones, also on an exported
    /// descriptor.
    fn apply(&self, mut state: MutexGuard<'_, State>, change: CounterValues) {
        state.base = state.base.plus(change);
        drop(state);
        self.waker().inspect(|waker| waker.signal_fd());
    }

    /// A read by the application; `see` notes the value that it returns.
    fn read(&self, see: impl FnOnce(&mut CounterValues, CounterValues)) -> CounterValues {
        self.end_wait();
        let values = self.progress(Caller::Reader);
        let mut state = self.lock();
        if let Some(seen) = state.announcers.seen() {
            see(seen, values);
        }
        self.come_back(&mut state);
        let known = std::mem::replace(&mut state.read, values) == values;
        drop(state);
        if known {
            spin_yield::found_nothing();
        } else {
            spin_yield::found();
        }
        values
    }

    /// Makes progress; returns the sum.
    fn values(&self, caller: Caller) -> CounterValues {
        let mut state = self.lock();
        if !state.regions.is_empty() {
            self.poll_all(caller);
        }
        let values = self.sum(&state, |endpoint| endpoint.count(self.awake(caller)));
        self.note(&mut state, values, caller);
        values
    }

    /// The sum, with the operations of an endpoint as `count` counts them.
    fn sum(&self, state: &State, count: impl Fn(&Runtime) -> OpCounters) -> CounterValues {
        let State { base, members, regions, .. } = state;
        let members = members.iter().fold(*base, |sum, CountedEndpoint { endpoint, flags }| {
            sum.plus(CounterValues::of_endpoint(&count(endpoint), *flags))
        });
        regions.iter().fold(members, |sum, &(key, flags)| {
            sum.plus(CounterValues::of_region(self.domain.registry().served(key), flags))
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkCounter for Cntr {
    fn total(&self) -> u64 {
        let CounterValues { done, failed } = self.sum(&self.lock(), Runtime::op_counters);
        done.wrapping_add(failed)
    }

    fn change(&self, done: u64, failed: u64) {
        self.apply(self.lock(), CounterValues { done, failed });
    }

    fn set_done(&self, done: u64) {
        self.values(Caller::Reader);
        let state = self.lock();
        let change = self.up_to(&state, Some(done), None);
        self.apply(state, change);
    }
}

impl ObjectOps for Cntr {
    fn close(&self) -> Result<(), Error> {
        self.object.leave(self);
        Ok(())
    }

    fn is_unreferenced(self: &Arc<Self>) -> bool {
        self.domain.work().is_only_reference(self)
    }

    fn member_lock(&self) -> Option<Arc<RwLock<()>>> {
        Some(self.domain.fabric().member_lock())
    }

    fn wait_fd(&self) -> Result<RawFd, Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let descriptor = wait.descriptor();
        self.watch(false);
        Ok(descriptor)
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.object.kind())
    }
}

#[cfg(test)]
mod tests;

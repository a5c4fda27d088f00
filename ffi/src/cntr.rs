// SPDX-License-Identifier: MIT OR Apache-2.0
//! A counter (`fi_cntr(3)`): how many operations have ended.
//!
//! It counts nothing itself. Each engine keeps a tally of what has ended, whether it makes a
//! completion or not; reading a counter makes progress on the endpoints that are bound to it and
//! adds up the kinds that they were bound for, and what peers did to the regions that are bound.
//! `fi_cntr_add` and `fi_cntr_set` move the sum. Bounds: what is bound.

mod values;
mod waiting;

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ofi_xdp_core::Served;

use crate::abi::bits;
use crate::domain::Domain;
use crate::errno::Error;
use crate::idle;
use crate::ops::{CntrOps, FidOps};
use crate::progress::ActiveEndpoint;
use crate::wait::Wait;
use crate::wait_set::{self, WaitObject};
use crate::waker::Waker;

pub(crate) use values::Values;

/// Longest sleep of who waits for a region's counter, or while there is deferred work: endpoints
/// that are driven by others do not know of it.
const GLANCE: Duration = Duration::from_millis(1);

/// What an endpoint may be bound for (`fi_ep_bind`).
pub(crate) const ENDPOINT_FLAGS: u64 =
    bits::SEND | bits::RECV | bits::READ | bits::WRITE | bits::REMOTE_READ | bits::REMOTE_WRITE;

#[derive(Debug)]
struct Member {
    endpoint: Arc<ActiveEndpoint>,
    flags: u64,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    /// Regions by key, with their flags.
    regions: Vec<(u64, u64)>,
    /// What was added by hand, and by members that are gone.
    base: Values,
    /// What the application has read last.
    seen: Values,
    /// What the application has added (`fi_cntr_add`, `fi_cntr_set`).
    by_hand: Values,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cntr {
    domain: Arc<Domain>,
    object: WaitObject,
    wait: Option<Wait>,
    state: Mutex<State>,
}

impl Cntr {
    /// `fi_cntr_open`; `object` is what threads wait on.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out; [`Error::Invalid`] for a wait set of another fabric.
    pub(crate) fn open(domain: &Arc<Domain>, object: WaitObject) -> Result<Arc<Self>, Error> {
        let wait = if object.waits() { Some(Wait::new()?) } else { None };
        let state = Mutex::default();
        let counter = Arc::new(Self { domain: Arc::clone(domain), object, wait, state });
        if let Some(set) = counter.object.set(domain.fabric())? {
            set.add(wait_set::Member::Cntr(Arc::downgrade(&counter)))?;
        }
        Ok(counter)
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Wakes whoever waits here; none if nobody may wait.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.wait.as_ref().map(Wait::waker)
    }

    /// From now on operations of `endpoint` are counted.
    ///
    /// # Errors
    /// [`Error::Os`] when its descriptors cannot be waited on.
    pub(crate) fn add_endpoint(
        &self,
        endpoint: &Arc<ActiveEndpoint>,
        flags: u64,
    ) -> Result<(), Error> {
        if let Some(wait) = &self.wait {
            endpoint.descriptors(|descriptor| wait.add(descriptor))?;
        }
        self.lock().members.push(Member { endpoint: Arc::clone(endpoint), flags });
        self.begin_anew();
        Ok(())
    }

    /// The end of [`Self::add_endpoint`]; what was counted stays.
    pub(crate) fn remove_endpoint(&self, endpoint: &Arc<ActiveEndpoint>) {
        let mut state = self.lock();
        let State { members, base, .. } = &mut *state;
        members.retain(|member| {
            let stays = !Arc::ptr_eq(&member.endpoint, endpoint);
            if !stays {
                *base = base.plus(Values::of_endpoint(&endpoint.tally(), member.flags));
            }
            stays
        });
    }

    /// From now on what peers do to a region of the domain is counted.
    ///
    /// # Errors
    /// [`Error::Os`] when the descriptors of the endpoints cannot be waited on.
    pub(crate) fn add_region(&self, key: u64, flags: u64) -> Result<(), Error> {
        if let Some(wait) = &self.wait {
            let add = |it: &Arc<ActiveEndpoint>| it.descriptors(|fd| wait.add(fd));
            self.domain.registry().visit(add)?;
        }
        self.lock().regions.push((key, flags));
        self.begin_anew();
        Ok(())
    }

    /// Who sleeps here does so for what was bound before: it looks, and watches, anew.
    fn begin_anew(&self) {
        self.waker().inspect(|waker| waker.wake());
    }

    /// The region is gone; what peers did to it stays counted.
    pub(crate) fn remove_region(&self, key: u64, served: Served) {
        let mut state = self.lock();
        let State { regions, base, .. } = &mut *state;
        regions.retain(|&(known, flags)| {
            if known == key {
                *base = base.plus(Values::of_region(served, flags));
            }
            known != key
        });
    }

    /// Makes progress, for a poll set; the values, but for what the application has added.
    pub(crate) fn poll(&self) -> Values {
        self.work();
        let values = self.values();
        values.minus(self.lock().by_hand)
    }

    /// The application is back from waiting on the descriptor, or never went.
    #[inline]
    fn end_wait(&self) {
        self.wait.as_ref().inspect(|wait| wait.end_wait());
    }

    /// Nobody waits on the descriptor, after [`Self::try_wait`], and nobody looks next.
    pub(crate) fn recall(&self) {
        self.wait.as_ref().inspect(|wait| wait.recall());
    }

    /// Does the deferred work that is due: it may change this counter, and who waits here may make
    /// no other progress than this.
    #[inline]
    fn work(&self) {
        if self.domain.work().is_busy() {
            self.work_off();
        }
    }

    #[cold]
    fn work_off(&self) {
        // Progress cannot fail.
        let _ = self.domain.registry().visit(|endpoint| {
            endpoint.count(self.waker());
            Ok(())
        });
        self.domain.work().run();
    }

    /// Values and errors, as they are without further progress: what deferred work waits for.
    pub(crate) fn total(&self) -> u64 {
        let state = self.lock();
        let members = state.members.iter().fold(state.base, |sum, Member { endpoint, flags }| {
            sum.plus(Values::of_endpoint(&endpoint.tally(), *flags))
        });
        let registry = self.domain.registry();
        let all = state.regions.iter().fold(members, |sum, &(key, flags)| {
            sum.plus(Values::of_region(registry.served(key), flags))
        });
        all.done.wrapping_add(all.failed)
    }

    /// Adds to the values.
    pub(crate) fn change(&self, done: u64, failed: u64) {
        let mut state = self.lock();
        state.base = state.base.plus(Values { done, failed });
        drop(state);
        self.waker().inspect(|waker| waker.wake());
    }

    /// Sets the values that are given.
    pub(crate) fn change_to(&self, done: Option<u64>, failed: Option<u64>) {
        let Values { done, failed } = self.up_to(done, failed);
        self.change(done, failed);
    }

    /// What is to be added to be at the values that are given.
    fn up_to(&self, done: Option<u64>, failed: Option<u64>) -> Values {
        let now = self.values();
        let up = |to: Option<u64>, from: u64| to.map_or(0, |to| to.wrapping_sub(from));
        Values { done: up(done, now.done), failed: up(failed, now.failed) }
    }

    /// The application adds to the values, which is no news for it.
    fn add_by_hand(&self, added: Values) {
        let mut state = self.lock();
        state.base = state.base.plus(added);
        state.by_hand = state.by_hand.plus(added);
        drop(state);
        self.waker().inspect(|waker| waker.wake());
        self.domain.work().run();
    }

    /// The values, for the application.
    fn read(&self) -> Values {
        self.end_wait();
        self.work();
        let values = self.values();
        if std::mem::replace(&mut self.lock().seen, values) == values {
            idle::found_nothing();
        } else {
            idle::found();
            // This call may have taken in what another thread sleeps for.
            self.waker().inspect(|waker| waker.wake());
        }
        values
    }

    /// Makes progress, and adds up.
    fn values(&self) -> Values {
        let state = self.lock();
        let members = state.members.iter().fold(state.base, |sum, Member { endpoint, flags }| {
            sum.plus(Values::of_endpoint(&endpoint.count(self.waker()), *flags))
        });
        if state.regions.is_empty() {
            return members;
        }
        let registry = self.domain.registry();
        // Progress cannot fail.
        let _ = registry.visit(|endpoint| {
            endpoint.count(self.waker());
            Ok(())
        });
        state.regions.iter().fold(members, |sum, &(key, flags)| {
            sum.plus(Values::of_region(registry.served(key), flags))
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FidOps for Cntr {
    fn looks(&self) -> Option<Arc<RwLock<()>>> {
        Some(self.domain.fabric().looks())
    }

    fn wait_fd(&self) -> Result<RawFd, Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let descriptor = wait.descriptor();
        self.watch();
        Ok(descriptor)
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.object.kind())
    }
}

impl CntrOps for Cntr {
    fn value(&self) -> u64 {
        self.read().done
    }

    fn errors(&self) -> u64 {
        self.read().failed
    }

    fn add(&self, done: u64, failed: u64) {
        self.add_by_hand(Values { done, failed });
    }

    fn set(&self, done: Option<u64>, failed: Option<u64>) {
        self.add_by_hand(self.up_to(done, failed));
    }

    fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Result<(), Error> {
        self.wait_for(threshold, timeout)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A completion queue: a view of the operations of the endpoints that are bound to it.
//!
//! In: endpoints, each with the sides that complete here. Out: completions, passed to the caller of
//! a read. The queue stores no completions. A read makes progress on each endpoint, and takes
//! finished operations from the engine. Each keeps its slot there until then, so the queue cannot
//! overflow at any size. A completion is stored if the call that met it cannot return it. An error
//! met by `fi_cq_read` stays until `fi_cq_readerr`, and blocks its endpoint. A success met by
//! `fi_cq_readerr` stays for the next `fi_cq_read`. Blocking reads are in `waiting`. Bound: the
//! operations of the endpoints.
//!
//! Endpoints with runtimes of their own have no common order. The end of one connection may be met
//! before messages of others that came earlier. So an error blocks reads only when the other
//! endpoints have nothing, or after [`READS_BEFORE_ERROR`] reads.

mod entry;
mod waiting;

use std::ops::ControlFlow;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ofi_xdp_core::{CompletionGroup, Instant, PeerId};

use crate::objects::domain::Domain;
use crate::objects::object_ops::ObjectOps;
use crate::objects::wait_set::WaitObject;
use crate::runtime::{CompletionSource, Runtime};
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::sys::sockaddr::SocketAddress;
use crate::wait::spin_yield;
use crate::wait::wait_fd::Wait;
use crate::wait::waker::Waker;

pub(crate) use entry::{Entry, ErrorEntry};

/// The attributes of a new queue.
#[derive(Clone, Debug)]
pub(crate) struct CqAttributes {
    /// The format of an entry.
    pub(crate) format: abi::fi_cq_format,
    /// The wait object of readers.
    pub(crate) wait: WaitObject,
}

impl Default for CqAttributes {
    fn default() -> Self {
        Self { format: abi::FI_CQ_FORMAT_UNSPEC, wait: WaitObject::None }
    }
}

/// Reads that return completions of other endpoints while an error waits.
const READS_BEFORE_ERROR: u32 = 1024;

/// A runtime, and the sides of its endpoints that complete here.
#[derive(Debug)]
struct ReadEndpoint {
    endpoint: Arc<Runtime>,
    sources: Vec<CompletionSource>,
    /// Its next completion, met by a read that cannot return it.
    error: Option<Met<ErrorEntry>>,
}

/// A completion that was met by a call that cannot return it.
#[derive(Debug)]
struct Met<T> {
    /// The operation's peer, which names a connected endpoint on the runtime.
    peer: PeerId,
    entry: T,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<ReadEndpoint>,
    /// Index of the member that the next read begins with.
    turn: usize,
    /// The next completion, met by a call that cannot return it, and its runtime's id.
    head: Option<(usize, Met<Entry>)>,
    /// Reads that have returned completions since an error was met.
    passed: u32,
    /// The address that the last error entry points to.
    kept: Option<Box<SocketAddress>>,
}

impl State {
    /// Whether an error waits for [`Cq::read_error`].
    fn has_error(&self) -> bool {
        self.members.iter().any(|member| member.error.is_some())
    }

    /// Drops the completions that were met of a runtime, of this peer or of all.
    fn forget(&mut self, endpoint: &Arc<Runtime>, peer: Option<PeerId>) {
        let is_gone = |of: PeerId| peer.is_none_or(|peer| peer == of);
        self.head.take_if(|(of, met)| *of == endpoint.id() && is_gone(met.peer));
        let member = self.members.iter_mut().find(|it| Arc::ptr_eq(&it.endpoint, endpoint));
        member.and_then(|member| member.error.take_if(|met| is_gone(met.peer)));
        if !self.has_error() {
            self.passed = 0;
        }
    }

    /// Latest time of the next progress call, unless a packet arrives before.
    fn due(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.endpoint.due()).min()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cq {
    domain: Arc<Domain>,
    format: abi::fi_cq_format,
    object: WaitObject,
    wait: Option<Wait>,
    /// `fi_cq_signal` was called, and no blocking read has returned for it.
    signaled: AtomicBool,
    state: Mutex<State>,
}

impl Cq {
    /// `fi_cq_open`.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out; [`Error::Invalid`] for a wait set of another fabric.
    pub(crate) fn open(domain: &Arc<Domain>, attributes: CqAttributes) -> Result<Arc<Self>, Error> {
        let CqAttributes { format, wait: object } = attributes;
        let wait = if object.waits() { Some(Wait::new()?) } else { None };
        let queue = Arc::new(Self {
            domain: Arc::clone(domain),
            format,
            object,
            wait,
            signaled: AtomicBool::new(false),
            state: Mutex::default(),
        });
        if let Some(set) = queue.object.set(domain.fabric())? {
            set.add(&queue)?;
        }
        Ok(queue)
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The waker of waiting threads; `None` without a wait object.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.wait.as_ref().map(Wait::waker)
    }

    /// Adds an endpoint, with the sides that complete here.
    ///
    /// # Errors
    /// [`Error::Os`] when its descriptors cannot be waited on; [`Error::NoMemory`].
    pub(crate) fn add(
        &self,
        endpoint: &Arc<Runtime>,
        sources: &[CompletionSource],
    ) -> Result<(), Error> {
        let mut state = self.lock();
        if let Some(wait) = &self.wait {
            endpoint.descriptors(|descriptor| wait.add(descriptor))?;
        }
        let known = state.members.iter_mut().find(|it| Arc::ptr_eq(&it.endpoint, endpoint));
        if let Some(member) = known {
            sources.iter().try_for_each(|&source| push(&mut member.sources, source))?;
        } else {
            let (endpoint, sources) = (Arc::clone(endpoint), sources.to_vec());
            push(&mut state.members, ReadEndpoint { endpoint, sources, error: None })?;
        }
        drop(state);
        // Sleepers include the new endpoint in their wait.
        self.waker().inspect(|waker| waker.wake());
        Ok(())
    }

    /// Removes the endpoints of a group. When this returns, no reader uses them any more.
    pub(crate) fn remove(&self, endpoint: &Arc<Runtime>, group: CompletionGroup) {
        let mut state = self.lock();
        if let Some(at) = state.members.iter().position(|it| Arc::ptr_eq(&it.endpoint, endpoint))
            && let Some(member) = state.members.get_mut(at)
        {
            member.sources.retain(|source| source.group != group);
            if member.sources.is_empty() {
                state.forget(endpoint, None);
                state.members.remove(at);
                state.turn = 0;
                if let Some(wait) = &self.wait {
                    // The runtime may live on. It cannot fail on two open descriptors.
                    let _ = endpoint.descriptors(|descriptor| wait.remove(descriptor));
                }
            }
        }
    }

    /// Drops the completions of a closed connected endpoint that were met, and not read.
    pub(crate) fn forget(&self, endpoint: &Arc<Runtime>, peer: PeerId) {
        self.lock().forget(endpoint, Some(peer));
        // Those of other endpoints may have waited behind an error.
        self.waker().inspect(|waker| waker.wake());
    }

    /// Makes progress, for a poll set; returns whether there is a completion.
    pub(crate) fn poll(&self) -> bool {
        let ready = self.poll_members(&self.lock());
        self.domain.work().run();
        ready
    }

    /// Ends the application's wait on the descriptor, if there was one.
    #[inline]
    fn end_wait(&self) {
        self.wait.as_ref().inspect(|wait| wait.end_wait());
    }

    /// Wakes another sleeper if the array of `room` entries is full: there may be more completions.
    #[inline]
    fn share(&self, room: usize, result: Result<usize, Error>) {
        if result.unwrap_or(0) >= room
            && let Some(waker) = self.waker()
        {
            waker.wake();
        }
    }

    /// Prepares the endpoints for a sleep on the descriptor. `slept`: the next poll follows one.
    fn watch(&self, state: &State, slept: bool) {
        state.members.iter().for_each(|member| member.endpoint.arm_port(slept));
    }

    /// Ends what [`Self::watch`] prepared in a wait call.
    fn end_sleep(&self, state: &State) {
        state.members.iter().for_each(|member| member.endpoint.end_sleep());
    }

    /// Makes progress; returns whether there is a completion.
    fn poll_members(&self, state: &State) -> bool {
        // Every endpoint makes progress, even after one has a completion.
        state.members.iter().fold(
            state.head.is_some() || state.has_error(),
            |ready, ReadEndpoint { endpoint, sources, .. }| {
                endpoint.poll_sources(sources, self.waker()) || ready
            },
        )
    }

    /// `fi_cq_read`: makes progress, and passes up to `room` completions to `push`, with the format
    /// of the queue. Returns their number.
    ///
    /// # Errors
    /// [`Error::Again`] if there is none; [`Error::Available`] while an error must be read first.
    pub(crate) fn read(
        &self,
        room: usize,
        mut push: impl FnMut(abi::fi_cq_format, &Entry),
    ) -> Result<usize, Error> {
        let result = self.read_once(room, &mut push);
        self.share(room, result);
        match result {
            Err(Error::Again) => spin_yield::found_nothing(),
            _ => spin_yield::found(),
        }
        result
    }

    /// One read, and the deferred work that is due then.
    fn read_once(
        &self,
        room: usize,
        push: &mut impl FnMut(abi::fi_cq_format, &Entry),
    ) -> Result<usize, Error> {
        let result = self.read_ready(room, push);
        self.domain.work().run();
        result
    }

    fn read_ready(
        &self,
        room: usize,
        push: &mut impl FnMut(abi::fi_cq_format, &Entry),
    ) -> Result<usize, Error> {
        let mut state = self.lock();
        self.end_wait();
        if state.passed >= READS_BEFORE_ERROR {
            return Err(Error::Available);
        }
        if room == 0 {
            return if self.poll_members(&state) { Ok(0) } else { Err(Error::Again) };
        }
        let mut filled = 0;
        let State { members, turn, head, .. } = &mut *state;
        // Matched before it is taken: an entry is long, and the head is hardly ever there.
        if let Some((_, met)) = head {
            push(self.format, &met.entry);
            filled += 1;
            *head = None;
        }
        let mut has_error = false;
        if filled < room {
            has_error = collect(members, turn, self.waker(), |_, _, entry| {
                push(self.format, entry);
                filled += 1;
                if filled < room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
        state.passed += u32::from(has_error);
        if has_error && let Some(waker) = self.waker() {
            // The engine shows the error no more: a sleeper would not learn of it.
            waker.wake();
        }
        match filled {
            0 if has_error => Err(Error::Available),
            0 => Err(Error::Again),
            filled => Ok(filled),
        }
    }

    /// `fi_cq_readerr`: the next error.
    ///
    /// # Errors
    /// [`Error::Again`] if there is none.
    pub(crate) fn read_error(&self) -> Result<ErrorEntry, Error> {
        let result = self.take_error();
        self.domain.work().run();
        result
    }

    /// Keeps an address until the next call, for an application that brings no room for it.
    pub(crate) fn keep(&self, address: SocketAddress) -> *const u8 {
        let mut state = self.lock();
        let kept = state.kept.insert(Box::new(address));
        kept.bytes().as_ptr()
    }

    /// `fi_cq_signal`: ends a blocking read, or the next one.
    ///
    /// # Errors
    /// [`Error::NotSupported`] without a wait object.
    pub(crate) fn signal(&self) -> Result<(), Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        // Ordered with the begin of a sleep: it finds the flag, or later reads leave the signal on.
        self.signaled.swap(true, Ordering::AcqRel);
        wait.waker().force();
        Ok(())
    }

    /// The interface version that the application opened the fabric with.
    pub(crate) fn api_version(&self) -> u32 {
        self.domain.fabric().api_version()
    }

    /// Takes an error that was met. Without one the endpoints are read: a counter may have reported
    /// the error before any reader met it.
    #[cold]
    fn take_error(&self) -> Result<ErrorEntry, Error> {
        let mut state = self.lock();
        self.end_wait();
        if !state.has_error() {
            let State { members, turn, head, .. } = &mut *state;
            if head.is_none() {
                // More completions may follow. No reader is awake for them, so none is excluded.
                collect(members, turn, None, |runtime, peer, entry| {
                    *head = Some((runtime.id(), Met { peer, entry: *entry }));
                    ControlFlow::Break(())
                });
            } else {
                self.poll_members(&state);
            }
            // A sleeper may wait for this completion, which `fi_cq_read` returns.
            if state.head.is_some() {
                self.waker().inspect(|waker| waker.signal_fd());
            }
        }
        let error = state.members.iter_mut().find_map(|member| member.error.take());
        if !state.has_error() {
            state.passed = 0;
        }
        error.map(|met| met.entry).ok_or(Error::Again)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes progress, and passes completions to `take` until it breaks. An endpoint with an error is
/// left out from there on. `awake` is the waker of a queue that sees the rest without a wake-up.
/// `take` learns of the runtime and the peer, too. Returns whether there is an error.
#[inline]
fn collect(
    members: &mut [ReadEndpoint],
    turn: &mut usize,
    awake: Option<&Arc<Waker>>,
    mut take: impl FnMut(&Runtime, PeerId, &Entry) -> ControlFlow<()>,
) -> bool {
    let mut has_error = false;
    // bound: members
    for step in 0..members.len() {
        let at = *turn + step;
        let at = if at < members.len() { at } else { at - members.len() };
        let Some(ReadEndpoint { endpoint, sources, error }) = members.get_mut(at) else { break };
        let mut flow = ControlFlow::Continue(());
        if error.is_none() {
            endpoint.collect(sources, awake, |completion, origin| {
                match entry::entry(completion, origin) {
                    Ok(entry) => flow = take(endpoint, completion.peer, &entry),
                    Err(entry) => *error = Some(Met { peer: completion.peer, entry }),
                }
                if error.is_none() { flow } else { ControlFlow::Break(()) }
            });
        }
        has_error |= error.is_some();
        if flow.is_break() {
            // More completions may be left in this endpoint and the following ones. The next read
            // begins behind it, and with its next side.
            sources.rotate_left(1);
            *turn = if at + 1 < members.len() { at + 1 } else { 0 };
            break;
        }
    }
    has_error
}

impl ObjectOps for Cq {
    fn close(&self) -> Result<(), Error> {
        self.object.leave(self);
        Ok(())
    }

    fn member_lock(&self) -> Option<Arc<RwLock<()>>> {
        Some(self.domain.fabric().member_lock())
    }

    fn wait_fd(&self) -> Result<RawFd, Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let descriptor = wait.descriptor();
        self.watch(&self.lock(), false);
        Ok(descriptor)
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.object.kind())
    }
}

#[cfg(test)]
mod tests;

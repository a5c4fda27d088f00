// SPDX-License-Identifier: MIT OR Apache-2.0
//! An enabled endpoint: engine, port and application memory behind one lock, and the calls that
//! move it.
//!
//! What comes in: posts from the endpoint's data calls, reads from its completion queues. What goes
//! out: packets through the port, completions to the queue that asks. Every call takes the lock
//! once, reads the clock once, and runs `core::drive` at most once, but a peek, which does that
//! before and after; nothing is allocated and nothing waits. Completions stay in the engine until a
//! queue reads them, so no queue can overflow.
//!
//! The lock serves every threading model that an application can ask for; uncontended it costs some
//! ten nanoseconds.

mod posting;
mod regions;
mod report;
mod sharing;
mod wakers;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use ofi_xdp_core::{
    Budget, Completion, Config, Engine, Identity, Instant, PeerAddress, Port as _, Progress,
    RegionId, drive,
};
use ofi_xdp_datapath::HybridPort;

use crate::abi::{self, ADDR_NONE, fi_addr_t};
use crate::av::Av;
use crate::errno::Error;
use crate::idle;
use crate::memory::AppMemory;
use crate::ops::Side;
use crate::peers::PeerMap;
use crate::srx::{PartEnd, SharedSource};
use crate::storage::EngineCell;
use crate::thread::{ATTENTION, TRUST};
use crate::waker::{Waker, sleep};

pub(crate) use posting::{Post, Posting, Taking};
pub(crate) use wakers::Wakers;

/// Longest that a closing endpoint stays to have its messages acknowledged, and to acknowledge.
const LINGER: Duration = Duration::from_millis(500);
/// Most packets of farewell: beyond, peers find out by themselves.
const FAREWELL_PACKETS_MAX: u16 = 4096;

/// See the module.
pub(crate) struct ActiveEndpoint {
    state: Mutex<State>,
    av: Arc<Av>,
    wakers: Wakers,
    /// `FI_DIRECTED_RECV` was asked for: receives may name their source.
    directed: bool,
    /// `FI_SOURCE_ERR` was asked for: sources that are not in the vector are told as they are.
    source_err: bool,
    /// Sides whose completions no queue reads.
    unread: Vec<Side>,
    /// It stores messages that a receive of its shared context might fit.
    hungry: AtomicBool,
}

struct State {
    engine: EngineCell,
    port: HybridPort,
    memory: AppMemory,
    peers: PeerMap,
    /// The engine's names of the domain's regions, by key.
    regions: HashMap<u64, RegionId>,
    /// When the application drove the endpoint last.
    attended: Instant,
    /// The port has failed for good, and this was reported.
    failed: bool,
}

impl State {
    /// When progress is due again at the latest, unless a packet arrives before: at once where the
    /// port has packets that no descriptor tells of.
    fn due(&self) -> Option<Instant> {
        if self.port.has_more() {
            return Some(Instant::ZERO);
        }
        self.engine.with_dependent(|_, engine| engine.poll_at())
    }

    /// Sleeps until a packet arrives, for `timeout` at most.
    fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let descriptors = abi::descriptors(&self.port).map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        sleep(&mut descriptors.collect::<Vec<_>>(), Some(timeout))
    }
}

/// What an endpoint becomes active with.
pub(crate) struct Activation {
    pub(crate) config: Config,
    pub(crate) port: HybridPort,
    pub(crate) av: Arc<Av>,
    pub(crate) wakers: Wakers,
    pub(crate) directed: bool,
    pub(crate) source_err: bool,
    /// Sides that have no queue.
    pub(crate) unread: Vec<Side>,
    /// Where its receives come from, if not from posts.
    pub(crate) shared: Option<SharedSource>,
}

impl ActiveEndpoint {
    /// Allocates everything that the endpoint will ever need.
    ///
    /// # Errors
    /// [`Error::Invalid`] when capacities and port do not go together; [`Error::NoMemory`].
    pub(crate) fn start(activation: Activation) -> Result<Arc<Self>, Error> {
        let Activation { config, mut port, av, wakers, directed, source_err, unread, shared } =
            activation;
        let random = || getrandom::u64().map_err(|_| Error::Os(libc::EIO));
        let identity = Identity { incarnation: random()?.max(1), seed: random()? };
        let engine = EngineCell::open(&config, identity, port.limits()).map_err(|error| {
            log::warn!(target: "ep_ctrl", "cannot enable: {error}");
            Error::Invalid
        })?;
        let memory = AppMemory::new(&config, shared)?;
        if wakers.any_lent() {
            port.watch();
        }
        let peers = PeerMap::new(config.peers as usize, av.expected(), &av);
        let (regions, attended, failed) = (HashMap::new(), now(), false);
        let state = State { engine, port, memory, peers, regions, attended, failed };
        let (state, hungry) = (Mutex::new(state), AtomicBool::new(false));
        Ok(Arc::new(Self { state, av, wakers, directed, source_err, unread, hungry }))
    }

    /// Makes progress, and hands completions of `sides` to `take` while it wants more.
    ///
    /// `take` gets what the engine does not know of a receive. `awake` is the reader's own waker.
    pub(crate) fn collect(
        &self,
        sides: &[Side],
        awake: Option<&Arc<Waker>>,
        mut take: impl FnMut(&Completion, Origin) -> Wants,
    ) {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        let State { engine, peers, memory, .. } = &mut *state;
        engine.with_dependent_mut(|_, engine| {
            peers.sync(&self.av);
            let mut wants = Wants::More;
            for &side in sides {
                // bound: the operations that the endpoint can have
                while wants == Wants::More
                    && let Some(mut completion) = poll(engine, side)
                {
                    let mut origin = Origin::default();
                    if side == Side::Receive {
                        origin.source = peers.source(engine, &self.av, completion.peer);
                        if let Some(part) = completion.part {
                            origin.place = memory.place_of(part);
                            if is_silent(&mut completion, memory.finish_shared(part)) {
                                continue;
                            }
                        }
                        if self.source_err && origin.source == ADDR_NONE {
                            origin.stranger = engine.peer_address(completion.peer);
                        }
                    }
                    wants = take(&completion, origin);
                }
            }
        });
        self.wake(&state, awake);
    }

    /// When progress is due again at the latest, unless a packet arrives before.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due()
    }

    /// Makes progress; whether a completion of `sides` is there to be read.
    pub(crate) fn look(&self, sides: &[Side], awake: Option<&Arc<Waker>>) -> bool {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&state, awake);
        state.engine.with_dependent(|_, engine| sides.iter().any(|&side| is_ready(engine, side)))
    }

    /// Whether the application sees to the endpoint's progress: it drove it lately, or sleeps in a
    /// call of ours.
    pub(crate) fn is_attended(&self) -> bool {
        if self.wakers.application_sleeps() {
            return true;
        }
        let attention = if self.wakers.application_announced() { TRUST } else { ATTENTION };
        // Locked, it is being driven; and whoever drives it is not held up by the question.
        match self.state.try_lock() {
            Ok(state) => now().since(state.attended) < attention,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    /// Makes progress for the progress thread; returns when it is due again at the latest.
    pub(crate) fn tend(&self) -> Option<Instant> {
        let mut state = self.lock();
        let attended = state.attended;
        state.port.watch();
        self.drive(&mut state, now(), Budget::PROGRESS);
        state.attended = attended;
        self.wake(&state, Some(&self.wakers.thread));
        state.due()
    }

    /// Makes packets wake who sleeps on the descriptors, also those that came before; the next
    /// progress looks for these ([`HybridPort::watch`]): called before a sleep, after its waker is
    /// armed.
    pub(crate) fn watch(&self) {
        self.lock().port.watch();
    }

    /// Calls `each` with every descriptor that becomes readable when a packet arrives.
    ///
    /// # Errors
    /// The first error that `each` returns.
    pub(crate) fn descriptors(
        &self,
        each: impl FnMut(BorrowedFd<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        abi::descriptors(&self.lock().port).try_for_each(each)
    }

    /// Gives what was sent time to be acknowledged, then says farewell to the peers. Afterwards
    /// nothing of the application's memory is touched any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let deadline = now().after(LINGER);
        // bound: LINGER
        loop {
            let now = now();
            state.port.watch();
            // It may be the last look.
            state.port.look_everywhere();
            self.drive(&mut state, now, Budget::PROGRESS);
            let settled = state.engine.with_dependent(|_, engine| engine.is_settled());
            if settled || state.failed || now >= deadline {
                break;
            }
            let until = state.due().map_or(deadline, |next| next.min(deadline));
            // Woken early or not at all, the clock decides.
            let _ = state.wait(until.since(now));
        }
        let now = now();
        let State { engine, port, .. } = &mut *state;
        engine.with_dependent_mut(|_, engine| {
            let kernel = port.kernel_stats().unwrap_or_default();
            let (did, moved) = (engine.stats(), port.stats());
            log::info!(target: "ep_data", "closing: {did:?}, {moved:?}, {kernel:?}");
            engine.close(now);
        });
        self.drive(&mut state, now, Budget { rx_packets: 0, tx_packets: FAREWELL_PACKETS_MAX });
        // Where a fork still has the descriptors, closing them takes them out of no epoll set: what
        // arrives from now on must not make readable what nobody reads any more (epoll(7)).
        state.port.unwatch();
    }

    #[inline]
    fn drive(&self, state: &mut State, now: Instant, budget: Budget) {
        state.attended = now;
        Self::move_packets(state, now, budget);
        if !self.unread.is_empty() {
            self.drop_unread(state);
        }
        if state.memory.is_shared() {
            self.drive_shared(state, now);
        }
    }

    /// The end of [`Self::drive`] where receives come from a shared context.
    #[inline(never)]
    fn drive_shared(&self, state: &mut State, now: Instant) {
        // bound: the stored messages, of which each round gives one its receive at least
        while self.take_shared(state) {
            // What was stored has met its receives: the rest of it is asked for.
            Self::move_packets(state, now, Budget::POST);
            self.drop_unread(state);
        }
    }

    /// Has operations give their slots back whose completions no queue reads: they were counted.
    #[cold]
    fn drop_unread(&self, state: &mut State) {
        let State { engine, memory, .. } = state;
        engine.with_dependent_mut(|_, engine| {
            for &side in &self.unread {
                // bound: the operations that the endpoint can have
                while let Some(completion) = poll(engine, side) {
                    completion.part.map(|part| memory.finish_shared(part));
                }
            }
        });
    }

    fn move_packets(state: &mut State, now: Instant, budget: Budget) {
        let State { engine, port, memory, failed, .. } = state;
        engine.with_dependent_mut(|_, engine| {
            match drive(engine, port, memory, now, budget) {
                Ok(progress) => {
                    let moved = progress != Progress::default();
                    if moved || budget.rx_packets > 0 {
                        idle::looked(now, moved);
                    }
                }
                Err(error) => {
                    // Time goes on: what cannot be delivered any more ends in error.
                    engine.advance(now);
                    if !std::mem::replace(failed, true) {
                        log::warn!(target: "ep_data", "{error}; pending operations will time out");
                    }
                }
            }
        });
    }

    // The engine does not panic; should it, what it left is still consistent enough to be dropped.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ActiveEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActiveEndpoint").field("directed", &self.directed).finish_non_exhaustive()
    }
}

/// Where a received message is from and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The source, as the address vector knows it.
    pub(crate) source: fi_addr_t,
    /// With `FI_SOURCE_ERR`, a source that is not in the vector.
    pub(crate) stranger: Option<PeerAddress>,
    /// In a buffer for many messages, where this one is; else 0.
    pub(crate) place: usize,
}

impl Default for Origin {
    fn default() -> Self {
        Self { source: ADDR_NONE, stranger: None, place: 0 }
    }
}

/// Whether a taker of completions wants more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wants {
    /// Another one.
    More,
    /// No more.
    Enough,
}

/// Whether a message that ended in a shared buffer is not told of. Its completion learns whether
/// the buffer is released.
fn is_silent(completion: &mut Completion, end: Option<PartEnd>) -> bool {
    let Some(PartEnd { released, told }) = end else { return false };
    completion.released |= released;
    !(told || released || completion.outcome.is_err())
}

fn is_ready(engine: &Engine<'_>, side: Side) -> bool {
    match side {
        Side::Transmit => engine.has_send_completion(),
        Side::Receive => engine.has_recv_completion(),
    }
}

// A completion is long, and who reads one takes a few words of it.
#[inline(always)]
fn poll(engine: &mut Engine<'_>, side: Side) -> Option<Completion> {
    match side {
        Side::Transmit => engine.poll_send_completion(),
        Side::Receive => engine.poll_recv_completion(),
    }
}

/// The time, as all engines of this process count it: that of the monotonic clock. Every call
/// reads it here, once.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
#[inline]
pub(crate) fn now() -> Instant {
    // This clock always is there (clock_gettime(2)); without, time would stand still.
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    let seconds = time.tv_sec().cast_unsigned().wrapping_mul(1_000_000_000);
    Instant::from_nanos(seconds.wrapping_add(time.tv_nsec().cast_unsigned()))
}

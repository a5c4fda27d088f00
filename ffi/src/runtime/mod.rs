// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime of an enabled endpoint: engine, port and application memory behind one lock.
//!
//! In: posts from the endpoint's data calls, reads from its completion queues. Out: packets through
//! the port, completions to the reading queue. A call takes the lock once, reads the clock once,
//! and runs [`drive()`] at most once; a peek runs it before and after. No call allocates or waits.
//! Completions stay in the engine until a queue reads them, so no queue can overflow.
//!
//! The lock serves every threading model of libfabric.
//! [`Attachment`] is the endpoint's own part; all else can serve several endpoints.

pub(crate) mod addresses;
pub(crate) mod app_polls;
mod cancelled;
mod completions;
mod connection;
pub(crate) mod deferred;
mod groups;
pub(crate) mod memory;
mod multicast;
pub(crate) mod peer_link;
pub(crate) mod peers;
mod post;
pub(crate) mod progress;
mod quiet;
pub(crate) mod receive_queue;
pub(crate) mod receive_source;
mod regions;
mod request;
mod shared_receives;
mod side;
pub(crate) mod statistics;
mod thread_turns;
mod tx_retry;
mod wakers;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::mem;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};

use ofi_xdp_core::{
    Budget, Config, ConfigError, EngineBox, Identity, Instant, Port as _, Progress, RegionId, drive,
};
use ofi_xdp_datapath::HybridPort;

use crate::runtime::addresses::AddressTable;
use crate::runtime::app_polls::AppPolls;
use crate::runtime::cancelled::CancelledSends;
use crate::runtime::memory::AppMemory;
use crate::runtime::peer_link::PeerLinks;
use crate::runtime::peers::PeerMap;
use crate::runtime::receive_source::SharedSource;
use crate::runtime::tx_retry::TxRetry;
use crate::sys::abi;
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::sys::limits::LINGER_RECHECK;
use crate::sys::notice;
use crate::wait::spin_yield;
use crate::wait::waker::sleep;

pub(crate) use completions::Origin;
pub(crate) use request::{
    Atomic, ClaimAction, CompletionPolicy, OpFlags, OpOptions, Recv, RecvMode, RecvOptions,
    Request, RequestKind, SendForm,
};
pub(crate) use side::{CompletionSource, Side};
pub(crate) use wakers::{GroupQueues, Wakers};

/// Longest wait of `close` for acknowledgements, in either direction.
pub(crate) const LINGER: Duration = Duration::from_millis(500);
/// Most budgets of a poll after a pause.
const CATCH_UP_BUDGETS: u32 = 8;
/// Most yields of the progress thread to calls that wait for the lock.
const YIELDS_MAX: u32 = 256;
/// Most bursts of close notifications. All other peers find out by their peer time-out.
const CLOSE_BURSTS_MAX: u32 = 64;
/// Pause after a burst for which the port had no room.
const CLOSE_PAUSE: Duration = Duration::from_micros(50);

/// The base of an enabled endpoint: engine, port, memory and one lock.
pub(crate) struct Runtime {
    state: Mutex<State>,
    av: Arc<AddressTable>,
    endpoint: Attachment,
    /// Whether messages are stored that a receive of the shared context may match.
    has_unmatched: AtomicBool,
    /// Calls of the application that wait for the lock.
    waiting: AtomicU32,
    /// The progress thread has taken the runtime over, and packets do not wake it: the application
    /// polls soon, or sleeps in a wait call.
    suspended: AtomicBool,
    /// Whether the application has polled without pause since the progress thread drove: then it
    /// drives while it holds the lock.
    polled: AtomicBool,
}

struct State {
    engine: EngineBox,
    port: HybridPort,
    memory: AppMemory,
    peers: PeerMap,
    /// The engine's ids of the domain's regions, by key.
    regions: HashMap<u64, RegionId>,
    /// The application's calls that receive packets.
    polls: AppPolls,
    /// The next poll follows a sleep on the port's descriptors.
    slept: bool,
    /// The progress thread has taken the runtime over, and has its next turn at this time, unless a
    /// packet wakes it before; `None`: it monitors, and calls set no turn.
    thread_until: Option<Instant>,
    /// Sleeps in wait calls since its last turn.
    sleeps: u8,
    /// The connected endpoints.
    links: PeerLinks,
    /// The threads that sleep until something happens.
    wakers: Wakers,
    /// Whether the port has failed for good; it was reported then.
    failed: bool,
    /// Sends that the application wants cancelled.
    cancelled: CancelledSends,
    /// When the packets that the last call has left are sent.
    tx_retry: TxRetry,
    /// Reads find nothing before this time, unless packets arrive (`quiet.rs`).
    quiet_until: Instant,
}

impl State {
    /// The latest time of the next progress call, unless a packet arrives earlier. At once if the
    /// port holds packets that no descriptor reports, or slots are free that a shared context waits
    /// for; soon if frames wait to be sent.
    fn due(&self) -> Option<Instant> {
        if self.port.has_more() || self.engine.with(|engine| self.memory.is_shared_due(engine)) {
            return Some(Instant::ZERO);
        }
        let timer = self.engine.with(|engine| engine.poll_at());
        earlier(earlier(timer, self.links.opens_until()), self.tx_retry.at())
    }

    /// Copies of the port's descriptors, to sleep on without the lock. Without descriptors there
    /// are none: then a sleep ends with the next timer.
    fn wakeup_descriptors(&self) -> Vec<OwnedFd> {
        abi::descriptors(&self.port).filter_map(|it| it.try_clone_to_owned().ok()).collect()
    }
}

/// The common properties of a runtime's endpoints.
#[derive(Debug, Default)]
pub(crate) struct Attachment {
    /// `FI_SOURCE_ERR`: completions report sources that are not in the vector.
    pub(crate) source_err: bool,
    /// They are connected endpoints, each with a peer of its own.
    pub(crate) is_connected: bool,
    /// Completions of datagrams name their sources (`FI_SOURCE`). The engine knows the sender of a
    /// datagram only if it is a peer: all addresses of the vector are made peers.
    pub(crate) names_sources: bool,
}

/// The parts that a runtime is made of.
pub(crate) struct RuntimeConfig<'a> {
    /// Capacities and behaviour of the engine.
    pub(crate) config: Config,
    /// The port that packets take. It stays here if the runtime does not start.
    pub(crate) port: &'a mut Option<Box<HybridPort>>,
    /// The vector that gives peers their addresses.
    pub(crate) av: Arc<AddressTable>,
    /// The endpoints that run on it.
    pub(crate) endpoint: Attachment,
    /// The threads that sleep until something happens.
    pub(crate) wakers: Wakers,
    /// The shared context of its receives, if it has one.
    pub(crate) shared: Option<SharedSource>,
}

impl Runtime {
    /// Allocates all memory of the runtime, and starts the engine.
    ///
    /// # Errors
    /// [`Error::BadState`] without a port; [`Error::Invalid`] when capacities and port do not go
    /// together; [`Error::NoMemory`].
    pub(crate) fn start(parts: RuntimeConfig<'_>) -> Result<Arc<Self>, Error> {
        let RuntimeConfig { config, port, av, endpoint, wakers, shared } = parts;
        let open = port.as_ref().ok_or(Error::BadState)?;
        let limits = open.limits();
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|_| Error::Os(libc::EIO))?;
        let identity = Identity { key: u128::from_le_bytes(key) };
        let engine = EngineBox::new(&config, identity, limits).map_err(|error| {
            log::warn!(target: "ep_ctrl", "cannot enable: {error}");
            match error {
                ConfigError::NoMemory(_) => return Error::NoMemory,
                ConfigError::PayloadTooSmall => {
                    let status = open.status();
                    notice::small_mtu(&status.interface, status.mtu);
                }
                ConfigError::Storage(_) | ConfigError::Capacity(_) => {}
            }
            Error::Invalid
        })?;
        let memory = AppMemory::new(&config, shared)?;
        // Connected endpoints have no vector.
        let named = if endpoint.is_connected { 0 } else { config.peers as usize };
        let peers = PeerMap::new(named, av.expected(), &av)?;
        let (regions, failed) = (HashMap::new(), false);
        let polls = AppPolls::new(now());
        let (slept, links) = (false, PeerLinks::default());
        let port = *port.take().ok_or(Error::BadState)?;
        let cancelled = CancelledSends::default();
        let state = State {
            engine,
            port,
            memory,
            peers,
            regions,
            polls,
            thread_until: None,
            sleeps: 0,
            slept,
            links,
            wakers,
            failed,
            cancelled,
            tx_retry: TxRetry::default(),
            quiet_until: Instant::ZERO,
        };
        Ok(Arc::new(Self {
            state: Mutex::new(state),
            av,
            endpoint,
            has_unmatched: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            suspended: AtomicBool::new(false),
            polled: AtomicBool::new(false),
        }))
    }

    /// Waits while `is_busy`, until `deadline` at most.
    fn linger_while(
        &self,
        deadline: Instant,
        is_busy: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let wakeup = self.lock().wakeup_descriptors();
        // bound: the deadline
        loop {
            let (mut state, now) = (self.lock(), now());
            state.port.arm();
            // This poll may be the last one.
            state.port.poll_all_sources();
            self.drive(&mut state, now, Budget::PROGRESS);
            self.wake(&mut state, None);
            if !is_busy(&state) || state.failed || now >= deadline {
                return state;
            }
            // What another thread receives does not end the sleep.
            let recheck = deadline.min(now.after(LINGER_RECHECK));
            let until = state.due().map_or(recheck, |next| next.min(recheck));
            // Calls that visit all endpoints of the domain do not wait for this one.
            drop(state);
            let wakeup = wakeup.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
            // The clock decides, whatever ended the sleep.
            let _ = sleep(&mut wakeup.collect::<Vec<_>>(), Some(until.since(now)));
        }
    }

    /// Waits for acknowledgements and for frames in the ring, then sends close notifications.
    /// Afterwards no application memory is accessed any more.
    pub(crate) fn close(&self) {
        // Frames in a ring are lost with its socket.
        let has_work = |state: &State| {
            state.engine.with(|engine| engine.has_work()) || state.port.has_untaken()
        };
        let mut state = self.linger_while(now().after(LINGER), has_work);
        let now = now();
        let State { engine, port, .. } = &mut *state;
        engine.with_mut(|engine| {
            let kernel = port.kernel_stats().unwrap_or_default();
            let (did, moved) = (engine.stats(), port.stats());
            // In one line they would be longer than a message may be (`sys::log`).
            log::info!(target: "ep_data", "closing: {did:?}");
            log::info!(target: "ep_data", "closing: {moved:?}, {kernel:?}");
            engine.close(now);
        });
        self.notify_peers(&mut state, now);
        // Of these, too, the kernel may have left some in a ring.
        if state.port.has_untaken() {
            drop(state);
            state = self.linger_while(now.after(LINGER), |state| state.port.has_untaken());
        }
        // A fork may hold the descriptors. Closing them then removes them from no epoll set, and
        // packets that arrive later would keep the set readable (epoll(7)).
        state.port.disarm();
    }

    /// Sends the close notifications, in bursts: a port may have room for few of them between two
    /// flushes, and for none while a card sends.
    fn notify_peers(&self, state: &mut State, now: Instant) {
        for _ in 0..CLOSE_BURSTS_MAX {
            let sent = Self::move_packets(state, now, Budget::POST).transmitted;
            self.end_operations(state, now);
            if state.failed || !state.engine.with(|engine| engine.wants_transmit()) {
                break;
            }
            if sent == 0 {
                std::thread::sleep(CLOSE_PAUSE);
            }
        }
    }

    /// Makes progress for the application.
    #[inline]
    fn drive(&self, state: &mut State, now: Instant, budget: Budget) {
        let receives = budget.rx_packets > 0;
        let was_idle = receives && self.record_poll(state, now);
        if receives && self.has_peers_to_name(state) {
            self.name_peers(state);
        }
        let progress = Self::move_packets(state, now, budget);
        self.end_operations(state, now);
        if was_idle && is_exhausted(progress, budget) {
            self.catch_up(state, now, budget);
        }
        // A stream of datagrams has no window. In batches of the kernel a packet takes far less
        // time, and endpoints with windows send most of theirs in these.
        if state.engine.with(|engine| engine.carries_datagrams()) {
            state.polls.sent(now, progress.transmitted);
        }
    }

    /// Records the application's poll at `now`; returns whether the application was idle before.
    #[inline]
    fn record_poll(&self, state: &mut State, now: Instant) -> bool {
        let was_idle = state.polls.record(now);
        if let Some(polls) = state.polls.first_shown() {
            self.polled.store(polls, Ordering::Relaxed);
        }
        was_idle
    }

    /// Moves the packets that have gathered while the application was idle.
    #[cold]
    fn catch_up(&self, state: &mut State, now: Instant, budget: Budget) {
        for _ in 1..CATCH_UP_BUDGETS {
            if !is_exhausted(self.make_progress(state, now, budget), budget) {
                break;
            }
        }
    }

    /// Makes progress beyond a call of the application.
    fn make_progress(&self, state: &mut State, now: Instant, budget: Budget) -> Progress {
        if self.has_peers_to_name(state) {
            self.name_peers(state);
        }
        let progress = Self::move_packets(state, now, budget);
        self.end_operations(state, now);
        progress
    }

    #[inline(always)]
    fn has_peers_to_name(&self, state: &State) -> bool {
        state.engine.with(|engine| state.peers.has_changed(engine, &self.av))
    }

    /// Names the peers with addresses in the vector, before packets of theirs are received.
    #[cold]
    #[inline(never)]
    fn name_peers(&self, state: &mut State) {
        let State { engine, peers, .. } = state;
        engine.with_mut(|engine| {
            if self.endpoint.names_sources {
                peers.learn_all(engine, &self.av);
            } else {
                peers.name_known(engine, &self.av);
            }
        });
    }

    /// The work that follows moved packets: ends of unbound sides, receives of the shared context.
    #[inline]
    fn end_operations(&self, state: &mut State, now: Instant) {
        if state.wakers.any_unbound {
            Self::discard_unbound(state);
        }
        if state.memory.is_shared() {
            self.drive_shared(state, now);
        }
        if self.endpoint.is_connected {
            self.follow_connections(state, now);
        }
    }

    /// Matches stored messages with new receives of the shared context.
    #[inline(never)]
    fn drive_shared(&self, state: &mut State, now: Instant) {
        // bound: the stored messages; each round matches at least one
        while self.take_shared(state) {
            // The senders of the matched messages are asked for the rest.
            Self::move_packets(state, now, Budget::POST);
            Self::discard_unbound(state);
        }
    }

    fn move_packets(state: &mut State, now: Instant, budget: Budget) -> Progress {
        let State { engine, port, memory, failed, slept, tx_retry, .. } = state;
        if budget.rx_packets > 0 && mem::take(slept) {
            engine.with_mut(|engine| engine.awake(now));
        }
        let progress = engine.with_mut(|engine| match drive(engine, port, memory, now, budget) {
            Ok(progress) => {
                let moved = progress != Progress::default();
                if moved || budget.rx_packets > 0 {
                    spin_yield::polled(now, moved);
                }
                progress
            }
            Err(error) => {
                // Timers still run: undeliverable operations end in error.
                engine.advance(now);
                if !mem::replace(failed, true) {
                    log::warn!(target: "ep_data", "{error}; pending operations will time out");
                }
                Progress::default()
            }
        });
        // Packets that were never sent have no timer.
        let waits = engine.with(|engine| engine.wants_transmit());
        if waits && progress.transmitted >= budget.tx_packets {
            tx_retry.at_once(now);
        } else {
            tx_retry.record(now, waits || port.has_untaken());
        }
        progress
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_to_read();
        state.quiet_until = Instant::ZERO;
        state
    }

    /// The lock for a read, before which a quiet runtime stays quiet.
    // After a panic the state is consistent enough to be dropped.
    #[inline]
    fn lock_to_read(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock_when_free(),
        }
    }

    #[cold]
    fn lock_when_free(&self) -> MutexGuard<'_, State> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// The lock for the progress thread, which lets waiting calls go first: it takes the lock again
    /// sooner than a sleeping call wakes.
    fn lock_as_thread(&self) -> MutexGuard<'_, State> {
        for _ in 0..YIELDS_MAX {
            if self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::yield_now();
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.quiet_until = Instant::ZERO;
        state
    }
}

/// Whether the budget ended a call, so that more may wait.
#[inline]
const fn is_exhausted(progress: Progress, budget: Budget) -> bool {
    progress.received >= budget.rx_packets || progress.transmitted >= budget.tx_packets
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

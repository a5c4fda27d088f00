// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress thread of a domain: progress when the application makes none.
//!
//! Applications make progress by reading completion queues, on their own core, which is fastest.
//! But one that has its last message may stop reading, while its peer still waits for the
//! acknowledgment; and one that asked for `FI_PROGRESS_AUTO` may compute as long as it likes. So
//! each domain with an enabled endpoint has one thread, and for each endpoint it is in one of two
//! states:
//!
//! ```text
//!             1. nobody drove it for ATTENTION, nobody sleeps in `fi_cq_sread`
//!   resting ──────────────────────────────────────────────────────────────▶ standing in
//!      ▲     2. somebody drives it again, or sleeps there                         │
//!      └──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! While it *rests*, it looks every [`ATTENTION`] whether the application still sees to the
//! endpoint, and has packets wake nobody where nobody sleeps ([`ActiveEndpoint::review`]); who
//! sleeps, and was not woken for what there is, is woken then. With [`TRUST`] in place of
//! [`ATTENTION`] where the application is about to sleep on a descriptor of its queues.
//! While it *stands in*, it drives the endpoint itself, and sleeps until a packet arrives or a
//! timer is due; when nothing is under way, that is for ever. So an application that reads its
//! queues pays two hundred short wake-ups a second, and an idle one nothing.
//!
//! Bounds: one budget of packets for each endpoint and round. All signals are blocked in the
//! thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::SigSet;

use ofi_xdp_core::Instant;

use crate::cq::earlier;
use crate::errno::Error;
use crate::progress::{ActiveEndpoint, now};
use crate::provider;
use crate::statistics::Statistics;
use crate::wait::Wait;
use crate::waker::Waker;
use crate::work::WorkQueue;

/// How long an endpoint may go without being driven until the thread stands in.
pub(crate) const ATTENTION: Duration = Duration::from_millis(5);
/// The same where the application has said (`fi_trywait`) that it will sleep on a descriptor. Most
/// do so at once, and need nobody who wakes beside them for each packet; one that does not must
/// not keep its peers waiting for as long as it computes.
pub(crate) const TRUST: Duration = Duration::from_millis(100);

/// How long the end of the process waits for the thread, and how often it looks.
const EXIT_PATIENCE: Duration = Duration::from_millis(200);
const END_GLANCE: Duration = Duration::from_millis(1);

/// An endpoint that the thread looks after.
#[derive(Debug)]
struct Charge {
    endpoint: Arc<ActiveEndpoint>,
    /// The thread stands in: it waits for the endpoint's packets.
    standing_in: bool,
    /// Its page, where there can be one.
    statistics: Option<Statistics>,
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Shared {
    wait: Wait,
    charges: Mutex<Vec<Charge>>,
    work: Arc<WorkQueue>,
    stop: AtomicBool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ProgressThread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// Of the process that it runs in: a fork has none of its parent's threads.
    generation: u32,
}

/// Threads that run, so that the end of the process can stop them.
static RUNNING: Mutex<Vec<Arc<ProgressThread>>> = Mutex::new(Vec::new());

impl ProgressThread {
    /// Starts the thread, which runs until [`Self::stop`].
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors or threads are out.
    pub(crate) fn start(work: &Arc<WorkQueue>) -> Result<Arc<Self>, Error> {
        let shared = Arc::new(Shared {
            wait: Wait::new()?,
            charges: Mutex::default(),
            work: Arc::clone(work),
            stop: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        // A new thread inherits the mask, so no signal finds it unblocked.
        let mask = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)?;
        let spawned =
            std::thread::Builder::new().name("ofi-xdp".into()).spawn(move || theirs.run());
        mask.thread_set_mask()?;
        let handle =
            spawned.map_err(|error| Error::Os(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
        let thread = Arc::new(Self {
            shared,
            handle: Mutex::new(Some(handle)),
            generation: provider::generation(),
        });
        lock(&RUNNING).push(Arc::clone(&thread));
        Ok(thread)
    }

    /// Wakes the thread when it stands in.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        self.shared.wait.waker()
    }

    /// From now on the thread looks after `endpoint`.
    pub(crate) fn add(&self, endpoint: &Arc<ActiveEndpoint>) {
        let statistics = Statistics::open(endpoint, now());
        let charge = Charge { endpoint: Arc::clone(endpoint), standing_in: false, statistics };
        lock(&self.shared.charges).push(charge);
        self.waker().force();
    }

    /// The end of [`Self::add`]: when this returns, the thread is not at the endpoint any more.
    pub(crate) fn remove(&self, endpoint: &Arc<ActiveEndpoint>) {
        lock(&self.shared.charges).retain(|it| !Arc::ptr_eq(&it.endpoint, endpoint));
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(&self) {
        self.end(None);
    }

    /// Ends the thread, and waits for its end, for `patience` at most. Without a wait that long, it
    /// runs on to its end by itself: the library stays mapped (`-z nodelete`).
    fn end(&self, patience: Option<Duration>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.waker().force();
        if let Some(handle) = lock(&self.handle).take() {
            let until = patience.map(|patience| now().after(patience));
            // bound: the patience
            while let Some(until) = until
                && !handle.is_finished()
            {
                if now() >= until {
                    return;
                }
                std::thread::sleep(END_GLANCE);
            }
            // An error would say that the thread has panicked, and been reported.
            let _ = handle.join();
        }
        lock(&RUNNING).retain(|it| !std::ptr::eq(Arc::as_ptr(it), self));
    }

    /// Ends all threads: the process ends, perhaps with domains still open.
    pub(crate) fn stop_all() {
        let running = match RUNNING.try_lock() {
            Ok(mut running) => std::mem::take(&mut *running),
            // In a fork it may be held for ever, by a thread that only the parent has.
            Err(TryLockError::WouldBlock) if provider::generation() > 0 => return,
            Err(_) => std::mem::take(&mut *lock(&RUNNING)),
        };
        for thread in running {
            if thread.generation == provider::generation() {
                // A signal handler that calls exit() may have interrupted a call that holds the
                // lock for which the thread waits: it would never end.
                thread.end(Some(EXIT_PATIENCE));
            } else {
                // A fork cannot detach a thread that it does not have, as dropping its handle
                // would.
                std::mem::forget(thread);
            }
        }
    }
}

impl Shared {
    fn run(&self) {
        // bound: the life of the domain
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.round() {
                log::warn!(target: "domain", "progress thread: {error}");
                break;
            }
        }
        // The process may end with endpoints open; nobody writes their pages any more.
        for charge in lock(&self.charges).iter_mut() {
            charge.statistics = None;
        }
    }

    /// Does what is due for each endpoint, then sleeps.
    fn round(&self) -> Result<(), Error> {
        let waker = self.wait.waker();
        let mut charges = lock(&self.charges);
        let mut resting = false;
        for charge in charges.iter_mut() {
            charge.review(&self.wait)?;
            resting |= !charge.standing_in;
        }
        if !resting {
            // Before the look: see `waker`. Resting, the thread looks again soon enough by itself.
            waker.arm();
        }
        let mut next = resting.then(|| now().after(ATTENTION));
        for charge in charges.iter().filter(|charge| charge.standing_in) {
            next = earlier(next, charge.endpoint.tend());
        }
        let time = now();
        for charge in charges.iter_mut() {
            next = earlier(next, charge.publish(time));
        }
        drop(charges);
        self.work.run();
        if !resting {
            waker.sleep_until(next);
        }
        let slept = self.wait.sleep(next.map(|next| next.since(now())));
        if resting {
            waker.forget();
        } else {
            waker.disarm();
        }
        slept
    }
}

impl Charge {
    /// Sees to the statistics page; says when to look again at the latest.
    fn publish(&mut self, now: Instant) -> Option<Instant> {
        self.statistics.as_mut()?.publish(&self.endpoint, now)
    }

    /// Goes from one state to the other if need be.
    fn review(&mut self, wait: &Wait) -> Result<(), Error> {
        let stand_in = !self.endpoint.is_attended();
        if !stand_in {
            self.endpoint.review();
        }
        if stand_in == self.standing_in {
            return Ok(());
        }
        self.standing_in = stand_in;
        self.endpoint.descriptors(|descriptor| {
            if stand_in { wait.add(descriptor) } else { wait.remove(descriptor) }
        })
    }
}

// What the locks protect is a list, consistent at all times.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress thread of a domain: progress while the application makes none.
//!
//! Applications make progress by reading completion queues on their own core, which is fastest.
//! An application that has its last message may stop reading while its peer still waits for the
//! acknowledgment, and one that asked for `FI_PROGRESS_AUTO` may compute for any time. So each
//! domain with an enabled endpoint has one thread. For each endpoint the thread is in one of two
//! states:
//!
//! ```text
//!              1. not driven for APP_IDLE_LIMIT, no sleeper in `fi_cq_sread`
//!   monitoring ──────────────────────────────────────────────────────────────▶ taken over
//!       ▲      2. driven again, or a sleeper there                                 │
//!       └──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! *Monitoring*, the thread checks every [`APP_IDLE_LIMIT`] whether the application still drives
//! the endpoint. The check also wakes sleepers that missed a wake-up, and turns off wake-ups by
//! packets while there are no sleepers ([`Runtime::recheck_sleepers`]). The limit is
//! `ANNOUNCED_IDLE_LIMIT` while the application has announced a sleep on a descriptor of its
//! queues.
//!
//! Having *taken over*, the thread drives the endpoint, and sleeps until a packet arrives or a
//! timer is due. So an application that reads its queues pays two hundred short wake-ups a
//! second, and an idle one none.
//!
//! Bounds: one budget of packets for each endpoint and round. All signals are blocked in the
//! thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::SigSet;

use ofi_xdp_core::Instant;

use crate::runtime::Runtime;
use crate::runtime::deferred::WorkQueue;
use crate::runtime::statistics::Statistics;
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::sys::limits::APP_IDLE_LIMIT;
use crate::sys::process;
use crate::wait::wait_fd::Wait;
use crate::wait::waker::Waker;

/// Longest wait for the thread at the end of the process.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval of the checks of that wait.
const EXIT_POLL: Duration = Duration::from_millis(1);

/// An endpoint that the thread monitors.
#[derive(Debug)]
struct MonitoredEndpoint {
    endpoint: Arc<Runtime>,
    /// The thread drives the endpoint and waits for its packets.
    taken_over: bool,
    /// The statistics page, if one could be made.
    statistics: Option<Statistics>,
}

/// State that the thread and its owner share.
#[derive(Debug)]
struct ThreadState {
    wait: Wait,
    endpoints: Mutex<Vec<MonitoredEndpoint>>,
    work: Arc<WorkQueue>,
    stop: AtomicBool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ProgressThread {
    shared: Arc<ThreadState>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// Fork generation of the process that the thread runs in: a child has no threads of its
    /// parent.
    generation: u32,
}

/// Running threads, which the end of the process stops.
static RUNNING: Mutex<Vec<Arc<ProgressThread>>> = Mutex::new(Vec::new());

impl ProgressThread {
    /// Starts the thread, which runs until [`Self::stop`].
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors or threads are out.
    pub(crate) fn start(work: &Arc<WorkQueue>) -> Result<Arc<Self>, Error> {
        let shared = Arc::new(ThreadState {
            wait: Wait::new()?,
            endpoints: Mutex::default(),
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
            generation: process::generation(),
        });
        lock(&RUNNING).push(Arc::clone(&thread));
        Ok(thread)
    }

    /// Wakes the thread while it has taken an endpoint over.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        self.shared.wait.waker()
    }

    /// Monitors `endpoint` from now on.
    pub(crate) fn add(&self, endpoint: &Arc<Runtime>) {
        let statistics = Statistics::open(endpoint, now());
        let monitored =
            MonitoredEndpoint { endpoint: Arc::clone(endpoint), taken_over: false, statistics };
        lock(&self.shared.endpoints).push(monitored);
        self.waker().force();
    }

    /// Undoes [`Self::add`]. When this returns, the thread does not use the endpoint any more.
    pub(crate) fn remove(&self, endpoint: &Arc<Runtime>) {
        lock(&self.shared.endpoints).retain(|it| !Arc::ptr_eq(&it.endpoint, endpoint));
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(&self) {
        self.end(None);
    }

    /// Ends the thread, and waits for its end, for `timeout` at most. After the timeout the thread
    /// runs to its end by itself: the library stays mapped (`-z nodelete`).
    fn end(&self, timeout: Option<Duration>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.waker().force();
        if let Some(handle) = lock(&self.handle).take() {
            let until = timeout.map(|timeout| now().after(timeout));
            // bound: the timeout
            while let Some(until) = until
                && !handle.is_finished()
            {
                if now() >= until {
                    return;
                }
                std::thread::sleep(EXIT_POLL);
            }
            // An error means that the thread panicked, which is reported already.
            let _ = handle.join();
        }
        lock(&RUNNING).retain(|it| !std::ptr::eq(Arc::as_ptr(it), self));
    }

    /// Ends all threads at the end of the process; domains may still be open.
    pub(crate) fn stop_all() {
        let running = match RUNNING.try_lock() {
            Ok(mut running) => std::mem::take(&mut *running),
            // In the child of a fork the lock may be held for ever, by a thread of the parent.
            Err(TryLockError::WouldBlock) if process::generation() > 0 => return,
            Err(_) => std::mem::take(&mut *lock(&RUNNING)),
        };
        for thread in running {
            if thread.generation == process::generation() {
                // A signal handler that calls exit() may have interrupted a call that holds the
                // lock for which the thread waits: the thread would never end.
                thread.end(Some(EXIT_TIMEOUT));
            } else {
                // Dropping the handle would detach a thread that this process does not have.
                std::mem::forget(thread);
            }
        }
    }
}

impl ThreadState {
    fn run(&self) {
        // bound: the life of the domain
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.round() {
                log::warn!(target: "domain", "progress thread: {error}");
                break;
            }
        }
        // The process may end with open endpoints; their pages are not written any more.
        for monitored in lock(&self.endpoints).iter_mut() {
            monitored.statistics = None;
        }
    }

    /// One round of the loop: checks and drives each endpoint, then sleeps.
    fn round(&self) -> Result<(), Error> {
        let waker = self.wait.waker();
        let mut endpoints = lock(&self.endpoints);
        let mut monitoring = false;
        for monitored in endpoints.iter_mut() {
            monitored.update_state(&self.wait)?;
            monitoring |= !monitored.taken_over;
        }
        if !monitoring {
            // Armed before the last poll (see `waker`). A monitoring thread polls again soon.
            waker.arm();
        }
        let mut next = monitoring.then(|| now().after(APP_IDLE_LIMIT));
        for monitored in endpoints.iter().filter(|monitored| monitored.taken_over) {
            next = earlier(next, monitored.endpoint.drive_from_thread());
        }
        let time = now();
        for monitored in endpoints.iter_mut() {
            next = earlier(next, monitored.publish(time));
        }
        drop(endpoints);
        self.work.run();
        if !monitoring {
            waker.sleep_until(next);
        }
        let slept = self.wait.sleep(next.map(|next| next.since(now())));
        if monitoring {
            waker.drain();
        } else {
            waker.disarm();
        }
        slept
    }
}

impl MonitoredEndpoint {
    /// Writes the statistics page if due; returns the time of the next write.
    fn publish(&mut self, now: Instant) -> Option<Instant> {
        self.statistics.as_mut()?.publish(&self.endpoint, now)
    }

    /// Changes the state if the application started or stopped to drive the endpoint.
    fn update_state(&mut self, wait: &Wait) -> Result<(), Error> {
        let take_over = !self.endpoint.is_app_driven();
        if !take_over {
            self.endpoint.recheck_sleepers();
        }
        if take_over == self.taken_over {
            return Ok(());
        }
        self.taken_over = take_over;
        self.endpoint.descriptors(|descriptor| {
            if take_over { wait.add(descriptor) } else { wait.remove(descriptor) }
        })
    }
}

// The locks protect lists, which are consistent at all times.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

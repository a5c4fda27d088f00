// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress thread of a domain: progress while the application makes none.
//!
//! Applications make progress by reading completion queues on their own core, which is fastest. An
//! application that computes or sleeps must not keep its peers waiting. So each domain with an
//! enabled endpoint has one thread, which monitors its endpoints or takes them over (`takeover`).
//!
//! A round gives a turn to each endpoint that has a packet, a timer that is due, or an alarm
//! (`monitored`). Then the thread sleeps until the next of these; right after a packet it polls
//! instead.
//!
//! No wake-up is lost. An endpoint that is taken over has its port armed, and the descriptor
//! reports packets that are already there. A call of the application that arms an earlier timer
//! sets a turn for it ([`Alarm`]). Endpoints at rest have no timer, so without traffic the thread
//! sleeps for ever.
//!
//! Bounds: one budget of packets for each endpoint and round. All signals are blocked in the
//! thread, but for those that the C library keeps to itself; they end a sleep. What the kernel
//! refuses is tried again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::SigSet;
use ofi_xdp_datapath::Thread;
use ofi_xdp_datapath::fork::ProcessList;

use super::monitored::{Endpoints, Round};
use crate::runtime::Runtime;
use crate::runtime::deferred::WorkQueue;
use crate::runtime::statistics::remove_pages_left;
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::sys::process;
use crate::wait::alarm::Alarm;
use crate::wait::wait_fd::Wait;

/// Longest wait for the thread at the end of the process.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval of the checks of that wait.
const EXIT_POLL: Duration = Duration::from_millis(1);
/// Delay that the kernel may add to the thread's timers, in nanoseconds; else it is 50 us.
const TIMER_SLACK_NANOS: u64 = 1000;
/// Longest sleep while endpoints are active and deferred work waits for a counter.
const WORK_INTERVAL: Duration = Duration::from_millis(5);
/// Pause after a round in which the kernel has refused a resource.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Most yields to a call that changes the list of endpoints.
const YIELDS_MAX: u32 = 256;

/// State that the thread and its owner share.
#[derive(Debug)]
struct ThreadState {
    wait: Arc<Wait>,
    endpoints: Mutex<Endpoints>,
    /// Calls that wait for the list of endpoints.
    waiting: AtomicU32,
    work: Arc<WorkQueue>,
    stop: AtomicBool,
}

/// The progress thread of a domain, seen by its owner.
#[derive(Debug)]
pub(crate) struct ProgressThread {
    shared: Arc<ThreadState>,
    handle: Mutex<Option<Thread>>,
    /// Fork generation of the process that the thread runs in: a child has no threads of its
    /// parent.
    generation: u32,
}

/// Running threads, which the end of the process stops.
static RUNNING: ProcessList<Arc<ProgressThread>> = ProcessList::new();

impl ProgressThread {
    /// Starts the thread, which runs until [`Self::stop`].
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out, [`Error::NoMemory`] when threads are.
    pub(crate) fn start(work: &Arc<WorkQueue>) -> Result<Arc<Self>, Error> {
        let shared = Arc::new(ThreadState::new(work)?);
        let theirs = Arc::clone(&shared);
        // A new thread inherits the mask, so no signal finds it unblocked.
        let mask = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)?;
        let spawned = Thread::spawn(c"ofi-xdp", move || theirs.run());
        mask.thread_set_mask()?;
        let handle = spawned?;
        let thread = Arc::new(Self {
            shared,
            handle: Mutex::new(Some(handle)),
            generation: process::generation(),
        });
        RUNNING.lock().push(Arc::clone(&thread));
        Ok(thread)
    }

    /// The turns of a new endpoint.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(crate) fn alarm(&self) -> Result<Alarm, Error> {
        Alarm::new(&self.shared.wait)
    }

    /// Monitors `endpoint` from now on.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::Os`]; then it does not.
    pub(crate) fn add(&self, endpoint: &Arc<Runtime>) -> Result<(), Error> {
        endpoint.connect_alarm()?;
        let mut added = Ok(());
        self.shared.change(|endpoints| added = endpoints.add(endpoint));
        self.shared.wait.waker().force();
        added
    }

    /// Undoes [`Self::add`]. When this returns, the thread does not use the endpoint any more.
    pub(crate) fn remove(&self, endpoint: &Arc<Runtime>) {
        endpoint.disconnect_alarm();
        self.shared.change(|endpoints| endpoints.remove(endpoint));
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(&self) {
        self.end(None);
    }

    /// Ends the thread, and waits for its end, for `timeout` at most. After the timeout the thread
    /// runs to its end by itself: the library stays mapped (`-z nodelete`).
    fn end(&self, timeout: Option<Duration>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wait.waker().force();
        // A statement of its own frees the lock: a signal handler that calls exit() may interrupt
        // the wait.
        let handle = lock(&self.handle).take();
        if let Some(handle) = handle {
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
            handle.join();
        }
        RUNNING.lock().retain(|it| !std::ptr::eq(Arc::as_ptr(it), self));
    }

    /// Makes the list of threads usable in the child of a fork. Called before any other code there.
    pub(crate) fn unlock_in_child() {
        drop(RUNNING.unlock_in_child());
    }

    /// Ends all threads at the end of the process; domains may still be open.
    pub(crate) fn stop_all() {
        let running = std::mem::take(&mut *RUNNING.lock());
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
    fn new(work: &Arc<WorkQueue>) -> Result<Self, Error> {
        Ok(Self {
            wait: Arc::new(Wait::new()?),
            endpoints: Mutex::default(),
            waiting: AtomicU32::new(0),
            work: Arc::clone(work),
            stop: AtomicBool::new(false),
        })
    }

    fn run(&self) {
        if let Err(error) = prctl::set_timerslack(TIMER_SLACK_NANOS) {
            log::info!(target: "domain", "progress thread, timer slack: {error}");
        }
        remove_pages_left();
        let (mut ready, mut failed) = (Vec::new(), false);
        // bound: the life of the domain
        while !self.stop.load(Ordering::Relaxed) {
            match self.round(&mut ready) {
                // glibc interrupts every thread for setuid(2) and its like (nptl(7)).
                Ok(()) | Err(Error::Interrupted) => {}
                Err(error) => {
                    if !std::mem::replace(&mut failed, true) {
                        log::warn!(target: "domain", "progress thread: {error}");
                    }
                    std::thread::sleep(RETRY_INTERVAL);
                }
            }
        }
        // The process may end with open endpoints; their pages are not written any more.
        lock(&self.endpoints).close_pages();
    }

    /// One round of the loop: turns of endpoints, then a sleep. `ready`: the endpoints with a
    /// packet at the end of the last round, and then of this one.
    fn round(&self, ready: &mut Vec<usize>) -> Result<(), Error> {
        // Before the list of endpoints is read: a later change makes the descriptor readable again.
        self.wait.waker().drain();
        if self.stop.load(Ordering::Relaxed) {
            // That wake-up was for the end of the thread.
            return Ok(());
        }
        let Round { lingers, next } = self.turns(ready);
        let sleep = || self.wait.sleep(next.map(|next| next.since(now())));
        let slept = if lingers { Ok(()) } else { sleep() };
        // Also after a sleep that has failed: those with a packet have turns nevertheless.
        self.wait.ready(ready).and(slept)
    }

    /// Turns of the endpoints in `ready`, which is empty afterwards, and of those that are due.
    fn turns(&self, ready: &mut Vec<usize>) -> Round {
        for _ in 0..YIELDS_MAX {
            if self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::yield_now();
        }
        let mut endpoints = lock(&self.endpoints);
        ready.drain(..).for_each(|endpoint| endpoints.set_ready(endpoint));
        let mut round = endpoints.round(now(), &self.wait);
        drop(endpoints);
        self.work.run();
        if self.work.is_busy() && round.next.is_some() {
            round.next = earlier(round.next, Some(now().after(WORK_INTERVAL)));
        }
        round
    }

    /// Changes the list of endpoints. The thread lets this call go first: it takes the lock again
    /// sooner than a sleeping call wakes.
    fn change(&self, change: impl FnOnce(&mut Endpoints)) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        change(&mut lock(&self.endpoints));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

// The locks protect lists, which are consistent at all times.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_end_that_comes_before_a_round_lets_it_not_sleep() {
        let state = ThreadState::new(&Arc::default()).unwrap();
        // As `end` does it, between the test of the loop and the round.
        state.stop.store(true, Ordering::Relaxed);
        state.wait.waker().force();
        thread::scope(|scope| {
            let round = scope.spawn(|| state.round(&mut Vec::new()));
            let until = now().after(Duration::from_secs(5));
            while !round.is_finished() && now() < until {
                thread::sleep(EXIT_POLL);
            }
            let ended = round.is_finished();
            state.wait.waker().force();
            assert!(ended);
        });
    }

    #[test]
    fn a_change_of_the_group_does_not_end_the_thread() {
        let thread = ProgressThread::start(&Arc::default()).unwrap();
        thread::sleep(Duration::from_millis(50));
        // The C library interrupts each thread of the process.
        nix::unistd::setgid(nix::unistd::getgid()).unwrap();
        thread::sleep(Duration::from_millis(50));
        let ended = lock(&thread.handle).as_ref().is_none_or(Thread::is_finished);
        thread.stop();
        assert!(!ended);
    }

    /// As a signal handler that calls `exit()` while `fi_close` waits.
    #[test]
    fn a_wait_for_the_end_of_the_thread_holds_up_no_other_one() {
        let thread = ProgressThread::start(&Arc::default()).unwrap();
        let endpoints = lock(&thread.shared.endpoints);
        thread::scope(|scope| {
            let waits = scope.spawn(|| thread.stop());
            // Time for it to take the handle.
            thread::sleep(Duration::from_millis(50));
            let exits = scope.spawn(|| thread.end(Some(EXIT_TIMEOUT)));
            let until = now().after(Duration::from_secs(5));
            while !exits.is_finished() && now() < until {
                thread::sleep(EXIT_POLL);
            }
            let (ended, waited) = (exits.is_finished(), waits.is_finished());
            drop(endpoints);
            assert!(ended && !waited);
        });
    }
}

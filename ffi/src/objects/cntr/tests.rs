// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each thread that waits for a counter wakes at its own value, also beside threads that read it.

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::objects::tests::domain;
use crate::objects::wait_set::WaitMember as _;
use crate::runtime::tests::endpoint;
use crate::sys::abi::FI_WAIT_FD;
use crate::sys::clock::now;

/// Long enough for any wake-up of these tests.
const LATE: Duration = Duration::from_secs(5);

fn counter() -> Arc<Cntr> {
    Cntr::open(&domain(), WaitObject::Own(FI_WAIT_FD)).unwrap()
}

fn is_readable(counter: &Cntr) -> bool {
    counter.wait.as_ref().unwrap().is_readable()
}

/// Threads sleep until the values 1 and 2 in the order of `thresholds`, behind `start`.
fn wait_for_two_values(counter: &Cntr, start: u64, thresholds: [u64; 2]) {
    let (ended, ends) = mpsc::channel();
    thread::scope(|scope| {
        for threshold in thresholds {
            let ended = ended.clone();
            scope.spawn(move || {
                counter.wait(start + threshold, Some(2 * LATE)).unwrap();
                ended.send(threshold).unwrap();
            });
            thread::sleep(Duration::from_millis(2));
        }
        for value in [1, 2] {
            counter.add(1, 0);
            assert_eq!(ends.recv_timeout(LATE), Ok(value));
        }
    });
}

#[test]
fn two_threads_that_wait_for_a_counter_wake_each_at_its_value() {
    let counter = counter();
    for round in 0..50 {
        let thresholds = if round % 2 == 0 { [2, 1] } else { [1, 2] };
        wait_for_two_values(&counter, 2 * round, thresholds);
    }
}

#[test]
fn two_threads_that_wait_for_a_counter_end_each_at_its_time() {
    let counter = counter();
    thread::scope(|scope| {
        for timeout in [50, 20, 80].map(Duration::from_millis) {
            let counter = &counter;
            scope.spawn(move || assert_eq!(counter.wait(1, Some(timeout)), Err(Error::TimedOut)));
        }
    });
}

#[test]
fn a_sleep_on_the_descriptor_outlives_a_read_of_another_thread() {
    let counter = counter();
    counter.wait_fd().unwrap();
    counter.try_wait().unwrap();
    let read = || thread::scope(|scope| scope.spawn(|| counter.value()).join().unwrap());
    assert_eq!(read(), 0);
    assert!(!is_readable(&counter));
    counter.add(1, 0);
    assert_eq!(read(), 1);
    assert!(is_readable(&counter), "the sleeper may not have seen it");
    assert_eq!(counter.value(), 1);
    assert!(!is_readable(&counter), "it is back");
}

#[test]
fn a_signal_stays_for_a_leader_that_has_not_run() {
    let counter = counter();
    counter.wait_fd().unwrap();
    counter.try_wait().unwrap();
    let waker = counter.waker().unwrap();
    waker.arm();
    counter.add(1, 0);
    assert_eq!((counter.value(), counter.value()), (1, 1));
    assert!(is_readable(&counter), "after reads");
    counter.try_wait().unwrap();
    assert!(is_readable(&counter), "after fi_trywait");
    waker.disarm();
    counter.value();
    assert!(!is_readable(&counter));
}

#[test]
fn a_thread_is_notified_of_each_value_before_a_sleep_and_errors_are_reported_once() {
    let counter = counter();
    counter.try_wait().unwrap();
    for rounds in 1..3 {
        counter.add(1, 0);
        assert_eq!(counter.errors(), 0);
        assert_eq!(counter.try_wait(), Err(Error::Again), "the thread has not read the value");
        thread::scope(|scope| drop(scope.spawn(|| counter.value())));
        counter.try_wait().expect("it was notified, and another thread has read the value");
        assert_eq!(counter.value(), rounds);
        counter.try_wait().unwrap();
    }
    counter.add(0, 1);
    assert_eq!(counter.try_wait(), Err(Error::Again));
    counter.try_wait().unwrap();
    counter.add(0, 1);
    assert_eq!(counter.errors(), 2);
    counter.try_wait().unwrap();
}

#[test]
fn a_signal_stays_until_each_sleeper_on_the_descriptor_is_back() {
    let counter = counter();
    counter.wait_fd().unwrap();
    let (wake, woken) = mpsc::channel();
    let (report, reports) = mpsc::channel();
    thread::scope(|scope| {
        let sleeper = &counter;
        scope.spawn(move || {
            report.send(sleeper.try_wait()).unwrap();
            woken.recv_timeout(LATE).unwrap();
            let was_readable = is_readable(sleeper);
            assert_eq!(sleeper.value(), 1);
            report.send(if was_readable { Ok(()) } else { Err(Error::Again) }).unwrap();
        });
        assert_eq!(reports.recv(), Ok(Ok(())));
        counter.try_wait().unwrap();
        counter.add(1, 0);
        for _ in 0..2 {
            assert_eq!(counter.value(), 1);
            assert_eq!(counter.try_wait(), Ok(()));
            assert!(is_readable(&counter), "it looks again");
        }
        wake.send(()).unwrap();
        assert_eq!(reports.recv(), Ok(Ok(())), "the sleeper on the descriptor wakes");
        counter.value();
        assert_eq!(counter.try_wait(), Ok(()));
        assert!(!is_readable(&counter));
    });
}

#[test]
fn a_thread_that_leads_leaves_the_signal_to_a_sleeper_on_the_descriptor() {
    let counter = counter();
    counter.wait_fd().unwrap();
    counter.try_wait().unwrap();
    thread::scope(|scope| {
        let leader = scope.spawn(|| counter.wait(2, Some(2 * LATE)));
        while !counter.waker().unwrap().has_armed() {
            thread::yield_now();
        }
        counter.add(1, 0);
        // Rounds of the leader.
        thread::sleep(20 * RECHECK);
        assert!(is_readable(&counter));
        assert_eq!(counter.value(), 1);
        let is_cleared = || !is_readable(&counter);
        let until = now().after(LATE);
        while !is_cleared() && now() < until {
            thread::sleep(RECHECK);
        }
        assert!(is_cleared() && !leader.is_finished());
        counter.add(1, 0);
        assert_eq!(leader.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_change_by_hand_signals_an_exported_descriptor() {
    let counter = counter();
    counter.wait_fd().unwrap();
    for change in [Cntr::change, Cntr::add] {
        change(&counter, 1, 0);
        assert!(is_readable(&counter));
        counter.value();
        assert!(!is_readable(&counter));
    }
}

#[test]
fn two_sets_at_once_are_one_after_the_other() {
    let counter = counter();
    let own = [[5, 7], [500, 700]];
    counter.set(Some(5), None);
    thread::scope(|scope| {
        for [by_hand, by_work] in own {
            let counter = &counter;
            scope.spawn(move || {
                for _ in 0..100_000 {
                    counter.set(Some(by_hand), None);
                    counter.set_done(by_work);
                    let total = counter.total();
                    assert!(own.as_flattened().contains(&total), "{total}");
                }
            });
        }
    });
}

#[test]
fn an_endpoint_that_leaves_wakes_sleepers() {
    let counter = counter();
    let (runtime, _) = endpoint();
    counter.add_endpoint(&runtime, 0).unwrap();
    let waker = counter.waker().unwrap();
    waker.arm();
    counter.remove_endpoint(&runtime);
    assert!(waker.disarm());
}

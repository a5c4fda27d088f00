// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each thread that waits for a counter wakes at its own value, also beside threads that read it.

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::objects::tests::domain;
use crate::objects::wait_set::WaitMember as _;
use crate::runtime::tests::endpoint;
use crate::sys::abi::FI_WAIT_FD;

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
fn an_endpoint_that_leaves_wakes_sleepers() {
    let counter = counter();
    let (runtime, _) = endpoint();
    counter.add_endpoint(&runtime, 0).unwrap();
    let waker = counter.waker().unwrap();
    waker.arm();
    counter.remove_endpoint(&runtime);
    assert!(waker.disarm());
}

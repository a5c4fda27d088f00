// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of queues, counters and poll sets yield the processor if they find nothing. A counter
//! may be closed once its works have started.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ofi_xdp_core::Instant;

use super::cntr::Cntr;
use super::cq::{Cq, CqAttributes};
use super::domain::Domain;
use super::fabric::Fabric;
use super::object_ops::ObjectOps as _;
use super::poll_set::PollSet;
use super::wait_set::WaitObject;
use crate::getinfo::InfoRequest;
use crate::runtime::deferred::{Action, Work, WorkCounter};
use crate::sys::errno::Error;
use crate::wait::spin_yield;

pub(super) fn domain() -> Arc<Domain> {
    let loopback = InfoRequest { source: "127.0.0.1:0".parse().ok(), ..InfoRequest::default() };
    Domain::open(&Fabric::open(None, 0).unwrap(), &loopback).unwrap()
}

/// A counter that tells of a change, and gives the thread that waits for it time to act on it.
#[derive(Debug)]
struct SlowCounter(mpsc::Sender<()>);

impl WorkCounter for SlowCounter {
    fn total(&self) -> u64 {
        0
    }

    fn change(&self, _: u64, _: u64) {
        self.0.send(()).unwrap();
        thread::sleep(Duration::from_millis(50));
    }

    fn set_done(&self, _: u64) {}
}

#[test]
fn a_counter_is_unreferenced_once_its_works_have_started() {
    let domain = domain();
    let counter = Cntr::open(&domain, WaitObject::None).unwrap();
    let (changed, changes) = mpsc::channel();
    let slow = Arc::new(SlowCounter(changed));
    let trigger = Arc::clone(&counter) as _;
    let action = Action::Add(slow, 1);
    let work = Work { id: 1, counter: trigger, threshold: 0, action, completion: None };
    thread::scope(|scope| {
        scope.spawn(move || {
            changes.recv().unwrap();
            assert!(counter.is_unreferenced());
        });
        domain.work().push(work).unwrap();
    });
}

#[test]
fn reads_without_a_result_yield_and_changes_do_not() {
    let domain = domain();
    let counter = Cntr::open(&domain, WaitObject::None).unwrap();
    let queue = Cq::open(&domain, CqAttributes::default()).unwrap();
    // Without a bound endpoint, they poll no port themselves.
    let poll_unproductively = |micros| {
        let start = Instant::ZERO.after(Duration::from_secs(1));
        spin_yield::polled(start, true);
        (1..=micros)
            .for_each(|at| spin_yield::polled(start.after(Duration::from_micros(at)), false));
    };
    poll_unproductively(100);
    assert_eq!(counter.value(), 0);
    assert_eq!(spin_yield::unproductive(), Duration::ZERO);
    poll_unproductively(100);
    assert_eq!(queue.read(0, |_, _| {}), Err(Error::Again));
    assert_eq!(spin_yield::unproductive(), Duration::ZERO);
    poll_unproductively(100);
    let timeout = Some(Duration::from_millis(100));
    assert_eq!(counter.wait(1, timeout), Err(Error::TimedOut));
    assert_eq!(spin_yield::unproductive(), Duration::ZERO, "it has no wait object");
    poll_unproductively(100);
    PollSet::open(&domain).poll(1, |_| unreachable!("it is empty"));
    assert_eq!(spin_yield::unproductive(), Duration::ZERO);
    poll_unproductively(3);
    assert_eq!(counter.value(), 0);
    assert_eq!(spin_yield::unproductive(), Duration::from_micros(3));
    counter.add(1, 0);
    assert_eq!(counter.value(), 1);
    assert_eq!(spin_yield::unproductive(), Duration::ZERO);
}

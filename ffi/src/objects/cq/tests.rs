// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeps on the descriptor of a queue beside reads of other threads, and without endpoints.
//! Completions that were met end with their endpoint.

use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;
use crate::objects::tests::domain;
use crate::objects::wait_set::WaitMember as _;
use crate::runtime::Side;
use crate::runtime::deferred::{Action, Work, WorkCounter};
use crate::runtime::tests::{
    datagram_runtime, endpoint, fail_operations, peer_of, port, post_datagram, send_batch,
    silent_links,
};
use crate::wait::wait_fd::Wait;

fn queue(domain: &Arc<Domain>) -> Arc<Cq> {
    let attributes =
        CqAttributes { wait: WaitObject::Own(abi::FI_WAIT_FD), ..CqAttributes::default() };
    Cq::open(domain, attributes).unwrap()
}

fn source(side: Side) -> CompletionSource {
    CompletionSource { side, group: CompletionGroup::default() }
}

fn read_one(queue: &Cq) -> Result<usize, Error> {
    queue.read(1, |_, _| ())
}

fn is_readable(queue: &Cq) -> bool {
    queue.wait.as_ref().unwrap().is_readable()
}

#[test]
fn a_thread_that_leaves_completions_wakes_one_that_sleeps_on_the_descriptor() {
    let queue = queue(&domain());
    let (runtime, _) = datagram_runtime(&Arc::new(Wait::new().unwrap()));
    let silent = port();
    let peer = peer_of(&runtime, &silent);
    queue.add(&runtime, &[source(Side::Transmit)]).unwrap();
    queue.wait_fd().unwrap();
    queue.try_wait().unwrap();
    (0..3).for_each(|_| post_datagram(&runtime, peer, false));
    let read = || thread::scope(|scope| scope.spawn(|| read_one(&queue)).join().unwrap());
    for _ in 0..2 {
        assert_eq!(read(), Ok(1));
        assert!(is_readable(&queue), "there is another one");
    }
    assert_eq!(read_one(&queue), Ok(1));
    assert_eq!(read_one(&queue), Err(Error::Again));
    assert!(!is_readable(&queue), "the sleeper is back");
}

#[test]
fn a_signal_stays_for_a_thread_in_a_wait_call_that_has_not_run() {
    let queue = queue(&domain());
    queue.wait_fd().unwrap();
    let waker = queue.waker().unwrap();
    waker.arm();
    queue.signal().unwrap();
    assert_eq!(read_one(&queue), Err(Error::Again));
    assert!(is_readable(&queue), "after a read");
    queue.try_wait().unwrap();
    assert!(is_readable(&queue), "after fi_trywait");
    waker.disarm();
    assert_eq!(queue.read_wait(1, None, |_, _| ()), Err(Error::Again));
    assert_eq!(read_one(&queue), Err(Error::Again));
    assert!(!is_readable(&queue));
}

#[test]
fn a_queue_does_not_wake_for_packets_of_endpoints_that_have_left() {
    let queue = queue(&domain());
    let (runtime, _) = endpoint();
    queue.add(&runtime, &[source(Side::Receive)]).unwrap();
    runtime.arm_port(false);
    send_batch(&mut port(), &runtime);
    assert!((0..1000).any(|_| is_readable(&queue)));
    queue.remove(&runtime, CompletionGroup::default());
    assert!(!is_readable(&queue));
}

/// A counter with a total that the test sets, and the number of its changes.
#[derive(Debug, Default)]
struct SetCounter {
    total: AtomicU64,
    changes: AtomicU64,
}

impl WorkCounter for SetCounter {
    fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn change(&self, _: u64, _: u64) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn set_done(&self, _: u64) {}
}

#[test]
fn work_that_is_due_starts_before_a_sleep_on_the_descriptor() {
    let domain = domain();
    let queue = queue(&domain);
    let counter = Arc::new(SetCounter::default());
    let action = Action::Add(Arc::clone(&counter) as _, 1);
    let trigger = Arc::clone(&counter) as _;
    let work = Work { id: 1, counter: trigger, threshold: 1, action, completion: None };
    domain.work().push(work).unwrap();
    counter.total.store(1, Ordering::Relaxed);
    queue.try_wait().unwrap();
    assert_eq!(counter.changes.load(Ordering::Relaxed), 1);
}

#[test]
fn errors_that_were_met_end_with_their_endpoint() {
    let queue = queue(&domain());
    let (runtime, _silent, links) = silent_links::<2>();
    queue.add(&runtime, &[source(Side::Receive), source(Side::Transmit)]).unwrap();
    let [ends, stays] = links.map(|(peer, _)| peer);
    // A send and a receive, of which the first to end is met.
    fail_operations(&runtime, ends);
    assert_eq!(read_one(&queue), Err(Error::Available));
    fail_operations(&runtime, stays);
    runtime.remove_link(ends);
    queue.forget(&runtime, ends);
    assert_eq!(read_one(&queue), Err(Error::Available));
    queue.forget(&runtime, ends);
    for _ in 0..2 {
        assert!(queue.read_error().is_ok(), "those of the other one stay");
    }
    assert!(queue.read_error().is_err());
}

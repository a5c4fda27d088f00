// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the port has taken from the kernel and a call has left is not slept over; who reads in vain
//! gives way, and who moves packets does not.

use nix::poll::PollTimeout;
use ofi_xdp_core::{Destination, PeerId, Transmit, Transmitted};
use ofi_xdp_datapath::PortConfig;

use super::*;
use crate::cq::CqAttributes;
use crate::domain::Domain;
use crate::fabric::Fabric;
use crate::info::Request;
use crate::ops::{CntrOps as _, CqOps as _, DomainOps as _, FabricOps as _};
use crate::shim::cq::Entries;
use crate::wait_set::WaitObject;

/// A train that is cut apart within one call; two of them are more than a call takes.
const TRAIN: u64 = 40;

fn domain() -> Arc<Domain> {
    let loopback = Request { source: "127.0.0.1:0".parse().ok(), ..Request::default() };
    Fabric::open(None, 0).unwrap().domain(&loopback).unwrap()
}

fn port() -> HybridPort {
    HybridPort::open(&PortConfig::new("127.0.0.1:0".parse().unwrap(), 4)).unwrap()
}

/// An endpoint that no thread looks after, and who reads its receives.
fn endpoint() -> (Arc<ActiveEndpoint>, Arc<Waker>) {
    let waker = || Arc::new(Waker::new().unwrap());
    let reader = waker();
    let wakers = Wakers {
        transmit: None,
        receive: Some(Arc::clone(&reader)),
        counters: Vec::new(),
        told: Mutex::default(),
        thread: waker(),
    };
    let active = ActiveEndpoint::start(Activation {
        config: Config { peers: 4, ..Config::new(ofi_xdp_checksum::crc32c) },
        port: port(),
        av: domain().address_vector(&Default::default()).unwrap(),
        wakers,
        directed: false,
        source_err: false,
        unread: Vec::new(),
        shared: None,
    });
    (active.unwrap(), reader)
}

/// Sends a train of what the engine takes for nothing.
fn send_train(from: &mut HybridPort, to: &ActiveEndpoint) {
    let address = to.lock().port.local_addr().into();
    let to = Destination { peer: PeerId::new(0, 0), address };
    for _ in 0..TRAIN {
        let sent = from.transmit(|packet| {
            packet[..1400].fill(0);
            Some(Transmit { len: 1400, to, receive_max: 1472 })
        });
        assert_eq!(sent, Ok(Transmitted::Sent));
    }
    from.flush().unwrap();
}

fn is_readable(waker: &Waker) -> bool {
    let mut descriptors = [PollFd::new(waker.descriptor(), PollFlags::POLLIN)];
    nix::poll::poll(&mut descriptors, PollTimeout::ZERO).unwrap() > 0
}

#[test]
fn what_a_call_leaves_is_due_at_once() {
    let ((endpoint, reader), mut sender) = (endpoint(), port());
    let mut sent = 0;
    // Trains that come one by one are taken one by one: then it is tried again.
    let left = (0..1000).any(|_| {
        for _ in 0..3 {
            send_train(&mut sender, &endpoint);
            sent += TRAIN;
        }
        // A thread sleeps until something comes, and others look.
        reader.arm();
        for _ in 0..100 {
            endpoint.look(&[], None);
            let state = endpoint.lock();
            if state.port.has_more() || state.port.stats().udp_received == sent {
                break;
            }
        }
        let left = endpoint.lock().port.has_more();
        assert_eq!(is_readable(&reader), left);
        reader.disarm();
        assert_eq!(endpoint.due(), left.then_some(Instant::ZERO));
        left
    });
    assert!(left, "{TRAIN} packets in a train are never more than a call takes");
    // bound: what was sent
    while endpoint.due() == Some(Instant::ZERO) {
        endpoint.look(&[], None);
    }
    assert_eq!(endpoint.due(), None);
}

#[test]
fn who_looks_in_vain_is_idle_until_a_packet_arrives() {
    let ((endpoint, _), mut sender) = (endpoint(), port());
    endpoint.look(&[], None);
    endpoint.look(&[], None);
    let idle = idle::idle();
    assert!(idle > Duration::ZERO);
    // A post looks for nothing.
    endpoint.drive(&mut endpoint.lock(), now(), Budget::POST);
    assert_eq!(idle::idle(), idle);
    send_train(&mut sender, &endpoint);
    while endpoint.lock().port.stats().udp_received == 0 {
        endpoint.look(&[], None);
    }
    assert_eq!(idle::idle(), Duration::ZERO);
}

#[test]
fn reads_in_vain_give_way_and_news_do_not() {
    let domain = domain();
    let counter = domain.counter(WaitObject::None).unwrap();
    let queue = domain.completion_queue(CqAttributes::default()).unwrap();
    // Bound to no endpoint, they look for nothing themselves.
    let look_in_vain = |micros| {
        let start = Instant::ZERO.after(Duration::from_secs(1));
        idle::looked(start, true);
        (1..=micros).for_each(|at| idle::looked(start.after(Duration::from_micros(at)), false));
    };
    look_in_vain(100);
    assert_eq!(counter.value(), 0);
    assert_eq!(idle::idle(), Duration::ZERO);
    look_in_vain(100);
    assert_eq!(queue.read(&mut Entries::none()), Err(Error::Again));
    assert_eq!(idle::idle(), Duration::ZERO);
    look_in_vain(100);
    let patience = Some(Duration::from_millis(100));
    assert_eq!(counter.wait(1, patience), Err(Error::TimedOut));
    assert_eq!(idle::idle(), Duration::ZERO, "nobody can sleep on this one");
    look_in_vain(100);
    domain.poll_set().unwrap().poll(1, |_| unreachable!("it is empty"));
    assert_eq!(idle::idle(), Duration::ZERO);
    look_in_vain(3);
    assert_eq!(counter.value(), 0);
    assert_eq!(idle::idle(), Duration::from_micros(3));
    counter.add(1, 0);
    assert_eq!(counter.value(), 1);
    assert_eq!(idle::idle(), Duration::ZERO);
}

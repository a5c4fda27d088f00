// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint keeps its address when it is enabled again after a failure. A failed attempt
//! ends its connection at once, and a call that is refused changes nothing.

mod shared;

use std::thread;
use std::time::Duration;

use ofi_xdp_core::{Context, PeerId, TagMatch};

use super::receives::Receives as _;
use super::*;
use crate::objects::av::{Av, AvAttributes};
use crate::objects::cntr::Cntr;
use crate::objects::connection_manager::{
    CmSocket, NewRequest, Purpose, RequestOutcome, Requester as _,
};
use crate::objects::cq::{Cq, CqAttributes};
use crate::objects::eq::EqAttributes;
use crate::objects::fabric::Fabric;
use crate::objects::wait_set::WaitObject;
use crate::runtime::deferred::{Action, Work};
use crate::runtime::memory::{Buffer, INJECT_MAX};
use crate::runtime::{LINGER, OpFlags, Recv};
use crate::sys::abi::ADDR_NONE;
use crate::sys::clock::now;

/// The name of a connection at the other side.
const THEIR_CID: PeerId = PeerId::new(7, 1);

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn domain() -> Arc<Domain> {
    let loopback = InfoRequest { source: Some(any_port()), ..InfoRequest::default() };
    Domain::open(&Fabric::open(None, abi::make_version(1, 17)).unwrap(), &loopback).unwrap()
}

fn connected(domain: &Arc<Domain>, handle: Handle) -> (Arc<Endpoint>, Arc<Eq>) {
    let ep = Info::offer_of(abi::FI_EP_MSG, domain.interface(), 0).ep;
    let request = InfoRequest { source: Some(any_port()), ep: Some(ep), ..InfoRequest::default() };
    let endpoint = Endpoint::open(domain, &request, handle).unwrap();
    let events = Eq::open(domain.fabric(), EqAttributes::default()).unwrap();
    endpoint.bind(&BindTarget::new(&events), 0).unwrap();
    (endpoint, events)
}

#[track_caller]
fn assert_closes_at_once(endpoint: &Endpoint) {
    let start = now();
    endpoint.close().unwrap();
    assert!(now().since(start) < LINGER, "a connection that opens lingers");
}

/// An endpoint with a completion queue and an address vector.
fn bound(domain: &Arc<Domain>, request: &InfoRequest, vector: &Arc<Av>) -> Arc<Endpoint> {
    let endpoint = Endpoint::open(domain, request, Handle::None).unwrap();
    let queue = Cq::open(domain, CqAttributes::default()).unwrap();
    endpoint.bind(&BindTarget::new(vector), 0).unwrap();
    endpoint.bind(&BindTarget::new(&queue), bits::SEND | bits::RECV).unwrap();
    endpoint
}

fn vector(domain: &Arc<Domain>) -> Arc<Av> {
    Av::open(domain, &AvAttributes::default()).unwrap()
}

/// A request for a connection that the agent of `socket` has forgotten, from `silent`.
fn withdrawn(socket: &Arc<CmSocket>, silent: &HybridPort) -> Arc<ConnectionRequest> {
    let nobody: std::sync::Weak<EndpointConnection> = std::sync::Weak::new();
    let ours = (silent.local_addr(), PeerId::NONE);
    let id = socket.connect(silent.local_addr(), ours, &[], nobody).unwrap();
    socket.forget(id);
    let (from, peer) = (socket.local(), silent.local_addr());
    ConnectionRequest::new(socket, NewRequest { id, from, peer, cid: THEIR_CID })
}

#[test]
fn a_port_that_a_failed_attempt_has_closed_is_opened_again() {
    let domain = domain();
    let request = InfoRequest { source: Some(any_port()), ..InfoRequest::default() };
    let endpoint = bound(&domain, &request, &vector(&domain));
    let name = endpoint.name().unwrap();
    endpoint.bindings().port = None;
    endpoint.enable().unwrap();
    assert_eq!(endpoint.name(), Ok(name));
    endpoint.close().unwrap();
}

#[test]
fn a_name_that_the_application_knows_stays() {
    let domain = domain();
    let (endpoint, _events) = connected(&domain, Handle::None);
    let name = endpoint.name().unwrap();
    endpoint.bindings().port = None;
    assert_eq!(endpoint.name(), Ok(name));
    endpoint.bindings().port = None;
    endpoint.ready_to_connect().unwrap();
    assert_eq!(endpoint.name(), Ok(name));
    endpoint.close().unwrap();
}

#[test]
fn an_acceptance_of_a_withdrawn_request_leaves_no_connection() {
    let domain = domain();
    let manager = domain.fabric().connection_manager().unwrap();
    let silent = open_port(&domain, any_port(), false).unwrap();
    let socket = manager.open(any_port(), Purpose::Connect(1)).unwrap();
    let request = withdrawn(&socket, &silent);
    let (endpoint, events) = connected(&domain, Handle::Request(Arc::clone(&request)));
    let origin = EventOrigin::default();
    assert_eq!(endpoint.accept(origin, &[]), Err(Error::NotConnected));
    assert_eq!(endpoint.accept(origin, &[]), Err(Error::BadState));
    assert_eq!(endpoint.shutdown(), Err(Error::NotConnected));
    assert_eq!(request.reject(&[]), Err(Error::NotConnected));
    assert_closes_at_once(&endpoint);
    assert!(events.read_error(true).is_err(), "the call has returned the error");
}

#[test]
fn an_error_that_was_met_ends_with_its_endpoint() {
    let domain = domain();
    let queue = Cq::open(&domain, CqAttributes::default()).unwrap();
    let silent = open_port(&domain, any_port(), false).unwrap();
    // They share a runtime, which the queue reads until both are closed.
    let [(stays, _events), (ends, _)] = [(); 2].map(|()| connected(&domain, Handle::None));
    for endpoint in [&stays, &ends] {
        endpoint.bind(&BindTarget::new(&queue), bits::SEND | bits::RECV).unwrap();
        endpoint.enable().unwrap();
    }
    let recv = Recv {
        buffer: Buffer::EMPTY,
        from: ADDR_NONE,
        tag: None,
        context: Context(1),
        flags: OpFlags::Default,
    };
    ends.post_recv(&recv).unwrap();
    ends.connect(EventOrigin::default(), silent.local_addr(), &[]).unwrap();
    let connection = ends.connection().unwrap();
    connection.outcome(RequestOutcome::Accepted(silent.local_addr(), THEIR_CID), &[]);
    connection.outcome(RequestOutcome::Failed(Error::TimedOut), &[]);
    assert_eq!(queue.read(1, |_, _| ()), Err(Error::Available));
    ends.close().unwrap();
    assert_eq!(queue.read(1, |_, _| ()), Err(Error::Again));
    stays.close().unwrap();
}

#[test]
fn an_attempt_that_fails_while_the_connection_opens_leaves_none() {
    let domain = domain();
    let silent = open_port(&domain, any_port(), false).unwrap();
    let (endpoint, events) = connected(&domain, Handle::None);
    endpoint.connect(EventOrigin::default(), silent.local_addr(), &[]).unwrap();
    let connection = endpoint.connection().unwrap();
    connection.outcome(RequestOutcome::Accepted(silent.local_addr(), THEIR_CID), &[]);
    connection.outcome(RequestOutcome::Failed(Error::TimedOut), &[]);
    assert_eq!(events.read_error(false).unwrap().number, Error::TimedOut.number());
    assert!(events.read_error(true).is_err(), "once");
    assert_closes_at_once(&endpoint);
}

/// Two connected endpoints with one queue, on one runtime.
fn neighbours(domain: &Arc<Domain>) -> [Arc<Endpoint>; 2] {
    let queue = Cq::open(domain, CqAttributes::default()).unwrap();
    let endpoints = [(); 2].map(|()| {
        let (endpoint, _) = connected(domain, Handle::None);
        endpoint.bind(&BindTarget::new(&queue), bits::SEND | bits::RECV).unwrap();
        endpoint.enable().unwrap();
        endpoint
    });
    let [one, other] = endpoints.each_ref().map(|it| &it.enabled().unwrap().runtime);
    assert!(Arc::ptr_eq(one, other));
    endpoints
}

/// An empty receive.
fn recv(flags: OpFlags) -> Recv {
    Recv { buffer: Buffer::EMPTY, from: ADDR_NONE, tag: None, context: Context(5), flags }
}

#[test]
fn a_connected_endpoint_that_posts_all_it_may_leaves_the_others_their_room() {
    let endpoints = neighbours(&domain());
    let [hog, other] = &endpoints;
    let size = hog.recvs as usize;
    assert_eq!((hog.receives_left(), other.receives_left()), (Ok(size), Ok(size)));
    assert_eq!((hog.sends_left(), other.sends_left()), (Ok(hog.sends as usize), hog.sends_left()));
    let posted = (0..=size).take_while(|_| hog.post_recv(&recv(OpFlags::Default)).is_ok());
    assert_eq!(posted.count(), size);
    assert_eq!((hog.receives_left(), other.receives_left()), (Ok(0), Ok(size)));
    other.post_recv(&recv(OpFlags::Default)).unwrap();
    endpoints.iter().for_each(|endpoint| endpoint.close().unwrap());
}

#[test]
fn a_cancel_ends_no_triggered_call_of_another_connected_endpoint() {
    let domain = domain();
    let [canceller, owner] = neighbours(&domain);
    let counter = Cntr::open(&domain, WaitObject::None).unwrap();
    let action = Action::Receive(Arc::clone(&owner) as _, recv(OpFlags::Given(0)));
    let work = Work { id: 1, counter, threshold: 1, action, completion: None };
    domain.work().push(work).unwrap();
    canceller.cancel(Context(5)).unwrap();
    let enabled = owner.enabled().unwrap();
    let is_there = || domain.work().cancel_call((&enabled.runtime, enabled.peer), Context(5));
    assert_eq!(is_there(), Ok(true));
    assert_eq!(is_there(), Ok(false));
    [canceller, owner].iter().for_each(|endpoint| endpoint.close().unwrap());
}

#[test]
fn a_call_of_the_other_side_enables_nothing() {
    let domain = domain();
    let manager = domain.fabric().connection_manager().unwrap();
    let silent = open_port(&domain, any_port(), false).unwrap();
    let socket = manager.open(any_port(), Purpose::Connect(1)).unwrap();
    let request = withdrawn(&socket, &silent);
    let (answering, _events) = connected(&domain, Handle::Request(request));
    let (asking, _events) = connected(&domain, Handle::None);
    let (origin, to) = (EventOrigin::default(), silent.local_addr());
    assert_eq!(asking.accept(origin, &[]), Err(Error::Invalid));
    assert_eq!(answering.connect(origin, to, &[]), Err(Error::BadState));
    for endpoint in [asking, answering] {
        assert!(endpoint.enabled().is_err());
        let queue = Cq::open(&domain, CqAttributes::default()).unwrap();
        endpoint.bind(&BindTarget::new(&queue), bits::SEND | bits::RECV).unwrap();
    }
}

#[test]
fn a_second_event_queue_and_one_of_another_fabric_are_refused() {
    let domain = domain();
    let request = InfoRequest { source: Some(any_port()), ..InfoRequest::default() };
    let endpoint = Endpoint::open(&domain, &request, Handle::None).unwrap();
    let other = Fabric::open(None, abi::make_version(1, 17)).unwrap();
    let open = |fabric| BindTarget::new(&Eq::open(fabric, EqAttributes::default()).unwrap());
    assert_eq!(endpoint.bind(&open(&other), 0), Err(Error::Invalid));
    assert_eq!(endpoint.bind(&open(domain.fabric()), bits::RECV), Err(Error::BadFlags));
    endpoint.bind(&open(domain.fabric()), 0).unwrap();
    assert_eq!(endpoint.bind(&open(domain.fabric()), 0), Err(Error::Invalid));
}

#[test]
fn a_name_that_is_asked_for_while_another_thread_enables_the_endpoint() {
    let domain = domain();
    let (endpoint, _events) = connected(&domain, Handle::None);
    thread::scope(|scope| {
        let mut bindings = endpoint.bindings();
        let asks = scope.spawn(|| endpoint.name());
        // Time for the other thread to reach the lock.
        thread::sleep(Duration::from_millis(50));
        endpoint.start(&mut bindings, NeededQueues::AsBound).unwrap();
        drop(bindings);
        assert_eq!(asks.join().unwrap(), Ok(endpoint.enabled().unwrap().address));
    });
    endpoint.close().unwrap();
}

#[test]
fn a_triggered_tagged_receive_takes_one_message() {
    let domain = domain();
    let request = InfoRequest { source: Some(any_port()), ..InfoRequest::default() };
    let endpoint = Endpoint::open(&domain, &request, Handle::None).unwrap();
    let defaults = bits::TRIGGER | bits::MULTI_RECV | bits::COMPLETION;
    endpoint.set_op_flags(Side::Receive, defaults).unwrap();
    let tagged = Some(TagMatch { tag: 1, ignore: 0 });
    let context = Context::default();
    let flags = |tag, flags| {
        let recv = Recv { buffer: Buffer::EMPTY, from: ADDR_NONE, tag, context, flags };
        endpoint.triggered_recv_flags(&recv)
    };
    let several = OpFlags::Given(bits::MULTI_RECV | bits::COMPLETION);
    assert_eq!(flags(tagged, OpFlags::Default), Ok(OpFlags::Given(bits::COMPLETION)));
    assert_eq!(flags(None, OpFlags::Default), Ok(several));
    assert_eq!(flags(tagged, OpFlags::Given(defaults)), Ok(several));
}

#[test]
fn an_endpoint_on_a_further_loopback_address() {
    let source: SocketAddr = "127.0.1.1:0".parse().unwrap();
    let request = InfoRequest { source: Some(source), ..InfoRequest::default() };
    let fabric = Fabric::open(Some("127.0.0.0/8".into()), abi::make_version(1, 17)).unwrap();
    let domain = Domain::open(&fabric, &request).unwrap();
    assert_eq!(domain.ip(), source.ip());
    let endpoint = Endpoint::open(&domain, &request, Handle::None).unwrap();
    assert_eq!(endpoint.name().unwrap().ip(), source.ip());
    // Connected endpoints have a port later.
    let ep = Some(Info::offer_of(abi::FI_EP_MSG, domain.interface(), 0).ep);
    for ip in ["127.0.1.1:0", "127.0.0.1:0", "127.9.9.9:0"] {
        let request = InfoRequest { source: ip.parse().ok(), ep, ..InfoRequest::default() };
        assert!(Endpoint::open(&domain, &request, Handle::None).is_ok(), "{ip}");
    }
}

#[test]
fn an_ipv4_address_in_ipv6_form_is_of_no_endpoint() {
    let mapped: SocketAddr = "[::ffff:198.18.0.1]:4000".parse().unwrap();
    for source in ["127.0.0.1:0", "[::1]:0"] {
        let source: SocketAddr = source.parse().unwrap();
        let request = InfoRequest { source: Some(source), ..InfoRequest::default() };
        let fabric = Fabric::open(None, abi::make_version(1, 17)).unwrap();
        // The host may have no IPv6.
        let Ok(domain) = Domain::open(&fabric, &request) else { continue };
        if source.is_ipv6() {
            assert_eq!(vector(&domain).insert(mapped), Err(Error::Invalid));
        }
        let ep = Some(Info::offer_of(abi::FI_EP_MSG, domain.interface(), 0).ep);
        let request = InfoRequest { source: Some(source), ep, ..InfoRequest::default() };
        let endpoint = Endpoint::open(&domain, &request, Handle::None).unwrap();
        let events = Eq::open(domain.fabric(), EqAttributes::default()).unwrap();
        endpoint.bind(&BindTarget::new(&events), 0).unwrap();
        assert_eq!(endpoint.connect(EventOrigin::default(), mapped, &[]), Err(Error::Invalid));
    }
}

#[test]
fn a_size_that_was_raised_since_the_offer_shortens_what_can_be_injected() {
    let source: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let request = InfoRequest { source: Some(source), ..InfoRequest::default() };
    let fabric = Fabric::open(None, abi::make_version(1, 17)).unwrap();
    let interface = Domain::open(&fabric, &request).unwrap().interface().clone();
    let offer = Info::offer_of(abi::FI_EP_RDM, &interface, 0).tx;
    let open = |size, inject_size| {
        let tx = Some(abi::fi_tx_attr { size, inject_size, ..offer });
        let request = InfoRequest { source: Some(source), tx, ..InfoRequest::default() };
        let domain = Domain::open(&fabric, &request)?;
        Endpoint::open(&domain, &request, Handle::None).map(|endpoint| endpoint.inject_size)
    };
    for (size, inject_size) in [(1024, INJECT_MAX), (8192, 8192), (65_536, INJECT_LEAST)] {
        assert_eq!(open(size, INJECT_MAX).unwrap(), inject_size);
    }
    assert!(open(1024, INJECT_MAX + 1).is_err());
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint keeps its address when it is enabled again after a failure. A failed attempt
//! ends its connection at once.

use ofi_xdp_core::{Context, PeerId};

use super::receives::Receives as _;
use super::*;
use crate::objects::av::{Av, AvAttributes};
use crate::objects::cntr::Cntr;
use crate::objects::connection_manager::{NewRequest, Purpose, RequestOutcome, Requester as _};
use crate::objects::cq::{Cq, CqAttributes};
use crate::objects::eq::EqAttributes;
use crate::objects::fabric::Fabric;
use crate::objects::wait_set::WaitObject;
use crate::runtime::deferred::{Action, Work};
use crate::runtime::memory::Buffer;
use crate::runtime::{LINGER, OpFlags, Recv};
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

#[test]
fn a_port_that_a_failed_attempt_has_closed_is_opened_again() {
    let domain = domain();
    let request = InfoRequest { source: Some(any_port()), ..InfoRequest::default() };
    let endpoint = Endpoint::open(&domain, &request, Handle::None).unwrap();
    let name = endpoint.name().unwrap();
    let queue = Cq::open(&domain, CqAttributes::default()).unwrap();
    let vector = Av::open(&domain, &AvAttributes::default()).unwrap();
    endpoint.bind(&BindTarget::new(&vector), 0).unwrap();
    endpoint.bind(&BindTarget::new(&queue), bits::SEND | bits::RECV).unwrap();
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
    // A request that the agent has forgotten.
    let nobody: std::sync::Weak<EndpointConnection> = std::sync::Weak::new();
    let ours = (silent.local_addr(), PeerId::NONE);
    let id = socket.connect(silent.local_addr(), ours, &[], nobody).unwrap();
    socket.forget(id);
    let (from, peer) = (socket.local(), silent.local_addr());
    let new = NewRequest { id, from, peer, cid: THEIR_CID };
    let request = ConnectionRequest::new(&socket, new);
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
    Recv { buffer: Buffer::EMPTY, from: abi::ADDR_NONE, tag: None, context: Context(5), flags }
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

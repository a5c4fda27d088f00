// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint keeps its address when it is enabled again after a failure. A failed attempt
//! ends its connection at once.

use ofi_xdp_core::PeerId;

use super::*;
use crate::objects::av::{Av, AvAttributes};
use crate::objects::connection_manager::{NewRequest, Purpose, RequestOutcome, Requester as _};
use crate::objects::cq::{Cq, CqAttributes};
use crate::objects::eq::EqAttributes;
use crate::objects::fabric::Fabric;
use crate::runtime::LINGER;
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

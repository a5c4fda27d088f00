// SPDX-License-Identifier: MIT OR Apache-2.0
//! The credentials of a client, and the mode of its socket.

use std::os::fd::AsFd as _;

use ofi_xdp_datapath::broker::Status;
use ofi_xdp_datapath::{SocketRequest, XskMode};

use crate::common::{Hosts, skipped};
use crate::{Broker, ask, is_granted, policy, request, udp};

/// The kernel has no process id for the client there, and tells 0.
#[test]
fn root_a_broker_in_a_pid_namespace_of_its_own_serves_processes_of_others() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let wrapper = ["unshare", "--pid", "--fork", "--kill-child"];
    let broker = Broker::start_by(&wrapper, &hosts, &policy(&[0], ""));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    assert!(broker.log().contains("user 0 (process 0)"), "{}", broker.log());
}

/// A client that is refused the mode gets the next one, which the provider asks for by itself.
#[test]
fn root_zero_copy_is_refused_where_the_policy_does_not_allow_it() {
    if skipped() {
        return;
    }
    // No virtual link has the mode.
    for (key, reason) in [
        ("", "the policy of xdp-broker does not allow `zerocopy`"),
        ("zerocopy = true", "bind the AF_XDP socket"),
    ] {
        let hosts = Hosts::new();
        let broker = Broker::start(&hosts, &policy(&[0], key));
        let udp_socket = udp(&hosts);
        let stream = broker.connect();
        let first = SocketRequest { mode: XskMode::Zerocopy, ..request(&hosts, None) };
        let (reply, descriptors) = ask(&stream, first, udp_socket.as_fd());
        assert_eq!((reply.status, descriptors.len()), (Status::Refused, 0), "{key:?}");
        assert!(reply.reason.starts_with(reason), "{key:?}: {}", reply.reason);
        let next = SocketRequest { mode: XskMode::Copy, ..first };
        let answer = ask(&stream, next, udp_socket.as_fd());
        assert!(is_granted(&answer), "{key:?}: {}", answer.0.reason);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules in devices. No device here takes any.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;

use nix::sys::signal::Signal;
use ofi_xdp_datapath::SocketRequest;
use ofi_xdp_datapath::broker::Status;

use crate::common::{Hosts, V4, eventually, skipped};
use crate::{Broker, ask, policy, request, udp};

/// The names of the records.
fn records(broker: &Broker) -> Vec<String> {
    let folder = fs::read_dir(broker.folder.join("socket.rules")).unwrap();
    folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A request for steering succeeds if the policy allows it and the driver supports it.
#[test]
fn root_packets_are_steered_only_where_that_is_allowed_and_possible() {
    if skipped() {
        return;
    }
    for (steering, reason) in [
        ("steering = false", "the policy of xdp-broker does not allow `steering`"),
        ("steering = true", "the driver takes no rules for UDP ports"),
    ] {
        let hosts = Hosts::new();
        let broker = Broker::start(&hosts, &policy(&[0], steering));
        let request = SocketRequest { steer: true, ..request(&hosts, None) };
        let stream = broker.connect();
        let answer = ask(&stream, request, udp(&hosts).as_fd());
        let (reply, descriptors) = answer;
        let Status::Granted { may_steer, .. } = reply.status else { panic!("{reply:?}") };
        assert_eq!(may_steer, steering.contains("true"));
        assert_eq!(descriptors.len(), 4);
        assert!(reply.reason.starts_with(reason), "{steering}: {}", reply.reason);
        assert!(records(&broker).is_empty(), "no rule was made");
    }
}

#[test]
fn root_a_broker_that_starts_ends_the_records_of_a_killed_one() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut broker = Broker::start(&hosts, &policy(&[0], "steering = true"));
    broker.signal(Signal::SIGKILL);
    broker.child.wait().unwrap();
    let interface = request(&hosts, None).interface;
    let record = format!("{interface} 0 {}:7000", V4[0]);
    fs::write(broker.folder.join("socket.rules").join(record), "").unwrap();
    broker.child = Broker::spawn(&[], &hosts, &broker.folder);
    eventually("the record is gone", || records(&broker).is_empty());
    eventually("the broker listens", || broker.log().contains("listening at"));
    broker.signal(Signal::SIGTERM);
    assert_eq!(broker.child.wait().unwrap().into_raw(), 0, "ends in order");
}

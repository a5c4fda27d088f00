// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes with capabilities that have joined the broker's program.

use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use ofi_xdp_datapath::{AttachMode, Mode, Redirect, interfaces};
use socket2::{Domain, Socket, Type};

use crate::common::{Hosts, INTERFACE, V4, eventually, skipped};
use crate::{Broker, open_bare, policy, request};

/// The broker keeps a program that no client uses for no time at first.
#[test]
fn root_the_program_stays_after_the_last_client_while_another_process_has_a_port() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let client = open_bare(&hosts, &broker, Mode::Auto);
    let index = request(&hosts, None).interface.cast_signed();
    let joined = hosts.on(0, || Redirect::open(index, AttachMode::Generic).unwrap());
    assert!(joined.link().is_none(), "the broker keeps the link");
    let socket = Socket::new(Domain::from(libc::AF_XDP), Type::RAW, None).unwrap();
    let address = format!("{}:7000", V4[0]).parse().unwrap();
    let all = hosts.on(0, || interfaces().unwrap());
    let interface = all.iter().find(|one| one.name == INTERFACE).unwrap();
    let endpoint = interface.endpoint(address, false);
    let claim = joined.claim(0, endpoint, 1500, socket.as_fd()).unwrap();
    drop(client);
    // Three checks of the broker.
    thread::sleep(Duration::from_secs(3));
    assert!(joined.is_attached().unwrap());
    drop(claim);
    eventually("the program is gone", || !hosts.has_program(0));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces that go to another network namespace with the broker's program.

use std::os::fd::AsFd as _;

use crate::common::{Hosts, INTERFACE, V4, eventually, now, run, skipped};
use crate::{Broker, ask, is_granted, policy, request, udp};

/// The second program of an interface is kept for a second after its grant, the next one for two.
#[test]
fn root_an_interface_that_leaves_the_namespace_loses_the_program() {
    if skipped() {
        return;
    }
    for (programs, has_successor) in [(3, false), (2, true)] {
        let (hosts, elsewhere) = (Hosts::new(), Hosts::new());
        elsewhere.unlink();
        let [left, right] = [&hosts.names[0], &elsewhere.names[0]];
        let broker = Broker::start(&hosts, &policy(&[0], ""));
        let udp_socket = udp(&hosts);
        let ask_anew = || {
            let stream = broker.connect();
            let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
            assert!(is_granted(&answer), "{}", answer.0.reason);
            stream
        };
        for _ in 0..programs {
            drop(ask_anew());
            eventually("the program is gone", || !hosts.has_program(0));
        }
        let index = request(&hosts, None).interface;
        drop(ask_anew());
        run(&format!("ip -n {left} link set {INTERFACE} netns {right}"));
        assert!(elsewhere.has_program(0), "the kernel leaves it attached");
        let mut successors = None;
        if has_successor {
            let ends = format!("name {INTERFACE} index {index} type veth peer name other");
            run(&format!("ip -n {left} link add {ends}"));
            run(&format!("ip -n {left} addr add {}/24 dev {INTERFACE}", V4[0]));
            for name in [INTERFACE, "other"] {
                run(&format!("ip -n {left} link set {name} up"));
            }
            successors = Some(ask_anew());
        }
        // The program of an interface that stays would be kept for four seconds.
        let since = now();
        eventually("the interface has no program", || !elsewhere.has_program(0));
        assert!(now().as_nanos() - since.as_nanos() < 3_000_000_000);
        assert_eq!(successors.is_some(), has_successor && hosts.has_program(0));
    }
}

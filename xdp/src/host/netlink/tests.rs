// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers and notifications of the kernel.

use super::*;
use crate::host::netns::enter_new;
use netlink_packet_route::link::LinkMessage;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

fn links() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetLink(LinkMessage::default())
}

#[test]
fn loopback_is_among_the_links() {
    let mut netlink = Netlink::open().unwrap();
    let sink = |found: &mut bool, link| {
        *found |= matches!(link, RouteNetlinkMessage::NewLink(link) if link.header.index == 1);
        Ok(())
    };
    assert!(netlink.dump(links(), sink).unwrap());
}

#[test]
fn after_an_error_of_the_sink_the_next_dump_is_whole() {
    let mut netlink = Netlink::open().unwrap();
    let mut calls = 0;
    let result = netlink.dump(links(), |(): &mut (), _| {
        calls += 1;
        Err(io::ErrorKind::OutOfMemory.into())
    });
    assert_eq!((calls, result.unwrap_err().kind()), (1, io::ErrorKind::OutOfMemory));
    let count = |count: &mut usize, _| {
        *count += 1;
        Ok(())
    };
    assert!(netlink.dump(links(), count).unwrap() >= 1);
}

fn ip(command: &str) {
    let mut process = std::process::Command::new("ip");
    assert!(process.args(command.split(' ')).status().unwrap().success(), "{command}");
}

/// The kernel fills one datagram ahead, so a sink that adds a link changes the rest.
#[test]
fn root_a_dump_of_a_table_that_changes_is_repeated() {
    if !enter_new() {
        return;
    }
    // Several datagrams of 32 KiB. The loopback interface comes first.
    for number in 0..40 {
        ip(&format!("link add old{number} type veth peer name peer{number}"));
    }
    for (changes, dumps) in [(0, 1), (1, 2), (9, DUMP_TRIES)] {
        let mut netlink = Netlink::open().unwrap();
        let (mut made, mut first) = (0, 0);
        let found = netlink.dump(links(), |found: &mut Vec<u32>, link| {
            let RouteNetlinkMessage::NewLink(link) = link else { return Ok(()) };
            first += u32::from(link.header.index == 1);
            if link.header.index == 1 && made < changes {
                made += 1;
                ip(&format!("link add new{changes}x{made} type veth"));
            }
            found.push(link.header.index);
            Ok(())
        });
        assert_eq!((first, netlink.requests()), (dumps, dumps));
        let mut found = found.unwrap();
        assert!(found.len() > 80, "{found:?}");
        let count = found.len();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), count, "each one once");
    }
}

/// An alias of bytes that are no UTF-8.
#[test]
fn root_an_interface_with_an_alias_that_is_not_understood_is_listed() {
    if !enter_new() {
        return;
    }
    ip("link add other0 type veth");
    let mut alias = std::process::Command::new("ip");
    alias.args(["link", "set", "other0", "alias"]).arg(OsStr::from_bytes(b"m\xfcnster"));
    assert!(alias.status().unwrap().success());
    let mut netlink = Netlink::open().unwrap();
    let sink = |found: &mut Vec<u32>, link| {
        if let RouteNetlinkMessage::NewLink(link) = link {
            found.push(link.header.index);
        }
        Ok(())
    };
    assert_eq!(netlink.dump(links(), sink).unwrap().len(), 3);
    let found = crate::host::interfaces::list(&mut netlink).unwrap();
    assert!(found.iter().any(|interface| interface.name == "other0"), "{found:?}");
}

/// An address of MCTP has one byte.
#[test]
fn messages_behind_one_that_is_not_understood_are_read() {
    let mut datagram = vec![29, 0, 0, 0, 20, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    datagram.extend([45, 8, 0, 0, 2, 0, 0, 0, 5, 0, 2, 0, 8, 0, 0, 0]);
    let mut header = NetlinkHeader::default();
    header.sequence_number = 1;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(links()));
    message.finalize();
    let start = datagram.len();
    datagram.resize(start + message.buffer_len(), 0);
    message.serialize(&mut datagram[start..]);
    let mut understood = Vec::new();
    parse(&datagram, |_, payload| {
        understood.push(payload.is_ok());
        Ok(())
    })
    .unwrap();
    assert_eq!(understood, [false, true]);
}

/// The length of the second message is beyond the datagram.
#[test]
fn datagrams_that_are_cut_off_are_an_error() {
    let mut datagram = vec![16, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    datagram.extend([99, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let mut count = 0;
    let parsed = parse(&datagram, |_, _| {
        count += 1;
        Ok(())
    });
    assert_eq!((count, parsed.unwrap_err().kind()), (1, io::ErrorKind::InvalidData));
}

#[test]
fn answers_to_a_former_request_are_passed_over() {
    let mut netlink = Netlink::open().unwrap();
    netlink.send(links(), NLM_F_REQUEST | NLM_F_DUMP).unwrap();
    let mut request = LinkMessage::default();
    request.header.index = 1;
    for _ in 0..3 {
        let answer = netlink.ask(RouteNetlinkMessage::GetLink(request.clone())).unwrap();
        let Some(RouteNetlinkMessage::NewLink(link)) = answer else { panic!("{answer:?}") };
        assert_eq!(link.header.index, 1);
    }
}

#[test]
fn nothing_is_heard_at_once() {
    let mut monitor = Monitor::open().unwrap();
    // Other processes may cause notifications meanwhile, but not without end.
    let saw_nothing = (0..1000).any(|_| monitor.next(|_| {}) == MonitorResult::Nothing);
    assert!(saw_nothing);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that the policy, the interface or the quota forbids are refused before any action.

use super::*;
use std::net::UdpSocket;

fn grants(policy: &str) -> GrantManager {
    let folder = std::path::Path::new("/nowhere/socket");
    let rules = RuleRecords::open(Some(folder), |_| panic!("there is no record"));
    GrantManager::new(policy.parse().unwrap(), 0, rules).unwrap()
}

fn ask(grants: &mut GrantManager, uid: u32, interface: u32, queue: u32) -> String {
    ask_for(grants, uid, interface, queue, RingSizes::default())
}

fn ask_for(
    grants: &mut GrantManager,
    uid: u32,
    interface: u32,
    queue: u32,
    sizes: RingSizes,
) -> String {
    ask_in_mode(grants, uid, (interface, queue), sizes, XskMode::Skb)
}

fn ask_in_mode(
    grants: &mut GrantManager,
    uid: u32,
    (interface, queue): (u32, u32),
    sizes: RingSizes,
    mode: XskMode,
) -> String {
    let user = Credentials { uid, groups: Vec::new(), pid: 1 };
    let layout = Layout::new(sizes, 42);
    let queues = QueueRange::one_or_any(Some(queue));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    let (longest, steer, any_payload) = (1514, false, false);
    let request =
        SocketRequest { interface, queues, local, mode, layout, longest, steer, any_payload };
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    let time = Instant::now();
    match grants.decide(&user, request, socket.into(), time) {
        Err(GrantError::No(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_counters_page_of_an_interface_lasts_as_long_as_the_interface() {
    let mut grants = grants("");
    let sample = interfaces().unwrap().swap_remove(0);
    let mut page = |index, existing: &[u32]| {
        let all = existing.iter().map(|&index| InterfaceInfo { index, ..sample.clone() });
        let page = grants.counters_page(index, &all.collect::<Vec<_>>()).unwrap();
        (rustix::fs::fstat(page).unwrap().st_ino, grants.counters_pages.len())
    };
    let (first, _) = page(7, &[7]);
    assert_eq!(page(8, &[7, 8]).1, 2);
    assert_eq!(page(7, &[7, 8]), (first, 2));
    for index in 9..20 {
        assert_eq!(page(index, &[7, index]).1, 2);
    }
    assert_eq!(page(7, &[7]), (first, 1));
}

#[test]
fn an_interface_exists_while_its_index_names_one() {
    let sample = interfaces().unwrap().swap_remove(0);
    assert!(exists(sample.index));
    assert!(!exists(i32::MAX.cast_unsigned()));
}

/// The index of an interface that can have sockets.
fn other_than_loopback() -> Option<u32> {
    let all = interfaces().unwrap();
    let index = all.iter().find(|interface| !interface.loopback).map(|found| found.index);
    if index.is_none() {
        println!("only the loopback interface is here");
    }
    index
}

#[test]
fn the_mode_that_reads_a_whole_queue_is_refused_unless_the_rule_allows_it() {
    let Some(index) = other_than_loopback() else { return };
    for (key, allowed) in [("", false), ("zerocopy = false", false), ("zerocopy = true", true)] {
        let policy = format!("[[allow]]\nusers = [7]\ninterfaces = [\"*\"]\n{key}");
        let mut grants = grants(&policy);
        for (mode, is_permitted) in
            [(XskMode::Zerocopy, allowed), (XskMode::Copy, true), (XskMode::Skb, true)]
        {
            let sizes = RingSizes::default();
            let refusal = ask_in_mode(&mut grants, 7, (index, 0), sizes, mode);
            let next = if is_permitted { "another network namespace" } else { NO_ZEROCOPY };
            assert!(refusal.contains(next), "{key:?}, {mode}: {refusal}");
        }
    }
}

#[test]
fn a_forbidden_request_is_refused_before_any_action() {
    let mut grants = grants("[[allow]]\nusers = [7]\ninterfaces = [\"*\"]\nqueues = 3");
    assert_eq!(ask(&mut grants, 7, u32::MAX, 3), "there is no interface 4294967295 here");
    assert!(ask(&mut grants, 7, 1, 3).contains("loopback"));
    let Some(index) = other_than_loopback() else { return };
    assert!(ask(&mut grants, 8, index, 3).contains("user 8 may not use interface"));
    assert!(ask(&mut grants, 7, index, 4).contains("user 7 may not use that queue"));
    assert!(ask(&mut grants, 7, index, 3).contains("another network namespace"));
    // A request for too much memory pins none.
    let twice = RingSizes { rx: RingSize::new(4096), tx: RingSize::new(2048) };
    assert!(ask_for(&mut grants, 7, index, 3, twice).contains("another network namespace"));
    let more = RingSizes { rx: RingSize::new(8192), tx: RingSize::MIN };
    let refusal = ask_for(&mut grants, 7, index, 3, more);
    assert_eq!(refusal, "a socket has 24 MiB of frames at most");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients with descriptors that block their user: the broker does not block.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::Signal;
use ofi_xdp_datapath::broker::Status;
use ofi_xdp_datapath::{Mode, SocketRequest, Tier, XskMode};
use rustix::net::SendFlags;

use crate::common::{Hosts, INTERFACE, eventually, run, skipped};
use crate::{
    Broker, NOBODY, ask, is_granted, open_bare, policy, receive_reply, request, send_message,
    try_send, udp,
};

/// A connection with its other end. Its last close blocks until the other end is closed.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65_536]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
    (stream.into(), listener.accept().unwrap().0)
}

/// Closes a descriptor in a thread of its own, which blocks if no one else holds the connection:
/// the broker may have closed its copy already.
fn close_apart(slow: OwnedFd) -> JoinHandle<()> {
    std::thread::spawn(move || drop(slow))
}

/// Number of processes that the broker has started and that have not exited.
fn intakes(broker: &Broker) -> usize {
    let path = format!("/proc/{0}/task/{0}/children", broker.child.id());
    fs::read_to_string(path).unwrap().split_whitespace().count()
}

/// Descriptors that block when closed delay no other client, and the close is ended. Neither an
/// unknown user's unread message delays them, nor descriptors that a client passes beside its
/// socket.
#[test]
fn root_a_close_that_waits_holds_up_no_other_user() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let bytes = request(&hosts, None).to_bytes();
    for (user, extra) in [(NOBODY, 1), (0, 1), (0, 7)] {
        let broker = Broker::start(&hosts, &policy(&[user], ""));
        let (slow, other_end) = lingering();
        let udp_socket = udp(&hosts);
        let mut descriptors = vec![udp_socket.as_fd()];
        descriptors.extend((0..extra).map(|_| slow.as_fd()));
        // The message of the unknown user must arrive before the broker reads the credentials.
        broker.signal(Signal::SIGSTOP);
        let stream = broker.connect();
        let first = try_send(&stream, &bytes, &descriptors);
        broker.signal(Signal::SIGCONT);
        let mut sent = first.is_ok();
        if !sent {
            assert_eq!(first, Err(rustix::io::Errno::PERM), "before the user is admitted");
            sent = send_message(&stream, &bytes, &descriptors);
            assert_eq!(sent, user == 0);
        }
        let closing = close_apart(slow);
        if user != 0 {
            assert!(receive_reply(&stream).expect("a reason").0.reason.contains("is in no rule"));
        }
        assert!(receive_reply(&stream).is_none(), "hung up on");
        for _ in 0..100 {
            let stream = broker.connect();
            assert_eq!(receive_reply(&stream).expect("an answer").0.status, Status::Refused);
            assert!(receive_reply(&stream).is_none(), "hung up on");
        }
        eventually("all is closed", || crate::descriptors(&broker) < 20);
        eventually("no close waits", || intakes(&broker) == 0);
        drop(other_end);
        closing.join().unwrap();
    }
}

/// A user in no rule leaves more unread messages than any bound of the broker, with descriptors
/// where the kernel takes them (before Linux 6.16). Another user is served. The broker is stopped
/// meanwhile, so that all messages are there before it reads the credentials.
#[test]
fn root_a_user_without_a_rule_holds_up_no_other_user() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let flood = || {
        rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(NOBODY)).unwrap();
        let mut kept = Vec::new();
        for round in 0..1500 {
            let stream = broker.connect();
            if round % 200 == 0 {
                let (slow, other_end) = lingering();
                let _ = try_send(&stream, &[0], &[slow.as_fd()]);
                kept.push((other_end, close_apart(slow)));
            }
            let _ = try_send(&stream, &[0], &[]);
        }
        kept
    };
    // Without room in the listener's queue a connect(2) would wait for the broker.
    let room = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if room.trim().parse::<u32>().unwrap() > 1500 {
        broker.signal(Signal::SIGSTOP);
    }
    let kept = std::thread::scope(|scope| scope.spawn(flood).join().unwrap());
    broker.signal(Signal::SIGCONT);
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    drop(kept);
}

/// A holder of a client's socket may keep its lock; the broker does not wait for it.
#[test]
fn root_the_lock_of_a_clients_socket_is_not_waited_for() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let left = &hosts.names[0];
    // The kernel solicits an absent neighbour that long, and packets to it stay in the buffer.
    let solicitation_time = format!("net.ipv4.neigh.{INTERFACE}.retrans_time_ms=60000");
    run(&format!("ip netns exec {left} sysctl -qw {solicitation_time}"));
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let whole = SocketRequest { local: udp_socket.local_addr().unwrap(), ..request(&hosts, None) };
    let answer = ask(&stream, whole, udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let nobody = SocketAddr::new("198.18.0.77".parse().unwrap(), 9);
    rustix::net::sockopt::set_socket_send_buffer_size(&udp_socket, 0).unwrap();
    udp_socket.set_nonblocking(true).unwrap();
    assert!(
        (0..100).any(|_| udp_socket.send_to(&[0; 1000], nobody).is_err()),
        "the buffer is full"
    );
    udp_socket.set_nonblocking(false).unwrap();
    udp_socket.set_write_timeout(Some(Duration::from_secs(9))).unwrap();
    std::thread::scope(|scope| {
        // The thread holds the lock while it waits for room.
        let more = || rustix::net::sendto(&udp_socket, &[0; 1000], SendFlags::MORE, &nobody);
        let sender = scope.spawn(more);
        for _ in 0..15 {
            let elsewhere = SocketRequest { interface: 4711, ..whole };
            let (reply, _) = ask(&broker.connect(), elsewhere, udp_socket.as_fd());
            assert!(reply.reason.contains("no interface"), "{}", reply.reason);
            let (reply, _) = ask(&broker.connect(), whole, udp_socket.as_fd());
            assert_ne!(reply.reason, "");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!sender.is_finished(), "the lock was held");
        run(&format!("ip -n {left} link set {INTERFACE} down"));
        assert!(sender.join().unwrap().is_ok());
    });
}

/// A client that closes all it has may ask at once, while the kernel tears its socket down.
#[test]
fn root_a_socket_that_is_torn_down_is_waited_for() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], "sockets = 1"));
    for _ in 0..8 {
        let client = open_bare(&hosts, &broker, Mode::Auto);
        assert_eq!(client.status().tier, Tier::Xdp(XskMode::Skb), "{}", client.status());
        drop(client);
    }
}

/// The last queue with held memory is busy, not one of too high a number.
#[test]
fn root_kept_memory_makes_the_last_queue_busy() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], "sockets = 2"));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let [socket, memory, ..] = <[OwnedFd; 4]>::try_from(answer.1).unwrap();
    drop((stream, socket));
    let mut reason = String::new();
    eventually("the kernel has torn the socket down", || {
        let (reply, _) = ask(&broker.connect(), request(&hosts, None), udp_socket.as_fd());
        assert_eq!(reply.status, Status::Busy, "{}", reply.reason);
        reason = reply.reason;
        reason.contains("holds the memory of the queue's former socket")
    });
    eventually("the program is gone", || !hosts.has_program(0));
    let (reply, _) = ask(&broker.connect(), request(&hosts, None), udp_socket.as_fd());
    assert_eq!(reply.status, Status::Busy, "{}", reply.reason);
    assert!(!hosts.has_program(0), "no socket is bound to a queue that cannot be granted");
    drop(memory);
    let stream = broker.connect();
    eventually("the queue is granted", || {
        is_granted(&ask(&stream, request(&hosts, None), udp_socket.as_fd()))
    });
}

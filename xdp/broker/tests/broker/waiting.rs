// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients who make whoever touches what they passed wait: the broker does not.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::sys::signal::Signal;
use ofi_xdp_datapath::broker::{Request, Status};
use rustix::net::SendFlags;

use crate::common::{Hosts, INTERFACE, eventually, run, skipped};
use crate::{Broker, NOBODY, ask, hear, is_granted, policy, say, udp, wish};

/// A connection whose last close waits until its other end, the second, is gone.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65_536]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
    (stream.into(), listener.accept().unwrap().0)
}

/// Whose descriptors take for ever to close holds up nobody: neither a stranger, whose messages
/// nobody reads, nor a client, with what it passes beside its socket.
#[test]
fn root_a_close_that_waits_holds_up_nobody() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let bytes = Request(wish(&hosts, None)).to_bytes();
    for (user, extra) in [(NOBODY, 1), (0, 1), (0, 7)] {
        let broker = Broker::start(&hosts, &policy(&[user], ""));
        let (slow, other_end) = lingering();
        let companion = udp(&hosts);
        let mut descriptors = vec![companion.as_fd()];
        descriptors.extend((0..extra).map(|_| slow.as_fd()));
        // A stranger's message has to be there before the broker looks who it is.
        broker.signal(Signal::SIGSTOP);
        let stream = broker.connect();
        assert!(say(&stream, &bytes, &descriptors));
        drop(slow);
        broker.signal(Signal::SIGCONT);
        if user != 0 {
            assert!(hear(&stream).expect("a reason").0.reason.contains("is in no rule"));
        }
        assert!(hear(&stream).is_none(), "hung up on");
        for _ in 0..100 {
            let stream = broker.connect();
            assert_eq!(hear(&stream).expect("an answer").0.status, Status::Refused);
            assert!(hear(&stream).is_none(), "hung up on");
        }
        drop(other_end);
        eventually("all is closed", || crate::descriptors(&broker) < 20);
    }
}

/// Who has a socket of a client's can hold its lock: nobody waits for it.
#[test]
fn root_the_lock_of_a_clients_socket_is_not_waited_for() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let left = &hosts.names[0];
    // Who is not there is asked for that long, and what is sent there stays in the buffer.
    let patience = format!("net.ipv4.neigh.{INTERFACE}.retrans_time_ms=60000");
    run(&format!("ip netns exec {left} sysctl -qw {patience}"));
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let companion = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, wish(&hosts, None), companion.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let nobody = SocketAddr::new("198.18.0.77".parse().unwrap(), 9);
    rustix::net::sockopt::set_socket_send_buffer_size(&companion, 0).unwrap();
    companion.set_nonblocking(true).unwrap();
    assert!((0..100).any(|_| companion.send_to(&[0; 1000], nobody).is_err()), "the buffer is full");
    companion.set_nonblocking(false).unwrap();
    companion.set_write_timeout(Some(Duration::from_secs(9))).unwrap();
    std::thread::scope(|scope| {
        // The lock is held while this waits for room.
        let more = || rustix::net::sendto(&companion, &[0; 1000], SendFlags::MORE, &nobody);
        let sender = scope.spawn(more);
        for _ in 0..15 {
            let mut elsewhere = wish(&hosts, None);
            elsewhere.interface = 4711;
            let (reply, _) = ask(&broker.connect(), elsewhere, companion.as_fd());
            assert!(reply.reason.contains("no interface"), "{}", reply.reason);
            let (reply, _) = ask(&broker.connect(), wish(&hosts, None), companion.as_fd());
            assert_ne!(reply.reason, "");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!sender.is_finished(), "the lock was held");
        run(&format!("ip -n {left} link set {INTERFACE} down"));
        assert!(sender.join().unwrap().is_ok());
    });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit of a relay: a host sends full packets as fast as it can, and the relay reports the
//! number that it carried.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::sched::{CloneFlags, setns};

use crate::netns::Namespace;
use crate::relay::RelayReport;
use crate::topology::{Side, TwoHosts};

/// Payload of a full UDP packet over IPv4, at an MTU of 1500.
const PAYLOAD: usize = 1472;
/// The receiver's port, from which no packet is read.
const PORT: u16 = 9;
/// Packets between two looks at the clock.
const BURST: usize = 64;

/// Floods link `number` from host B to host A for `time`.
///
/// # Errors
/// When the link has no relay, or a host is gone.
pub fn flood(hosts: &TwoHosts, number: usize, time: Duration) -> anyhow::Result<RelayReport> {
    let relay = hosts.relay_of(number).context("the link has no relay")?;
    let [to, from] = [Side::A, Side::B].map(|side| hosts.link(number).v4(side));
    // The receiver exists, so that no ICMP message answers.
    let receiver = socket(hosts.host(Side::A), to, PORT)?;
    let sender = socket(hosts.host(Side::B), from, 0)?;
    let target = SocketAddr::new(to, PORT);
    sender.send_to(&[0], target)?;
    relay.report()?;
    let start = Instant::now();
    // bound: time
    while start.elapsed() < time {
        for _ in 0..BURST {
            // A flood fills the buffer: that is no error.
            let _ = sender.send_to(&[0; PAYLOAD], target);
        }
    }
    let report = relay.report();
    drop(receiver);
    report
}

/// A UDP socket on a host.
fn socket(host: &Namespace, address: IpAddr, port: u16) -> anyhow::Result<UdpSocket> {
    let namespace = host.open()?;
    let made = std::thread::spawn(move || -> anyhow::Result<UdpSocket> {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        Ok(UdpSocket::bind((address, port))?)
    });
    made.join().map_err(|_| anyhow!("the thread that makes a socket panicked"))?
}

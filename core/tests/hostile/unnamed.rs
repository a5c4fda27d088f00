// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers at other ports of the puppet's host, which the application of the engine has not named.
//!
//! In: ports, and records. Out: connections, and packets on them.

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::PacketKind;
use ofi_xdp_core::*;

/// An unnamed peer at another port of the puppet's host.
pub struct Unnamed {
    pub at: PeerAddress,
    pub head: Head,
}

impl Unnamed {
    /// A connection from a port of the puppet's host. `None`: the engine does not answer.
    pub fn connect(puppet: &mut Puppet, port: u16) -> Option<Self> {
        Self::connect_from(puppet, PeerAddress::new(address(PUPPET).ip(), port))
    }

    /// A connection from an address. `None`: the engine does not answer.
    pub fn connect_from(puppet: &mut Puppet, at: PeerAddress) -> Option<Self> {
        puppet.sent();
        let mut cookie = 0;
        for _ in 0..2 {
            let hello = puppet.hello(INCARNATION, 1, cookie);
            puppet.ingest_at(at, &hello);
            puppet.drive();
            let answer = puppet.sent().pop()?;
            if answer.kind() == PacketKind::Retry {
                cookie = answer.handshake().cookie.get();
                continue;
            }
            if answer.kind() == PacketKind::Close {
                // Another peer has made room in the table, and there is no connection.
                return None;
            }
            puppet.agreed(&answer);
            let peer = Self { at, head: puppet.head };
            let ping = peer.now(puppet, PacketKind::Ping).packet(&[]);
            puppet.ingest_at(at, &ping);
            puppet.drive();
            return Some(peer);
        }
        None
    }

    pub fn now(&self, puppet: &Puppet, kind: PacketKind) -> Head {
        Head { sent_at: puppet.now(kind).sent_at, kind, ..self.head }
    }

    /// Sends records in a packet that is `ahead` of the next one.
    pub fn send(&self, puppet: &mut Puppet, ahead: u32, records: &[u8]) {
        let mut head = self.now(puppet, PacketKind::Data);
        head.psn = head.psn.plus(ahead);
        puppet.ingest_at(self.at, &head.packet(records));
        puppet.drive();
    }
}

/// As many connections as the engine agrees to, of `ports`.
pub fn connect_all(puppet: &mut Puppet, ports: u16) -> Vec<Unnamed> {
    (1..=ports).filter_map(|port| Unnamed::connect(puppet, port)).collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The near peer: whom most packets go to, and the socket that is connected to it.
//!
//! A connected socket keeps its route, and its packets are found before they are routed
//! (`udp_v4_early_demux`, net/ipv4/udp.c); on others the kernel looks both up for each packet.
//! Seen: half a microsecond of the 3.7 that a packet takes from process to process on a veth pair.
//! So the peer that [`STREAK`] packets in a row went to has such a socket, at the same address;
//! everybody else reaches the port's main one, and neither side can tell.
//!
//! In: who each packet goes to. Out: the socket to send it by, and packets. Both sockets are read:
//! the one where packets came from last in every call, the other after [`PAUSE_MAX_NANOS`] at the
//! latest. Called by the port. Bound: one socket.

use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};

use ofi_xdp_core::{Instant, PeerAddress};

use super::receive::Received;
use super::source::Source;
use crate::glance::Glance;

/// So many packets in a row to one peer make it the near one. Connecting takes some microseconds,
/// which they share.
const STREAK: u32 = 256;
/// Longest time between two looks at the socket that packets do not come from: as long a packet
/// there may wait.
const PAUSE_MAX_NANOS: u64 = 10_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Near {
    /// Who the last packets went to.
    to: Option<PeerAddress>,
    /// How many of them in a row.
    streak: u32,
    /// The socket, and who it is connected to.
    source: Option<(PeerAddress, Source)>,
    /// It is where packets came from last.
    is_favourite: bool,
    /// When it is the other one's turn.
    other: Glance,
    /// The next look begins with the favourite, whosever turn it is: what ends a sleep came there,
    /// most likely.
    usual_first: bool,
}

impl Default for Near {
    fn default() -> Self {
        let other = Glance::new(PAUSE_MAX_NANOS);
        Self { to: None, streak: 0, source: None, is_favourite: false, other, usual_first: false }
    }
}

impl Near {
    /// A packet goes to `to`; by the socket connected to it, if there is one.
    #[inline]
    pub(super) fn socket_to(&mut self, to: PeerAddress) -> Option<&UdpSocket> {
        if self.to == Some(to) {
            self.streak = self.streak.saturating_add(1);
        } else {
            (self.to, self.streak) = (Some(to), 1);
        }
        let (connected, source) = self.source.as_ref()?;
        (*connected == to).then_some(&source.socket)
    }

    /// Whether another peer is the near one now than the socket is connected to.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.streak >= STREAK && self.source.as_ref().map(|(connected, _)| *connected) != self.to
    }

    /// Connects the socket to the near peer. What came in for the former one is still there to be
    /// read. Returns the socket if it is a new one.
    ///
    /// # Errors
    /// What the system calls fail with: it will be tried again after as many packets.
    #[cold]
    pub(super) fn connect(
        &mut self,
        main: &Source,
        local: SocketAddr,
    ) -> io::Result<Option<&Source>> {
        self.streak = 0;
        let Some(to) = self.to else { return Ok(None) };
        if let Some((connected, source)) = &mut self.source {
            source.socket.connect(to.socket_addr())?;
            *connected = to;
            return Ok(None);
        }
        let source = main.beside(local, to.socket_addr())?;
        Ok(Some(&self.source.insert((to, source)).1))
    }

    /// The socket, if there is one.
    pub(super) fn source(&self) -> Option<&Source> {
        self.source.as_ref().map(|(_, source)| source)
    }

    /// Asks the kernel for packets of the socket whose turn it is; says whether there were any.
    pub(super) fn fetch(
        &mut self,
        now: Instant,
        main: &mut Source,
        received: &mut Received,
    ) -> bool {
        let Some((_, near)) = &mut self.source else { return main.fetch(received) };
        let (favourite, other) = if self.is_favourite { (near, main) } else { (main, near) };
        let usual_first = mem::take(&mut self.usual_first);
        if usual_first && favourite.fetch(received) {
            return true;
        }
        if self.other.is_due(now) {
            let found = other.fetch(received);
            self.other.looked(now, found);
            if found {
                self.is_favourite = !self.is_favourite;
                return true;
            }
        }
        !usual_first && favourite.fetch(received)
    }

    /// Makes the next call look at both; if `usual_first` it may leave it at what it finds where
    /// packets come from, but then it is the other one's turn, however often this is called.
    pub(super) fn look_everywhere(&mut self, usual_first: bool) {
        self.usual_first = usual_first && !self.other.is_hastened();
        self.other.hasten();
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connected UDP socket for the peer that most packets are sent to.
//!
//! A connected socket keeps its route, and its packets are found before they are routed
//! (`udp_v4_early_demux`, net/ipv4/udp.c). For an unconnected socket the kernel does both lookups
//! for each packet. Therefore a peer that got [`RUN_MIN`] packets in a row is connected to a second
//! socket at the same address. All other peers reach the main socket, and no peer notices the
//! difference.
//!
//! In: the destination of each packet. Out: the socket to send it by, and received packets. Both
//! sockets are polled. The primary socket, which received the last packets, is polled in every
//! call; the secondary one after [`PAUSE_MAX_NANOS`] at the latest. Caller: the UDP port. Bound:
//! one socket.

use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};

use ofi_xdp_core::{Instant, PeerAddress};

use super::gro::Received;
use super::poll_backoff::PollBackoff;
use super::socket::KernelSocket;

/// Length of a run of packets to one peer after which its socket is connected. Connecting takes
/// some microseconds, which are spread over the run.
const RUN_MIN: u32 = 256;
/// Longest pause between two polls of the secondary socket: a packet may wait there as long.
const PAUSE_MAX_NANOS: u64 = 10_000;

/// The connected socket, and the runs that decide about it.
#[derive(Debug)]
pub(super) struct ConnectedPeer {
    /// Destination of the last packets.
    to: Option<PeerAddress>,
    /// Length of the present run of packets to that destination.
    run: u32,
    /// The socket and its peer.
    source: Option<(PeerAddress, KernelSocket)>,
    /// Whether the connected socket received the last packets.
    connected_is_primary: bool,
    /// Poll back-off of the secondary socket.
    secondary_poll: PollBackoff,
    /// The next receive polls the primary socket first, even if the secondary one is due. Reason:
    /// the packet that ends a sleep most likely came to the primary socket.
    primary_first: bool,
}

impl Default for ConnectedPeer {
    fn default() -> Self {
        let secondary_poll = PollBackoff::new(PAUSE_MAX_NANOS);
        Self {
            to: None,
            run: 0,
            source: None,
            connected_is_primary: false,
            secondary_poll,
            primary_first: false,
        }
    }
}

impl ConnectedPeer {
    /// Records a packet to `to`, and returns the socket that is connected to it, if any.
    #[inline]
    pub(super) fn socket_to(&mut self, to: PeerAddress) -> Option<&UdpSocket> {
        if self.to == Some(to) {
            self.run = self.run.saturating_add(1);
        } else {
            (self.to, self.run) = (Some(to), 1);
        }
        let (connected, source) = self.source.as_ref()?;
        (*connected == to).then_some(&source.socket)
    }

    /// Whether the socket should be connected to another peer.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.run >= RUN_MIN && self.source.as_ref().map(|(connected, _)| *connected) != self.to
    }

    /// Connects the socket to the peer of the present run. Packets of the former peer can still be
    /// read. Returns the socket if it is new.
    ///
    /// # Errors
    /// Those of the system calls. The next attempt follows after another run.
    #[cold]
    pub(super) fn connect(
        &mut self,
        main: &KernelSocket,
        local: SocketAddr,
    ) -> io::Result<Option<&KernelSocket>> {
        self.run = 0;
        // A group is nobody's address: its packets need the main socket's choice of an interface.
        let Some(to) = self.to.filter(|to| !to.ip().is_multicast()) else { return Ok(None) };
        if let Some((connected, source)) = &mut self.source {
            source.socket.connect(to.socket_addr())?;
            *connected = to;
            return Ok(None);
        }
        let source = main.beside(local, to.socket_addr())?;
        Ok(Some(&self.source.insert((to, source)).1))
    }

    /// The socket, if there is one.
    pub(super) fn source(&self) -> Option<&KernelSocket> {
        self.source.as_ref().map(|(_, source)| source)
    }

    /// Asks the kernel for packets of the socket that is due; returns whether there were any.
    pub(super) fn fetch(
        &mut self,
        now: Instant,
        main: &mut KernelSocket,
        received: &mut Received,
    ) -> bool {
        let Some((_, connected)) = &mut self.source else { return main.fetch(received) };
        let (primary, secondary) =
            if self.connected_is_primary { (connected, main) } else { (main, connected) };
        let primary_first = mem::take(&mut self.primary_first);
        if primary_first && primary.fetch(received) {
            return true;
        }
        if self.secondary_poll.is_due(now) {
            let found = secondary.fetch(received);
            self.secondary_poll.record(now, found);
            if found {
                self.connected_is_primary = !self.connected_is_primary;
                return true;
            }
        }
        !primary_first && primary.fetch(received)
    }

    /// Makes the next call poll both sockets. With `primary_first` it stops at packets on the
    /// primary socket; the call after it then polls the secondary socket, however often this
    /// function is called.
    pub(super) fn poll_all_sources(&mut self, primary_first: bool) {
        self.primary_first = primary_first && !self.secondary_poll.is_forced();
        self.secondary_poll.force_now();
    }
}

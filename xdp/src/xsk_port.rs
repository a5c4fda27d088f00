// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets through an `AF_XDP` socket.
//!
//! Packets come in from the engine, get Ethernet, IP and UDP headers in place, and leave by the tx
//! ring; frames from the rx ring are parsed in place and handed on. The program that redirects to
//! the socket is held as long as the port lives. [`HybridPort`](crate::HybridPort) calls, and
//! whoever wants to measure the floor. Bounds: [`BATCH`] frames a round, [`KICKS_MAX`] wake-ups a
//! flush.
//!
//! Who owns a frame when:
//!
//! ```text
//!   fill ring ─▶ kernel ─▶ rx ring ─▶ received ─▶ spent ─▶ fill ring        (rx frames)
//!   free ─▶ (headers and packet are written) ─▶ tx ring ─▶ kernel ─▶ completion ring ─▶ free
//! ```
//!
//! Order on the way in: fill the fill ring, bind the socket, attach the program (`socket.rs`,
//! `grant.rs`), map rings and memory, see them move frames, claim the port (`open.rs`; the broker
//! claims before it passes the socket on); on the way out the claim ends before the socket, which
//! is the order of the fields.

mod jumbo;
mod lent;
mod open;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use ofi_xdp_bpf::Counters;
use ofi_xdp_core::frame::{self, Headers, MacAddress, UdpChecksum};
use ofi_xdp_core::{Datagram, PeerAddress, Transmit, Transmitted};

use crate::config::TRAFFIC_CLASS;
use crate::facts::XskMode;
use crate::frame::Frame;
use crate::grant::Grant;
use crate::passed::Passed;
use crate::rings::{BATCH, Rings};
use crate::route::Hop;
use crate::socket_options;
use crate::stats::{KernelStats, PortStats};
use crate::umem::FrameMemory;
use jumbo::Jumbo;
use lent::Lent;
pub use open::{Access, Opening, XskError};

/// Most wake-ups in one flush. In copy modes one sends 32 frames (`TX_BATCH_SIZE`, net/xdp/xsk.c).
const KICKS_MAX: u32 = 8;

/// What to do with a packet that was written into a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Bytes of the packet.
    pub len: usize,
    /// Where it goes.
    pub to: PeerAddress,
    /// Link-layer address of the next host on the way.
    pub mac: MacAddress,
    /// Whether that is a gateway, for which a UDP checksum is computed: beyond the link somebody
    /// may drop packets without.
    pub gateway: bool,
}

impl Outgoing {
    /// A packet that leaves by `hop`.
    pub(crate) const fn new(transmit: Transmit, hop: Hop) -> Self {
        let Transmit { len, to, .. } = transmit;
        Self { len, to: to.address, mac: hop.mac, gateway: hop.gateway }
    }
}

/// An `AF_XDP` socket with its memory and its share of the program.
#[derive(Debug)]
pub struct XskPort {
    grant: Grant,
    rings: Rings,
    memory: FrameMemory,
    mode: XskMode,
    local: PeerAddress,
    mac: MacAddress,
    headers: usize,
    payload_max: usize,
    window_packets: u16,
    /// Where packets can be longer than a frame.
    jumbo: Option<Jumbo>,
    received: Vec<Frame>,
    spent: Vec<Frame>,
    lent: Lent,
    free: Vec<Frame>,
    tx_frames: usize,
    /// Frames given to the tx ring since the last kick.
    queued: u32,
    /// Frames that the last kick left in the tx ring.
    untaken: u32,
}

impl XskPort {
    /// How frames move.
    #[must_use]
    pub const fn mode(&self) -> XskMode {
        self.mode
    }

    /// The queue that the socket is bound to.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.grant.socket().queue()
    }

    /// The largest packet that fits in the MTU, and in one frame where the kernel or the driver
    /// takes no more, in bytes.
    #[must_use]
    pub const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// How many packets the rx ring holds.
    #[must_use]
    pub const fn window_packets(&self) -> u16 {
        self.window_packets
    }

    /// The socket, for whoever waits.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.rings.fd()
    }

    /// The socket, readable when a packet arrived.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.rings.fd().as_raw_fd()
    }

    /// Why no packets are redirected to the socket any more; `None` if they are, or if the kernel
    /// does not tell.
    pub(crate) fn end(&self) -> Option<&'static str> {
        self.grant.end()
    }

    /// What the program did with the interface's frames, of all endpoints; `None` where only the
    /// broker knows, and has not said.
    ///
    /// # Errors
    /// As [`Redirect::counters`](crate::Redirect::counters).
    pub fn counters(&self) -> Result<Option<Counters>, ofi_xdp_bpf::Error> {
        self.grant.counters()
    }

    /// Word of packets that the program leaves to the kernel socket; `None` where the broker holds
    /// the claim.
    pub(crate) fn passed(&self) -> io::Result<Option<Passed>> {
        self.grant.claimed().map(Passed::map).transpose()
    }

    /// What the kernel counted at the socket, and whether it copies.
    ///
    /// # Errors
    /// What `getsockopt(2)` fails with.
    pub fn kernel_stats(&self) -> io::Result<KernelStats> {
        let zerocopy = socket_options::is_zerocopy(self.rings.fd()).ok();
        Ok(KernelStats { zerocopy, ..self.rings.kernel_stats()? })
    }

    /// Hands at most `budget` packets to `sink`, and returns how many. No system call unless the
    /// kernel asks to be woken.
    ///
    /// # Errors
    /// What waking the kernel fails with: the socket is of no use any more.
    #[inline]
    pub fn receive(
        &mut self,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> io::Result<u16> {
        if self.untaken > 0 {
            self.kick(stats)?;
        }
        let mut count = 0;
        // bound: each round but the last takes a batch, so `budget` frames, and what is rejected of
        // them.
        for _ in 0..=usize::from(budget) / BATCH {
            let limit = usize::from(budget - count);
            let taken = self.rings.receive(limit, &mut self.received);
            if taken == 0 {
                break;
            }
            self.lent.found(taken + self.rings.waiting());
            for frame in self.received.drain(..) {
                let bytes = self.memory.received(&frame);
                let bytes = match &mut self.jumbo {
                    None => Some(bytes),
                    Some(jumbo) => jumbo.join(bytes, frame.has_more()),
                };
                match bytes.map(frame::parse) {
                    None => {}
                    Some(Ok(parsed)) if parsed.destination == self.local => {
                        sink(Datagram {
                            from: parsed.source,
                            bytes: parsed.payload,
                            congestion_experienced: parsed.congestion_experienced,
                        });
                        count += 1;
                    }
                    _ => stats.xsk_rejected += 1,
                }
                self.spent.push(frame);
            }
            self.rings.refill(&mut self.spent, self.lent.kept());
        }
        self.rings.wake_rx()?;
        if count == 0 && self.free.len() < self.tx_frames {
            self.rings.reclaim(&mut self.free);
        }
        stats.xsk_received += u64::from(count);
        Ok(count)
    }

    /// Offers a buffer of [`Self::payload_max`] bytes to `write`, and queues what it wrote, unless
    /// it returns `None`.
    #[inline]
    pub fn transmit(
        &mut self,
        stats: &mut PortStats,
        write: impl FnOnce(&mut [u8]) -> Option<Outgoing>,
    ) -> Transmitted {
        if self.jumbo.is_some() {
            return self.transmit_cut(stats, write);
        }
        if self.free.is_empty() {
            self.rings.reclaim(&mut self.free);
        }
        let Some(mut frame) = self.free.pop() else {
            return Transmitted::Full;
        };
        let packet = self.headers..self.headers + self.payload_max;
        let written = self.memory.write(&mut frame, |bytes| {
            let length = bytes.get_mut(packet).and_then(write).and_then(|outgoing| {
                let end = self.headers + outgoing.len.min(self.payload_max);
                let headers = headers(self.mac, self.local, &outgoing);
                frame::emit(&headers, bytes, self.headers..end).ok().map(|frame| frame.end)
            });
            (length.unwrap_or(0), length.is_some())
        });
        if !written {
            self.free.push(frame);
            return Transmitted::Nothing;
        }
        // The ring has room for every tx frame there is.
        if let Err(frame) = self.rings.send(frame) {
            self.free.push(frame);
            return Transmitted::Full;
        }
        self.queued += 1;
        stats.xsk_transmitted += 1;
        Transmitted::Sent
    }

    /// Lets everything queued leave, and takes back what has left.
    ///
    /// # Errors
    /// What waking the kernel fails with: the socket is of no use any more.
    #[inline]
    pub fn flush(&mut self, stats: &mut PortStats) -> io::Result<()> {
        if self.queued > 0 {
            self.kick(stats)?;
            // In copy modes the frames that left are in the completion ring already.
            self.rings.reclaim(&mut self.free);
        }
        Ok(())
    }

    /// Wakes the kernel until it has taken all that is in the tx ring, or takes no more.
    fn kick(&mut self, stats: &mut PortStats) -> io::Result<()> {
        let mut left = self.untaken + self.queued;
        self.queued = 0;
        for _ in 0..KICKS_MAX {
            if !self.rings.wake_tx()? {
                // The driver is awake and takes the frames by itself.
                left = 0;
                break;
            }
            stats.xsk_kicks += 1;
            let before = left;
            left = self.rings.untaken();
            if left == 0 || left >= before {
                break;
            }
        }
        self.untaken = left;
        Ok(())
    }
}

/// The headers of one packet.
fn headers(mac: MacAddress, local: PeerAddress, outgoing: &Outgoing) -> Headers {
    Headers {
        source_mac: mac,
        destination_mac: outgoing.mac,
        source: local,
        destination: outgoing.to,
        traffic_class: TRAFFIC_CLASS,
        checksum: if outgoing.gateway { UdpChecksum::Compute } else { UdpChecksum::Omit },
    }
}

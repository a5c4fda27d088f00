// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port over an `AF_XDP` socket.
//!
//! In: packets of the engine. Out: frames on the tx ring, with Ethernet, IP and UDP headers written
//! in place. In the other direction: packets parsed in place in frames of the rx ring. The port
//! holds its lease as long as it lives. Callers: [`HybridPort`](crate::HybridPort), benchmarks.
//! Bounds: [`BATCH`] frames a round, [`KICKS_MAX`] wake-ups a flush.
//!
//! Owners of a frame, in order:
//!
//! ```text
//!   fill ring ─▶ kernel ─▶ rx ring ─▶ received ─▶ spent ─▶ fill ring        (rx frames)
//!   free ─▶ (headers and packet are written) ─▶ tx ring ─▶ kernel ─▶ completion ring ─▶ free
//! ```
//!
//! Order of opening: fill the fill ring, bind the socket, attach the program (`socket.rs`,
//! `socket_lease.rs`). Then map rings and memory, run the self-test, claim the UDP port
//! (`open.rs`). The broker claims before it passes the socket on. When the port is dropped, the
//! claim ends before the socket closes; the order of the fields ensures this.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::headers::{MacAddress, parse};
use ofi_xdp_bpf::{Counters, EndpointAddress};
use ofi_xdp_core::{ChecksumCoverage, Datagram, PeerAddress, Transmitted, WantedPort};

use super::fill_level::FillLevel;
use super::framing::{Framing, XskTransmit};
use super::kernel_hint::KernelRxHint;
use super::multi_buffer::MultiBuffer;
use crate::error::XskError;
use crate::lease::request::SocketRequest;
use crate::lease::socket_lease::Lease;
use crate::stats::{KernelStats, PortStats};
use crate::tier::status::XskMode;
use crate::xsk::rings::{BATCH, Rings};
use crate::xsk::umem::{UmemChunk, UmemMapping};

/// Maximum number of wake-ups in one flush. In copy modes one wake-up sends 32 frames
/// (`TX_BATCH_SIZE`, net/xdp/xsk.c).
const KICKS_MAX: u32 = 8;

/// An `AF_XDP` socket with its memory and its lease.
#[derive(Debug)]
pub struct XskPort {
    lease: Lease,
    rings: Rings,
    memory: UmemMapping,
    mode: XskMode,
    framing: Framing,
    headers: usize,
    payload_max: usize,
    port_packets: u16,
    /// Present where packets can be longer than a frame.
    multi_buffer: Option<MultiBuffer>,
    received: Vec<UmemChunk>,
    spent: Vec<UmemChunk>,
    fill_level: FillLevel,
    free: Vec<UmemChunk>,
    tx_frames: usize,
    /// Frames given to the tx ring since the last kick.
    queued: u32,
    /// Frames that the last kick left in the tx ring.
    untaken: u32,
}

/// The parts of a port: an open socket that has passed its transmit test.
#[derive(Debug)]
pub(super) struct XskParts {
    pub(super) lease: Lease,
    pub(super) rings: Rings,
    pub(super) memory: UmemMapping,
    /// The frames for transmission.
    pub(super) free: Vec<UmemChunk>,
    /// Capacity of the rx ring.
    pub(super) rx_frames: usize,
    /// Present where packets can be longer than a frame.
    pub(super) multi_buffer: Option<MultiBuffer>,
    /// The endpoint's address.
    pub(super) local: PeerAddress,
    /// Link-layer address of the interface.
    pub(super) mac: MacAddress,
    /// Bytes of the headers before a packet.
    pub(super) headers: usize,
    /// Maximum packet in bytes.
    pub(super) payload_max: usize,
    /// Whether packets are datagrams of an application.
    pub(super) datagrams: bool,
}

impl XskPort {
    /// A port with empty rings. No packet arrives before [`Self::claim`], except with a lease from
    /// the broker.
    pub(super) fn new(parts: XskParts) -> Self {
        let XskParts { lease, rings, memory, free, rx_frames, multi_buffer, .. } = parts;
        let mode = lease.mode();
        let fragments = multi_buffer.as_ref().map_or(1, MultiBuffer::fragments);
        Self {
            mode,
            lease,
            rings,
            memory,
            framing: Framing::new(parts.local, parts.mac, parts.datagrams),
            headers: parts.headers,
            payload_max: parts.payload_max,
            // One batch may be outside of the ring while it fills.
            port_packets: u16::try_from((rx_frames - BATCH / 2) / fragments).unwrap_or(u16::MAX),
            multi_buffer,
            received: Vec::with_capacity(BATCH),
            spent: Vec::with_capacity(rx_frames),
            fill_level: FillLevel::new(rx_frames, fragments, mode == XskMode::Zerocopy),
            tx_frames: free.len(),
            free,
            queued: 0,
            untaken: 0,
        }
    }

    /// Claims the UDP port of `endpoint`: its packets arrive from now on.
    ///
    /// # Errors
    /// Those of [`Lease::claim`].
    pub(super) fn claim(
        &mut self,
        request: SocketRequest,
        endpoint: EndpointAddress,
    ) -> Result<(), XskError> {
        self.lease.claim(request, endpoint)
    }

    /// Lets packets that arrive on the queue of `further`, an unclaimed port of this endpoint, go
    /// to its socket. It is dropped after this one.
    ///
    /// # Errors
    /// Those of [`Lease::join`].
    pub(crate) fn join(&mut self, further: &Self) -> Result<(), XskError> {
        self.lease.join(&further.lease)
    }

    /// Whether the broker granted the socket.
    pub(crate) const fn is_brokered(&self) -> bool {
        self.lease.is_brokered()
    }

    /// Whether the broker makes a rule of the device on request.
    pub(crate) const fn may_steer(&self) -> bool {
        self.lease.may_steer()
    }

    /// Reason why no rule of the device steers packets to the queue, if that was requested.
    pub(super) fn unsteered_reason(&self) -> Option<&str> {
        self.lease.unsteered_reason()
    }

    /// The endpoint's own UDP port.
    #[must_use]
    pub const fn local_port(&self) -> u16 {
        self.framing.local().port()
    }

    /// The mode of the socket.
    #[must_use]
    pub const fn mode(&self) -> XskMode {
        self.mode
    }

    /// The queue of the socket.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.lease.socket().queue()
    }

    /// Maximum packet in bytes: limited by the MTU, and by one frame where kernel or driver has no
    /// multi-buffer support.
    #[must_use]
    pub const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Capacity of the rx ring, in packets.
    #[must_use]
    pub const fn port_packets(&self) -> u16 {
        self.port_packets
    }

    /// The socket, for the wakeup set.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.rings.fd()
    }

    /// The socket, readable when a packet arrived.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.rings.fd().as_raw_fd()
    }

    /// Ends the redirection, as [`Lease::end`].
    pub(crate) fn end(&mut self) {
        self.lease.end();
    }

    /// Reason why the redirection has ended, as [`Lease::end_reason`].
    pub(crate) fn end_reason(&self) -> Option<&'static str> {
        self.lease.end_reason()
    }

    /// The question whether it has ended, as [`Lease::attachment`].
    pub(crate) fn attachment(
        &self,
    ) -> Option<impl FnOnce() -> Option<&'static str> + Send + use<>> {
        self.lease.attachment()
    }

    /// Frames of the interface by verdict, of all endpoints; `None` if the broker has not reported
    /// any.
    ///
    /// # Errors
    /// Those of [`Redirect::counters`](crate::Redirect::counters).
    pub fn counters(&self) -> Result<Option<Counters>, ofi_xdp_bpf::Error> {
        self.lease.counters()
    }

    /// The count of packets left to the kernel socket; `None` before the claim.
    pub(crate) fn kernel_rx_hint(&self) -> io::Result<Option<KernelRxHint>> {
        self.lease.kernel_rx_counter().map(KernelRxHint::map).transpose()
    }

    /// The kernel's counters of the socket, and whether it copies.
    ///
    /// # Errors
    /// Those of `getsockopt(2)`.
    pub fn kernel_stats(&self) -> io::Result<KernelStats> {
        self.rings.kernel_stats()
    }

    /// Whether packets wait in the rx ring.
    #[inline]
    pub(crate) fn has_received(&self) -> bool {
        self.rings.has_received()
    }

    /// Whether the kernel asks for a wake-up of its receive side, as the next receive does.
    #[inline]
    pub(crate) fn must_wake_rx(&self) -> bool {
        self.rings.must_wake_rx()
    }

    /// Whether the last kick has left frames in the tx ring.
    #[inline]
    pub(crate) const fn has_unsent(&self) -> bool {
        self.untaken > 0
    }

    /// Whether frames stay in the tx ring until a call wakes the kernel again, as the next receive
    /// does. A zero-copy driver takes the frames by itself once it is awake.
    #[inline]
    pub(crate) fn has_untaken(&self) -> bool {
        self.untaken > 0 && self.mode != XskMode::Zerocopy
    }

    /// Hands at most `budget` packets to `sink`, and returns how many. No system call, unless the
    /// kernel asks for a wake-up.
    ///
    /// # Errors
    /// Those of waking the kernel: the socket is unusable.
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
        // bound: each round but the last takes a batch, hence `budget` frames and the rejected
        // ones.
        for _ in 0..=usize::from(budget) / BATCH {
            let limit = usize::from(budget - count);
            let taken = self.rings.receive(limit, &mut self.received);
            if taken == 0 {
                break;
            }
            self.fill_level.record_received(taken + self.rings.waiting());
            for frame in self.received.drain(..) {
                let bytes = self.memory.received(&frame);
                let bytes = match &mut self.multi_buffer {
                    None => Some(bytes),
                    Some(multi_buffer) => multi_buffer.join(bytes, frame.has_more()),
                };
                match bytes.map(parse) {
                    None => {}
                    Some(Ok(parsed)) if parsed.destination == self.framing.local() => {
                        sink(Datagram {
                            to_group: false,
                            from: parsed.source,
                            bytes: parsed.payload,
                            congestion_experienced: parsed.congestion_experienced,
                            wanted: WantedPort::KEEP,
                            coverage: ChecksumCoverage::Whole,
                        });
                        count += 1;
                    }
                    _ => stats.xsk_rejected += 1,
                }
                self.spent.push(frame);
            }
            self.rings.refill(&mut self.spent, self.fill_level.reserve());
        }
        self.rings.wake_rx()?;
        if count == 0 && self.free.len() < self.tx_frames {
            self.rings.reclaim(&mut self.free);
        }
        stats.xsk_received += u64::from(count);
        Ok(count)
    }

    /// Offers a buffer of [`Self::payload_max`] bytes to `write`, and queues the packet, unless
    /// `write` returns `None`.
    #[inline]
    pub fn transmit(
        &mut self,
        stats: &mut PortStats,
        write: impl FnOnce(&mut [u8]) -> Option<XskTransmit>,
    ) -> Transmitted {
        if self.multi_buffer.is_some() {
            return self.transmit_fragments(stats, write);
        }
        if self.free.is_empty() {
            self.rings.reclaim(&mut self.free);
        }
        let Some(mut frame) = self.free.pop() else {
            return Transmitted::Full;
        };
        let packet = self.headers..self.headers + self.payload_max;
        let framing = &mut self.framing;
        let written = self.memory.write(&mut frame, |bytes| {
            let length = bytes.get_mut(packet).and_then(write).and_then(|outgoing| {
                let end = self.headers + outgoing.len.min(self.payload_max);
                framing.write(&outgoing, bytes, self.headers..end).ok().map(|frame| frame.end)
            });
            (length.unwrap_or(0), length.is_some())
        });
        if !written {
            self.free.push(frame);
            return Transmitted::Nothing;
        }
        // The ring has room for all tx frames.
        if let Err(frame) = self.rings.send(frame) {
            self.free.push(frame);
            return Transmitted::Full;
        }
        self.queued += 1;
        stats.xsk_transmitted += 1;
        Transmitted::Sent
    }

    /// Implements [`Self::transmit`] for ports with multi-buffer packets.
    fn transmit_fragments(
        &mut self,
        stats: &mut PortStats,
        write: impl FnOnce(&mut [u8]) -> Option<XskTransmit>,
    ) -> Transmitted {
        let Some(multi_buffer) = &mut self.multi_buffer else {
            return Transmitted::Full;
        };
        if self.free.len() < multi_buffer.fragments() {
            self.rings.reclaim(&mut self.free);
        }
        if self.free.len() < multi_buffer.fragments() {
            return Transmitted::Full;
        }
        let payload = self.headers..self.headers + self.payload_max;
        let packet = multi_buffer.packet();
        let written = packet.get_mut(payload).and_then(write).and_then(|outgoing| {
            let end = self.headers + outgoing.len.min(self.payload_max);
            self.framing.write(&outgoing, packet, self.headers..end).ok()
        });
        let Some(range) = written else {
            return Transmitted::Nothing;
        };
        let chunks = multi_buffer.split(range, &self.memory, &mut self.free);
        let count = chunks.len();
        if !self.rings.send_packet(chunks) {
            self.free.append(chunks);
            return Transmitted::Full;
        }
        self.queued += u32::try_from(count).unwrap_or(0);
        stats.xsk_transmitted += 1;
        Transmitted::Sent
    }

    /// Whether there is a frame for another packet.
    pub(crate) fn has_frame(&mut self) -> bool {
        let frames = self.multi_buffer.as_ref().map_or(1, MultiBuffer::fragments);
        if self.free.len() < frames {
            self.rings.reclaim(&mut self.free);
        }
        self.free.len() >= frames
    }

    /// Sends all queued frames, and reclaims the sent ones.
    ///
    /// # Errors
    /// Those of waking the kernel: the socket is unusable.
    #[inline]
    pub fn flush(&mut self, stats: &mut PortStats) -> io::Result<()> {
        if self.queued > 0 {
            self.kick(stats)?;
            // In copy modes the sent frames are in the completion ring already.
            self.rings.reclaim(&mut self.free);
        }
        Ok(())
    }

    /// Wakes the kernel until it has taken all frames of the tx ring, or takes no more.
    fn kick(&mut self, stats: &mut PortStats) -> io::Result<()> {
        let mut left = self.untaken + self.queued;
        self.queued = 0;
        for _ in 0..KICKS_MAX {
            if !self.rings.wake_tx()? {
                // The driver is awake and takes the frames.
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

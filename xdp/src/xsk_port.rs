// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets through an `AF_XDP` socket.
//!
//! Packets come in from the engine, get Ethernet, IP and UDP headers in place, and leave by the tx
//! ring; frames from the rx ring are parsed in place and handed on. The program that redirects to
//! the socket is held as long as the port lives. [`HybridPort`](crate::HybridPort) calls, and
//! whoever wants to measure the floor. Bounds: [`BATCH`] frames a round, [`KICKS_MAX`] wake-ups a
//! flush, [`BIND_TRIES`] attempts to bind.
//!
//! Who owns a frame when:
//!
//! ```text
//!   fill ring ─▶ kernel ─▶ rx ring ─▶ received ─▶ spent ─▶ fill ring        (rx frames)
//!   free ─▶ (headers and packet are written) ─▶ tx ring ─▶ kernel ─▶ completion ring ─▶ free
//! ```
//!
//! Order on the way in: bind the socket, attach the program, claim the port; on the way out the
//! reverse, which is the order of the fields.

mod jumbo;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use ofi_xdp_bpf::{AttachMode, Claim, Counters, Redirect};
use ofi_xdp_core::frame::{self, HEADERS_V4, HEADERS_V6, Headers, MacAddress, UdpChecksum};
use ofi_xdp_core::{Datagram, PeerAddress, Transmit, Transmitted};

use crate::config::{RingSizes, TRAFFIC_CLASS};
use crate::device::InterfaceFacts;
use crate::facts::XskMode;
use crate::frame::Frame;
use crate::privilege::{self, Missing};
use crate::rings::{BATCH, Rings, RingsError};
use crate::route::Hop;
use crate::self_test::{self, BoundSocket, Stands};
use crate::socket_options;
use crate::stats::{KernelStats, PortStats};
use crate::udp;
use crate::umem::FrameMemory;
use jumbo::Jumbo;

/// How often binding is tried while the kernel still tears down a predecessor on the queue, which
/// it does some milliseconds after the close (`xdp_put_umem` defers to a work queue).
const BIND_TRIES: u32 = 25;
/// The time between two tries: with [`BIND_TRIES`], a quarter of a second in all.
const BIND_PAUSE: Duration = Duration::from_millis(10);
/// Most wake-ups in one flush. In copy modes one sends 32 frames (`TX_BATCH_SIZE`, net/xdp/xsk.c).
const KICKS_MAX: u32 = 8;

/// Why there is no `AF_XDP` port.
#[derive(Debug, thiserror::Error)]
pub enum XskError {
    /// The socket cannot be made, or not bound in this mode.
    #[error(transparent)]
    Bind(#[from] RingsError),
    /// The interface's MTU leaves no room for a packet.
    #[error("the interface's MTU of {mtu} bytes is too small")]
    Mtu {
        /// The MTU.
        mtu: u32,
    },
    /// A capability is missing.
    #[error("{0}")]
    Privilege(Missing),
    /// The program cannot be attached, or the port not be claimed.
    #[error(transparent)]
    Program(#[from] ofi_xdp_bpf::Error),
    /// Zero-copy needs the program in native mode, and another process has it there in generic
    /// mode.
    #[error("another process attached the XDP program in generic mode")]
    Generic,
    /// The socket was bound, and moves nothing.
    #[error(transparent)]
    Stands(#[from] Stands),
    /// The socket was bound for zero-copy, and the kernel says that it copies.
    #[error("the kernel bound the socket and says that it copies (XDP_OPTIONS)")]
    Copies,
}

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
        let Transmit { len, to } = transmit;
        Self { len, to: to.address, mac: hop.mac, gateway: hop.gateway }
    }
}

/// An `AF_XDP` socket with its memory and its share of the program.
#[derive(Debug)]
pub struct XskPort {
    _claim: Claim,
    redirect: Redirect,
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
    free: Vec<Frame>,
    tx_frames: usize,
    /// Frames given to the tx ring since the last kick.
    queued: u32,
    /// Frames that the last kick left in the tx ring.
    untaken: u32,
}

impl XskPort {
    /// Opens a port for the endpoint at `local`, whose kernel socket the caller has, on `queue` of
    /// `interface`, in `mode`; if other processes already attached the program in another mode,
    /// then in that one ([`Self::mode`]).
    ///
    /// # Errors
    /// [`XskError`]. The caller goes on in another mode or without.
    pub fn open(
        interface: &InterfaceFacts,
        queue: u32,
        local: SocketAddr,
        mode: XskMode,
        sizes: RingSizes,
    ) -> Result<Self, XskError> {
        privilege::check().map_err(XskError::Privilege)?;
        let headers = if local.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        let (memory, mut rx, mut free) = FrameMemory::new(sizes, headers)?;
        let longest = headers + udp::payload_max(interface.mtu, local.ip());
        let (mut rings, jumbo) = bind(&memory, interface, queue, mode, sizes, longest)?;
        let room = if jumbo.is_some() { longest } else { longest.min(memory.room()) };
        let payload_max = room.saturating_sub(headers);
        if payload_max == 0 {
            return Err(XskError::Mtu { mtu: interface.mtu });
        }
        // xsk-rs binds when it creates: a zero-copy driver has looked for frames by now and found
        // none.
        rings.refill(&mut rx);
        rings.wake_rx().map_err(|error| RingsError::os("wake the AF_XDP socket", error))?;
        let attach = match mode {
            XskMode::Zerocopy | XskMode::Copy => AttachMode::Native,
            XskMode::Skb => AttachMode::Generic,
        };
        let ifindex = i32::try_from(interface.index).unwrap_or(i32::MAX);
        // In native mode drivers demand it of a program, whatever its sockets can.
        let redirect = if longest > memory.room() {
            Redirect::open_multi_buffer(ifindex, attach)?
        } else {
            Redirect::open(ifindex, attach)?
        };
        let mode = match (mode, redirect.mode()) {
            (XskMode::Zerocopy, AttachMode::Native) => XskMode::Zerocopy,
            (XskMode::Zerocopy, AttachMode::Generic) => return Err(XskError::Generic),
            (XskMode::Copy | XskMode::Skb, AttachMode::Native) => XskMode::Copy,
            (XskMode::Copy | XskMode::Skb, AttachMode::Generic) => XskMode::Skb,
        };
        check_zerocopy(&rings, mode)?;
        let (mac, index) = (interface.mac, interface.index);
        let subject =
            BoundSocket { rings: &mut rings, memory: &memory, free: &mut free, mac, index };
        self_test::test(interface, subject)?;
        let claim = redirect.claim(queue, local, rings.fd())?;
        let rx_frames = sizes.rx.get() as usize;
        let tx_frames = free.len();
        let pieces = jumbo.as_ref().map_or(1, Jumbo::pieces);
        Ok(Self {
            _claim: claim,
            redirect,
            rings,
            memory,
            mode,
            local: local.into(),
            mac: interface.mac,
            headers,
            payload_max,
            // A batch may be in our hands while the ring fills.
            window_packets: u16::try_from((rx_frames - BATCH / 2) / pieces).unwrap_or(u16::MAX),
            jumbo,
            received: Vec::with_capacity(BATCH),
            spent: Vec::with_capacity(rx_frames),
            tx_frames,
            free,
            queued: 0,
            untaken: 0,
        })
    }

    /// How frames move.
    #[must_use]
    pub const fn mode(&self) -> XskMode {
        self.mode
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

    /// The socket, readable when a packet arrived.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.rings.fd().as_raw_fd()
    }

    /// Whether the program is still attached to the interface; `true` if the kernel does not tell.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.redirect.is_attached().unwrap_or(true)
    }

    /// What the program did with the interface's frames, of all endpoints.
    ///
    /// # Errors
    /// As [`Redirect::counters`].
    pub fn counters(&self) -> Result<Counters, ofi_xdp_bpf::Error> {
        self.redirect.counters()
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
            if self.rings.receive(limit, &mut self.received) == 0 {
                break;
            }
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
            self.rings.refill(&mut self.spent);
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

/// Binds a socket for packets of up to `longest` bytes with their headers, or for those that fit in
/// a frame where the kernel (before Linux 6.6) or the driver (in zero-copy mode) takes no longer
/// ones.
fn bind(
    memory: &FrameMemory,
    interface: &InterfaceFacts,
    queue: u32,
    mode: XskMode,
    sizes: RingSizes,
    longest: usize,
) -> Result<(Rings, Option<Jumbo>), RingsError> {
    let bind = |multi_buffer| bind_patiently(memory, interface, queue, mode, multi_buffer, sizes);
    if let Some(jumbo) = Jumbo::new(longest, memory.room()) {
        match bind(true) {
            Ok(rings) => return Ok((rings, Some(jumbo))),
            // Shorter packets would not free the queue.
            Err(error) if is_busy(&error) => return Err(error),
            Err(error) => {
                log::info!("{}: {mode}: no packets above a frame: {error}", interface.name);
            }
        }
    }
    Ok((bind(false)?, None))
}

/// Binds a socket, waiting for a predecessor that is being torn down.
fn bind_patiently(
    memory: &FrameMemory,
    interface: &InterfaceFacts,
    queue: u32,
    mode: XskMode,
    multi_buffer: bool,
    sizes: RingSizes,
) -> Result<Rings, RingsError> {
    let mut tries = 1;
    // bound: BIND_TRIES
    loop {
        match Rings::bind(memory, &interface.name, queue, mode, multi_buffer, sizes) {
            Err(error) if tries < BIND_TRIES && is_busy(&error) => {
                tries += 1;
                thread::sleep(BIND_PAUSE);
            }
            result => return result,
        }
    }
}

/// Whether another socket has the queue.
fn is_busy(error: &RingsError) -> bool {
    error.raw_os_error() == Some(Errno::EBUSY as i32)
}

/// Compares the mode that was asked for with the kernel's own word. One that does not tell (before
/// Linux 5.3) is believed: it refuses a zero-copy bind that it cannot do.
fn check_zerocopy(rings: &Rings, mode: XskMode) -> Result<(), XskError> {
    match (mode, socket_options::is_zerocopy(rings.fd())) {
        (XskMode::Zerocopy, Ok(false)) => Err(XskError::Copies),
        _ => Ok(()),
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

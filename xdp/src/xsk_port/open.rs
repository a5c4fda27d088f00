// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening the `AF_XDP` half: a socket is made, here or by the broker, its rings and its memory are
//! mapped, and it shows that it moves frames.
//!
//! In: an [`Opening`], from whoever tries the modes in turn (`port/open.rs`). Out: an [`XskPort`],
//! or why there is none. Bounds: those of the self tests (`self_test.rs`).

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use nix::errno::Errno;
use ofi_xdp_core::frame::{HEADERS_V4, HEADERS_V6};

use super::XskPort;
use super::jumbo::Jumbo;
use super::lent::Lent;
use crate::broker::{self, BrokerError};
use crate::config::{Queues, RingSizes};
use crate::device::InterfaceFacts;
use crate::facts::XskMode;
use crate::grant::{Grant, Wish};
use crate::privilege::{self, Missing};
use crate::rings::{BATCH, Rings, RingsError};
use crate::self_test::{self, BoundSocket, Stands};
use crate::socket::BIND_TRIES;
use crate::socket_options;
use crate::udp;
use crate::umem::{FrameMemory, Layout};

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
    /// Capabilities are missing, and no broker stands in for them.
    #[error("{missing}; {broker}")]
    Privilege {
        /// What is missing.
        missing: Missing,
        /// What the broker said, or that none is to be asked.
        broker: String,
    },
    /// The broker gave nothing.
    #[error(transparent)]
    Broker(BrokerError),
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

/// What a process without capabilities can offer for a socket.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Where the broker is asked; `None`: nowhere.
    pub broker: Option<&'a Path>,
    /// The kernel socket that is bound to the endpoint's address, which shows whose that is.
    pub companion: BorrowedFd<'a>,
}

/// What a port is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The interface.
    pub interface: &'a InterfaceFacts,
    /// The queue of it, or the first that is free.
    pub queue: Option<u32>,
    /// Whether the device is asked to send the endpoint's packets to that queue.
    pub steer: bool,
    /// The endpoint's address.
    pub local: SocketAddr,
    /// How frames are to move.
    pub mode: XskMode,
    /// Sizes of the rings.
    pub sizes: RingSizes,
    /// What stands in for capabilities; its kernel socket is bound to `local`.
    pub access: Access<'a>,
}

impl Opening<'_> {
    /// Opens the port in the mode that is asked for; if other processes already attached the
    /// program in another one, then in that ([`XskPort::mode`]).
    ///
    /// # Errors
    /// [`XskError`]. The caller goes on in another mode or without.
    pub fn open(self) -> Result<XskPort, XskError> {
        let Self { interface, local, mode, .. } = self;
        let mut port = self_test::open_hearing(interface, mode, || self.open_unclaimed())?;
        port.grant.claim(self.wish(), local)?;
        if let Some(reason) = port.grant.why_not_steered() {
            let (queue, name) = (port.queue(), &interface.name);
            log::warn!(
                "{local}: nothing steers its packets to queue {queue} of {name} ({reason}); those \
                 that arrive on others take the kernel's way"
            );
        }
        Ok(port)
    }

    /// What is needed for that.
    fn wish(self) -> Wish {
        let Self { interface, queue, steer, mode, sizes, .. } = self;
        let headers = self.headers();
        let longest = headers + udp::payload_max(interface.mtu, self.local.ip());
        Wish {
            interface: interface.index,
            queues: Queues::one_or_any(queue),
            mode,
            layout: Layout::new(sizes, headers),
            longest: u32::try_from(longest).unwrap_or(u32::MAX),
            steer,
        }
    }

    /// Bytes of the headers before a packet.
    const fn headers(self) -> usize {
        if self.local.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
    }

    /// The same, not tested for packets that come in, and no packet comes yet, unless by a broker.
    fn open_unclaimed(self) -> Result<XskPort, XskError> {
        let Self { interface, local, sizes, access, .. } = self;
        let (headers, wish) = (self.headers(), self.wish());
        let (layout, longest) = (wish.layout, wish.longest as usize);
        let grant = match privilege::check() {
            Ok(()) => Grant::open(wish, BIND_TRIES)?,
            Err(missing) => ask(wish, access, missing)?,
        };
        let jumbo = grant.socket().multi_buffer().then(|| Jumbo::new(longest, layout.room()));
        let jumbo = jumbo.flatten();
        let room = if jumbo.is_some() { longest } else { longest.min(layout.room()) };
        let payload_max = room.saturating_sub(headers);
        if payload_max == 0 {
            return Err(XskError::Mtu { mtu: interface.mtu });
        }
        let map = |error| {
            let error = RingsError::os("map the AF_XDP socket", error);
            // What another process bound, only newer kernels map (net/xdp/xsk.c, `xsk_mmap`).
            error.with_advice(Errno::EBUSY, "xdp-broker needs Linux 6.4")
        };
        let (memory, mut free) = FrameMemory::map(grant.socket().memory(), layout).map_err(map)?;
        let socket = grant.socket().socket().try_clone_to_owned().map_err(map)?;
        let mut rings = Rings::map(socket, sizes).map_err(map)?;
        rings.wake_rx().map_err(|error| RingsError::os("wake the AF_XDP socket", error))?;
        check_zerocopy(&rings, grant.mode())?;
        let (mac, index) = (interface.mac, interface.index);
        let subject =
            BoundSocket { rings: &mut rings, memory: &memory, free: &mut free, mac, index };
        self_test::test(interface, subject)?;
        let (mode, rx_frames) = (grant.mode(), sizes.rx.get() as usize);
        let tx_frames = free.len();
        let pieces = jumbo.as_ref().map_or(1, Jumbo::pieces);
        Ok(XskPort {
            mode,
            grant,
            rings,
            memory,
            local: local.into(),
            mac: interface.mac,
            headers,
            payload_max,
            // A batch may be in our hands while the ring fills.
            window_packets: u16::try_from((rx_frames - BATCH / 2) / pieces).unwrap_or(u16::MAX),
            jumbo,
            received: Vec::with_capacity(BATCH),
            spent: Vec::with_capacity(rx_frames),
            lent: Lent::new(rx_frames, pieces, mode == XskMode::Zerocopy),
            tx_frames,
            free,
            queued: 0,
            untaken: 0,
        })
    }
}

/// Asks the broker for what this process lacks the capabilities for.
fn ask(wish: Wish, access: Access<'_>, missing: Missing) -> Result<Grant, XskError> {
    let Some(path) = access.broker else {
        let broker = "no broker is to be asked".to_owned();
        return Err(XskError::Privilege { missing, broker });
    };
    broker::ask(path, wish, access.companion).map_err(|error| match error {
        BrokerError::Absent { .. } => XskError::Privilege { missing, broker: error.to_string() },
        // There is a broker, so capabilities are not what the user has to see to.
        error => XskError::Broker(error),
    })
}

/// Compares the mode that was asked for with the kernel's own word. One that does not tell (before
/// Linux 5.3) is believed: it refuses a zero-copy bind that it cannot do.
fn check_zerocopy(rings: &Rings, mode: XskMode) -> Result<(), XskError> {
    match (mode, socket_options::is_zerocopy(rings.fd())) {
        (XskMode::Zerocopy, Ok(false)) => Err(XskError::Copies),
        _ => Ok(()),
    }
}

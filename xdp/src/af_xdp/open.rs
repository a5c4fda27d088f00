// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening an `AF_XDP` port: get a lease, map rings and memory, test the driver, claim the UDP
//! port.
//!
//! In: an [`XskPortConfig`]. Out: an [`XskPort`], or the reason why there is none. Caller:
//! `port/open.rs`, for one mode after the other. Bounds: those of the self-test (`self_test/`).

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::headers::{HEADERS_V4, HEADERS_V6};
use nix::errno::Errno;

use super::multi_buffer::MultiBuffer;
use super::port::{XskParts, XskPort};
use super::self_test::bound_socket::{self, BoundSocket};
use super::self_test::neighbours;
use crate::config::{QueueRange, RingSizes};
use crate::error::{BrokerError, Missing, RingsError, XskError};
use crate::host::interfaces::InterfaceInfo;
use crate::host::privilege;
use crate::lease::broker::client;
use crate::lease::request::SocketRequest;
use crate::lease::socket_lease::Lease;
use crate::mtu;
use crate::tier::status::XskMode;
use crate::xsk::rings::Rings;
use crate::xsk::socket::BIND_TRIES;
use crate::xsk::umem::{Layout, UmemMapping};

/// Attempts to bind a socket to a further queue, which another socket may have for long.
const FURTHER_TRIES: u32 = 5;

/// Access to the broker, for a process without capabilities.
#[derive(Clone, Copy, Debug)]
pub struct BrokerAccess<'a> {
    /// Path of the broker; `None`: no broker.
    pub broker: Option<&'a Path>,
    /// The kernel socket that is bound to the endpoint's address, as a proof of ownership.
    pub udp_socket: BorrowedFd<'a>,
}

/// Configuration of an `AF_XDP` port.
#[derive(Clone, Copy, Debug)]
pub struct XskPortConfig<'a> {
    /// The interface.
    pub interface: &'a InterfaceInfo,
    /// The queue of the interface; `None`: the first free one.
    pub queue: Option<u32>,
    /// Whether a rule of the device steers the endpoint's packets to that queue.
    pub steer: bool,
    /// Whether its packets are datagrams of an application.
    pub any_payload: bool,
    /// The endpoint's address.
    pub local: SocketAddr,
    /// The mode of the socket.
    pub mode: XskMode,
    /// Sizes of the rings.
    pub sizes: RingSizes,
    /// Access to the broker; its kernel socket is bound to `local`.
    pub access: BrokerAccess<'a>,
}

impl XskPortConfig<'_> {
    /// Opens the port in the configured mode. If other processes have attached the program in
    /// another mode, the port has that mode ([`XskPort::mode`]).
    ///
    /// # Errors
    /// [`XskError`]. The caller continues in another mode or without `AF_XDP`.
    pub fn open(self) -> Result<XskPort, XskError> {
        let mut port = self.open_unclaimed()?;
        self.claim(&mut port)?;
        Ok(port)
    }

    /// As [`Self::open`], without the claim: no packet arrives yet, except with a lease from the
    /// broker.
    ///
    /// # Errors
    /// [`XskError`].
    pub(crate) fn open_unclaimed(self) -> Result<XskPort, XskError> {
        let Self { interface, mode, .. } = self;
        neighbours::open_with_receive_test(interface, mode, || self.bind(BIND_TRIES))
    }

    /// Claims the UDP port for `port`: its packets arrive from now on.
    ///
    /// # Errors
    /// [`XskError::Program`].
    pub(crate) fn claim(self, port: &mut XskPort) -> Result<(), XskError> {
        let Self { interface, local, any_payload, .. } = self;
        port.claim(self.request(), interface.endpoint(local, any_payload))?;
        if let Some(reason) = port.unsteered_reason() {
            let (queue, name) = (port.queue(), &interface.name);
            log::warn!(
                "{local}: nothing steers its packets to queue {queue} of {name} ({reason}); those \
                 that arrive on others take the kernel's way"
            );
        }
        Ok(())
    }

    /// Opens a socket on another queue of the same endpoint, without the claim, which it is to join
    /// ([`XskPort::join`]).
    ///
    /// # Errors
    /// [`XskError`].
    pub(crate) fn open_further(self) -> Result<XskPort, XskError> {
        self.bind(FURTHER_TRIES)
    }

    /// The request for the lease.
    fn request(self) -> SocketRequest {
        let Self { interface, queue, steer, mode, sizes, any_payload, .. } = self;
        let headers = self.headers();
        let longest = headers + mtu::payload_max(interface.mtu, self.local.ip());
        SocketRequest {
            interface: interface.index,
            queues: QueueRange::one_or_any(queue),
            local: self.local,
            mode,
            layout: Layout::new(sizes, headers),
            longest: u32::try_from(longest).unwrap_or(u32::MAX),
            steer,
            any_payload,
        }
    }

    /// Bytes of the headers before a packet.
    const fn headers(self) -> usize {
        if self.local.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
    }

    /// Opens the port without the receive test and the claim.
    fn bind(self, tries: u32) -> Result<XskPort, XskError> {
        let Self { interface, local, sizes, access, .. } = self;
        let (headers, request) = (self.headers(), self.request());
        let (layout, longest) = (request.layout, request.longest as usize);
        let lease = match privilege::check() {
            Ok(()) => Lease::open(request, tries)?,
            Err(missing) => ask(request, access, missing)?,
        };
        let multi_buffer =
            lease.socket().multi_buffer().then(|| MultiBuffer::new(longest, layout.room()));
        let multi_buffer = multi_buffer.flatten();
        let room = if multi_buffer.is_some() { longest } else { longest.min(layout.room()) };
        let payload_max = room.saturating_sub(headers);
        if payload_max == 0 {
            return Err(XskError::Mtu { mtu: interface.mtu });
        }
        let map = |error| {
            let error = RingsError::os("map the AF_XDP socket", error);
            // Only newer kernels map a socket that another process has bound (net/xdp/xsk.c,
            // `xsk_mmap`).
            error.with_advice(Errno::EBUSY, "xdp-broker needs Linux 6.4")
        };
        let (memory, mut free) = UmemMapping::map(lease.socket().memory(), layout).map_err(map)?;
        let socket = lease.socket().socket().try_clone_to_owned().map_err(map)?;
        let mut rings = Rings::map(socket, sizes).map_err(map)?;
        rings.wake_rx().map_err(|error| RingsError::os("wake the AF_XDP socket", error))?;
        check_zerocopy(&rings, lease.mode())?;
        let (mac, index) = (interface.mac, interface.index);
        let subject =
            BoundSocket { rings: &mut rings, memory: &memory, free: &mut free, mac, index };
        bound_socket::test(interface, subject)?;
        Ok(XskPort::new(XskParts {
            lease,
            rings,
            memory,
            free,
            rx_frames: sizes.rx.get() as usize,
            multi_buffer,
            local: local.into(),
            mac,
            headers,
            payload_max,
            datagrams: self.any_payload,
        }))
    }
}

/// Asks the broker for a lease.
fn ask(
    request: SocketRequest,
    access: BrokerAccess<'_>,
    missing: Missing,
) -> Result<Lease, XskError> {
    let Some(path) = access.broker else {
        let broker = "no broker is to be asked".to_owned();
        return Err(XskError::Privilege { missing, broker });
    };
    client::ask(path, request, access.udp_socket).map_err(|error| match error {
        BrokerError::Absent { .. } => XskError::Privilege { missing, broker: error.to_string() },
        // There is a broker, so the user need not care about capabilities.
        error => XskError::Broker(error),
    })
}

/// Compares the requested mode with the kernel's report. Kernels before Linux 5.3 report nothing,
/// and refuse a zero-copy bind that they cannot do.
fn check_zerocopy(rings: &Rings, mode: XskMode) -> Result<(), XskError> {
    match (mode, rings.is_zerocopy()) {
        (XskMode::Zerocopy, Ok(false)) => Err(XskError::Copies),
        _ => Ok(()),
    }
}

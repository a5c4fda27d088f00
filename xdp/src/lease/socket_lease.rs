// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lease: a bound `AF_XDP` socket, and the program that redirects the endpoint's packets to it.
//!
//! In: a [`SocketRequest`] and the endpoint's address. Out: a [`Lease`]. A process with
//! capabilities makes it by [`Lease::open`] and [`Lease::claim`], as the broker does; other
//! processes get it from the broker (`broker/client.rs`). Caller: the `AF_XDP` port. Bounds: those
//! of `socket.rs` and of the program.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::headers;
use nix::errno::Errno;
use ofi_xdp_bpf::{AttachMode, Claim, Counters, EndpointAddress, Error, Redirect};

use super::broker::connection::BrokerConnection;
use super::broker::counters_page::CountersReader;
use super::request::SocketRequest;
use crate::error::{RingsError, XskError};
use crate::fork::Uninherited;
use crate::steering::{Steering, SteeringRule};
use crate::tier::status::XskMode;
use crate::xsk::socket::XskSocket;

/// The usual reason for the end of a redirection.
const DETACHED: &str = "the XDP program was detached";

/// Bytes of the longest IP packet that is a datagram of an application for certain, and no batch:
/// Ethernet's MTU. `core` makes no shorter batches of datagrams.
const DATAGRAM_MAX: usize = 1500;

/// The holder of the redirection.
#[derive(Debug)]
enum Program {
    /// This process.
    Own(Box<ProgramLease>),
    /// The broker, as long as the connection lives.
    Broker(BrokerLease),
}

/// A client's share of the program, which the broker holds.
#[derive(Debug)]
pub(crate) struct BrokerLease {
    pub(crate) connection: BrokerConnection,
    pub(crate) counters_page: CountersReader,
    /// The map with the count of packets left to the kernel socket, and the offset of the count.
    pub(crate) kernel_rx_counter: (OwnedFd, usize),
    /// Whether the policy allows a rule of the device.
    pub(crate) may_steer: bool,
}

/// This process's share of the program. Dropping it ends the redirection.
#[derive(Debug)]
pub struct ProgramLease {
    steering: Option<Steering>,
    /// `None` before [`Lease::claim`].
    claim: Option<Claim>,
    /// In front of the link's descriptor, as the fields are dropped in this order. `None` if this
    /// process has none.
    _uninherited: Option<Uninherited>,
    redirect: Redirect,
}

/// The terms of a lease for another process.
#[derive(Clone, Copy)]
struct Lending<'a> {
    may_use: &'a dyn Fn(u32) -> bool,
    native_first: bool,
}

/// A bound socket, which receives packets once the port is claimed.
#[derive(Debug)]
pub struct Lease {
    program: Program,
    socket: XskSocket,
    mode: XskMode,
    /// Reason why packets are not steered although requested; else empty.
    unsteered_reason: String,
}

impl Lease {
    /// Binds a socket, and attaches the program or joins the processes that have attached it. While
    /// all queues are busy, makes `tries` attempts some milliseconds apart. No packet arrives
    /// before [`Self::claim`].
    ///
    /// # Errors
    /// [`XskError`].
    pub fn open(request: SocketRequest, tries: u32) -> Result<Self, XskError> {
        Self::open_with(request, tries, None)
    }

    /// Opens a lease like [`Self::open`], for another process: makes one attempt on each queue that
    /// `may_use` allows, and the program goes with this process ([`Redirect::open_lent`]). A
    /// forbidden queue counts as busy, and costs nothing. With `native_first`, a request for
    /// generic mode attaches the program in that mode only where the driver refuses native mode.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_for_client(
        request: SocketRequest,
        native_first: bool,
        may_use: &dyn Fn(u32) -> bool,
    ) -> Result<Self, XskError> {
        Self::open_with(request, 1, Some(Lending { may_use, native_first }))
    }

    fn open_with(
        request: SocketRequest,
        tries: u32,
        lending: Option<Lending<'_>>,
    ) -> Result<Self, XskError> {
        // In native mode drivers demand multi-buffer support of the program, whatever its sockets
        // support. In generic mode a program without that support is cheaper. The kernel then joins
        // a packet for the program, and splits it for the socket (`__xsk_rcv`). With that support
        // it copies the packet page by page (`skb_cow_data_for_xdp`).
        let long = request.longest as usize > request.layout.room();
        let any: &dyn Fn(u32) -> bool = &|_| true;
        let may_use = lending.map_or(any, |lending| lending.may_use);
        let socket = bind(request, long, tries, may_use)?;
        let ifindex = i32::try_from(request.interface).unwrap_or(i32::MAX);
        let open = |attach| {
            let multi_buffer = long && attach == AttachMode::Native;
            match (lending, multi_buffer) {
                (Some(_), _) => Redirect::open_lent(ifindex, attach, multi_buffer),
                (None, true) => Redirect::open_multi_buffer(ifindex, attach),
                (None, false) => Redirect::open(ifindex, attach),
            }
        };
        let redirect = match request.mode {
            XskMode::Zerocopy | XskMode::Copy => open(AttachMode::Native)?,
            XskMode::Skb if lending.is_some_and(|lending| lending.native_first) => {
                match open(AttachMode::Native) {
                    Err(Error::Mode { .. }) => open(AttachMode::Generic)?,
                    opened => opened?,
                }
            }
            XskMode::Skb => open(AttachMode::Generic)?,
        };
        let mode = match (request.mode, redirect.mode()) {
            (XskMode::Zerocopy, AttachMode::Native) => XskMode::Zerocopy,
            (XskMode::Zerocopy, AttachMode::Generic) => return Err(XskError::Generic),
            (XskMode::Copy | XskMode::Skb, AttachMode::Native) => XskMode::Copy,
            (XskMode::Copy | XskMode::Skb, AttachMode::Generic) => XskMode::Skb,
        };
        let _uninherited = redirect.link().map(|link| Uninherited::new(&link));
        let program = ProgramLease { steering: None, claim: None, _uninherited, redirect };
        let program = Program::Own(Box::new(program));
        Ok(Self { program, socket, mode, unsteered_reason: String::new() })
    }

    /// Claims the port of `endpoint`. The caller knows that the kernel socket on it belongs to the
    /// endpoint. A lease from the broker is claimed already.
    ///
    /// # Errors
    /// [`XskError::Program`].
    pub fn claim(
        &mut self,
        request: SocketRequest,
        endpoint: EndpointAddress,
    ) -> Result<(), XskError> {
        let Program::Own(program) = &mut self.program else { return Ok(()) };
        let socket = &self.socket;
        let room = if socket.multi_buffer() { usize::MAX } else { request.layout.room() };
        let longest = room.min(request.longest as usize).saturating_sub(headers::ETHERNET_LEN);
        // In generic mode a batch arrives as one packet. The sender of datagrams does not know what
        // their receiver takes for one.
        let batches = request.any_payload && self.mode == XskMode::Skb;
        let longest = if batches { longest.min(DATAGRAM_MAX) } else { longest };
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        let queue = socket.queue();
        // The claim is last: no packet comes to a socket while this waits for a lock.
        (program.steering, self.unsteered_reason) = steer(request, queue, endpoint.address);
        program.claim =
            Some(program.redirect.claim(queue, endpoint, longest, socket.socket().as_fd())?);
        Ok(())
    }

    /// Redirects packets that arrive on the queue of `further`, an unclaimed lease, to its socket.
    /// That lease is dropped after this one.
    ///
    /// # Errors
    /// [`XskError::Program`].
    pub(crate) fn join(&mut self, further: &Self) -> Result<(), XskError> {
        if let Program::Own(program) = &mut self.program
            && let Some(claim) = &mut program.claim
        {
            claim.add(further.socket.queue(), further.socket.socket())?;
        }
        Ok(())
    }

    /// Whether the broker holds the redirection.
    pub(crate) const fn is_brokered(&self) -> bool {
        matches!(self.program, Program::Broker(..))
    }

    /// Whether the broker holds the redirection, and makes a rule of the device on request.
    pub(crate) const fn may_steer(&self) -> bool {
        matches!(&self.program, Program::Broker(broker) if broker.may_steer)
    }

    /// A lease from the broker, with the reason why packets are not steered.
    pub(crate) const fn brokered(
        broker: BrokerLease,
        socket: XskSocket,
        mode: XskMode,
        unsteered_reason: String,
    ) -> Self {
        Self { program: Program::Broker(broker), socket, mode, unsteered_reason }
    }

    /// Reason why no rule of the device steers packets to the queue, if that was requested.
    #[must_use]
    pub fn unsteered_reason(&self) -> Option<&str> {
        (!self.unsteered_reason.is_empty()).then_some(self.unsteered_reason.as_str())
    }

    /// The mode of the socket.
    #[must_use]
    pub const fn mode(&self) -> XskMode {
        self.mode
    }

    /// The bound socket.
    #[must_use]
    pub const fn socket(&self) -> &XskSocket {
        &self.socket
    }

    /// The program; `None` if the broker holds it.
    #[must_use]
    pub fn redirect(&self) -> Option<&Redirect> {
        match &self.program {
            Program::Own(program) => Some(&program.redirect),
            Program::Broker(..) => None,
        }
    }

    /// This process's share of the program, without the socket; `None` if the broker holds it.
    #[must_use]
    pub fn into_program_lease(self) -> Option<ProgramLease> {
        match self.program {
            Program::Own(program) => Some(*program),
            Program::Broker(..) => None,
        }
    }

    /// Ends the redirection, as far as that needs no lock of the kernel's that others hold for
    /// long. Dropping the lease does the rest.
    pub(crate) fn end(&mut self) {
        match &mut self.program {
            Program::Own(program) => program.claim = None,
            Program::Broker(broker) => broker.connection.shut_down(),
        }
    }

    /// Reason why the redirection has ended; `None` if it has not, or if that is unknown. Whether a
    /// program of this process is attached is asked by [`Self::attachment`].
    pub(crate) fn end_reason(&self) -> Option<&'static str> {
        match &self.program {
            Program::Own(program) => program.entry_is_gone(),
            Program::Broker(broker) => (!broker.connection.is_open()).then_some(DETACHED),
        }
    }

    /// The question why the program redirects nothing any more, for any thread. It waits for a lock
    /// of the kernel's. `None` if the broker holds the program.
    pub(crate) fn attachment(
        &self,
    ) -> Option<impl FnOnce() -> Option<&'static str> + Send + use<>> {
        let Program::Own(program) = &self.program else { return None };
        let redirect = program.redirect.clone();
        Some(move || (!redirect.is_attached().unwrap_or(true)).then_some(DETACHED))
    }

    /// The location of the count of packets left to the kernel socket, as
    /// [`Claim::kernel_rx_counter`] tells it; `None` before the claim.
    #[must_use]
    pub fn kernel_rx_counter(&self) -> Option<(BorrowedFd<'_>, usize)> {
        match &self.program {
            Program::Own(program) => program.claim.as_ref().map(Claim::kernel_rx_counter),
            Program::Broker(broker) => {
                let (map, at) = &broker.kernel_rx_counter;
                Some((map.as_fd(), *at))
            }
        }
    }

    /// Frames of the interface by verdict. Those from the broker are up to a second old; `None` if
    /// it has not reported any.
    pub(crate) fn counters(&self) -> Result<Option<Counters>, Error> {
        match &self.program {
            Program::Own(program) => program.redirect.counters().map(Some),
            Program::Broker(broker) => Ok(broker.counters_page.read()),
        }
    }
}

/// Makes the device steer packets, if requested; else, or on failure, returns the reason.
fn steer(request: SocketRequest, queue: u32, address: SocketAddr) -> (Option<Steering>, String) {
    if !request.steer {
        return (None, String::new());
    }
    match Steering::new(SteeringRule { interface: request.interface, queue, address }) {
        Ok(steering) => {
            log::info!("{address}: {steering}");
            (Some(steering), String::new())
        }
        Err(error) => (None, error.to_string()),
    }
}

/// Binds a socket for multi-buffer packets if packets are `long`. Where the kernel (before Linux
/// 6.6) or the driver (in zero-copy mode) does not support them, binds one for packets of one
/// frame.
fn bind(
    request: SocketRequest,
    long: bool,
    tries: u32,
    may_use: &dyn Fn(u32) -> bool,
) -> Result<XskSocket, RingsError> {
    let SocketRequest { interface, queues, mode, layout, .. } = request;
    let queues = (queues, may_use);
    if long {
        match XskSocket::bind_where(interface, queues, mode, layout, true, tries) {
            // Shorter packets would not free the queue.
            Err(error) if error.raw_os_error() != Some(Errno::EBUSY as i32) => {
                log::info!("interface {interface}: {mode}: no packets above a frame: {error}");
            }
            result => return result,
        }
    }
    XskSocket::bind_where(interface, queues, mode, layout, false, tries)
}

impl ProgramLease {
    /// Whether a rule of the device steers the endpoint's packets.
    #[must_use]
    pub const fn is_steered(&self) -> bool {
        self.steering.is_some()
    }

    /// Reason why the redirection has ended; `None` if it has not, or if that is unknown. Two
    /// system calls.
    #[must_use]
    pub fn end(&self) -> Option<&'static str> {
        if !self.redirect.is_attached().unwrap_or(true) {
            return Some(DETACHED);
        }
        self.entry_is_gone()
    }

    fn entry_is_gone(&self) -> Option<&'static str> {
        let valid = self.claim.as_ref().is_none_or(|claim| claim.is_valid().unwrap_or(true));
        (!valid).then_some("its entry in the XDP program is gone")
    }
}

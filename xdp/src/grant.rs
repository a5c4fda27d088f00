// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an endpoint needs from somebody with privileges: a bound `AF_XDP` socket, and the program
//! redirecting the endpoint's packets to it.
//!
//! A [`Wish`] and the endpoint's address come in, a [`Grant`] goes out: from this process if it may
//! ([`Grant::open`], then [`Grant::claim`], which the broker calls too), else from the broker
//! (`broker/client.rs`). `xsk_port.rs` uses it. Bounds: those of `socket.rs` and of the program.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use ofi_xdp_bpf::{AttachMode, Claim, Counters, Redirect};
use ofi_xdp_core::frame;

use crate::broker::{BoardReader, Connection};
use crate::config::Queues;
use crate::facts::XskMode;
use crate::rings::RingsError;
use crate::socket::XskSocket;
use crate::steering::Steering;
use crate::umem::Layout;
use crate::xsk_port::XskError;

/// Why there is no redirection, mostly.
const DETACHED: &str = "the XDP program was detached";

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Index of the interface.
    pub interface: u32,
    /// The queues, of which the first free one is taken.
    pub queues: Queues,
    /// How frames are to move.
    pub mode: XskMode,
    /// How the memory is divided.
    pub layout: Layout,
    /// Bytes of the longest packet with its headers. What does not fit in a frame goes in several
    /// where kernel and driver take that.
    pub longest: u32,
    /// Whether a rule of the device is to send the endpoint's packets to the queue.
    pub steer: bool,
}

/// What holds the redirection.
#[derive(Debug)]
enum Program {
    /// This process does.
    Own(Box<Held>),
    /// The broker does, as long as the connection lives.
    Broker(Connection, BoardReader),
}

/// This process's share of the program. Dropping it ends the redirection.
#[derive(Debug)]
pub struct Held {
    steering: Option<Steering>,
    /// None before [`Grant::claim`].
    claim: Option<Claim>,
    redirect: Redirect,
}

/// A bound socket, and packets coming to it once the port is claimed.
#[derive(Debug)]
pub struct Grant {
    program: Program,
    socket: XskSocket,
    mode: XskMode,
    /// Why packets are not steered, where they should be; else empty.
    not_steered: String,
}

impl Grant {
    /// Binds a socket, and attaches the program or joins the processes that did. While all queues
    /// are busy that is tried `tries` times, some milliseconds apart. No packet comes before
    /// [`Self::claim`].
    ///
    /// # Errors
    /// [`XskError`].
    pub fn open(wish: Wish, tries: u32) -> Result<Self, XskError> {
        // In native mode drivers demand it of a program, whatever its sockets can. In generic mode
        // the kernel joins a packet for a program that cannot, which is cheaper than what it does
        // for one that can, a copy page by page (`skb_cow_data_for_xdp`), and cuts it for the
        // socket all the same (`__xsk_rcv`).
        let long = wish.longest as usize > wish.layout.room();
        let socket = bind(wish, long, tries)?;
        let attach = match wish.mode {
            XskMode::Zerocopy | XskMode::Copy => AttachMode::Native,
            XskMode::Skb => AttachMode::Generic,
        };
        let ifindex = i32::try_from(wish.interface).unwrap_or(i32::MAX);
        let redirect = if long && attach == AttachMode::Native {
            Redirect::open_multi_buffer(ifindex, attach)?
        } else {
            Redirect::open(ifindex, attach)?
        };
        let mode = match (wish.mode, redirect.mode()) {
            (XskMode::Zerocopy, AttachMode::Native) => XskMode::Zerocopy,
            (XskMode::Zerocopy, AttachMode::Generic) => return Err(XskError::Generic),
            (XskMode::Copy | XskMode::Skb, AttachMode::Native) => XskMode::Copy,
            (XskMode::Copy | XskMode::Skb, AttachMode::Generic) => XskMode::Skb,
        };
        let held = Held { steering: None, claim: None, redirect };
        let program = Program::Own(Box::new(held));
        Ok(Self { program, socket, mode, not_steered: String::new() })
    }

    /// Claims the port of `local`, whose kernel socket the caller knows to belong to the endpoint.
    /// The broker has claimed it already.
    ///
    /// # Errors
    /// [`XskError::Program`].
    pub fn claim(&mut self, wish: Wish, local: SocketAddr) -> Result<(), XskError> {
        let Program::Own(held) = &mut self.program else { return Ok(()) };
        let socket = &self.socket;
        let room = if socket.multi_buffer() { usize::MAX } else { wish.layout.room() };
        let longest = room.min(wish.longest as usize).saturating_sub(frame::ETHERNET_LEN);
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        let queue = socket.queue();
        held.claim = Some(held.redirect.claim(queue, local, longest, socket.socket().as_fd())?);
        (held.steering, self.not_steered) = steer(wish, queue, local);
        Ok(())
    }

    /// The grant that the broker made, which says why packets are not steered.
    pub(crate) fn brokered(
        (connection, board): (Connection, BoardReader),
        socket: XskSocket,
        mode: XskMode,
        not_steered: String,
    ) -> Self {
        Self { program: Program::Broker(connection, board), socket, mode, not_steered }
    }

    /// Why no rule of the device sends packets to the queue, where that was wished for.
    #[must_use]
    pub fn why_not_steered(&self) -> Option<&str> {
        (!self.not_steered.is_empty()).then_some(self.not_steered.as_str())
    }

    /// How frames move.
    #[must_use]
    pub const fn mode(&self) -> XskMode {
        self.mode
    }

    /// The bound socket.
    #[must_use]
    pub const fn socket(&self) -> &XskSocket {
        &self.socket
    }

    /// The share of the program that this process holds, without the socket; `None` if the broker
    /// holds it.
    #[must_use]
    pub fn into_held(self) -> Option<Held> {
        match self.program {
            Program::Own(held) => Some(*held),
            Program::Broker(..) => None,
        }
    }

    /// What has ended the redirection; `None` if it stands, or if that cannot be told.
    pub(crate) fn end(&self) -> Option<&'static str> {
        match &self.program {
            Program::Own(held) => held.end(),
            Program::Broker(connection, _) => (!connection.is_open()).then_some(DETACHED),
        }
    }

    /// The claim, if this process holds it.
    pub(crate) fn claimed(&self) -> Option<&Claim> {
        match &self.program {
            Program::Own(held) => held.claim.as_ref(),
            Program::Broker(..) => None,
        }
    }

    /// What the program did with the interface's frames; from the broker, as it was some time in
    /// the last second. `None`: it has not said.
    pub(crate) fn counters(&self) -> Result<Option<Counters>, ofi_xdp_bpf::Error> {
        match &self.program {
            Program::Own(held) => held.redirect.counters().map(Some),
            Program::Broker(_, board) => Ok(board.read()),
        }
    }
}

/// Has the device steer packets for `local` to `queue`, if that is wished for; or says why not.
fn steer(wish: Wish, queue: u32, local: SocketAddr) -> (Option<Steering>, String) {
    if !wish.steer {
        return (None, String::new());
    }
    match Steering::new(wish.interface, queue, local) {
        Ok(steering) => {
            log::info!("{local}: {steering}");
            (Some(steering), String::new())
        }
        Err(error) => (None, error.to_string()),
    }
}

/// Binds a socket for packets in several frames, if they are `long`; or for those that fit in one
/// where the kernel (before Linux 6.6) or the driver (in zero-copy mode) takes no longer ones.
fn bind(wish: Wish, long: bool, tries: u32) -> Result<XskSocket, RingsError> {
    let Wish { interface, queues, mode, layout, .. } = wish;
    if long {
        match XskSocket::bind(interface, queues, mode, layout, true, tries) {
            // Shorter packets would not free the queue.
            Err(error) if error.raw_os_error() != Some(Errno::EBUSY as i32) => {
                log::info!("interface {interface}: {mode}: no packets above a frame: {error}");
            }
            result => return result,
        }
    }
    XskSocket::bind(interface, queues, mode, layout, false, tries)
}

impl Held {
    /// The program.
    #[must_use]
    pub const fn redirect(&self) -> &Redirect {
        &self.redirect
    }

    /// What has ended the redirection; `None` if it stands, or if that cannot be told. Two system
    /// calls.
    #[must_use]
    pub fn end(&self) -> Option<&'static str> {
        if !self.redirect.is_attached().unwrap_or(true) {
            return Some(DETACHED);
        }
        let stands = self.claim.as_ref().is_none_or(|claim| claim.stands().unwrap_or(true));
        (!stands).then_some("its entry in the XDP program is gone")
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer that lies: it has a connection, answers pings, acknowledges packets, and sends any
//! record.
//!
//! In: the address of an endpoint; records. Out: packets on a socket of its own. Caller: the
//! attacks. Bounds: [`RECEIVE_MAX`] packets a call, and the attempts of a handshake.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use anyhow::Context;
use ofi_xdp_core::wire::{Ack, Body, Flags, Packet, PacketKind, Token};
use ofi_xdp_core::{ChecksumCoverage, PeerId, Psn};
use ofi_xdp_test_kit::records::handshake;
use zerocopy::{FromZeros, IntoBytes};

use crate::attacks::Counts;
use crate::packets::{Head, hello};

/// Packets that are read in one call.
const RECEIVE_MAX: usize = 64;
/// The number of a liar's first packet.
const BASE: Psn = Psn(1000);
/// Requests that a liar permits: as many as one may. It answers none.
const CREDIT: u8 = 16;
/// Nanoseconds in a tick of the clock on the wire.
const TICK_NANOS: u128 = 64;

/// The parameters that the endpoint gave a liar.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    cid: PeerId,
    token: Token,
    /// The number of the endpoint's next packet. All acknowledgments name it.
    next: Psn,
}

/// A peer that lies.
#[derive(Debug)]
pub(crate) struct Liar {
    socket: UdpSocket,
    incarnation: u64,
    /// The epoch of the connection that it has, or proposes.
    epoch: u16,
    cookie: u64,
    start: Instant,
    agreed: Option<Agreed>,
    /// Whether the endpoint has ended the connection.
    ended: bool,
    /// The number of the next packet.
    psn: Psn,
}

impl AsFd for Liar {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Liar {
    /// A liar on a free port of `local`, which sends to `target`.
    pub(crate) fn new(
        local: Ipv4Addr,
        target: SocketAddrV4,
        incarnation: u64,
    ) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind((local, 0)).context("no socket for a liar")?;
        socket.connect(target)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            incarnation,
            epoch: 1,
            cookie: 0,
            start: Instant::now(),
            agreed: None,
            ended: false,
            psn: BASE,
        })
    }

    /// Whether the endpoint has agreed to a connection.
    pub(crate) const fn is_connected(&self) -> bool {
        self.agreed.is_some()
    }

    /// Whether the endpoint has ended the connection that it had agreed to.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Forgets the connection, and proposes the next one from now on.
    pub(crate) fn start_over(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        (self.agreed, self.ended, self.psn) = (None, false, BASE);
    }

    /// Says hello, with the last cookie that came.
    pub(crate) fn hello(&self, counts: &mut Counts) {
        let mut body = handshake(self.incarnation, self.epoch, PeerId::from_bits(1), BASE);
        body.cookie = self.cookie.into();
        self.send(&hello(&body, self.now()), counts);
    }

    /// Reads the packets of the endpoint: takes cookies and agreements, and answers pings and data
    /// by an acknowledgment of the packets in order. It does nothing that the data ask for.
    pub(crate) fn answer(&mut self, counts: &mut Counts) -> anyhow::Result<()> {
        let mut bytes = [0; 2048];
        for _ in 0..RECEIVE_MAX {
            let len = match self.socket.recv(&mut bytes) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // ICMP: the endpoint is gone.
                Err(error) => return Err(error).context("the endpoint does not receive"),
            };
            counts.received(len);
            let bytes = bytes.get(..len).unwrap_or_default();
            if let Ok(packet) = Packet::parse(bytes, ChecksumCoverage::Head, crc32c::crc32c_append)
            {
                self.process(&packet, counts);
            }
        }
        Ok(())
    }

    fn process(&mut self, packet: &Packet<'_>, counts: &mut Counts) {
        let header = packet.header;
        match (header.kind(), &packet.body) {
            (Some(PacketKind::Retry), Body::Handshake(body)) => {
                self.cookie = body.cookie.get();
                self.hello(counts);
            }
            (Some(PacketKind::HelloAck), Body::Handshake(body)) => {
                let high = u64::from(header.psn().0) << 32;
                self.agreed = Some(Agreed {
                    cid: PeerId::from_bits(body.src_cid.get()),
                    token: Token(high | u64::from(header.token())),
                    next: Psn(body.psn_base.get()),
                });
                self.control(PacketKind::Ping, &[], counts);
            }
            (Some(PacketKind::Data), _) => {
                if let Some(agreed) = self.agreed.as_mut().filter(|it| it.next == header.psn()) {
                    agreed.next = agreed.next.plus(1);
                }
                self.acknowledge(counts);
            }
            (Some(PacketKind::Ping), _) => self.acknowledge(counts),
            (Some(PacketKind::Reset | PacketKind::Close), _) => {
                // A late one is of an earlier connection, with another token.
                let is_present = |agreed: Agreed| agreed.token.0 as u32 == header.token();
                self.ended |= self.agreed.is_some_and(is_present);
            }
            _ => {}
        }
    }

    /// Acknowledges the packets that came in order.
    fn acknowledge(&self, counts: &mut Counts) {
        let mut body = Ack::new_zeroed();
        body.responder_credit = CREDIT;
        body.received = 1.into();
        self.control(PacketKind::Ack, body.as_bytes(), counts);
    }

    /// Sends records in a packet with the next number. Without a connection it does nothing.
    pub(crate) fn data(&mut self, records: &[u8], counts: &mut Counts) {
        let Some(head) = self.head(PacketKind::Data) else { return };
        self.psn = self.psn.plus(1);
        self.send(&head.packet(records), counts);
    }

    /// Leaves out a packet number, which never comes.
    pub(crate) fn skip(&mut self) {
        self.psn = self.psn.plus(1);
    }

    fn control(&self, kind: PacketKind, body: &[u8], counts: &mut Counts) {
        if let Some(head) = self.head(kind) {
            self.send(&head.packet(body), counts);
        }
    }

    fn head(&self, kind: PacketKind) -> Option<Head> {
        let Agreed { cid, token, next } = self.agreed?;
        let (psn, sent_at) = (self.psn, self.now());
        Some(Head { kind, flags: Flags::empty(), cid, token, psn, ack: next, sent_at })
    }

    /// The clock on the wire.
    fn now(&self) -> u32 {
        (self.start.elapsed().as_nanos() / TICK_NANOS) as u32
    }

    fn send(&self, packet: &[u8], counts: &mut Counts) {
        // A full buffer loses the packet, as a network may.
        if self.socket.send(packet).is_ok() {
            counts.sent(packet.len());
        }
    }
}

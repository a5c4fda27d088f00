// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets as an onlooker reads them, from `docs/PROTOCOL.md` §3 and nothing else.
//!
//! In: the bytes of a packet. Out: header fields and records. Independent of the engine's own
//! parser on purpose: an error in one of the two shows.

/// Kinds of packets (`docs/PROTOCOL.md` §3.4).
pub const ACK: u8 = 0x01;
/// First packet of a handshake.
pub const HELLO: u8 = 0x02;
/// Its answer.
pub const HELLO_ACK: u8 = 0x03;
/// "Again, with this cookie."
pub const RETRY: u8 = 0x04;
/// "I know no such connection."
pub const RESET: u8 = 0x05;
/// Asks for an acknowledgment.
pub const PING: u8 = 0x06;
/// "This connection ends."
pub const CLOSE: u8 = 0x07;
/// Probe of the path MTU.
pub const PROBE: u8 = 0x08;
/// Its answer.
pub const PROBE_ACK: u8 = 0x09;
/// A piece of a data packet.
pub const PIECE: u8 = 0x0a;
/// "Another source port, please."
pub const PORT_REQUEST: u8 = 0x0b;
/// Records.
pub const DATA: u8 = 0x10;

/// Flag: was sent before.
pub const RETRANSMISSION: u8 = 1 << 1;
/// Flag: after everything before it.
pub const BARRIER: u8 = 1 << 2;

/// Names of the kinds of records and the lengths of their headers.
const RECORDS: [(u8, &str, usize); 10] = [
    (0x10, "MESSAGE", 16),
    (0x11, "SEGMENT", 24),
    (0x12, "RTS", 32),
    (0x13, "RTS_FIN", 24),
    (0x20, "WRITE", 24),
    (0x30, "READ_REQUEST", 40),
    (0x31, "READ_RESPONSE", 24),
    (0x40, "ATOMIC_REQUEST", 32),
    (0x41, "ATOMIC_RESPONSE", 16),
    (0x50, "ERROR", 24),
];

/// The header of a packet.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields of docs/PROTOCOL.md §3.2")]
pub struct View<'a> {
    pub kind: u8,
    pub flags: u8,
    pub rnr_epoch: u8,
    pub dst_cid: u32,
    pub token: u32,
    pub psn: u32,
    pub ack_psn: u32,
    pub accepted_msn: u16,
    pub err_count: u8,
    pub receiver_status: u8,
    pub body: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

impl<'a> View<'a> {
    /// Reads a packet; `None` if it is too short for a header.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(32)?;
        Some(Self {
            kind: head[1],
            flags: head[2],
            rnr_epoch: head[3],
            dst_cid: u32_at(head, 4),
            token: u32_at(head, 8),
            psn: u32_at(head, 12),
            ack_psn: u32_at(head, 16),
            accepted_msn: u16::from_le_bytes([head[20], head[21]]),
            err_count: head[22],
            receiver_status: head[23],
            body,
        })
    }

    /// Whether the sender says that it is not ready to receive.
    #[must_use]
    pub const fn not_ready(&self) -> bool {
        self.receiver_status & 1 << 3 != 0
    }

    /// Whether it belongs to a connection.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        matches!(self.kind, ACK | PING | CLOSE | PROBE | PROBE_ACK | PIECE | PORT_REQUEST | DATA)
    }

    /// The place of a piece in the body of its packet, the length of that body, and its bytes.
    #[must_use]
    pub fn piece(&self) -> Option<(usize, usize, &'a [u8])> {
        let (head, bytes) = self.body.split_at_checked(8).filter(|_| self.kind == PIECE)?;
        let number = |at| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
        Some((number(0), number(2), bytes))
    }

    /// The records of a data packet.
    pub fn records(&self) -> impl Iterator<Item = RecordView<'a>> + use<'a> {
        let mut rest = if self.kind == DATA { self.body } else { &[] };
        std::iter::from_fn(move || {
            let (&kind, &flags) = (rest.first()?, rest.get(1)?);
            let &(_, name, header) = RECORDS.iter().find(|(number, ..)| *number == kind)?;
            let header = header + if flags & 2 != 0 { 8 } else { 0 };
            let len = usize::from(u16::from_le_bytes([*rest.get(2)?, *rest.get(3)?]));
            let whole = header + len.next_multiple_of(8);
            let (bytes, behind) = rest.split_at_checked(whole)?;
            rest = behind;
            Some(RecordView { kind, name, id: u32_at(bytes, 4), header, len, bytes })
        })
    }

    /// The selective acknowledgment's bitmap, as numbers.
    pub fn selective(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (fixed, words) = match self.kind {
            ACK => self.body.split_at_checked(24).unwrap_or_default(),
            _ => Default::default(),
        };
        let offset = u32_at(fixed, 12) >> 16;
        let first = self.ack_psn.wrapping_add(1 + 64 * offset);
        words.iter().zip(0u32..).flat_map(move |(&byte, index)| {
            (0..8)
                .filter(move |bit| byte & 1 << bit != 0)
                .map(move |bit| first.wrapping_add(index * 8 + bit))
        })
    }

    /// Name of the kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.kind {
            ACK => "ACK",
            HELLO => "HELLO",
            HELLO_ACK => "HELLO_ACK",
            RETRY => "RETRY",
            RESET => "RESET",
            PING => "PING",
            CLOSE => "CLOSE",
            PROBE => "PROBE",
            PROBE_ACK => "PROBE_ACK",
            PORT_REQUEST => "PORT_REQUEST",
            PIECE => "PIECE",
            DATA => "DATA",
            _ => "?",
        }
    }
}

/// A record of a packet.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// Its number.
    pub kind: u8,
    /// Its name.
    pub name: &'static str,
    /// Message or operation number.
    pub id: u32,
    /// Bytes of its header.
    pub header: usize,
    /// Bytes of its payload.
    pub len: usize,
    /// All of it.
    pub bytes: &'a [u8],
}

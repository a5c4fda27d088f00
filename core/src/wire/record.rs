// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: the contents of data packets (`docs/PROTOCOL.md` §3.5).
//!
//! A record is a header and the payload, padded with zeros to a multiple of 8 bytes. The header
//! begins with kind, flags and payload length. Small records share a packet. A segment of a long
//! message is alone in its packet: its payload begins at byte 56, and all full segments have one
//! length. Messages do not share a packet with records of other kinds, because only messages can be
//! superseded (`docs/PROTOCOL.md` §6.4).

use super::layout::RecordKind;
use super::message::{FinRecord, MessageRecord, RtsRecord, SegmentRecord};
use super::remote::{
    AtomicRequestRecord, ErrorRecord, ReadRequestRecord, ResponseRecord, WriteRecord,
};
use crate::api::limits::{RECORDS_MAX, WRITES_WITH_DATA_MAX};
use crate::api::matching::Envelope;
use crate::api::stats::DropReason;

/// One record of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// See [`RecordKind::Message`].
    Message(MessageRecord<'a>),
    /// See [`RecordKind::Segment`].
    Segment(SegmentRecord<'a>),
    /// See [`RecordKind::Rts`].
    Rts(RtsRecord),
    /// See [`RecordKind::Fin`].
    Fin(FinRecord),
    /// See [`RecordKind::Write`].
    Write(WriteRecord<'a>),
    /// See [`RecordKind::ReadRequest`].
    ReadRequest(ReadRequestRecord),
    /// See [`RecordKind::ReadResponse`] and [`RecordKind::AtomicResponse`].
    Response(ResponseRecord<'a>),
    /// See [`RecordKind::AtomicRequest`].
    AtomicRequest(AtomicRequestRecord<'a>),
    /// See [`RecordKind::Error`].
    Error(ErrorRecord),
}

impl Record<'_> {
    /// The envelope of the message that the record belongs to, if it belongs to one.
    #[must_use]
    pub const fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Message(message) => Some(&message.envelope),
            Self::Segment(segment) => Some(&segment.envelope),
            Self::Rts(rts) => Some(&rts.envelope),
            _ => None,
        }
    }

    /// Whether the record belongs to a message, which its receiver may discard and see again in a
    /// later attempt.
    #[must_use]
    pub const fn is_message(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Segment(_) | Self::Rts(_))
    }
}

/// The records of one packet, in order, with sums over all of them.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// Whether the records belong to messages: all of them or none.
    pub messages: bool,
    /// Requests that need a response.
    pub requests: u16,
    /// Writes with remote CQ data.
    pub events: u16,
    /// Last parts of writes, and last requests of reads that have several.
    pub endings: u16,
}

impl<'a> Records<'a> {
    /// Walks all records once; the iteration over the result cannot fail.
    ///
    /// # Errors [`DropReason::Malformed`]: a header or payload is cut off; a kind, flag or code is
    /// unknown; padding is not zero. A segment reaches beyond its message or is not alone. Messages
    /// share the packet with other records. There are too many records, or too many writes bring
    /// data.
    #[inline]
    pub(crate) fn check(body: &'a [u8]) -> Result<Self, DropReason> {
        let mut records = Self { rest: body, messages: false, requests: 0, events: 0, endings: 0 };
        let mut rest = body;
        let (mut count, mut messages, mut alone) = (0u16, 0u16, true);
        // bound: every record has at least 16 bytes
        while let Some(kind) = rest.first() {
            count += 1;
            if *kind == RecordKind::Message as u8 {
                // Nearly all records are messages or writes; nothing else is needed of these here.
                let (_, behind) = MessageRecord::split(rest).ok_or(DropReason::Malformed)?;
                messages += 1;
                rest = behind;
                continue;
            }
            if *kind == RecordKind::Write as u8 {
                let (write, behind) = WriteRecord::split(rest).ok_or(DropReason::Malformed)?;
                records.events += u16::from(write.data.is_some());
                records.endings += u16::from(write.last);
                rest = behind;
                continue;
            }
            let (record, behind) = split_record(rest).ok_or(DropReason::Malformed)?;
            match record {
                Record::Rts(_) | Record::Message(_) => messages += 1,
                Record::Segment(_) => {
                    messages += 1;
                    alone &= count == 1 && behind.is_empty();
                }
                Record::ReadRequest(read) => {
                    records.requests += 1;
                    records.endings += u16::from(read.last && read.offset > 0);
                }
                Record::AtomicRequest(atomic) => records.requests += u16::from(atomic.fetch),
                Record::Write(_) | Record::Response(_) | Record::Fin(_) | Record::Error(_) => {}
            }
            rest = behind;
        }
        records.messages = messages > 0;
        let unmixed = messages == 0 || messages == count;
        let few = usize::from(count) <= RECORDS_MAX
            && usize::from(records.events) <= WRITES_WITH_DATA_MAX;
        if alone && unmixed && few { Ok(records) } else { Err(DropReason::Malformed) }
    }
}

impl<'a> Records<'a> {
    /// Whether the next record is a whole message.
    #[inline(always)]
    pub(crate) fn starts_with_message(&self) -> bool {
        self.rest.first() == Some(&(RecordKind::Message as u8))
    }

    /// Takes whole messages off the front, while the next record is one and `takes` accepts it.
    #[inline(always)]
    pub(crate) fn take_messages(&mut self, mut takes: impl FnMut(&MessageRecord<'a>) -> bool) {
        let mut rest = self.rest;
        // bound: every record has at least 16 bytes
        while rest.first() == Some(&(RecordKind::Message as u8))
            && let Some((message, behind)) = MessageRecord::split_again(rest)
            && takes(&message)
        {
            rest = behind;
        }
        self.rest = rest;
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = if self.rest.first() == Some(&(RecordKind::Write as u8)) {
            let (write, rest) = WriteRecord::split_again(self.rest)?;
            (Record::Write(write), rest)
        } else {
            split_record(self.rest)?
        };
        self.rest = rest;
        Some(record)
    }
}

/// The first record of `bytes`, and the rest; `None` if there is no record or it is unsound.
fn split_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    const MESSAGE: u8 = RecordKind::Message as u8;
    const SEGMENT: u8 = RecordKind::Segment as u8;
    const RTS: u8 = RecordKind::Rts as u8;
    const FIN: u8 = RecordKind::Fin as u8;
    const WRITE: u8 = RecordKind::Write as u8;
    const READ_REQUEST: u8 = RecordKind::ReadRequest as u8;
    const READ_RESPONSE: u8 = RecordKind::ReadResponse as u8;
    const ATOMIC_REQUEST: u8 = RecordKind::AtomicRequest as u8;
    const ATOMIC_RESPONSE: u8 = RecordKind::AtomicResponse as u8;
    const ERROR: u8 = RecordKind::Error as u8;
    match *bytes.first()? {
        MESSAGE => MessageRecord::split(bytes).map(|(r, rest)| (Record::Message(r), rest)),
        SEGMENT => SegmentRecord::split(bytes).map(|(r, rest)| (Record::Segment(r), rest)),
        RTS => RtsRecord::split(bytes).map(|(r, rest)| (Record::Rts(r), rest)),
        FIN => FinRecord::split(bytes).map(|(r, rest)| (Record::Fin(r), rest)),
        WRITE => WriteRecord::split(bytes).map(|(r, rest)| (Record::Write(r), rest)),
        READ_REQUEST => {
            ReadRequestRecord::split(bytes).map(|(r, rest)| (Record::ReadRequest(r), rest))
        }
        READ_RESPONSE => {
            ResponseRecord::split_read(bytes).map(|(r, rest)| (Record::Response(r), rest))
        }
        ATOMIC_REQUEST => {
            AtomicRequestRecord::split(bytes).map(|(r, rest)| (Record::AtomicRequest(r), rest))
        }
        ATOMIC_RESPONSE => {
            ResponseRecord::split_atomic(bytes).map(|(r, rest)| (Record::Response(r), rest))
        }
        ERROR => ErrorRecord::split(bytes).map(|(r, rest)| (Record::Error(r), rest)),
        _ => None,
    }
}

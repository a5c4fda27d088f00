// SPDX-License-Identifier: MIT OR Apache-2.0
//! GSO batches: outgoing packets that the kernel takes in one piece and splits.
//!
//! In: packets, written one after another into one buffer. Out: batches of packets of one size to
//! one destination; a shorter packet ends its batch (udp(7), `UDP_SEGMENT`). Caller: the UDP port.
//! Bounds: [`BYTES`], [`BATCHES_MAX`], and [`BATCH_BYTES_MAX`] for one batch.
//!
//! A batch crosses a virtual link in one piece, and a peer with `AF_XDP` in generic mode receives
//! it so. Its XDP program recognises a batch by the length. A batch is longer than the peer's
//! socket takes, and goes to the peer's kernel socket. Therefore batches up to that length
//! ([`Transmit::receive_max`]) are sent packet by packet. A batch has one such length.

use std::io;

use ofi_xdp_core::{Destination, Transmit};

use super::memory::PagedBytes;

/// Bytes of all packets between two flushes: two batches of maximum length and one packet.
pub(super) const BYTES: usize = 2 * BATCH_BYTES_MAX + crate::config::PAYLOAD_MAX;
/// Maximum number of batches between two flushes.
pub(super) const BATCHES_MAX: usize = 64;
/// Maximum length of one batch: the payload that the 16-bit length of an IP packet leaves behind
/// the longest headers.
const BATCH_BYTES_MAX: usize = 65_535 - 48;
/// Maximum length of a short batch: three packets of Ethernet's MTU.
const SHORT_BYTES_MAX: usize = 4500;
/// Most packets of a short batch.
const SHORT_PACKETS_MAX: u16 = 4;
/// Packets that are sent one by one after the kernel refused a batch. If the next attempt fails
/// again, it costs a hundredth of these packets; if it succeeds, batches are back within
/// milliseconds.
const UNBATCHED_PACKETS: u16 = 1024;

/// Packets of one size to one destination; only the last may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GsoBatch {
    /// Destination of all packets.
    pub(super) to: Destination,
    /// Bytes of each packet but the last.
    pub(super) segment: usize,
    /// Number of packets.
    pub(super) count: u16,
    /// Longest datagram that the receiver takes for one packet, in bytes.
    receive_max: u16,
    start: usize,
    length: usize,
    /// Whether its packets leave by the kernel, whatever other path there is.
    stays: bool,
    /// Whether one of them has no other path. It may be the one for which the kernel checks a stale
    /// neighbour.
    pub(super) lacks_path: bool,
}

impl GsoBatch {
    /// Whether the batch may be sent in one piece.
    pub(super) fn uses_gso(&self) -> bool {
        self.count > 1 && self.length > usize::from(self.receive_max)
    }

    /// Whether the `AF_XDP` socket is the better path, if there is one. Where the kernel copies,
    /// frames are faster for up to three packets, and as fast for four short ones. Longer packets
    /// take several frames each, so there is a limit in bytes.
    fn is_short(&self) -> bool {
        let few = self.count <= SHORT_PACKETS_MAX && self.length <= SHORT_BYTES_MAX;
        few || !self.uses_gso()
    }

    /// The packets of `bytes`, which are the batch's. An empty packet is alone in its batch.
    pub(super) fn packets<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty: Option<&[u8]> = (self.segment == 0).then_some(&[]);
        bytes.chunks(self.segment.max(1)).chain(empty)
    }

    /// Removes the first packet, and returns its range of bytes.
    fn pop_front(&mut self) -> std::ops::Range<usize> {
        let first = self.start..self.start + self.segment.min(self.length);
        self.start = first.end;
        self.length -= first.len();
        self.count -= 1;
        first
    }
}

/// The batches between two flushes.
#[derive(Debug)]
pub(super) struct GsoBatches {
    bytes: PagedBytes,
    used: usize,
    batches: Vec<GsoBatch>,
    segments_max: u16,
    /// Packets to send one by one before the next batch.
    unbatched_left: u16,
}

impl GsoBatches {
    /// No batches yet; each takes at most `segments_max` packets.
    ///
    /// # Errors
    /// Without memory for them.
    pub(super) fn new(segments_max: usize) -> io::Result<Self> {
        Ok(Self {
            bytes: PagedBytes::new(BYTES)?,
            used: 0,
            batches: Vec::with_capacity(BATCHES_MAX),
            segments_max: u16::try_from(segments_max).unwrap_or(1),
            unbatched_left: 0,
        })
    }

    /// Sends the next [`UNBATCHED_PACKETS`] packets one by one, because the kernel refused a batch.
    /// The reason may be permanent (the device cannot split it) or last as long as the MTU or the
    /// route. Neither the error nor the socket tells which.
    #[cold]
    pub(super) const fn pause(&mut self) {
        self.unbatched_left = UNBATCHED_PACKETS;
    }

    /// Maximum number of packets of each batch.
    pub(super) const fn segments_max(&self) -> u16 {
        self.segments_max
    }

    /// Whether a packet of `len` bytes fits.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.used + len <= self.bytes.len() && self.batches.len() < BATCHES_MAX
    }

    /// Room for the next packet of `len` bytes.
    pub(super) fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.has_room(len) {
            return None;
        }
        self.bytes.get_mut(self.used..self.used + len)
    }

    /// Queues the packet that was written into [`Self::buffer`].
    pub(super) fn push(&mut self, transmit: Transmit) {
        let Transmit { len, to, receive_max } = transmit;
        if self.continues(transmit)
            && let Some(batch) = self.batches.last_mut()
        {
            batch.count += 1;
            batch.length += len;
        } else {
            let start = self.used;
            let batch = GsoBatch {
                to,
                segment: len,
                count: 1,
                receive_max,
                start,
                length: len,
                stays: false,
                lacks_path: false,
            };
            self.batches.push(batch);
        }
        self.unbatched_left = self.unbatched_left.saturating_sub(1);
        self.used += len;
    }

    /// Whether the packet belongs to the last batch. An empty one does not, as the bytes of a batch
    /// would not show it.
    pub(super) fn continues(&self, transmit: Transmit) -> bool {
        let Transmit { len, to, receive_max } = transmit;
        self.unbatched_left == 0
            && self.batches.last().is_some_and(|batch| {
                (batch.to, batch.receive_max) == (to, receive_max)
                    && (1..=batch.segment).contains(&len)
                    && batch.length == batch.segment * usize::from(batch.count)
                    && batch.count < self.segments_max
                    && batch.length + len <= BATCH_BYTES_MAX
            })
    }

    /// Makes the packet that was queued last leave by the kernel, and its batch with it.
    pub(super) fn keep_last(&mut self) {
        if let Some(batch) = self.batches.last_mut() {
            batch.stays = true;
            batch.lacks_path = true;
        }
    }

    /// Offers the packets of short batches to `take`, until it refuses one; taken packets leave
    /// their batch. Later packets to the destination of a batch that stays remain behind it. On the
    /// other path they would overtake it, and the receiver would see a gap.
    pub(super) fn reroute_short_batches(&mut self, mut take: impl FnMut(Transmit, &[u8]) -> bool) {
        let Self { batches, bytes, .. } = self;
        let (mut takes, mut some_stay) = (true, false);
        // bound: the batches, each compared with those before it if one of them stays
        for at in 0..batches.len() {
            let (earlier, rest) = batches.split_at_mut(at);
            let Some(batch) = rest.first_mut() else { break };
            batch.stays |= !batch.is_short();
            let follows = |other: &GsoBatch| other.stays && other.to == batch.to;
            batch.stays |= some_stay && earlier.iter().any(follows);
            some_stay |= batch.stays;
            // bound: its packets
            while takes && !batch.stays && batch.count > 0 {
                takes = Self::offer(bytes, batch, &mut take);
                batch.lacks_path |= !takes;
            }
        }
    }

    /// Offers the first packet of `batch`, and removes it if it was taken.
    fn offer(
        bytes: &[u8],
        batch: &mut GsoBatch,
        take: &mut impl FnMut(Transmit, &[u8]) -> bool,
    ) -> bool {
        let whole = *batch;
        let first = bytes.get(batch.pop_front()).unwrap_or(&[]);
        let GsoBatch { to, receive_max, .. } = whole;
        let taken = take(Transmit { len: first.len(), to, receive_max }, first);
        if !taken {
            *batch = whole;
        }
        taken
    }

    /// Whether no batch waits.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Hands each batch and its bytes to `send`, and empties the buffer.
    pub(super) fn drain(&mut self, mut send: impl FnMut(GsoBatch, &[u8])) {
        for batch in self.batches.iter().filter(|batch| batch.count > 0) {
            let bytes = self.bytes.get(batch.start..batch.start + batch.length);
            send(*batch, bytes.unwrap_or(&[]));
        }
        self.batches.clear();
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;

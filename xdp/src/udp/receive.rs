// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets on their way in: what the kernel joined is cut apart again.
//!
//! Buffers full of packets come in from one system call, packets go out one by one, over as many
//! calls as the budgets take. Bounds: [`BUFFERS`] buffers of [`BUFFER_BYTES`].

use std::array;
use std::io::IoSliceMut;

use ofi_xdp_core::{Datagram, PeerAddress};
use quinn_udp::{EcnCodepoint, RecvMeta};

/// Buffers that one system call fills.
pub(super) const BUFFERS: usize = 8;
/// The longest train that the kernel joins (`UDP_GRO`): one IP packet's payload.
const BUFFER_BYTES: usize = 65_536;

/// What one system call returned, and how much of it is delivered.
#[derive(Debug)]
pub(super) struct Received {
    bytes: Box<[u8]>,
    meta: [RecvMeta; BUFFERS],
    /// Buffers that hold something.
    filled: usize,
    /// Buffers that the next system call is offered: a look that finds nothing, or one packet, is
    /// cheaper with one.
    offered: usize,
    /// The buffer that is being delivered, and the offset of the next packet in it.
    at: (usize, usize),
}

impl Received {
    /// Nothing received.
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BUFFERS * BUFFER_BYTES].into_boxed_slice(),
            meta: [RecvMeta::default(); BUFFERS],
            filled: 0,
            offered: 1,
            at: (0, 0),
        }
    }

    /// Lets `fetch` fill the buffers; it returns how many it filled. Says whether there were any.
    /// To be called when everything is delivered.
    pub(super) fn fetch(
        &mut self,
        fetch: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> Option<usize>,
    ) -> bool {
        let mut chunks = self.bytes.chunks_exact_mut(BUFFER_BYTES);
        let mut buffers: [IoSliceMut<'_>; BUFFERS] =
            array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let offered = buffers.get_mut(..self.offered).unwrap_or_default();
        self.filled = fetch(offered, &mut self.meta).unwrap_or(0);
        self.at = (0, 0);
        // Where all were filled there may be more.
        self.offered = if self.filled == self.offered { BUFFERS } else { 1 };
        self.filled > 0
    }

    /// Hands at most `budget` packets to `sink`, and returns how many.
    pub(super) fn deliver(&mut self, budget: u16, sink: &mut impl FnMut(Datagram<'_>)) -> u16 {
        let mut count = 0;
        // bound: `budget` packets and `BUFFERS` buffers.
        while count < budget {
            let (index, offset) = self.at;
            let (Some(meta), true) = (self.meta.get(index), index < self.filled) else {
                break;
            };
            let start = index * BUFFER_BYTES;
            // Without a cmsg from the kernel the stride is the length; of an empty datagram both
            // are 0.
            let end = meta.len.min(offset + meta.stride.max(1));
            if let Some(bytes) = self.bytes.get(start + offset..start + end)
                && !bytes.is_empty()
            {
                sink(Datagram {
                    from: PeerAddress::from(meta.addr),
                    bytes,
                    congestion_experienced: meta.ecn == Some(EcnCodepoint::Ce),
                });
                count += 1;
            }
            self.at = if end >= meta.len { (index + 1, 0) } else { (index, end) };
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(len: usize, stride: usize, ecn: Option<EcnCodepoint>) -> RecvMeta {
        let mut meta = RecvMeta::default();
        meta.addr = "198.18.0.9:5".parse().unwrap();
        (meta.len, meta.stride, meta.ecn) = (len, stride, ecn);
        meta
    }

    fn filled() -> Received {
        let mut received = Received { offered: BUFFERS, ..Received::new() };
        let any = received.fetch(|buffers, metas| {
            for (number, buffer) in (1..).zip(buffers.iter_mut()) {
                buffer[..100].fill(number);
            }
            metas[0] = meta(100, 40, None);
            metas[1] = meta(0, 0, None);
            metas[2] = meta(33, 33, Some(EcnCodepoint::Ce));
            Some(3)
        });
        assert!(any);
        received
    }

    fn taken(received: &mut Received, budget: u16) -> Vec<(usize, u8, bool)> {
        let mut packets = Vec::new();
        let count = received.deliver(budget, &mut |datagram: Datagram<'_>| {
            assert_eq!(datagram.from, PeerAddress::from_v4([198, 18, 0, 9], 5));
            packets.push((
                datagram.bytes.len(),
                datagram.bytes[0],
                datagram.congestion_experienced,
            ));
        });
        assert_eq!(usize::from(count), packets.len());
        packets
    }

    #[test]
    fn trains_are_cut_and_empty_datagrams_are_left_out() {
        let expected = [(40, 1, false), (40, 1, false), (20, 1, false), (33, 3, true)];
        assert_eq!(taken(&mut filled(), 100), expected);
    }

    #[test]
    fn what_a_budget_leaves_comes_next_time() {
        let mut received = filled();
        assert_eq!(taken(&mut received, 2), [(40, 1, false), (40, 1, false)]);
        assert_eq!(taken(&mut received, 1), [(20, 1, false)]);
        assert_eq!(taken(&mut received, 5), [(33, 3, true)]);
        assert_eq!(taken(&mut received, 5), []);
    }

    #[test]
    fn more_buffers_are_offered_while_they_are_filled() {
        let mut received = Received::new();
        for (filled, offered) in [(0, 1), (1, 1), (1, BUFFERS), (1, 1), (BUFFERS, BUFFERS)] {
            received.fetch(|buffers, _| {
                assert_eq!(buffers.len(), offered);
                Some(filled)
            });
        }
    }

    #[test]
    fn an_error_is_no_packet() {
        let mut received = filled();
        assert!(!received.fetch(|_, _| None));
        assert_eq!(taken(&mut received, 5), []);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receiving by a kernel UDP socket: packets that the kernel joined (GRO) are split again.
//!
//! In: buffers full of packets from one system call. Out: single packets, over as many calls as the
//! budgets take. A poll that expects no packet or one is a `recvmsg(2)` ([`receive_one`]);
//! otherwise quinn-udp's `recvmmsg(2)` fills all buffers. Caller: the UDP port. Bounds: [`BUFFERS`]
//! buffers of [`BUFFER_BYTES`].

use std::array;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use ofi_xdp_core::{ChecksumCoverage, Datagram, PeerAddress, WantedPort};
use quinn_udp::{EcnCodepoint, RecvMeta};

use super::memory::PagedBytes;

/// Buffers that one system call fills.
pub(super) const BUFFERS: usize = 8;
/// Maximum length of a GRO batch (`UDP_GRO`): the payload of one IP packet.
const BUFFER_BYTES: usize = 65_536;

/// The result of one system call, and the position of delivery in it.
#[derive(Debug)]
pub(super) struct Received {
    bytes: PagedBytes,
    meta: [RecvMeta; BUFFERS],
    /// Number of buffers with packets.
    filled: usize,
    /// Whether empty packets are delivered. The engine has none.
    pub(super) delivers_empty: bool,
    /// Whether the packets were sent to a group.
    pub(super) to_group: bool,
    /// Room for the control messages of a packet.
    control: Vec<u8>,
    /// The buffer in delivery, and the offset of the next packet in it.
    at: (usize, usize),
}

impl Received {
    /// An empty result.
    ///
    /// # Errors
    /// Without memory for it.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            bytes: PagedBytes::new(BUFFERS * BUFFER_BYTES)?,
            meta: [RecvMeta::default(); BUFFERS],
            filled: 0,
            delivers_empty: false,
            to_group: false,
            control: cmsg_space!(i32, i32),
            at: (0, 0),
        })
    }

    /// Receives by `one` into the first buffer or, if `offer_all`, by `batch` into all of them;
    /// `batch` returns the number of filled buffers. Returns whether there were any packets. Sets
    /// `offer_all` for the next call: if all offered buffers were filled, there may be more
    /// packets. Call it when all packets are delivered.
    pub(super) fn fetch(
        &mut self,
        offer_all: &mut bool,
        one: impl FnOnce(&mut [u8], &mut [u8]) -> Option<RecvMeta>,
        batch: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> Option<usize>,
    ) -> bool {
        self.at = (0, 0);
        self.to_group = false;
        if *offer_all {
            let mut chunks = self.bytes.chunks_exact_mut(BUFFER_BYTES);
            let mut buffers: [IoSliceMut<'_>; BUFFERS] =
                array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            self.filled = batch(&mut buffers, &mut self.meta).unwrap_or(0);
            *offer_all = self.filled == BUFFERS;
        } else {
            let buffer = self.bytes.get_mut(..BUFFER_BYTES).unwrap_or_default();
            let meta = one(buffer, &mut self.control);
            self.filled = usize::from(meta.is_some());
            *offer_all = meta.is_some();
            if let (Some(meta), [first, ..]) = (meta, &mut self.meta) {
                *first = meta;
            }
        }
        self.filled > 0
    }

    /// Whether packets are left to deliver.
    pub(super) const fn is_left(&self) -> bool {
        self.at.0 < self.filled
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
            // Without a control message the stride is the length. Both are 0 for an empty datagram.
            let end = meta.len.min(offset + meta.stride.max(1));
            if let Some(bytes) = self.bytes.get(start + offset..start + end)
                && (self.delivers_empty || !bytes.is_empty())
            {
                sink(Datagram {
                    from: PeerAddress::from(meta.addr),
                    bytes,
                    congestion_experienced: meta.ecn == Some(EcnCodepoint::Ce),
                    wanted: WantedPort::KEEP,
                    to_group: self.to_group,
                    coverage: ChecksumCoverage::Head,
                });
                count += 1;
            }
            self.at = if end >= meta.len { (index + 1, 0) } else { (index, end) };
        }
        count
    }
}

/// One `recvmsg(2)`; `None` if there is no packet. Its control messages are those that quinn-udp
/// enabled: the ECN bits, and the length of joined packets (`UDP_GRO`, udp(7)).
pub(super) fn receive_one(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &mut [u8],
) -> Option<RecvMeta> {
    let mut into = [IoSliceMut::new(buffer)];
    // Errors other than EWOULDBLOCK concern packets sent before (ICMP) or a lack of memory. In each
    // case there is no packet.
    let received = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut into,
        Some(control),
        MsgFlags::MSG_DONTWAIT,
    )
    .ok()?;
    let mut meta = RecvMeta::default();
    (meta.len, meta.stride) = (received.bytes, received.bytes);
    meta.addr = source(received.address.as_ref()?)?;
    for message in received.cmsgs().into_iter().flatten() {
        match message {
            ControlMessageOwned::UdpGroSegments(len) => {
                meta.stride = usize::try_from(len).unwrap_or(meta.stride);
            }
            ControlMessageOwned::Ipv4Tos(class) => meta.ecn = EcnCodepoint::from_bits(class),
            ControlMessageOwned::Ipv6TClass(class) => {
                meta.ecn = EcnCodepoint::from_bits(class.to_le_bytes()[0]);
            }
            _ => {}
        }
    }
    Some(meta)
}

fn source(address: &SockaddrStorage) -> Option<SocketAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(SocketAddrV4::new(v4.ip(), v4.port()).into()),
        (_, Some(v6)) => {
            Some(SocketAddrV6::new(v6.ip(), v6.port(), v6.flowinfo(), v6.scope_id()).into())
        }
        _ => None,
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
        let mut received = Received::new().unwrap();
        let batch = |buffers: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]| {
            for (number, buffer) in (1..).zip(buffers.iter_mut()) {
                buffer[..100].fill(number);
            }
            metas[0] = meta(100, 40, None);
            metas[1] = meta(0, 0, None);
            metas[2] = meta(33, 33, Some(EcnCodepoint::Ce));
            Some(3)
        };
        assert!(received.fetch(&mut true, |_, _| unreachable!(), batch));
        received
    }

    fn taken(received: &mut Received, budget: u16) -> Vec<(usize, u8, bool)> {
        let mut packets = Vec::new();
        let count = received.deliver(budget, &mut |datagram: Datagram<'_>| {
            assert_eq!(datagram.from, PeerAddress::from_v4([198, 18, 0, 9], 5));
            packets.push((
                datagram.bytes.len(),
                datagram.bytes.first().copied().unwrap_or(0xff),
                datagram.congestion_experienced,
            ));
        });
        assert_eq!(usize::from(count), packets.len());
        packets
    }

    #[test]
    fn gso_batches_are_split_and_empty_datagrams_are_left_out() {
        let expected = [(40, 1, false), (40, 1, false), (20, 1, false), (33, 3, true)];
        assert_eq!(taken(&mut filled(), 100), expected);
    }

    #[test]
    fn empty_datagrams_are_delivered_on_request() {
        let mut received = filled();
        received.delivers_empty = true;
        let lengths: Vec<_> = taken(&mut received, 100).iter().map(|packet| packet.0).collect();
        assert_eq!(lengths, [40, 40, 20, 0, 33]);
    }

    #[test]
    fn packets_beyond_the_budget_come_next_time() {
        let mut received = filled();
        assert_eq!(taken(&mut received, 2), [(40, 1, false), (40, 1, false)]);
        assert_eq!(taken(&mut received, 1), [(20, 1, false)]);
        assert!(received.is_left());
        assert_eq!(taken(&mut received, 5), [(33, 3, true)]);
        assert!(!received.is_left());
        assert_eq!(taken(&mut received, 5), []);
    }

    #[test]
    fn all_buffers_are_offered_while_there_may_be_more() {
        let packet = || Some(meta(100, 100, None));
        let steps = [(false, 0), (false, 1), (true, 1), (false, 1), (true, BUFFERS), (true, 0)];
        let (mut received, mut all_next) = (Received::new().unwrap(), false);
        for (step, (all, filled)) in steps.into_iter().enumerate() {
            let mut offered_all = false;
            let any = received.fetch(
                &mut all_next,
                |_, _| packet().filter(|_| filled > 0),
                |buffers, _| {
                    offered_all = buffers.len() == BUFFERS;
                    Some(filled)
                },
            );
            assert_eq!((any, offered_all), (filled > 0, all), "step {step}");
        }
        assert!(!all_next);
    }

    #[test]
    fn an_error_is_no_packet() {
        for batch in [false, true] {
            let (mut received, mut batch) = (filled(), batch);
            assert!(!received.fetch(&mut batch, |_, _| None, |_, _| None));
            assert!(!received.is_left());
            assert_eq!(taken(&mut received, 5), []);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two messages between a client and the broker.
//!
//! Typed values come in and go out; in between they are the bytes of a local socket, in this
//! machine's byte order. Whatever the bytes are, a [`Request`] is either refused or within bounds.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::config::Queues;
use crate::facts::XskMode;
use crate::grant::Wish;
use crate::umem::Layout;

/// "XDPB", and the version of the messages.
const MAGIC: u64 = 0x5844_5042_0000_0002;
/// Bytes of a refusal's reason.
const TEXT_BYTES: usize = 228;

/// Bytes of a [`Request`].
pub const REQUEST_BYTES: usize = size_of::<RawRequest>();
/// Bytes of a [`Reply`].
pub const REPLY_BYTES: usize = size_of::<RawReply>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRequest {
    magic: u64,
    interface: u32,
    first: u32,
    last: u32,
    mode: u32,
    rx: u32,
    tx: u32,
    headroom: u32,
    longest: u32,
    steer: u32,
    unused: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawReply {
    magic: u64,
    status: u32,
    queue: u32,
    mode: u32,
    text_len: u32,
    text: [u8; TEXT_BYTES],
    multi_buffer: u32,
}

/// What a client wants. The address comes with it: that of the kernel socket that is passed along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request(pub Wish);

impl Request {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let Wish { interface, queues, mode, layout, longest, steer } = self.0;
        zerocopy::transmute!(RawRequest {
            magic: MAGIC,
            interface,
            first: queues.first,
            last: queues.last,
            mode: mode_number(mode),
            rx: layout.sizes.rx.get(),
            tx: layout.sizes.tx.get(),
            headroom: layout.headroom,
            longest,
            steer: steer.into(),
            unused: 0,
        })
    }

    /// The request that `bytes` are; `None` if they are none. Sizes are made to fit.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawRequest::read_from_bytes(bytes).ok()?;
        if raw.magic != MAGIC {
            return None;
        }
        Some(Self(Wish {
            interface: raw.interface,
            queues: Queues { first: raw.first, last: raw.last },
            mode: mode(raw.mode)?,
            layout: Layout::requested(raw.rx, raw.tx, raw.headroom),
            longest: raw.longest,
            steer: raw.steer != 0,
        }))
    }
}

/// What became of a [`Request`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The descriptors are along.
    Granted {
        /// The queue that the socket is bound to.
        queue: u32,
        /// How frames move.
        mode: XskMode,
        /// Whether a packet may take several of them.
        multi_buffer: bool,
    },
    /// Every queue that may be had is taken at the moment. Another try may follow.
    Busy,
    /// It cannot or may not be.
    Refused,
}

/// The broker's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What became of the request.
    pub status: Status,
    /// Why not, for people; of what was granted, why packets are not steered.
    pub reason: String,
}

impl Reply {
    const GRANTED: u32 = 0;
    const BUSY: u32 = 1;
    const REFUSED: u32 = 2;

    /// Its bytes; a long reason is cut.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REPLY_BYTES] {
        let mut raw = RawReply::new_zeroed();
        raw.magic = MAGIC;
        raw.status = match self.status {
            Status::Granted { queue, mode, multi_buffer } => {
                (raw.queue, raw.mode) = (queue, mode_number(mode));
                raw.multi_buffer = multi_buffer.into();
                Self::GRANTED
            }
            Status::Busy => Self::BUSY,
            Status::Refused => Self::REFUSED,
        };
        let len = self.reason.floor_char_boundary(TEXT_BYTES);
        for (to, from) in raw.text.iter_mut().zip(self.reason.as_bytes().iter().take(len)) {
            *to = *from;
        }
        raw.text_len = u32::try_from(len).unwrap_or_default();
        zerocopy::transmute!(raw)
    }

    /// The reply that `bytes` are; `None` if they are none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawReply::read_from_bytes(bytes).ok()?;
        if raw.magic != MAGIC {
            return None;
        }
        let status = match raw.status {
            Self::GRANTED => Status::Granted {
                queue: raw.queue,
                mode: mode(raw.mode)?,
                multi_buffer: raw.multi_buffer != 0,
            },
            Self::BUSY => Status::Busy,
            Self::REFUSED => Status::Refused,
            _ => return None,
        };
        let text = raw.text.get(..usize::try_from(raw.text_len).ok()?)?;
        Some(Self { status, reason: String::from_utf8_lossy(text).into_owned() })
    }
}

const fn mode_number(mode: XskMode) -> u32 {
    match mode {
        XskMode::Zerocopy => 0,
        XskMode::Copy => 1,
        XskMode::Skb => 2,
    }
}

const fn mode(number: u32) -> Option<XskMode> {
    match number {
        0 => Some(XskMode::Zerocopy),
        1 => Some(XskMode::Copy),
        2 => Some(XskMode::Skb),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RingSizes;
    use proptest::prelude::*;

    #[test]
    fn requests_come_back() {
        for (queue, mode) in
            [(None, XskMode::Skb), (Some(0), XskMode::Copy), (Some(7), XskMode::Zerocopy)]
        {
            let layout = Layout::new(RingSizes::default(), 42);
            let queues = Queues::one_or_any(queue);
            let steer = queue.is_some();
            let wish = Wish { interface: 3, queues, mode, layout, longest: 9014, steer };
            let request = Request(wish);
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
    }

    #[test]
    fn replies_come_back_and_long_reasons_are_cut() {
        let granted = Status::Granted { queue: 3, mode: XskMode::Skb, multi_buffer: true };
        for status in [granted, Status::Busy, Status::Refused] {
            let reply = Reply { status, reason: "user nobody may not".to_owned() };
            assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
        }
        let reply = Reply { status: Status::Refused, reason: "ü".repeat(300) };
        let cut = Reply::from_bytes(&reply.to_bytes()).unwrap().reason;
        assert_eq!(cut, "ü".repeat(TEXT_BYTES / 2));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Request::from_bytes(&bytes).is_none());
            prop_assert!(Reply::from_bytes(&bytes).is_none());
        }

        #[test]
        fn what_passes_for_a_request_is_within_bounds(
            words in proptest::array::uniform10(any::<u32>()),
        ) {
            let mut bytes = MAGIC.to_ne_bytes().to_vec();
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            match Request::from_bytes(&bytes) {
                Some(Request(wish)) => {
                    prop_assert!(words[3] < 3);
                    prop_assert!(wish.layout.bytes() <= 2 * 32_768 * 4096);
                }
                None => prop_assert!(words[3] >= 3),
            }
        }
    }
}

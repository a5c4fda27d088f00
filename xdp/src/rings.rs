// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four rings of an `AF_XDP` socket: the only caller of xsk-rs's unsafe ring operations.
//!
//! [`Frame`]s come in and go out, never descriptors: a frame given to a ring is moved there, a
//! frame taken from a ring is one that was given. `xsk_port.rs` calls. Bounds: [`BATCH`] frames a
//! call.
//!
//! ```text
//!            receiving                                 sending
//!   refill ──▶ fill ring ──▶ kernel           send ──▶ tx ring ──▶ kernel
//!   receive ◀── rx ring ◀────┘                reclaim ◀── completion ring ◀─┘
//! ```

#![allow(unsafe_code)]

use std::error::Error as StdError;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use xsk_rs::config::{BindFlags, Interface, LibxdpFlags, QueueSize, SocketConfig};
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue};

use crate::config::RingSizes;
use crate::facts::XskMode;
use crate::frame::Frame;
use crate::stats::KernelStats;
use crate::umem::FrameMemory;

/// Most frames that one call moves.
pub(crate) const BATCH: usize = 64;

/// Of a descriptor: the packet goes on in the next one (`linux/if_xdp.h`).
const XDP_PKT_CONTD: u32 = 1;

/// Why there are no rings.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}{advice}")]
pub struct RingsError {
    what: &'static str,
    source: io::Error,
    advice: String,
}

impl RingsError {
    /// A configuration that xsk-rs refuses.
    pub(crate) fn config(error: impl StdError + Send + Sync + 'static) -> Self {
        Self {
            what: "configure the AF_XDP socket",
            source: io::Error::other(error),
            advice: String::new(),
        }
    }

    /// The system call behind `error` failed while doing `what`.
    pub(crate) fn os(what: &'static str, error: impl StdError + Send + Sync + 'static) -> Self {
        let source = match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
            Some(source) => source
                .raw_os_error()
                .map_or_else(|| source.kind().into(), io::Error::from_raw_os_error),
            None => io::Error::other(error),
        };
        Self { what, source, advice: String::new() }
    }

    /// The same, with `advice` if the operating system said `errno`.
    pub(crate) fn with_advice(mut self, errno: Errno, advice: &str) -> Self {
        if self.raw_os_error() == Some(errno as i32) {
            self.advice = format!("; {advice}");
        }
        self
    }

    /// What the operating system said.
    pub(crate) fn raw_os_error(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// The rings, and scratch space for the descriptors of one batch.
#[derive(Debug)]
pub(crate) struct Rings {
    fill: FillQueue,
    rx: RxQueue,
    tx: TxQueue,
    completion: CompQueue,
    tx_size: u32,
    scratch: Box<[FrameDesc; BATCH]>,
}

impl Rings {
    /// Makes a socket on `memory`, and binds it to `queue` of `interface` in the calling thread's
    /// network namespace; with `multi_buffer`, for packets in several frames.
    pub(crate) fn bind(
        memory: &FrameMemory,
        interface: &str,
        queue: u32,
        mode: XskMode,
        multi_buffer: bool,
        sizes: RingSizes,
    ) -> Result<Self, RingsError> {
        const WHAT: &str = "bind the AF_XDP socket";
        let copy = match mode {
            XskMode::Zerocopy => BindFlags::XDP_ZEROCOPY,
            XskMode::Copy | XskMode::Skb => BindFlags::XDP_COPY,
        };
        let segments = if multi_buffer { BindFlags::XDP_USE_SG } else { BindFlags::empty() };
        let size = |size| QueueSize::new(size).map_err(RingsError::config);
        let config = SocketConfig::builder()
            .rx_queue_size(size(sizes.rx.get())?)
            .tx_queue_size(size(sizes.tx.get())?)
            // The program is ours (`ofi-xdp-bpf`); libxdp's would take all traffic of the queue.
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(copy | segments | BindFlags::XDP_USE_NEED_WAKEUP)
            .build();
        let interface: Interface = interface.parse().map_err(RingsError::config)?;
        // SAFETY: the rings of a socket may not be used after its UMEM is gone; xsk-rs's queues
        // each hold a handle of the UMEM, and they are all that leaves this function.
        let made = unsafe { Socket::new(config, memory.umem(), &interface, queue) };
        let (tx, rx, pair) = made.map_err(|error| {
            let error = RingsError::os(WHAT, error);
            error.with_advice(Errno::EBUSY, "another AF_XDP socket has this queue")
        })?;
        let (fill, completion) = pair.ok_or_else(|| RingsError {
            what: WHAT,
            source: io::Error::other("the UMEM already had a socket"),
            advice: String::new(),
        })?;
        let scratch = Box::new([FrameDesc::default(); BATCH]);
        Ok(Self { fill, rx, tx, completion, tx_size: sizes.tx.get(), scratch })
    }

    /// Takes received frames, at most `limit` and at most [`BATCH`], and appends them to `frames`.
    #[inline]
    pub(crate) fn receive(&mut self, limit: usize, frames: &mut Vec<Frame>) -> usize {
        let Some(scratch) = self.scratch.get_mut(..limit.min(BATCH)) else {
            return 0;
        };
        // SAFETY: the descriptors are written, not read, and become `Frame`s below: each is of this
        // socket's UMEM, and its frame was moved into the fill ring by `refill`.
        let count = unsafe { self.rx.consume(scratch) };
        frames.extend(scratch.iter().take(count).copied().map(Frame));
        count
    }

    /// Gives all of `frames` back to the kernel to receive into; those that find no room stay.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut Vec<Frame>) {
        // bound: each round moves a full batch or ends.
        while !frames.is_empty() {
            let keep = frames.len().saturating_sub(BATCH);
            let count = (frames.len() - keep).min(BATCH);
            for (descriptor, frame) in self.scratch.iter_mut().zip(frames.iter().skip(keep)) {
                *descriptor = frame.0;
            }
            // SAFETY: the frames are of this socket's UMEM, and the tokens of those that went in
            // are dropped right here, so nobody touches them until `receive` makes tokens again.
            let moved = unsafe { self.fill.produce(self.scratch.get(..count).unwrap_or(&[])) };
            // The ring takes all or nothing, and has room for every rx frame there is.
            if moved < count {
                return;
            }
            frames.truncate(keep);
        }
    }

    /// Gives one frame to the kernel to send; gives it back when the ring is full.
    #[inline]
    pub(crate) fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        // SAFETY: the frame is of this socket's UMEM, and its token ends here if it went in, so
        // nobody touches it until `reclaim` makes a token again.
        let count = unsafe { self.tx.produce_one(&frame.0) };
        if count == 0 { Err(frame) } else { Ok(()) }
    }

    /// Gives the frames of one packet to the kernel to send, all of them or none; says which.
    pub(crate) fn send_packet(&mut self, frames: &mut Vec<Frame>) -> bool {
        let last = frames.len().saturating_sub(1);
        let Some(scratch) = self.scratch.get_mut(..frames.len()) else {
            return false;
        };
        for (number, (descriptor, frame)) in scratch.iter_mut().zip(&*frames).enumerate() {
            *descriptor = frame.0;
            descriptor.set_options(if number < last { XDP_PKT_CONTD } else { 0 });
        }
        // SAFETY: the frames are of this socket's UMEM, and the tokens of those that went in are
        // dropped right here, so nobody touches them until `reclaim` makes tokens again.
        let count = unsafe { self.tx.produce(scratch) };
        let sent = count == frames.len();
        if sent {
            frames.clear();
        }
        sent
    }

    /// Takes frames that were sent, at most [`BATCH`], and appends them to `frames`.
    #[inline]
    pub(crate) fn reclaim(&mut self, frames: &mut Vec<Frame>) -> usize {
        // SAFETY: the descriptors are written, not read, and become `Frame`s below: each is of this
        // socket's UMEM, and its frame was moved into the tx ring by `send`.
        let count = unsafe { self.completion.consume(&mut *self.scratch) };
        frames.extend(self.scratch.iter().take(count).copied().map(Frame));
        count
    }

    /// Wakes the kernel's receive side if it says that it sleeps.
    #[inline]
    pub(crate) fn wake_rx(&mut self) -> io::Result<()> {
        if self.fill.needs_wakeup() {
            self.fill.wakeup(self.rx.fd_mut(), 0)?;
        }
        Ok(())
    }

    /// Wakes the kernel's transmit side if it says that it sleeps; says whether that was needed.
    #[inline]
    pub(crate) fn wake_tx(&mut self) -> io::Result<bool> {
        if !self.tx.needs_wakeup() {
            return Ok(false);
        }
        self.tx.wakeup()?;
        Ok(true)
    }

    /// Frames in the tx ring that the kernel has not taken yet.
    #[inline]
    pub(crate) fn untaken(&mut self) -> u32 {
        self.tx_size - self.tx.nb_free_exact().min(self.tx_size)
    }

    /// The socket, as long as the rings live.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        let fd = self.rx.fd().as_raw_fd();
        // SAFETY: xsk-rs closes the socket when the last of its queues drops; `self.rx` is one, and
        // it outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// What the kernel counted; of zero-copy it says nothing here.
    pub(crate) fn kernel_stats(&self) -> io::Result<KernelStats> {
        let kernel = self.rx.fd().xdp_statistics()?;
        Ok(KernelStats {
            zerocopy: None,
            rx_ring_full: kernel.rx_ring_full(),
            fill_ring_empty: kernel.rx_fill_ring_empty_descs(),
            rx_dropped: kernel.rx_dropped(),
            rx_invalid: kernel.rx_invalid_descs(),
            tx_invalid: kernel.tx_invalid_descs(),
        })
    }
}

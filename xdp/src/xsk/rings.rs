// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four rings of an `AF_XDP` socket.
//!
//! In: [`UmemChunk`]s, which move into a ring. Out: the same chunks, which move out of a ring;
//! never plain descriptors. Callers: the `AF_XDP` port, the transmit test. Bound: [`BATCH`] frames
//! a call.
//!
//! ```text
//!            receiving                                 sending
//!   refill ──▶ fill ring ──▶ kernel           send ──▶ tx ring ──▶ kernel
//!   receive ◀── rx ring ◀────┘                reclaim ◀── completion ring ◀─┘
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{xdp_mmap_offsets, xdp_options, xdp_statistics};
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpDesc, XdpDescOptions, XdpOptionsFlags,
};
use rustix::net::{SendFlags, send};

use super::ring::{Consumer, Producer, SharedRing};
use super::umem::UmemChunk;
use crate::config::RingSizes;
use crate::fork::Uninherited;
use crate::stats::KernelStats;

/// Maximum number of frames that one call moves.
pub(crate) const BATCH: usize = 64;

/// The rings of one socket.
#[derive(Debug)]
pub(crate) struct Rings {
    fill: Producer<u64>,
    rx: Consumer<XdpDesc>,
    tx: Producer<XdpDesc>,
    completion: Consumer<u64>,
    /// In front of its descriptor, as the fields are dropped in this order.
    _uninherited: Uninherited,
    socket: OwnedFd,
}

impl Rings {
    /// Maps the rings of `socket`, which have `sizes`.
    pub(crate) fn map(socket: OwnedFd, sizes: RingSizes) -> io::Result<Self> {
        let offsets = xdp_mmap_offsets(&socket)?;
        let (rx, tx) = (sizes.rx.get(), sizes.tx.get());
        let fd = socket.as_fd();
        Ok(Self {
            fill: Producer::new(SharedRing::map(fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, rx)?),
            rx: Consumer::new(SharedRing::map(fd, XDP_PGOFF_RX_RING, &offsets.rx, rx)?),
            tx: Producer::new(SharedRing::map(fd, XDP_PGOFF_TX_RING, &offsets.tx, tx)?),
            completion: Consumer::new(SharedRing::map(
                fd,
                XDP_UMEM_PGOFF_COMPLETION_RING,
                &offsets.cr,
                tx,
            )?),
            _uninherited: Uninherited::new(&socket),
            socket,
        })
    }

    /// Takes at most `limit` and at most [`BATCH`] received frames, and appends them to `frames`.
    #[inline]
    pub(crate) fn receive(&mut self, limit: usize, frames: &mut Vec<UmemChunk>) -> usize {
        self.rx.take(limit.min(BATCH), |descriptor| frames.push(UmemChunk(descriptor)))
    }

    /// Whether there are received frames.
    #[inline]
    pub(crate) fn has_received(&self) -> bool {
        self.rx.has_entries()
    }

    /// Number of received frames that the last [`Self::receive`] left.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.rx.waiting()
    }

    /// Returns `frames` to the kernel for receiving, the last ones first, until `keep` are left.
    /// Frames without room in the ring stay.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut Vec<UmemChunk>, keep: usize) {
        if frames.len() <= keep {
            return;
        }
        // The ring has room for all rx frames.
        while frames.len() > keep
            && self.fill.has_room(1)
            && let Some(frame) = frames.pop()
        {
            self.fill.push(frame.0.addr);
        }
        self.fill.publish();
    }

    /// Gives one frame to the kernel to send. Returns it if the ring is full.
    #[inline]
    pub(crate) fn send(&mut self, frame: UmemChunk) -> Result<(), UmemChunk> {
        if !self.tx.has_room(1) {
            return Err(frame);
        }
        self.tx.push(frame.0);
        self.tx.publish();
        Ok(())
    }

    /// Gives the frames of one packet to the kernel to send, all or none; returns whether it did.
    pub(crate) fn send_packet(&mut self, frames: &mut Vec<UmemChunk>) -> bool {
        let Ok(count) = u32::try_from(frames.len()) else { return false };
        if !self.tx.has_room(count) {
            return false;
        }
        for (number, frame) in (1..).zip(frames.drain(..)) {
            let more = if number < count {
                XdpDescOptions::XDP_PKT_CONTD
            } else {
                XdpDescOptions::empty()
            };
            self.tx.push(XdpDesc { options: more, ..frame.0 });
        }
        self.tx.publish();
        true
    }

    /// Takes at most [`BATCH`] sent frames, and appends them to `frames`.
    #[inline]
    pub(crate) fn reclaim(&mut self, frames: &mut Vec<UmemChunk>) -> usize {
        self.completion.take(BATCH, |addr| {
            frames.push(UmemChunk(XdpDesc { addr, len: 0, options: XdpDescOptions::empty() }));
        })
    }

    /// Whether the kernel's receive side sleeps.
    #[inline]
    pub(crate) fn must_wake_rx(&self) -> bool {
        self.fill.needs_wakeup()
    }

    /// Wakes the kernel's receive side if it sleeps.
    #[inline]
    pub(crate) fn wake_rx(&mut self) -> io::Result<()> {
        if self.must_wake_rx() {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            passing(poll(&mut fds, Some(&Timespec::default())))?;
        }
        Ok(())
    }

    /// Wakes the kernel's transmit side if it sleeps; returns whether it did.
    ///
    /// A driver that clears the flag (mlx5, zero-copy) may set it at the moment when frames are
    /// published. Then the driver misses the frames and this function misses the flag. The frames
    /// wait for the next burst, at the latest for the engine's timers. A fence here does not
    /// prevent this race. It needs a fence on each side. The kernel has none between its flag and
    /// its read of the ring (`xsk_set_tx_need_wakeup`, net/xdp/xsk.c; `mlx5e_napi_xsk_post`).
    /// libxdp has none either.
    #[inline]
    pub(crate) fn wake_tx(&mut self) -> io::Result<bool> {
        if !self.tx.needs_wakeup() {
            return Ok(false);
        }
        passing(send(&self.socket, &[], SendFlags::DONTWAIT))?;
        Ok(true)
    }

    /// Frames in the tx ring that the kernel has not taken yet.
    #[inline]
    pub(crate) fn untaken(&self) -> u32 {
        self.tx.untaken()
    }

    /// The socket.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the kernel moves the frames of this socket without copying them (`XDP_OPTIONS`).
    ///
    /// # Errors
    /// Those of `getsockopt(2)`; kernels before Linux 5.3 do not know the option.
    pub(crate) fn is_zerocopy(&self) -> io::Result<bool> {
        is_zerocopy(self.fd())
    }

    /// The kernel's counters of this socket, and whether it copies. Two system calls. Counters that
    /// the kernel does not know (before Linux 5.9) are 0.
    pub(crate) fn kernel_stats(&self) -> io::Result<KernelStats> {
        let kernel = xdp_statistics(&self.socket)?;
        Ok(KernelStats {
            zerocopy: self.is_zerocopy().ok(),
            rx_ring_full: kernel.rx_ring_full.unwrap_or(0),
            fill_ring_empty: kernel.rx_fill_ring_empty_descs.unwrap_or(0),
            rx_dropped: kernel.rx_dropped,
            rx_invalid: kernel.rx_invalid_descs,
            tx_invalid: kernel.tx_invalid_descs,
        })
    }
}

/// Whether the kernel moves the frames of a bound socket without copying them (`XDP_OPTIONS`).
fn is_zerocopy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(xdp_options(socket)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
}

/// The result of a wake-up, without transient errors. The frames stay in the ring, and the next
/// call tries again.
#[inline]
fn passing<T>(woken: Result<T, rustix::io::Errno>) -> io::Result<()> {
    use rustix::io::Errno as E;
    match woken {
        // The device's queue is full, or the device is going down.
        Err(E::NOBUFS | E::AGAIN | E::BUSY | E::NETDOWN) => Ok(()),
        // A pending signal ends even a poll without a timeout. The kernel has polled the socket
        // before (`do_poll`, fs/select.c), so it is awake.
        Err(E::INTR) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno as E;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_of_another_family_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = is_zerocopy(socket.as_fd()).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }

    #[test]
    fn a_signal_or_a_full_queue_ends_no_socket() {
        for errno in [E::INTR, E::NOBUFS, E::AGAIN, E::BUSY, E::NETDOWN] {
            assert!(passing::<()>(Err(errno)).is_ok(), "{errno}");
        }
        for errno in [E::NXIO, E::NODEV, E::BADF] {
            let error = passing::<()>(Err(errno)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
        assert!(passing(Ok(1)).is_ok());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four rings of an `AF_XDP` socket.
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

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{xdp_mmap_offsets, xdp_statistics};
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpDesc, XdpDescOptions,
};
use rustix::net::{SendFlags, send};

use crate::config::RingSizes;
use crate::frame::Frame;
use crate::ring::{Consumer, Producer};
use crate::stats::KernelStats;

/// Most frames that one call moves.
pub(crate) const BATCH: usize = 64;

/// Why there are no rings.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}{advice}")]
pub struct RingsError {
    what: &'static str,
    source: io::Error,
    advice: String,
}

impl RingsError {
    /// The system call failed while doing `what`.
    pub(crate) const fn os(what: &'static str, source: io::Error) -> Self {
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
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// The rings of one socket.
#[derive(Debug)]
pub(crate) struct Rings {
    fill: Producer<u64>,
    rx: Consumer<XdpDesc>,
    tx: Producer<XdpDesc>,
    completion: Consumer<u64>,
    socket: OwnedFd,
}

impl Rings {
    /// Maps the rings of `socket`, which were given `sizes`.
    pub(crate) fn map(socket: OwnedFd, sizes: RingSizes) -> io::Result<Self> {
        let offsets = xdp_mmap_offsets(&socket)?;
        let (rx, tx) = (sizes.rx.get(), sizes.tx.get());
        let fd = socket.as_fd();
        Ok(Self {
            fill: Producer::map(fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, rx)?,
            rx: Consumer::map(fd, XDP_PGOFF_RX_RING, &offsets.rx, rx)?,
            tx: Producer::map(fd, XDP_PGOFF_TX_RING, &offsets.tx, tx)?,
            completion: Consumer::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, tx)?,
            socket,
        })
    }

    /// Takes received frames, at most `limit` and at most [`BATCH`], and appends them to `frames`.
    #[inline]
    pub(crate) fn receive(&mut self, limit: usize, frames: &mut Vec<Frame>) -> usize {
        self.rx.take(limit.min(BATCH), |descriptor| frames.push(Frame(descriptor)))
    }

    /// Packets' frames that were there at the last [`Self::receive`], and were not taken.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.rx.waiting()
    }

    /// Gives `frames` back to the kernel to receive into, the last ones first, until `keep` are
    /// left; those that find no room stay.
    #[inline]
    pub(crate) fn refill(&mut self, frames: &mut Vec<Frame>, keep: usize) {
        if frames.len() <= keep {
            return;
        }
        // The ring has room for every rx frame there is.
        while frames.len() > keep
            && self.fill.has_room(1)
            && let Some(frame) = frames.pop()
        {
            self.fill.push(frame.0.addr);
        }
        self.fill.publish();
    }

    /// Gives one frame to the kernel to send; gives it back when the ring is full.
    #[inline]
    pub(crate) fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if !self.tx.has_room(1) {
            return Err(frame);
        }
        self.tx.push(frame.0);
        self.tx.publish();
        Ok(())
    }

    /// Gives the frames of one packet to the kernel to send, all of them or none; says which.
    pub(crate) fn send_packet(&mut self, frames: &mut Vec<Frame>) -> bool {
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

    /// Takes frames that were sent, at most [`BATCH`], and appends them to `frames`.
    #[inline]
    pub(crate) fn reclaim(&mut self, frames: &mut Vec<Frame>) -> usize {
        self.completion.take(BATCH, |addr| {
            frames.push(Frame(XdpDesc { addr, len: 0, options: XdpDescOptions::empty() }));
        })
    }

    /// Wakes the kernel's receive side if it says that it sleeps.
    #[inline]
    pub(crate) fn wake_rx(&mut self) -> io::Result<()> {
        if self.fill.needs_wakeup() {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            passing(poll(&mut fds, Some(&Timespec::default())))?;
        }
        Ok(())
    }

    /// Wakes the kernel's transmit side if it says that it sleeps; says whether that was needed.
    ///
    /// A driver that takes the flag back (mlx5, zero-copy) may set it at the very moment when
    /// frames are published, and see none of them as we see no flag: they lie until the next burst,
    /// which the engine's timers bring at the latest. A fence here would not end that, for it takes
    /// one on each side, and the kernel has none between its flag and its look at the ring
    /// (`xsk_set_tx_need_wakeup`, net/xdp/xsk.c; `mlx5e_napi_xsk_post`); nor has libxdp.
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

    /// The socket, as long as the rings live.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What the kernel counted; of zero-copy it says nothing here. Counters that it does not know
    /// (before Linux 5.9) are 0.
    pub(crate) fn kernel_stats(&self) -> io::Result<KernelStats> {
        let kernel = xdp_statistics(&self.socket)?;
        Ok(KernelStats {
            zerocopy: None,
            rx_ring_full: kernel.rx_ring_full.unwrap_or(0),
            fill_ring_empty: kernel.rx_fill_ring_empty_descs.unwrap_or(0),
            rx_dropped: kernel.rx_dropped,
            rx_invalid: kernel.rx_invalid_descs,
            tx_invalid: kernel.tx_invalid_descs,
        })
    }
}

/// What the kernel said when it was woken, without what will pass: the frames stay in the ring, and
/// the next call tries again.
#[inline]
fn passing<T>(woken: Result<T, rustix::io::Errno>) -> io::Result<()> {
    use rustix::io::Errno as E;
    match woken {
        // The device's queue is full or it is going down.
        Err(E::NOBUFS | E::AGAIN | E::BUSY | E::NETDOWN) => Ok(()),
        // A signal is pending, which ends even a poll that does not wait; the kernel has asked the
        // socket first (`do_poll`, fs/select.c), so it is awake.
        Err(E::INTR) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno as E;

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

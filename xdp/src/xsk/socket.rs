// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making an `AF_XDP` socket: register memory, size the rings, bind to a queue. Nothing stays
//! mapped.
//!
//! In: an interface, queues and a [`Layout`]. Out: an [`XskSocket`]: two descriptors, which may be
//! passed to another process. Caller: `socket_lease.rs`, in the provider or in the broker. Bound:
//! [`BIND_TRIES`] rounds over the queues, or as many as the caller allows.
//!
//! A bound socket cannot be bound again, and its memory and rings cannot be changed (net/xdp/xsk.c:
//! `xsk_bind` and `xsk_setsockopt` want state `XSK_READY`). So its owner has that queue and no
//! other. Linux 6.4 and newer allow another process to map its rings (`xsk_mmap`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::mapping::Mapping;
use super::ring::{Producer, SharedRing};
use super::umem::{FRAME_BYTES, Layout, memory_file};
use crate::config::QueueRange;
use crate::error::RingsError;
use crate::fork::Uninherited;
use crate::tier::status::XskMode;

/// Number of attempts to bind while the kernel tears down a predecessor on the queue. That takes
/// some milliseconds after its close (`xdp_put_umem` defers to a work queue).
pub(crate) const BIND_TRIES: u32 = 25;
/// Pause between two attempts: with [`BIND_TRIES`], a quarter of a second in all.
pub(crate) const BIND_PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of queues of one interface that are tried.
pub(crate) const QUEUES_MAX: u32 = 256;

/// A bound socket with its registered memory.
#[derive(Debug)]
pub struct XskSocket {
    /// Those of socket and memory, in front of both, as the fields are dropped in this order. The
    /// queue counts as busy while a process holds the memory (`lent_memory.rs` of the broker).
    _uninherited: [Uninherited; 2],
    pub(crate) socket: OwnedFd,
    pub(crate) memory: OwnedFd,
    pub(crate) layout: Layout,
    pub(crate) queue: u32,
    pub(crate) multi_buffer: bool,
}

impl XskSocket {
    /// Binds a new socket to the first free one of `queues` of `interface`, in the calling thread's
    /// network namespace. With `multi_buffer`, packets may take several frames. While all queues
    /// are busy, makes `tries` attempts some milliseconds apart.
    ///
    /// # Errors
    /// [`RingsError`].
    pub fn bind(
        interface: u32,
        queues: QueueRange,
        mode: XskMode,
        layout: Layout,
        multi_buffer: bool,
        tries: u32,
    ) -> Result<Self, RingsError> {
        Self::bind_where(interface, (queues, &|_| true), mode, layout, multi_buffer, tries)
    }

    /// As [`Self::bind`]; a queue that the function beside `queues` forbids counts as busy.
    pub(crate) fn bind_where(
        interface: u32,
        (queues, may_use): (QueueRange, &dyn Fn(u32) -> bool),
        mode: XskMode,
        layout: Layout,
        multi_buffer: bool,
        tries: u32,
    ) -> Result<Self, RingsError> {
        let (socket, memory) = unbound(layout)?;
        let copy = match mode {
            XskMode::Zerocopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
            XskMode::Copy | XskMode::Skb => SocketAddrXdpFlags::XDP_COPY,
        };
        let segments =
            if multi_buffer { SocketAddrXdpFlags::XDP_USE_SG } else { SocketAddrXdpFlags::empty() };
        let flags = copy | segments | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let mut try_one = |queue| {
            let bound = if may_use(queue) {
                bind(&socket, &SocketAddrXdp::new(flags, interface, queue))
            } else {
                Err(rustix::io::Errno::BUSY)
            };
            bound.map_err(Into::into)
        };
        let queue = first_free(queues, tries, &mut try_one, || thread::sleep(BIND_PAUSE))?;
        Ok(Self::bound((socket, memory), layout, queue, multi_buffer))
    }

    /// A socket that is bound to `queue`, with its memory.
    pub(crate) fn bound(
        (socket, memory): (OwnedFd, OwnedFd),
        layout: Layout,
        queue: u32,
        multi_buffer: bool,
    ) -> Self {
        let _uninherited = [&socket, &memory].map(Uninherited::new);
        Self { _uninherited, socket, memory, layout, queue, multi_buffer }
    }

    /// The socket's descriptor.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The descriptor of the memory.
    #[must_use]
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Whether a packet may take several frames.
    #[must_use]
    pub const fn multi_buffer(&self) -> bool {
        self.multi_buffer
    }

    /// The queue of the socket.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }
}

/// Tries `queues` until `bind` succeeds. Starts over after a `pause` while they are busy, `tries`
/// rounds in all.
fn first_free(
    queues: QueueRange,
    tries: u32,
    bind: &mut impl FnMut(u32) -> io::Result<()>,
    pause: impl Fn(),
) -> Result<u32, RingsError> {
    const WHAT: &str = "bind the AF_XDP socket";
    let is = |error: &io::Error, errno: Errno| error.raw_os_error() == Some(errno as i32);
    let QueueRange { first, last } = queues;
    if first > QueueRange::LAST {
        let error = RingsError::os(WHAT, Errno::EINVAL.into());
        return Err(error.with_advice(Errno::EINVAL, "queue numbers end at 65535"));
    }
    let numbers = first..=last.min(first.saturating_add(QUEUES_MAX)).min(QueueRange::LAST);
    for round in 1..=tries {
        let mut busy = None;
        for number in numbers.clone() {
            match bind(number) {
                Ok(()) => return Ok(number),
                Err(error) if is(&error, Errno::EBUSY) => busy = Some(error),
                // The queue number is out of range (`xp_assign_dev`), so all queues were tried.
                Err(error) if is(&error, Errno::EINVAL) && busy.is_some() => break,
                Err(error) => return Err(RingsError::os(WHAT, error)),
            }
        }
        match busy {
            Some(error) if round == tries => {
                let advice = if first == last {
                    "another AF_XDP socket has this queue"
                } else {
                    "other AF_XDP sockets have all queues"
                };
                return Err(RingsError::os(WHAT, error).with_advice(Errno::EBUSY, advice));
            }
            _ => pause(),
        }
    }
    Err(RingsError::os(WHAT, Errno::EBUSY.into()))
}

/// An unbound socket with memory and rings, and the memory.
fn unbound(layout: Layout) -> Result<(OwnedFd, OwnedFd), RingsError> {
    let at = |what: &'static str| move |error: io::Error| RingsError::os(what, error);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .map_err(|error| RingsError::os("make the AF_XDP socket", error.into()))?;
    let memory = memory_file(layout).map_err(|error| {
        RingsError::os("make the UMEM", error).with_advice(Errno::EFBIG, "raise `ulimit -f`")
    })?;
    let len = layout.bytes();
    // The kernel pins the pages, so this mapping may end.
    let mapping = Mapping::new(memory.as_fd(), 0, len).map_err(at("map the UMEM"))?;
    let registration = XdpUmemReg {
        addr: mapping.start().as_ptr().addr() as u64,
        len: len as u64,
        chunk_size: FRAME_BYTES,
        headroom: layout.headroom,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    // ENOBUFS: RLIMIT_MEMLOCK is exceeded (net/xdp/xdp_umem.c, `xdp_umem_account_pages`).
    set_xdp_umem_reg(&socket, registration).map_err(|error| {
        let error = RingsError::os("register the UMEM", error.into());
        error.with_advice(Errno::ENOBUFS, "raise `ulimit -l` or grant CAP_IPC_LOCK")
    })?;
    let (rx, tx) = (layout.sizes.rx.get(), layout.sizes.tx.get());
    set_xdp_umem_fill_ring_size(&socket, rx)
        .and_then(|()| set_xdp_rx_ring_size(&socket, rx))
        .and_then(|()| set_xdp_umem_completion_ring_size(&socket, tx))
        .and_then(|()| set_xdp_tx_ring_size(&socket, tx))
        .map_err(|error| RingsError::os("size the rings of the AF_XDP socket", error.into()))?;
    fill(&socket, layout).map_err(at("fill the fill ring"))?;
    Ok((socket, memory))
}

/// Gives the kernel all rx frames before it looks for any. Some drivers look when the socket is
/// bound, others when the program is attached (igb, which resets the device then). A driver that
/// finds no frame receives nothing, not for the kernel either, until a wake-up.
fn fill(socket: &OwnedFd, layout: Layout) -> io::Result<()> {
    let offsets = xdp_mmap_offsets(socket)?;
    let size = layout.sizes.rx.get();
    let mut ring = Producer::new(SharedRing::map(
        socket.as_fd(),
        XDP_UMEM_PGOFF_FILL_RING,
        &offsets.fr,
        size,
    )?);
    for address in layout.for_receiving() {
        // The ring has room for all rx frames.
        if ring.has_room(1) {
            ring.push(address);
        }
    }
    ring.publish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork;
    use std::cell::Cell;
    use std::os::fd::AsRawFd as _;

    /// Binds on a device with `busy` and free queues, and records each attempt.
    fn device(busy: &[bool], tried: &mut Vec<u32>, queue: u32) -> io::Result<()> {
        tried.push(queue);
        match busy.get(queue as usize) {
            Some(false) => Ok(()),
            Some(true) => Err(Errno::EBUSY.into()),
            None => Err(Errno::EINVAL.into()),
        }
    }

    #[test]
    fn a_socket_and_its_memory_are_not_inherited() {
        let layout = Layout::requested(0, 0, 0);
        let [socket, memory] = [0; 2].map(|_| memory_file(layout).unwrap());
        let descriptors = [socket.as_raw_fd(), memory.as_raw_fd()];
        let bound = XskSocket::bound((socket, memory), layout, 0, false);
        assert_eq!(descriptors.map(fork::is_registered), [true; 2]);
        drop(bound);
        assert_eq!(descriptors.map(fork::is_registered), [false; 2]);
    }

    #[test]
    fn the_first_free_queue_is_taken() {
        let mut tried = Vec::new();
        let mut bind = |queue| device(&[true, true, false, false], &mut tried, queue);
        assert_eq!(first_free(QueueRange::ALL, 1, &mut bind, || {}).unwrap(), 2);
        assert_eq!(tried, [0, 1, 2]);
    }

    #[test]
    fn a_queue_that_was_asked_for_is_the_only_one() {
        let mut tried = Vec::new();
        let pauses = Cell::new(0);
        let pause = || pauses.set(pauses.get() + 1);
        let mut bind = |queue| device(&[false, true, false], &mut tried, queue);
        let error = first_free(QueueRange::one_or_any(Some(1)), 3, &mut bind, pause)
            .unwrap_err()
            .to_string();
        assert!(error.contains("another AF_XDP socket has this queue"), "{error}");
        assert_eq!((tried, pauses.get()), (vec![1, 1, 1], 2));
    }

    #[test]
    fn a_number_that_the_kernel_would_cut_is_refused() {
        let mut bind = |queue| -> io::Result<()> { panic!("queue {queue} was tried") };
        for first in [65_536, 65_537, u32::MAX] {
            let queues = QueueRange { first, last: u32::MAX };
            let error = first_free(queues, 3, &mut bind, || {}).unwrap_err().to_string();
            assert!(error.contains("queue numbers end at 65535"), "{error}");
        }
        let mut tried = Vec::new();
        let mut bind = |queue| device(&[], &mut tried, queue);
        let last = QueueRange { first: 65_535, last: u32::MAX };
        assert!(first_free(last, 3, &mut bind, || {}).is_err());
        assert_eq!(tried, [65_535]);
    }

    #[test]
    fn a_queue_that_is_given_back_is_waited_for() {
        let mut rounds = 0;
        let mut bind = |queue| {
            rounds += u32::from(queue == 0);
            device(&[true, rounds < 4], &mut Vec::new(), queue)
        };
        assert_eq!(first_free(QueueRange::ALL, 25, &mut bind, || {}).unwrap(), 1);
        assert_eq!(rounds, 4);
    }

    #[test]
    fn without_any_queue_the_first_error_is_reported() {
        let mut bind = |queue| device(&[], &mut Vec::new(), queue);
        let error = first_free(QueueRange::ALL, 25, &mut bind, || panic!("nothing to wait for"))
            .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EINVAL as i32));
        let mut bind = |queue| device(&[true, true], &mut Vec::new(), queue);
        let error = first_free(QueueRange::ALL, 2, &mut bind, || {}).unwrap_err().to_string();
        assert!(error.contains("other AF_XDP sockets have all queues"), "{error}");
    }
}

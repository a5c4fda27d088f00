// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making an `AF_XDP` socket: memory registered, rings sized, bound to a queue, nothing mapped.
//!
//! An interface, queues and a [`Layout`] come in, an [`XskSocket`] goes out, for whichever process
//! is going to use it: what it takes is two descriptors, which may be passed on. `grant.rs` calls,
//! in the provider or in the broker. Bounds: [`BIND_TRIES`] rounds over the queues, or as many as
//! the caller grants.
//!
//! A bound socket can neither be bound again nor have its memory or rings changed (net/xdp/xsk.c:
//! `xsk_bind` and `xsk_setsockopt` want state `XSK_READY`), so who gets one has that queue and no
//! other. From Linux 6.4 on its rings may still be mapped (`xsk_mmap`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::config::Queues;
use crate::facts::XskMode;
use crate::mapping::Mapping;
use crate::ring::Producer;
use crate::rings::RingsError;
use crate::umem::{FRAME_BYTES, Layout};

/// How often binding is tried while the kernel still tears down a predecessor on the queue, which
/// it does some milliseconds after the close (`xdp_put_umem` defers to a work queue).
pub(crate) const BIND_TRIES: u32 = 25;
/// The time between two tries: with [`BIND_TRIES`], a quarter of a second in all.
pub(crate) const BIND_PAUSE: Duration = Duration::from_millis(10);
/// Most queues of one interface that are tried.
pub(crate) const QUEUES_MAX: u32 = 256;

/// A bound socket, and the memory that is registered with it.
#[derive(Debug)]
pub struct XskSocket {
    pub(crate) socket: OwnedFd,
    pub(crate) memory: OwnedFd,
    pub(crate) layout: Layout,
    pub(crate) queue: u32,
    pub(crate) multi_buffer: bool,
}

impl XskSocket {
    /// Binds a new socket to the first free one of `queues` of the interface with index `interface`
    /// in the calling thread's network namespace; with `multi_buffer`, for packets in several
    /// frames. While all are busy that is tried `tries` times,
    /// some milliseconds apart.
    ///
    /// # Errors
    /// [`RingsError`].
    pub fn bind(
        interface: u32,
        queues: Queues,
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
        let mut try_one =
            |queue| bind(&socket, &SocketAddrXdp::new(flags, interface, queue)).map_err(Into::into);
        let queue = first_free(queues, tries, &mut try_one, || thread::sleep(BIND_PAUSE))?;
        Ok(Self { socket, memory, layout, queue, multi_buffer })
    }

    /// The socket's descriptor.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The descriptor of its memory.
    #[must_use]
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Whether a packet may take several frames.
    #[must_use]
    pub const fn multi_buffer(&self) -> bool {
        self.multi_buffer
    }

    /// The queue that it is bound to.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }
}

/// Tries `queues` until `bind` takes one; starts over after a `pause` while they are busy, `tries`
/// rounds in all.
fn first_free(
    queues: Queues,
    tries: u32,
    bind: &mut impl FnMut(u32) -> io::Result<()>,
    pause: impl Fn(),
) -> Result<u32, RingsError> {
    const WHAT: &str = "bind the AF_XDP socket";
    let is = |error: &io::Error, errno: Errno| error.raw_os_error() == Some(errno as i32);
    let Queues { first, last } = queues;
    let numbers = first..=last.min(first.saturating_add(QUEUES_MAX));
    for round in 1..=tries {
        let mut busy = None;
        for number in numbers.clone() {
            match bind(number) {
                Ok(()) => return Ok(number),
                Err(error) if is(&error, Errno::EBUSY) => busy = Some(error),
                // Beyond the last queue (`xp_assign_dev`'s caller: `queue_id` out of range).
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

/// A socket that has memory and rings, and its memory.
fn unbound(layout: Layout) -> Result<(OwnedFd, OwnedFd), RingsError> {
    let at = |what: &'static str| move |error: io::Error| RingsError::os(what, error);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .map_err(|error| RingsError::os("make the AF_XDP socket", error.into()))?;
    let memory = memory_file(layout).map_err(at("make the UMEM"))?;
    let len = layout.bytes();
    // The kernel pins the pages; the mapping that shows it which may go again.
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

/// Gives the kernel every frame for receiving before it looks for any. Some drivers look when the
/// socket is bound, others when the program is attached (igb, which resets the card then), and one
/// that finds none receives nothing, not for the kernel either, until somebody wakes it.
fn fill(socket: &OwnedFd, layout: Layout) -> io::Result<()> {
    let offsets = xdp_mmap_offsets(socket)?;
    let size = layout.sizes.rx.get();
    let mut ring = Producer::map(socket.as_fd(), XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, size)?;
    for address in layout.for_receiving() {
        // The ring has room for every rx frame there is.
        if ring.has_room(1) {
            ring.push(address);
        }
    }
    ring.publish();
    Ok(())
}

/// A file in memory for `layout`, of a size that nobody can change: who has it mapped is safe from
/// who else has it.
pub(crate) fn memory_file(layout: Layout) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("ofi-xdp-umem", flags)?;
    ftruncate(&file, layout.bytes() as u64)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Binding on a device whose queues are `busy` or not, each try noted.
    fn device(busy: &[bool], tried: &mut Vec<u32>, queue: u32) -> io::Result<()> {
        tried.push(queue);
        match busy.get(queue as usize) {
            Some(false) => Ok(()),
            Some(true) => Err(Errno::EBUSY.into()),
            None => Err(Errno::EINVAL.into()),
        }
    }

    #[test]
    fn the_first_free_queue_is_taken() {
        let mut tried = Vec::new();
        let mut bind = |queue| device(&[true, true, false, false], &mut tried, queue);
        assert_eq!(first_free(Queues::ALL, 1, &mut bind, || {}).unwrap(), 2);
        assert_eq!(tried, [0, 1, 2]);
    }

    #[test]
    fn a_queue_that_was_asked_for_is_the_only_one() {
        let mut tried = Vec::new();
        let pauses = Cell::new(0);
        let pause = || pauses.set(pauses.get() + 1);
        let mut bind = |queue| device(&[false, true, false], &mut tried, queue);
        let error =
            first_free(Queues::one_or_any(Some(1)), 3, &mut bind, pause).unwrap_err().to_string();
        assert!(error.contains("another AF_XDP socket has this queue"), "{error}");
        assert_eq!((tried, pauses.get()), (vec![1, 1, 1], 2));
    }

    #[test]
    fn a_queue_that_is_given_back_is_waited_for() {
        let mut rounds = 0;
        let mut bind = |queue| {
            rounds += u32::from(queue == 0);
            device(&[true, rounds < 4], &mut Vec::new(), queue)
        };
        assert_eq!(first_free(Queues::ALL, 25, &mut bind, || {}).unwrap(), 1);
        assert_eq!(rounds, 4);
    }

    #[test]
    fn without_any_queue_the_first_complaint_stands() {
        let mut bind = |queue| device(&[], &mut Vec::new(), queue);
        let error =
            first_free(Queues::ALL, 25, &mut bind, || panic!("nothing to wait for")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EINVAL as i32));
        let mut bind = |queue| device(&[true, true], &mut Vec::new(), queue);
        let error = first_free(Queues::ALL, 2, &mut bind, || {}).unwrap_err().to_string();
        assert!(error.contains("other AF_XDP sockets have all queues"), "{error}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_rma(3)`.

use super::mem::iovecs;
use super::{Answer, Context, Ep, Mem, posted};
use crate::abi::{self, call};

/// Memory at a peer: whose, where, and the key that opens it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remote {
    pub(crate) peer: u64,
    pub(crate) address: u64,
    pub(crate) key: u64,
}

impl Remote {
    /// `offset` bytes further.
    pub(crate) fn at(self, offset: u64) -> Self {
        Self { address: self.address + offset, ..self }
    }
}

/// The arguments of the `msg` variants: `struct fi_msg_rma`.
#[derive(Clone, Debug)]
pub(crate) struct Rma {
    pub(crate) parts: Vec<Mem>,
    /// Ranges at the peer, with their lengths.
    pub(crate) remote: Vec<(Remote, usize)>,
    pub(crate) context: Context,
    pub(crate) data: u64,
}

impl Rma {
    /// One range on each side.
    pub(crate) fn new(mem: Mem, remote: Remote, context: Context) -> Self {
        Self { parts: vec![mem], remote: vec![(remote, mem.len())], context, data: 0 }
    }

    /// Calls `with` the structure; it names locals of this function.
    fn arguments(&self, with: impl FnOnce(&abi::fi_msg_rma) -> Answer) -> Answer {
        let iov = iovecs(&self.parts);
        let range = |(remote, len): &(Remote, usize)| abi::fi_rma_iov {
            addr: remote.address,
            len: *len,
            key: remote.key,
        };
        let rma_iov: Vec<abi::fi_rma_iov> = self.remote.iter().map(range).collect();
        with(&abi::fi_msg_rma {
            msg_iov: iov.as_ptr(),
            desc: std::ptr::null_mut(),
            iov_count: iov.len(),
            addr: self.remote.first().map_or(abi::ANYBODY, |(remote, _)| remote.peer),
            rma_iov: rma_iov.as_ptr(),
            rma_iov_count: rma_iov.len(),
            context: self.context.ptr(),
            data: self.data,
        })
    }
}

impl Ep {
    /// `fi_write`.
    pub(crate) fn write(&self, mem: Mem, to: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(ep, rma.write(ep, from, len, desc, peer, address, key, context.ptr())))
    }

    /// `fi_writev`.
    pub(crate) fn writev(&self, parts: &[Mem], to: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (from, count) = (iov.as_ptr(), iov.len());
        posted(call!(ep, rma.writev(ep, from, desc, count, peer, address, key, context.ptr())))
    }

    /// `fi_writemsg`.
    pub(crate) fn writemsg(&self, rma: &Rma, flags: u64) -> Answer {
        let ep = self.raw();
        rma.arguments(|message| posted(call!(ep, rma.writemsg(ep, message, flags))))
    }

    /// `fi_inject_write`.
    pub(crate) fn inject_write(&self, mem: Mem, to: Remote) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        posted(call!(ep, rma.inject(ep, mem.ptr(), mem.len(), peer, address, key)))
    }

    /// `fi_writedata`.
    pub(crate) fn writedata(&self, mem: Mem, data: u64, to: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        let context = context.ptr();
        posted(call!(ep, rma.writedata(ep, from, len, desc, data, peer, address, key, context)))
    }

    /// `fi_inject_writedata`.
    pub(crate) fn inject_writedata(&self, mem: Mem, data: u64, to: Remote) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        posted(call!(ep, rma.injectdata(ep, mem.ptr(), mem.len(), data, peer, address, key)))
    }

    /// `fi_read`.
    pub(crate) fn read(&self, mem: Mem, from: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = from;
        let (to, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(ep, rma.read(ep, to, len, desc, peer, address, key, context.ptr())))
    }

    /// `fi_readv`.
    pub(crate) fn readv(&self, parts: &[Mem], from: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = from;
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (to, count) = (iov.as_ptr(), iov.len());
        posted(call!(ep, rma.readv(ep, to, desc, count, peer, address, key, context.ptr())))
    }

    /// `fi_readmsg`.
    pub(crate) fn readmsg(&self, rma: &Rma, flags: u64) -> Answer {
        let ep = self.raw();
        rma.arguments(|message| posted(call!(ep, rma.readmsg(ep, message, flags))))
    }
}

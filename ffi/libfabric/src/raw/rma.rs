// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_rma(3)`.

use super::abi;
use std::ffi::c_void;

use super::mem::iovecs;
use super::{Answer, Context, Ep, Mem, posted};

/// Memory at a peer: the peer, the address and the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The peer.
    pub peer: u64,
    /// The address, or the offset in the region.
    pub address: u64,
    /// The key of the region.
    pub key: u64,
}

impl Remote {
    /// `offset` bytes further.
    pub fn at(self, offset: u64) -> Self {
        Self { address: self.address + offset, ..self }
    }
}

/// The arguments of the `msg` variants: `struct fi_msg_rma`.
#[derive(Clone, Debug)]
pub struct Rma {
    /// Local buffers, in order.
    pub parts: Vec<Mem>,
    /// Ranges at the peer, with their lengths.
    pub remote: Vec<(Remote, usize)>,
    /// The context that the completion gives back.
    pub context: Context,
    /// Remote CQ data.
    pub data: u64,
}

impl Rma {
    /// One range on each side.
    pub fn new(mem: Mem, remote: Remote, context: Context) -> Self {
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
            addr: self.remote.first().map_or(abi::FI_ADDR_UNSPEC, |(remote, _)| remote.peer),
            rma_iov: rma_iov.as_ptr(),
            rma_iov_count: rma_iov.len(),
            context: self.context.ptr(),
            data: self.data,
        })
    }
}

impl Ep {
    /// `fi_write`.
    pub fn write(&self, mem: Mem, to: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(fi_write(ep, from, len, desc, peer, address, key, context.ptr())))
    }

    /// `fi_writev`.
    pub fn writev(&self, parts: &[Mem], to: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (from, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_writev(ep, from, desc, count, peer, address, key, context.ptr())))
    }

    /// `fi_writemsg`.
    pub fn writemsg(&self, rma: &Rma, flags: u64) -> Answer {
        let ep = self.raw();
        rma.arguments(|message| posted(call!(fi_writemsg(ep, message, flags))))
    }

    /// `fi_inject_write`.
    pub fn inject_write(&self, mem: Mem, to: Remote) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        posted(call!(fi_inject_write(ep, mem.ptr(), mem.len(), peer, address, key)))
    }

    /// `fi_writedata`.
    pub fn writedata(&self, mem: Mem, data: u64, to: Remote, context: Context) -> Answer {
        self.writedata_with(mem, std::ptr::null_mut(), data, to, context)
    }

    /// `fi_writedata` with a region's descriptor.
    #[inline]
    pub fn writedata_with(
        &self,
        mem: Mem,
        desc: *mut c_void,
        data: u64,
        to: Remote,
        context: Context,
    ) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        let (from, len, context) = (mem.ptr(), mem.len(), context.ptr());
        posted(call!(fi_writedata(ep, from, len, desc, data, peer, address, key, context)))
    }

    /// `fi_inject_writedata`.
    #[inline]
    pub fn inject_writedata(&self, mem: Mem, data: u64, to: Remote) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = to;
        posted(call!(fi_inject_writedata(ep, mem.ptr(), mem.len(), data, peer, address, key)))
    }

    /// `fi_read`.
    pub fn read(&self, mem: Mem, from: Remote, context: Context) -> Answer {
        self.read_with(mem, std::ptr::null_mut(), from, context)
    }

    /// `fi_read` with a region's descriptor.
    #[inline]
    pub fn read_with(&self, mem: Mem, desc: *mut c_void, from: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = from;
        let (to, len) = (mem.ptr(), mem.len());
        posted(call!(fi_read(ep, to, len, desc, peer, address, key, context.ptr())))
    }

    /// `fi_readv`.
    pub fn readv(&self, parts: &[Mem], from: Remote, context: Context) -> Answer {
        let ep = self.raw();
        let Remote { peer, address, key } = from;
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (to, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_readv(ep, to, desc, count, peer, address, key, context.ptr())))
    }

    /// `fi_readmsg`.
    pub fn readmsg(&self, rma: &Rma, flags: u64) -> Answer {
        let ep = self.raw();
        rma.arguments(|message| posted(call!(fi_readmsg(ep, message, flags))))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_tagged(3)`.

use super::abi;
use std::ffi::c_void;

use super::mem::iovecs;
use super::{Answer, Context, Ep, Mem, posted};

/// The arguments of the `msg` variants: `struct fi_msg_tagged`.
#[derive(Clone, Debug)]
pub struct Tagged {
    /// Local buffers, in order.
    pub parts: Vec<Mem>,
    /// The peer.
    pub peer: u64,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that a receive ignores.
    pub ignore: u64,
    /// The context that the completion gives back.
    pub context: Context,
    /// Remote CQ data.
    pub data: u64,
}

impl Tagged {
    /// One buffer, an exact tag, no data.
    pub fn new(mem: Mem, peer: u64, tag: u64, context: Context) -> Self {
        Self { parts: vec![mem], peer, tag, ignore: 0, context, data: 0 }
    }

    /// No buffer: for `FI_PEEK`.
    pub fn peek(peer: u64, tag: u64, ignore: u64, context: Context) -> Self {
        Self { parts: Vec::new(), peer, tag, ignore, context, data: 0 }
    }

    fn arguments(&self, iov: &[abi::iovec]) -> abi::fi_msg_tagged {
        abi::fi_msg_tagged {
            msg_iov: if iov.is_empty() { std::ptr::null() } else { iov.as_ptr() },
            desc: std::ptr::null_mut(),
            iov_count: iov.len(),
            addr: self.peer,
            tag: self.tag,
            ignore: self.ignore,
            context: self.context.ptr(),
            data: self.data,
        }
    }
}

impl Ep {
    /// `fi_tsend`.
    pub fn tsend(&self, mem: Mem, peer: u64, tag: u64, context: Context) -> Answer {
        self.tsend_with(mem, std::ptr::null_mut(), (peer, tag), context)
    }

    /// `fi_tsend` with a region's descriptor.
    #[inline]
    pub fn tsend_with(
        &self,
        mem: Mem,
        desc: *mut c_void,
        (peer, tag): (u64, u64),
        context: Context,
    ) -> Answer {
        let ep = self.raw();
        posted(call!(fi_tsend(ep, mem.ptr(), mem.len(), desc, peer, tag, context.ptr())))
    }

    /// `fi_tsendv`.
    pub fn tsendv(&self, parts: &[Mem], peer: u64, tag: u64, context: Context) -> Answer {
        let ep = self.raw();
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (from, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_tsendv(ep, from, desc, count, peer, tag, context.ptr())))
    }

    /// `fi_tsendmsg`.
    pub fn tsendmsg(&self, message: &Tagged, flags: u64) -> Answer {
        let ep = self.raw();
        let iov = iovecs(&message.parts);
        let arguments = message.arguments(&iov);
        posted(call!(fi_tsendmsg(ep, &raw const arguments, flags)))
    }

    /// `fi_tinject`.
    #[inline]
    pub fn tinject(&self, mem: Mem, peer: u64, tag: u64) -> Answer {
        let ep = self.raw();
        posted(call!(fi_tinject(ep, mem.ptr(), mem.len(), peer, tag)))
    }

    /// `fi_tsenddata`.
    pub fn tsenddata(&self, mem: Mem, data: u64, peer: u64, tag: u64, context: Context) -> Answer {
        let ep = self.raw();
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(fi_tsenddata(ep, from, len, desc, data, peer, tag, context.ptr())))
    }

    /// `fi_tinjectdata`.
    pub fn tinjectdata(&self, mem: Mem, data: u64, peer: u64, tag: u64) -> Answer {
        let ep = self.raw();
        posted(call!(fi_tinjectdata(ep, mem.ptr(), mem.len(), data, peer, tag)))
    }

    /// `fi_trecv`.
    pub fn trecv(&self, mem: Mem, peer: u64, tag: u64, ignore: u64, context: Context) -> Answer {
        self.trecv_with(mem, std::ptr::null_mut(), (peer, tag, ignore), context)
    }

    /// `fi_trecv` with a region's descriptor.
    #[inline]
    pub fn trecv_with(
        &self,
        mem: Mem,
        desc: *mut c_void,
        (peer, tag, ignore): (u64, u64, u64),
        context: Context,
    ) -> Answer {
        let ep = self.raw();
        let (to, len) = (mem.ptr(), mem.len());
        posted(call!(fi_trecv(ep, to, len, desc, peer, tag, ignore, context.ptr())))
    }

    /// `fi_trecvv`.
    pub fn trecvv(
        &self,
        parts: &[Mem],
        peer: u64,
        tag: u64,
        ignore: u64,
        context: Context,
    ) -> Answer {
        let ep = self.raw();
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (to, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_trecvv(ep, to, desc, count, peer, tag, ignore, context.ptr())))
    }

    /// `fi_trecvmsg`.
    pub fn trecvmsg(&self, message: &Tagged, flags: u64) -> Answer {
        let ep = self.raw();
        let iov = iovecs(&message.parts);
        let arguments = message.arguments(&iov);
        posted(call!(fi_trecvmsg(ep, &raw const arguments, flags)))
    }
}

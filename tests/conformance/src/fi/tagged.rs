// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_tagged(3)`.

use super::mem::iovecs;
use super::{Answer, Context, Ep, Mem, posted};
use crate::abi::{self, call};

/// The arguments of the `msg` variants: `struct fi_msg_tagged`.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    pub(crate) parts: Vec<Mem>,
    pub(crate) peer: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: Context,
    pub(crate) data: u64,
}

impl Tagged {
    /// One buffer, an exact tag, no data.
    pub(crate) fn new(mem: Mem, peer: u64, tag: u64, context: Context) -> Self {
        Self { parts: vec![mem], peer, tag, ignore: 0, context, data: 0 }
    }

    /// No buffer: for `FI_PEEK`.
    pub(crate) fn probe(peer: u64, tag: u64, ignore: u64, context: Context) -> Self {
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
    pub(crate) fn tsend(&self, mem: Mem, peer: u64, tag: u64, context: Context) -> Answer {
        let ep = self.raw();
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(ep, tagged.send(ep, from, len, desc, peer, tag, context.ptr())))
    }

    /// `fi_tsendv`.
    pub(crate) fn tsendv(&self, parts: &[Mem], peer: u64, tag: u64, context: Context) -> Answer {
        let ep = self.raw();
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (from, count) = (iov.as_ptr(), iov.len());
        posted(call!(ep, tagged.sendv(ep, from, desc, count, peer, tag, context.ptr())))
    }

    /// `fi_tsendmsg`.
    pub(crate) fn tsendmsg(&self, message: &Tagged, flags: u64) -> Answer {
        let ep = self.raw();
        let iov = iovecs(&message.parts);
        let arguments = message.arguments(&iov);
        posted(call!(ep, tagged.sendmsg(ep, &raw const arguments, flags)))
    }

    /// `fi_tinject`.
    pub(crate) fn tinject(&self, mem: Mem, peer: u64, tag: u64) -> Answer {
        let ep = self.raw();
        posted(call!(ep, tagged.inject(ep, mem.ptr(), mem.len(), peer, tag)))
    }

    /// `fi_tsenddata`.
    pub(crate) fn tsenddata(
        &self,
        mem: Mem,
        data: u64,
        peer: u64,
        tag: u64,
        context: Context,
    ) -> Answer {
        let ep = self.raw();
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(ep, tagged.senddata(ep, from, len, desc, data, peer, tag, context.ptr())))
    }

    /// `fi_tinjectdata`.
    pub(crate) fn tinjectdata(&self, mem: Mem, data: u64, peer: u64, tag: u64) -> Answer {
        let ep = self.raw();
        posted(call!(ep, tagged.injectdata(ep, mem.ptr(), mem.len(), data, peer, tag)))
    }

    /// `fi_trecv`.
    pub(crate) fn trecv(
        &self,
        mem: Mem,
        peer: u64,
        tag: u64,
        ignore: u64,
        context: Context,
    ) -> Answer {
        let ep = self.raw();
        let (to, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(ep, tagged.recv(ep, to, len, desc, peer, tag, ignore, context.ptr())))
    }

    /// `fi_trecvv`.
    pub(crate) fn trecvv(
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
        posted(call!(ep, tagged.recvv(ep, to, desc, count, peer, tag, ignore, context.ptr())))
    }

    /// `fi_trecvmsg`.
    pub(crate) fn trecvmsg(&self, message: &Tagged, flags: u64) -> Answer {
        let ep = self.raw();
        let iov = iovecs(&message.parts);
        let arguments = message.arguments(&iov);
        posted(call!(ep, tagged.recvmsg(ep, &raw const arguments, flags)))
    }
}

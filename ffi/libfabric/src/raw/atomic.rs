// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_atomic(3)`.

use std::ffi::c_void;

use super::abi;
use super::{Answer, Context, Ep, Mem, Remote, posted};

/// An array of elements of one datatype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    /// The bytes.
    pub mem: Mem,
    /// Elements, not bytes.
    pub count: usize,
}

impl Value {
    pub(super) fn ioc(self) -> abi::fi_ioc {
        abi::fi_ioc { addr: self.mem.ptr(), count: self.count }
    }
}

/// The arguments that all variants of an atomic operation share.
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// The datatype of an element.
    pub datatype: abi::fi_datatype,
    /// The operation.
    pub op: abi::fi_op,
    /// The memory at the peer.
    pub at: Remote,
    /// The context that the completion gives back.
    pub context: Context,
}

impl Atomic {
    /// Calls `with` the structure; it names locals of this function.
    fn arguments(
        &self,
        parts: &[Value],
        with: impl FnOnce(&abi::fi_msg_atomic) -> Answer,
    ) -> Answer {
        let iov = iocs(parts);
        let count = parts.iter().map(|part| part.count).sum();
        let remote = abi::fi_rma_ioc { addr: self.at.address, count, key: self.at.key };
        with(&abi::fi_msg_atomic {
            msg_iov: iov.as_ptr(),
            desc: std::ptr::null_mut(),
            iov_count: iov.len(),
            addr: self.at.peer,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            datatype: self.datatype,
            op: self.op,
            context: self.context.ptr(),
            data: 0,
        })
    }
}

fn iocs(parts: &[Value]) -> Vec<abi::fi_ioc> {
    parts.iter().map(|part| part.ioc()).collect()
}

/// The arguments that every call ends in: `call!` takes them as names.
macro_rules! tail {
    ($atomic:ident => $peer:ident $address:ident $key:ident $datatype:ident $op:ident) => {
        let Atomic { datatype: $datatype, op: $op, at, .. } = *$atomic;
        let Remote { peer: $peer, address: $address, key: $key } = at;
    };
}

impl Ep {
    /// `fi_atomic`.
    pub fn atomic(&self, atomic: &Atomic, value: Value) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (from, count, none) = (value.mem.ptr(), value.count, std::ptr::null_mut());
        let context = atomic.context.ptr();
        posted(call!(fi_atomic(ep, from, count, none, peer, address, key, datatype, op, context)))
    }

    /// `fi_inject_atomic`.
    pub fn inject_atomic(&self, atomic: &Atomic, value: Value) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (from, count) = (value.mem.ptr(), value.count);
        posted(call!(fi_inject_atomic(ep, from, count, peer, address, key, datatype, op)))
    }

    /// `fi_atomicv`.
    pub fn atomicv(&self, atomic: &Atomic, parts: &[Value]) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (iov, none, context) = (iocs(parts), std::ptr::null_mut(), atomic.context.ptr());
        let (from, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_atomicv(ep, from, none, count, peer, address, key, datatype, op, context)))
    }

    /// `fi_atomicmsg`.
    pub fn atomicmsg(&self, atomic: &Atomic, parts: &[Value], flags: u64) -> Answer {
        let ep = self.raw();
        atomic.arguments(parts, |msg| posted(call!(fi_atomicmsg(ep, msg, flags))))
    }

    /// `fi_fetch_atomic`.
    pub fn fetch_atomic(&self, atomic: &Atomic, value: Value, result: Mem) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (from, count, none) = (value.mem.ptr(), value.count, std::ptr::null_mut());
        let (to, context) = (result.ptr(), atomic.context.ptr());
        posted(call!(fi_fetch_atomic(
            ep, from, count, none, to, none, peer, address, key, datatype, op, context
        )))
    }

    /// `fi_fetch_atomic`; `descriptor` is that of the region of both buffers.
    pub fn fetch_atomic_with(
        &self,
        atomic: &Atomic,
        value: Value,
        result: Mem,
        descriptor: *mut c_void,
    ) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (from, count, desc) = (value.mem.ptr(), value.count, descriptor);
        let (to, context) = (result.ptr(), atomic.context.ptr());
        posted(call!(fi_fetch_atomic(
            ep, from, count, desc, to, desc, peer, address, key, datatype, op, context
        )))
    }

    /// `fi_fetch_atomicv`.
    pub fn fetch_atomicv(&self, atomic: &Atomic, parts: &[Value], results: &[Value]) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (iov, mut out, none) = (iocs(parts), iocs(results), std::ptr::null_mut());
        let (from, count, context) = (iov.as_ptr(), iov.len(), atomic.context.ptr());
        let (to, to_count) = (out.as_mut_ptr(), out.len());
        posted(call!(fi_fetch_atomicv(
            ep, from, none, count, to, none, to_count, peer, address, key, datatype, op, context
        )))
    }

    /// `fi_fetch_atomicmsg`.
    pub fn fetch_atomicmsg(
        &self,
        atomic: &Atomic,
        parts: &[Value],
        results: &[Value],
        flags: u64,
    ) -> Answer {
        let ep = self.raw();
        let mut out = iocs(results);
        let (to, count, none) = (out.as_mut_ptr(), out.len(), std::ptr::null_mut());
        atomic.arguments(parts, |msg| {
            posted(call!(fi_fetch_atomicmsg(ep, msg, to, none, count, flags)))
        })
    }

    /// `fi_compare_atomic`.
    pub fn compare_atomic(
        &self,
        atomic: &Atomic,
        value: Value,
        compare: Mem,
        result: Mem,
    ) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (from, count, none) = (value.mem.ptr(), value.count, std::ptr::null_mut());
        let (with, to, context) = (compare.ptr(), result.ptr(), atomic.context.ptr());
        posted(call!(fi_compare_atomic(
            ep, from, count, none, with, none, to, none, peer, address, key, datatype, op, context
        )))
    }

    /// `fi_compare_atomicv`.
    pub fn compare_atomicv(
        &self,
        atomic: &Atomic,
        parts: &[Value],
        compares: &[Value],
        results: &[Value],
    ) -> Answer {
        tail!(atomic => peer address key datatype op);
        let ep = self.raw();
        let (iov, with, mut out) = (iocs(parts), iocs(compares), iocs(results));
        let (from, count, none) = (iov.as_ptr(), iov.len(), std::ptr::null_mut());
        let (with, with_count) = (with.as_ptr(), with.len());
        let (to, to_count, context) = (out.as_mut_ptr(), out.len(), atomic.context.ptr());
        posted(call!(fi_compare_atomicv(
            ep, from, none, count, with, none, with_count, to, none, to_count, peer, address, key,
            datatype, op, context
        )))
    }

    /// `fi_compare_atomicmsg`.
    pub fn compare_atomicmsg(
        &self,
        atomic: &Atomic,
        parts: &[Value],
        compares: &[Value],
        results: &[Value],
        flags: u64,
    ) -> Answer {
        let ep = self.raw();
        let (with, mut out, none) = (iocs(compares), iocs(results), std::ptr::null_mut());
        let (with, with_count) = (with.as_ptr(), with.len());
        let (to, to_count) = (out.as_mut_ptr(), out.len());
        atomic.arguments(parts, |msg| {
            posted(call!(fi_compare_atomicmsg(
                ep, msg, with, none, with_count, to, none, to_count, flags
            )))
        })
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_trigger(3)`: deferred work, and the domain's commands for it.

use super::abi;
use super::mem::iovecs;
use super::{
    Answer, Atomic, Cntr, Domain, Ep, Fid, Mem, Message, Object, Remote, Rma, Tagged, Value,
};

/// The counter and threshold that start a deferred work, and the counter of its end.
#[derive(Clone, Copy, Debug)]
pub struct When<'a> {
    /// The counter that triggers the operation.
    pub cntr: &'a Cntr,
    /// The value at which it does.
    pub threshold: u64,
    /// The counter of its completions.
    pub completion: Option<&'a Cntr>,
}

impl<'a> When<'a> {
    /// The condition that a counter reaches a value.
    pub const fn at(cntr: &'a Cntr, threshold: u64) -> Self {
        Self { cntr, threshold, completion: None }
    }

    /// Its end is counted.
    pub const fn counted(self, completion: &'a Cntr) -> Self {
        Self { completion: Some(completion), ..self }
    }
}

/// `struct fi_deferred_work`, with all objects that it names. It is never moved.
#[derive(Debug)]
pub struct Work(Object<abi::fi_deferred_work>);

type Op = abi::fi_deferred_work__bindgen_ty_1;

/// A value for C that is never freed.
fn kept<T: 'static>(value: T) -> *mut T {
    Mem::leaked(value).ptr().cast()
}

fn kept_all<T: 'static>(values: Vec<T>) -> *mut T {
    values.leak().as_mut_ptr()
}

fn message(message: &Message) -> abi::fi_msg {
    abi::fi_msg {
        msg_iov: kept_all(iovecs(&message.parts)),
        desc: std::ptr::null_mut(),
        iov_count: message.parts.len(),
        addr: message.peer,
        context: message.context.ptr(),
        data: message.data,
    }
}

fn atomic_message(atomic: &Atomic, operands: &[Value]) -> abi::fi_msg_atomic {
    let count = operands.iter().map(|value| value.count).sum();
    let Remote { peer, address, key } = atomic.at;
    abi::fi_msg_atomic {
        msg_iov: iocs(operands),
        desc: std::ptr::null_mut(),
        iov_count: operands.len(),
        addr: peer,
        rma_iov: kept(abi::fi_rma_ioc { addr: address, count, key }),
        rma_iov_count: 1,
        datatype: atomic.datatype,
        op: atomic.op,
        context: atomic.context.ptr(),
        data: 0,
    }
}

fn iocs(values: &[Value]) -> *mut abi::fi_ioc {
    kept_all(values.iter().map(|value| value.ioc()).collect())
}

impl Work {
    fn new(when: When<'_>, op_type: abi::fi_op_type, op: Op) -> Self {
        let completion = when.completion.map(|cntr| cntr.object.get());
        Self(Object::new(kept(abi::fi_deferred_work {
            context: abi::fi_context2 { internal: [std::ptr::null_mut(); 8] },
            threshold: when.threshold,
            triggering_cntr: when.cntr.object.get(),
            completion_cntr: completion.unwrap_or_default(),
            op_type,
            op,
        })))
    }

    /// `FI_OP_SEND`.
    pub fn send(when: When<'_>, ep: &Ep, one: &Message, flags: u64) -> Self {
        let msg = kept(abi::fi_op_msg { ep: ep.raw(), msg: message(one), flags });
        Self::new(when, abi::FI_OP_SEND, Op { msg })
    }

    /// `FI_OP_RECV`.
    pub fn recv(when: When<'_>, ep: &Ep, one: &Message, flags: u64) -> Self {
        let msg = kept(abi::fi_op_msg { ep: ep.raw(), msg: message(one), flags });
        Self::new(when, abi::FI_OP_RECV, Op { msg })
    }

    /// `FI_OP_TSEND`, or `FI_OP_TRECV`.
    pub fn tagged(
        when: When<'_>,
        kind: abi::fi_op_type,
        ep: &Ep,
        one: &Tagged,
        flags: u64,
    ) -> Self {
        let msg = abi::fi_msg_tagged {
            msg_iov: kept_all(iovecs(&one.parts)),
            desc: std::ptr::null_mut(),
            iov_count: one.parts.len(),
            addr: one.peer,
            tag: one.tag,
            ignore: one.ignore,
            context: one.context.ptr(),
            data: one.data,
        };
        let tagged = kept(abi::fi_op_tagged { ep: ep.raw(), msg, flags });
        Self::new(when, kind, Op { tagged })
    }

    /// `FI_OP_WRITE`, or `FI_OP_READ`.
    pub fn rma(when: When<'_>, kind: abi::fi_op_type, ep: &Ep, one: &Rma, flags: u64) -> Self {
        let range = |(remote, len): &(Remote, usize)| abi::fi_rma_iov {
            addr: remote.address,
            len: *len,
            key: remote.key,
        };
        let msg = abi::fi_msg_rma {
            msg_iov: kept_all(iovecs(&one.parts)),
            desc: std::ptr::null_mut(),
            iov_count: one.parts.len(),
            addr: one.remote.first().map_or(abi::FI_ADDR_UNSPEC, |(remote, _)| remote.peer),
            rma_iov: kept_all(one.remote.iter().map(range).collect()),
            rma_iov_count: one.remote.len(),
            context: one.context.ptr(),
            data: one.data,
        };
        let rma = kept(abi::fi_op_rma { ep: ep.raw(), msg, flags });
        Self::new(when, kind, Op { rma })
    }

    /// `FI_OP_ATOMIC`; with room for the previous values `FI_OP_FETCH_ATOMIC`; with values to
    /// compare with, too, `FI_OP_COMPARE_ATOMIC`.
    pub fn atomic(
        when: When<'_>,
        ep: &Ep,
        one: &Atomic,
        [operands, compare, result]: [&[Value]; 3],
        flags: u64,
    ) -> Self {
        let (ep, msg) = (ep.raw(), atomic_message(one, operands));
        let fetch = abi::fi_msg_fetch {
            msg_iov: iocs(result),
            desc: std::ptr::null_mut(),
            iov_count: result.len(),
        };
        if result.is_empty() {
            let atomic = kept(abi::fi_op_atomic { ep, msg, flags });
            return Self::new(when, abi::FI_OP_ATOMIC, Op { atomic });
        }
        if compare.is_empty() {
            let fetch_atomic = kept(abi::fi_op_fetch_atomic { ep, msg, fetch, flags });
            return Self::new(when, abi::FI_OP_FETCH_ATOMIC, Op { fetch_atomic });
        }
        let compare = abi::fi_msg_compare {
            msg_iov: iocs(compare),
            desc: std::ptr::null_mut(),
            iov_count: compare.len(),
        };
        let compare_atomic = kept(abi::fi_op_compare_atomic { ep, msg, fetch, compare, flags });
        Self::new(when, abi::FI_OP_COMPARE_ATOMIC, Op { compare_atomic })
    }

    /// `FI_OP_CNTR_SET`, or `FI_OP_CNTR_ADD`.
    pub fn cntr(when: When<'_>, kind: abi::fi_op_type, cntr: &Cntr, value: u64) -> Self {
        let cntr = kept(abi::fi_op_cntr { cntr: cntr.object.get(), value });
        Self::new(when, kind, Op { cntr })
    }
}

impl Domain {
    /// `FI_QUEUE_WORK`.
    pub fn queue_work(&self, work: &Work) -> Answer {
        self.control(abi::FI_QUEUE_WORK, work.0.get().cast())
    }

    /// `FI_CANCEL_WORK`.
    pub fn cancel_work(&self, work: &Work) -> Answer {
        self.control(abi::FI_CANCEL_WORK, work.0.get().cast())
    }

    /// `FI_FLUSH_WORK` of all works, or of those that wait for the counter of `like`.
    pub fn flush_work(&self, like: Option<&Work>) -> Answer {
        let argument = like.map_or(std::ptr::null_mut(), |work| work.0.get());
        self.control(abi::FI_FLUSH_WORK, argument.cast())
    }
}

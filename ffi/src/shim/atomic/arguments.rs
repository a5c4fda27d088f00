// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the calls of `fi_atomic(3)` say, as one [`Atomic`]: places for elements as buffers of
//! bytes, libfabric's numbers as an operation that is offered.
//!
//! In: what the slots of `shim::atomic` and deferred work (`shim::work`) were passed. Bound:
//! [`IOV_MAX`] places of each kind, one at the peer.

use std::ffi::c_void;

use ofi_xdp_core::{AtomicForm, AtomicOp, Datatype, Remote};

use crate::abi::{self, bits, fi_addr_t};
use crate::errno::Error;
use crate::memory::{Buffer, IOV_MAX};
use crate::ops::{Atomic, OpFlags};
use crate::shim::msg::word;
use crate::shim::{argument, array};

/// What libfabric's numbers mean, if this form of it is offered.
///
/// # Errors
/// [`Error::NotOffered`].
pub(in crate::shim) fn known(
    form: AtomicForm,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
) -> Result<(Datatype, AtomicOp), Error> {
    let datatype = u8::try_from(datatype).ok().and_then(Datatype::from_number);
    let op = u8::try_from(op).ok().and_then(AtomicOp::from_number);
    let (Some(datatype), Some(op)) = (datatype, op) else { return Err(Error::NotOffered) };
    if op.is_valid(form, datatype) { Ok((datatype, op)) } else { Err(Error::NotOffered) }
}

/// One place for elements.
pub(super) fn elements(base: *const c_void, count: usize) -> [abi::fi_ioc; 1] {
    [abi::fi_ioc { addr: base.cast_mut(), count }]
}

/// Where elements lie, or go.
fn buffer(iov: &[abi::fi_ioc], size: usize) -> Result<Buffer, Error> {
    let mut bytes = [abi::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; IOV_MAX];
    let bytes = bytes.get_mut(..iov.len()).ok_or(Error::Invalid)?;
    for (to, from) in bytes.iter_mut().zip(iov) {
        let iov_len = from.count.checked_mul(size).ok_or(Error::Invalid)?;
        *to = abi::iovec { iov_base: from.addr, iov_len };
    }
    Buffer::scattered(bytes)
}

/// The local side of an operation.
pub(super) struct Local<'a> {
    pub(super) operands: &'a [abi::fi_ioc],
    pub(super) compare: &'a [abi::fi_ioc],
    pub(super) result: &'a [abi::fi_ioc],
}

impl<'a> Local<'a> {
    pub(super) const fn operands(operands: &'a [abi::fi_ioc]) -> Self {
        Self { operands, compare: &[], result: &[] }
    }
}

/// The remote side of an operation, and what it is.
pub(super) struct Request {
    pub(super) form: AtomicForm,
    pub(super) datatype: abi::fi_datatype,
    pub(super) op: abi::fi_op,
    pub(super) peer: fi_addr_t,
    pub(super) remote: Remote,
    pub(super) context: *mut c_void,
    pub(super) flags: OpFlags,
}

impl Request {
    /// The operation.
    ///
    /// # Errors
    /// [`Error::NotOffered`] as [`known`]; [`Error::Invalid`] when operands, comparands and results
    /// are not of one length, or there are none.
    pub(super) fn with(&self, local: &Local<'_>) -> Result<Atomic, Error> {
        let (datatype, op) = known(self.form, self.datatype, self.op)?;
        let size = datatype.size();
        let result = buffer(local.result, size)?;
        let reads = op == AtomicOp::Read;
        // Of a read the operands are not looked at, and may be anything (fi_atomic(3)).
        let operands = if reads { Buffer::EMPTY } else { buffer(local.operands, size)? };
        let compare = if op.compares() { buffer(local.compare, size)? } else { Buffer::EMPTY };
        let len = if reads { result.len() } else { operands.len() };
        let fits = (!op.compares() || compare.len() == len)
            && (self.form == AtomicForm::Base || result.len() == len);
        if !fits || len == 0 {
            return Err(Error::Invalid);
        }
        Ok(Atomic {
            operands,
            compare,
            result,
            form: self.form,
            datatype,
            op,
            count: len / size,
            peer: self.peer,
            remote: self.remote,
            context: word(self.context),
            flags: self.flags,
        })
    }
}

/// What the vector forms of the calls say, as a message. `remote` outlives it.
pub(super) fn vectors(
    (msg_iov, iov_count): (*const abi::fi_ioc, usize),
    remote: &[abi::fi_rma_ioc; 1],
    (addr, datatype, op, context): (fi_addr_t, abi::fi_datatype, abi::fi_op, *mut c_void),
) -> abi::fi_msg_atomic {
    abi::fi_msg_atomic {
        msg_iov,
        desc: std::ptr::null_mut(),
        iov_count,
        addr,
        rma_iov: remote.as_ptr(),
        rma_iov_count: remote.len(),
        datatype,
        op,
        context,
        data: 0,
    }
}

/// The operation that a `fi_msg_atomic` asks for.
///
/// # Errors
/// As [`Request::with`]; [`Error::BadFlags`] where its target is a tagged receive buffer
/// (`FI_TAGGED`): what is the tag there would be taken for the key of a region.
///
/// # Safety
/// `msg` is NULL or initialised, `result` and `compare` have as many elements as they say.
pub(in crate::shim) unsafe fn message(
    form: AtomicForm,
    (msg, flags): (*const abi::fi_msg_atomic, OpFlags),
    (compare, compare_count): (*const abi::fi_ioc, usize),
    (result, result_count): (*const abi::fi_ioc, usize),
) -> Result<Atomic, Error> {
    if let OpFlags::Given(given) | OpFlags::Deferred(given) = flags
        && given & bits::TAGGED != 0
    {
        return Err(Error::BadFlags);
    }
    // SAFETY: promised by the caller, here and below.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: as above.
    let [remote] = unsafe { array(msg.rma_iov, msg.rma_iov_count) }? else {
        // One place at the peer.
        return Err(Error::Invalid);
    };
    let local = Local {
        // SAFETY: as above.
        operands: unsafe { array(msg.msg_iov, msg.iov_count) }?,
        // SAFETY: as above.
        compare: unsafe { array(compare, compare_count) }?,
        // SAFETY: as above.
        result: unsafe { array(result, result_count) }?,
    };
    let request = Request {
        form,
        datatype: msg.datatype,
        op: msg.op,
        peer: msg.addr,
        remote: Remote { key: remote.key, address: remote.addr },
        context: msg.context,
        flags,
    };
    request.with(&local)
}

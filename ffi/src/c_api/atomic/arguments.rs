// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of the calls of `fi_atomic(3)`: vectors of elements become buffers of bytes,
//! libfabric's numbers an operation that is offered.
//!
//! In: arguments of the slots of `c_api::atomic`, and of deferred work (`c_api::trigger`). Out: one
//! [`Request`]. Bound: [`IOV_MAX`] ranges of each kind, one at the peer.

use std::ffi::c_void;

use ofi_xdp_core::{AtomicForm, AtomicOp, Datatype, Remote};

use crate::c_api::args::op_context;
use crate::c_api::{argument, array};
use crate::runtime::memory::{Buffer, IOV_MAX};
use crate::runtime::{Atomic, OpFlags, Request, RequestKind};
use crate::sys::abi::{self, bits, fi_addr_t};
use crate::sys::errno::Error;

/// The operation behind libfabric's numbers, if it is offered in this form.
///
/// # Errors
/// [`Error::NotOffered`].
pub(in crate::c_api) fn known(
    form: AtomicForm,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
) -> Result<(Datatype, AtomicOp), Error> {
    let datatype = u8::try_from(datatype).ok().and_then(Datatype::from_number);
    let op = u8::try_from(op).ok().and_then(AtomicOp::from_number);
    let (Some(datatype), Some(op)) = (datatype, op) else { return Err(Error::NotOffered) };
    if op.is_valid(form, datatype) { Ok((datatype, op)) } else { Err(Error::NotOffered) }
}

/// A vector of one range of elements.
pub(super) fn elements(base: *const c_void, count: usize) -> [abi::fi_ioc; 1] {
    [abi::fi_ioc { addr: base.cast_mut(), count }]
}

/// A vector of ranges of elements, as C passes it.
#[derive(Clone, Copy)]
pub(in crate::c_api) struct IocVector {
    pub(in crate::c_api) first: *const abi::fi_ioc,
    pub(in crate::c_api) count: usize,
}

impl IocVector {
    /// No elements.
    pub(in crate::c_api) const EMPTY: Self = Self { first: std::ptr::null(), count: 0 };
}

/// The ranges of elements as a buffer of bytes.
fn buffer(iov: &[abi::fi_ioc], size: usize) -> Result<Buffer, Error> {
    let mut bytes = [abi::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; IOV_MAX];
    let bytes = bytes.get_mut(..iov.len()).ok_or(Error::Invalid)?;
    for (to, from) in bytes.iter_mut().zip(iov) {
        let iov_len = from.count.checked_mul(size).ok_or(Error::Invalid)?;
        *to = abi::iovec { iov_base: from.addr, iov_len };
    }
    Buffer::scattered(bytes)
}

/// The local memory of an operation.
pub(super) struct Local<'a> {
    pub(super) operands: &'a [abi::fi_ioc],
    pub(super) compare: &'a [abi::fi_ioc],
    pub(super) result: &'a [abi::fi_ioc],
}

impl<'a> Local<'a> {
    pub(super) const fn operands(operands: &'a [abi::fi_ioc]) -> Self {
        Self { operands, compare: &[], result: &[] }
    }

    /// The memory that three vectors describe.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vector with a length and no address.
    ///
    /// # Safety
    /// Each vector has as many initialised elements as it says, for `'a`.
    pub(super) unsafe fn of(
        operands: IocVector,
        compare: IocVector,
        result: IocVector,
    ) -> Result<Self, Error> {
        Ok(Self {
            // SAFETY: promised by the caller.
            operands: unsafe { array(operands.first, operands.count) }?,
            // SAFETY: promised by the caller.
            compare: unsafe { array(compare.first, compare.count) }?,
            // SAFETY: promised by the caller.
            result: unsafe { array(result.first, result.count) }?,
        })
    }
}

/// The scalar arguments of a call.
pub(super) struct AtomicCall {
    pub(super) form: AtomicForm,
    pub(super) datatype: abi::fi_datatype,
    pub(super) op: abi::fi_op,
    pub(super) peer: fi_addr_t,
    pub(super) remote: Remote,
    pub(super) context: *mut c_void,
    pub(super) flags: OpFlags,
}

impl AtomicCall {
    /// The request for this operation on local memory.
    ///
    /// # Errors
    /// [`Error::NotOffered`] as [`known`]; [`Error::Invalid`] when operands, comparands and results
    /// are not of one length, or there are none.
    pub(super) fn with(&self, local: &Local<'_>) -> Result<Request, Error> {
        let (datatype, op) = known(self.form, self.datatype, self.op)?;
        let size = datatype.size();
        let result = buffer(local.result, size)?;
        let reads = op == AtomicOp::Read;
        // A read ignores the operands, which may be invalid (fi_atomic(3)).
        let operands = if reads { Buffer::EMPTY } else { buffer(local.operands, size)? };
        let compare = if op.compares() { buffer(local.compare, size)? } else { Buffer::EMPTY };
        let len = if reads { result.len() } else { operands.len() };
        let fits = (!op.compares() || compare.len() == len)
            && (self.form == AtomicForm::Base || result.len() == len);
        if !fits || len == 0 {
            return Err(Error::Invalid);
        }
        let atomic = Atomic {
            operands,
            compare,
            form: self.form,
            datatype,
            op,
            count: len / size,
            remote: self.remote,
        };
        Ok(Request {
            buffer: result,
            peer: self.peer,
            context: op_context(self.context),
            flags: self.flags,
            kind: RequestKind::Atomic(atomic),
        })
    }
}

/// The request that a `fi_msg_atomic` describes.
///
/// # Errors
/// As [`AtomicCall::with`]; [`Error::BadFlags`] where its target is a tagged receive buffer
/// (`FI_TAGGED`): the tag there would be taken for the key of a region.
///
/// # Safety
/// `msg` is NULL or initialised, `compare` and `result` have as many elements as they say.
pub(in crate::c_api) unsafe fn message(
    form: AtomicForm,
    msg: *const abi::fi_msg_atomic,
    flags: OpFlags,
    compare: IocVector,
    result: IocVector,
) -> Result<Request, Error> {
    if let OpFlags::Given(given) | OpFlags::Deferred(given) = flags
        && given & bits::TAGGED != 0
    {
        return Err(Error::BadFlags);
    }
    // SAFETY: promised by the caller, here and below.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: as above.
    let [remote] = unsafe { array(msg.rma_iov, msg.rma_iov_count) }? else {
        // `rma_iov_limit` is 1.
        return Err(Error::Invalid);
    };
    let operands = IocVector { first: msg.msg_iov, count: msg.iov_count };
    // SAFETY: as above.
    let local = unsafe { Local::of(operands, compare, result) }?;
    let call = AtomicCall {
        form,
        datatype: msg.datatype,
        op: msg.op,
        peer: msg.addr,
        remote: Remote { key: remote.key, address: remote.addr },
        context: msg.context,
        flags,
    };
    call.with(&local)
}

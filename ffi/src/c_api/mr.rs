// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_mr`, and the memory region object.

use std::ffi::{c_int, c_void};

use super::fid::opened;
use super::{argument, array, status};
use crate::c_api::object::{self, Object};
use crate::objects::domain::Domain;
use crate::objects::eq::Event;
use crate::objects::mr::{MemoryRegion, MrAttributes};
use crate::runtime::memory::Buffer;
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<MemoryRegion>();

pub(super) static OPS: abi::fi_ops_mr = abi::fi_ops_mr {
    size: size_of::<abi::fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
};

// SAFETY: `fid_mr` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for MemoryRegion {
    type C = abi::fid_mr;
    const CLASS: u32 = abi::FI_CLASS_MR;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_mr {
        abi::fid_mr { fid, mem_desc: std::ptr::null_mut(), key: self.key() }
    }
}

/// Checks the flags of a registration (`fi_mr(3)`). The only one allowed is `FI_RMA_EVENT`: the
/// region may be bound to a counter.
fn check_flags(flags: u64) -> Result<(), Error> {
    if flags & !bits::RMA_EVENT == 0 { Ok(()) } else { Err(Error::BadFlags) }
}

/// `fi_mr_reg`. `fid` is the domain.
unsafe extern "C" fn reg(
    fid: *mut abi::fid,
    buffer: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    region: *mut *mut abi::fid_mr,
    context: *mut c_void,
) -> c_int {
    let iov = [abi::iovec { iov_base: buffer.cast_mut(), iov_len: len }];
    let attributes = check_flags(flags)
        .and_then(|()| Buffer::region(&iov))
        .map(|buffer| MrAttributes { buffer, access, offset, requested_key });
    // SAFETY: the man page's contract, passed on.
    unsafe { register(fid, region, context, attributes) }
}

/// `fi_mr_regv`.
unsafe extern "C" fn regv(
    fid: *mut abi::fid,
    segments: *const abi::iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    region: *mut *mut abi::fid_mr,
    context: *mut c_void,
) -> c_int {
    if let Err(error) = check_flags(flags) {
        return status(Err(error));
    }
    // SAFETY: the man page's contract: `count` elements.
    let attributes = unsafe { array(segments, count) }
        .and_then(Buffer::region)
        .map(|buffer| MrAttributes { buffer, access, offset, requested_key });
    // SAFETY: the man page's contract, passed on.
    unsafe { register(fid, region, context, attributes) }
}

/// The members of `struct fi_mr_attr` that every version has. The structure of an application
/// before 1.9 ends before [`abi::fi_mr_attr::iface`].
#[repr(C)]
struct MrAttrCommon {
    mr_iov: *const abi::iovec,
    iov_count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    context: *mut c_void,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(MrAttrCommon, context) == offset_of!(abi::fi_mr_attr, context));
    assert!(offset_of!(MrAttrCommon, requested_key) == offset_of!(abi::fi_mr_attr, requested_key));
};

/// Whether the attributes are of device memory, which the processor must not touch. `FI_HMEM`,
/// which is not offered, came with the member `iface`.
///
/// # Safety
/// `attributes` points to the structure of an application of this version.
unsafe fn is_device_memory(attributes: *const abi::fi_mr_attr, api_version: u32) -> bool {
    if api_version < abi::make_version(1, 9) {
        return false;
    }
    // SAFETY: the structure of 1.9 and later has the member (promised).
    let iface = unsafe { (*attributes).iface };
    iface != abi::FI_HMEM_SYSTEM
}

/// `fi_mr_regattr`.
unsafe extern "C" fn regattr(
    fid: *mut abi::fid,
    attributes: *const abi::fi_mr_attr,
    flags: u64,
    region: *mut *mut abi::fid_mr,
) -> c_int {
    if let Err(error) = check_flags(flags) {
        // Checked before the attributes are read: a flag may change their meaning.
        return status(Err(error));
    }
    // SAFETY: the man page's contract: open.
    let domain = match unsafe { object::object::<Domain>(fid) } {
        Ok(domain) => domain,
        Err(error) => return status(Err(error)),
    };
    // SAFETY: the man page's contract: initialised, or NULL; at least as long as the common
    // members.
    let Ok(given) = (unsafe { argument(attributes.cast::<MrAttrCommon>()) }) else {
        return status(Err(Error::Invalid));
    };
    // SAFETY: the man page's contract: of the application's version; not NULL.
    if unsafe { is_device_memory(attributes, domain.api_version()) } {
        return status(Err(Error::NotSupported));
    }
    // SAFETY: the man page's contract: `iov_count` elements.
    let attributes =
        unsafe { array(given.mr_iov, given.iov_count) }.and_then(Buffer::region).map(|buffer| {
            MrAttributes {
                buffer,
                access: given.access,
                offset: given.offset,
                requested_key: given.requested_key,
            }
        });
    // SAFETY: the man page's contract, passed on.
    unsafe { register(fid, region, given.context, attributes) }
}

/// # Safety
/// `fid` is NULL or an open object; `region` is NULL or may be written.
unsafe fn register(
    fid: *mut abi::fid,
    region: *mut *mut abi::fid_mr,
    context: *mut c_void,
    attributes: Result<MrAttributes, Error>,
) -> c_int {
    // SAFETY: passed on from the caller.
    let domain = match unsafe { object::object::<Domain>(fid) } {
        Ok(domain) => domain,
        Err(error) => return status(Err(error)),
    };
    let events = match domain.registrations() {
        Ok(events) => events,
        Err(error) => return status(Err(error)),
    };
    // SAFETY: passed on from the caller.
    let answer = unsafe {
        opened::<MemoryRegion>(region, context, || MemoryRegion::register(domain, attributes?))
    };
    if let (0, Some(queue)) = (answer, events) {
        // The region is written before its event can be read (fi_mr(3)).
        // SAFETY: the region was opened, so `region` is not NULL, and written.
        let made = unsafe { region.read() };
        let fields = [made.expose_provenance(), context.expose_provenance(), 0];
        let bytes = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
        queue.push(Event::new(abi::FI_MR_COMPLETE, bytes));
    }
    answer
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passive endpoint object, and the handle of a connection request (`fi_cm(3)`).
//!
//! In: names, options, rejections. Out: calls of [`PassiveEndpoint`] and [`ConnectionRequest`].
//! Called by libfabric.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::cm::{data, end_handle, origin};
use super::fid::opened;
use super::info::request;
use super::unsupported::{ExportXpu, WithXpu, slot};
use super::{argument, array, control, copy_out};
use crate::c_api::object::{self, Object};
use crate::endpoint::connection::CM_DATA_MAX;
use crate::endpoint::passive::PassiveEndpoint;
use crate::objects::connection_manager::ConnectionRequest;
use crate::objects::fabric::Fabric;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;
use crate::sys::sockaddr::{self, SocketAddress};

static FID_OPS: abi::fi_ops =
    abi::fi_ops { close: Some(close), ..super::fid::table::<PassiveEndpoint>() };
static REQUEST_OPS: abi::fi_ops = super::fid::table::<ConnectionRequest>();

type PassiveTable = WithXpu<abi::fi_ops_ep, ExportXpu<abi::fid_ep>>;

static OPS: PassiveTable = WithXpu {
    table: abi::fi_ops_ep {
        size: size_of::<PassiveTable>(),
        cancel: slot(),
        getopt: Some(getopt),
        setopt: slot(),
        tx_ctx: slot(),
        rx_ctx: slot(),
        rx_size_left: slot(),
        tx_size_left: slot(),
    },
    xpu: slot(),
};

static CM: abi::fi_ops_cm = abi::fi_ops_cm {
    size: size_of::<abi::fi_ops_cm>(),
    setname: Some(setname),
    getname: Some(getname),
    getpeer: slot(),
    connect: slot(),
    listen: Some(listen),
    accept: slot(),
    reject: Some(reject),
    shutdown: slot(),
    join: slot(),
};

// SAFETY: `fid_pep` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for PassiveEndpoint {
    type C = abi::fid_pep;
    const CLASS: u32 = abi::FI_CLASS_PEP;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_pep {
        abi::fid_pep {
            fid,
            ops: std::ptr::from_ref(&OPS).cast_mut().cast(),
            cm: std::ptr::from_ref(&CM).cast_mut(),
        }
    }
}

// SAFETY: a `fid` is the whole structure; `REQUEST_OPS` is this type's alone.
unsafe impl Object for ConnectionRequest {
    type C = abi::fid;
    const CLASS: u32 = abi::FI_CLASS_CONNREQ;

    fn fid_ops() -> &'static abi::fi_ops {
        &REQUEST_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid {
        fid
    }
}

/// `fi_passive_ep`.
pub(super) unsafe extern "C" fn passive_ep(
    fabric: *mut abi::fid_fabric,
    info: *mut abi::fi_info,
    passive: *mut *mut abi::fid_pep,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let fabric = unsafe { object::object::<Fabric>(fabric.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: an initialised `fi_info`, or NULL.
        let info = unsafe { argument(info) }?;
        // SAFETY: as above: its pointers are NULL or as `fi_getinfo(3)` requires.
        let wanted = unsafe { request(info) }?;
        // SAFETY: as above.
        let template = unsafe { OwnedInfo::copy_of(info) }?;
        PassiveEndpoint::open(fabric, &wanted, template)
    };
    // SAFETY: the man page's contract: `passive` takes the result.
    unsafe { opened::<PassiveEndpoint>(passive, context, open) }
}

/// `fi_close`. Ends the handles of the requests that were not answered: no call takes them any
/// more.
unsafe extern "C" fn close(fid: *mut abi::fid) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open. In the child of a fork there is nothing to end.
        if let Ok(passive) = unsafe { object::object::<PassiveEndpoint>(fid) } {
            passive.stop_listening().iter().try_for_each(|request| end_handle(request))?;
        }
        // SAFETY: as above, and no call is under way.
        unsafe { object::close::<PassiveEndpoint>(fid) }
    })
}

/// `fi_setname`.
unsafe extern "C" fn setname(fid: *mut abi::fid, address: *mut c_void, len: usize) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let passive = unsafe { object::object::<PassiveEndpoint>(fid) }?;
        // SAFETY: the man page's contract: `len` bytes.
        let bytes = unsafe { array(address.cast_const().cast::<u8>(), len) }?;
        passive.set_name(sockaddr::decode(bytes).ok_or(Error::Invalid)?)
    })
}

/// `fi_getname`.
unsafe extern "C" fn getname(fid: *mut abi::fid, address: *mut c_void, len: *mut usize) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let passive = unsafe { object::object::<PassiveEndpoint>(fid) }?;
        let name = SocketAddress::from(passive.name()?);
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(name.bytes(), address, len) }
    })
}

/// `fi_listen`.
unsafe extern "C" fn listen(pep: *mut abi::fid_pep) -> c_int {
    control(|| {
        let fid = pep.cast::<abi::fid>();
        // SAFETY: the man page's contract: open.
        let passive = unsafe { object::object::<PassiveEndpoint>(fid) }?;
        // SAFETY: as above.
        passive.listen(unsafe { origin(fid) })
    })
}

/// `fi_reject`. Ends the handle of the request.
unsafe extern "C" fn reject(
    pep: *mut abi::fid_pep,
    handle: *mut abi::fid,
    param: *const c_void,
    len: usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        unsafe { object::object::<PassiveEndpoint>(pep.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: the handle of a request that was not answered.
        let request = Arc::clone(unsafe { object::object::<ConnectionRequest>(handle) }?);
        // SAFETY: the man page's contract: `len` bytes.
        let rejected = request.reject(unsafe { data(param, len) }?);
        end_handle(&request)?;
        match rejected {
            // The peer has withdrawn it.
            Err(Error::NotConnected) => Ok(()),
            rejected => rejected,
        }
    })
}

/// `fi_getopt`.
unsafe extern "C" fn getopt(
    fid: *mut abi::fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        unsafe { object::object::<PassiveEndpoint>(fid) }?;
        let known = level.cast_unsigned() == abi::FI_OPT_ENDPOINT
            && name.cast_unsigned() == abi::FI_OPT_CM_DATA_SIZE;
        if !known {
            return Err(Error::NoOption);
        }
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(&CM_DATA_MAX.to_ne_bytes(), value, len) }
    })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The endpoint object: `struct fi_ops_ep` and `struct fi_ops_cm`.
//!
//! In: cancels, options and names. Out: calls of [`Endpoint`], or of any object that [`Receives`].
//! Called by libfabric. The data calls are in `msg`, `tagged`, `rma` and `atomic`.

use std::ffi::{c_int, c_void};

use super::args::op_context;
use super::unsupported::{self, ExportXpu, WithXpu, slot};
use super::{array, control, copy_out, counted, done};
use crate::c_api::object::{self, Object};
use crate::endpoint::{Endpoint, Receives};
use crate::runtime::Side;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::sockaddr::SocketAddress;

static FID_OPS: abi::fi_ops = super::fid::table::<Endpoint>();

type EndpointTable = WithXpu<abi::fi_ops_ep, ExportXpu<abi::fid_ep>>;

static OPS: EndpointTable = WithXpu {
    table: abi::fi_ops_ep {
        size: size_of::<EndpointTable>(),
        cancel: Some(cancel::<Endpoint>),
        getopt: Some(getopt::<Endpoint>),
        setopt: Some(setopt::<Endpoint>),
        tx_ctx: slot(),
        rx_ctx: slot(),
        rx_size_left: Some(rx_size_left::<Endpoint>),
        tx_size_left: Some(tx_size_left),
    },
    xpu: slot(),
};

static CM: abi::fi_ops_cm = abi::fi_ops_cm {
    size: size_of::<abi::fi_ops_cm>(),
    setname: slot(),
    getname: Some(getname),
    getpeer: Some(super::cm::getpeer),
    connect: Some(super::cm::connect),
    listen: slot(),
    accept: Some(super::cm::accept),
    reject: slot(),
    shutdown: Some(super::cm::shutdown),
    join: Some(super::multicast::join),
};

/// The class and the data calls of an endpoint.
struct Calls {
    class: u32,
    msg: &'static abi::fi_ops_msg,
    tagged: &'static abi::fi_ops_tagged,
    rma: &'static abi::fi_ops_rma,
    atomic: &'static abi::fi_ops_atomic,
}

impl Calls {
    /// An endpoint.
    const BOTH: Self = Self {
        class: abi::FI_CLASS_EP,
        msg: &super::msg::OPS,
        tagged: &super::tagged::OPS,
        rma: &super::rma::OPS,
        atomic: &super::atomic::OPS,
    };
    /// A transmit context.
    const TRANSMIT: Self = Self {
        class: abi::FI_CLASS_TX_CTX,
        msg: &super::msg::TRANSMIT_OPS,
        tagged: &super::tagged::TRANSMIT_OPS,
        ..Self::BOTH
    };
    /// A receive context.
    const RECEIVE: Self = Self {
        class: abi::FI_CLASS_RX_CTX,
        msg: &super::msg::RECEIVE_OPS,
        tagged: &super::tagged::RECEIVE_OPS,
        rma: &unsupported::RMA,
        atomic: &unsupported::ATOMIC,
    };
}

// SAFETY: `fid_ep` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Endpoint {
    type C = abi::fid_ep;
    /// Contexts of a scalable endpoint have other classes, see [`Self::c_object`].
    const CLASS: u32 = abi::FI_CLASS_EP;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_ep {
        let Calls { class, msg, tagged, rma, atomic } = match self.context_side() {
            None => Calls::BOTH,
            Some(Side::Transmit) => Calls::TRANSMIT,
            Some(Side::Receive) => Calls::RECEIVE,
        };
        abi::fid_ep {
            fid: abi::fid { fclass: class as usize, ..fid },
            ops: std::ptr::from_ref(&OPS).cast_mut().cast(),
            cm: std::ptr::from_ref(&CM).cast_mut(),
            msg: std::ptr::from_ref(msg).cast_mut(),
            rma: std::ptr::from_ref(rma).cast_mut(),
            tagged: std::ptr::from_ref(tagged).cast_mut(),
            atomic: std::ptr::from_ref(atomic).cast_mut(),
            collective: std::ptr::from_ref(&unsupported::COLLECTIVE).cast_mut(),
        }
    }
}

/// `fi_cancel`.
pub(super) unsafe extern "C" fn cancel<T: Receives + Object>(
    ep: *mut abi::fid,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { object::object::<T>(ep) };
    done(endpoint.and_then(|endpoint| endpoint.cancel(op_context(context))))
}

/// The supported options of level `FI_OPT_ENDPOINT` (`fi_endpoint(3)`): all but those of buffered
/// receives (`FI_BUFFERED_RECV`), a mode that is not offered.
fn option(level: c_int, name: c_int) -> Result<u32, Error> {
    const KNOWN: [u32; 6] = [
        abi::FI_OPT_MIN_MULTI_RECV,
        abi::FI_OPT_CM_DATA_SIZE,
        abi::FI_OPT_TX_SIZE,
        abi::FI_OPT_RX_SIZE,
        abi::FI_OPT_FI_HMEM_P2P,
        abi::FI_OPT_XPU_TRIGGER,
    ];
    let name = name.cast_unsigned();
    let known = level.cast_unsigned() == abi::FI_OPT_ENDPOINT && KNOWN.contains(&name);
    if known { Ok(name) } else { Err(Error::NoOption) }
}

/// `fi_getopt`.
pub(super) unsafe extern "C" fn getopt<T: Receives + Object>(
    ep: *mut abi::fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<T>(ep) }?;
        let found = match option(level, name)? {
            abi::FI_OPT_MIN_MULTI_RECV => endpoint.min_multi_recv(),
            abi::FI_OPT_CM_DATA_SIZE => endpoint.cm_data_size(),
            abi::FI_OPT_TX_SIZE => endpoint.size(Side::Transmit)?,
            abi::FI_OPT_RX_SIZE => endpoint.size(Side::Receive)?,
            abi::FI_OPT_FI_HMEM_P2P => {
                let mode = abi::FI_HMEM_P2P_DISABLED.cast_signed().to_ne_bytes();
                // SAFETY: the man page's contract: `*len` bytes of room.
                return unsafe { copy_out(&mode, value, len) };
            }
            // Devices trigger no operations.
            _ => return Err(Error::NotOffered),
        };
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(&found.to_ne_bytes(), value, len) }
    })
}

/// `fi_setopt`.
pub(super) unsafe extern "C" fn setopt<T: Receives + Object>(
    ep: *mut abi::fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<T>(ep) }?;
        let name = option(level, name)?;
        // SAFETY: the man page's contract: `len` bytes.
        let bytes = unsafe { array(value.cast::<u8>(), len) }?;
        match name {
            abi::FI_OPT_MIN_MULTI_RECV => {
                let least = bytes.try_into().map_err(|_| Error::Invalid)?;
                endpoint.set_min_multi_recv(usize::from_ne_bytes(least));
                Ok(())
            }
            abi::FI_OPT_FI_HMEM_P2P => {
                let mode = bytes.try_into().map_err(|_| Error::Invalid)?;
                match c_int::from_ne_bytes(mode).cast_unsigned() {
                    // There is no device memory: a permission is never used.
                    abi::FI_HMEM_P2P_ENABLED | abi::FI_HMEM_P2P_DISABLED => Ok(()),
                    _ => Err(Error::NotOffered),
                }
            }
            // Read-only options.
            _ => Err(Error::NoOption),
        }
    })
}

/// `fi_rx_size_left`.
pub(super) unsafe extern "C" fn rx_size_left<T: Receives + Object>(ep: *mut abi::fid_ep) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { object::object::<T>(ep.cast::<abi::fid>()) };
    counted(endpoint.and_then(|endpoint| endpoint.receives_left()))
}

/// `fi_tx_size_left`.
unsafe extern "C" fn tx_size_left(ep: *mut abi::fid_ep) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { object::object::<Endpoint>(ep.cast::<abi::fid>()) };
    counted(endpoint.and_then(|endpoint| endpoint.sends_left()))
}

/// `fi_getname`.
unsafe extern "C" fn getname(ep: *mut abi::fid, address: *mut c_void, len: *mut usize) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<Endpoint>(ep) }?;
        let name = SocketAddress::from(endpoint.name()?);
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(name.bytes(), address, len) }
    })
}

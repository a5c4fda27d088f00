// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared receive context: an endpoint's structure with the receiving calls alone.
//!
//! In: receives, cancels and options. Out: calls of [`SharedRx`]. Called by libfabric.

use super::unsupported::{self, ExportXpu, WithXpu, slot};
use super::{endpoint, msg, tagged};
use crate::c_api::object::Object;
use crate::endpoint::shared_rx::SharedRx;
use crate::sys::abi;

static FID_OPS: abi::fi_ops = super::fid::table::<SharedRx>();

type SharedRxTable = WithXpu<abi::fi_ops_ep, ExportXpu<abi::fid_ep>>;

static OPS: SharedRxTable = WithXpu {
    table: abi::fi_ops_ep {
        size: size_of::<SharedRxTable>(),
        cancel: Some(endpoint::cancel::<SharedRx>),
        getopt: Some(endpoint::getopt::<SharedRx>),
        setopt: Some(endpoint::setopt::<SharedRx>),
        tx_ctx: slot(),
        rx_ctx: slot(),
        rx_size_left: Some(endpoint::rx_size_left::<SharedRx>),
        tx_size_left: slot(),
    },
    xpu: slot(),
};

static CM: abi::fi_ops_cm = unsupported::CM;

static MSG: abi::fi_ops_msg = abi::fi_ops_msg {
    recv: Some(msg::recv::<SharedRx>),
    recvv: Some(msg::recvv::<SharedRx>),
    recvmsg: Some(msg::recvmsg::<SharedRx>),
    ..unsupported::MSG
};

static TAGGED: abi::fi_ops_tagged = abi::fi_ops_tagged {
    recv: Some(tagged::recv::<SharedRx>),
    recvv: Some(tagged::recvv::<SharedRx>),
    recvmsg: Some(tagged::recvmsg::<SharedRx>),
    ..unsupported::TAGGED
};

// SAFETY: `fid_ep` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for SharedRx {
    type C = abi::fid_ep;
    const CLASS: u32 = abi::FI_CLASS_SRX_CTX;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_ep {
        abi::fid_ep {
            fid,
            ops: std::ptr::from_ref(&OPS).cast_mut().cast(),
            cm: std::ptr::from_ref(&CM).cast_mut(),
            msg: std::ptr::from_ref(&MSG).cast_mut(),
            rma: std::ptr::from_ref(&unsupported::RMA).cast_mut(),
            tagged: std::ptr::from_ref(&TAGGED).cast_mut(),
            atomic: std::ptr::from_ref(&unsupported::ATOMIC).cast_mut(),
            collective: std::ptr::from_ref(&unsupported::COLLECTIVE).cast_mut(),
        }
    }
}

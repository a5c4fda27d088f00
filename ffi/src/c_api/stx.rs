// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared transmit context: an object to bind, without calls of its own.

use super::unsupported::{ExportXpu, WithXpu, slot};
use crate::c_api::object::Object;
use crate::endpoint::shared_tx::SharedTx;
use crate::sys::abi;

static FID_OPS: abi::fi_ops = super::fid::table::<SharedTx>();

type SharedTxTable = WithXpu<abi::fi_ops_ep, ExportXpu<abi::fid_ep>>;

static OPS: SharedTxTable = WithXpu {
    table: abi::fi_ops_ep {
        size: size_of::<SharedTxTable>(),
        cancel: slot(),
        getopt: slot(),
        setopt: slot(),
        tx_ctx: slot(),
        rx_ctx: slot(),
        rx_size_left: slot(),
        tx_size_left: slot(),
    },
    xpu: slot(),
};

// SAFETY: `fid_stx` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for SharedTx {
    type C = abi::fid_stx;
    const CLASS: u32 = abi::FI_CLASS_STX_CTX;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_stx {
        abi::fid_stx { fid, ops: std::ptr::from_ref(&OPS).cast_mut().cast() }
    }
}

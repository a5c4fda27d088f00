// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of any object, of a fabric, of a domain and of an address vector.

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::{
    fi_addr_t, fi_atomic_attr, fi_av_attr, fi_av_set_attr, fi_cntr_attr, fi_cq_attr, fi_datatype,
    fi_eq_attr, fi_info, fi_mr_attr, fi_op, fi_poll_attr, fi_rx_attr, fi_tx_attr, fi_wait_attr,
    fid, fid_av, fid_av_set, fid_cntr, fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric, fid_mr,
    fid_pep, fid_poll, fid_stx, fid_wait, iovec,
};

// `fi_fabric(3)`, `fi_eq(3)`, `fi_poll(3)`: calls of a fabric.
slots! {
    fn fi_domain(
        fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain,
        context: *mut c_void,
    ) -> c_int = ops.domain;
    fn fi_passive_ep(
        fabric: *mut fid_fabric, info: *mut fi_info, pep: *mut *mut fid_pep, context: *mut c_void,
    ) -> c_int = ops.passive_ep;
    fn fi_eq_open(
        fabric: *mut fid_fabric, attr: *mut fi_eq_attr, eq: *mut *mut fid_eq, context: *mut c_void,
    ) -> c_int = ops.eq_open;
    fn fi_wait_open(
        fabric: *mut fid_fabric, attr: *mut fi_wait_attr, waitset: *mut *mut fid_wait,
    ) -> c_int = ops.wait_open;
    fn fi_trywait(
        fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int,
    ) -> c_int = ops.trywait;
}

// `fi_fabric(3)`, `fi_control(3)`: calls that every object has.
slots! {
    fn fi_close(fid: *mut fid) -> c_int = ops.close;
    fn fi_bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int = ops.bind;
    fn fi_control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int = ops.control;
    fn fi_open_ops(
        fid: *mut fid, name: *const c_char, flags: u64, ops: *mut *mut c_void, context: *mut c_void,
    ) -> c_int = ops.ops_open;
}

// `fi_domain(3)` and the pages of the objects that a domain opens.
slots! {
    fn fi_endpoint(
        domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void,
    ) -> c_int = ops.endpoint;
    fn fi_scalable_ep(
        domain: *mut fid_domain, info: *mut fi_info, sep: *mut *mut fid_ep, context: *mut c_void,
    ) -> c_int = ops.scalable_ep;
    fn fi_cq_open(
        domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void,
    ) -> c_int = ops.cq_open;
    fn fi_cntr_open(
        domain: *mut fid_domain, attr: *mut fi_cntr_attr, cntr: *mut *mut fid_cntr,
        context: *mut c_void,
    ) -> c_int = ops.cntr_open;
    fn fi_av_open(
        domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void,
    ) -> c_int = ops.av_open;
    fn fi_poll_open(
        domain: *mut fid_domain, attr: *mut fi_poll_attr, pollset: *mut *mut fid_poll,
    ) -> c_int = ops.poll_open;
    fn fi_stx_context(
        domain: *mut fid_domain, attr: *mut fi_tx_attr, stx: *mut *mut fid_stx,
        context: *mut c_void,
    ) -> c_int = ops.stx_ctx;
    fn fi_srx_context(
        domain: *mut fid_domain, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int = ops.srx_ctx;
    fn fi_query_atomic(
        domain: *mut fid_domain, datatype: fi_datatype, op: fi_op, attr: *mut fi_atomic_attr,
        flags: u64,
    ) -> c_int = ops.query_atomic;
    fn fi_mr_reg(
        domain: *mut fid_domain, buf: *const c_void, len: usize, access: u64, offset: u64,
        requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void,
    ) -> c_int = mr.reg;
    fn fi_mr_regv(
        domain: *mut fid_domain, iov: *const iovec, count: usize, access: u64, offset: u64,
        requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void,
    ) -> c_int = mr.regv;
    fn fi_mr_regattr(
        domain: *mut fid_domain, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr,
    ) -> c_int = mr.regattr;
}

// `fi_av(3)`: calls of an address vector.
slots! {
    fn fi_av_insert(
        av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64,
        context: *mut c_void,
    ) -> c_int = ops.insert;
    fn fi_av_insertsvc(
        av: *mut fid_av, node: *const c_char, service: *const c_char, fi_addr: *mut fi_addr_t,
        flags: u64, context: *mut c_void,
    ) -> c_int = ops.insertsvc;
    fn fi_av_insertsym(
        av: *mut fid_av, node: *const c_char, nodecnt: usize, service: *const c_char, svccnt: usize,
        fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void,
    ) -> c_int = ops.insertsym;
    fn fi_av_remove(
        av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64,
    ) -> c_int = ops.remove;
    fn fi_av_lookup(
        av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void, addrlen: *mut usize,
    ) -> c_int = ops.lookup;
    fn fi_av_straddr(
        av: *mut fid_av, addr: *const c_void, buf: *mut c_char, len: *mut usize,
    ) -> *const c_char = ops.straddr else std::ptr::null();
    fn fi_av_set(
        av: *mut fid_av, attr: *mut fi_av_set_attr, av_set: *mut *mut fid_av_set,
        context: *mut c_void,
    ) -> c_int = ops.av_set;
}

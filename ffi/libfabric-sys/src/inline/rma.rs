// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one-sided calls of an endpoint: RMA and atomics.

use std::ffi::{c_int, c_void};

use crate::bindings::{
    fi_addr_t, fi_datatype, fi_ioc, fi_msg_atomic, fi_msg_rma, fi_op, fid_ep, iovec,
};

// `fi_rma(3)`: reads and writes of remote memory.
slots! {
    fn fi_read(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
        addr: u64, key: u64, context: *mut c_void,
    ) -> isize = rma.read;
    fn fi_readv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void,
    ) -> isize = rma.readv;
    fn fi_readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize = rma.readmsg;
    fn fi_write(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        addr: u64, key: u64, context: *mut c_void,
    ) -> isize = rma.write;
    fn fi_writev(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void,
    ) -> isize = rma.writev;
    fn fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize = rma.writemsg;
    fn fi_inject_write(
        ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, addr: u64, key: u64,
    ) -> isize = rma.inject;
    fn fi_writedata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
        dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void,
    ) -> isize = rma.writedata;
    fn fi_inject_writedata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, addr: u64,
        key: u64,
    ) -> isize = rma.injectdata;
}

// `fi_atomic(3)`: atomic operations on remote memory.
slots! {
    fn fi_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void,
    ) -> isize = atomic.write;
    fn fi_atomicv(
        ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void,
    ) -> isize = atomic.writev;
    fn fi_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64,
    ) -> isize = atomic.writemsg;
    fn fi_inject_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, dest_addr: fi_addr_t, addr: u64,
        key: u64, datatype: fi_datatype, op: fi_op,
    ) -> isize = atomic.inject;
    fn fi_fetch_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype,
        op: fi_op, context: *mut c_void,
    ) -> isize = atomic.readwrite;
    fn fi_fetch_atomicv(
        ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
        resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void,
    ) -> isize = atomic.readwritev;
    fn fi_fetch_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void, result_count: usize, flags: u64,
    ) -> isize = atomic.readwritemsg;
    fn fi_compare_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
        compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype,
        op: fi_op, context: *mut c_void,
    ) -> isize = atomic.compwrite;
    fn fi_compare_atomicv(
        ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
        comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize,
        resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void,
    ) -> isize = atomic.compwritev;
    fn fi_compare_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc,
        compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void, result_count: usize, flags: u64,
    ) -> isize = atomic.compwritemsg;
    fn fi_atomicvalid(
        ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize,
    ) -> c_int = atomic.writevalid;
    fn fi_fetch_atomicvalid(
        ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize,
    ) -> c_int = atomic.readwritevalid;
    fn fi_compare_atomicvalid(
        ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize,
    ) -> c_int = atomic.compwritevalid;
}

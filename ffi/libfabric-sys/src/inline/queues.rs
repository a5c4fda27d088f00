// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of completion queues, event queues, counters, poll sets and wait sets.

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::{
    fi_addr_t, fi_cq_err_entry, fi_eq_err_entry, fid, fid_cntr, fid_cq, fid_eq, fid_poll, fid_wait,
};

// `fi_cq(3)`: calls of a completion queue.
slots! {
    fn fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize = ops.read;
    fn fi_cq_readfrom(
        cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t,
    ) -> isize = ops.readfrom;
    fn fi_cq_readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize = ops.readerr;
    fn fi_cq_sread(
        cq: *mut fid_cq, buf: *mut c_void, count: usize, cond: *const c_void, timeout: c_int,
    ) -> isize = ops.sread;
    fn fi_cq_sreadfrom(
        cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t,
        cond: *const c_void, timeout: c_int,
    ) -> isize = ops.sreadfrom;
    fn fi_cq_signal(cq: *mut fid_cq) -> c_int = ops.signal;
    fn fi_cq_strerror(
        cq: *mut fid_cq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize,
    ) -> *const c_char = ops.strerror else std::ptr::null();
}

// `fi_eq(3)`: calls of an event queue.
slots! {
    fn fi_eq_read(
        eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64,
    ) -> isize = ops.read;
    fn fi_eq_readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize = ops.readerr;
    fn fi_eq_write(
        eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64,
    ) -> isize = ops.write;
    fn fi_eq_sread(
        eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, timeout: c_int, flags: u64,
    ) -> isize = ops.sread;
    fn fi_eq_strerror(
        eq: *mut fid_eq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize,
    ) -> *const c_char = ops.strerror else std::ptr::null();
}

// `fi_cntr(3)`: calls of a counter.
slots! {
    fn fi_cntr_read(cntr: *mut fid_cntr) -> u64 = ops.read else u64::MAX;
    fn fi_cntr_readerr(cntr: *mut fid_cntr) -> u64 = ops.readerr else u64::MAX;
    fn fi_cntr_add(cntr: *mut fid_cntr, value: u64) -> c_int = ops.add;
    fn fi_cntr_adderr(cntr: *mut fid_cntr, value: u64) -> c_int = ops.adderr;
    fn fi_cntr_set(cntr: *mut fid_cntr, value: u64) -> c_int = ops.set;
    fn fi_cntr_seterr(cntr: *mut fid_cntr, value: u64) -> c_int = ops.seterr;
    fn fi_cntr_wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int = ops.wait;
}

// `fi_poll(3)`: calls of poll sets and wait sets.
slots! {
    fn fi_poll(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int = ops.poll;
    fn fi_poll_add(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int = ops.poll_add;
    fn fi_poll_del(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int = ops.poll_del;
    fn fi_wait(waitset: *mut fid_wait, timeout: c_int) -> c_int = ops.wait;
}

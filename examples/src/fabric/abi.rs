// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's C interface, as far as these programs use it.
//!
//! The declarations are the bindings that the provider is built from. libfabric's calls are inline
//! functions in C headers, which reach the provider through tables of function pointers; they are
//! written out here, one Rust function for each, under the names of the man pages. Only this folder
//! calls them.
//!
//! Every function that takes an object demands that the pointer be one which libfabric gave out and
//! which is not closed yet (*open* below), and passes on what the man page of the C function
//! demands.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

#[allow(
    dead_code,
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::ptr_as_ptr,
    clippy::use_self,
    clippy::doc_markdown,
    reason = "written by bindgen"
)]
// As bindgen writes it, or `cargo xtask bindings --check` would differ.
#[rustfmt::skip]
#[path = "../../../ffi/src/bindings.rs"]
mod bindings;

pub(super) use bindings::*;

/// The interface version these programs are written for: the oldest that the provider supports.
pub(super) const VERSION: u32 = (1 << 16) | 17;

#[link(name = "fabric")]
unsafe extern "C" {}

/// `-FI_ENOSYS`: an empty slot of an operation table.
const NO_SUCH_SLOT: i8 = -38;

/// Calls a slot of an operation table: `call!(object, table.slot(arguments))`.
macro_rules! call {
    ($object:expr, $table:ident.$slot:ident($($argument:expr),*)) => {{
        // SAFETY: the object is open (promised by the caller of the enclosing function).
        let table = unsafe { (*$object).$table };
        // SAFETY: the tables of an open object stay in place until it is closed (fi_provider(7)).
        let slot = unsafe { (*table).$slot };
        match slot {
            // SAFETY: the arguments are as the man page demands (promised by the caller).
            Some(slot) => unsafe { slot($($argument),*) },
            None => NO_SUCH_SLOT.into(),
        }
    }};
}

/// `fi_fabric(3)`, `fi_domain`. The fabric is open.
pub(super) unsafe fn fi_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
) -> c_int {
    call!(fabric, ops.domain(fabric, info, domain, std::ptr::null_mut()))
}

/// `fi_endpoint(3)`, `fi_passive_ep`. The fabric is open.
pub(super) unsafe fn fi_passive_ep(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    endpoint: *mut *mut fid_pep,
) -> c_int {
    call!(fabric, ops.passive_ep(fabric, info, endpoint, std::ptr::null_mut()))
}

/// `fi_eq(3)`, `fi_eq_open`. The fabric is open.
pub(super) unsafe fn fi_eq_open(
    fabric: *mut fid_fabric,
    attributes: *mut fi_eq_attr,
    queue: *mut *mut fid_eq,
) -> c_int {
    call!(fabric, ops.eq_open(fabric, attributes, queue, std::ptr::null_mut()))
}

/// `fi_poll(3)`, `fi_trywait`. The fabric and the `count` objects are open.
pub(super) unsafe fn fi_trywait(
    fabric: *mut fid_fabric,
    objects: *mut *mut fid,
    count: c_int,
) -> c_int {
    call!(fabric, ops.trywait(fabric, objects, count))
}

/// `fi_endpoint(3)`, `fi_endpoint`. The domain is open.
pub(super) unsafe fn fi_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
) -> c_int {
    call!(domain, ops.endpoint(domain, info, endpoint, std::ptr::null_mut()))
}

/// `fi_cq(3)`, `fi_cq_open`. The domain is open.
pub(super) unsafe fn fi_cq_open(
    domain: *mut fid_domain,
    attributes: *mut fi_cq_attr,
    queue: *mut *mut fid_cq,
) -> c_int {
    call!(domain, ops.cq_open(domain, attributes, queue, std::ptr::null_mut()))
}

/// `fi_av(3)`, `fi_av_open`. The domain is open.
pub(super) unsafe fn fi_av_open(
    domain: *mut fid_domain,
    attributes: *mut fi_av_attr,
    vector: *mut *mut fid_av,
) -> c_int {
    call!(domain, ops.av_open(domain, attributes, vector, std::ptr::null_mut()))
}

/// `fi_mr(3)`, `fi_mr_reg`, with `key` as the key that is asked for. The domain is open; the memory
/// outlives the region.
pub(super) unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    memory: *const c_void,
    len: usize,
    access: u32,
    key: u64,
    region: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the domain is open.
    let object = unsafe { &raw mut (*domain).fid };
    let access = u64::from(access);
    call!(domain, mr.reg(object, memory, len, access, 0, key, 0, region, std::ptr::null_mut()))
}

/// `fi_av(3)`, `fi_av_insert`. The vector is open; `addresses` has `count` addresses of its format,
/// and `peers` room for as many, or is null.
pub(super) unsafe fn fi_av_insert(
    vector: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    peers: *mut fi_addr_t,
) -> c_int {
    call!(vector, ops.insert(vector, addresses, count, peers, 0, std::ptr::null_mut()))
}

/// `fi_endpoint(3)`, `fi_ep_bind`. Both objects are open.
pub(super) unsafe fn fi_ep_bind(endpoint: *mut fid_ep, object: *mut fid, flags: u64) -> c_int {
    // SAFETY: the endpoint is open.
    let endpoint = unsafe { &raw mut (*endpoint).fid };
    call!(endpoint, ops.bind(endpoint, object, flags))
}

/// `fi_endpoint(3)`, `fi_pep_bind`. Both objects are open.
pub(super) unsafe fn fi_pep_bind(endpoint: *mut fid_pep, object: *mut fid) -> c_int {
    // SAFETY: the endpoint is open.
    let endpoint = unsafe { &raw mut (*endpoint).fid };
    call!(endpoint, ops.bind(endpoint, object, 0))
}

/// `fi_control(3)`: `fi_enable`, `FI_GETWAIT` and so on. The object is open.
pub(super) unsafe fn fi_control(object: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    call!(object, ops.control(object, command, argument))
}

/// `fi_fabric(3)`, `fi_close`. The object is open, and not used afterwards.
pub(super) unsafe fn fi_close(object: *mut fid) -> c_int {
    call!(object, ops.close(object))
}

/// `fi_cm(3)`, `fi_getname` of an endpoint. The endpoint is open.
pub(super) unsafe fn fi_getname(
    endpoint: *mut fid_ep,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: the endpoint is open.
    let object = unsafe { &raw mut (*endpoint).fid };
    call!(endpoint, cm.getname(object, address, len))
}

/// `fi_cm(3)`, `fi_getname` of a passive endpoint. The endpoint is open.
pub(super) unsafe fn fi_getname_passive(
    endpoint: *mut fid_pep,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: the endpoint is open.
    let object = unsafe { &raw mut (*endpoint).fid };
    call!(endpoint, cm.getname(object, address, len))
}

/// `fi_cm(3)`, `fi_listen`. The endpoint is open.
pub(super) unsafe fn fi_listen(endpoint: *mut fid_pep) -> c_int {
    call!(endpoint, cm.listen(endpoint))
}

/// `fi_cm(3)`, `fi_accept`. The endpoint is open.
pub(super) unsafe fn fi_accept(endpoint: *mut fid_ep) -> c_int {
    call!(endpoint, cm.accept(endpoint, std::ptr::null(), 0))
}

/// `fi_cm(3)`, `fi_connect`. The endpoint is open.
pub(super) unsafe fn fi_connect(endpoint: *mut fid_ep, address: *const c_void) -> c_int {
    call!(endpoint, cm.connect(endpoint, address, std::ptr::null(), 0))
}

/// `fi_eq(3)`, `fi_eq_sread`. The queue is open.
pub(super) unsafe fn fi_eq_sread(
    queue: *mut fid_eq,
    event: *mut u32,
    entry: *mut fi_eq_cm_entry,
    timeout_ms: c_int,
) -> isize {
    let len = size_of::<fi_eq_cm_entry>();
    call!(queue, ops.sread(queue, event, entry.cast::<c_void>(), len, timeout_ms, 0))
}

/// `fi_eq(3)`, `fi_eq_readerr`. The queue is open.
pub(super) unsafe fn fi_eq_readerr(queue: *mut fid_eq, entry: *mut fi_eq_err_entry) -> isize {
    call!(queue, ops.readerr(queue, entry, 0))
}

/// `fi_cq(3)`, `fi_cq_read`. The queue is open; there is room for `count` entries.
#[inline]
pub(super) unsafe fn fi_cq_read(
    queue: *mut fid_cq,
    entries: *mut fi_cq_tagged_entry,
    count: usize,
) -> isize {
    call!(queue, ops.read(queue, entries.cast::<c_void>(), count))
}

/// `fi_cq(3)`, `fi_cq_sread`. The queue is open; there is room for `count` entries.
pub(super) unsafe fn fi_cq_sread(
    queue: *mut fid_cq,
    entries: *mut fi_cq_tagged_entry,
    count: usize,
    timeout_ms: c_int,
) -> isize {
    let entries = entries.cast::<c_void>();
    call!(queue, ops.sread(queue, entries, count, std::ptr::null(), timeout_ms))
}

/// `fi_cq(3)`, `fi_cq_readerr`. The queue is open.
pub(super) unsafe fn fi_cq_readerr(queue: *mut fid_cq, entry: *mut fi_cq_err_entry) -> isize {
    call!(queue, ops.readerr(queue, entry, 0))
}

/// A buffer that an operation names, and what goes with it: `fi_msg(3)`.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    /// The first byte; valid until the operation completes.
    pub(super) memory: *mut c_void,
    /// Bytes.
    pub(super) len: usize,
    /// The memory region's descriptor, or null where the domain asks for none.
    pub(super) descriptor: *mut c_void,
    /// The operation's context, of `struct fi_context2`; valid until the operation completes.
    pub(super) context: *mut c_void,
}

/// `fi_msg(3)`, `fi_send`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_send(endpoint: *mut fid_ep, from: Operand, to: fi_addr_t) -> isize {
    let Operand { memory, len, descriptor, context } = from;
    call!(endpoint, msg.send(endpoint, memory, len, descriptor, to, context))
}

/// `fi_msg(3)`, `fi_inject`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_inject(endpoint: *mut fid_ep, from: Operand, to: fi_addr_t) -> isize {
    call!(endpoint, msg.inject(endpoint, from.memory, from.len, to))
}

/// `fi_msg(3)`, `fi_recv`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_recv(endpoint: *mut fid_ep, into: Operand) -> isize {
    let Operand { memory, len, descriptor, context } = into;
    call!(endpoint, msg.recv(endpoint, memory, len, descriptor, ANYBODY, context))
}

/// `fi_tagged(3)`, `fi_tsend`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_tsend(
    endpoint: *mut fid_ep,
    from: Operand,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    let Operand { memory, len, descriptor, context } = from;
    call!(endpoint, tagged.send(endpoint, memory, len, descriptor, to, tag, context))
}

/// `fi_tagged(3)`, `fi_tinject`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_tinject(
    endpoint: *mut fid_ep,
    from: Operand,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    call!(endpoint, tagged.inject(endpoint, from.memory, from.len, to, tag))
}

/// `fi_tagged(3)`, `fi_trecv` of exactly `tag`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_trecv(endpoint: *mut fid_ep, into: Operand, tag: u64) -> isize {
    let Operand { memory, len, descriptor, context } = into;
    call!(endpoint, tagged.recv(endpoint, memory, len, descriptor, ANYBODY, tag, 0, context))
}

/// Where in another process's memory an operation works: `fi_rma(3)`.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// Whose memory.
    pub(super) peer: fi_addr_t,
    /// Address or offset, as the other side's domain wants it.
    pub(super) address: u64,
    /// The region's key.
    pub(super) key: u64,
}

/// `fi_rma(3)`, `fi_writedata`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_writedata(
    endpoint: *mut fid_ep,
    from: Operand,
    data: u64,
    to: Target,
) -> isize {
    let Operand { memory, len, descriptor, context } = from;
    let Target { peer, address, key } = to;
    call!(
        endpoint,
        rma.writedata(endpoint, memory, len, descriptor, data, peer, address, key, context)
    )
}

/// `fi_rma(3)`, `fi_inject_writedata`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_inject_writedata(
    endpoint: *mut fid_ep,
    from: Operand,
    data: u64,
    to: Target,
) -> isize {
    let Target { peer, address, key } = to;
    call!(endpoint, rma.injectdata(endpoint, from.memory, from.len, data, peer, address, key))
}

/// `fi_rma(3)`, `fi_read`. The endpoint is open.
#[inline]
pub(super) unsafe fn fi_read(endpoint: *mut fid_ep, into: Operand, from: Target) -> isize {
    let Operand { memory, len, descriptor, context } = into;
    let Target { peer, address, key } = from;
    call!(endpoint, rma.read(endpoint, memory, len, descriptor, peer, address, key, context))
}

/// `FI_ADDR_UNSPEC`: a receive from whoever sends, a send on a connected endpoint.
pub(super) const ANYBODY: fi_addr_t = fi_addr_t::MAX;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of an endpoint: options, connections, messages and tagged messages.

use std::ffi::{c_int, c_void};

use crate::bindings::{
    fi_addr_t, fi_msg, fi_msg_tagged, fi_rx_attr, fi_tx_attr, fid, fid_ep, fid_mc, fid_pep, iovec,
};

// `fi_endpoint(3)`: contexts and options of an endpoint.
slots! {
    fn fi_cancel(ep: *mut fid_ep, context: *mut c_void) -> isize = ops.cancel;
    fn fi_getopt(
        ep: *mut fid_ep, level: c_int, optname: c_int, optval: *mut c_void, optlen: *mut usize,
    ) -> c_int = ops.getopt;
    fn fi_setopt(
        ep: *mut fid_ep, level: c_int, optname: c_int, optval: *const c_void, optlen: usize,
    ) -> c_int = ops.setopt;
    fn fi_tx_context(
        ep: *mut fid_ep, index: c_int, attr: *mut fi_tx_attr, tx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int = ops.tx_ctx;
    fn fi_rx_context(
        ep: *mut fid_ep, index: c_int, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int = ops.rx_ctx;
    fn fi_rx_size_left(ep: *mut fid_ep) -> isize = ops.rx_size_left;
    fn fi_tx_size_left(ep: *mut fid_ep) -> isize = ops.tx_size_left;
}

// `fi_cm(3)`: addresses and connections.
slots! {
    fn fi_setname(ep: *mut fid_ep, addr: *mut c_void, addrlen: usize) -> c_int = cm.setname;
    fn fi_getname(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int = cm.getname;
    fn fi_getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int = cm.getpeer;
    fn fi_connect(
        ep: *mut fid_ep, addr: *const c_void, param: *const c_void, paramlen: usize,
    ) -> c_int = cm.connect;
    fn fi_accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int = cm.accept;
    fn fi_shutdown(ep: *mut fid_ep, flags: u64) -> c_int = cm.shutdown;
    fn fi_join(
        ep: *mut fid_ep, addr: *const c_void, flags: u64, mc: *mut *mut fid_mc,
        context: *mut c_void,
    ) -> c_int = cm.join;
    fn fi_listen(pep: *mut fid_pep) -> c_int = cm.listen;
    fn fi_reject(
        pep: *mut fid_pep, handle: *mut fid, param: *const c_void, paramlen: usize,
    ) -> c_int = cm.reject;
    fn fi_setname_passive(
        pep: *mut fid_pep, addr: *mut c_void, addrlen: usize,
    ) -> c_int = cm.setname;
    fn fi_getname_passive(
        pep: *mut fid_pep, addr: *mut c_void, addrlen: *mut usize,
    ) -> c_int = cm.getname;
    fn fi_getopt_passive(
        pep: *mut fid_pep, level: c_int, optname: c_int, optval: *mut c_void, optlen: *mut usize,
    ) -> c_int = ops.getopt;
}

// `fi_msg(3)`: messages.
slots! {
    fn fi_recv(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize = msg.recv;
    fn fi_recvv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        src_addr: fi_addr_t, context: *mut c_void,
    ) -> isize = msg.recvv;
    fn fi_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize = msg.recvmsg;
    fn fi_send(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize = msg.send;
    fn fi_sendv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, context: *mut c_void,
    ) -> isize = msg.sendv;
    fn fi_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize = msg.sendmsg;
    fn fi_inject(
        ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t,
    ) -> isize = msg.inject;
    fn fi_senddata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
        dest_addr: fi_addr_t, context: *mut c_void,
    ) -> isize = msg.senddata;
    fn fi_injectdata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t,
    ) -> isize = msg.injectdata;
}

// `fi_tagged(3)`: tagged messages.
slots! {
    fn fi_trecv(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
        tag: u64, ignore: u64, context: *mut c_void,
    ) -> isize = tagged.recv;
    fn fi_trecvv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void,
    ) -> isize = tagged.recvv;
    fn fi_trecvmsg(
        ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64,
    ) -> isize = tagged.recvmsg;
    fn fi_tsend(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        tag: u64, context: *mut c_void,
    ) -> isize = tagged.send;
    fn fi_tsendv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, tag: u64, context: *mut c_void,
    ) -> isize = tagged.sendv;
    fn fi_tsendmsg(
        ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64,
    ) -> isize = tagged.sendmsg;
    fn fi_tinject(
        ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, tag: u64,
    ) -> isize = tagged.inject;
    fn fi_tsenddata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
        dest_addr: fi_addr_t, tag: u64, context: *mut c_void,
    ) -> isize = tagged.senddata;
    fn fi_tinjectdata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, tag: u64,
    ) -> isize = tagged.injectdata;
}

// `fi_collective(3)`: collective operations.
slots! {
    fn fi_barrier(
        ep: *mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void,
    ) -> isize = collective.barrier;
}

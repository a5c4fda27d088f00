// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four `bpf(2)` commands that libbpf-rs has no safe call for.
//!
//! In: plain values. Out: an owned descriptor, or the kernel's error. Caller: `redirect.rs`. Bound:
//! one system call each.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// `BPF_LINK_CREATE`: attaches `program` to interface `ifindex`, with `XDP_FLAGS_*` in `flags`. The
/// `attach_xdp` of libbpf-rs takes no flags, so it cannot choose between native and generic mode.
pub(crate) fn link_create(
    program: BorrowedFd<'_>,
    ifindex: i32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags,
        ..Default::default()
    };
    // SAFETY: `options` lives through the call and `sz` is its true size; libbpf only reads it.
    // Both pointers in it are null, as their zero lengths demand.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex, libbpf_sys::BPF_XDP, &options)
    };
    owned(fd)
}

/// `BPF_LINK_GET_FD_BY_ID`: another descriptor of the link `id`.
pub(crate) fn link_fd_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a plain number and touches no memory of ours.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    owned(fd)
}

/// `BPF_OBJ_GET_INFO_BY_FD`: the interface that XDP link `link` is attached to; 0 once it is
/// detached.
pub(crate) fn link_ifindex(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut length = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: `info` and `length` live through the call, and `length` is the size of `info`, beyond
    // which the kernel does not write.
    let result =
        unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut length) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: the union was zeroed and all its variants are plain integers, so reading any of them
    // is sound. The kernel wrote the variant `xdp`, because the caller has an XDP link.
    Ok(unsafe { info.__bindgen_anon_1.xdp }.ifindex)
}

/// `BPF_PROG_TEST_RUN`: runs `program` once on `frame` and returns its return value. The `test_run`
/// of libbpf-rs needs the whole object of the program.
pub(crate) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: u32::try_from(frame.len()).map_err(io::Error::other)?,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: `options` and `frame` live through the call, both sizes are true, the kernel only
    // reads `data_in`, and no output buffer is given.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(options.retval)
}

/// Converts the result of libbpf 1.x: a descriptor, or a negative error number.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just made this descriptor for us, and no other value owns its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

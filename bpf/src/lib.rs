// SPDX-License-Identifier: MIT OR Apache-2.0
//! The XDP program that redirects the provider's UDP ports to AF_XDP sockets, and its typed loader.
//!
//! In: an interface, and for each endpoint a queue, an address and an AF_XDP socket. Out: a
//! redirection in the kernel. Packets for that address that arrive on that queue reach that socket;
//! every other frame stays with the kernel. Caller: the AF_XDP port of `ofi-xdp-datapath`. Bound:
//! [`SLOTS`] sockets on an interface; every search ends after as many steps.
//!
//! # Sharing
//!
//! All endpoints of all processes on one interface share one program, without a daemon and without
//! pinned files:
//!
//! ```text
//!   process A                     kernel                          process B
//!   Redirect ── link fd ──▶ bpf_link ◀────────────────────── link fd ── Redirect
//!                              │ attaches
//!                         program ofi_xdp
//!                         │ ports:    UDP port → queue, slot, address
//!   Claim ── map fds ───▶ │ sockets:  slot → AF_XDP socket ◀── map fds ── Claim
//!                         │ counters: verdict → frames
//!                         │ passed:   slot → packets left to the kernel socket
//! ```
//!
//! 1. The first process loads the program and attaches it by a `bpf_link`.
//! 2. A later process finds the program on the interface. It recognises it by name and tag, the
//!    hash of its instructions, and gets descriptors of the link and the maps by their ids.
//! 3. The kernel detaches the program when the last descriptor of the link closes, by [`Drop`],
//!    exit or `SIGKILL`.
//!
//! A process that passes its sockets on, as `xdp-broker` does, attaches the program under another
//! name ([`Redirect::open_lent`]). A process that joins it closes its descriptor of the link, so
//! the program goes with the process that attached it.
//!
//! A slot of `sockets` belongs to the first process that puts a socket there. The kernel empties
//! the slot when the socket closes, also by `SIGKILL`. It does not delete entries of `ports`: the
//! next owner of the slot deletes the entries that a dead predecessor has left.
//!
//! A stale entry is harmless. If its slot is empty, the program passes the packet. If its slot has
//! a socket of another address, the receiver drops the packet by its address. An entry is not stale
//! while another process keeps its socket: it goes with the program of the process that passed the
//! socket on. An endpoint that claims the port of a stale entry during the deletion may lose its
//! own entry. Therefore an endpoint without packets checks its claim ([`Claim::is_valid`]).
//!
//! Getting descriptors by id needs `CAP_SYS_ADMIN` (`bpf(2)`, `BPF_LINK_GET_FD_BY_ID`); attaching
//! does not. Without it the second process gets [`Error::Permission`] and stays on its kernel
//! socket. The process that attached the program needs no id for further endpoints (`attached.rs`).

#![deny(unsafe_code)]

mod attach_mode;
mod attached;
mod claim;
mod error;
mod layout;
mod maps;
mod process_list;
mod raw;
mod redirect;
mod skeleton;

pub use attach_mode::AttachMode;
pub use attached::unlock_programs_in_child;
pub use claim::Claim;
pub use error::Error;
pub use layout::{Counters, EndpointAddress, QUEUES, SLOTS, Verdict};
pub use process_list::ProcessList;
pub use redirect::Redirect;

/// The loaded program, for running it on single frames without an interface.
pub mod program {
    pub use crate::redirect::Loaded;
}

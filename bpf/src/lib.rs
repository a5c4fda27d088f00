// SPDX-License-Identifier: MIT OR Apache-2.0
//! The XDP program that redirects the provider's UDP ports to AF_XDP sockets, and its typed loader.
//!
//! In come an interface, and for each endpoint a queue, an address and an AF_XDP socket; out goes
//! the kernel's promise that packets for that address which arrive on that queue reach that socket,
//! and that every other frame stays with the kernel. The AF_XDP port of `ofi-xdp-datapath` is the
//! only caller. Bounds: [`SLOTS`] sockets on an interface; every search here ends after as many
//! steps.
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
//! 2. A later one finds it on the interface, knows it by name and tag (the hash of its
//!    instructions), and takes descriptors of link and maps by their ids.
//! 3. The kernel detaches the program when the last descriptor of the link closes, whether by
//!    [`Drop`], exit or `SIGKILL`.
//!
//! A slot of `sockets` belongs to whoever put a socket there first; the kernel empties it when the
//! socket closes, also by `SIGKILL`. Entries of `ports` have no such help, so the owner of a slot
//! first deletes the entries that a dead predecessor left pointing at it. Until then such an entry
//! is harmless: its slot is empty and the program passes the packet, or the socket there is of
//! another address and the receiver drops the packet by the address in it. Who claims the port of
//! such an entry while that is being deleted may lose its own; so owners whose packets stay away
//! ask whether their claim stands ([`Claim::stands`]).
//!
//! Taking descriptors by id needs `CAP_SYS_ADMIN` (`bpf(2)`, `BPF_LINK_GET_FD_BY_ID`), which
//! attaching does not: without it the second process gets [`Error::Permission`] and stays on its
//! kernel socket. The process that attached the program needs no id for further endpoints: it
//! remembers (`held.rs`).

#![deny(unsafe_code)]

mod claim;
mod error;
mod held;
mod maps;
mod raw;
mod redirect;
mod skeleton;

pub use claim::Claim;
pub use error::Error;
pub use maps::{Counters, SLOTS, Verdict};
pub use redirect::{AttachMode, Redirect};

/// The program as it is loaded, for running it on single frames without an interface.
pub mod program {
    pub use crate::redirect::Loaded;
}

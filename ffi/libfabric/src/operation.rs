// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of operations, as completions report them (`fi_cq(3)`).

/// The kind of a posted operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// `fi_send` or `fi_tsend`.
    Send,
    /// `fi_recv` or `fi_trecv`.
    Receive,
    /// `fi_writedata`.
    Write,
    /// `fi_read`.
    Read,
    /// `fi_fetch_atomic`.
    Atomic,
    /// Another side's write to our memory, with remote CQ data.
    RemoteWrite,
    /// A kind that the provider did not report.
    Unknown,
}

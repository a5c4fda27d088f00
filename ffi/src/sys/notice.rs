// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages to the user: what keeps an application from what its user asked for.
//!
//! libfabric shows warnings of its log at `FI_LOG_LEVEL=warn` only. Such a message goes to standard
//! error too, one line, once in a process: what, why, and what mends it. `FI_XDP_QUIET=1` keeps it
//! to the log.
//!
//! In: messages of any module. Out: a line on standard error, and a warning in the log. Called when
//! a call or an operation has failed, never on the data path. Bound: a line for each [`Notice`].

use std::fmt;
use std::io::Write as _;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kind of message, which is said once.
#[derive(Debug)]
pub(crate) struct Notice {
    said: Once,
}

/// Whether standard error is left alone (`FI_XDP_QUIET`).
static QUIET: AtomicBool = AtomicBool::new(false);

impl Notice {
    /// A kind that has not been said. Its text is `_row` of the table in `docs/fi_xdp.7.md`, where
    /// `…` and names stand for what differs; a test holds each row and the table together.
    pub(crate) const fn new(_row: &'static str) -> Self {
        Self { said: Once::new() }
    }

    /// Says `message` unless this kind was said before.
    #[cold]
    pub(crate) fn tell(&self, message: fmt::Arguments<'_>) {
        self.said.call_once(|| say(message));
    }
}

/// Keeps messages to the log, or not.
pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

fn say(message: fmt::Arguments<'_>) {
    log::warn!(target: "core", "{message}");
    if !QUIET.load(Ordering::Relaxed) {
        // One write, so that lines of several processes stay apart. It may be closed.
        let _ = std::io::stderr().write_all(format!("xdp: {message}\n").as_bytes());
    }
}

/// No interface has the name of `FI_XDP_IFACE`.
pub(crate) fn no_interface(name: &str, known: &[&str]) {
    static NOTICE: Notice = Notice::new("FI_XDP_IFACE=x: …");
    let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
    NOTICE.tell(format_args!(
        "FI_XDP_IFACE={name}: no interface of this name is up with an address; those that are: \
         {known}; `ip -brief address` lists all, `ip link set {name} up` mends one that is down"
    ));
}

/// The tier that `FI_XDP_TIER` names is not to be had on an interface.
pub(crate) fn no_tier(interface: &str, reason: &str) {
    static NOTICE: Notice = Notice::new("FI_XDP_TIER=af_xdp: not on x: …");
    NOTICE.tell(format_args!("FI_XDP_TIER=af_xdp: not on {interface}: {reason}"));
}

/// `FI_XDP_TIER` asks for hardware alone, and no provider for hardware has an offer.
pub(crate) fn no_hardware(summary: &str) {
    static NOTICE: Notice = Notice::new("FI_XDP_TIER=passthrough: …");
    NOTICE.tell(format_args!(
        "FI_XDP_TIER=passthrough: {summary}; `FI_XDP_TIER=auto` has offers without hardware"
    ));
}

/// The packets of an interface are too small for an endpoint.
pub(crate) fn small_mtu(interface: &str, mtu: u32) {
    static NOTICE: Notice = Notice::new("x has an MTU of value bytes: …");
    NOTICE.tell(format_args!(
        "{interface} has an MTU of {mtu} bytes: no endpoint opens there; \
         `ip link set {interface} mtu 1500`"
    ));
}

/// An endpoint has a lower tier than the best possible one. The user is told if a variable asks for
/// a better one, `named`, else the log.
pub(crate) fn lower_tier(named: Option<&str>, status: &str) {
    static NOTICE: Notice = Notice::new("… an endpoint has not got it: …");
    static WARNING: Once = Once::new();
    match named {
        Some(named) => NOTICE.tell(format_args!("{named}: an endpoint has not got it: {status}")),
        None => WARNING.call_once(|| log::warn!(target: "ep_ctrl", "{status}")),
    }
}

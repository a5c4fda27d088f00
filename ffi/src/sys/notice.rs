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
    /// A kind that has not been said.
    pub(crate) const fn new() -> Self {
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
pub(crate) fn no_interface(name: &str, known: &str) {
    static NOTICE: Notice = Notice::new();
    NOTICE.tell(format_args!(
        "FI_XDP_IFACE={name}: no interface of this name is up with an address; there are: {known}; \
         `ip -brief address` lists them"
    ));
}

/// The tier that `FI_XDP_TIER` names is not to be had on an interface.
pub(crate) fn no_tier(interface: &str, reason: &str) {
    static NOTICE: Notice = Notice::new();
    NOTICE.tell(format_args!("FI_XDP_TIER=af_xdp: not on {interface}: {reason}"));
}

/// An endpoint has a lower tier than the best possible one. The user is told if the variable names
/// a better one, else the log.
pub(crate) fn lower_tier(is_named: bool, status: &str) {
    static NOTICE: Notice = Notice::new();
    static WARNING: Once = Once::new();
    if is_named {
        NOTICE.tell(format_args!("FI_XDP_TIER=af_xdp: an endpoint has not got it: {status}"));
    } else {
        WARNING.call_once(|| log::warn!(target: "ep_ctrl", "{status}"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of opening an `AF_XDP` port, with advice for the user.
//!
//! In: an `errno` of the kernel, an answer of the broker, the result of a self-test. Out: one
//! sentence each, for the log and `fi_getinfo`. Callers: all folders that open a part of the port.
//! Bound: one value an attempt.

use std::fmt;
use std::io;
use std::time::Duration;

use nix::errno::Errno;

/// Error of a system call on an `AF_XDP` socket, its rings or its memory.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}{advice}")]
pub struct RingsError {
    what: &'static str,
    source: io::Error,
    advice: String,
}

impl RingsError {
    /// The error of a system call that was to `what`.
    pub(crate) const fn os(what: &'static str, source: io::Error) -> Self {
        Self { what, source, advice: String::new() }
    }

    /// Appends `advice` to the message if the operating system reported `errno`.
    pub(crate) fn with_advice(mut self, errno: Errno, advice: &str) -> Self {
        if self.is(errno) {
            self.advice = format!("; {advice}");
        }
        self
    }

    /// Whether the operating system reported `errno`.
    pub(crate) fn is(&self, errno: Errno) -> bool {
        self.raw_os_error() == Some(errno as i32)
    }

    /// The `errno` of the operating system.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// Missing capabilities for `AF_XDP`, with advice how to grant them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing(pub(crate) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Failure of the self-test: the driver bound the socket and moves no packets.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// A frame given to the tx ring never left.
    #[error("self-test: the driver bound the socket and sent nothing in {} ms", .0.as_millis())]
    NoTransmit(Duration),
    /// Packets arrive without the socket, and none arrives with it.
    #[error(
        "self-test: neighbours answer, and with the socket bound nothing came in for {} ms",
        .0.as_millis()
    )]
    NoReceive(Duration),
    /// Waking the kernel fails.
    #[error("self-test: wake the AF_XDP socket: {0}")]
    Wake(#[from] io::Error),
}

/// Reason why the broker granted no socket.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker cannot be reached.
    #[error("xdp-broker at {path}: {source}")]
    Absent {
        /// Path of its socket.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The answer is not one of this version's messages.
    #[error("xdp-broker at {path} is of another version")]
    UnknownAnswer {
        /// Path of its socket.
        path: String,
    },
    /// The broker refused the request.
    #[error("xdp-broker: {reason}")]
    Refused {
        /// The broker's reason.
        reason: String,
    },
}

/// Reason why there is no `AF_XDP` port.
#[derive(Debug, thiserror::Error)]
pub enum XskError {
    /// The socket cannot be made, or not bound in this mode.
    #[error(transparent)]
    Bind(#[from] RingsError),
    /// The interface's MTU leaves no room for a packet.
    #[error("the interface's MTU of {mtu} bytes is too small")]
    Mtu {
        /// The MTU.
        mtu: u32,
    },
    /// Capabilities are missing, and no broker stands in for them.
    #[error("{missing}; {broker}")]
    Privilege {
        /// The missing capabilities.
        missing: Missing,
        /// The broker's answer, or that no broker is configured.
        broker: String,
    },
    /// The broker refused the request or gave an unknown answer.
    #[error(transparent)]
    Broker(BrokerError),
    /// The program cannot be attached, or the port cannot be claimed.
    #[error(transparent)]
    Program(#[from] ofi_xdp_bpf::Error),
    /// Zero-copy needs the program in native mode, and another process attached it in generic mode.
    #[error("another process attached the XDP program in generic mode")]
    Generic,
    /// The socket was bound, and the self-test failed.
    #[error(transparent)]
    SelfTest(#[from] SelfTestError),
    /// The socket was bound for zero-copy, and the kernel reports that it copies.
    #[error("the kernel bound the socket and says that it copies (XDP_OPTIONS)")]
    Copies,
}

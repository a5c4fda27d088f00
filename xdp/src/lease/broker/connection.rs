// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client's connection to the broker. It stands for the lease that was granted over it.
//!
//! In: a connected Unix socket. Out: whether the broker still holds the lease. Caller:
//! `socket_lease.rs`. Bound: one system call.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, recv};

use crate::fork::Uninherited;

/// A connection to the broker; closing it ends the lease.
#[derive(Debug)]
pub(crate) struct BrokerConnection {
    /// In front of its descriptor, as the fields are dropped in this order.
    _uninherited: Uninherited,
    stream: UnixStream,
}

impl BrokerConnection {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { _uninherited: Uninherited::new(&stream), stream }
    }

    /// Ends the lease.
    pub(crate) fn shut_down(&self) {
        // Fails where the broker has done it.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether the broker still holds the lease. The broker sends nothing after its answer, and
    /// closes the connection when the program is gone.
    pub(crate) fn is_open(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        matches!(recv(&self.stream, &mut byte, flags), Err(rustix::io::Errno::AGAIN))
    }
}

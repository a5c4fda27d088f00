// SPDX-License-Identifier: MIT OR Apache-2.0
//! The credentials of a client, as the kernel recorded them at `connect(2)`.
//!
//! In: a connection. Out: user, groups and process id (`SO_PEERCRED`, `SO_PEERGROUPS`, unix(7)).
//! Statements of the client itself do not count. Callers: `server.rs`, `policy.rs`. Bound: two
//! system calls.

use std::fmt;
use std::io;
use std::os::fd::AsFd as _;

use crate::connection::ClientConnection;
use crate::raw;

/// Credentials of a process, at the time when it connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Credentials {
    /// Effective user.
    pub(crate) uid: u32,
    /// Effective group and supplementary groups.
    pub(crate) groups: Vec<u32>,
    /// The process id, for log lines only: another process may have it by now. It is 0 for a
    /// process of another PID namespace.
    pub(crate) pid: u32,
}

impl Credentials {
    /// The credentials of the process that made `connection`.
    pub(crate) fn of(connection: &ClientConnection) -> io::Result<Self> {
        let [pid, uid, gid] = raw::peer_credentials(connection.as_fd())?;
        let mut groups = raw::peer_groups(connection.as_fd())?;
        groups.push(gid);
        Ok(Self { uid, groups, pid })
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} (process {})", self.uid, self.pid)
    }
}

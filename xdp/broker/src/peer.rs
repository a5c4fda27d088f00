// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is at the other end of a connection.
//!
//! A connection comes in; what the kernel knew of the process that made it goes out
//! (`SO_PEERCRED`, `SO_PEERGROUPS`, unix(7)). Nothing that the process says itself is believed.

use std::fmt;
use std::io;
use std::os::fd::AsFd as _;

use rustix::net::sockopt::socket_peercred;

use crate::connection::Connection;
use crate::raw;

/// A process, as it was when it connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// Effective user.
    pub(crate) uid: u32,
    /// Effective group, and supplementary ones.
    pub(crate) groups: Vec<u32>,
    /// Its number, for people only: another process may have it by now.
    pub(crate) pid: i32,
}

impl Peer {
    /// Who made `connection`.
    pub(crate) fn of(connection: &Connection) -> io::Result<Self> {
        let credentials = socket_peercred(connection)?;
        let mut groups = raw::peer_groups(connection.as_fd())?;
        groups.push(credentials.gid.as_raw());
        let pid = credentials.pid.as_raw_nonzero().get();
        Ok(Self { uid: credentials.uid.as_raw(), groups, pid })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} (process {})", self.uid, self.pid)
    }
}

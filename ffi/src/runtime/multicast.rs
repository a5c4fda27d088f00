// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast groups of an endpoint of datagrams (`fi_join(3)`).
//!
//! In: groups. Out: memberships of the port, and addresses to send to. Bound: those of
//! [`PeerMap`](super::peers::PeerMap).

use std::net::SocketAddr;

use ofi_xdp_core::PeerAddress;

use super::{Runtime, State};
use crate::sys::abi::fi_addr_t;
use crate::sys::errno::Error;

impl Runtime {
    /// Joins a group at its port; at the endpoint's own port where the group names none. With
    /// `receives` its packets are received.
    ///
    /// # Errors
    /// [`Error::Os`] of the kernel, also for a group that was joined before; [`Error::NoMemory`]
    /// beyond the bound.
    pub(crate) fn join(&self, group: SocketAddr, receives: bool) -> Result<fi_addr_t, Error> {
        let mut state = self.lock();
        let State { engine, port, peers, .. } = &mut *state;
        let at = if group.port() == 0 { port.local_addr().port() } else { group.port() };
        let group = SocketAddr::new(group.ip(), at);
        let name = PeerAddress::from(group);
        let address = peers.admit_group(name)?;
        let failed = |error: std::io::Error| Error::Os(error.raw_os_error().unwrap_or(libc::EIO));
        port.join(group, receives).map_err(failed)?;
        let joined = engine.with_mut(|engine| peers.join_group(engine, address, name));
        joined.inspect_err(|_| port.leave(group)).map(|()| address)
    }

    /// Leaves a group.
    pub(crate) fn leave(&self, address: fi_addr_t) {
        let mut state = self.lock();
        let State { port, peers, .. } = &mut *state;
        if let Some(name) = peers.leave_group(address) {
            port.leave(name.socket_addr());
        }
    }
}

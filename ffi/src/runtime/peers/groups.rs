// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multicast groups that an endpoint of datagrams has joined (`fi_join(3)`), as peers.
//!
//! In: groups. Out: a `fi_addr_t` for each, and the engine's peer behind it. These addresses end
//! below `FI_ADDR_UNSPEC`, where an address vector has no index. Bound: [`GROUPS_MAX`].

use ofi_xdp_core::{PeerAddress, PeerId};

use crate::sys::abi::{ADDR_NONE, fi_addr_t};
use crate::sys::errno::Error;

/// Most groups of an endpoint.
pub(crate) const GROUPS_MAX: u64 = 64;
/// The address of the first group.
const FIRST: fi_addr_t = ADDR_NONE - GROUPS_MAX;

/// Whether an address is that of a group.
#[inline]
pub(crate) const fn is_of_group(address: fi_addr_t) -> bool {
    FIRST <= address && address < ADDR_NONE
}

/// A group, and its peer in the engine.
#[derive(Clone, Copy, Debug)]
struct JoinedGroup {
    name: PeerAddress,
    peer: PeerId,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct JoinedGroups {
    /// By the difference of its address to [`FIRST`].
    groups: Vec<Option<JoinedGroup>>,
}

impl JoinedGroups {
    /// A free address for the group `name`.
    ///
    /// # Errors
    /// [`Error::Os`] if it was joined before; [`Error::NoMemory`] where all addresses are in use.
    pub(super) fn admit(&mut self, name: PeerAddress) -> Result<fi_addr_t, Error> {
        if self.groups.iter().flatten().any(|group| group.name == name) {
            return Err(Error::Os(libc::EADDRINUSE));
        }
        let free = self.groups.iter().position(Option::is_none);
        let index = free.unwrap_or(self.groups.len()) as u64;
        if index >= GROUPS_MAX {
            return Err(Error::NoMemory);
        }
        if free.is_none() {
            self.groups.try_reserve(1).map_err(|_| Error::NoMemory)?;
            self.groups.push(None);
        }
        Ok(FIRST + index)
    }

    /// Records the group at an address that [`Self::admit`] has returned.
    pub(super) fn set(&mut self, address: fi_addr_t, name: PeerAddress, peer: PeerId) {
        if let Some(slot) = self.groups.get_mut(index(address)) {
            *slot = Some(JoinedGroup { name, peer });
        }
    }

    /// The peer of a group.
    pub(super) fn peer(&self, address: fi_addr_t) -> Option<PeerId> {
        self.groups.get(index(address)).copied().flatten().map(|group| group.peer)
    }

    /// Forgets a group; its name and peer.
    pub(super) fn remove(&mut self, address: fi_addr_t) -> Option<(PeerAddress, PeerId)> {
        let group = self.groups.get_mut(index(address))?.take()?;
        Some((group.name, group.peer))
    }

    /// Whether a group has this peer.
    pub(super) fn has(&self, peer: PeerId) -> bool {
        self.groups.iter().flatten().any(|group| group.peer == peer)
    }
}

fn index(address: fi_addr_t) -> usize {
    address.checked_sub(FIRST).map_or(usize::MAX, |index| index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_addresses_of_their_own_until_they_are_left() {
        let mut joined = JoinedGroups::default();
        let name = |n: u8| PeerAddress::from_v4([239, 1, 1, n], 7000);
        for n in 0..GROUPS_MAX as u8 {
            let address = joined.admit(name(n)).unwrap();
            assert!(is_of_group(address) && !is_of_group(u64::from(n)), "{address}");
            joined.set(address, name(n), PeerId::new(u32::from(n), 0));
            assert_eq!(joined.peer(address), Some(PeerId::new(u32::from(n), 0)));
        }
        assert!(!is_of_group(ADDR_NONE));
        assert_eq!(joined.admit(name(7)), Err(Error::Os(libc::EADDRINUSE)));
        assert_eq!(joined.admit(name(200)), Err(Error::NoMemory));
        let freed = FIRST + 7;
        assert_eq!(joined.remove(freed), Some((name(7), PeerId::new(7, 0))));
        assert_eq!((joined.remove(freed), joined.peer(freed)), (None, None));
        assert!(!joined.has(PeerId::new(7, 0)) && joined.has(PeerId::new(8, 0)));
        assert_eq!(joined.admit(name(7)), Ok(freed));
        assert_eq!(joined.peer(3), None);
    }
}

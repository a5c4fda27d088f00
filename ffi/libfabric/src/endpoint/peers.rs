// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses: an endpoint's own name, and peers in its address vector, one by one or in one call
//! (`fi_av(3)`).
//!
//! In: names that peers have sent. Out: [`Peer`]s to send to. Bound: [`NAME_MAX`] bytes a name.

use std::net::{SocketAddr, SocketAddrV4};

use super::Endpoint;
use crate::name::{NAME_MAX, Name, named};
use crate::owned::{check, failure};
use crate::raw::abi;
use crate::{Error, Info};

/// A peer in the address vector: `fi_addr_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub(super) abi::fi_addr_t);

impl Peer {
    /// The other end of a connected endpoint.
    pub const CONNECTED: Self = Self(abi::FI_ADDR_UNSPEC);
}

impl Endpoint {
    /// This endpoint's address, to be given to peers.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn name(&self) -> Result<Name, Error> {
        named(self.endpoint.getname(NAME_MAX).0)
    }

    /// Adds a peer to the address vector.
    ///
    /// # Errors
    /// [`Error::Call`] when the provider does not take the name, or when the endpoint is a
    /// connected one.
    pub fn insert(&mut self, name: &Name) -> Result<Peer, Error> {
        let failed = || failure("fi_av_insert", libc::EINVAL);
        let addresses = self.addresses.as_ref().ok_or_else(failed)?;
        // Providers read as many bytes as their address format has, also of a shorter name.
        let mut bytes = [0_u8; NAME_MAX];
        let len = name.0.len().min(NAME_MAX);
        bytes[..len].copy_from_slice(&name.0[..len]);
        let context = std::ptr::null_mut();
        let (count, peers) = check("fi_av_insert", addresses.insert_all(&bytes, 1, 0, context))?;
        if count == 1 { Ok(Peer(peers[0])) } else { Err(failed()) }
    }

    /// Removes a peer, to which no operation is under way, from the address vector.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn remove(&mut self, peer: Peer) -> Result<(), Error> {
        let failed = || failure("fi_av_remove", libc::EINVAL);
        let addresses = self.addresses.as_ref().ok_or_else(failed)?;
        check("fi_av_remove", addresses.remove(&[peer.0]))
    }

    /// Adds peers at IPv4 addresses, all in one call. `info` is the offer of the endpoint.
    ///
    /// # Errors
    /// [`Error::Call`] unless all were taken.
    pub fn insert_many(&mut self, info: &Info, peers: &[SocketAddrV4]) -> Result<(), Error> {
        let vector = self.addresses.as_ref().filter(|_| info.takes_ipv4());
        let vector = vector.ok_or_else(|| failure("fi_av_insert", libc::EINVAL))?;
        let mut bytes = Vec::with_capacity(peers.len() * size_of::<libc::sockaddr_in>());
        for peer in peers {
            bytes.extend(Name::from(SocketAddr::V4(*peer)).0);
        }
        let inserted = check("fi_av_insert", vector.insert_blind(&bytes, peers.len()))?;
        let all = inserted == peers.len();
        if all { Ok(()) } else { Err(failure("fi_av_insert", libc::ENOSPC)) }
    }
}

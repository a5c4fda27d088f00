// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is who: an endpoint's own name, and peers in its address vector, one by one or by the
//! thousand (`fi_av(3)`).
//!
//! In: names that peers have sent. Out: [`Peer`]s to send to. Bound: [`NAME_MAX`] bytes a name.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::net::{SocketAddr, SocketAddrV4};

use super::super::object::{check, failure};
use super::super::{Error, Info, Name, abi};
use super::Endpoint;

/// No provider's address is longer: `FI_NAME_MAX` is 64.
const NAME_MAX: usize = 256;

/// A peer in the address vector: `fi_addr_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub(super) abi::fi_addr_t);

impl Peer {
    /// The other end of a connected endpoint.
    pub const CONNECTED: Self = Self(abi::ANYBODY);
}

impl Endpoint {
    /// This endpoint's address, to be given to peers.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn name(&self) -> Result<Name, Error> {
        read_name(|address, len| {
            // SAFETY: the endpoint is open; `address` has room for `len` bytes.
            unsafe { abi::fi_getname(self.endpoint.as_ptr(), address, len) }
        })
    }

    /// Adds a peer to the address vector.
    ///
    /// # Errors
    /// [`Error::Call`] when the provider does not take the name, or when the endpoint is a
    /// connected one.
    pub fn insert(&mut self, name: &Name) -> Result<Peer, Error> {
        let failed = || failure("fi_av_insert", libc::EINVAL);
        let addresses = self.addresses.as_ref().ok_or_else(failed)?;
        let mut peer = abi::ANYBODY;
        // Providers read as many bytes as their address format has, whatever a stranger's name has.
        let mut bytes = [0_u8; NAME_MAX];
        let len = name.0.len().min(NAME_MAX);
        bytes[..len].copy_from_slice(&name.0[..len]);
        let address = bytes.as_ptr().cast::<c_void>();
        // SAFETY: the vector is open; the address is longer than any address format's.
        let count = unsafe { abi::fi_av_insert(addresses.as_ptr(), address, 1, &raw mut peer) };
        check("fi_av_insert", count)?;
        if count == 1 { Ok(Peer(peer)) } else { Err(failed()) }
    }

    /// Adds peers at IPv4 addresses, all in one call. `info` is what the endpoint was opened with.
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
        let (first, count) = (bytes.as_ptr().cast::<c_void>(), peers.len());
        // SAFETY: the vector is open; `bytes` holds `count` addresses of its format, FI_SOCKADDR_IN
        // (asked above); no answer is asked for.
        let inserted =
            unsafe { abi::fi_av_insert(vector.as_ptr(), first, count, std::ptr::null_mut()) };
        check("fi_av_insert", inserted)?;
        let all = usize::try_from(inserted).is_ok_and(|inserted| inserted == count);
        if all { Ok(()) } else { Err(failure("fi_av_insert", libc::ENOSPC)) }
    }
}

/// `fi_getname` of whatever endpoint.
pub(in crate::fabric) fn read_name(
    read: impl FnOnce(*mut c_void, *mut usize) -> i32,
) -> Result<Name, Error> {
    let mut bytes = vec![0_u8; NAME_MAX];
    let mut len = bytes.len();
    check("fi_getname", read(bytes.as_mut_ptr().cast::<c_void>(), &raw mut len))?;
    bytes.truncate(len);
    Ok(Name(bytes))
}

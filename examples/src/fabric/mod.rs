// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small safe client of libfabric, for the programs of this project.
//!
//! What comes in: a wish ([`Want`]) and messages. What goes out: messages to a peer, and
//! completions. The steps, which are every libfabric program's:
//!
//! 1. [`Info::find`]: `fi_getinfo` picks what satisfies the wish;
//! 2. [`Endpoint::open`]: fabric, domain, completion queue, address vector, endpoint, enabled;
//! 3. [`Endpoint::name`] and [`Endpoint::insert`]: addresses, exchanged by other means;
//! 4. [`Endpoint::receive`], [`Endpoint::send`], [`Endpoint::poll`]: the data path, which allocates
//!    nothing.
//!
//! An endpoint of type `FI_EP_MSG` is connected instead (steps 2 and 3): [`Listener::accept`] and
//! [`Endpoint::connect`].
//!
//! Bounds: an endpoint owns its buffers, a fixed number of [`Setup::slots`], and one operation at
//! most is under way on each. That is also what makes the interface safe: a buffer cannot be
//! touched while an operation has it, and outlives the endpoint.
//!
//! `unsafe` is in `abi`, `buffers`, `endpoint` and its parts, `info`, `listener` and `object`, and
//! nowhere else in this package.

use std::net::SocketAddr;

mod abi;
mod buffers;
mod endpoint;
mod error;
mod info;
mod listener;
mod object;

pub use endpoint::{
    Completion, Endpoint, Operation, Peer, Place, RemoteRegion, Route, Setup, Wait,
};
pub use error::Error;
pub use info::{Info, Kind, Want};
pub use listener::Listener;
pub use object::version;

/// An endpoint's address as the provider writes it: opaque bytes, to be carried to the peer.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Name(pub Vec<u8>);

/// The name of an endpoint at an IP address and port, for providers with the address formats
/// `FI_SOCKADDR_IN` and `FI_SOCKADDR_IN6` (`fi_getinfo(3)`): a `struct sockaddr_in` or
/// `sockaddr_in6`.
impl From<SocketAddr> for Name {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = Vec::with_capacity(size_of::<libc::sockaddr_in6>());
        match address {
            SocketAddr::V4(v4) => {
                bytes.extend((libc::AF_INET as u16).to_ne_bytes());
                bytes.extend(v4.port().to_be_bytes());
                bytes.extend(v4.ip().octets());
                bytes.resize(size_of::<libc::sockaddr_in>(), 0);
            }
            SocketAddr::V6(v6) => {
                bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
                bytes.extend(v6.port().to_be_bytes());
                bytes.extend(v6.flowinfo().to_be_bytes());
                bytes.extend(v6.ip().octets());
                bytes.extend(v6.scope_id().to_ne_bytes());
            }
        }
        Self(bytes)
    }
}

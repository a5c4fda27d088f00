// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints: addresses in the provider's format (`fi_cm(3)`, `fi_getname`).

use std::net::SocketAddr;

use crate::Error;
use crate::owned::check;
use crate::raw::Answer;

/// No provider's address is longer: `FI_NAME_MAX` is 64.
pub(crate) const NAME_MAX: usize = 256;

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

/// The answer of `fi_getname` as a name.
pub(crate) fn named(answer: Answer<Vec<u8>>) -> Result<Name, Error> {
    check("fi_getname", answer).map(Name)
}

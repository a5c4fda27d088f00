// SPDX-License-Identifier: MIT OR Apache-2.0
//! Socket addresses in C's layout: `struct sockaddr_in` and `struct sockaddr_in6`.
//!
//! Fields are read and written by offset, because C's bytes may be unaligned and are not trusted.
//! Flow label and padding are ignored in input and zero in output.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::sys::abi;

/// Length of a `struct sockaddr_in`.
pub(crate) const V4_LEN: usize = size_of::<libc::sockaddr_in>();
/// Length of a `struct sockaddr_in6`.
pub(crate) const V6_LEN: usize = size_of::<libc::sockaddr_in6>();

/// An address in C's layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketAddress {
    bytes: [u8; V6_LEN],
    len: usize,
}

impl SocketAddress {
    /// The bytes of the address.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; V6_LEN];
        let [_, _, p0, p1, ..] = &mut bytes;
        [*p0, *p1] = address.port().to_be_bytes();
        let (family, len) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, V4_LEN)
            }
            SocketAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, V6_LEN)
            }
        };
        let family = libc::sa_family_t::try_from(family).unwrap_or_default();
        bytes[..2].copy_from_slice(&family.to_ne_bytes());
        Self { bytes, len }
    }
}

/// The address in `bytes`; `None` for another family, or too few bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match i32::from(libc::sa_family_t::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let (ip, _) = rest.split_first_chunk::<4>()?;
            Some(SocketAddr::new(Ipv4Addr::from_octets(*ip).into(), port))
        }
        libc::AF_INET6 => {
            let (_flow, rest) = rest.split_first_chunk::<4>()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let (scope, _) = rest.split_first_chunk::<4>()?;
            let ip = Ipv6Addr::from_octets(*ip);
            Some(SocketAddrV6::new(ip, port, 0, u32::from_ne_bytes(*scope)).into())
        }
        _ => None,
    }
}

/// The address in the form of `fi_av_straddr(3)`.
pub(crate) fn text(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(_) => format!("fi_sockaddr_in://{address}"),
        SocketAddr::V6(_) => format!("fi_sockaddr_in6://{address}"),
    }
}

/// Node and service of an address in the format `FI_ADDR_STR` (`fi_getinfo(3)`):
/// `fi_sockaddr_in://198.18.0.1:7471`, `fi_sockaddr_in6://[2001:db8::1]:7471`. The node may be a
/// name, and both parts may be absent. The rest after `/` or `?` (`?qos=3`) is ignored. `None` if
/// `text` has another format.
pub(crate) fn split_text(text: &str) -> Option<(Option<&str>, Option<&str>)> {
    let prefixes = ["fi_sockaddr://", "fi_sockaddr_in://", "fi_sockaddr_in6://"];
    let rest = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let rest = rest.split(['/', '?']).next()?;
    let (host, service) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').unwrap_or(rest)),
        None => rest.split_once(':').unwrap_or((rest, "")),
    };
    let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
    Some((given(host), given(service)))
}

/// `FI_SOCKADDR_IN` or `FI_SOCKADDR_IN6`.
pub(crate) const fn format_of(ip: &IpAddr) -> u32 {
    match ip {
        IpAddr::V4(_) => abi::FI_SOCKADDR_IN,
        IpAddr::V6(_) => abi::FI_SOCKADDR_IN6,
    }
}

/// Length of an address of this family.
pub(crate) const fn len_of(ip: &IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => V4_LEN,
        IpAddr::V6(_) => V6_LEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_round_trip() {
        for address in ["198.18.0.1:7471", "[2001:db8::1]:1", "[fe80::1%3]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(decode(SocketAddress::from(address).bytes()), Some(address));
        }
    }

    #[test]
    fn padding_and_flow_label_are_ignored() {
        let mut v6 = SocketAddress::from("[2001:db8::1]:9".parse::<SocketAddr>().unwrap());
        v6.bytes[4..8].fill(0xff);
        assert_eq!(decode(v6.bytes()), "[2001:db8::1]:9".parse().ok());
    }

    #[test]
    fn texts_are_split() {
        let cases = [
            ("fi_sockaddr_in://198.18.0.1:7471", (Some("198.18.0.1"), Some("7471"))),
            ("fi_sockaddr_in6://[2001:db8::1]:9", (Some("2001:db8::1"), Some("9"))),
            ("fi_sockaddr://host", (Some("host"), None)),
            ("fi_sockaddr://:7471", (None, Some("7471"))),
            // The example of the man page, and variants that libfabric's parser accepts.
            ("fi_sockaddr://10.31.6.12:7471?qos=3", (Some("10.31.6.12"), Some("7471"))),
            ("fi_sockaddr_in6://[fe80::6:12]:7471/x?y", (Some("fe80::6:12"), Some("7471"))),
            ("fi_sockaddr://host/a:b", (Some("host"), None)),
            ("fi_sockaddr://[2001:db8::1]?qos=3", (Some("2001:db8::1"), None)),
        ];
        for (text, parts) in cases {
            assert_eq!(split_text(text), Some(parts), "{text}");
        }
        assert_eq!(split_text("198.18.0.1:7471"), None);
        assert_eq!(split_text("fi_addr_efa://[::1]:1:2"), None);
        let address: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        assert_eq!(split_text(&text(&address)), Some((Some("2001:db8::1"), Some("9"))));
    }

    #[test]
    fn short_and_foreign_addresses_are_refused() {
        let v6 = SocketAddress::from("[2001:db8::1]:9".parse::<SocketAddr>().unwrap());
        for len in 0..V6_LEN {
            assert_eq!(decode(&v6.bytes()[..len]), None, "{len} bytes");
        }
        assert_eq!(decode(&[0; V6_LEN]), None, "AF_UNSPEC");
        assert_eq!(decode(&[libc::AF_UNIX as u8; V6_LEN]), None);
    }
}

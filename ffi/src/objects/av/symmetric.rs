// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes and services of `fi_av_insertsym`, which count up from the first.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The `n`-th successor of `first`. An IP address counts up as a number. A name or a port counts up
/// in its last digits (`host10`, `host11`), with at least as many digits. `None` if there is none.
pub(super) fn successor(first: &str, n: usize) -> Option<String> {
    if n == 0 {
        return Some(first.to_owned());
    }
    let n = u32::try_from(n).ok()?;
    if let Ok(ip) = first.parse::<Ipv4Addr>() {
        return Some(Ipv4Addr::from_bits(ip.to_bits().checked_add(n)?).to_string());
    }
    if let Ok(ip) = first.parse::<Ipv6Addr>() {
        return Some(Ipv6Addr::from_bits(ip.to_bits().checked_add(n.into())?).to_string());
    }
    let name = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = first.get(name.len()..).filter(|digits| !digits.is_empty())?;
    let number = digits.parse::<u64>().ok()?.checked_add(n.into())?;
    Some(format!("{name}{number:0width$}", width = digits.len()))
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn nodes_and_services_are_counted_on() {
        let cases = [
            ("10.1.1.1", 1, "10.1.1.2"),
            ("10.1.1.255", 1, "10.1.2.0"),
            ("2001:db8::ffff", 1, "2001:db8::1:0"),
            ("host10", 2, "host12"),
            ("node-09", 1, "node-10"),
            ("r2n099", 1, "r2n100"),
            ("5000", 1, "5001"),
            ("anything", 0, "anything"),
        ];
        for (first, n, expected) in cases {
            assert_eq!(successor(first, n).as_deref(), Some(expected), "{first} + {n}");
        }
        assert_eq!(successor("host", 1), None);
        assert_eq!(successor("255.255.255.255", 1), None);
        assert_eq!(successor("x18446744073709551615", 1), None);
    }
}

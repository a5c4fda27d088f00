// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that make a firewall admit the packets of a host.
//!
//! In: the programs of this host, an address. Out: a command. Called by `verdict`. Bound: the
//! folders of `PATH`. The other host is taken to have the programs of this one.

use std::net::IpAddr;

/// The program that keeps the rules of a firewall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Firewall {
    /// firewall-cmd(1).
    Firewalld,
    /// ufw(8).
    Ufw,
    /// nft(8), the kernel's own.
    Nft,
}

/// The packets to admit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packets {
    /// TCP to this port.
    Tcp(u16),
    /// UDP to the ports of endpoints, which are any of those above 1023.
    Udp,
}

impl Firewall {
    /// The one of this host.
    pub(super) fn here() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A user other than root may have no folder of the administrator in `PATH`.
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let folders: Vec<_> = folders.collect();
        let has = |program: &str| folders.iter().any(|folder| folder.join(program).exists());
        Self::with(has)
    }

    fn with(has: impl Fn(&str) -> bool) -> Self {
        match has {
            has if has("firewall-cmd") => Self::Firewalld,
            has if has("ufw") => Self::Ufw,
            _ => Self::Nft,
        }
    }

    /// The command that admits `packets` from `source`.
    pub(super) fn admit(self, packets: Packets, source: IpAddr) -> String {
        let (protocol, ports) = match packets {
            Packets::Tcp(port) => ("tcp", port.to_string()),
            Packets::Udp => ("udp", "1024-65535".to_owned()),
        };
        let v6 = source.is_ipv6();
        match self {
            Self::Firewalld => {
                let family = if v6 { "ipv6" } else { "ipv4" };
                format!(
                    "sudo firewall-cmd --add-rich-rule='rule family={family} source \
                     address={source} port port={ports} protocol={protocol} accept'"
                )
            }
            Self::Ufw => {
                let ports = ports.replace('-', ":");
                format!("sudo ufw allow proto {protocol} from {source} to any port {ports}")
            }
            Self::Nft => {
                let family = if v6 { "ip6" } else { "ip" };
                format!(
                    "sudo nft insert rule inet filter input {family} saddr {source} {protocol} \
                     dport {ports} accept"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_command() {
        let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), "fd00::1".parse().unwrap());
        assert_eq!(
            Firewall::Nft.admit(Packets::Udp, v6),
            "sudo nft insert rule inet filter input ip6 saddr fd00::1 udp dport 1024-65535 accept"
        );
        assert_eq!(
            Firewall::Ufw.admit(Packets::Udp, v4),
            "sudo ufw allow proto udp from 10.0.0.1 to any port 1024:65535"
        );
        assert_eq!(
            Firewall::Firewalld.admit(Packets::Tcp(7471), v4),
            "sudo firewall-cmd --add-rich-rule='rule family=ipv4 source address=10.0.0.1 port \
             port=7471 protocol=tcp accept'"
        );
    }

    #[test]
    fn the_one_that_keeps_the_rules_comes_first() {
        assert_eq!(Firewall::with(|_| true), Firewall::Firewalld);
        assert_eq!(Firewall::with(|program| program == "ufw"), Firewall::Ufw);
        assert_eq!(Firewall::with(|_| false), Firewall::Nft);
    }
}

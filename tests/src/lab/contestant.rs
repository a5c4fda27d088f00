// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is measured: the provider on each of its ways, what it stands on, and what its users have
//! today.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::paths;

/// The largest payload of one datagram in an Ethernet frame of 1500 bytes, and what of it the bare
/// AF_XDP sockets have for a message.
const DATAGRAM_MAX: usize = 1472;
const RAW_MAX: usize = 1440;

/// The provider's parameter `FI_XDP_MODE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum XdpMode {
    /// The best that works.
    Auto,
    /// AF_XDP, zero-copy.
    Zerocopy,
    /// AF_XDP, native mode of the driver, copying.
    Copy,
    /// AF_XDP, generic mode.
    Skb,
    /// Kernel UDP sockets.
    Udp,
}

impl XdpMode {
    /// As the parameter wants it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Zerocopy => "zerocopy",
            Self::Copy => "copy",
            Self::Skb => "skb",
            Self::Udp => "udp",
        }
    }
}

/// Which link suits a contestant. An XDP program on one end of a veth pair switches segmentation
/// offload off at the other, for everybody; so those who attach one have a link of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkUse {
    /// It attaches an XDP program.
    Xdp,
    /// It does not.
    Plain,
}

impl LinkUse {
    /// The number of the link.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Self::Xdp => 0,
            Self::Plain => 1,
        }
    }
}

/// One peer to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contestant {
    /// The report's `peer`.
    pub peer: &'static str,
    /// The report's `mode`; of `xdp` with [`XdpMode::Auto`] what was asked for, until it is known.
    pub mode: String,
    /// Its link.
    pub link: LinkUse,
    /// Largest message it can carry.
    pub size_max: usize,
    /// The program that measures it.
    pub program: &'static str,
    /// Arguments of that program's `client`.
    pub arguments: &'static [&'static str],
    /// For `xdp`.
    pub xdp_mode: Option<XdpMode>,
    /// Where its server listens, above the first port.
    pub port_offset: u16,
}

/// Servers that stay for all sessions have a port for each environment: it decides what a provider
/// does.
pub(super) const PORT_XDP: u16 = 0;
pub(super) const PORT_XDP_UDP: u16 = 1;
pub(super) const PORT_KERNEL_UDP: u16 = 2;
pub(super) const PORT_RAW: u16 = 3;
pub(super) const PORT_OTHERS: u16 = 4;
/// All of them.
pub(super) const PORTS: [u16; 5] = [PORT_XDP, PORT_XDP_UDP, PORT_KERNEL_UDP, PORT_RAW, PORT_OTHERS];

/// All of them, `xdp` first; its first entry in `mode`.
#[must_use]
pub fn contestants(mode: XdpMode) -> Vec<Contestant> {
    let provider = |peer, arguments| Contestant {
        peer,
        mode: String::from("spin"),
        link: LinkUse::Plain,
        size_max: usize::MAX,
        program: "perf",
        arguments,
        xdp_mode: None,
        port_offset: PORT_OTHERS,
    };
    let xdp = |mode: XdpMode| Contestant {
        mode: mode.as_str().to_owned(),
        link: if mode == XdpMode::Udp { LinkUse::Plain } else { LinkUse::Xdp },
        xdp_mode: Some(mode),
        port_offset: if mode == XdpMode::Udp { PORT_XDP_UDP } else { PORT_XDP },
        ..provider("xdp", &["--provider", "xdp"])
    };
    let kernel = |mode: &str, arguments| Contestant {
        mode: mode.to_owned(),
        size_max: DATAGRAM_MAX,
        program: "kernel-udp",
        port_offset: PORT_KERNEL_UDP,
        ..provider("kernel-udp", arguments)
    };
    let raw = Contestant {
        link: LinkUse::Xdp,
        size_max: RAW_MAX,
        program: "raw-af_xdp",
        port_offset: PORT_RAW,
        ..provider("raw-af_xdp", raw_arguments(mode))
    };
    let mut all = vec![xdp(mode)];
    if mode != XdpMode::Udp {
        all.push(raw);
        all.push(xdp(XdpMode::Udp));
    }
    all.extend([
        kernel("spin", &[]),
        kernel("blocking", &["--blocking"]),
        provider("tcp", &["--provider", "tcp"]),
        provider("tcp;ofi_rxm", &["--provider", "tcp;ofi_rxm"]),
        provider("udp;ofi_rxd", &["--provider", "udp;ofi_rxd"]),
    ]);
    all
}

/// The mode of the bare sockets: as the provider's.
fn raw_arguments(mode: XdpMode) -> &'static [&'static str] {
    match mode {
        XdpMode::Auto | XdpMode::Udp => &["--mode", "auto"],
        XdpMode::Zerocopy => &["--mode", "zerocopy"],
        XdpMode::Copy => &["--mode", "copy"],
        XdpMode::Skb => &["--mode", "skb"],
    }
}

impl Contestant {
    /// For people.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.peer, self.mode.as_str()) {
            ("xdp", "udp") => String::from("xdp (UDP tier)"),
            ("xdp", mode) => format!("xdp (AF_XDP {mode})"),
            ("kernel-udp", mode) => format!("kernel UDP ({mode})"),
            ("raw-af_xdp", _) => String::from("raw AF_XDP"),
            (peer, _) => peer.to_owned(),
        }
    }

    /// The environment of its two processes: names the provider, and nothing but it.
    ///
    /// # Errors
    /// When the provider is not built.
    pub fn environment(&self, interface: Option<&str>) -> anyhow::Result<Vec<(&str, OsString)>> {
        let mut variables = Vec::new();
        if self.peer == "xdp" {
            variables.push(("FI_PROVIDER_PATH", paths::provider()?.into_os_string()));
            variables.push(("FI_PROVIDER", "xdp".into()));
        }
        if let Some(mode) = self.xdp_mode {
            variables.push(("FI_XDP_MODE", mode.as_str().into()));
            variables.extend(interface.map(|interface| ("FI_XDP_IFACE", interface.into())));
        }
        Ok(variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_measured_twice() {
        for mode in [XdpMode::Auto, XdpMode::Udp] {
            let all = contestants(mode);
            let mut keys: Vec<_> = all.iter().map(|c| (c.peer, c.mode.clone())).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), all.len());
            assert_eq!(all[0].peer, "xdp");
        }
    }

    #[test]
    fn only_xdp_users_have_the_xdp_link() {
        for contestant in contestants(XdpMode::Auto) {
            let attaches = contestant.xdp_mode.is_some_and(|mode| mode != XdpMode::Udp)
                || contestant.peer == "raw-af_xdp";
            assert_eq!(contestant.link == LinkUse::Xdp, attaches, "{contestant:?}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is measured: the provider on each of its ways, what it stands on, and what its users have
//! today.

use std::ffi::OsString;

use clap::ValueEnum;

use crate::paths;
use crate::topology::LinkOptions;
use crate::way::way;

/// The largest payload of one datagram in an Ethernet frame of 1500 bytes, and what of it the bare
/// AF_XDP sockets have for a message.
const DATAGRAM_MAX: usize = 1472;
const RAW_MAX: usize = 1440;
/// What they have of a frame of 4 KiB, however large the MTU.
const RAW_FRAME_MAX: usize = 3744;

/// What moves: tagged messages, writes with remote CQ data, reads.
pub const TAGGED: &str = "tagged";
/// See [`TAGGED`].
pub const WRITE: &str = "write";
/// See [`TAGGED`].
pub const READ: &str = "read";

/// The provider's parameters `FI_XDP_MODE` and `FI_XDP_TIER`: see [`way`](crate::way).
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
    /// As the parameters want it.
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
    /// No link: both processes are on one host.
    Loopback,
}

impl LinkUse {
    /// The number of the link, where there is one for each use.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Self::Xdp | Self::Loopback => 0,
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
    /// The report's `operation`: what moves.
    pub operation: &'static str,
    /// Its link.
    pub link: LinkUse,
    /// The number of its link.
    pub link_number: usize,
    /// What its link is to be.
    pub options: LinkOptions,
    /// Largest message it can carry.
    pub size_max: usize,
    /// The program that measures it.
    pub program: &'static str,
    /// Arguments of that program's `client`.
    pub arguments: Vec<&'static str>,
    /// For `xdp`.
    pub xdp_mode: Option<XdpMode>,
    /// For `xdp`: whether who waits sleeps at once, and does not spin for a while first.
    pub sleeps_at_once: bool,
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

/// All that the main job measures, `xdp` first; its first entry in `mode`.
#[must_use]
pub fn contestants(mode: XdpMode) -> Vec<Contestant> {
    let mut all = vec![Contestant::xdp(mode)];
    if mode != XdpMode::Udp {
        all.extend([Contestant::raw(mode), Contestant::xdp(XdpMode::Udp)]);
    }
    all.extend([Contestant::kernel_udp(false), Contestant::kernel_udp(true)]);
    all.extend(["tcp", "tcp;ofi_rxm", "udp;ofi_rxd"].map(Contestant::provider));
    all
}

impl Contestant {
    /// A provider of libfabric's own, which spins.
    #[must_use]
    pub fn provider(name: &'static str) -> Self {
        Self {
            peer: name,
            mode: String::from("spin"),
            operation: TAGGED,
            link: LinkUse::Plain,
            link_number: LinkUse::Plain.number(),
            options: LinkOptions::default(),
            size_max: usize::MAX,
            program: "perf",
            arguments: vec!["--provider", name],
            xdp_mode: None,
            sleeps_at_once: false,
            port_offset: PORT_OTHERS,
        }
    }

    /// Our own.
    #[must_use]
    pub fn xdp(mode: XdpMode) -> Self {
        let udp = mode == XdpMode::Udp;
        Self {
            mode: mode.as_str().to_owned(),
            xdp_mode: Some(mode),
            port_offset: if udp { PORT_XDP_UDP } else { PORT_XDP },
            ..Self::provider("xdp").on(if udp { LinkUse::Plain } else { LinkUse::Xdp })
        }
    }

    /// Bare AF_XDP sockets.
    #[must_use]
    pub fn raw(mode: XdpMode) -> Self {
        let arguments = match mode {
            XdpMode::Auto | XdpMode::Udp => ["--mode", "auto"],
            XdpMode::Zerocopy => ["--mode", "zerocopy"],
            XdpMode::Copy => ["--mode", "copy"],
            XdpMode::Skb => ["--mode", "skb"],
        };
        let named = matches!(mode, XdpMode::Zerocopy | XdpMode::Copy | XdpMode::Skb);
        Self {
            mode: String::from(if named { mode.as_str() } else { "spin" }),
            size_max: RAW_MAX,
            program: "raw-af_xdp",
            arguments: arguments.to_vec(),
            port_offset: PORT_RAW,
            ..Self::provider("raw-af_xdp").on(LinkUse::Xdp)
        }
    }

    /// Plain kernel UDP sockets, spinning or blocking.
    #[must_use]
    pub fn kernel_udp(blocking: bool) -> Self {
        Self {
            mode: String::from(if blocking { "blocking" } else { "spin" }),
            size_max: DATAGRAM_MAX,
            program: "kernel-udp",
            arguments: if blocking { vec!["--blocking"] } else { Vec::new() },
            port_offset: PORT_KERNEL_UDP,
            ..Self::provider("kernel-udp")
        }
    }

    /// Kernel UDP sockets with segmentation offload both ways.
    #[must_use]
    pub fn kernel_udp_trains() -> Self {
        Self {
            mode: String::from("trains"),
            size_max: DATAGRAM_MAX,
            program: "kernel-udp-trains",
            arguments: Vec::new(),
            ..Self::provider("kernel-udp")
        }
    }

    /// On another kind of link.
    #[must_use]
    pub fn on(self, link: LinkUse) -> Self {
        Self { link, link_number: link.number(), ..self }
    }

    /// With one-sided operations ([`WRITE`] or [`READ`]) instead of tagged messages.
    #[must_use]
    pub fn one_sided(self, operation: &'static str) -> Self {
        Self { operation, program: "perf-rma", ..self }
    }

    /// Asleep while nothing comes: in `fi_cq_sread` (`sread`) or in poll(2) (`fd`).
    #[must_use]
    pub fn waiting(mut self, how: &'static str) -> Self {
        self.arguments.extend(["--wait", how]);
        self.mode = match self.mode.as_str() {
            "spin" => how.to_owned(),
            mode => format!("{mode} {how}"),
        };
        self
    }

    /// Of `xdp`, [waiting](Self::waiting) as `tcp` does: it does not spin before it sleeps.
    #[must_use]
    pub fn asleep_at_once(mut self) -> Self {
        self.sleeps_at_once = true;
        self.mode.push_str(" at once");
        self
    }

    /// On a link with packets of `mtu` bytes. Who knows only packets fills them.
    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Self {
        self.options.mtu = mtu;
        let more = usize::try_from(mtu).unwrap_or(0).saturating_sub(1500);
        self.size_max = match self.program {
            "raw-af_xdp" => (RAW_MAX + more).min(RAW_FRAME_MAX),
            "kernel-udp" | "kernel-udp-trains" => DATAGRAM_MAX + more,
            _ => self.size_max,
        };
        self
    }

    /// On a link that loses packets at random, so many of a thousand.
    #[must_use]
    pub fn losing(mut self, per_mille: u32) -> Self {
        self.options.loss_per_mille = Some(per_mille);
        self
    }

    /// For people.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.peer, self.mode.as_str()) {
            ("xdp", "udp") => String::from("xdp (UDP tier)"),
            ("xdp", mode @ ("skb" | "copy" | "zerocopy")) => format!("xdp (AF_XDP {mode})"),
            ("kernel-udp", mode) => format!("kernel UDP ({mode})"),
            ("raw-af_xdp", "spin") => String::from("raw AF_XDP"),
            ("raw-af_xdp", mode) => format!("raw AF_XDP ({mode})"),
            (peer, "spin") => peer.to_owned(),
            (peer, mode) => format!("{peer} ({mode})"),
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
            let (name, value) = way(mode.as_str());
            variables.push((name, value.into()));
            if self.sleeps_at_once {
                variables.push(("FI_XDP_SPIN", "0".into()));
            }
            let interface = if self.link == LinkUse::Loopback { Some("lo") } else { interface };
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Candidates of a measurement: the provider on each of its tiers, the layers below it, and the
//! other providers of its users.

use std::ffi::OsString;

use ofi_xdp_harness::paths;
use ofi_xdp_harness::relay::PathOptions;
use ofi_xdp_harness::tier::{XdpMode, tier_variable};
use ofi_xdp_harness::topology::LinkOptions;

/// The largest payload of one datagram in an Ethernet frame of 1500 bytes. Bare AF_XDP sockets have
/// a part of it for a message.
const DATAGRAM_MAX: usize = 1472;
const RAW_MAX: usize = 1440;
/// Limit for a frame of 4 KiB, at any larger MTU.
const RAW_FRAME_MAX: usize = 3744;

/// The operation of a measurement: tagged messages, writes with remote CQ data, reads.
pub const TAGGED: &str = "tagged";
/// Untagged messages over a connection (`FI_EP_MSG`).
pub const CONNECTED: &str = "connected";
/// See [`TAGGED`].
pub const WRITE: &str = "write";
/// See [`TAGGED`].
pub const READ: &str = "read";

/// The link of a candidate. An XDP program on one end of a veth pair disables segmentation offload
/// at the other, for all users of the link. So candidates that attach a program have a link of
/// their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkUse {
    /// The candidate attaches an XDP program.
    Xdp,
    /// The candidate attaches none.
    Plain,
    /// No link: both processes are on one host.
    Loopback,
}

impl LinkUse {
    /// The number of the link, if there is one for each use.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Self::Xdp | Self::Loopback => 0,
            Self::Plain => 1,
        }
    }
}

/// A candidate: a provider or a transport, with its configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The report's `peer`.
    pub peer: &'static str,
    /// The report's `mode`; for `xdp` with [`XdpMode::Auto`] the requested mode, until the real one
    /// is known.
    pub mode: String,
    /// The report's `operation`.
    pub operation: &'static str,
    /// Its link.
    pub link: LinkUse,
    /// The number of its link.
    pub link_number: usize,
    /// Properties of its link.
    pub options: LinkOptions,
    /// The largest message that it can carry.
    pub size_max: usize,
    /// The program that measures it.
    pub program: &'static str,
    /// Arguments of that program's client.
    pub arguments: Vec<&'static str>,
    /// The mode, for `xdp`.
    pub xdp_mode: Option<XdpMode>,
    /// For `xdp`: whether a waiting process sleeps at once, without spinning first.
    pub sleeps_at_once: bool,
    /// The report's `polling`.
    pub polling: Option<String>,
    /// The port of its server, above the first port.
    pub port_offset: u16,
}

/// Servers that stay for all sessions have a port for each set of variables, which decide the
/// provider's behaviour.
pub(super) const PORT_XDP: u16 = 0;
pub(super) const PORT_XDP_UDP: u16 = 1;
pub(super) const PORT_KERNEL_UDP: u16 = 2;
pub(super) const PORT_RAW: u16 = 3;
pub(super) const PORT_OTHERS: u16 = 4;
/// All of them.
pub(super) const PORTS: [u16; 5] = [PORT_XDP, PORT_XDP_UDP, PORT_KERNEL_UDP, PORT_RAW, PORT_OTHERS];

/// All candidates of the main job, `xdp` in `mode` first.
#[must_use]
pub fn candidates(mode: XdpMode) -> Vec<Candidate> {
    let mut all = vec![Candidate::xdp(mode)];
    if mode != XdpMode::Udp {
        all.extend([Candidate::raw(mode), Candidate::xdp(XdpMode::Udp)]);
    }
    all.extend([Candidate::kernel_udp(false), Candidate::kernel_udp(true)]);
    all.extend(["tcp", "tcp;ofi_rxm", "udp;ofi_rxd"].map(Candidate::provider));
    all
}

impl Candidate {
    /// A provider of libfabric, which spins.
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
            program: "xdp-perf",
            arguments: vec!["--json", "--provider", name],
            xdp_mode: None,
            sleeps_at_once: false,
            polling: None,
            port_offset: PORT_OTHERS,
        }
    }

    /// The provider of this project.
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

    /// Kernel UDP sockets with GSO and GRO.
    #[must_use]
    pub fn kernel_udp_gso() -> Self {
        Self {
            mode: String::from("gso"),
            size_max: DATAGRAM_MAX,
            program: "kernel-udp-gso",
            arguments: Vec::new(),
            ..Self::provider("kernel-udp")
        }
    }

    /// The candidate on another kind of link.
    #[must_use]
    pub fn on(self, link: LinkUse) -> Self {
        Self { link, link_number: link.number(), ..self }
    }

    /// The candidate with one-sided operations ([`WRITE`] or [`READ`]) in place of tagged messages.
    #[must_use]
    pub fn one_sided(mut self, operation: &'static str) -> Self {
        self.arguments.extend(["--operation", operation]);
        Self { operation, ..self }
    }

    /// The candidate with a connected endpoint in place of datagrams.
    #[must_use]
    pub fn connected(mut self) -> Self {
        self.arguments.push("--connected");
        self.operation = CONNECTED;
        self
    }

    /// The candidate with sleeping waits: in `fi_cq_sread` (`sread`) or in poll(2) (`fd`).
    #[must_use]
    pub fn waiting(mut self, how: &'static str) -> Self {
        self.arguments.extend(["--wait", how]);
        self.mode = match self.mode.as_str() {
            "spin" => how.to_owned(),
            mode => format!("{mode} {how}"),
        };
        self
    }

    /// `xdp`, [waiting](Self::waiting) as `tcp` does: it does not spin before it sleeps.
    #[must_use]
    pub fn asleep_at_once(mut self) -> Self {
        self.sleeps_at_once = true;
        self.mode.push_str(" at once");
        self
    }

    /// The candidate in an application that reads its completion queue at intervals.
    #[must_use]
    pub fn polling(mut self, operation: &'static str, polling: String) -> Self {
        // That program prints nothing but JSON.
        self.arguments.retain(|argument| *argument != "--json");
        Self { operation, polling: Some(polling), program: "perf-lazy", ..self }
    }

    /// The candidate on a link with packets of `mtu` bytes. Transports of single packets fill them.
    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Self {
        self.options.mtu = mtu;
        let more = usize::try_from(mtu).unwrap_or(0).saturating_sub(1500);
        self.size_max = match self.program {
            "raw-af_xdp" => (RAW_MAX + more).min(RAW_FRAME_MAX),
            "kernel-udp" | "kernel-udp-gso" => DATAGRAM_MAX + more,
            _ => self.size_max,
        };
        self
    }

    /// The candidate on a link that loses packets at random, `per_mille` of a thousand.
    #[must_use]
    pub fn losing(mut self, per_mille: u32) -> Self {
        self.options.loss_per_mille = Some(per_mille);
        self
    }

    /// The candidate on a link with a relay.
    #[must_use]
    pub fn through(mut self, path: PathOptions) -> Self {
        self.options.relay = Some(path);
        self
    }

    /// A label for tables.
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

    /// The environment variables of both processes: they name the provider, and nothing else.
    ///
    /// # Errors
    /// When the provider is not built.
    pub fn variables(&self, interface: Option<&str>) -> anyhow::Result<Vec<(&str, OsString)>> {
        let mut variables = Vec::new();
        if self.peer == "xdp" {
            variables.push(("FI_PROVIDER_PATH", paths::provider()?.into_os_string()));
            variables.push(("FI_PROVIDER", "xdp".into()));
        }
        if let Some(mode) = self.xdp_mode {
            let (name, value) = tier_variable(mode.as_str());
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
    fn candidates_are_measured_once() {
        for mode in [XdpMode::Auto, XdpMode::Udp] {
            let all = candidates(mode);
            let mut keys: Vec<_> = all.iter().map(|c| (c.peer, c.mode.clone())).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), all.len());
            assert_eq!(all[0].peer, "xdp");
        }
    }

    #[test]
    fn only_xdp_users_have_the_xdp_link() {
        for candidate in candidates(XdpMode::Auto) {
            let attaches = candidate.xdp_mode.is_some_and(|mode| mode != XdpMode::Udp)
                || candidate.peer == "raw-af_xdp";
            assert_eq!(candidate.link == LinkUse::Xdp, attaches, "{candidate:?}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Candidate modes: the `AF_XDP` modes to try on an interface, best first, and the expected tier.
//!
//! In: the configured mode and the interface. Out: modes, and the reason against a better one as
//! text for the log. Callers: a port that opens or restores its `AF_XDP` half; `fi_getinfo` for the
//! expected tier. Bound: three modes.

use std::path::Path;

use crate::config::Mode;
use crate::host::interfaces::InterfaceInfo;
use crate::host::privilege;
use crate::tier::status::{Tier, XskMode};

/// The modes to try on `interface`, best first, with the reason against a better one. An error is
/// the reason against `AF_XDP` as a whole.
pub(crate) fn candidate_modes(
    mode: Mode,
    interface: Option<&InterfaceInfo>,
) -> Result<(&InterfaceInfo, &'static [XskMode], Option<String>), String> {
    const ALL: [XskMode; 3] = [XskMode::Zerocopy, XskMode::Copy, XskMode::Skb];
    let Some(interface) = interface else {
        return Err("it is not known by which interface packets for the address come".to_owned());
    };
    if mode == Mode::Udp {
        return Err("kernel sockets were asked for".to_owned());
    }
    if interface.loopback {
        return Err("packets over the loopback interface never leave the kernel".to_owned());
    }
    if !interface.up {
        return Err(format!("interface {} is down", interface.name));
    }
    if !interface.is_ethernet() {
        return Err(format!("interface {} has no Ethernet address for frames", interface.name));
    }
    let asked = || Some(format!("mode {mode} was asked for"));
    Ok(match mode {
        Mode::Auto if !interface.physical => {
            // Measured on veth: native mode converts each skb to a frame, generic mode does not.
            let kind = if interface.driver.is_empty() { "it" } else { &interface.driver };
            let reason = format!("{kind} is a virtual link, where generic mode is the fastest");
            (interface, &ALL[2..], Some(reason))
        }
        // The kernel refuses a mode that the driver does not announce (net/xdp/xsk_buff_pool.c,
        // `xp_assign_dev`).
        Mode::Auto | Mode::Zerocopy if interface.xdp.is_some_and(|xdp| !xdp.zerocopy) => {
            let reason = format!("zerocopy: driver {} offers none", interface.driver);
            (interface, &ALL[1..], Some(reason))
        }
        Mode::Auto | Mode::Zerocopy | Mode::Udp => (interface, &ALL, None),
        Mode::Copy => (interface, &ALL[1..], asked()),
        Mode::Skb => (interface, &ALL[2..], asked()),
    })
}

/// The expected tier of a port on an interface, before the port is opened.
///
/// Opening may show more: a busy queue, or another XDP program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedTier {
    /// The tier that will be tried first.
    pub tier: Tier,
    /// Reason against a better tier; empty if there is none better.
    pub why_not_better: String,
}

impl Default for ExpectedTier {
    /// The tier that works everywhere.
    fn default() -> Self {
        Self { tier: Tier::Udp, why_not_better: String::new() }
    }
}

impl ExpectedTier {
    /// The expected tier of a port on `interface`. If a capability is missing, an existing broker
    /// counts in its place; the broker decides when the port opens.
    #[must_use]
    pub fn new(mode: Mode, interface: &InterfaceInfo, broker: Option<&Path>) -> Self {
        let udp = |why_not_better| Self { tier: Tier::Udp, why_not_better };
        let brokered = || broker.is_some_and(Path::exists);
        let privilege = privilege::check().or_else(|error| brokered().then_some(()).ok_or(error));
        match candidate_modes(mode, Some(interface)) {
            Err(reason) => udp(reason),
            Ok((_, modes, reason)) => match (modes.first(), privilege) {
                (Some(best), Ok(())) => {
                    Self { tier: Tier::Xdp(*best), why_not_better: reason.unwrap_or_default() }
                }
                (_, Err(missing)) => udp(missing.to_string()),
                (None, Ok(())) => udp(reason.unwrap_or_default()),
            },
        }
    }

    /// Rank of the tier: lower is better.
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match self.tier {
            Tier::Xdp(XskMode::Zerocopy) => 0,
            Tier::Xdp(XskMode::Copy) => 1,
            Tier::Xdp(XskMode::Skb) => 2,
            Tier::Udp => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::features::XdpFeatures;

    fn interface(physical: bool) -> InterfaceInfo {
        InterfaceInfo { physical, ..InterfaceInfo::sample("veth0") }
    }

    #[test]
    fn hardware_tries_zero_copy_first_and_virtual_links_generic_mode() {
        let device = interface(true);
        let (_, modes, reason) = candidate_modes(Mode::Auto, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Zerocopy, XskMode::Copy, XskMode::Skb]);
        assert_eq!(reason, None);
        let device = interface(false);
        let (_, modes, reason) = candidate_modes(Mode::Auto, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Skb]);
        assert!(reason.unwrap().starts_with("veth is a virtual link"));
    }

    #[test]
    fn a_driver_that_offers_no_zero_copy_is_not_asked_for_it() {
        let mut device = interface(true);
        device.xdp = Some(XdpFeatures { native: true, zerocopy: false });
        let (_, modes, reason) = candidate_modes(Mode::Zerocopy, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Copy, XskMode::Skb]);
        assert!(reason.unwrap().ends_with("offers none"));
        device.xdp = Some(XdpFeatures { native: true, zerocopy: true });
        assert_eq!(candidate_modes(Mode::Auto, Some(&device)).unwrap().1.len(), 3);
    }

    #[test]
    fn a_mode_that_was_asked_for_comes_first() {
        let device = interface(false);
        let (_, modes, _) = candidate_modes(Mode::Zerocopy, Some(&device)).unwrap();
        assert_eq!(modes.len(), 3);
        let (_, modes, reason) = candidate_modes(Mode::Copy, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Copy, XskMode::Skb]);
        assert_eq!(reason.unwrap(), "mode copy was asked for");
    }

    #[test]
    fn without_a_usable_interface_there_are_no_candidate_modes() {
        let mut device = interface(true);
        assert!(candidate_modes(Mode::Auto, None).is_err());
        assert!(candidate_modes(Mode::Udp, Some(&device)).is_err());
        device.up = false;
        assert!(candidate_modes(Mode::Auto, Some(&device)).is_err());
        device.loopback = true;
        assert!(candidate_modes(Mode::Skb, Some(&device)).unwrap_err().contains("loopback"));
    }

    /// A tun interface has no link-layer address, one of `InfiniBand` has one of 20 bytes.
    #[test]
    fn an_interface_without_an_ethernet_address_has_no_candidate_modes() {
        let device = InterfaceInfo { mac: Default::default(), ..interface(false) };
        for mode in [Mode::Auto, Mode::Skb] {
            let reason = candidate_modes(mode, Some(&device)).unwrap_err();
            assert!(reason.contains("no Ethernet address"), "{reason}");
        }
        assert_eq!(ExpectedTier::new(Mode::Auto, &device, None).tier, Tier::Udp);
    }

    #[test]
    fn kernel_sockets_are_foreseen_where_they_are_asked_for() {
        let expected = ExpectedTier::new(Mode::Udp, &interface(true), None);
        assert_eq!(expected.tier, Tier::Udp);
        assert_eq!(expected.why_not_better, "kernel sockets were asked for");
    }

    #[test]
    fn the_expected_tier_goes_by_device_and_privilege() {
        let (card, virtual_link) = (interface(true), interface(false));
        let (card, link) = (
            ExpectedTier::new(Mode::Auto, &card, None),
            ExpectedTier::new(Mode::Auto, &virtual_link, None),
        );
        if privilege::check().is_ok() {
            assert_eq!(card.tier, Tier::Xdp(XskMode::Zerocopy));
            assert_eq!(link.tier, Tier::Xdp(XskMode::Skb));
            assert!(card.rank() < link.rank());
            assert!(link.why_not_better.contains("virtual link"), "{link:?}");
        } else {
            assert_eq!((card.tier, link.tier), (Tier::Udp, Tier::Udp));
            assert!(card.why_not_better.contains("AF_XDP needs"), "{card:?}");
        }
        // Any existing file stands for the broker, because no request is sent.
        let brokered = ExpectedTier::new(Mode::Auto, &interface(true), Some(Path::new("/proc")));
        assert_eq!(brokered.tier, Tier::Xdp(XskMode::Zerocopy));
        let loopback = InterfaceInfo { loopback: true, ..interface(false) };
        assert_eq!(ExpectedTier::new(Mode::Auto, &loopback, None).tier, Tier::Udp);
    }
}

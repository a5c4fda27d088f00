// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tier a port on an interface would get, before it is opened.
//!
//! In: the mode that is asked for, and what the interface is. Out: the tier that will be tried
//! first, and why it is no better one. Called for each interface at `fi_getinfo`, to order and to
//! describe the offers; it opens nothing, so what only opening shows (a queue that is taken,
//! another XDP program) is not in it.

use std::path::Path;

use crate::config::Mode;
use crate::device::InterfaceFacts;
use crate::facts::{Tier, XskMode};
use crate::plan::plan;
use crate::privilege;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// The tier that will be tried first.
    pub tier: Tier,
    /// Why not a better one; empty if there is none better.
    pub why_not_better: String,
}

impl Default for Forecast {
    /// What works everywhere.
    fn default() -> Self {
        Self { tier: Tier::Udp, why_not_better: String::new() }
    }
}

impl Forecast {
    /// What a port on `interface` would be. Where a privilege is missing, a broker that is there
    /// counts for it; whether it grants is its own to say, when the port opens.
    #[must_use]
    pub fn new(mode: Mode, interface: &InterfaceFacts, broker: Option<&Path>) -> Self {
        let udp = |why_not_better| Self { tier: Tier::Udp, why_not_better };
        let brokered = || broker.is_some_and(Path::exists);
        let privilege = privilege::check().or_else(|error| brokered().then_some(()).ok_or(error));
        match plan(mode, Some(interface)) {
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

    /// The tier's place among the others: the lower, the better.
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

    fn interface(physical: bool) -> InterfaceFacts {
        InterfaceFacts { physical, ..InterfaceFacts::sample("eth7") }
    }

    #[test]
    fn kernel_sockets_are_foreseen_where_they_are_asked_for() {
        let forecast = Forecast::new(Mode::Udp, &interface(true), None);
        assert_eq!(forecast.tier, Tier::Udp);
        assert_eq!(forecast.why_not_better, "kernel sockets were asked for");
    }

    #[test]
    fn the_forecast_goes_by_device_and_privilege() {
        let (card, virtual_link) = (interface(true), interface(false));
        let (card, link) = (
            Forecast::new(Mode::Auto, &card, None),
            Forecast::new(Mode::Auto, &virtual_link, None),
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
        // Any file that is there will do: it is not asked anything.
        let brokered = Forecast::new(Mode::Auto, &interface(true), Some(Path::new("/proc")));
        assert_eq!(brokered.tier, Tier::Xdp(XskMode::Zerocopy));
        let loopback = InterfaceFacts { loopback: true, ..interface(false) };
        assert_eq!(Forecast::new(Mode::Auto, &loopback, None).tier, Tier::Udp);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which `AF_XDP` modes to try on an interface, and in which order.
//!
//! In: what was asked for, and what the interface is. Out: modes, best first, and why a better one
//! is not among them; for people, who read it in the log. Called when a port opens, when it opens
//! its `AF_XDP` half again, and for a forecast.

use crate::config::Mode;
use crate::device::InterfaceFacts;
use crate::facts::XskMode;

/// The modes to try on `interface`, best first, and why a better one is not among them; or why
/// `AF_XDP` is not tried at all.
pub(crate) fn plan(
    mode: Mode,
    interface: Option<&InterfaceFacts>,
) -> Result<(&InterfaceFacts, &'static [XskMode], Option<String>), String> {
    const ALL: [XskMode; 3] = [XskMode::Zerocopy, XskMode::Copy, XskMode::Skb];
    let Some(interface) = interface else {
        return Err("the address is on no interface".to_owned());
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
    let asked = || Some(format!("mode {mode} was asked for"));
    Ok(match mode {
        Mode::Auto if !interface.physical => {
            // Measured on veth: native mode converts each skb to a frame, generic mode does not.
            let kind = if interface.driver.is_empty() { "it" } else { &interface.driver };
            let reason = format!("{kind} is a virtual link, where generic mode is the fastest");
            (interface, &ALL[2..], Some(reason))
        }
        // The kernel refuses what a driver does not announce (net/xdp/xsk_buff_pool.c,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::XdpFeatures;

    fn interface(physical: bool) -> InterfaceFacts {
        InterfaceFacts { physical, ..InterfaceFacts::sample("veth0") }
    }

    #[test]
    fn hardware_tries_zero_copy_first_and_virtual_links_generic_mode() {
        let device = interface(true);
        let (_, modes, reason) = plan(Mode::Auto, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Zerocopy, XskMode::Copy, XskMode::Skb]);
        assert_eq!(reason, None);
        let device = interface(false);
        let (_, modes, reason) = plan(Mode::Auto, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Skb]);
        assert!(reason.unwrap().starts_with("veth is a virtual link"));
    }

    #[test]
    fn a_driver_that_offers_no_zero_copy_is_not_asked_for_it() {
        let mut device = interface(true);
        device.xdp = Some(XdpFeatures { native: true, zerocopy: false });
        let (_, modes, reason) = plan(Mode::Zerocopy, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Copy, XskMode::Skb]);
        assert!(reason.unwrap().ends_with("offers none"));
        device.xdp = Some(XdpFeatures { native: true, zerocopy: true });
        assert_eq!(plan(Mode::Auto, Some(&device)).unwrap().1.len(), 3);
    }

    #[test]
    fn a_mode_that_was_asked_for_comes_first() {
        let device = interface(false);
        let (_, modes, _) = plan(Mode::Zerocopy, Some(&device)).unwrap();
        assert_eq!(modes.len(), 3);
        let (_, modes, reason) = plan(Mode::Copy, Some(&device)).unwrap();
        assert_eq!(modes, [XskMode::Copy, XskMode::Skb]);
        assert_eq!(reason.unwrap(), "mode copy was asked for");
    }

    #[test]
    fn without_an_interface_of_use_there_is_no_plan() {
        let mut device = interface(true);
        assert!(plan(Mode::Auto, None).is_err());
        assert!(plan(Mode::Udp, Some(&device)).is_err());
        device.up = false;
        assert!(plan(Mode::Auto, Some(&device)).is_err());
        device.loopback = true;
        assert!(plan(Mode::Skb, Some(&device)).unwrap_err().contains("loopback"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each finding about an interface, good and not.

use super::*;

fn offer(lines: &[&str]) -> Offer {
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    Offer { domain: "eth0".to_owned(), lines }
}

#[test]
fn a_device_with_several_queues_must_tell_ports_apart() {
    let ports = "UDP over IPV4 flows use these fields\nIP SA\nL4 bytes 0 & 1 [TCP/UDP src port]\n";
    assert_eq!(spread("eth0", 1, None).remedy(), None);
    assert_eq!(spread("eth0", 8, Some(ports)).value, "8, chosen by UDP ports too");
    let command = "sudo ethtool --config-nfc eth0 rx-flow-hash udp4 sdfn";
    assert_eq!(spread("eth0", 8, Some("IP SA\nIP DA\n")).remedy(), Some(command));
    let command = "sudo ethtool --set-channels eth0 combined 1";
    assert_eq!(spread("eth0", 8, None).remedy(), Some(command));
}

#[test]
fn offloads_that_merge_packets_are_named() {
    let features = "Features for eth0:\n\tlarge-receive-offload: on\nrx-gro-hw: on [fixed]\n";
    let command = "sudo ethtool --features eth0 lro off";
    assert_eq!(offloads("eth0", Some(features)).remedy(), Some(command));
    let both = features.replace(" [fixed]", "");
    let command = "sudo ethtool --features eth0 lro off rx-gro-hw off";
    assert_eq!(offloads("eth0", Some(&both)).remedy(), Some(command));
    assert_eq!(offloads("eth0", Some("large-receive-offload: off\n")).remedy(), None);
    assert_eq!(offloads("eth0", None).remedy(), Some("sudo apt install ethtool"));
}

#[test]
fn an_mtu_has_limits() {
    let command = Some("sudo ip link set dev eth0 mtu 1500");
    assert_eq!(mtu("eth0", 1279, None).remedy(), command);
    assert_eq!(mtu("eth0", 1280, Some("zerocopy")).remedy(), None);
    assert_eq!(mtu("eth0", 9000, Some("zerocopy")).remedy(), command);
    assert_eq!(mtu("eth0", 9000, Some("skb")).remedy(), None);
}

#[test]
fn another_xdp_program_is_named_with_the_command_that_detaches_it() {
    let answer = |program: &str| format!(r#"[{{"ifname":"eth0","xdp":{program}}}]"#);
    let remedy = |text: &str| programs("eth0", Some(text)).remedy().map(str::to_owned);
    assert_eq!(programs("eth0", Some(r#"[{"ifname":"eth0"}]"#)).value, "none");
    for name in OWN_PROGRAMS {
        let own = format!(r#"{{"mode":1,"prog":{{"id":7,"name":"{name}"}}}}"#);
        assert_eq!(remedy(&answer(&own)), None);
    }
    let other = answer(r#"{"mode":2,"prog":{"id":7,"name":"firewall"}}"#);
    assert_eq!(remedy(&other).as_deref(), Some("sudo ip link set dev eth0 xdpgeneric off"));
    let native = other.replace("\"mode\":2", "\"mode\":1");
    assert_eq!(remedy(&native).as_deref(), Some("sudo ip link set dev eth0 xdpdrv off"));
    let own = r#"{"mode":2,"prog":{"id":6,"name":"ofi_xdp"}}"#;
    let both = answer(&format!(
        r#"{{"mode":4,"attached":[{own},{{"mode":3,"prog":{{"id":7,"name":"firewall"}}}}]}}"#
    ));
    assert_eq!(remedy(&both).as_deref(), Some("sudo ip link set dev eth0 xdpoffload off"));
    let unnamed = answer(r#"{"mode":1,"prog":{"id":7}}"#);
    assert_eq!(remedy(&unnamed).as_deref(), Some("sudo xdp-run --check --nic eth0"));
    assert!(remedy("no JSON").is_some_and(|command| command.contains("iproute2")));
}

#[test]
fn a_tier_has_the_command_of_its_reason() {
    let of = |reason: &str| {
        let reason = format!("not better because: {reason}");
        tier(&offer(&["tier: udp", &reason])).remedy().map(str::to_owned)
    };
    assert_eq!(tier(&offer(&["tier: af_xdp", "mode: zerocopy"])).value, "af_xdp, zerocopy");
    let lines = ["tier: udp", "not better because: AF_XDP needs CAP_BPF; grant it with `a`"];
    assert_eq!(tier(&offer(&lines)).value, "udp: AF_XDP needs CAP_BPF", "the command is below");
    assert_eq!(of("AF_XDP needs CAP_BPF; grant it with `sudo setcap x`").unwrap(), "sudo setcap x");
    let outside = of("AF_XDP needs capabilities outside of this user namespace; run xdp-broker");
    assert!(outside.is_some_and(|command| command.contains("xdp-broker.socket")));
    assert_eq!(of("mode copy was asked for").unwrap(), "unset FI_XDP_MODE");
    assert_eq!(of("zerocopy: driver ena offers none"), None);
}

#[test]
fn loopback_and_hardware_have_a_tier_alone() {
    let mut loopback = offer(&["tier: udp"]);
    loopback.domain = "lo".to_owned();
    for one in [loopback, offer(&[])] {
        let found = findings(&one, "./app");
        assert_eq!(found.iter().map(|it| it.check).collect::<Vec<_>>(), ["tier"], "{one:?}");
    }
}

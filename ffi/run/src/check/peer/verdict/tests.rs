// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each finding about a path, good and not.

use std::time::Duration;

use ofi_xdp_perf::report::{Description, Latency, Stream};

use super::*;

const ADDRESS: &str = "10.0.0.2:7471";

fn ends() -> Ends {
    Ends { ours: [10, 0, 0, 1].into(), theirs: [10, 0, 0, 2].into() }
}

fn report() -> PerfReport {
    let second = (Duration::from_secs(1), Duration::ZERO);
    PerfReport {
        with: Description {
            provider: "xdp".to_owned(),
            domain: "eth0".to_owned(),
            endpoint: None,
            wait: "spin".to_owned(),
            tagged: true,
        },
        libfabric: "2.1".to_owned(),
        verified: false,
        latency: vec![Latency::new(8, &[8_000; 100], 0, Duration::ZERO)],
        stream: vec![
            Stream::new(8, 64, 2_500_000, 0, second),
            Stream::new(65_536, 4, 20_000, 0, second),
        ],
        start_up_ns: None,
        idle: None,
        datagrams: None,
    }
}

fn path() -> PathState {
    PathState {
        interface: "eth0".to_owned(),
        tier: "kernel UDP".to_owned(),
        full: 1500,
        passes: 1500,
        sent: 99_900,
        retransmitted: 100,
    }
}

fn datagrams(to_server: u32, to_client: u32) -> Datagrams {
    Datagrams { sent: 32, to_server, to_client }
}

fn findings(of: &Measured) -> Vec<Finding> {
    measured(of, ADDRESS, ends(), Firewall::Nft)
}

fn failed(why: &str) -> Failed {
    Failed::Message(why.to_owned())
}

#[test]
fn a_port_that_is_closed_has_the_command_that_opens_it() {
    let of = |address, state: PortState| port(address, &state, Firewall::Nft);
    let open = of(ADDRESS, PortState::Open { ends: ends(), took: Duration::from_micros(150) });
    assert_eq!(
        (open.value.as_str(), open.remedy()),
        ("10.0.0.2:7471 accepts, after 150.0 µs", None)
    );
    let refused = of(ADDRESS, PortState::Refused);
    assert!(refused.is_failure() && refused.value == "nobody listens at 10.0.0.2:7471");
    assert_eq!(refused.remedy(), Some("xdp-perf  # on 10.0.0.2"));
    let other = of("[fd00::2]:99", PortState::Refused);
    assert_eq!(other.remedy(), Some("xdp-perf --listen '[::]:99'  # on fd00::2"));
    let dropped = of(ADDRESS, PortState::Unanswered { ours: Some(ends().ours) });
    let command = "sudo nft insert rule inet filter input ip saddr 10.0.0.1 tcp dport 7471 accept";
    assert_eq!(dropped.remedy(), Some(format!("{command}  # on 10.0.0.2").as_str()));
    let down = of(ADDRESS, PortState::Unanswered { ours: None });
    assert_eq!(down.remedy(), Some("ping -c 3 10.0.0.2"));
    let unknown = of("nohost:7471", PortState::Unknown("not known".to_owned()));
    assert_eq!(unknown.remedy(), Some("getent ahosts nohost"));
    let unreachable = of(ADDRESS, PortState::Unreachable("no route to host".to_owned()));
    assert_eq!(unreachable.remedy(), Some("ip route get 10.0.0.2"));
}

#[test]
fn a_good_path_has_figures_and_no_command() {
    let good = Measured {
        datagrams: Ok(datagrams(32, 32)),
        traffic: Some(Ok(report())),
        path: Some(path()),
    };
    let found = findings(&good);
    let shown: Vec<_> = found.iter().map(|it| (it.check, it.value.as_str())).collect();
    let expected = [
        ("UDP ports", "open: 32 of 32 datagrams there, 32 back"),
        ("round trip", "8.0 µs (99 %: 8.0 µs), kernel UDP on eth0"),
        ("rate", "2.500 million messages/s of 8 bytes"),
        ("bandwidth", "10.49 Gb/s with 64 KiB"),
        ("path MTU", "1500, as eth0 sends"),
        ("loss", "0.100 %: 100 of 100000 packets sent again"),
    ];
    assert_eq!(shown, expected);
    assert!(found.iter().all(|it| it.remedy().is_none()), "{found:?}");
    let without_page = findings(&Measured { path: None, ..good });
    assert_eq!(without_page.last().map(|it| it.check), Some("bandwidth"));
}

#[test]
fn datagrams_that_do_not_pass_name_the_firewall() {
    let of = |there, back, passes| {
        udp_ports(datagrams(there, back), passes, ADDRESS, ends(), Firewall::Ufw)
    };
    let theirs = "sudo ufw allow proto udp from 10.0.0.1 to any port 1024:65535  # on 10.0.0.2";
    let ours = "sudo ufw allow proto udp from 10.0.0.2 to any port 1024:65535";
    let cases = [
        (0, 0, "no datagram passes either way: a firewall drops UDP", theirs),
        (0, 32, "no datagram arrives there: a firewall there drops UDP", theirs),
        (32, 0, "no datagram comes back: a firewall here drops UDP", ours),
    ];
    for (there, back, value, command) in cases {
        let found = of(there, back, false);
        assert!(found.is_failure(), "{found:?}");
        assert_eq!((found.value.as_str(), found.remedy()), (value, Some(command)));
        let hidden = of(there, back, true);
        assert!(!hidden.is_failure() && hidden.remedy() == Some(command), "AF_XDP: {hidden:?}");
        assert!(hidden.value.ends_with("AF_XDP passes it by"));
    }
    assert!(of(32, 31, true).remedy().is_some_and(|command| command.starts_with("nstat")));
}

#[test]
fn silence_of_the_provider_has_the_next_step() {
    let silent = Measured {
        datagrams: Ok(datagrams(32, 32)),
        traffic: Some(Err(failed("no answer in 4 s"))),
        path: Some(path()),
    };
    let found = findings(&silent);
    assert_eq!(found.iter().map(|it| it.check).collect::<Vec<_>>(), ["UDP ports", "round trip"]);
    assert!(found[1].is_failure() && found[1].value == "no answer in 4 s");
    assert_eq!(found[1].remedy(), Some("xdp-run --check --peer 10.0.0.2:7471 --tier udp"));
    let found = findings(&Measured { datagrams: Ok(datagrams(32, 0)), ..silent });
    assert!(found[0].is_failure() && found[1].is_failure());
    assert!(found[1].remedy().is_some_and(|command| command.contains("UDP ports are open")));
}

#[test]
fn a_path_with_a_smaller_mtu_is_named() {
    let short = path_mtu(&PathState { passes: 1372, ..path() }, ADDRESS);
    let value = "1372 pass, eth0 sends 1500: `tracepath 10.0.0.2` shows the hop";
    assert_eq!(short.value, value);
    assert_eq!(short.remedy(), Some("sudo ip link set dev eth0 mtu 1372"));
    assert!(!short.is_failure(), "it works, with shorter packets");
}

#[test]
fn loss_above_a_thousandth_is_a_warning() {
    let of = |sent, retransmitted| loss(&PathState { sent, retransmitted, ..path() });
    let command = "ethtool -S eth0 | grep -i drop  # on both hosts";
    assert_eq!(of(99_900, 101).remedy(), Some(command));
    assert_eq!(of(99_900, 100).remedy(), None);
    assert_eq!(of(100, 1).remedy(), None, "one packet");
    let short = loss(&PathState { passes: 1372, retransmitted: 90_000, ..path() });
    assert_eq!(short.remedy(), None, "the path MTU is the cause: {short:?}");
    assert_eq!(of(0, 0).value, "0.000 %: 0 of 0 packets sent again");
}

#[test]
fn a_server_without_a_session_has_a_cause() {
    let remedy = |why: &str| {
        let of = Measured { datagrams: Err(failed(why)), traffic: None, path: None };
        let found = findings(&of);
        assert!(found.len() == 1 && found[0].is_failure(), "{found:?}");
        found[0].remedy().unwrap().to_owned()
    };
    let program = "ss --tcp --listening --processes 'sport = :7471'  # on 10.0.0.2";
    assert_eq!(remedy("the other side says nothing"), program);
    assert_eq!(remedy("no end within 15 s"), program);
    assert_eq!(remedy("not understood: \"SSH-2.0\""), program);
    let versions = "the server failed: the server has version 1, the client 2: install one";
    assert_eq!(remedy(versions), "xdp-perf --version  # on 10.0.0.2");
    let nothing = "libfabric offers nothing for xdp: no data";
    assert_eq!(remedy(&format!("the server failed: {nothing}")), "xdp-run --check  # on 10.0.0.2");
    assert_eq!(remedy(nothing), "FI_LOG_LEVEL=warn fi_info -p xdp");
    assert!(remedy("cannot send a datagram to x: Operation not permitted").contains("output"));
    let missing = no_session(&Failed::Missing, ADDRESS);
    assert!(missing.is_failure() && missing.remedy() == Some("cargo xtask install"));
}

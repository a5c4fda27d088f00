// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the provider tells the user on standard error: one line for each reason, once in a process,
//! and none with `FI_XDP_QUIET=1`. The table of the lines is in `docs/fi_xdp.7.md`.

mod support;

use std::process::{Command, Output, Stdio};

use support::{Libfabric, compiled, left_out};

/// `fi_info -p xdp` with variables, and no log of libfabric's.
fn fi_info(libfabric: Libfabric, variables: &[(&str, &str)]) -> Option<Output> {
    let mut command = libfabric.command(&libfabric.tool("fi_info")?)?;
    command.args(["-p", "xdp"]).env_remove("FI_LOG_LEVEL").envs(variables.iter().copied());
    Some(command.output().expect("fi_info: install libfabric-bin"))
}

/// The lines of this provider.
fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("xdp: ")).map(str::to_owned).collect()
}

/// The provider refuses, and says this line alone, or nothing where it is to be quiet.
#[track_caller]
fn refused(variable: (&str, &str), line: &str) {
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let Some(output) = fi_info(libfabric, &[variable]) else { continue };
        assert!(!output.status.success(), "{variable:?} is accepted");
        assert_eq!(said(&output), [format!("xdp: {line}")]);
        let quiet = fi_info(libfabric, &[variable, ("FI_XDP_QUIET", "1")]).unwrap();
        assert!(!quiet.status.success());
        assert_eq!(said(&quiet), [""; 0]);
    }
}

#[test]
fn a_value_that_cannot_be_is_refused_with_those_that_can() {
    let tiers = "use auto, passthrough, af_xdp or udp";
    refused(
        ("FI_XDP_TIER", "afxdp"),
        &format!("FI_XDP_TIER=afxdp: there is no tier `afxdp`: {tiers}"),
    );
    refused(("FI_XDP_NAME", "verbs"), "FI_XDP_NAME=verbs: there is no such name: use xdp or tcp");
    let numbers = [
        ("FI_XDP_QUEUE", "-1", "0 to 4294967295"),
        ("FI_XDP_QUEUE", "3x", "0 to 4294967295"),
        ("FI_XDP_CHECKSUM", "crc", "auto or full"),
        ("FI_XDP_QUEUES", "0", "1 to 64, or all"),
        ("FI_XDP_QUEUES", "65", "1 to 64, or all"),
        ("FI_XDP_QUEUES", "every", "1 to 64, or all"),
        ("FI_XDP_SPIN", "", "0 to 4294967295"),
        ("FI_XDP_PEER_TIMEOUT", "0", "1 to 120000"),
        ("FI_XDP_CONNECT_TIMEOUT", "120001", "1 to 120000"),
        ("FI_XDP_PATH_RETRY", "28801", "1 to 28800"),
    ];
    for (name, value, range) in numbers {
        refused((name, value), &format!("{name}={value}: use a number from {range}"));
    }
    for name in ["FI_XDP_STEER", "FI_XDP_PCI"] {
        let line = "use yes or no (or 1 or 0, true or false, on or off)";
        refused((name, "perhaps"), &format!("{name}: {line}"));
    }
}

#[test]
fn a_mode_that_does_not_exist_is_refused() {
    let output = fi_info(Libfabric::Installed, &[("FI_XDP_MODE", "foo")]).unwrap();
    assert!(!output.status.success());
    let [line] = &said(&output)[..] else { panic!("{output:?}") };
    assert!(line.starts_with("xdp: FI_XDP_MODE=foo: "), "{line}");
    for mode in ["auto", "zerocopy", "copy", "skb"] {
        assert!(line.contains(mode), "{mode} is missing from {line}");
    }
}

#[test]
fn a_bad_value_of_quiet_is_not_quiet() {
    let output = fi_info(Libfabric::Installed, &[("FI_XDP_QUIET", "maybe")]).unwrap();
    let line = "xdp: FI_XDP_QUIET: use yes or no (or 1 or 0, true or false, on or off)";
    assert_eq!((output.status.success(), said(&output)), (false, vec![line.to_owned()]));
}

#[test]
fn an_interface_that_does_not_exist_is_named_with_those_that_do() {
    let output = fi_info(Libfabric::Installed, &[("FI_XDP_IFACE", "nosuch0")]).unwrap();
    assert!(!output.status.success());
    let [line] = &said(&output)[..] else { panic!("{output:?}") };
    assert!(line.starts_with("xdp: FI_XDP_IFACE=nosuch0: no interface of this name"), "{line}");
    assert!(line.contains("lo") && line.contains("`ip -brief address`"), "{line}");
}

#[test]
fn an_unknown_variable_is_named_with_the_nearest_one_and_harmless() {
    let variables = [("FI_XDP_PEER_LIMIT", "5"), ("FI_XDP_TIER", "udp")];
    let output = fi_info(Libfabric::Installed, &variables).unwrap();
    let line = "xdp: no such variable: FI_XDP_PEER_LIMIT (did you mean FI_XDP_PEER_TIMEOUT?); \
                `fi_info -g xdp` lists them all";
    assert_eq!((output.status.success(), said(&output)), (true, vec![line.to_owned()]));
    let silent = fi_info(Libfabric::Installed, &variables[1..]).unwrap();
    assert_eq!(said(&silent), [""; 0]);
}

/// Runs a script in a network namespace with a veth pair, `x0` of which has 198.18.7.1.
fn on_a_link(script: &str) -> Option<Output> {
    if !nix::unistd::geteuid().is_root() {
        if std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|it| it == "skip") {
            left_out("no privilege");
            return None;
        }
        panic!("this test needs root: cargo xtask test gives it");
    }
    let set_up = "ip link set lo up
        ip link add x0 type veth peer name x1
        ip address add 198.18.7.1/24 dev x0
        ip link set x0 up
        ip link set x1 up";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-ec", &format!("{set_up}\n{script}")]);
    command.env("FI_PROVIDER_PATH", support::provider_path()).env_remove("FI_LOG_LEVEL");
    Some(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn root_a_tier_that_was_asked_for_by_name_says_why_it_is_not_to_be_had() {
    let script = "exec setpriv --inh-caps=-all --bounding-set=-all \
                  env FI_XDP_TIER=af_xdp FI_XDP_BROKER=none fi_info -p xdp";
    let Some(output) = on_a_link(script) else { return };
    assert!(!output.status.success());
    let [line] = &said(&output)[..] else { panic!("{output:?}") };
    assert!(line.starts_with("xdp: FI_XDP_TIER=af_xdp: not on x0: AF_XDP needs CAP_"), "{line}");
    assert!(line.contains("`sudo setcap "), "{line}");
}

/// A queue that does not exist: an endpoint opens on kernel sockets though AF_XDP was asked for.
#[test]
fn root_an_endpoint_without_the_tier_that_was_asked_for_says_why() {
    let program = compiled("addresses");
    let arguments = "x0 198.18.7.1 198.18.7.1 198.18.9.9 fd00:7::1";
    let script =
        format!("FI_XDP_TIER=af_xdp FI_XDP_QUEUE=9 {} {arguments} || true", program.display());
    let output = on_a_link(&script);
    std::fs::remove_file(&program).unwrap();
    let Some(output) = output else { return };
    let lines = said(&output);
    let [line] = &lines[..] else { panic!("{output:?}") };
    let wanted = "xdp: FI_XDP_TIER=af_xdp: an endpoint has not got it: ";
    assert!(line.starts_with(wanted) && line.contains("bind the AF_XDP socket"), "{line}");
}

#[test]
fn a_peer_that_is_not_there_is_named() {
    let program = compiled("silent");
    for (what, wanted) in [
        ("rdm", "has not answered within FI_XDP_PEER_TIMEOUT"),
        ("msg", "has not answered a connection request within FI_XDP_CONNECT_TIMEOUT"),
    ] {
        for libfabric in [Libfabric::Installed, Libfabric::Two] {
            let Some(mut command) = libfabric.command(&program) else { continue };
            command.arg(what).env_remove("FI_LOG_LEVEL");
            command.env("FI_XDP_PEER_TIMEOUT", "500").env("FI_XDP_CONNECT_TIMEOUT", "500");
            let output = command.output().unwrap();
            support::assert_success(what, &output);
            let [line] = &said(&output)[..] else { panic!("{what}: {output:?}") };
            assert!(line.contains(wanted) && line.contains("`nft list ruleset`"), "{line}");
        }
    }
    std::fs::remove_file(program).unwrap();
}

/// Half of the hosts have the name: the other side is libfabric's own `tcp`.
#[test]
fn a_peer_that_speaks_tcp_is_recognised() {
    let program = compiled("silent");
    for what in ["rdm-tcp", "msg-tcp"] {
        for libfabric in [Libfabric::Installed, Libfabric::Two] {
            let Some(mut command) = libfabric.command(&program) else { continue };
            command.arg(what).env_remove("FI_LOG_LEVEL").env("FI_XDP_NAME", "tcp");
            command.env("FI_PROVIDER", "^ofi_rxm,ofi_rxd").env("FI_XDP_PEER_TIMEOUT", "500");
            let output = command.output().unwrap();
            support::assert_success(what, &output);
            let [line] = &said(&output)[..] else { panic!("{what}: {output:?}") };
            let wanted = " speaks TCP, not xdp: set FI_XDP_NAME=tcp there too, or unset it here";
            assert!(line.ends_with(wanted), "{line}");
        }
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_peer_of_another_version_is_named() {
    let program = compiled("silent");
    let mut command = Libfabric::Installed.command(&program).expect("installed");
    command.arg("rdm-version").env_remove("FI_LOG_LEVEL").env("FI_XDP_PEER_TIMEOUT", "500");
    let output = command.output().unwrap();
    std::fs::remove_file(program).unwrap();
    support::assert_success("rdm-version", &output);
    let [line] = &said(&output)[..] else { panic!("{output:?}") };
    let wanted = "install one version of libxdp-fi.so on all hosts";
    assert!(line.starts_with("xdp: peer 127.0.0.1:") && line.ends_with(wanted), "{line}");
}

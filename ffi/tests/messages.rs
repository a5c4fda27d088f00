// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the provider tells the user on standard error: one line for each reason, once in a process,
//! and none with `FI_XDP_QUIET=1`. The table of the lines is in `docs/fi_xdp.7.md`.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
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

/// The one line of this provider, which has this row in the manual's table.
#[track_caller]
fn line(output: &Output, row: &str) -> String {
    let lines = said(output);
    let [line] = &lines[..] else { panic!("{output:?}") };
    let text = line.strip_prefix("xdp: ").unwrap();
    assert!(suits(row, text), "{text:?} is not {row:?}");
    line.clone()
}

/// Whether `text` is a message of `row`, in which `…` and the names stand for anything.
fn suits(row: &str, text: &str) -> bool {
    const NAMES: [&str; 4] = ["VARIABLE", "value", "x", "A"];
    const ENDS: [char; 3] = [' ', '=', ':'];
    let word = |word: &str| match word.trim_end_matches(ENDS) {
        name if NAMES.contains(&name) => word.replacen(name, "…", 1),
        _ => word.to_owned(),
    };
    let pattern: String = row.split_inclusive(ENDS).map(word).collect();
    let mut literals = pattern.split('…');
    let mut rest = text.strip_prefix(literals.next().unwrap());
    for literal in literals {
        rest = rest.and_then(|rest| Some(rest.split_once(literal)?.1));
    }
    rest.is_some()
}

/// The rows of the table, without the marks of Markdown.
fn rows_of_the_manual() -> BTreeSet<String> {
    let manual = std::fs::read_to_string(workspace().join("docs/fi_xdp.7.md")).unwrap();
    let (_, table) = manual.split_once("\n# MESSAGES\n").unwrap();
    let (table, _) = table.split_once("\n# ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| *")?.split_once("* |"));
    rows.map(|(row, _)| row.replace('*', "")).collect()
}

/// The rows that the sources name.
fn rows_of_the_sources(folder: &Path, rows: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rows_of_the_sources(&path, rows);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (_, rest) in
            text.match_indices("Notice::new(").map(|(at, it)| text.split_at(at + it.len()))
        {
            let row = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            rows.insert(row.unwrap_or_else(|| panic!("{}: no row", path.display())).0.to_owned());
        }
    }
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Each message has a row in the manual's table, and each row a test here.
#[test]
fn each_message_has_a_row_in_the_manual_and_a_test() {
    let mut rows = BTreeSet::new();
    rows_of_the_sources(&workspace().join("ffi/src"), &mut rows);
    assert_eq!(rows, rows_of_the_manual());
    let tests = include_str!("messages.rs");
    let (_, tests) = tests.split_once("// The tests of the rows.").unwrap();
    for row in rows {
        assert!(tests.contains(&format!("{row:?}")), "{row:?} has no test");
    }
}

#[test]
fn a_message_is_compared_with_its_row() {
    let row = "peer A has not answered …";
    assert!(
        suits(row, "peer 10.0.0.1:5 has not answered within") && !suits(row, "peer 1 answered")
    );
    assert!(suits("VARIABLE=value: …", "FI_XDP_TIER=x: no"));
    assert!(!suits("VARIABLE=value: …", "FI_XDP_TIER: no"));
    assert!(!suits("no such variable: …", "there is no such variable: X"));
    assert!(suits("… packets of another version …", "peer 1, and packets of another version of"));
}

// The tests of the rows.

/// The provider refuses, and says this line alone, or nothing where it is to be quiet.
#[track_caller]
fn refused(variable: (&str, &str), expected: &str) {
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let Some(output) = fi_info(libfabric, &[variable]) else { continue };
        assert!(!output.status.success(), "{variable:?} is accepted");
        assert_eq!(said(&output), [format!("xdp: {expected}")]);
        line(&output, "VARIABLE=value: …");
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
    refused(("FI_XDP_CHECKSUM", "crc"), "FI_XDP_CHECKSUM=crc: use auto or full");
    let numbers = [
        ("FI_XDP_QUEUE", "-1", "0 to 4294967295"),
        ("FI_XDP_QUEUE", "3x", "0 to 4294967295"),
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
    refused(("FI_XDP_STEER", "perhaps"), "FI_XDP_STEER=perhaps: use no, yes or auto");
    for name in ["FI_XDP_PCI", "FI_XDP_ENTROPY"] {
        let line = "use yes or no (or 1 or 0, true or false, on or off)";
        refused((name, "perhaps"), &format!("{name}=perhaps: {line}"));
    }
}

#[test]
fn a_mode_that_does_not_exist_is_refused() {
    let output = fi_info(Libfabric::Installed, &[("FI_XDP_MODE", "foo")]).unwrap();
    assert!(!output.status.success());
    let line = line(&output, "VARIABLE=value: …");
    assert!(line.starts_with("xdp: FI_XDP_MODE=foo: "), "{line}");
    for mode in ["auto", "zerocopy", "copy", "skb"] {
        assert!(line.contains(mode), "{mode} is missing from {line}");
    }
}

#[test]
fn a_bad_value_of_quiet_is_not_quiet() {
    let output = fi_info(Libfabric::Installed, &[("FI_XDP_QUIET", "maybe")]).unwrap();
    let line = "xdp: FI_XDP_QUIET=maybe: use yes or no (or 1 or 0, true or false, on or off)";
    assert_eq!((output.status.success(), said(&output)), (false, vec![line.to_owned()]));
}

#[test]
fn an_interface_that_does_not_exist_is_named_with_those_that_do() {
    let output = fi_info(Libfabric::Installed, &[("FI_XDP_IFACE", "nosuch0")]).unwrap();
    assert!(!output.status.success());
    let line = line(&output, "FI_XDP_IFACE=x: …");
    assert!(line.starts_with("xdp: FI_XDP_IFACE=nosuch0: no interface of this name"), "{line}");
    assert!(line.contains("lo") && line.contains("`ip -brief address`"), "{line}");
}

#[test]
fn an_unknown_variable_is_named_with_the_nearest_one_and_harmless() {
    let variables = [("FI_XDP_PEER_LIMIT", "5"), ("FI_XDP_TIER", "udp")];
    let output = fi_info(Libfabric::Installed, &variables).unwrap();
    let wanted = "xdp: no such variable: FI_XDP_PEER_LIMIT (did you mean FI_XDP_PEER_TIMEOUT?); \
                  `fi_info -g xdp` lists them all";
    assert_eq!(line(&output, "no such variable: …"), wanted);
    assert!(output.status.success());
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
    let line = line(&output, "FI_XDP_TIER=af_xdp: not on x: …");
    assert!(line.starts_with("xdp: FI_XDP_TIER=af_xdp: not on x0: AF_XDP needs CAP_"), "{line}");
    assert!(line.contains("`sudo setcap "), "{line}");
}

/// A tier that one interface has is given: nothing is said about the loopback interface.
#[test]
fn root_a_tier_that_one_interface_has_is_given_without_a_word() {
    let script = "FI_XDP_TIER=af_xdp fi_info -p xdp";
    let Some(output) = on_a_link(script) else { return };
    assert_eq!((output.status.success(), said(&output)), (true, vec![]), "{output:?}");
}

#[test]
fn root_a_tier_without_an_interface_says_that_none_is_up() {
    let row = "FI_XDP_TIER=af_xdp: not on x: …";
    let script = "ip link set x0 down; ip link set lo down; FI_XDP_TIER=af_xdp fi_info -p xdp";
    let Some(output) = on_a_link(script) else { return };
    let said = line(&output, row);
    assert!(said.contains("not on any interface: none is up") && said.contains("`ip "), "{said}");
    let script = "ip link set x0 down; FI_XDP_TIER=af_xdp fi_info -p xdp";
    let said = line(&on_a_link(script).unwrap(), row);
    assert!(said.contains("not on lo: packets over the loopback interface"), "{said}");
}

#[test]
fn hardware_that_is_not_there_is_named() {
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let Some(output) = fi_info(libfabric, &[("FI_XDP_TIER", "passthrough")]) else { continue };
        let said = line(&output, "FI_XDP_TIER=passthrough: …");
        assert!(said.contains("no passthrough: ") && said.contains("`FI_XDP_TIER=auto`"), "{said}");
    }
}

/// An endpoint on a link with the tier by name, where `set_up` stands in its way: the reason.
fn not_got(set_up: &str, through: &str) -> Option<String> {
    let program = compiled("addresses");
    let arguments = "x0 198.18.7.1 198.18.7.1 198.18.9.9 fd00:7::1";
    let run = format!("FI_XDP_TIER=af_xdp {through} {} {arguments}", program.display());
    let output = on_a_link(&format!("{set_up}\n{run} || true"));
    std::fs::remove_file(&program).unwrap();
    let line = line(&output?, "… an endpoint has not got it: …");
    Some(line)
}

#[test]
fn root_a_limit_of_locked_memory_is_named_with_its_command() {
    let through = "prlimit --memlock=1048576 setpriv --inh-caps=-all \
                   --bounding-set=-all,+net_raw,+net_admin,+bpf";
    let Some(line) = not_got("", through) else { return };
    assert!(line.contains("`ulimit -l`") && line.contains("CAP_IPC_LOCK"), "{line}");
}

#[test]
fn root_an_mtu_without_room_for_a_packet_is_named() {
    let program = compiled("addresses");
    let run = format!("{} x0 198.18.7.1 198.18.7.1 198.18.9.9 fd00:7::1", program.display());
    let output = on_a_link(&format!("ip link set x0 mtu 100\n{run} || true"));
    std::fs::remove_file(&program).unwrap();
    let Some(output) = output else { return };
    let line = line(&output, "x has an MTU of value bytes: …");
    let wanted = "xdp: x0 has an MTU of 100 bytes: no endpoint opens there; ";
    assert!(line.starts_with(wanted) && line.ends_with("`ip link set x0 mtu 1500`"), "{line}");
}

/// A queue that does not exist: an endpoint opens on kernel sockets though AF_XDP was asked for.
#[test]
fn root_an_endpoint_without_the_tier_that_was_asked_for_says_why() {
    let Some(line) = not_got("", "env FI_XDP_QUEUE=9") else { return };
    let wanted = "xdp: FI_XDP_TIER=af_xdp: an endpoint has not got it: ";
    assert!(line.starts_with(wanted) && line.contains("bind the AF_XDP socket"), "{line}");
    // A queue and a mode are asked for by name as well.
    let uncapable = "setpriv --inh-caps=-all --bounding-set=-all env FI_XDP_BROKER=none";
    for (through, variable) in [("env", "FI_XDP_QUEUE=9"), (uncapable, "FI_XDP_MODE=copy")] {
        let line = not_got("", &format!("{through} FI_XDP_TIER=auto {variable}")).unwrap();
        let wanted = format!("xdp: {variable}: an endpoint has not got it: ");
        assert!(line.starts_with(&wanted), "{line}");
    }
}

#[test]
fn a_peer_that_is_not_there_is_named() {
    let program = compiled("silent");
    let (rdm, msg) = ("peer A has not answered …", "A has not answered a connection …");
    for (what, row, wanted) in [
        ("rdm", rdm, "has not answered within FI_XDP_PEER_TIMEOUT"),
        ("msg", msg, "has not answered a connection request within FI_XDP_CONNECT_TIMEOUT"),
    ] {
        for libfabric in [Libfabric::Installed, Libfabric::Two] {
            let Some(mut command) = libfabric.command(&program) else { continue };
            command.arg(what).env_remove("FI_LOG_LEVEL");
            command.env("FI_XDP_PEER_TIMEOUT", "500").env("FI_XDP_CONNECT_TIMEOUT", "500");
            let output = command.output().unwrap();
            support::assert_success(what, &output);
            let line = line(&output, row);
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
            let line = line(&output, "A speaks TCP, not xdp: …");
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
    let line = line(&output, "… packets of another version …");
    let wanted = "install one version of libxdp-fi.so on all hosts";
    assert!(line.starts_with("xdp: peer 127.0.0.1:") && line.ends_with(wanted), "{line}");
}

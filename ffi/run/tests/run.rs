// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-run` with the built provider: the environment, the checks before the start, the exit
//! status, the path to a peer.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A folder with the provider, under the name that libfabric expects. Tests of one process share
/// it.
static PROVIDER_FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().unwrap().join("libxdp_fi.so");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider");
    std::fs::create_dir_all(&folder).unwrap();
    let own = folder.join(format!("libxdp-fi.so.{}", std::process::id()));
    std::fs::copy(&built, &own).expect("cargo builds the provider before these tests");
    std::fs::rename(&own, folder.join("libxdp-fi.so")).unwrap();
    folder
});

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdp-run"));
    command.args(arguments).env("FI_PROVIDER_PATH", PROVIDER_FOLDER.as_path());
    command.env_remove("FI_LOG_LEVEL").env_remove("FI_PROVIDER");
    command
}

/// Variables for kernel sockets on the loopback interface.
const LOOPBACK: [(&str, &str); 2] = [("FI_XDP_TIER", "udp"), ("FI_XDP_IFACE", "lo")];

/// `xdp-perf`, which waits for clients; ended with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        // Cargo builds the programs of this package alone.
        let program = Path::new(env!("CARGO_BIN_EXE_xdp-run")).with_file_name("xdp-perf");
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]).envs(LOOPBACK);
        command.env("FI_PROVIDER_PATH", PROVIDER_FOLDER.as_path()).env_remove("FI_PROVIDER");
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.expect("`cargo build -p ofi-xdp-perf` comes before these tests");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows about a peer, as (check, result, remedy), and the exit status.
fn peer(address: &str) -> (Vec<[String; 3]>, Option<i32>) {
    let mut command = command(&["--check", "--json", "--peer", address]);
    let output = command.envs(LOOPBACK).output().unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let peer = rows.iter().filter(|row| row["subject"] == "peer");
    let fields = |row: &serde_json::Value| {
        ["check", "result", "remedy"].map(|name| row[name].as_str().unwrap_or_default().to_owned())
    };
    (peer.map(fields).collect(), output.status.code())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_program_has_the_environment_and_its_own_exit_status() {
    let show = "echo $FI_XDP_NAME $FI_PROVIDER $FI_XDP_TIER $FI_XDP_IFACE; exit 7";
    let output = run(&["--tier", "udp", "--nic", "lo", "sh", "-c", show]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(7), "xdp xdp udp lo\n")
    );
    assert_eq!(text(&output.stderr), "", "it is silent without -v");
    let output =
        run(&["--as", "tcp", "--tier", "udp", "sh", "-c", "echo $FI_XDP_NAME-$FI_PROVIDER"]);
    assert_eq!(text(&output.stdout), "tcp-\n");
}

#[test]
fn verbose_is_one_line() {
    let output = run(&["-v", "--as", "tcp", "--tier", "udp", "--nic", "lo", "true"]);
    assert!(output.status.success());
    let wanted = "xdp-run: tcp: lo (udp); FI_XDP_NAME=tcp FI_XDP_TIER=udp FI_XDP_IFACE=lo\n";
    assert_eq!(text(&output.stderr), wanted);
}

/// The program is libfabric's own tool, which finds the provider by name.
#[test]
fn applications_find_the_provider_under_its_name() {
    for name in ["xdp", "tcp"] {
        let info = ["fi_info", "-p", name, "-t", "FI_EP_MSG"];
        let output = run(&[&["--as", name, "--tier", "udp", "--nic", "lo"], &info[..]].concat());
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(shown.contains(&format!("provider: {name}\n")), "{shown}");
        let protocol = if name == "tcp" { "FI_PROTO_SOCK_TCP" } else { "protocol: " };
        assert!(shown.contains(protocol), "{shown}");
    }
}

#[test]
fn nothing_is_started_where_nothing_is_offered() {
    let output = run(&["--nic", "nosuch0", "sh", "-c", "echo started"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
    let said = text(&output.stderr);
    assert!(said.contains("xdp: FI_XDP_IFACE=nosuch0: no interface of this name"), "{said}");
    assert!(said.contains("xdp-run: the provider offers nothing for --as xdp --nic nosuch0"));
}

#[test]
fn a_program_that_cannot_be_started_has_the_status_of_env() {
    let output = run(&["--tier", "udp", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    let output = run(&["--tier", "udp", "/dev/null"]);
    assert_eq!(output.status.code(), Some(126), "{output:?}");
    assert_eq!(run(&["--as", "verbs", "true"]).status.code(), Some(125));
}

#[test]
fn a_signal_that_ends_the_program_is_passed_on() {
    let output = run(&["--tier", "udp", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
}

/// The table of loopback is the same for every user. What the host has differs.
#[test]
fn check_prints_a_table_and_says_whether_the_tier_is_to_be_had() {
    let output = run(&["--check", "--nic", "lo"]);
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.starts_with("lo\n  ✓ tier          udp: packets over the loopback"), "{shown}");
    for check in ["kernel", "libfabric", "offers", "capabilities", "memlock", "broker", "hardware"]
    {
        let has = |line: &str| line.split_whitespace().nth(1) == Some(check);
        assert_eq!(shown.lines().filter(|line| has(line)).count(), 1, "{check}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe: {shown}");
    let output = run(&["--check", "--tier", "af_xdp", "--nic", "lo"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "xdp-run: --tier af_xdp is not to be had\n");
}

#[test]
fn check_without_an_offer_still_has_the_host() {
    let output = run(&["--check", "--nic", "nosuch0"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("  ✗ offers        0\n"), "{shown}");
    assert!(text(&output.stderr).contains("no interface of this name"), "{output:?}");
}

#[test]
fn check_as_json_has_the_rows_of_the_table() {
    let output = run(&["--check", "--json", "--nic", "lo"]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (rows[0]["subject"].as_str(), rows[0]["check"].as_str()),
        (Some("lo"), Some("tier"))
    );
    for row in &rows {
        let is_good = row["result"] == "good";
        assert_eq!(is_good, row["remedy"].is_null(), "a remedy where it is not good: {row}");
        assert!(is_good || row["result"] == "warning" || row["result"] == "failure", "{row}");
    }
    let table = text(&run(&["--check", "--nic", "lo"]).stdout);
    let lines =
        table.lines().filter(|line| ["  ✓", "  !", "  ✗"].iter().any(|it| line.starts_with(it)));
    assert_eq!(lines.count(), rows.len(), "{table}");
    assert_eq!(run(&["--json", "true"]).status.code(), Some(125), "without --check");
}

#[test]
fn the_path_to_a_peer_is_measured() {
    let server = Server::start();
    let (rows, status) = peer(&server.address);
    let checks: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let expected =
        ["control port", "UDP ports", "round trip", "rate", "bandwidth", "path MTU", "loss"];
    assert_eq!((checks.as_slice(), status), (&expected[..], Some(0)), "{rows:?}");
    // A process that is not scheduled in time loses packets.
    for row in rows.iter().filter(|row| row[0] != "loss") {
        assert_eq!(row[1], "good", "{rows:?}");
    }
    // The table has them too, and the server serves the next one.
    let mut command = command(&["--check", "--peer", &server.address]);
    let shown = text(&command.envs(LOOPBACK).output().unwrap().stdout);
    assert!(shown.contains("\npeer\n  ✓ control port  127.0.0.1:"), "{shown}");
    assert!(shown.contains(", kernel UDP on lo\n"), "{shown}");
}

#[test]
fn a_peer_without_a_listener_has_the_command() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (rows, status) = peer(&closed.to_string());
    let command = format!("xdp-perf --listen '[::]:{}'  # on 127.0.0.1", closed.port());
    assert_eq!(rows, [["control port".to_owned(), "failure".to_owned(), command]]);
    assert_eq!(status, Some(1));
}

/// The listener accepts by its backlog, and says nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn a_peer_that_is_silent_is_left_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let start = Instant::now();
    let (rows, status) = peer(&address.to_string());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let port = address.port();
    let command = format!("ss --tcp --listening --processes 'sport = :{port}'  # on 127.0.0.1");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0][..2], ["control port", "good"]);
    assert_eq!(rows[1], ["session".to_owned(), "failure".to_owned(), command]);
    assert_eq!(status, Some(1));
    assert_eq!(run(&["--peer", "127.0.0.1", "true"]).status.code(), Some(125), "without --check");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-perf` with the built provider, over kernel sockets on the loopback interface.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

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

fn perf() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdp-perf"));
    command.env("FI_PROVIDER_PATH", PROVIDER_FOLDER.as_path());
    command.envs([("FI_XDP_TIER", "udp"), ("FI_XDP_IFACE", "lo")]);
    command.env_remove("FI_LOG_LEVEL").env_remove("FI_PROVIDER");
    command
}

/// A server for any number of clients; ended with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        Self::listening(&[])
    }

    fn listening(arguments: &[&str]) -> Self {
        let mut command = perf();
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self { child, address }
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = perf();
        command.arg(&self.address).args(arguments);
        command
    }

    fn measure(&self, arguments: &[&str]) -> Output {
        self.client(arguments).output().unwrap()
    }

    /// The JSON object of a measurement that succeeds.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.measure(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

/// Bounds that keep the test short.
const SHORT: [&str; 4] = ["--time", "100", "--warm-up", "10"];

#[test]
fn every_operation_has_latency_and_rate() {
    let server = Server::start();
    for operation in ["message", "tagged", "write", "read", "atomic"] {
        let own = ["-o", operation, "--latency", "8", "--rate", "8", "--verify"];
        let json = server.json(&[&own[..], &SHORT].concat());
        assert!(number(&json, "/latency/0/round_trips") > 1.0, "{operation}: {json}");
        let (least, most) =
            (number(&json, "/latency/0/min_ns"), number(&json, "/latency/0/max_ns"));
        let median = number(&json, "/latency/0/p50_ns");
        assert!(0.0 < least && least <= median && median <= most, "{operation}: {json}");
        assert!(number(&json, "/stream/0/messages") > 0.0, "{operation}: {json}");
        assert_eq!(json.pointer("/with/provider").unwrap(), "xdp");
        assert_eq!(json.pointer("/with/tagged").unwrap(), &Value::Bool(operation == "tagged"));
    }
}

#[test]
fn a_range_of_sizes_is_measured_size_by_size() {
    let server = Server::start();
    let json = server.json(&[&["--latency", "1..8", "--bandwidth", "64K,1M"], &SHORT[..]].concat());
    let sizes = |list: &str| -> Vec<u64> {
        let list = json.get(list).and_then(Value::as_array).unwrap();
        list.iter().map(|one| one.get("size_bytes").and_then(Value::as_u64).unwrap()).collect()
    };
    assert_eq!((sizes("latency"), sizes("stream")), (vec![1, 2, 4, 8], vec![65_536, 1 << 20]));
}

#[test]
fn the_terminal_gets_a_line_an_interval_and_a_table() {
    let server = Server::start();
    let output = server.measure(&["-t", "0.35", "-i", "0.1", "--latency", "8", "--rate", "8"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let text = text(&output.stdout);
    assert!(text.lines().filter(|line| line.contains(" s   ")).count() >= 4, "{text}");
    for wanted in ["xdp on lo, FI_EP_RDM, tagged", "99.999 %", "≤ ", "under way", "bandwidth"] {
        assert!(text.contains(wanted), "{wanted:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn two_providers_are_compared_in_turns() {
    let server = Server::start();
    let turns = ["--compare", "tcp", "--rounds", "2", "-o", "message", "--latency", "8"];
    let json = server.json(&[&turns[..], &SHORT].concat());
    for (index, provider) in ["xdp", "tcp"].into_iter().enumerate() {
        assert_eq!(json.pointer(&format!("/{index}/provider")).unwrap(), provider);
        let reports = json.pointer(&format!("/{index}/reports")).and_then(Value::as_array).unwrap();
        assert_eq!(reports.len(), 2);
        let with = reports.iter().map(|report| report.pointer("/with/provider").unwrap());
        assert!(with.into_iter().all(|with| with == provider), "{json}");
    }
    let output = server.measure(&[&turns[..], &SHORT].concat());
    let text = text(&output.stdout);
    assert!(text.contains("latency 8 B, 50 %") && text.contains("tcp"), "{text}");
}

/// Long messages in the same session leave few buffers for the small ones.
#[test]
fn writes_never_overwrite_a_buffer_that_was_not_read() {
    let server = Server::start();
    let own = ["-o", "write", "--rate", "8", "-b", "64K,1M", "--verify"];
    let json = server.json(&[&own[..], &SHORT].concat());
    for (index, window) in [16.0, 4.0, 2.0].into_iter().enumerate() {
        assert_eq!(number(&json, &format!("/stream/{index}/window")), window, "{json}");
        assert!(number(&json, &format!("/stream/{index}/messages")) > 0.0, "{json}");
    }
    let exact = ["-o", "write", "--stream", "8x64", "--latency", "1M"];
    let output = server.measure(&[&exact[..], &SHORT].concat());
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("64 messages under way, and 16 buffers"), "{said}");
}

#[test]
fn a_reader_that_leaves_ends_the_measurement_without_a_word() {
    let server = Server::start();
    for arguments in [&["-t", "60", "-i", "0.05", "--rate", "8"][..], &["--completions", "bash"]] {
        let mut command = server.client(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
        reader.read_line(&mut String::new()).unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    }
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let server = Server::start();
    let output = server.measure(&["-p", "no-such-provider"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-such-provider"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "nothing was measured");
}

#[test]
fn a_server_outlives_garbage_silence_and_dead_clients() {
    let server = Server::start();
    // A client of another version, one that speaks something else, and one that leaves at once.
    let opening = r#"{"open":{"version":"0.0.0","config":null,"size_max":8,"verify":false}}"#;
    for line in [opening, "GET / HTTP/1.1", "", "{\"open\":{", "\u{0}\u{1}\u{2}"] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("failed"), "{line:?}: {answer:?}");
        if line == opening {
            assert!(answer.contains("0.0.0") && answer.contains("version"), "{answer:?}");
        }
    }
    drop(TcpStream::connect(&server.address).unwrap());
    // A message that no memory holds is refused before it is allocated.
    let version = env!("CARGO_PKG_VERSION");
    let huge = format!(
        r#"{{"open":{{"version":"{version}","config":null,"size_max":{},"verify":false}}}}"#,
        u64::MAX
    );
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(format!("{huge}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.contains("failed") && answer.contains("at most"), "{answer:?}");
    // A silent client keeps the next one for a bounded time only.
    let silent = TcpStream::connect(&server.address).unwrap();
    // A client that is killed in the middle of a measurement.
    let mut killed = server.client(&["-t", "60", "--rate", "8"]);
    let mut killed = killed.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(killed.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("xdp on lo"), "{line:?}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(silent);
    let json = server.json(&[&["--latency", "8"], &SHORT[..]].concat());
    assert!(number(&json, "/latency/0/round_trips") > 1.0);
}

#[test]
fn datagrams_are_counted_each_way() {
    let server = Server::start();
    let json = server.json(&["--datagrams"]);
    for end in ["sent", "to_server", "to_client"] {
        assert_eq!(number(&json, &format!("/datagrams/{end}")), 32.0, "{json}");
    }
    assert_eq!(json.pointer("/latency/0"), None, "{json}");
}

#[test]
fn a_look_at_the_port_is_no_session() {
    let server = Server::listening(&["--sessions", "1"]);
    drop(TcpStream::connect(&server.address).unwrap());
    let json = server.json(&["--datagrams"]);
    assert_eq!(number(&json, "/datagrams/to_client"), 32.0, "{json}");
}

#[test]
fn without_a_server_the_host_is_named() {
    let output = perf().args(["127.0.0.1:9", "--timeout", "200"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("127.0.0.1:9"), "{}", text(&output.stderr));
}

#[test]
fn a_server_that_is_waited_for_is_named() {
    let output = perf().args(["127.0.0.1:9", "--timeout", "1200"]).output().unwrap();
    let said = text(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let wanted = "waiting for a server at 127.0.0.1:9: start `xdp-perf` there";
    assert_eq!((lines.len(), lines[0]), (2, wanted), "{said}");
    assert!(lines[1].contains("nobody listens at 127.0.0.1:9"), "{said}");
}

#[test]
fn a_port_of_another_program_is_recognised() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let client = perf().arg(address.to_string()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stream, _) = other.accept().unwrap();
    stream.write_all(format!("HTTP/1.1 400 {}\r\n", "x".repeat(500)).as_bytes()).unwrap();
    let said = text(&client.wait_with_output().unwrap().stderr);
    assert!(said.contains("no xdp-perf of this version; it says \"HTTP/1.1 400"), "{said}");
    assert!(said.contains(&format!("sport = {}", address.port())) && said.len() < 300, "{said}");
}

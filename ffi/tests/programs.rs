// SPDX-License-Identifier: MIT OR Apache-2.0
//! C programs and libfabric's own tools, with the built provider, on the installed libfabric and on
//! libfabric 2. The programs are compiled once, against the installed headers: on libfabric 2 they
//! are the old applications that it must serve.

mod support;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{
    Libfabric, assert_success, compiled, debian_13, has_valgrind, left_out, provider_path,
};

/// Runs a C program with each available libfabric.
#[track_caller]
fn run(name: &str, arguments: &[&str]) {
    let program = compiled(name);
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let Some(mut command) = libfabric.command(&program) else { continue };
        let output = command.args(arguments).output().unwrap();
        assert_success(&format!("{name} on {libfabric:?}"), &output);
    }
    std::fs::remove_file(program).unwrap();
}

/// Runs without root: tests without root cannot write to files that tests with root leave.
#[test]
fn libfabric_2_is_fetched() {
    let Some(root) = debian_13() else { return };
    assert!(root.join("usr/lib/x86_64-linux-gnu/libfabric.so.1").exists());
}

#[test]
fn getinfo() {
    run("getinfo", &[]);
}

#[test]
fn applications_of_old_interfaces() {
    run("old", &[]);
}

#[test]
fn misuse() {
    run("misuse", &[]);
}

#[test]
fn shared_contexts() {
    run("contexts", &[]);
}

#[test]
fn addresses_of_passive_endpoints() {
    run("listen", &[]);
}

#[test]
fn deferred_work() {
    run("work", &[]);
}

#[test]
fn address_vectors() {
    run("av", &[]);
}

#[test]
fn queues_sets_and_waiting() {
    run("waits", &[]);
}

#[test]
fn progress_without_the_application() {
    run("progress", &["manual"]);
    run("progress", &["auto"]);
}

#[test]
fn idle_endpoints_take_little_memory_and_no_time() {
    run("crowd", &[]);
}

#[test]
fn memory_and_threads_that_are_refused() {
    run("refused", &[]);
}

#[test]
fn calls_on_a_domain_while_an_endpoint_closes() {
    run("closing", &[]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn long_double_is_that_of_the_processor() {
    run("long_double", &[]);
}

#[test]
fn an_application_that_polls_at_long_intervals() {
    run("lazy", &[]);
}

#[test]
fn ends_of_processes() {
    for end in ["exit", "return", "dlclose", "fork", "signals"] {
        run("lifecycle", &[end]);
    }
}

/// The programs over kernel sockets, under a tool that checks every memory access. A report is a
/// fault of this library or of the test.
#[test]
fn valgrind_finds_nothing() {
    if !has_valgrind() {
        return;
    }
    // The kinds of leaks that are faults: the child of a fork ends with its parent's open objects.
    for (name, leaks) in [("misuse", "none"), ("waits", "definite"), ("av", "definite")] {
        let program = compiled(name);
        let mut command = Command::new("timeout");
        command.args(["300", "valgrind", "--quiet", "--error-exitcode=9", "--fair-sched=yes"]);
        command.arg("--child-silent-after-fork=yes");
        command.args(["--leak-check=full", &format!("--errors-for-leak-kinds={leaks}")]);
        command.arg(&program).env("FI_PROVIDER_PATH", provider_path());
        command.env("FI_LOG_LEVEL", "warn").env("FI_XDP_TIER", "udp").env("UNDER_VALGRIND", "1");
        let output = command.output().unwrap();
        assert_success(&format!("{name} under valgrind"), &output);
        std::fs::remove_file(program).unwrap();
    }
}

#[test]
fn messages_over_ipv4() {
    run("messages", &["127.0.0.1"]);
}

/// As Debian's `/etc/hosts` has it for the name of the host.
#[test]
fn messages_over_another_loopback_address() {
    run("messages", &["127.0.1.1"]);
}

#[test]
fn messages_over_ipv6() {
    run("messages", &["::1"]);
}

#[test]
fn matching_over_ipv4() {
    run("matching", &["127.0.0.1"]);
}

#[test]
fn matching_over_ipv6() {
    run("matching", &["::1"]);
}

/// Runs a C program, with each list of arguments, in a network namespace that ends with it. The
/// namespace has a veth pair, of which `x0` has two addresses of each family.
#[track_caller]
fn run_on_a_link(name: &str, runs: &[&[&str]]) {
    let set_up = "ip link set lo up
        ip link add x0 type veth peer name x1
        for ip in 198.18.7.1/24 198.18.7.2/24 fd00:7::1/64 fd00:7::2/64; do
            ip address add $ip dev x0 $(case $ip in (fd*) echo nodad;; esac)
        done
        ip link set x0 up
        ip link set x1 up
        exec \"$@\"";
    run_on_a_host(set_up, name, runs);
}

/// Runs a C program, with each list of arguments, in a network namespace that `set_up` fills.
#[track_caller]
fn run_on_a_host(set_up: &str, name: &str, runs: &[&[&str]]) {
    let unprivileged = !nix::unistd::geteuid().is_root();
    if std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|it| it == "skip") && unprivileged {
        return left_out("no privilege");
    }
    let program = compiled(name);
    for arguments in runs {
        let inner = Libfabric::Installed.command(&program).expect("installed");
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-ec", set_up, "sh"]).arg(inner.get_program());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.args(*arguments).output().unwrap();
        assert_success(&format!("{name} {arguments:?}"), &output);
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn root_two_addresses_of_one_interface() {
    run_on_a_link(
        "addresses",
        &[
            &["x0", "198.18.7.1", "198.18.7.2", "198.18.9.9", "fd00:7::1"],
            &["x0", "fd00:7::1", "fd00:7::2", "fd00:9::9", "198.18.7.1"],
        ],
    );
}

#[test]
fn root_a_link_changes_under_open_objects() {
    run_on_a_link("links", &[&["x0", "198.18.7.1"]]);
}

#[test]
fn root_af_xdp_beside_signals_children_and_limits() {
    let runs = ["signals", "fork", "limit"].map(|what| ["198.18.7.1", what]);
    run_on_a_link("xdp", &runs.each_ref().map(|run| &run[..]));
}

#[test]
fn root_refused_memory_on_af_xdp() {
    run_on_a_link("refused", &[&["198.18.7.1", "20", "x0"]]);
}

/// Lists with an entry for each interface are longer than the blocks of the reserve.
#[test]
fn root_refused_memory_beside_many_interfaces() {
    let set_up = "ip link set lo up
        for one in $(seq 600); do
            echo link add m$one type veth peer name n$one
            echo address add 198.18.$((one / 200)).$((one % 200))/32 dev m$one
            echo address add 198.19.$((one / 200)).$((one % 200))/32 dev n$one
            echo link set m$one up
            echo link set n$one up
        done | ip -batch -
        exec \"$@\"";
    run_on_a_host(set_up, "refused", &[&["127.0.0.1", "20000"]]);
}

#[test]
#[ignore = "moves 4 GiB, takes 8 GiB of memory: cargo nextest run --release -p ofi-xdp-ffi \
            --run-ignored only"]
fn a_message_of_more_than_4_gib() {
    run("large", &["127.0.0.1"]);
}

fn tool(libfabric: Libfabric, name: &str, arguments: &[&str]) -> Option<Command> {
    let mut command = libfabric.command(&libfabric.tool(name)?)?;
    command.args(arguments);
    Some(command)
}

#[test]
fn fi_info_shows_the_provider() {
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let Some(mut verbose) = tool(libfabric, "fi_info", &["-p", "xdp", "-v"]) else { continue };
        let output = verbose.output().expect("fi_info: install libfabric-bin");
        assert_success("fi_info -p xdp -v", &output);
        let text = String::from_utf8_lossy(&output.stdout);
        for wanted in
            ["FI_EP_RDM", "prov_name: xdp", "FI_TAGGED", "name: lo", "tier: ", "no passthrough"]
        {
            assert!(text.contains(wanted), "{wanted} is missing from\n{text}");
        }
        assert!(!text.contains("ofi_rxm") && !text.contains("ofi_rxd"), "layered:\n{text}");

        let output = tool(libfabric, "fi_info", &["-g", "xdp"]).unwrap().output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let names = [
            "TIER",
            "PASSTHROUGH",
            "IFACE",
            "MODE",
            "QUEUE",
            "BROKER",
            "PEER_TIMEOUT",
            "PATH_RETRY",
            "SPIN",
            "PCI",
            "QUIET",
            "NAME",
        ];
        for wanted in names {
            assert!(
                text.contains(&format!("FI_XDP_{wanted}:")),
                "{wanted} is missing from\n{text}"
            );
        }
    }
}

/// Ends a program that has not ended by itself.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ping_pong(libfabric: Libfabric, extra: &[&str], variables: &[(&str, &str)]) {
    // Port of the tool's own control connection.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let common = ["-p", "xdp", "-e", "rdm", "-c", "-I", "50"];
    let server = [&common[..], extra, &["-B", &port]].concat();
    let client = [&common[..], extra, &["-P", &port, "127.0.0.1"]].concat();
    let Some(mut server) = tool(libfabric, "fi_pingpong", &server) else { return };
    server.envs(variables.iter().copied());
    let server = server.stdout(Stdio::null()).spawn().expect("fi_pingpong: libfabric-bin");
    let mut server = Reaped(server);
    let mut client = tool(libfabric, "fi_pingpong", &client).unwrap();
    client.envs(variables.iter().copied());
    let mut output = client.output().unwrap();
    for _ in 0..50 {
        if output.status.success() {
            break;
        }
        // The server may not be listening yet.
        std::thread::sleep(Duration::from_millis(100));
        output = client.output().unwrap();
    }
    assert_success(&format!("fi_pingpong {extra:?} on {libfabric:?}"), &output);
    assert!(server.0.wait().unwrap().success(), "the server failed");
}

#[test]
fn fi_pingpong_verifies_its_data() {
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        ping_pong(libfabric, &["-d", "lo", "-S", "all"], &[]);
        ping_pong(libfabric, &["-d", "lo", "-m", "tagged"], &[]);
    }
}

/// libfabric's own providers in place of hardware: bare and below a utility provider, shown and
/// hidden by `FI_PROVIDER`.
#[test]
fn fi_pingpong_through_stand_ins() {
    let one = |libfabric, domain, stand_in, filter: &'static str| {
        let mut variables = vec![("FI_XDP_TIER", "passthrough"), ("FI_XDP_PASSTHROUGH", stand_in)];
        if !filter.is_empty() {
            variables.push(("FI_PROVIDER", filter));
        }
        ping_pong(libfabric, &["-d", domain, "-S", "4096"], &variables);
    };
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        for filter in ["", "xdp"] {
            one(libfabric, "tcp;ofi_rxm:lo", "tcp", filter);
        }
        one(libfabric, "tcp;ofi_rxm:lo", "tcp;ofi_rxm", "tcp,xdp");
        one(libfabric, "udp;ofi_rxd:lo", "udp", "xdp");
        one(libfabric, "shm:shm", "shm", "xdp");
    }
    one(Libfabric::Installed, "sockets:lo", "sockets", "xdp");
    one(Libfabric::Two, "tcp:lo", "tcp", "xdp");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passthrough onto a mock provider that logs every call: offers, names and filters, the opened
//! objects of the mock, and the cost of a write.

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};

use support::{Libfabric, assert_success, compiled, has_valgrind, library, scratch};

/// A folder of the test with both providers, and the program. It is removed at the end.
struct Fixture {
    folder: PathBuf,
    program: PathBuf,
}

impl Fixture {
    fn new(test: &str) -> Self {
        let folder = scratch(&format!("passthrough-{test}-{}", std::process::id()));
        std::fs::copy(library(), folder.join("libxdp-fi.so")).unwrap();
        let mock = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/mock.c");
        let status = Command::new("cc")
            .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1"])
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.join("libmock-fi.so"))
            .args([mock, "-lfabric", "-ldl"])
            .status()
            .expect("cc: install gcc and libfabric-dev");
        assert!(status.success(), "mock.c does not compile");
        let program = folder.join("program");
        std::fs::rename(compiled("passthrough"), &program).unwrap();
        Self { folder, program }
    }

    /// Runs the program; returns its output and the mock's log.
    fn run(
        &self,
        libfabric: Libfabric,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Option<(Output, Vec<String>)> {
        let log = self.folder.join("calls");
        let _ = std::fs::remove_file(&log);
        let mut command = libfabric.command(&self.program)?;
        command.args(arguments).env("FI_PROVIDER_PATH", &self.folder).env("MOCK_LOG", &log);
        command.env("FI_XDP_PASSTHROUGH", "mock").env("FI_XDP_IFACE", "");
        command.env_remove("FI_XDP_IFACE").envs(variables.iter().copied());
        let output = command.output().unwrap();
        let calls = std::fs::read_to_string(log).unwrap_or_default();
        Some((output, calls.lines().map(str::to_owned).collect()))
    }

    /// Runs the program with each libfabric; it must succeed.
    #[track_caller]
    fn each(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
        check: impl Fn(&str, &[String]),
    ) {
        for libfabric in [Libfabric::Installed, Libfabric::Two] {
            let Some((output, calls)) = self.run(libfabric, arguments, variables) else { continue };
            let what = format!("{arguments:?} {variables:?} on {libfabric:?}");
            assert_success(&format!("{what}: {calls:#?}"), &output);
            check(&String::from_utf8_lossy(&output.stdout), &calls);
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The lines of `list` about passed-through offers.
fn passed(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("offer xdp mock:")).collect()
}

const BOTH: [&str; 2] = ["offer xdp mock:net:7 mock:mock0", "offer xdp mock:net:7 mock:mock1"];

#[test]
fn hardware_is_offered_first_and_once_under_true_names() {
    Fixture::new("offers").each(&["offers"], &[], |_, _| ());
}

#[test]
fn opened_objects_are_the_hardwares_own() {
    Fixture::new("objects").each(&["objects"], &[], |_, calls| {
        let count = |text: &str| calls.iter().filter(|call| call.as_str() == text).count();
        assert_eq!(count("fabric mock net:7"), 3, "{calls:#?}");
        for (call, times) in [
            ("domain mock net:7 mock1", 1),
            ("domain mock net:7 mock0", 1),
            ("domain mock net:7 mock9", 1),
            ("domain2 mock net:7 mock1", 1),
            ("endpoint mock net:7 mock1", 1),
            ("endpoint mock net:7 mock0", 3),
            ("endpoint2 mock net:7 mock1", 1),
            ("scalable_ep mock net:7 mock1", 1),
            ("passive_ep mock net:7 mock0", 1),
            ("cq_open", 1),
        ] {
            assert_eq!(count(call), times, "{call}: {calls:#?}");
        }
        // Every opened object has been closed.
        let opened = |call: &&String| !call.starts_with("getinfo") && !call.contains("mock9");
        let kept = ["close", "cleanup", "fabric mock elsewhere"];
        let opened = calls.iter().filter(opened);
        let opened = opened.filter(|call| !kept.iter().any(|kept| call.starts_with(kept))).count();
        let closed = calls.iter().filter(|call| call.starts_with("close")).count();
        assert_eq!(opened, closed, "{calls:#?}");
    });
}

#[test]
fn the_hardwares_own_objects_are_left_alone() {
    Fixture::new("beside").each(&["beside"], &[], |_, calls| {
        let handed_on = calls.iter().filter(|call| call.ends_with(" open")).count();
        // To the mock itself, and through this provider; never with a domain of this provider.
        assert_eq!(handed_on, 2, "{calls:#?}");
    });
}

#[test]
fn filters_are_kept() {
    let fixture = Fixture::new("filters");
    for filter in ["xdp", "xdp,mock", "^tcp", "^tcp,shm", "mock,xdp,tcp"] {
        let variables = [("FI_PROVIDER", filter)];
        fixture
            .each(&["list", "xdp"], &variables, |said, _| assert_eq!(passed(said), BOTH, "{said}"));
        fixture.each(&["list"], &variables, |said, _| {
            assert_eq!(passed(said), BOTH, "{said}");
            // Listed directly only if the filter admits it.
            let direct = said.contains("offer mock ");
            assert_eq!(direct, filter != "xdp", "{filter}: {said}");
        });
    }
    fixture.each(&["list", "xdp"], &[("FI_PROVIDER", "^tcp,mock")], |said, calls| {
        assert_eq!(passed(said), [""; 0], "{said}");
        assert!(said.contains("offer xdp "), "ours are still there: {said}");
        assert!(!calls.iter().any(|call| call.starts_with("getinfo")), "{calls:#?}");
    });
    fixture.each(&["list"], &[("FI_PROVIDER", "mock")], |said, _| {
        assert!(!said.contains("offer xdp"), "{said}");
    });
    fixture.each(&["objects"], &[("FI_PROVIDER", "xdp")], |_, _| ());
}

#[test]
fn tiers_are_chosen() {
    let fixture = Fixture::new("tiers");
    let ours = |said: &str| said.lines().filter(|line| line.starts_with("offer xdp")).count();
    fixture.each(&["list", "xdp"], &[("FI_XDP_TIER", "passthrough")], |said, _| {
        assert_eq!(passed(said), BOTH, "{said}");
        assert_eq!(ours(said), 2, "{said}");
    });
    for variable in
        [("FI_XDP_TIER", "udp"), ("FI_XDP_PASSTHROUGH", "none"), ("FI_XDP_PASSTHROUGH", "verbs")]
    {
        fixture.each(&["list", "xdp"], &[variable], |said, calls| {
            assert_eq!(passed(said), [""; 0], "{said}");
            assert!(ours(said) > 0, "{said}");
            assert!(!calls.iter().any(|call| call.starts_with("getinfo")), "{calls:#?}");
        });
    }
    // Loopback has no AF_XDP.
    let variables = [("FI_XDP_TIER", "af_xdp"), ("FI_XDP_IFACE", "lo")];
    fixture
        .each(&["list", "xdp"], &variables, |said, _| assert!(said.contains("no offer"), "{said}"));
    // The mock is on no interface.
    let variables = [("FI_XDP_IFACE", "lo")];
    fixture
        .each(&["list", "xdp"], &variables, |said, _| assert_eq!(passed(said), [""; 0], "{said}"));
    let variables = [("FI_XDP_TIER", "passthrough"), ("FI_XDP_PASSTHROUGH", "none")];
    fixture
        .each(&["list", "xdp"], &variables, |said, _| assert!(said.contains("no offer"), "{said}"));
    // A list with this provider in it, and the mock twice.
    let variables = [("FI_XDP_PASSTHROUGH", "xdp,mock xdp;mock MOCK")];
    fixture.each(&["list", "xdp"], &variables, |said, calls| {
        assert_eq!(passed(said), BOTH, "{said}");
        let asked = calls.iter().filter(|call| call.starts_with("getinfo")).count();
        assert_eq!(asked, 1, "{calls:#?}");
    });
}

#[test]
fn a_question_that_comes_back_ends() {
    Fixture::new("asks").each(&["list", "xdp"], &[("MOCK_ASKS", "1")], |said, calls| {
        assert_eq!(passed(said), BOTH, "{said}");
        let asked = calls.iter().filter(|call| call.starts_with("getinfo")).count();
        // The query of this provider, and the mock's own query, in which this provider makes none.
        assert_eq!(asked, 2, "{calls:#?}");
        assert!(calls.iter().any(|call| call == "asked 0"), "{calls:#?}");
    });
}

/// libfabric puts hooks around objects that it opens for this provider, and for the application.
#[test]
fn hooks_are_around_it() {
    let fixture = Fixture::new("hooks");
    for hook in ["noop", "perf"] {
        fixture.each(&["writes", "xdp"], &[("FI_HOOK", hook)], |_, calls| {
            for call in ["domain mock net:7 mock0", "endpoint mock net:7 mock0"] {
                let times = calls.iter().filter(|one| one.as_str() == call).count();
                assert_eq!(times, 1, "{call}: {calls:#?}");
            }
        });
    }
}

/// Instructions of a thousand `fi_write`, as callgrind counts them.
fn instructions(fixture: &Fixture, provider: &str) -> u64 {
    let out = fixture.folder.join("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=count_writes"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(&fixture.program).args(["writes", provider]);
    command.env("FI_PROVIDER_PATH", &fixture.folder).env("FI_XDP_PASSTHROUGH", "mock");
    let output = command.output().unwrap();
    assert_success(&format!("callgrind {provider}"), &output);
    let text = std::fs::read_to_string(out).unwrap();
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
    summary.trim().parse().unwrap()
}

#[test]
fn a_write_through_passthrough_costs_as_much_as_a_direct_one() {
    if !has_valgrind() {
        return;
    }
    let fixture = Fixture::new("writes");
    let (direct, through) = (instructions(&fixture, "mock"), instructions(&fixture, "xdp"));
    println!("1000 fi_write: {direct} instructions directly, {through} through us");
    assert!(direct > 1000, "the writes were not counted");
    assert_eq!(direct, through);
}

/// Copied, renamed and returned objects have an owner: none leaks.
#[test]
fn valgrind_finds_nothing() {
    if !has_valgrind() {
        return;
    }
    let fixture = Fixture::new("valgrind");
    for what in ["offers", "objects", "beside"] {
        let mut command = Command::new("timeout");
        command.args(["300", "valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full"]);
        command.arg("--errors-for-leak-kinds=definite").arg(&fixture.program).arg(what);
        command.env("FI_PROVIDER_PATH", &fixture.folder).env("FI_XDP_PASSTHROUGH", "mock");
        assert_success(&format!("{what} under valgrind"), &command.output().unwrap());
    }
}

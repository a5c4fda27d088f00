// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's own tests (fabtests) between two hosts, against a table of known outcomes.
//!
//! In: a folder with the programs and `runfabtests.sh`, which lists the tests of each set. Out: a
//! line for each test, and a summary line. The rules for an outcome are those of that script:
//! `-FI_ENODATA` or `-FI_ENOSYS` on both sides is a test that is not run. With the provider `xdp`
//! each outcome must be that of [`known`], so that a change in either direction fails. The
//! provider's log proves the tier. Bound: [`LIMIT`] for each test.

mod known;
mod list;

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;

use ofi_xdp_harness::carried::{Carried, LOGGING};
use ofi_xdp_harness::process::{Output, Program, RunningProgram};
use ofi_xdp_harness::tier::{XdpMode, tier_variable};
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};
use ofi_xdp_harness::{interrupt, netns, paths};

use self::list::{Test, TestKind};

/// Time limit of a test.
const LIMIT: Duration = Duration::from_secs(90);
/// Longest wait for the server's port.
const LISTENS_WITHIN: Duration = Duration::from_secs(3);
/// Time between the appearance of the port and the start of the client. The server still posts its
/// first receives.
const SETTLES_WITHIN: Duration = Duration::from_millis(150);
/// Time in which a server ends after its client has failed.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// The port of fabtests, 9228, as /proc/net shows it.
const PORT: &str = ":240C ";
/// Exit codes of a test that is not run: `FI_ENODATA` and `FI_ENOSYS`.
const NO_DATA: i32 = nix::libc::ENODATA;
const NO_SYSTEM_CALL: i32 = nix::libc::ENOSYS;

/// Arguments of `fabtests`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder with the programs and runfabtests.sh
    programs: PathBuf,
    /// A folder with another libfabric, its C library and its loader
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,
    /// The provider: others are measured, not compared
    #[arg(long, default_value = "xdp")]
    provider: String,
    /// The tier or mode of `xdp`, also below a utility provider; may be given more than once
    #[arg(long, value_enum, default_values = ["skb", "udp"])]
    mode: Vec<XdpMode>,
    /// Sets of runfabtests.sh
    #[arg(long, value_delimiter = ',', default_values = ["quick"])]
    set: Vec<String>,
    /// Only tests with this in their command line
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

impl Arguments {
    /// Whether the packets are those of the provider `xdp`, also below a utility provider.
    fn is_ours(&self) -> bool {
        self.provider.split(';').next() == Some("xdp")
    }
}

/// The end of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Pass,
    NotRun,
    Fail,
}

impl Outcome {
    /// By the exit codes of all processes of a test.
    fn of(codes: &[Option<i32>]) -> Self {
        let all = |code| codes.iter().all(|one| *one == Some(code));
        if all(0) {
            Self::Pass
        } else if all(NO_DATA) || all(NO_SYSTEM_CALL) {
            Self::NotRun
        } else {
            Self::Fail
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::NotRun => "not run",
            Self::Fail => "FAIL",
        }
    }
}

/// Outcomes of tests, by number.
#[derive(Clone, Copy, Default, Debug)]
struct Outcomes {
    pass: u32,
    not_run: u32,
    fail: u32,
    /// Tests whose outcome is another than that of the table.
    surprises: u32,
}

impl Outcomes {
    const fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Pass => self.pass += 1,
            Outcome::NotRun => self.not_run += 1,
            Outcome::Fail => self.fail += 1,
        }
    }
}

/// Runs the tests in each mode. Returns whether each had its known outcome.
///
/// # Errors
/// Without privilege or programs; when the packets took another tier.
pub fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    netns::sweep()?;
    let tests = list::read(&arguments.programs.join(list::SCRIPT), &arguments.set)?;
    let wanted = |test: &Test| {
        arguments.filter.as_ref().is_none_or(|text| test.command.contains(text.as_str()))
    };
    let tests: Vec<Test> = tests.into_iter().filter(wanted).collect();
    ensure!(!tests.is_empty(), "no test has this name");
    let ours = arguments.provider == "xdp";
    let modes = if arguments.is_ours() { arguments.mode.as_slice() } else { &[XdpMode::Auto] };
    let (mut all, mut named) = (Outcomes::default(), 0);
    for &mode in modes {
        let bench = Bench::new(arguments, mode)?;
        let outcomes = bench.run(&tests, ours)?;
        let Outcomes { pass, not_run, fail, surprises } = outcomes;
        let tier = if arguments.is_ours() { mode.as_str() } else { "its own" };
        println!(
            "\n{}, tier {tier}: {pass} pass, {not_run} not run, {fail} fail of {}\n",
            arguments.provider,
            tests.len()
        );
        named += tests.len();
        all.not_run += not_run;
        all.surprises += if ours { surprises } else { fail };
    }
    let (word, failed) = (if all.surprises == 0 { "ok" } else { "FAILED" }, all.surprises);
    let passed = u32::try_from(named)?.saturating_sub(failed + all.not_run);
    println!("test result: {word}. {passed} passed; {failed} failed; {} not run", all.not_run);
    Ok(all.surprises == 0)
}

/// Two hosts, and the environment of the programs.
struct Bench<'a> {
    arguments: &'a Arguments,
    mode: XdpMode,
    hosts: TwoHosts,
}

impl<'a> Bench<'a> {
    fn new(arguments: &'a Arguments, mode: XdpMode) -> anyhow::Result<Self> {
        Ok(Self { arguments, mode, hosts: TwoHosts::new(&[LinkOptions::default()])? })
    }

    /// Runs all tests. With `ours` each outcome is compared with the table.
    fn run(&self, tests: &[Test], ours: bool) -> anyhow::Result<Outcomes> {
        let (mut outcomes, mut carried) = (Outcomes::default(), Carried::default());
        for test in tests {
            interrupt::check()?;
            let begin = Instant::now();
            let outputs = self.outputs(test)?;
            let codes: Vec<_> = outputs.iter().map(|output| test.code(output.status)).collect();
            let outcome = Outcome::of(&codes);
            outcomes.add(outcome);
            let reason = known::reason(&test.command);
            let is_known = match reason {
                Some(_) => outcome == Outcome::NotRun,
                None => outcome == Outcome::Pass,
            };
            outcomes.surprises += u32::from(ours && !is_known);
            let seconds = begin.elapsed().as_secs_f32();
            let note = reason.filter(|_| ours).unwrap_or_default();
            println!("{:<64} {:<8} {seconds:>5.1} s  {note}", test.command, outcome.name());
            for output in &outputs {
                let counters = Carried::from_log(&output.stderr);
                carried.endpoints += counters.endpoints;
                carried.packets += counters.packets;
                carried.bytes += counters.bytes;
                carried.through_xdp += counters.through_xdp;
                carried.through_udp += counters.through_udp;
                if ours && !is_known || outcome == Outcome::Fail {
                    show(output);
                }
            }
        }
        if self.arguments.is_ours() && outcomes.pass > 0 && self.arguments.filter.is_none() {
            let Carried { through_xdp, through_udp, .. } = carried;
            println!("{through_xdp} packets through AF_XDP, {through_udp} through kernel sockets");
            carried.prove(1, self.mode)?;
        }
        Ok(outcomes)
    }

    /// The outputs of the processes of a test.
    fn outputs(&self, test: &Test) -> anyhow::Result<Vec<Output>> {
        let link = self.hosts.link(0);
        let (server, client) = (link.v4(Side::A).to_string(), link.v4(Side::B).to_string());
        let words: Vec<String> = test.words(&server);
        if test.kind == TestKind::Three {
            return self.three(&words, &server);
        }
        if test.kind != TestKind::Pair {
            let program = self.program(Side::A, &words)?;
            return Ok(vec![ended(program.start()?, LIMIT)?]);
        }
        let mut first = self.program(Side::A, &words)?.args(["-s", &server]).start()?;
        wait_for_port(&mut first)?;
        let second = self.program(Side::B, &words)?.args(["-s", &client, &server]).start()?;
        let second = ended(second, LIMIT)?;
        let rest = if second.status.success() { LIMIT } else { ENDS_WITHIN };
        Ok(vec![ended(first, rest)?, second])
    }

    /// The outputs of a server and two clients; all of them name the server.
    fn three(&self, words: &[String], server: &str) -> anyhow::Result<Vec<Output>> {
        let of = |side| Ok(self.program(side, words)?.args(["-n", "3", "-s", server]));
        let start = |side| of(side).and_then(Program::start);
        let mut first = start(Side::A)?;
        wait_for_port(&mut first)?;
        let clients = [start(Side::B)?, start(Side::B)?];
        let mut outputs = vec![];
        for process in clients {
            outputs.push(ended(process, LIMIT)?);
        }
        let succeeded = outputs.iter().all(|output| output.status.success());
        let rest = if succeeded { LIMIT } else { ENDS_WITHIN };
        outputs.insert(0, ended(first, rest)?);
        Ok(outputs)
    }

    /// A test program on one host.
    fn program(&self, side: Side, words: &[String]) -> anyhow::Result<Program> {
        let Arguments { programs, libraries, provider, .. } = self.arguments;
        let (name, rest) = words.split_first().context("a test without a program")?;
        let path = programs.join(name);
        let program = match libraries {
            None => Program::new(path),
            Some(folder) => Program::new(folder.join("ld-linux-x86-64.so.2"))
                .arg("--library-path")
                .arg(folder)
                .arg(path),
        };
        let program = program.args(rest).args(["-p", provider]).inside(self.hosts.host(side))?;
        if !self.arguments.is_ours() {
            return Ok(program);
        }
        let interface = self.hosts.link(0).interface.as_str();
        let folder = paths::provider()?;
        let program = program.envs(LOGGING).envs([("FI_XDP_IFACE", interface)]);
        let program = program.envs([tier_variable(self.mode.as_str())]);
        Ok(program.envs([("FI_PROVIDER_PATH", folder)]))
    }
}

/// The end of a process; one that exceeds `limit` is killed, and has failed.
fn ended(mut process: RunningProgram, limit: Duration) -> anyhow::Result<Output> {
    let waited = interrupt::wait_until("the end of a test", limit, || {
        Ok((!process.is_running()?).then_some(()))
    });
    if waited.is_err() {
        interrupt::check()?;
        process.signal(nix::sys::signal::Signal::SIGKILL)?;
    }
    process.finish(ENDS_WITHIN)
}

/// Waits until the server has a socket on fabtests' port, or has ended, or has had time enough: a
/// server may have no such socket.
fn wait_for_port(server: &mut RunningProgram) -> anyhow::Result<()> {
    let tables = ["udp", "tcp"].map(|name| format!("/proc/{}/net/{name}", server.pid()));
    let is_open = |table: &String| {
        fs::read_to_string(table).is_ok_and(|table| table.lines().any(|line| line.contains(PORT)))
    };
    let listens = interrupt::wait_until("the server's port", LISTENS_WITHIN, || {
        Ok((!server.is_running()? || tables.iter().any(is_open)).then_some(()))
    });
    if listens.is_err() {
        interrupt::check()?;
    }
    std::thread::sleep(SETTLES_WITHIN);
    Ok(())
}

/// Prints the last lines of a process, without the provider's counters.
fn show(output: &Output) {
    println!("  {}: {}", output.label, output.status);
    for text in [&output.stdout, &output.stderr] {
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains(" closing: ")).collect();
        for line in lines.iter().rev().take(6).rev() {
            println!("    {line}");
        }
    }
}

impl Test {
    /// The exit code of one of its processes. A negative test passes with `FI_ENODATA`. A test of
    /// three processes ends with the negative error code, of which a process keeps one byte.
    fn code(&self, status: ExitStatus) -> Option<i32> {
        match (self.kind, status.code()) {
            (TestKind::Negative, Some(NO_DATA)) => Some(0),
            (TestKind::Negative, _) => Some(1),
            (TestKind::Three, Some(code)) if code == 256 - NO_DATA => Some(NO_DATA),
            (_, code) => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_those_of_the_script() {
        let cases = [
            (&[Some(0), Some(0)][..], Outcome::Pass),
            (&[Some(61), Some(61)], Outcome::NotRun),
            (&[Some(38), Some(38)], Outcome::NotRun),
            (&[Some(61), Some(38)], Outcome::Fail),
            (&[Some(61), Some(0)], Outcome::Fail),
            (&[Some(0), None], Outcome::Fail),
        ];
        for (codes, outcome) in cases {
            assert_eq!(Outcome::of(codes), outcome, "{codes:?}");
        }
    }

    #[test]
    fn the_table_names_each_test_once_with_a_reason() {
        for (index, (test, reason)) in known::NOT_RUN.iter().enumerate() {
            assert!(!reason.is_empty() && known::reason(test) == Some(reason), "{index}");
        }
        assert_eq!(known::reason("fi_rdm"), None);
    }
}

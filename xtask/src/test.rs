// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: every test, and with `--all` every check that `.ci/run` makes.
//!
//! In: name filters, or `--all`. Out: the stages' output, a table, `N passed, N failed` and the
//! exit code. Tests whose name contains `root_` need privilege and have a stage of their own: they
//! run as root here, or through `sudo -n`; without either the stage is skipped loudly on a laptop
//! and fails where `CI` is set.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::build::{self, Profile};
use crate::clean_lab::clean_lab;
use crate::conformance::{self, Libfabric};
use crate::setup;
use crate::stage::{self, Outcome, Stage};
use crate::workspace::{Privilege, Workspace, host, is_ci};
use crate::{
    bindings, checks, engine, freestanding, fuzz, licences, mpi, simulator, suite, tidy, vm,
};

/// In the name of each test that needs root.
const ROOT_TEST: &str = "root_";

/// What all stages share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) workspace: Workspace,
    /// The whole set of checks runs.
    all: bool,
    /// An automatic build: what cannot run has failed.
    strict: bool,
    filter: Vec<String>,
    /// cargo-nextest is installed: it runs each test in a process of its own and ends one that
    /// hangs.
    nextest: bool,
    privilege: Privilege,
    /// The folder of the built programs, known once the build stage has passed.
    programs: OnceLock<PathBuf>,
}

/// Runs all stages, or those for tests, or the `chosen` ones and what they need.
pub(crate) fn test(
    workspace: Workspace,
    all: bool,
    chosen: &[String],
    filter: Vec<String>,
) -> Result<ExitCode> {
    let strict = is_ci();
    let all = all || (strict && filter.is_empty() && chosen.is_empty());
    let mut nextest = workspace.cargo();
    let nextest = nextest.args(["nextest", "--version"]).output();
    let context = Context {
        workspace,
        all,
        strict,
        filter,
        nextest: nextest.is_ok_and(|output| output.status.success()),
        privilege: Privilege::for_network(),
        programs: OnceLock::new(),
    };
    Ok(stage::run_all(&stages(all, chosen), &context))
}

/// What `--stage` takes.
pub(crate) fn stage_names() -> Vec<&'static str> {
    stages(true, &[]).iter().map(|stage| stage.name).collect()
}

/// The stages in order: set-up, then what is quick to fail, then what takes long.
fn stages(all: bool, chosen: &[String]) -> Vec<Stage<Context>> {
    let mut stages = vec![SET_UP];
    if all || !chosen.is_empty() {
        stages.extend(CHECKS);
    }
    stages.extend(TESTS);
    if all || !chosen.is_empty() {
        stages.extend(LONG_CHECKS);
    }
    if !chosen.is_empty() {
        let is_chosen = |name: &str| chosen.iter().any(|one| one == name);
        // Both have tests of the provider as it was built.
        let builds = is_chosen("tests") || is_chosen("root-tests");
        stages.retain(|stage| match stage.name {
            "setup" => true,
            "build" if builds => true,
            name => is_chosen(name),
        });
    }
    stages
}

const fn stage(
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> Result<Outcome>,
) -> Stage<Context> {
    Stage { name, about, run }
}

const SET_UP: Stage<Context> = stage("setup", "what the machine must have", set_up);

const CHECKS: [Stage<Context>; 8] = [
    stage("format", "rustfmt changes nothing", |c| checks::format(&c.workspace)),
    stage("tidy", "the rules of this code base", |c| {
        tidy::tidy(c.workspace.root()).map(|()| Outcome::Passed)
    }),
    stage("spelling", "typos finds none", |c| checks::spelling(&c.workspace)),
    stage("licences", "every dependency is permissive", |c| {
        licences::licences(&c.workspace).map(|()| Outcome::Passed)
    }),
    stage("clippy", "no lint fires", |c| checks::clippy(&c.workspace)),
    stage("docs", "the documentation builds, every link resolves", |c| checks::docs(&c.workspace)),
    stage("no-std", "core builds and links without an operating system", |c| {
        freestanding::freestanding(&c.workspace).map(|()| Outcome::Passed)
    }),
    stage("bindings", "the committed bindings are what the headers give", fresh_bindings),
];

const TESTS: [Stage<Context>; 6] = [
    stage("build", "the provider, the examples and the lab, in release", build_release),
    stage("tests", "unit, model, property and integration tests", plain_tests),
    stage("simulator", "the engine under every fault: its scenarios and a swarm", simulated),
    stage("conformance", "libfabric's man pages, promise by promise", conformance_suite),
    stage("doc-tests", "the examples in the documentation", doc_tests),
    stage("root-tests", "BPF, AF_XDP and network namespaces", root_tests),
];

/// Not part of a run while working: a minute and more each.
const LONG_CHECKS: [Stage<Context>; 4] = [
    stage("mpi", "MPICH and Open MPI between four hosts, over AF_XDP and over UDP", mpi_jobs),
    stage("vm", "zero-copy between two network cards of a virtual machine", virtual_machine),
    stage("instructions", "the engine takes no more of them than is written down", |c| {
        engine::instructions(&c.workspace).map(|()| Outcome::Passed)
    }),
    stage("fuzz", "each fuzz target for a minute", |c| {
        fuzz::fuzz(&c.workspace, None, fuzz::SECONDS, Some(fuzz::SEED)).map(|()| Outcome::Passed)
    }),
];

fn set_up(context: &Context) -> Result<Outcome> {
    setup::ensure(if context.all { setup::EVERYTHING } else { setup::BUILD_AND_RUN })?;
    println!("nothing is missing");
    Ok(Outcome::Passed)
}

fn fresh_bindings(context: &Context) -> Result<Outcome> {
    if let Some(reason) = bindings::unsuitable_headers() {
        return Ok(Outcome::Skipped(reason));
    }
    bindings::bindings(&context.workspace, true).map(|()| Outcome::Passed)
}

fn build_release(context: &Context) -> Result<Outcome> {
    let built = build::build(&context.workspace, Profile::Release)?;
    println!("{}", built.provider.display());
    if let Some(folder) = built.programs.values().next().and_then(|program| program.parent()) {
        let _ = context.programs.set(folder.to_owned());
    }
    Ok(Outcome::Passed)
}

fn plain_tests(context: &Context) -> Result<Outcome> {
    suite::run(context.runner(Suite::Plain)?).map(Outcome::Tests)
}

/// The simulator's tests, and, where no test is asked for by name, a swarm.
fn simulated(context: &Context) -> Result<Outcome> {
    if !simulator::exists(&context.workspace) {
        return Ok(Outcome::Skipped("no package tests/sim in this workspace".to_owned()));
    }
    let mut cargo = context.workspace.cargo();
    if context.nextest {
        cargo.args(["nextest", "run", "--release", "--package", simulator::PACKAGE]);
        cargo.args(["--no-fail-fast", "--no-tests=pass"]);
        cargo.args(["-E", &filter_expression(Suite::Plain, &context.filter)]);
    } else {
        cargo.args(["test", "--release", "--package", simulator::PACKAGE, "--lib", "--bins"]);
        cargo.args(["--tests", "--no-fail-fast", "--"]).args(&context.filter);
    }
    let counts = suite::run(cargo)?;
    if context.filter.is_empty() {
        simulator::swarm(&context.workspace)?;
    }
    Ok(Outcome::Tests(counts))
}

/// The suite on the installed libfabric and, where earlier tests have fetched it, on libfabric 2;
/// with privilege, what moves packets over AF_XDP too.
fn conformance_suite(context: &Context) -> Result<Outcome> {
    if !context.filter.is_empty() {
        return Ok(Outcome::Skipped("tests were asked for by name".to_owned()));
    }
    let counts = conformance::count(&context.workspace, Libfabric::Installed)?;
    let mut counts = counts.unwrap_or_default();
    match conformance::count(&context.workspace, Libfabric::Two)? {
        Some(more) => counts += more,
        None => println!("SKIPPED on libfabric 2: it has not been fetched"),
    }
    let stand_ins = [(Libfabric::Installed, "tcp;ofi_rxm"), (Libfabric::Two, "tcp")];
    for (libfabric, stand_in) in stand_ins {
        let through = conformance::count_through(&context.workspace, libfabric, stand_in)?;
        counts += through.unwrap_or_default();
    }
    match context.lacks_privilege()? {
        None => counts += conformance::count_over_af_xdp(&context.workspace)?,
        Some(reason) => println!("SKIPPED over AF_XDP: {reason}"),
    }
    Ok(Outcome::Tests(counts))
}

fn doc_tests(context: &Context) -> Result<Outcome> {
    let mut cargo = context.workspace.cargo();
    cargo.args(["test", "--workspace", "--doc", "--no-fail-fast", "--"]).args(&context.filter);
    suite::run(cargo).map(Outcome::Tests)
}

fn root_tests(context: &Context) -> Result<Outcome> {
    if let Some(reason) = context.lacks_privilege()? {
        return Ok(Outcome::Skipped(reason));
    }
    // Tests that were interrupted could not remove their hosts.
    clean_lab()?;
    suite::run(context.runner(Suite::Root)?).map(Outcome::Tests)
}

/// Seconds after which the stage starts no job any more.
const MPI_LIMIT: &str = "330";

fn mpi_jobs(context: &Context) -> Result<Outcome> {
    if let Some(reason) = context.lacks_privilege()? {
        return Ok(Outcome::Skipped(reason));
    }
    mpi::mpi(&context.workspace, &["--limit".into(), MPI_LIMIT.into()]).map(Outcome::Tests)
}

/// Where no emulator or no kernel can be had, that is said, and is no failure: what is tested there
/// needs the one and the other from outside.
fn virtual_machine(context: &Context) -> Result<Outcome> {
    match vm::unavailable(&context.workspace) {
        Some(reason) => Ok(Outcome::Skipped(format!("NOT RUN: {reason}"))),
        None => vm::stage(&context.workspace).map(Outcome::Tests),
    }
}

/// Which tests of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    Plain,
    Root,
}

impl Context {
    /// Why what needs root cannot run here; in an automatic build that is an error.
    fn lacks_privilege(&self) -> Result<Option<String>> {
        if matches!(self.privilege, Privilege::Own | Privilege::Sudo) {
            return Ok(None);
        }
        let reason = "needs CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_BPF: run as root, \
                      or allow `sudo -n` (e.g. call `sudo -v` first)";
        if self.strict {
            bail!("{reason}");
        }
        Ok(Some(reason.to_owned()))
    }

    /// The command that runs `suite`, within the filter.
    fn runner(&self, suite: Suite) -> Result<Command> {
        let mut cargo = self.workspace.cargo();
        if self.nextest {
            cargo.args(["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests=pass"]);
            cargo.args(["-E", &filter_expression(suite, &self.filter)]);
            cargo.args(self.others_only());
        } else {
            cargo.args(["test", "--workspace"]).args(self.others_only());
            cargo.args(["--lib", "--bins", "--tests", "--no-fail-fast", "--"]);
            cargo.args(self.libtest_arguments(suite)?);
        }
        cargo.env("FI_PROVIDER_PATH", self.workspace.provider_dir());
        if let Some(programs) = self.programs.get() {
            cargo.env("OFI_XDP_PROGRAMS", programs);
        }
        if suite == Suite::Root && self.privilege == Privilege::Sudo {
            // Cargo builds as this user and starts each test program through sudo.
            cargo.env(runner_variable()?, "sudo -n -E");
        }
        Ok(cargo)
    }

    /// The simulator is too slow without optimisation, and has a stage of its own.
    fn others_only(&self) -> &'static [&'static str] {
        let exists = simulator::exists(&self.workspace);
        if exists { &["--exclude", simulator::PACKAGE] } else { &[] }
    }

    /// libtest cannot say "contains this and that", so a filtered run names its root tests one by
    /// one.
    fn libtest_arguments(&self, suite: Suite) -> Result<Vec<String>> {
        let own = |text: &str| text.to_owned();
        match suite {
            Suite::Plain => {
                let skip = [own("--skip"), own(ROOT_TEST)];
                Ok(self.filter.iter().cloned().chain(skip).collect())
            }
            Suite::Root if self.filter.is_empty() => {
                Ok(vec![own("--test-threads=1"), own(ROOT_TEST)])
            }
            Suite::Root => {
                let names = self.root_tests_in_filter()?;
                // Without a name libtest would run everything; no test is called `--exact`'s "-".
                let names = if names.is_empty() { vec![own("-")] } else { names };
                Ok([own("--test-threads=1"), own("--exact")].into_iter().chain(names).collect())
            }
        }
    }

    fn root_tests_in_filter(&self) -> Result<Vec<String>> {
        let mut cargo = self.workspace.cargo();
        cargo.args(["test", "--workspace", "--lib", "--bins", "--tests", "--"]);
        let output = cargo.args(["--list", "--format", "terse"]).args(&self.filter).output()?;
        if !output.status.success() {
            bail!("listing the tests failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(root_test_names(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The names with `root_` in libtest's terse list (`module::name: test`).
fn root_test_names(list: &str) -> Vec<String> {
    list.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| name.contains(ROOT_TEST))
        .map(str::to_owned)
        .collect()
}

/// nextest's filter language: `test(x)` is "the name contains x".
fn filter_expression(suite: Suite, filter: &[String]) -> String {
    let suite = match suite {
        Suite::Plain => format!("not test({ROOT_TEST})"),
        Suite::Root => format!("test({ROOT_TEST})"),
    };
    if filter.is_empty() {
        return suite;
    }
    let any: Vec<String> = filter.iter().map(|name| format!("test({name})")).collect();
    format!("({suite}) & ({})", any.join(" | "))
}

/// The variable by which cargo takes a runner for this machine's programs
/// (`target.<triple>.runner` of its configuration).
fn runner_variable() -> Result<String> {
    Ok(format!("CARGO_TARGET_{}_RUNNER", host()?.to_uppercase().replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_run_has_the_tests_and_a_full_one_the_checks_too() {
        let names = |all| stages(all, &[]).iter().map(|stage| stage.name).collect::<Vec<_>>();
        assert_eq!(
            names(false),
            ["setup", "build", "tests", "simulator", "conformance", "doc-tests", "root-tests"]
        );
        let all = names(true);
        assert_eq!(all[0], "setup");
        for name in names(false).into_iter().chain(["format", "tidy", "licences", "fuzz"]) {
            assert_eq!(all.iter().filter(|one| **one == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn a_chosen_stage_runs_after_set_up_alone() {
        let chosen = stages(false, &["clippy".to_owned()]);
        assert_eq!(chosen.iter().map(|stage| stage.name).collect::<Vec<_>>(), ["setup", "clippy"]);
    }

    #[test]
    fn tests_of_the_provider_run_after_its_build() {
        for name in ["tests", "root-tests"] {
            let chosen = stages(false, &[name.to_owned()]);
            let names = chosen.iter().map(|stage| stage.name).collect::<Vec<_>>();
            assert_eq!(names, ["setup", "build", name]);
        }
    }

    #[test]
    fn filters_narrow_both_suites() {
        let filter = ["ring".to_owned(), "window".to_owned()];
        assert_eq!(filter_expression(Suite::Plain, &[]), "not test(root_)");
        assert_eq!(
            filter_expression(Suite::Root, &filter),
            "(test(root_)) & (test(ring) | test(window))"
        );
    }

    #[test]
    fn root_tests_are_picked_from_a_list() {
        let list = "a::root_ping: test\na::ping: test\nroot_pong: test\nb::root_x: benchmark\n";
        assert_eq!(root_test_names(list), ["a::root_ping", "root_pong"]);
    }

    #[test]
    fn the_runner_variable_names_this_machine() {
        let name = runner_variable().unwrap();
        assert!(name.starts_with("CARGO_TARGET_") && name.ends_with("_LINUX_GNU_RUNNER"), "{name}");
    }
}

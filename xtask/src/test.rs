// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: every test, and with `--all` every check that `.ci/run` makes.
//!
//! In: name filters, or `--all`. Out: the stages' output, a table, `N passed, N failed` and the
//! exit code. A part that a test leaves out is printed and counted; with `CI` set it is a failure.
//! Tests with `root_` in their names need privilege and have a stage of their own: they run as root
//! here, or through `sudo -n`. Without either, the stage is skipped with a message, or fails if
//! `CI` is set.

mod context;
mod runner;
mod skips;

use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Result;

use self::context::Context;
use self::runner::Suite;
use crate::build::{self, Profile};
use crate::clean_lab::clean_lab;
use crate::conformance::{self, Libfabric};
use crate::setup;
use crate::stage::{self, Outcome, Stage};
use crate::suite::Counts;
use crate::workspace::{Privilege, Workspace, is_ci};
use crate::{
    aarch64, age, bindings, checks, engine, fabtests, freestanding, fuzz, licences, mpi, package,
    simulator, suite, tidy, vm,
};

/// Runs all stages, or those for tests, or the `chosen` ones and their prerequisites.
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
        workspace: workspace.without_lto(),
        all,
        strict,
        filter,
        nextest: nextest.is_ok_and(|output| output.status.success()),
        privilege: Privilege::for_network(),
        programs: OnceLock::new(),
    };
    Ok(stage::run_all(&stages(all, chosen), &context))
}

/// The values of `--stage`.
pub(crate) fn stage_names() -> Vec<&'static str> {
    stages(true, &[]).iter().map(|stage| stage.name).collect()
}

/// The stages in order: set-up, then the quick ones, then the long ones.
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

/// Not part of a run during development: each takes a minute or more.
const LONG_CHECKS: [Stage<Context>; 8] = [
    stage(
        "packages",
        "installed in a clean root, used, removed; two runs give the same bytes",
        |c| package::stage(&c.workspace, c.privilege).map(Outcome::Tests),
    ),
    stage("aarch64", "the engine's tests and a ping-pong on an emulated processor", on_aarch64),
    stage("mpi", "MPICH, Open MPI and Intel MPI between four hosts, over AF_XDP and UDP", mpi_jobs),
    stage("fabtests", "libfabric's own tests, against a table of their outcomes", fabtests_gate),
    stage("age", "three minutes of four hosts under faults: nothing grows, nothing stops", aged),
    stage("vm", "zero-copy between two network cards of a virtual machine", virtual_machine),
    stage("instructions", "the engine takes no more of them than is written down", |c| {
        engine::instructions(&c.workspace).map(|()| Outcome::Passed)
    }),
    stage("fuzz", "each fuzz target for 20 seconds", |c| {
        fuzz::fuzz(&c.workspace, None, fuzz::SECONDS, Some(fuzz::SEED)).map(|()| Outcome::Passed)
    }),
];

fn set_up(context: &Context) -> Result<Outcome> {
    setup::ensure(if context.all { setup::EVERYTHING } else { setup::TESTS })?;
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
    skips::run(&context.workspace, context.runner(Suite::Plain)?).map(Outcome::Tests)
}

/// The simulator's tests, and, where no test is asked for by name, a swarm.
fn simulated(context: &Context) -> Result<Outcome> {
    if !simulator::exists(&context.workspace) {
        return Ok(Outcome::Skipped("no package tests/engine/sim in this workspace".to_owned()));
    }
    let counts = skips::run(&context.workspace, context.simulator_runner())?;
    if context.filter.is_empty() {
        simulator::swarm(&context.workspace)?;
    }
    Ok(Outcome::Tests(counts))
}

/// The suite on the installed libfabric and, if earlier tests have fetched it, on libfabric 2. With
/// privilege, the pages about transfers over AF_XDP too.
fn conformance_suite(context: &Context) -> Result<Outcome> {
    if !context.filter.is_empty() {
        return Ok(Outcome::Skipped("tests were asked for by name".to_owned()));
    }
    let not_fetched = || {
        context.left_out("libfabric 2 has not been fetched: `cargo xtask test libfabric_2` does")
    };
    let mut counts = Counts::default();
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let counted = conformance::count(&context.workspace, libfabric)?;
        counts += counted.unwrap_or_else(not_fetched);
        let as_tcp = conformance::count_as_tcp(&context.workspace, libfabric)?;
        counts += as_tcp.unwrap_or_else(not_fetched);
    }
    let stand_ins = [(Libfabric::Installed, "tcp;ofi_rxm"), (Libfabric::Two, "tcp")];
    for (libfabric, stand_in) in stand_ins {
        let through = conformance::count_through(&context.workspace, libfabric, stand_in)?;
        counts += through.unwrap_or_else(not_fetched);
    }
    counts += match context.lacks_privilege()? {
        None => conformance::count_over_af_xdp(&context.workspace)?,
        Some(reason) => context.left_out(&format!("over AF_XDP: {reason}")),
    };
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
    // Interrupted tests could not remove their hosts; hosts of other runs may be in use.
    if let Err(error) = clean_lab() {
        println!("not all hosts of earlier runs are removed: {error:#}");
    }
    skips::run(&context.workspace, context.runner(Suite::Root)?).map(Outcome::Tests)
}

/// Seconds after which the stage starts no job any more, and says so; an automatic build runs them
/// all, within a day.
const MPI_LIMIT: &str = "330";
const MPI_LIMIT_STRICT: &str = "86400";

fn mpi_jobs(context: &Context) -> Result<Outcome> {
    if let Some(reason) = context.lacks_privilege()? {
        return Ok(Outcome::Skipped(reason));
    }
    let limit = if context.strict { MPI_LIMIT_STRICT } else { MPI_LIMIT };
    // The measurement fails for nothing.
    let arguments = ["--no-latency", "--limit", limit].map(Into::into);
    let mut counts = mpi::mpi(&context.workspace, &arguments)?;
    if context.strict {
        counts.failed += std::mem::take(&mut counts.skipped);
    }
    Ok(Outcome::Tests(counts))
}

fn aged(context: &Context) -> Result<Outcome> {
    if let Some(reason) = context.lacks_privilege()? {
        return Ok(Outcome::Skipped(reason));
    }
    age::age(&context.workspace, age::STAGE_MINUTES, 1).map(|()| Outcome::Passed)
}

/// Debian has no package of fabtests: where none are named or installed, that is no failure.
fn fabtests_gate(context: &Context) -> Result<Outcome> {
    let Some(programs) = fabtests::programs() else {
        return Ok(Outcome::Skipped(fabtests::ABSENT.to_owned()));
    };
    if let Some(reason) = context.lacks_privilege()? {
        return Ok(Outcome::Skipped(reason));
    }
    fabtests::count(&context.workspace, programs.as_os_str()).map(Outcome::Tests)
}

/// A toolchain that cannot be had is reported and is no failure: it comes from outside.
fn on_aarch64(context: &Context) -> Result<Outcome> {
    if std::env::consts::ARCH == "aarch64" {
        return Ok(Outcome::Skipped("the other stages ran on it".to_owned()));
    }
    Ok(match aarch64::run(&context.workspace)? {
        Ok(counts) => Outcome::Tests(counts),
        Err(reason) => Outcome::Skipped(format!("NOT RUN: {reason}")),
    })
}

/// A missing emulator or kernel is reported and is no failure: both come from outside.
fn virtual_machine(context: &Context) -> Result<Outcome> {
    match vm::unavailable(&context.workspace) {
        Some(reason) => Ok(Outcome::Skipped(format!("NOT RUN: {reason}"))),
        None => vm::stage(&context.workspace).map(Outcome::Tests),
    }
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
}

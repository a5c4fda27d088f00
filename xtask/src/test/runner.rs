// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that run the workspace's tests: by cargo-nextest, or by libtest without it.
//!
//! In: which tests, and the names asked for. Out: a command. Called by the stages `tests`,
//! `simulator` and `root-tests`.

use std::process::Command;

use anyhow::{Result, bail};

use super::context::Context;
use crate::simulator;
use crate::workspace::{Privilege, host};

/// In the name of each test that needs root.
const ROOT_TEST: &str = "root_";

/// Which tests of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Plain,
    Root,
}

impl Context {
    /// The command that runs `suite`, within the filter.
    pub(super) fn runner(&self, suite: Suite) -> Result<Command> {
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

    /// The command that runs the simulator's tests, within the filter. Without one, the stage runs
    /// a swarm, which has the seeds of the test of that name.
    pub(super) fn simulator_runner(&self) -> Command {
        let mut cargo = self.workspace.cargo();
        if self.nextest {
            cargo.args(["nextest", "run", "--release", "--package", simulator::PACKAGE]);
            cargo.args(["--no-fail-fast", "--no-tests=pass"]);
            cargo.args(["-E", &simulator_expression(&self.filter)]);
        } else {
            cargo.args(["test", "--release", "--package", simulator::PACKAGE, "--lib", "--bins"]);
            cargo.args(["--tests", "--no-fail-fast", "--"]).args(&self.filter);
            if self.filter.is_empty() {
                cargo.args(["--skip", simulator::SWARM_TEST]);
            }
        }
        cargo
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

/// Leaves out the test that the stage repeats.
fn simulator_expression(filter: &[String]) -> String {
    let expression = filter_expression(Suite::Plain, filter);
    if filter.is_empty() {
        return format!("{expression} & not test({})", simulator::SWARM_TEST);
    }
    expression
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
    fn filters_narrow_both_suites() {
        let filter = ["ring".to_owned(), "window".to_owned()];
        assert_eq!(filter_expression(Suite::Plain, &[]), "not test(root_)");
        assert_eq!(
            filter_expression(Suite::Root, &filter),
            "(test(root_)) & (test(ring) | test(window))"
        );
    }

    #[test]
    fn the_swarm_of_the_stage_is_not_repeated_by_a_test() {
        let test = format!("fn {}()", simulator::SWARM_TEST);
        assert!(include_str!("../../../tests/engine/sim/tests/swarm.rs").contains(&test));
        assert!(simulator_expression(&[]).ends_with("& not test(a_swarm_breaks_nothing)"));
        assert_eq!(
            simulator_expression(&["swarm".to_owned()]),
            "(not test(root_)) & (test(swarm))"
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

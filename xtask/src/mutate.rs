// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask mutate`: breaks the engine in known ways, one at a time, and shows which check
//! notices.
//!
//! In: the table `tests/engine/mutations.toml`. Out: for each mutation the check that caught it, or
//! SURVIVED, which is a hole in the tests and a failure. Core's own tests run for all of them
//! first, the unit tests before the others, because they build in a third of the time. The
//! simulator runs only for those that survive. It works on a copy of the tree in
//! `target/mutate`, which stays there, so that a mutation costs an incremental build. Bound: each
//! check has a time limit; a check that hangs has noticed.

pub(crate) mod table;
mod tree;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use self::table::{Check, Mutation};
use crate::process::{Ended, now, run_bounded};
use crate::simulator;
use crate::workspace::Workspace;

/// Time limit of a build of the copy: the first one builds everything.
const BUILD_LIMIT: Duration = Duration::from_secs(900);
/// A check that takes longer hangs.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// Seeds that the swarm tries on a mutant.
const SEEDS: &str = "400";

/// Prints the table.
pub(crate) fn list(workspace: &Workspace) -> Result<()> {
    for one in table::read(workspace.root())? {
        println!("{:<32} {:<36} {}", one.name, one.file, one.why);
    }
    Ok(())
}

/// Tries every mutation, or those called `only`; fails if one survives.
pub(crate) fn mutate(workspace: &Workspace, only: &[String]) -> Result<()> {
    let mutations = table::read(workspace.root())?;
    for one in &mutations {
        one.check(&fs::read_to_string(workspace.root().join(&one.file))?)?;
    }
    for name in only {
        let known = mutations.iter().any(|one| one.name == *name);
        ensure!(known, "no mutation {name}: `cargo xtask mutate --list` shows them");
    }
    let chosen: Vec<&Mutation> =
        mutations.iter().filter(|one| only.is_empty() || only.contains(&one.name)).collect();
    let copy = Copy::new(workspace)?;
    let mut survivors = copy.try_all(&chosen, &[Check::Unit, Check::Tests])?;
    if !survivors.is_empty() && simulator::exists(workspace) {
        println!("{} went unnoticed by the tests of core: the simulator", survivors.len());
        survivors = copy.try_all(&survivors, &[Check::Corpus, Check::Swarm])?;
    }
    println!("{} mutations, {} caught", chosen.len(), chosen.len() - survivors.len());
    let names: Vec<&str> = survivors.iter().map(|one| one.name.as_str()).collect();
    ensure!(names.is_empty(), "survived: {}", names.join(", "));
    Ok(())
}

/// The check that caught a mutant.
#[derive(Debug)]
struct Noticed {
    check: Check,
    detail: String,
}

/// The copy of the tree that is broken, and the commands that check it.
#[derive(Debug)]
struct Copy<'w> {
    workspace: &'w Workspace,
    folder: PathBuf,
}

impl<'w> Copy<'w> {
    fn new(workspace: &'w Workspace) -> Result<Self> {
        let folder = workspace.target_dir().join("mutate");
        tree::sync(workspace.root(), &folder.join("tree"))?;
        fs::create_dir_all(folder.join("log"))?;
        Ok(Self { workspace, folder })
    }

    /// Tries each of `mutations` on `checks`; returns those that none of them noticed.
    fn try_all<'m>(
        &self,
        mutations: &[&'m Mutation],
        checks: &[Check],
    ) -> Result<Vec<&'m Mutation>> {
        if let Some(noticed) = self.first_to_notice(checks)? {
            bail!("{} fails on the tree as it is: {}", noticed.check.name(), noticed.detail);
        }
        let (mut survivors, mut unbuilt) = (Vec::new(), Vec::new());
        for (index, &one) in mutations.iter().enumerate() {
            let start = now();
            let outcome = match self.try_out(one, checks) {
                Ok(Some(Noticed { check, detail })) => format!("{:<7} {detail}", check.name()),
                Ok(None) => {
                    survivors.push(one);
                    format!("SURVIVED {}", one.why)
                }
                Err(error) => {
                    unbuilt.push(one.name.as_str());
                    format!("{error:#}")
                }
            };
            let seconds = start.elapsed().as_secs_f64();
            let position = format!("{}/{}", index + 1, mutations.len());
            println!("{position:>7} {:<32} {outcome} ({seconds:.1} s)", one.name);
        }
        ensure!(unbuilt.is_empty(), "could not be tried: {}", unbuilt.join(", "));
        Ok(survivors)
    }

    /// Breaks the copy, runs `checks`, restores the copy.
    fn try_out(&self, mutation: &Mutation, checks: &[Check]) -> Result<Option<Noticed>> {
        let file = self.folder.join("tree").join(&mutation.file);
        let text = fs::read_to_string(&file)?;
        fs::write(&file, mutation.apply(&text)?)?;
        let noticed = self.first_to_notice(checks);
        fs::write(&file, text)?;
        noticed.with_context(|| format!("mutation {}", mutation.name))
    }

    /// Runs `checks` in order, until one fails.
    fn first_to_notice(&self, checks: &[Check]) -> Result<Option<Noticed>> {
        for &check in checks {
            if let Some(detail) = self.ask(check)? {
                return Ok(Some(Noticed { check, detail }));
            }
        }
        Ok(None)
    }

    /// The complaint of `check` about the copy in its present state, if any.
    fn ask(&self, check: Check) -> Result<Option<String>> {
        let (build, run) = match check {
            Check::Unit | Check::Tests => {
                let mut all = vec!["test", "--release", "--package", "ofi-xdp-core"];
                all.extend(check.arguments(SEEDS));
                let mut build = self.cargo();
                build.args(&all).arg("--no-run");
                let mut run = self.cargo();
                run.args(all);
                (build, run)
            }
            Check::Corpus | Check::Swarm => {
                let mut build = self.cargo();
                let package = simulator::PACKAGE;
                build.args(["build", "--release", "--package", package, "--bin", package]);
                let mut run = Command::new(self.folder.join("build/release").join(package));
                run.args(check.arguments(SEEDS)).current_dir(self.folder.join("tree"));
                (build, run)
            }
        };
        let (ended, log) = self.logged(build, "build", BUILD_LIMIT)?;
        ensure!(ended.is_success(), "it does not build:\n{}", last_lines(&log, 30));
        let (ended, log) = self.logged(run, check.name(), CHECK_LIMIT)?;
        Ok(match ended {
            Ended::Exit(status) if status.success() => None,
            Ended::Exit(_) => Some(complaint(&log)),
            Ended::Overdue => Some(format!("hangs: more than {} s", CHECK_LIMIT.as_secs())),
        })
    }

    /// Cargo in the copy. Optimised as far as compiles quickly.
    fn cargo(&self) -> Command {
        let mut cargo = self.workspace.cargo();
        cargo.current_dir(self.folder.join("tree"));
        cargo.env("CARGO_TARGET_DIR", self.folder.join("build"));
        cargo.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "64");
        cargo
    }

    fn logged(&self, mut command: Command, name: &str, limit: Duration) -> Result<(Ended, String)> {
        let path: PathBuf = self.folder.join("log").join(name);
        let file = File::create(&path)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let ended = run_bounded(command, limit)?;
        Ok((ended, read_lossy(&path)?))
    }
}

fn read_lossy(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The most telling line of a failed check: the first failed test, or the first error.
fn complaint(log: &str) -> String {
    let failed = |line: &&str| line.starts_with("test ") && line.ends_with("FAILED");
    if let Some(line) = log.lines().find(failed) {
        return line["test ".len()..].trim_end_matches(" ... FAILED").to_owned();
    }
    let words = ["invariant", "panicked", "FAILED", "failed", "error"];
    let telling = words.iter().find_map(|word| log.lines().find(|line| line.contains(word)));
    let line = telling.or_else(|| log.lines().rev().find(|line| !line.trim().is_empty()));
    line.unwrap_or("no word of why").trim().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line() {
        let log = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\nfailures:\n";
        assert_eq!(complaint(log), "a::c");
        let log = "seed 7\ninvariant 9: completed twice\nfailed\n";
        assert_eq!(complaint(log), "invariant 9: completed twice");
        assert_eq!(complaint("one\ntwo\n\n"), "two");
        assert_eq!(complaint(""), "no word of why");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask fuzz`: the fuzz targets of `tests/engine/fuzz`, each for some seconds, from the
//! corpus in the tree.
//!
//! In: which target, how long; or a file to play again. Out: a line for each target, and failure
//! with the input that found something. cargo-fuzz builds; without a sanitizer it needs no nightly
//! compiler, and core has no unsafe code that a sanitizer would watch. libFuzzer's
//! output is in `target/fuzz/TARGET.log`, inputs that reach new code in `target/fuzz/corpus`.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::process::{Ended, run_bounded};
use crate::setup::{self, Purpose};
use crate::workspace::{Workspace, find_command, host};

/// The targets, quickest first.
pub(crate) const TARGETS: &[&str] = &["decode", "agents", "connections", "ingest", "operations"];

/// How long each runs in an automatic build.
pub(crate) const SECONDS: u64 = 20;

/// The release of cargo-fuzz that is installed.
const CARGO_FUZZ: &str = "cargo-fuzz@0.13.2";

/// A workspace of its own.
pub(crate) const PACKAGE: &str = "tests/engine/fuzz";

/// Longest input; the targets bound their own steps.
const INPUT_MAX: u32 = 4096;

/// The seed of an automatic build. The same tree gives the same inputs, so that a failure comes
/// from the change. A run by hand has a seed of its own and finds more.
pub(crate) const SEED: u32 = 1;

/// Builds all targets and runs `chosen`, or each, from `seed` on or a random one.
pub(crate) fn fuzz(
    workspace: &Workspace,
    chosen: Option<&str>,
    seconds: u64,
    seed: Option<u32>,
) -> Result<()> {
    let programs = build(workspace)?;
    let mut failed = Vec::new();
    for target in TARGETS.iter().filter(|target| chosen.is_none_or(|one| one == **target)) {
        match run(workspace, &programs, target, seconds, seed)? {
            FuzzResult::Clean(line) => println!("{target:<12} {line}"),
            FuzzResult::Found(what) => {
                println!("{target:<12} FAILED\n{what}");
                failed.push(*target);
            }
        }
    }
    ensure!(failed.is_empty(), "fuzzing found something in: {}", failed.join(", "));
    Ok(())
}

/// Plays one input again.
pub(crate) fn replay(workspace: &Workspace, target: &str, input: &Path) -> Result<()> {
    let programs = build(workspace)?;
    let status = Command::new(programs.join(target)).arg(input).status()?;
    ensure!(status.success(), "{target} fails on {}", input.display());
    println!("{target} has nothing to say against {}", input.display());
    Ok(())
}

/// Builds every target; returns their folder.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    setup::ensure(&[Purpose::Fuzz])?;
    let path = path_with_cargo_fuzz(workspace)?;
    let target_dir = workspace.target_dir().join("fuzz/build");
    let mut cargo = workspace.cargo();
    cargo.env("PATH", path).args(["fuzz", "build", "--sanitizer", "none"]);
    cargo.arg("--fuzz-dir").arg(workspace.root().join(PACKAGE));
    cargo.arg("--target-dir").arg(&target_dir);
    ensure!(cargo.status()?.success(), "the fuzz targets do not build: see above");
    Ok(target_dir.join(host()?).join("release"))
}

/// The search path, with cargo-fuzz on it: the system's, or one installed in `target/tools` now.
fn path_with_cargo_fuzz(workspace: &Workspace) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    if find_command("cargo-fuzz").is_some() {
        return Ok(path);
    }
    let tools = workspace.tools_dir();
    if !tools.join("bin/cargo-fuzz").exists() {
        let mut cargo = workspace.cargo();
        // It only starts cargo: optimised, it would take minutes to compile.
        cargo.args(["install", "--locked", "--debug", "--config", "profile.dev.debug=false"]);
        cargo.args([CARGO_FUZZ, "--root"]).arg(&tools);
        ensure!(cargo.status()?.success(), "cargo-fuzz does not install: see above");
    }
    let folders = [tools.join("bin")].into_iter().chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}

/// The result of a run of one target.
#[derive(Debug, PartialEq, Eq)]
enum FuzzResult {
    Clean(String),
    Found(String),
}

fn run(
    workspace: &Workspace,
    programs: &Path,
    target: &str,
    seconds: u64,
    seed: Option<u32>,
) -> Result<FuzzResult> {
    let folder = workspace.target_dir().join("fuzz");
    let (corpus, artifacts) = (folder.join("corpus").join(target), folder.join("artifacts"));
    for made in [&corpus, &artifacts] {
        fs::create_dir_all(made)?;
    }
    let log = folder.join(format!("{target}.log"));
    let file = File::create(&log)?;
    let mut fuzzer = Command::new(programs.join(target));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_MAX}"));
    fuzzer.args(["-timeout=20", "-print_final_stats=1"]);
    // 0: libFuzzer's word for a random one.
    fuzzer.arg(format!("-seed={}", seed.unwrap_or(0)));
    fuzzer.arg(format!("-artifact_prefix={}/{target}-", artifacts.display()));
    // libFuzzer writes new inputs to the first folder and only reads the second one.
    fuzzer.arg(&corpus).arg(workspace.root().join(PACKAGE).join("corpus").join(target));
    fuzzer.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    // It ends by itself; a target that hangs is ended by libFuzzer after its time-out.
    let ended = run_bounded(fuzzer, Duration::from_secs(seconds + 60))?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if ended.is_success() {
        return Ok(FuzzResult::Clean(summary(&text)));
    }
    if ended == Ended::Overdue {
        bail!("{target} did not end in time: see {}", log.display());
    }
    Ok(FuzzResult::Found(finding(target, &text, &log)))
}

/// The number of inputs and of code points reached, from libFuzzer's last lines.
fn summary(log: &str) -> String {
    let statistic = |name: &str| {
        let line = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0u64)
    };
    let covered = log.lines().rev().find_map(|line| {
        let rest = line.split_once(" cov: ")?.1;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    format!(
        "{:>11} inputs, {:>7} a second, {} edges, {} inputs new",
        statistic("number_of_executed_units"),
        statistic("average_exec_per_sec"),
        covered.unwrap_or(0),
        statistic("new_units_added"),
    )
}

/// The panic, the input, and how to play it again.
fn finding(target: &str, log: &str, path: &Path) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let (first, count) = panic.map_or_else(|| (lines.len().saturating_sub(5), 5), |at| (at, 4));
    let what: Vec<&str> = lines.iter().skip(first).take(count).copied().collect();
    let artifact = log.split("Test unit written to ").nth(1).and_then(|rest| rest.lines().next());
    let again = artifact.map_or_else(
        || "no input was written".to_owned(),
        |file| format!("again: cargo xtask fuzz {target} --replay {file}"),
    );
    format!("{}\nlog: {}\n{again}", what.join("\n"), path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_is_summed_up() {
        let log = "#12\tNEW    cov: 51 ft: 60 corp: 2/5b\n#99\tDONE   cov: 57 ft: 61\n\
                   stat::number_of_executed_units: 1234\nstat::average_exec_per_sec:     56\n\
                   stat::new_units_added:          7\n";
        let line = summary(log);
        for part in ["1234 inputs", "56 a second", "57 edges", "7 inputs new"] {
            assert!(line.contains(part), "{line}");
        }
        assert!(summary("").contains("0 inputs"));
    }

    #[test]
    fn a_finding_names_the_panic_and_the_replay() {
        let log = "INFO: x\nthread '<unnamed>' panicked at src/a.rs:1:2:\nnot everything ended\n\
                   stack backtrace:\nTest unit written to /t/fuzz/decode-crash-1\n";
        let text = finding("decode", log, Path::new("/t/decode.log"));
        assert!(text.contains("not everything ended") && text.contains("/t/decode.log"), "{text}");
        assert!(text.ends_with("cargo xtask fuzz decode --replay /t/fuzz/decode-crash-1"));
        assert!(finding("decode", "", Path::new("x")).contains("no input was written"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab leaves nothing behind after any kind of end.

use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_harness::{netns, paths};

const LAB: &str = env!("CARGO_BIN_EXE_ofi-xdp-lab");

fn lab() -> anyhow::Result<Program> {
    let provider = paths::provider()?;
    Ok(Program::new(LAB).args(["run", "--quick"]).envs([("FI_PROVIDER_PATH", provider)]))
}

/// The remaining namespaces of a process.
fn left_behind(pid: i32) -> anyhow::Result<Vec<String>> {
    let prefix = format!("oxl-{pid}-");
    let names = netns::ip(&["netns", "list"])?;
    Ok(names.lines().filter(|line| line.starts_with(&prefix)).map(str::to_owned).collect())
}

/// Interrupted at any point, the lab ends soon, with no namespace and no process left.
#[test]
fn root_an_interrupted_lab_cleans_up() -> anyhow::Result<()> {
    // Checks the privilege, and keeps other fixtures out.
    let Some(_alone) = TwoHostFixture::new()? else { return Ok(()) };
    for (signal, after_ms) in
        [(Signal::SIGINT, 300), (Signal::SIGINT, 3000), (Signal::SIGTERM, 1200)]
    {
        let lab = lab()?.start()?;
        let pid = lab.pid().as_raw();
        std::thread::sleep(Duration::from_millis(after_ms));
        lab.signal(signal)?;
        let output = lab.finish(TIMEOUT).with_context(|| format!("{signal} at {after_ms} ms"))?;
        ensure!(output.status.code() == Some(130), "{signal}: it ended with {}", output.status);
        ensure!(output.stderr.contains("interrupted"), "{signal}: {}", output.stderr);
        let left = left_behind(pid)?;
        ensure!(left.is_empty(), "{signal} at {after_ms} ms left {left:?}");
    }
    Ok(())
}

/// After a SIGKILL, the lab's processes die with it, and the next lab removes its namespaces.
#[test]
fn root_a_killed_lab_is_swept() -> anyhow::Result<()> {
    let Some(_alone) = TwoHostFixture::new()? else { return Ok(()) };
    let lab = lab()?.start()?;
    let pid = lab.pid().as_raw();
    std::thread::sleep(Duration::from_millis(1500));
    let names = left_behind(pid)?;
    ensure!(names.len() == 2, "it should have two hosts by now: {names:?}");
    lab.signal(Signal::SIGKILL)?;
    drop(lab);
    for name in &names {
        let name = name.split_whitespace().next().unwrap_or_default();
        ofi_xdp_harness::interrupt::wait_until("the end of its processes", TIMEOUT, || {
            Ok(netns::ip(&["netns", "pids", name])?.trim().is_empty().then_some(()))
        })?;
    }
    ensure!(netns::sweep()? >= 2, "nothing was swept");
    ensure!(left_behind(pid)?.is_empty(), "something was left");
    Ok(())
}

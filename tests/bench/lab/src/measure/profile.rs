// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles: the client's processor time during a measurement, sampled with `perf record`, as a
//! flame graph.
//!
//! In: an environment, a candidate and the arguments of its client. Out: an SVG picture, and the
//! share of the samples in each object and in each function. Bounds: [`SECONDS`] of samples,
//! [`TIMEOUT`] to resolve them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::flame::{Frame, stacks};
use super::{Candidate, Environment};
use ofi_xdp_harness::process::Program;

/// Duration of the sampling.
const SECONDS: &str = "1";
/// Samples a second: enough for a picture, too few to slow the measurement.
const FREQUENCY: &str = "1999";
/// Bytes of the stack in each sample: release builds have no frame pointers.
const STACK: &str = "dwarf,4096";
/// Time limit of `perf` for the recording, and for the resolution of symbols.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Delay of the first sample: opening, handshake, warm-up.
const WARM_UP: Duration = Duration::from_millis(700);

/// Measures `candidate` with `arguments`, for some seconds at least, and draws `picture`.
///
/// Returns the shares of the samples, largest first.
///
/// # Errors
/// When `perf` is missing or may not record, or a session fails.
pub fn profile(
    environment: &Environment,
    candidate: &Candidate,
    arguments: &[String],
    title: &str,
    picture: &Path,
) -> anyhow::Result<Shares> {
    let session = environment.start(candidate, arguments, &[])?;
    std::thread::sleep(WARM_UP);
    let samples = picture.with_extension("perf");
    let record = Program::new("perf")
        .args(["record", "--quiet", "--freq", FREQUENCY, "--call-graph", STACK])
        .args(["--pid", &session.client.pid().to_string()])
        .args(["--output".as_ref(), samples.as_os_str()])
        .args(["--", "sleep", SECONDS])
        .run(TIMEOUT);
    session.client.finish(TIMEOUT)?.success()?;
    if let Some(server) = session.server {
        server.finish(TIMEOUT)?.success()?;
    }
    record.context("perf record (package linux-perf)")?;
    let script = Program::new("perf")
        .args(["script", "--no-inline", "--force", "--input"])
        .arg(&samples)
        .run(TIMEOUT)
        .context("perf script")?;
    let stacks = stacks(&script.stdout);
    ensure!(!stacks.is_empty(), "perf took no samples");
    fs::write(picture, Frame::tree(&stacks).svg(title))
        .with_context(|| picture.display().to_string())?;
    fs::remove_file(&samples)?;
    let of = |name: fn(&(&str, &str)) -> String| shares(&stacks, name);
    Ok(Shares {
        objects: of(|(_, object)| (*object).to_owned()),
        functions: of(|(function, object)| format!("{function} ({object})")),
    })
}

/// Shares of the samples, largest first: names, and shares of 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares {
    /// Programs, libraries, the kernel.
    pub objects: Vec<(String, f64)>,
    /// Functions, without their callees.
    pub functions: Vec<(String, f64)>,
}

/// The share of the samples with an innermost frame of each `name`.
fn shares(
    stacks: &[Vec<(&str, &str)>],
    name: impl Fn(&(&str, &str)) -> String,
) -> Vec<(String, f64)> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for frame in stacks.iter().filter_map(|stack| stack.last()) {
        *counts.entry(name(frame)).or_default() += 1;
    }
    let total: u32 = counts.values().sum();
    let share = |count: u32| f64::from(count) / f64::from(total.max(1));
    let mut shares: Vec<_> = counts.into_iter().map(|(name, count)| (name, share(count))).collect();
    shares.sort_by(|left, right| right.1.total_cmp(&left.1));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_for_its_innermost_frame() {
        let stacks = [
            vec![("main", "perf"), ("crc32c", "libxdp-fi.so")],
            vec![("memcpy", "[kernel.kallsyms]")],
            vec![("main", "perf"), ("memcpy", "[kernel.kallsyms]")],
        ];
        let shares = shares(&stacks, |(_, object)| (*object).to_owned());
        assert_eq!(shares[0].0, "[kernel.kallsyms]");
        assert!((shares[0].1 - 2.0 / 3.0).abs() < 1e-9, "{shares:?}");
        assert_eq!((shares[1].0.as_str(), shares.len()), ("libxdp-fi.so", 2));
    }
}

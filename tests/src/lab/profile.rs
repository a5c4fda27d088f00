// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a client's time goes: `perf record` on its core while it measures, as a flame graph.
//!
//! In: a field, who is measured, and with what. Out: an SVG picture, and how much of the samples
//! fell in each object. What `perf` prints of a sample is read by the `inferno` crate. Bounds:
//! [`SECONDS`] of samples, [`PATIENCE`] to resolve them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options as FolderOptions};
use inferno::flamegraph::{self, Options};

use super::{Contestant, Field};
use crate::process::Program;

/// How long samples are taken.
const SECONDS: &str = "1";
/// Samples a second: enough for a picture, too few to slow what is measured.
const FREQUENCY: &str = "1999";
/// Bytes of the stack that are kept with each sample: release builds have no frame pointers.
const STACK: &str = "dwarf,4096";
/// The core that clients run on ([`Field::start`]).
const CORE: &str = "1";
/// How long `perf` may take to record, and to name what it recorded.
const PATIENCE: Duration = Duration::from_secs(120);
/// What passes before the first sample: opening, handshake, warm-up.
const WARM_UP: Duration = Duration::from_millis(700);

/// Measures `contestant` with `arguments`, which must take some seconds, and draws `picture`.
///
/// Returns the share of the samples in each object, largest first.
///
/// # Errors
/// When `perf` is missing or may not record, or a session fails.
pub fn profile(
    field: &Field,
    contestant: &Contestant,
    arguments: &[String],
    title: &str,
    picture: &Path,
) -> anyhow::Result<Vec<(String, f64)>> {
    let session = field.start(contestant, arguments, &[])?;
    std::thread::sleep(WARM_UP);
    let samples = picture.with_extension("perf");
    let record = Program::new("perf")
        .args(["record", "--quiet", "--freq", FREQUENCY, "--cpu", CORE, "--call-graph", STACK])
        .args(["--output".as_ref(), samples.as_os_str()])
        .args(["--", "sleep", SECONDS])
        .run(PATIENCE);
    session.client.finish(PATIENCE)?.success()?;
    if let Some(server) = session.server {
        server.finish(PATIENCE)?.success()?;
    }
    record.context("perf record (package linux-perf)")?;
    let script = Program::new("perf")
        .args(["script", "--no-inline", "--force", "--input"])
        .arg(&samples)
        .run(PATIENCE)
        .context("perf script")?;
    let mut folded = Vec::new();
    Folder::from(FolderOptions::default()).collapse(script.stdout.as_bytes(), &mut folded)?;
    ensure!(!folded.is_empty(), "perf took no samples");
    let mut options = Options::default();
    options.title = title.to_owned();
    options.min_width = 0.3;
    let file = File::create(picture).with_context(|| picture.display().to_string())?;
    flamegraph::from_reader(&mut options, folded.as_slice(), file)?;
    fs::remove_file(&samples)?;
    Ok(shares(&script.stdout))
}

/// The share of the samples whose innermost frame is in each object, by what `perf script` prints:
/// a line that begins at the margin for a sample, then its frames, the innermost first, each with
/// its object in brackets at the end.
fn shares(script: &str) -> Vec<(String, f64)> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut innermost = false;
    for line in script.lines() {
        let frame = line.starts_with(char::is_whitespace);
        if frame && innermost {
            let object = line.rsplit('(').next().unwrap_or_default().trim_end_matches(')');
            let name = object.rsplit('/').next().unwrap_or(object);
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        innermost = !frame && !line.is_empty();
    }
    let total: u32 = counts.values().sum();
    let mut shares: Vec<(String, f64)> = counts
        .into_iter()
        .map(|(name, count)| (name, f64::from(count) / f64::from(total.max(1))))
        .collect();
    shares.sort_by(|left, right| right.1.total_cmp(&left.1));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_for_its_innermost_frame() {
        let script = "perf 1 [001] 2.0: 1 cycles:\n\t7f00 crc32c+0x1 (/x/libxdp-fi.so)\n\
                      \t7f01 main (/y/perf)\n\nperf 1 [001] 2.1: 1 cycles:\n\
                      \tffff memcpy ([kernel.kallsyms])\n\nperf 1 [001] 2.2: 1 cycles:\n\
                      \tffff memcpy ([kernel.kallsyms])\n";
        let shares = shares(script);
        assert_eq!(shares[0].0, "[kernel.kallsyms]");
        assert!((shares[0].1 - 2.0 / 3.0).abs() < 1e-9, "{shares:?}");
        assert_eq!(shares[1].0, "libxdp-fi.so");
        assert_eq!(shares.len(), 2);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts instructions: runs this program under callgrind and reads its output file.
//!
//! In: a workload. Out: instructions of one packet, and where they are. Two runs of different
//! length are subtracted, so that start-up and connecting do not count. The count is exact and does
//! not depend on the machine's load. The format is that of `callgrind_annotate`'s input (Valgrind
//! manual, "Callgrind Format Specification").

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::workload::{Work, Workload};
use crate::worst_case::Case;

/// Counts of operations of the two runs.
const SHORT: u64 = 2_000;
const LONG: u64 = 12_000;
/// The divisor of the counts, for operations of many packets.
const BULK_SHARE: u64 = 40;

/// The cost of one run.
#[derive(Debug, Default, PartialEq)]
struct Cost {
    total: i64,
    /// Instructions by source file and function.
    functions: BTreeMap<(String, String), i64>,
}

/// Instructions of one workload, for one packet and one operation.
#[derive(Debug)]
pub(crate) struct Instructions {
    pub(crate) per_packet: f64,
    pub(crate) per_operation: f64,
    /// Source file and instructions in it for one packet, the most expensive first.
    pub(crate) files: Vec<(String, f64)>,
    /// The cost by function. A function that was inlined is counted where it was inlined to, under
    /// its own file.
    pub(crate) functions: Vec<(String, f64)>,
}

/// Counts the instructions of `workload`.
///
/// # Errors
/// When valgrind is not installed or fails.
pub(crate) fn count(workload: Workload) -> Result<Instructions> {
    // Operations of many packets: fewer of them make as many packets.
    let share =
        if matches!(workload, Workload::Bulk | Workload::KernelBulk) { BULK_SHARE } else { 1 };
    let (short, short_cost) = run(workload, SHORT / share)?;
    let (long, long_cost) = run(workload, LONG / share)?;
    let packets = (long.data_packets - short.data_packets) as f64;
    let operations = (long.operations - short.operations) as f64;
    let total = (long_cost.total - short_cost.total) as f64;
    let (mut files, mut functions) = (BTreeMap::new(), BTreeMap::new());
    for ((file, function), cost) in &long_cost.functions {
        let key = (file.clone(), function.clone());
        let more = (cost - short_cost.functions.get(&key).copied().unwrap_or(0)) as f64 / packets;
        *files.entry(short_file(file)).or_insert(0.0) += more;
        *functions.entry(format!("{} ({})", function, short_file(file))).or_insert(0.0) += more;
    }
    Ok(Instructions {
        per_packet: total / packets,
        per_operation: total / operations,
        files: most_expensive(files),
        functions: most_expensive(functions),
    })
}

fn most_expensive(costs: BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let mut list: Vec<(String, f64)> = costs.into_iter().filter(|one| one.1 >= 0.5).collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    list
}

/// The last part of a path that tells files apart: from `core/src`, a crate's folder, or the name.
fn short_file(path: &str) -> String {
    for start in ["core/src/", "tests/bench/engine/"] {
        if let Some(at) = path.rfind(start)
            && !path.contains("/library/")
        {
            return path[at..].to_owned();
        }
    }
    let parts: Vec<&str> = path.rsplit('/').take(3).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// The hot paths with a function in `mark_apart.rs`, each with its unit of count.
pub(crate) const PATHS: [(&str, Per); 6] = [
    ("post_send", Per::Operation),
    ("transmit_packet", Per::Packet),
    ("transmit_ack", Per::Ack),
    ("ingest_data", Per::Packet),
    ("ingest_ack", Per::Ack),
    // The ends of the send and of the receive, and the calls that find none.
    ("poll_completion", Per::Completion),
];

/// The unit of which there is one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Per {
    Operation,
    Packet,
    Ack,
    Completion,
}

impl Per {
    fn count(self, work: Work) -> u64 {
        match self {
            Self::Operation => work.operations,
            Self::Packet => work.data_packets,
            Self::Ack => work.acks,
            Self::Completion => 2 * work.operations,
        }
    }
}

/// The call that `misbehave reads` has a function for: an `fi_cq_read` that receives a packet and
/// returns its completion. It runs in the application's process, with libfabric's part, over kernel
/// sockets. A call that finds nothing is not counted: the number of timers that fire in it depends
/// on time. On a quiet machine the provider's thread has taken the endpoint over, and a call
/// notifies it; beside other work it has not, and a call takes some 80 instructions fewer. Record
/// on a quiet machine.
pub(crate) const READS: [(&str, Per); 1] = [("cq_read", Per::Operation)];

/// Runs of `misbehave reads`. It refuses a run in which too many messages came late, as on a
/// machine with other work.
const READS_ATTEMPTS: u32 = 5;

/// Counts the instructions of each hot path of the engine.
///
/// # Errors
/// When valgrind is not installed or fails, or a path does not show.
pub(crate) fn count_paths() -> Result<Vec<(&'static str, f64)>> {
    let program = env::current_exe()?.with_file_name("ofi-xdp-engine-paths");
    count_marked(&program, &[], &PATHS)
}

/// Counts the instructions of the call of a worst case.
///
/// # Errors
/// As [`count_paths`].
pub(crate) fn count_worst(case: Case) -> Result<f64> {
    let program = env::current_exe()?.with_file_name("ofi-xdp-engine-worst");
    let (_, text) = run_program(&program, &[case.name()], 1)?;
    let cost = read_inclusive(&text, case.function());
    ensure!(cost > 0, "{} does not show in callgrind's output", case.name());
    Ok(cost as f64)
}

/// Counts the instructions of reads, with the provider that cargo has left beside this program: a
/// release build. The one in `target/provider` may be a PGO build, which takes fewer, and as many
/// as its profile makes it.
///
/// # Errors
/// When it was not built, and as [`count_paths`].
pub(crate) fn count_reads() -> Result<Vec<(&'static str, f64)>> {
    let program = env::current_exe()?.with_file_name("misbehave");
    let library = program.with_file_name("libxdp_fi.so");
    for file in [&program, &library] {
        ensure!(file.exists(), "{} is missing: `cargo xtask build`", file.display());
    }
    let folder = provider_folder();
    fs::create_dir_all(&folder)?;
    let name = folder.join("libxdp-fi.so");
    symlink(&library, &name).with_context(|| format!("no {}", name.display()))?;
    let count = || count_marked(&program, &["reads", "127.0.0.1"], &READS);
    let mut counted = count();
    for _ in 1..READS_ATTEMPTS {
        if counted.is_ok() {
            break;
        }
        counted = count();
    }
    fs::remove_dir_all(&folder)?;
    counted
}

/// Where programs that use libfabric find the provider that is counted.
fn provider_folder() -> PathBuf {
    env::temp_dir().join(format!("engine-bench-provider-{}", std::process::id()))
}

/// Runs a program that has functions for `paths`, with `arguments` and a count. Returns the cost of
/// a call of each.
fn count_marked(
    program: &Path,
    arguments: &[&str],
    paths: &[(&'static str, Per)],
) -> Result<Vec<(&'static str, f64)>> {
    let run = |count: u64| {
        let number = count.to_string();
        run_program(program, &[arguments, &[&number]].concat(), count)
    };
    let ((short, short_text), (long, long_text)) = (run(SHORT)?, run(LONG)?);
    let cost = |&(name, per): &(&'static str, Per)| {
        let more = read_inclusive(&long_text, name) - read_inclusive(&short_text, name);
        let calls = per.count(long).saturating_sub(per.count(short));
        ensure!(more > 0 && calls > 0, "{name} does not show in callgrind's output");
        Ok((name, more as f64 / calls as f64))
    };
    paths.iter().map(cost).collect()
}

/// The cost of all calls of the function `name` of `mark_apart.rs`, callees included: the line
/// after each `calls=`.
fn read_inclusive(text: &str, name: &str) -> i64 {
    let marked = format!("::mark::{name}");
    let (mut total, mut callee, mut is_ours) = (0, false, false);
    for line in text.lines() {
        if let Some(function) = line.strip_prefix("cfn=") {
            is_ours = function.split_once(&marked).is_some_and(|(_, rest)| {
                !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
            });
        } else if line.starts_with("calls=") {
            callee = true;
        } else if std::mem::take(&mut callee) && is_ours {
            let cost = line.split_whitespace().nth(1).and_then(|word| word.parse::<i64>().ok());
            total += cost.unwrap_or(0);
        }
    }
    total
}

/// Runs this program's `work` subcommand under callgrind.
fn run(workload: Workload, count: u64) -> Result<(Work, Cost)> {
    let arguments = ["work", workload.name(), &count.to_string()];
    let (work, text) = run_program(&env::current_exe()?, &arguments, count)?;
    Ok((work, read_cost(&text)?))
}

/// Runs a program under callgrind. Returns its output, and the text of callgrind's file.
fn run_program(program: &Path, arguments: &[&str], count: u64) -> Result<(Work, String)> {
    let out = env::temp_dir().join(format!("engine-bench-{}-{count}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet", "--compress-strings=no", "--compress-pos=no"]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.arg(program).args(arguments);
    // For those that use libfabric: one provider, and no path that others share.
    valgrind.env("FI_PROVIDER_PATH", provider_folder()).env("FI_XDP_TIER", "udp");
    let output = valgrind
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("valgrind did not start: `cargo xtask setup --all` installs it")?;
    if !output.status.success() {
        bail!("valgrind ended with {}", output.status);
    }
    let text = fs::read_to_string(&out).with_context(|| format!("no {}", out.display()))?;
    fs::remove_file(&out)?;
    Ok((read_work(&String::from_utf8_lossy(&output.stdout))?, text))
}

/// The output of the `work` subcommand: operations, data packets, acknowledgments.
fn read_work(text: &str) -> Result<Work> {
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [operations, data_packets, acks] = numbers[..] else {
        bail!("{text:?} are not three counts");
    };
    Ok(Work { operations, data_packets, acks })
}

/// Sums the self cost of every function by file. The line after `calls=` is the cost of the
/// callee, which is counted with the callee.
fn read_cost(text: &str) -> Result<Cost> {
    let mut cost = Cost::default();
    let (mut file, mut function, mut callee) = (String::new(), String::new(), false);
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "fl" | "fi" | "fe" => value.clone_into(&mut file),
                "fn" => value.clone_into(&mut function),
                "calls" => callee = true,
                _ => {}
            }
            continue;
        }
        if let Some(total) =
            line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: "))
        {
            cost.total = total.trim().parse().context("no total in callgrind's output")?;
        }
        let mut words = line.split_whitespace();
        let numbers = (words.next(), words.next().and_then(|word| word.parse::<i64>().ok()));
        let (Some(position), Some(instructions)) = numbers else { continue };
        if position.parse::<u64>().is_err() || std::mem::take(&mut callee) {
            continue;
        }
        *cost.functions.entry((file.clone(), function.clone())).or_insert(0) += instructions;
    }
    if cost.total == 0 {
        bail!("callgrind counted nothing");
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
version: 1
cmd: bench work ping-pong 10
positions: line
events: Ir

fl=/p/core/src/a.rs
fn=main
16 400
cfn=called
calls=1 50
16 900
fi=/p/core/src/b.rs
7 30
fe=/p/core/src/a.rs
17 5

fn=called
51 900

totals: 1335
";

    #[test]
    fn self_cost_is_summed_by_function_and_calls_are_not() {
        let cost = read_cost(OUTPUT).unwrap();
        assert_eq!(cost.total, 1335);
        let functions: Vec<(&str, &str, i64)> =
            cost.functions.iter().map(|((file, name), cost)| (&**file, &**name, *cost)).collect();
        assert_eq!(
            functions,
            [
                ("/p/core/src/a.rs", "called", 900),
                ("/p/core/src/a.rs", "main", 405),
                ("/p/core/src/b.rs", "main", 30),
            ]
        );
        assert!(read_cost("nothing").is_err());
    }

    #[test]
    fn inclusive_cost_is_that_of_the_marked_function_alone() {
        let text = "\
fn=bench::pair::drive
16 400
cfn=bench::mark::post_send
calls=10 50
16 900
cfn=bench::mark::post_send_other
calls=1 50
16 7
cfn=bench::mark::post_send::<closure>
calls=2 50
17 100
";
        assert_eq!(read_inclusive(text, "post_send"), 1000);
        assert_eq!(read_inclusive(text, "ingest_data"), 0);
    }

    #[test]
    fn files_have_short_names() {
        assert_eq!(short_file("/x/core/src/engine/mod.rs"), "core/src/engine/mod.rs");
        assert_eq!(short_file("/rustc/1/library/core/src/num/mod.rs"), "src/num/mod.rs");
        assert_eq!(short_file("a.c"), "a.c");
    }

    #[test]
    fn counts_come_back_from_the_output() {
        let work = Work { operations: 1, data_packets: 2, acks: 3 };
        assert_eq!(read_work("1 2 3\n").unwrap(), work);
        assert!(read_work("1 2\n").is_err());
    }
}

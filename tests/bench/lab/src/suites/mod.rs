// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench`: the suites of benchmarks, and the presentation of their results.
//!
//! A suite is a list of entries (`entries.rs`), each on a link of its own; the lab measures them in
//! turn, round after round. All further results are functions of the records alone. They are the
//! table on the terminal, the [`targets()`] with the reached values, the page in HTML ([`page()`])
//! and the tables in Markdown ([`markdown()`]). A
//! [`Comparison`] is of two runs. So they can be made again from
//! `target/bench/*.json`.

mod comparison;
mod datagrams;
mod entries;
mod html;
mod lazy;
mod machine;
mod markdown;
mod matching;
mod page;
mod path;
mod queues;
mod standalone;
mod table;
mod targets;
mod threads;

use std::path::{Path, PathBuf};

use crate::report::{self, Record};

pub use comparison::Comparison;
pub use datagrams::{DATAGRAMS, datagrams, exercise_datagrams};
pub use entries::{PGO_WORKLOAD, Plan, plan};
pub use lazy::lazy_table;
pub use machine::facts;
pub use markdown::markdown;
pub use matching::{MATCHING, matching};
pub use page::page;
pub use path::{PATH, PathSuite, tables as path_tables};
pub use queues::{QUEUES, queues, queues_table};
pub use standalone::{Programs, connections, empty_reads, insertions, many_peers};
pub use table::table;
pub use targets::{Row, targets};
pub use threads::{THREADS, threads};

/// The suites that the lab measures, and the engine's, in the order in which they run.
pub const SUITES: [&str; 14] = [
    "latency",
    "rate",
    "bandwidth",
    "connected",
    "scale",
    "loss",
    PATH,
    QUEUES,
    "cpu",
    "lazy",
    DATAGRAMS,
    MATCHING,
    THREADS,
    "engine",
];
/// Suites that run only if they are named: they take an hour.
pub const LONG_SUITES: [&str; 2] = [PATH, "lazy"];

/// The file with a suite's records.
#[must_use]
pub fn records_of(folder: &Path, suite: &str) -> PathBuf {
    folder.join(format!("{suite}.json"))
}

/// All existing records, suite by suite.
///
/// # Errors
/// When a file is not understood.
pub fn all_records(folder: &Path) -> anyhow::Result<Vec<Record>> {
    let mut all = Vec::new();
    for suite in SUITES {
        all.extend(report::read(&records_of(folder, suite))?);
    }
    Ok(all)
}

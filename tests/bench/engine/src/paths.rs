// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engines of `main.rs`, with every call of them in a function of its own for callgrind. Only
//! run by `ofi-xdp-engine-bench`, under callgrind. It is a program of its own, because these
//! functions keep the compiler from inlining as it does in production.
//!
//! In: a count. Out: that many messages one way, a packet each, acknowledged in batches.

mod line;
#[path = "mark_apart.rs"]
mod mark;
#[allow(dead_code, reason = "`main.rs` needs more of it")]
mod pair;
#[allow(dead_code, reason = "`main.rs` needs more of it")]
mod workload;

use anyhow::{Context as _, Result};

use crate::pair::Pair;
use crate::workload::Workload;

fn main() -> Result<()> {
    let count = std::env::args().nth(1).context("usage: ofi-xdp-engine-paths COUNT")?;
    let work = Workload::Singles.run(&mut Pair::new()?, count.parse()?)?;
    println!("{} {} {}", work.operations, work.data_packets, work.acks);
    Ok(())
}

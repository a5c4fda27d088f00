// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `threads`: threads with a context each, beside as many with endpoints of their own.
//!
//! In: the program `threads`. Out: records of the messages a second of all threads together. All
//! endpoints are in one process, over the loopback interface, so the suite needs no privilege. The
//! two forms are measured in turn. Bound: the rounds of the program.

use std::time::Duration;

use anyhow::Context;
use ofi_xdp_bench::report::ThreadRates;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::{interrupt, paths};

use crate::measure::{Candidate, LinkUse};
use crate::report::Record;

/// The name of the suite.
pub const THREADS: &str = "threads";
/// Numbers of threads.
const COUNTS: [u32; 3] = [1, 2, 4];
/// The objects of a thread.
const FORMS: [&str; 2] = ["contexts", "endpoints"];
/// Bytes of a message.
const LEN: usize = 8;
/// Time limit of the program.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Measures each number of threads in both forms.
///
/// # Errors
/// When the program fails, or has not been built.
pub fn threads(quick: bool) -> anyhow::Result<Vec<Record>> {
    let program = paths::program("threads")?;
    let rounds = if quick { 2 } else { 6 };
    let who = Candidate::xdp(XdpMode::Udp).on(LinkUse::Loopback);
    let mut records = Vec::new();
    for count in COUNTS {
        let mut rates = FORMS.map(|_| Vec::new());
        for _ in 0..rounds {
            for (form, rates) in FORMS.iter().zip(&mut rates) {
                interrupt::check()?;
                let run = Program::new(&program)
                    .args(["--local", "127.0.0.1", "--threads", &count.to_string()])
                    .args(["--form", form, "--rounds", "2"])
                    .envs(who.variables(Some("lo"))?);
                let output = run.run(TIMEOUT)?.success()?;
                let measured: ThreadRates = serde_json::from_str(&output.stdout)
                    .context("the report of the program is not understood")?;
                rates.extend(measured.message_rate);
            }
        }
        for (form, rates) in FORMS.iter().zip(&rates) {
            let key = (who.peer, who.mode.as_str());
            let record = Record::plain(THREADS, key, LEN, "message_rate", rates);
            records.extend(record.map(|record| Record {
                operation: Some(format!("{count} {form}")),
                link: Some(String::from("one host")),
                ..record.in_unit("1/s")
            }));
        }
    }
    Ok(records)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `matching`: a message among few and many posted receives, or stored messages.
//!
//! In: the program `matching`. Out: records of the time of a message. Both endpoints are in one
//! process, over the loopback interface, so the suite needs no privilege. The peer is `tcp` with
//! tagged messages. Bound: the rounds of the program.

use std::time::Duration;

use anyhow::Context;
use ofi_xdp_bench::report::Matching;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::{interrupt, paths};

use crate::measure::{Candidate, LinkUse};
use crate::report::Record;

/// The name of the suite.
pub const MATCHING: &str = "matching";
/// The metric of its records.
pub(super) const MESSAGE_TIME: &str = "message_time";
/// Posted receives.
pub(super) const POSTED: [u32; 4] = [10, 100, 1000, 10_000];
/// Stored messages. The storage of an endpoint has 6,144 slots for messages of 8 bytes.
pub(super) const STORED: [u32; 4] = [10, 100, 1000, 6000];
/// Bytes of a message.
const LEN: usize = 8;
/// Time limit of the program.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What waits, as in a record.
pub(super) fn waiting(depth: u32, stored: bool) -> String {
    format!("{depth} {}", if stored { "stored" } else { "posted" })
}

/// Measures a message among each number of receives and messages.
///
/// # Errors
/// When the program fails, or has not been built.
pub fn matching(quick: bool) -> anyhow::Result<Vec<Record>> {
    let program = paths::program("matching")?;
    let (messages, rounds) = if quick { ("2000", "3") } else { ("10000", "5") };
    let mut records = Vec::new();
    for (depths, stored) in [(POSTED, false), (STORED, true)] {
        for depth in depths {
            for who in [Candidate::xdp(XdpMode::Udp), Candidate::provider("tcp;ofi_rxm")] {
                interrupt::check()?;
                let who = who.on(LinkUse::Loopback);
                let mut program = Program::new(&program)
                    .args(["--provider", who.peer, "--local", "127.0.0.1"])
                    .args(["--depth", &depth.to_string()])
                    .args(["--messages", messages, "--rounds", rounds])
                    .envs(who.variables(Some("lo"))?);
                if stored {
                    program = program.arg("--stored");
                }
                let output = program.run(TIMEOUT)?.success()?;
                let measured: Matching = serde_json::from_str(&output.stdout)
                    .context("the report of the program is not understood")?;
                let key = (who.peer, who.mode.as_str());
                let record = Record::plain(MATCHING, key, LEN, MESSAGE_TIME, &measured.message_ns);
                records.extend(record.map(|record| Record {
                    operation: Some(waiting(depth, stored)),
                    link: Some(String::from("one host")),
                    ..record.in_unit("ns")
                }));
            }
        }
    }
    Ok(records)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Age: four hosts with verified traffic under faults, for minutes or hours, through the unmodified
//! libfabric.
//!
//! ```text
//!   host 0      host 1      host 2      host 3        each on a bridge
//!   resident ─▶ resident ─▶ resident ─▶ resident ─▶ (host 0)    requests, for the whole run
//!   door        door        door        door         answers to connections (`FI_EP_MSG`)
//!   visitor     visitor     visitor     visitor      one after the other; half of them are killed
//! ```
//!
//! A resident (`resident.rs`) lives as long as the run: it sends requests to the next resident,
//! and answers those of all others. A door (`door.rs`) listens for connections, and answers
//! requests on them. Visitors (`visitor.rs`) come and go at a few addresses.
//! Meanwhile interfaces go down, XDP programs are detached and MTUs change (`faults.rs`). Every
//! byte is verified. The residents' memory, descriptors, threads and connections are sampled
//! (`sample.rs`) and must not grow after the first quarter of the run (`verdict.rs`). In the end
//! the doors must keep nothing (`doors.rs`).
//!
//! In: the length of the run, a seed. Out: a table of the quarters, and the exit code. Caller:
//! `cargo xtask age`, and its stage with three minutes. Bounds: the length of the run, and
//! [`request::AWAY_MAX`] for each request.

mod door;
mod doors;
mod faults;
mod hosts;
mod offer;
mod payload;
mod request;
mod resident;
mod run;
mod sample;
mod slots;
mod verdict;
mod visitor;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Make four hosts, and run residents, visitors and faults on them; as root
    Run {
        /// Length of the run
        #[arg(long, default_value_t = 3)]
        minutes: u64,
        /// Order of faults and kills; the interleaving of the programs is another each time
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The resident of a host: print `resident KEY:BASE`, run until SIGTERM, print `verified`,
    /// answer until killed
    Resident { host: u8 },
    /// The door of a host: print `door`, answer until SIGTERM, print `closed` when the last
    /// connection has ended, run until killed
    Door { host: u8 },
    /// A visitor of a host, for the residents with these regions
    Visitor { host: u8, port: u16, seed: u64, residents: Vec<String> },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Run { minutes, seed } => run::run(minutes, seed),
        Task::Resident { host } => resident::run(host),
        Task::Door { host } => door::run(host),
        Task::Visitor { host, port, seed, residents } => visitor::run(host, port, seed, &residents),
    }
}

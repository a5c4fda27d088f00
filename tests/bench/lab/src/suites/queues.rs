// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `queues`: the share of packets that come by AF_XDP, on cards of several queues.
//!
//! Two hosts with cards in software. Each endpoint of one host exchanges small messages with all
//! endpoints of the other. A card hashes addresses and ports (`sdfn`), or addresses alone (`sd`).
//! Out: for each cell the share of all endpoints and of the one with the least, from the statistics
//! pages, after the first round trips. Bounds: [`Cell`]s of the list, [`MEASURED`] each.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_core::rss::HashFields;
use ofi_xdp_statistics::{FOLDER, read_all};

use crate::report::Record;
use crate::table::{cells as table_cells, new_table};
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::relay::{PathOptions, Spread};
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};

/// The suite's name.
pub const QUEUES: &str = "queues";
/// The metrics: the share of all packets, and that of the endpoint with the least.
const SHARE: &str = "xdp_share";
const LEAST: &str = "least_xdp_share";
/// The port of the first endpoint of each host.
const PORT: u16 = 7500;
/// Time from the start of the last program to the first sample. A card's hash is not known here, so
/// some source ports for each queue are tried, one each round trip; a round trip between 32
/// processes on two cores takes milliseconds.
const SETTLED: Duration = Duration::from_secs(8);
/// Time between the samples.
const MEASURED: Duration = Duration::from_secs(2);
/// Time limit for a program to begin; the first ones wait for the last.
const START: Duration = Duration::from_secs(15);
const PEER_TIMEOUT_MS: &str = "60000";

/// How endpoints find the packets of their queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Means {
    /// The sender's source port, on a card that hashes ports.
    SourcePorts,
    /// None, on such a card: by chance.
    Chance,
    /// A socket on each queue, on a card that hashes addresses alone.
    AllQueues,
}

impl Means {
    const fn name(self) -> &'static str {
        match self {
            Self::SourcePorts => "sdfn, source ports",
            Self::Chance => "sdfn, own port",
            Self::AllQueues => "sd, all queues",
        }
    }

    const fn fields(self) -> HashFields {
        match self {
            Self::SourcePorts | Self::Chance => HashFields::Ports,
            Self::AllQueues => HashFields::Addresses,
        }
    }

    const fn variable(self) -> (&'static str, &'static str) {
        match self {
            Self::SourcePorts => ("FI_XDP_ENTROPY", "yes"),
            Self::Chance => ("FI_XDP_ENTROPY", "no"),
            Self::AllQueues => ("FI_XDP_QUEUES", "all"),
        }
    }
}

/// A measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    means: Means,
    /// Queues of each card.
    queues: u32,
    /// Endpoints of each host.
    endpoints: u16,
}

/// All cells, in the order of their measurement.
fn cells(quick: bool) -> Vec<Cell> {
    let (queues, endpoints): (&[u32], &[u16]) =
        if quick { (&[1, 4], &[1, 2]) } else { (&[1, 4, 16, 64], &[1, 2, 8, 16]) };
    let mut cells = Vec::new();
    for &queues in queues {
        let of = |means, endpoints| Cell { means, queues, endpoints };
        for &endpoints in endpoints {
            cells.push(of(Means::SourcePorts, endpoints));
            if queues > 1 {
                cells.push(of(Means::Chance, endpoints));
            }
        }
        if queues > 1 {
            cells.push(of(Means::AllQueues, 1));
        }
    }
    cells
}

/// Packets that an endpoint has received: by AF_XDP, and all.
type Received = (u64, u64);

/// Measures all cells.
///
/// # Errors
/// Without privilege, without TAP devices, or when a program fails.
pub fn queues(quick: bool) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    for cell in cells(quick) {
        interrupt::check()?;
        let (all, least) = measure(cell)?;
        for (metric, share) in [(SHARE, all), (LEAST, least)] {
            let record = Record::plain(QUEUES, ("xdp", cell.means.name()), 0, metric, &[share]);
            records.extend(record.map(|record| Record {
                link: Some(format!("{} queues", cell.queues)),
                operation: Some(format!("{} endpoints", cell.endpoints)),
                ..record
            }));
        }
    }
    Ok(records)
}

/// The share of all packets that come by AF_XDP, and that of the endpoint with the least.
fn measure(cell: Cell) -> anyhow::Result<(f64, f64)> {
    let hosts = TwoHosts::new(&[LinkOptions {
        queues: cell.queues,
        relay: Some(PathOptions::default()),
        spread: Spread::Hash(cell.means.fields()),
        ..LinkOptions::default()
    }])?;
    let mut programs = Vec::new();
    for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
        for number in 0..cell.endpoints {
            programs.push(start(&hosts, (side, other), cell, number)?);
        }
    }
    for program in &mut programs {
        program.wait_for("open", START)?;
    }
    std::thread::sleep(SETTLED);
    let before = received(&mut programs)?;
    std::thread::sleep(MEASURED);
    let after = received(&mut programs)?;
    let (mut least, mut sum) = (1.0_f64, (0, 0));
    for (before, after) in before.iter().zip(&after) {
        let (xdp, all) = (after.0 - before.0, after.1 - before.1);
        ensure!(all > 0, "{cell:?}: an endpoint receives nothing");
        least = least.min(xdp as f64 / all as f64);
        sum = (sum.0 + xdp, sum.1 + all);
    }
    Ok((sum.0 as f64 / sum.1 as f64, least))
}

/// Starts endpoint `number` of host `side`, whose peers are all endpoints of the `other` host.
fn start(
    hosts: &TwoHosts,
    (side, other): (Side, Side),
    cell: Cell,
    number: u16,
) -> anyhow::Result<RunningProgram> {
    let provider = paths::provider()?.into_os_string();
    let address = |side, number| format!("{}:{}", hosts.link(0).v4(side), PORT + number);
    let mut arguments = vec!["--local".to_owned(), address(side, number)];
    for peer in 0..cell.endpoints {
        arguments.extend(["--peer".to_owned(), address(other, peer)]);
    }
    let program = Program::new(paths::program("all-to-all")?).inside(hosts.host(side))?;
    let program = program.envs([("FI_PROVIDER_PATH", &provider)]);
    let program = program.envs([("FI_PROVIDER", "xdp"), ("FI_XDP_PEER_TIMEOUT", PEER_TIMEOUT_MS)]);
    let variables = [("FI_XDP_MODE", "skb"), cell.means.variable()];
    program.envs(variables).args(arguments).start()
}

/// What each endpoint has received so far.
fn received(programs: &mut [RunningProgram]) -> anyhow::Result<Vec<Received>> {
    for program in &mut *programs {
        ensure!(program.is_running()?, "an endpoint has ended: {}", program.stderr());
    }
    let pages = interrupt::wait_until("a page of each endpoint", START, || {
        let pages = read_all(Path::new(FOLDER))?;
        let of = |program: &RunningProgram| {
            let pid = program.pid().as_raw().cast_unsigned();
            pages.iter().find(|page| page.pid == pid).cloned()
        };
        Ok(programs.iter().map(of).collect::<Option<Vec<_>>>())
    })?;
    let count = |page: &ofi_xdp_statistics::Page, name: &str| {
        page.counters.get(name).copied().context("a page without counters")
    };
    pages
        .iter()
        .map(|page| {
            let xdp = count(page, "xsk_received")?;
            Ok((xdp, xdp + count(page, "udp_received")?))
        })
        .collect()
}

/// A row for each cell: the shares in percent.
#[must_use]
pub fn queues_table(records: &[Record]) -> String {
    let mut table = new_table(&["", "queues", "endpoints", "% by AF_XDP", "the least"]);
    for record in records.iter().filter(|one| one.suite == QUEUES && one.metric == SHARE) {
        let same = |one: &&Record| {
            (&one.mode, &one.link, &one.operation)
                == (&record.mode, &record.link, &record.operation)
        };
        let least = records.iter().filter(|one| one.metric == LEAST).find(same);
        let number = |text: &Option<String>| {
            let first = text.as_deref().and_then(|text| text.split(' ').next());
            first.unwrap_or_default().to_owned()
        };
        let percent = |record: &Record| format!("{:.2}", 100.0 * record.median);
        table.add_row(table_cells([
            record.mode.clone(),
            number(&record.link),
            number(&record.operation),
            percent(record),
            least.map(percent).unwrap_or_default(),
        ]));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_measured_once_and_the_quick_ones_are_some_of_all() {
        let all = cells(false);
        for (number, cell) in all.iter().enumerate() {
            assert!(!all[..number].contains(cell), "{cell:?}");
        }
        assert!(cells(true).iter().all(|cell| all.contains(cell)));
    }

    #[test]
    fn a_row_has_both_shares_of_its_cell() {
        let record = |metric, queues: &str, share| Record {
            link: Some(format!("{queues} queues")),
            operation: Some("2 endpoints".to_owned()),
            ..Record::plain(QUEUES, ("xdp", "sd, all queues"), 0, metric, &[share]).unwrap()
        };
        let text = queues_table(&[
            record(SHARE, "4", 0.9987),
            record(LEAST, "16", 0.1),
            record(LEAST, "4", 0.25),
        ]);
        let row = text.lines().find(|line| line.contains("sd, all")).unwrap();
        for part in ["99.87", "25.00", " 4 ", " 2 "] {
            assert!(row.contains(part), "{text}");
        }
    }
}

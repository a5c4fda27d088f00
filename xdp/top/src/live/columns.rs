// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of the table of endpoints and of that of peers.
//!
//! In: rows of the model. Out: text of cells. Callers: `app.rs`, and the pages with a table. Bound:
//! the width of each column.

use std::cmp::Ordering;

use super::model::{EndpointRow, PeerRow};
use super::table::{Column, Item, Kind};
use crate::format::{packets, short, time};
use crate::plain::state;
use crate::rates::KERNEL;

/// The column of endpoints that they are sorted by at first: packets out.
pub(super) const ENDPOINTS_BY: usize = 6;
/// The column of peers that they are sorted by at first: packets out.
pub(super) const PEERS_BY: usize = 1;

impl Item for EndpointRow {
    fn key(&self) -> &str {
        &self.key
    }

    fn words(&self) -> Vec<String> {
        let page = &self.page;
        let texts = [&page.process, &self.user, &page.endpoint, &page.tier, &page.interface];
        texts.into_iter().cloned().chain([page.pid.to_string()]).collect()
    }
}

impl Item for PeerRow {
    fn key(&self) -> &str {
        &self.line.address
    }

    fn words(&self) -> Vec<String> {
        vec![self.line.address.clone(), state(&self.line).to_owned()]
    }
}

/// The tier in a word.
pub(super) fn tier(endpoint: &EndpointRow) -> String {
    match endpoint.page.tier.as_str() {
        KERNEL => "udp".to_owned(),
        other => other.strip_prefix("AF_XDP ").unwrap_or(other).to_owned(),
    }
}

/// Interface and queues.
fn path(endpoint: &EndpointRow) -> String {
    let page = &endpoint.page;
    match page.queues.as_str() {
        "" => page.interface.clone(),
        queues => format!("{}:{queues}", page.interface),
    }
}

/// A share in percent.
pub(super) fn share(share: Option<f64>) -> String {
    share.map_or_else(|| String::from("-"), |share| format!("{share:.0}"))
}

const fn column<T>(
    title: &'static str,
    width: (u16, u16),
    rank: u8,
    kind: Kind,
    text: fn(&T) -> String,
    compare: fn(&T, &T) -> Ordering,
) -> Column<T> {
    Column { title, width, rank, kind, text, compare }
}

/// The columns of endpoints.
pub(super) const ENDPOINTS: [Column<EndpointRow>; 13] = [
    column(
        "PROCESS",
        (11, 13),
        0,
        Kind::Text,
        |e| e.page.process.clone(),
        |a, b| a.page.process.cmp(&b.page.process),
    ),
    column(
        "PID",
        (7, 3),
        1,
        Kind::Figure,
        |e| e.page.pid.to_string(),
        |a, b| a.page.pid.cmp(&b.page.pid),
    ),
    column("USER", (8, 8), 10, Kind::Text, |e| e.user.clone(), |a, b| a.user.cmp(&b.user)),
    column("ADDRESS", (16, 31), 4, Kind::Address, |e| e.page.endpoint.clone(), {
        |a, b| a.page.endpoint.cmp(&b.page.endpoint)
    }),
    column("TIER", (8, 0), 5, Kind::Text, tier, |a, b| a.page.tier.cmp(&b.page.tier)),
    column("INTERFACE", (10, 14), 11, Kind::Text, path, |a, b| path(a).cmp(&path(b))),
    column(
        "OUT/s",
        (6, 1),
        2,
        Kind::Figure,
        |e| short(e.rates.sent),
        |a, b| a.rates.sent.total_cmp(&b.rates.sent),
    ),
    column("IN/s", (6, 1), 3, Kind::Figure, |e| short(e.rates.received), {
        |a, b| a.rates.received.total_cmp(&b.rates.received)
    }),
    column("MSG/s", (6, 1), 9, Kind::Figure, |e| short(e.rates.messages), {
        |a, b| a.rates.messages.total_cmp(&b.rates.messages)
    }),
    column("BYTES/s", (7, 0), 6, Kind::Figure, |e| short(e.rates.bytes), {
        |a, b| a.rates.bytes.total_cmp(&b.rates.bytes)
    }),
    column("XDP%", (4, 0), 7, Kind::Figure, |e| share(e.rates.xdp_share), {
        |a, b| {
            let share = |one: &EndpointRow| one.rates.xdp_share.unwrap_or(-1.0);
            share(a).total_cmp(&share(b))
        }
    }),
    column("RETR/s", (6, 0), 8, Kind::Figure, |e| short(e.rates.retransmitted), {
        |a, b| a.rates.retransmitted.total_cmp(&b.rates.retransmitted)
    }),
    column("PEERS", (5, 2), 12, Kind::Figure, |e| e.page.connections.to_string(), {
        |a, b| a.page.connections.cmp(&b.page.connections)
    }),
];

/// The columns of peers.
pub(super) const PEERS: [Column<PeerRow>; 9] = [
    column(
        "PEER",
        (21, 26),
        0,
        Kind::Address,
        |p| p.line.address.clone(),
        |a, b| a.line.address.cmp(&b.line.address),
    ),
    column(
        "OUT/s",
        (6, 1),
        1,
        Kind::Figure,
        |p| short(p.rates.sent),
        |a, b| a.rates.sent.total_cmp(&b.rates.sent),
    ),
    column(
        "IN/s",
        (6, 1),
        2,
        Kind::Figure,
        |p| short(p.rates.received),
        |a, b| a.rates.received.total_cmp(&b.rates.received),
    ),
    column(
        "RTT",
        (8, 0),
        3,
        Kind::Figure,
        |p| time(p.line.round_trip_ns),
        |a, b| a.line.round_trip_ns.cmp(&b.line.round_trip_ns),
    ),
    column("WINDOW", (6, 0), 4, Kind::Figure, |p| packets(p.line.congestion_window), {
        |a, b| a.line.congestion_window.total_cmp(&b.line.congestion_window)
    }),
    column("FLIGHT", (6, 0), 5, Kind::Figure, |p| short(p.line.in_flight.into()), {
        |a, b| a.line.in_flight.cmp(&b.line.in_flight)
    }),
    column(
        "LOST",
        (5, 0),
        6,
        Kind::Figure,
        |p| short(p.line.lost.into()),
        |a, b| a.line.lost.cmp(&b.line.lost),
    ),
    column("RETR", (5, 1), 7, Kind::Figure, |p| short(p.line.retransmitted.into()), {
        |a, b| a.line.retransmitted.cmp(&b.line.retransmitted)
    }),
    column(
        "STATE",
        (6, 4),
        8,
        Kind::Text,
        |p| state(&p.line).to_owned(),
        |a, b| state(&a.line).cmp(state(&b.line)),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sort_is_by_packets_out() {
        assert_eq!((ENDPOINTS[ENDPOINTS_BY].title, PEERS[PEERS_BY].title), ("OUT/s", "OUT/s"));
    }

    #[test]
    fn tiers_have_a_word() {
        let of = |tier: &str| {
            let mut endpoint = EndpointRow::default();
            endpoint.page.tier = tier.to_owned();
            super::tier(&endpoint)
        };
        let words = ["kernel UDP", "AF_XDP zerocopy", "else"].map(of);
        assert_eq!(words, ["udp", "zerocopy", "else"]);
    }
}

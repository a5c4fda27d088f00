// SPDX-License-Identifier: MIT OR Apache-2.0
//! The difference between two reads of the pages, as plain text of 80 columns.
//!
//! In: filtered pages before and now. Out: text for a file, a pipe, or a terminal without
//! commands. Caller: `main.rs`. Bound: [`PEERS_SHOWN`] peers of each endpoint.

use std::fmt::Write as _;
use std::io::Write as _;

use ofi_xdp_statistics::{Page, PeerLine};

use crate::format::{flowed, packets, short, time, wrapped};
use crate::rates::{Change, KERNEL, PeerRates, earlier};

/// Number of peers shown of each endpoint: those with the most packets.
const PEERS_SHOWN: usize = 16;
/// Length of a line. A longer line would go on at the edge of the terminal, and text that a page
/// brings could look like the row of another endpoint there.
const LINE_MAX: usize = 79;
/// Indentation of the lines below an endpoint's first one.
const INDENT: usize = 2;
/// Length of an address that has its figures beside it; those of a longer one are below it.
const ADDRESS_MAX: usize = 21;

/// The table of changes from `before` to `now`, which were read `elapsed` seconds apart.
pub(crate) fn text(before: &[Page], now: &[Page], elapsed: f64) -> String {
    if now.is_empty() {
        return String::from("no process on this machine has an endpoint of the xdp provider\n");
    }
    let mut text = String::new();
    for page in now {
        endpoint(&mut text, &Change::new(earlier(before, page), page, elapsed), page);
        text.push('\n');
    }
    text
}

/// Prints `text`. Returns whether the output is open.
pub(crate) fn show(text: &str) -> bool {
    let shown = write!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
    // A closed output is not a failure.
    shown.is_ok()
}

fn endpoint(text: &mut String, change: &Change<'_>, page: &Page) {
    let path = format!("{} on {}{}, MTU {}", page.tier, page.interface, queues(page), page.mtu);
    let process = format!("{} ({}, user {})", page.process, page.pid, page.owner);
    let first = flowed(&[process, page.endpoint.clone(), path], LINE_MAX - INDENT);
    for (number, line) in first.iter().enumerate() {
        let _ =
            writeln!(text, "{:indent$}{line}", "", indent = if number > 0 { INDENT } else { 0 });
    }
    if page.tier == KERNEL && !page.why_not_better.is_empty() {
        words(text, &format!("not better because: {}", page.why_not_better));
    }
    rates(text, change, page);
    if !page.advice.is_empty() {
        words(text, &format!("for more by AF_XDP: {}", page.advice));
    }
    for (title, list) in [("dropped", &page.drops), ("XDP program", &page.verdicts)] {
        let some: Vec<String> = list
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(what, count)| format!("{what} {count}"))
            .collect();
        if !some.is_empty() {
            words(text, &format!("{title}: {}", some.join(", ")));
        }
    }
    peers(text, change);
}

/// The queues of a page, with a space before them; empty without a queue.
fn queues(page: &Page) -> String {
    match page.queues.as_str() {
        "" => String::new(),
        several if several.contains([',', '-']) => format!(" queues {several}"),
        queue => format!(" queue {queue}"),
    }
}

fn rates(text: &mut String, change: &Change<'_>, page: &Page) {
    let sum = |one, other| short(change.rate(one) + change.rate(other));
    let rate = |name| short(change.rate(name));
    items(
        text,
        &[
            format!("packets/s  out {}", rate("packets_sent")),
            format!("in {}", rate("packets_received")),
            format!("AF_XDP {}", sum("xsk_transmitted", "xsk_received")),
            format!("kernel {}", sum("udp_transmitted", "udp_received")),
            format!("placed {}B/s", rate("bytes_placed")),
            format!("messages/s {}", sum("messages_sent", "messages_accepted")),
        ],
    );
    let total = |name| change.total(name);
    items(
        text,
        &[
            format!("retransmitted {} ({}/s)", total("retransmissions"), rate("retransmissions")),
            format!("time-outs {}", total("timeouts")),
            format!("tail probes {}", total("tail_probes")),
            format!("not ready {}", total("receiver_not_ready")),
            format!("peers {}", page.connections),
        ],
    );
    if let Some(share) = change.xdp_share() {
        let others = rate("other_queue");
        items(text, &[format!("received by AF_XDP {share:.1} %  by other queues {others}/s")]);
    }
}

/// Writes items in indented lines.
fn items(text: &mut String, items: &[String]) {
    for line in flowed(items, LINE_MAX - INDENT) {
        let _ = writeln!(text, "{:INDENT$}{line}", "");
    }
}

/// Writes a sentence in indented lines.
fn words(text: &mut String, words: &str) {
    for line in wrapped(words, LINE_MAX - INDENT) {
        let _ = writeln!(text, "{:INDENT$}{line}", "");
    }
}

fn peers(text: &mut String, change: &Change<'_>) {
    let mut peers = change.peers();
    if peers.is_empty() {
        return;
    }
    let moved = |rates: &PeerRates| rates.sent + rates.received;
    peers.sort_by(|(_, one), (_, other)| moved(other).total_cmp(&moved(one)));
    let head = ["out/s", "in/s", "RTT", "window", "flight", "lost", "retr", ""];
    row(text, "peer", &head.map(String::from));
    for (peer, rates) in peers.iter().take(PEERS_SHOWN) {
        let cells = [
            short(rates.sent),
            short(rates.received),
            time(peer.round_trip_ns),
            packets(peer.congestion_window),
            short(peer.in_flight.into()),
            short(peer.lost.into()),
            short(peer.retransmitted.into()),
            String::from(state(peer)),
        ];
        row(text, &peer.address, &cells);
    }
}

/// A row of the table of peers.
fn row(text: &mut String, address: &str, cells: &[String; 8]) {
    let [sent, received, time, window, flight, lost, retransmitted, state] = cells;
    let mut address = address;
    if address.len() > ADDRESS_MAX {
        let _ = writeln!(text, "{:INDENT$}{address}", "");
        address = "";
    }
    let line = format!(
        "{:INDENT$}{address:<ADDRESS_MAX$} {sent:>6} {received:>6} {time:>8} {window:>6} \
         {flight:>6} {lost:>5} {retransmitted:>5} {state}",
        ""
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

/// The state of a connection, in a word if it is not the usual one.
pub(crate) const fn state(peer: &PeerLine) -> &'static str {
    match (peer.established, peer.timeouts) {
        (false, _) => "begins",
        (true, 0) => "",
        (true, _) => "silent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(sent: u64, seconds: u64) -> Page {
        let mut page = Page {
            pid: 1,
            endpoint: "198.18.0.1:7".to_owned(),
            tier: "AF_XDP skb".to_owned(),
            written_at_ns: seconds * 1_000_000_000,
            ..Page::default()
        };
        page.counters.insert("packets_sent".to_owned(), sent);
        page.drops.insert("wrong checksum".to_owned(), 5);
        let address = "198.18.0.2:9".to_owned();
        let next_packet = (sent as u32).wrapping_sub(10);
        page.peers.push(PeerLine {
            address,
            next_packet,
            established: true,
            ..PeerLine::default()
        });
        page
    }

    #[test]
    fn rates_are_differences_over_time() {
        let text = text(&[page(1000, 1)], &[page(9000, 3)], 2.0);
        assert!(text.contains("out 4.0k") && text.contains("wrong checksum 5"), "{text}");
        assert!(text.contains("198.18.0.2:9"), "{text}");
    }

    #[test]
    fn an_endpoint_shows_the_share_of_af_xdp_and_what_raises_it() {
        let with = |xsk: u64, udp: u64, seconds| {
            let mut page = page(1, seconds);
            page.counters.insert("xsk_received".to_owned(), xsk);
            page.counters.insert("udp_received".to_owned(), udp);
            page.counters.insert("other_queue".to_owned(), udp);
            page
        };
        let (before, mut now) = (with(1000, 0, 1), with(1750, 250, 2));
        let queues = "0-3".to_owned();
        now = Page { advice: "`ethtool -N`".to_owned(), queues, ..now };
        let shown = text(&[before], &[now], 1.0);
        assert!(shown.contains("received by AF_XDP 75.0 %  by other queues 250/s"), "{shown}");
        assert!(shown.contains("for more by AF_XDP: `ethtool -N`"), "{shown}");
        assert!(shown.contains(" queues 0-3, MTU"), "{shown}");
        let none = text(&[], &[page(1, 1)], 1.0);
        assert!(!none.contains("received by AF_XDP"), "{none}");
    }

    #[test]
    fn the_lowest_tier_says_why() {
        let mut page = Page { why_not_better: "AF_XDP was lost".to_owned(), ..page(1, 1) };
        assert!(
            !text(&[], &[page.clone()], 1.0).contains("AF_XDP was lost"),
            "a veth has no better"
        );
        page.tier = KERNEL.to_owned();
        assert!(text(&[], &[page], 1.0).contains("not better because: AF_XDP was lost"));
    }

    #[test]
    fn text_of_a_page_begins_no_row() {
        let page = Page { tier: KERNEL.to_owned(), why_not_better: "x".repeat(500), ..page(1, 1) };
        let text = text(&[], &[page], 1.0);
        let long = text.lines().filter(|line| line.contains("xxx"));
        assert!(long.clone().count() > 5 && long.clone().all(|line| line.len() < 80), "{text}");
        assert!(long.clone().all(|line| line.starts_with("  ")), "{text}");
    }

    #[test]
    fn without_an_earlier_page_there_is_no_rate() {
        assert!(text(&[], &[page(1000, 1)], 1.0).contains("out 0 "));
        assert!(text(&[page(1000, 1)], &[], 1.0).starts_with("no process"));
        let same = [page(7, 7)];
        assert!(text(&same, &same, 1.0).contains("out 0 "));
    }

    #[test]
    fn a_page_is_shown_with_the_owner_of_its_file() {
        let page = Page { process: "init".to_owned(), owner: 1001, ..page(1, 1) };
        assert!(
            text(&[], &[page], 1.0).starts_with("init (1, user 1001)  198.18.0.1:7  AF_XDP skb")
        );
    }

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let long = |length: usize| "x".repeat(length);
        let mut page = Page {
            process: long(24),
            pid: u32::MAX,
            owner: u32::MAX,
            endpoint: long(64),
            interface: long(24),
            tier: long(24),
            queues: long(512),
            advice: "a b ".repeat(128),
            mtu: u32::MAX,
            connections: u32::MAX,
            ..page(u64::MAX, 9)
        };
        for name in ["retransmissions", "timeouts", "tail_probes", "receiver_not_ready"] {
            page.counters.insert(name.to_owned(), u64::MAX);
        }
        page.peers = (0..128)
            .map(|n| PeerLine {
                address: format!("[fd00:1111:2222:3333:4444:5555:6666:{n}]:65535"),
                round_trip_ns: u64::MAX,
                congestion_window: 1e300,
                in_flight: u32::MAX,
                lost: u32::MAX,
                retransmitted: u32::MAX,
                ..PeerLine::default()
            })
            .collect();
        let shown = text(&[], &[page], 1.0);
        assert!(shown.lines().all(|line| line.chars().count() < 80), "{shown}");
        assert_eq!(shown.matches("fd00:").count(), PEERS_SHOWN);
    }
}

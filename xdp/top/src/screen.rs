// SPDX-License-Identifier: MIT OR Apache-2.0
//! The difference between two reads of the pages, as a table.
//!
//! In: filtered pages before and now. Out: text for a terminal. Caller: `main.rs`. Bound:
//! [`PEERS_SHOWN`] peers of each endpoint.

use std::fmt::Write as _;
use std::io::Write as _;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use ofi_xdp_statistics::{Page, PeerLine};

/// Number of peers shown of each endpoint: those with the most packets.
const PEERS_SHOWN: usize = 16;
/// Length of a line of text that a page brings. A longer line would go on at the edge of the
/// terminal, and could look like the row of another endpoint there.
const LINE_MAX: usize = 76;
/// The lowest tier.
const KERNEL: &str = "kernel UDP";

/// The table of changes from `before` to `now`.
pub(crate) fn text(before: &[Page], now: &[Page]) -> String {
    if now.is_empty() {
        return String::from("no process on this machine has an endpoint of the xdp provider\n");
    }
    let mut text = String::new();
    for page in now {
        let same = |one: &&Page| (one.owner, &one.file) == (page.owner, &page.file);
        let earlier = before.iter().find(same);
        endpoint(&mut text, earlier, page);
        text.push('\n');
    }
    text
}

/// Prints `text`; with `again`, on a cleared terminal. Returns whether the output is open.
pub(crate) fn show(text: &str, again: bool) -> bool {
    // Cursor home, and erase below (ECMA-48 CUP, ED).
    let start = if again { "\u{1b}[H\u{1b}[J" } else { "" };
    let shown = write!(std::io::stdout(), "{start}{text}").and_then(|()| std::io::stdout().flush());
    // A closed output is not a failure.
    shown.is_ok()
}

fn endpoint(text: &mut String, before: Option<&Page>, page: &Page) {
    let seconds = before
        .map_or(0.0, |before| page.written_at_ns.saturating_sub(before.written_at_ns) as f64 / 1e9);
    let rate = |name: &str| {
        let of = |page: &Page| page.counters.get(name).copied().unwrap_or(0);
        let more = of(page).saturating_sub(before.map_or(0, of));
        // A page that was not written again means that nothing has happened.
        if seconds > 0.0 { more as f64 / seconds } else { 0.0 }
    };
    let queues = match page.queues.as_str() {
        "" => String::new(),
        several if several.contains([',', '-']) => format!(" queues {several}"),
        queue => format!(" queue {queue}"),
    };
    let total = |name: &str| page.counters.get(name).copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "{} ({}, user {})  {}  {} on {}{}, MTU {}",
        page.process,
        page.pid,
        page.owner,
        page.endpoint,
        page.tier,
        page.interface,
        queues,
        page.mtu
    );
    if page.tier == KERNEL && !page.why_not_better.is_empty() {
        indented(text, &format!("not better because: {}", page.why_not_better));
    }
    let _ = writeln!(
        text,
        "  packets/s  out {}  in {}  AF_XDP {}  kernel {}   placed {}B/s   messages/s {}",
        short(rate("packets_sent")),
        short(rate("packets_received")),
        short(rate("xsk_transmitted") + rate("xsk_received")),
        short(rate("udp_transmitted") + rate("udp_received")),
        short(rate("bytes_placed")),
        short(rate("messages_sent") + rate("messages_accepted")),
    );
    let _ = writeln!(
        text,
        "  retransmitted {} ({}/s)  time-outs {}  tail probes {}  not ready {}  peers {}",
        total("retransmissions"),
        short(rate("retransmissions")),
        total("timeouts"),
        total("tail_probes"),
        total("receiver_not_ready"),
        page.connections,
    );
    if let Some(share) = xdp_share(before, page) {
        let others = short(rate("other_queue"));
        let _ = writeln!(text, "  received by AF_XDP {share:.1} %  by other queues {others}/s");
    }
    if !page.advice.is_empty() {
        indented(text, &format!("for more by AF_XDP: {}", page.advice));
    }
    for (title, list) in [("dropped", &page.drops), ("XDP program", &page.verdicts)] {
        let some: Vec<String> = list
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(what, count)| format!("{what} {count}"))
            .collect();
        if !some.is_empty() {
            indented(text, &format!("{title}: {}", some.join(", ")));
        }
    }
    peers(text, before, page, seconds);
}

/// The part of packets that came by AF_XDP since `before`, in percent; `None` without AF_XDP, and
/// where none came.
fn xdp_share(before: Option<&Page>, page: &Page) -> Option<f64> {
    let more = |name: &str| {
        let of = |page: &Page| page.counters.get(name).copied().unwrap_or(0);
        of(page).saturating_sub(before.map_or(0, of)) as f64
    };
    let (xdp, kernel) = (more("xsk_received"), more("udp_received"));
    (page.tier != KERNEL && xdp + kernel > 0.0).then(|| 100.0 * xdp / (xdp + kernel))
}

/// Writes printable ASCII in indented lines.
fn indented(text: &mut String, words: &str) {
    for line in words.as_bytes().chunks(LINE_MAX) {
        let _ = writeln!(text, "  {}", String::from_utf8_lossy(line));
    }
}

fn peers(text: &mut String, before: Option<&Page>, page: &Page, seconds: f64) {
    if page.peers.is_empty() {
        return;
    }
    let moved = |peer: &PeerLine| {
        let old = before.and_then(|page| page.peers.iter().find(|one| one.address == peer.address));
        let since = |new: u32, old: Option<u32>| old.map_or(0, |old| new.wrapping_sub(old));
        let sent = since(peer.next_packet, old.map(|old| old.next_packet));
        (sent, since(peer.received, old.map(|old| old.received)))
    };
    let mut lines: Vec<(&PeerLine, (u32, u32))> =
        page.peers.iter().map(|peer| (peer, moved(peer))).collect();
    lines.sort_by_key(|(_, (sent, received))| {
        std::cmp::Reverse(u64::from(*sent) + u64::from(*received))
    });
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header([
        "  peer",
        "out/s",
        "in/s",
        "RTT",
        "window",
        "in flight",
        "lost",
        "retransmitted",
        "",
    ]);
    for (peer, (sent, received)) in lines.iter().take(PEERS_SHOWN) {
        let rate = |count: u32| short(f64::from(count) / seconds.max(1e-9));
        let state = match (peer.established, peer.timeouts) {
            (false, _) => "connecting",
            (true, 0) => "",
            (true, _) => "silent",
        };
        table.add_row([
            format!("  {}", peer.address),
            if seconds > 0.0 { rate(*sent) } else { String::from("0") },
            if seconds > 0.0 { rate(*received) } else { String::from("0") },
            format!("{:.1} µs", peer.round_trip_ns as f64 / 1e3),
            format!("{:.1}", peer.congestion_window),
            peer.in_flight.to_string(),
            peer.lost.to_string(),
            peer.retransmitted.to_string(),
            String::from(state),
        ]);
    }
    let _ = writeln!(text, "{table}");
}

/// A short form: `12345678` as `12.3M`.
fn short(value: f64) -> String {
    match value {
        1e9.. => format!("{:.2}G", value / 1e9),
        1e6.. => format!("{:.2}M", value / 1e6),
        1e3.. => format!("{:.1}k", value / 1e3),
        _ => format!("{value:.0}"),
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
        let text = text(&[page(1000, 1)], &[page(9000, 3)]);
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
        let shown = text(&[before], &[now]);
        assert!(shown.contains("received by AF_XDP 75.0 %  by other queues 250/s"), "{shown}");
        assert!(shown.contains("for more by AF_XDP: `ethtool -N`"), "{shown}");
        assert!(shown.contains(" queues 0-3, MTU"), "{shown}");
        let none = text(&[], &[page(1, 1)]);
        assert!(!none.contains("received by AF_XDP"), "{none}");
    }

    #[test]
    fn the_lowest_tier_says_why() {
        let mut page = Page { why_not_better: "AF_XDP was lost".to_owned(), ..page(1, 1) };
        assert!(!text(&[], &[page.clone()]).contains("AF_XDP was lost"), "a veth has no better");
        page.tier = KERNEL.to_owned();
        assert!(text(&[], &[page]).contains("not better because: AF_XDP was lost"));
    }

    #[test]
    fn text_of_a_page_begins_no_row() {
        let page = Page { tier: KERNEL.to_owned(), why_not_better: "x".repeat(500), ..page(1, 1) };
        let text = text(&[], &[page]);
        let long = text.lines().filter(|line| line.contains("xxx"));
        assert!(long.clone().count() > 5 && long.clone().all(|line| line.len() < 80), "{text}");
        assert!(long.clone().all(|line| line.starts_with("  ")), "{text}");
    }

    #[test]
    fn without_an_earlier_page_there_is_no_rate() {
        assert!(text(&[], &[page(1000, 1)]).contains("out 0 "));
        assert!(text(&[page(1000, 1)], &[]).starts_with("no process"));
        let same = [page(7, 7)];
        assert!(text(&same, &same).contains("out 0 "));
    }

    #[test]
    fn a_page_is_shown_with_the_owner_of_its_file() {
        let page = Page { process: "init".to_owned(), owner: 1001, ..page(1, 1) };
        assert!(text(&[], &[page]).starts_with("init (1, user 1001)  198.18.0.1:7  AF_XDP skb"));
    }

    #[test]
    fn a_page_of_another_file_is_no_earlier_page() {
        let forged = Page { file: "another".to_owned(), ..page(1000, 1) };
        assert!(text(&[forged], &[page(9000, 3)]).contains("out 0 "));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.0, 1500.0, 2.5e6, 3e9].map(short), ["1", "1.5k", "2.50M", "3.00G"]);
    }
}

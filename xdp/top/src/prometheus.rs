// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages as text for Prometheus (exposition format 0.0.4).
//!
//! In: filtered pages with valid names, each of another file. Out: text for the textfile collector
//! of the node exporter, or for an HTTP answer. Callers: `main.rs`, `serve.rs`. Bounds: the pages,
//! and [`PAGE_MAX`] bytes of text for each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ofi_xdp_statistics::Page;

use crate::meaning::meaning;

/// Maximum length of the text for one page. That of the provider's longest page, which has the most
/// peers with the longest addresses, is shorter. The memory of the unit `xdp-top.service` follows.
const PAGE_MAX: usize = 192 << 10;

/// All pages, with a family of samples for each quantity. Of a page with more text than
/// [`PAGE_MAX`] the last samples are left out.
pub(crate) fn text(pages: &[Page]) -> String {
    let mut families = Families::default();
    let mut cut = 0;
    for page in pages {
        families.left = Some(PAGE_MAX);
        // The file's name makes the label set of each sample unique. Prometheus refuses all samples
        // if one is repeated, and every user may write a page.
        let endpoint = [
            ("owner", page.owner.to_string()),
            ("file", page.file.clone()),
            ("pid", page.pid.to_string()),
            ("process", page.process.clone()),
            ("endpoint", page.endpoint.clone()),
        ];
        let mut info = endpoint.to_vec();
        info.extend([("tier", page.tier.clone()), ("interface", page.interface.clone())]);
        if !page.queues.is_empty() {
            info.push(("queues", page.queues.clone()));
        }
        families.add("info", "gauge", &info, 1.0);
        families.add("connections", "gauge", &endpoint, page.connections.into());
        for (name, value) in &page.counters {
            families.add(&format!("{name}_total"), "counter", &endpoint, *value as f64);
        }
        for (name, list, label) in [
            ("dropped_packets_total", &page.drops, "reason"),
            ("program_frames_total", &page.verdicts, "verdict"),
        ] {
            for (what, value) in list {
                let mut labels = endpoint.to_vec();
                labels.push((label, what.clone()));
                families.add(name, "counter", &labels, *value as f64);
            }
        }
        for peer in &page.peers {
            let mut labels = endpoint.to_vec();
            labels.push(("peer", peer.address.clone()));
            let seconds = peer.round_trip_ns as f64 / 1e9;
            families.add("peer_round_trip_seconds", "gauge", &labels, seconds);
            families.add("peer_window_packets", "gauge", &labels, peer.congestion_window);
            families.add("peer_packets_retransmitted", "gauge", &labels, peer.retransmitted.into());
            families.add("peer_packets_in_flight", "gauge", &labels, peer.in_flight.into());
        }
        cut += u32::from(families.left.is_none());
    }
    families.left = Some(PAGE_MAX);
    families.add("pages_cut", "gauge", &[], cut.into());
    families.text()
}

/// Samples by family. The format demands the samples of a family together, after its type.
#[derive(Debug, Default)]
struct Families {
    families: BTreeMap<String, String>,
    /// The bytes that the present page may add; `None` once it wanted more.
    left: Option<usize>,
}

impl Families {
    fn add(&mut self, name: &str, kind: &str, labels: &[(&str, String)], value: f64) {
        let Some(left) = self.left else { return };
        let mut text = String::new();
        if !self.families.contains_key(name) {
            let _ = writeln!(text, "# HELP ofi_xdp_{name} {}", meaning(name));
            let _ = writeln!(text, "# TYPE ofi_xdp_{name} {kind}");
        }
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escape(text))).collect();
        let _ = writeln!(text, "ofi_xdp_{name}{{{}}} {value}", labels.join(","));
        self.left = left.checked_sub(text.len());
        if self.left.is_some() {
            self.families.entry(name.to_owned()).or_default().push_str(&text);
        }
    }

    /// All families. Each is dropped once it is written: pages of many endpoints have long ones.
    fn text(self) -> String {
        let mut text = String::new();
        for samples in self.families.into_values() {
            text.push_str(&samples);
        }
        text
    }
}

/// A label's value, with backslash, quotation mark and line feed escaped.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_statistics::{PEERS_MAX, PeerLine};
    use std::collections::BTreeSet;

    #[test]
    fn each_family_has_its_type_once_and_its_samples_together() {
        let mut page = Page { pid: 7, process: "a \"b\"".to_owned(), ..Page::default() };
        page.owner = 1000;
        page.counters.insert("packets_sent".to_owned(), 12);
        page.drops.insert("wrong checksum".to_owned(), 3);
        page.peers.push(PeerLine { round_trip_ns: 2500, ..PeerLine::default() });
        let page = |file: &str| Page { file: file.to_owned(), ..page.clone() };
        let text = text(&[page("x"), page("y")]);
        let sent = |file| {
            let labels = format!(r#"owner="1000",file="{file}",pid="7",process="a \"b\"""#);
            format!("ofi_xdp_packets_sent_total{{{labels},endpoint=\"\"}} 12\n")
        };
        let family = format!("ofi_xdp_packets_sent_total counter\n{}{}", sent("x"), sent("y"));
        assert!(text.contains(&format!("# TYPE {family}")), "{text}");
        assert!(text.contains(r#"reason="wrong checksum"} 3"#), "{text}");
        assert!(text.contains(r#"peer=""} 0.0000025"#), "{text}");
        assert_eq!(text.matches("# TYPE ofi_xdp_info gauge").count(), 1);
    }

    /// Two users' pages that tell the same, as one of them may forge it.
    #[test]
    fn no_sample_is_repeated() {
        let mut page = Page { pid: 7, endpoint: "198.18.0.1:7".to_owned(), ..Page::default() };
        page.counters.insert("packets_sent".to_owned(), 12);
        page.peers.push(PeerLine::default());
        let forged = Page { file: "ofi-xdp-7-0-2".to_owned(), owner: 1001, ..page.clone() };
        let text = text(&[Page { file: "ofi-xdp-7-0-1".to_owned(), ..page }, forged]);
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| line.rsplit_once(' ')).map(|(sample, _)| sample);
        let samples: Vec<&str> = samples.collect();
        let different: std::collections::HashSet<&&str> = samples.iter().collect();
        assert_eq!((samples.len(), different.len()), (15, 15), "{text}");
    }

    /// A page with the longest text that passes the filter.
    fn forged(file: &str) -> Page {
        let word = |len| "\\".repeat(len);
        let list = |letter: &str| {
            let names = (0..128).map(|number| format!("{}{number:03}", letter.repeat(61)));
            names.map(|name| (name, u64::MAX)).collect()
        };
        let peer = PeerLine {
            address: "[1111:2222:3333:4444:5555:6666:7777:8888%4294967295]:65535".to_owned(),
            round_trip_ns: u64::MAX,
            congestion_window: f64::from(u32::MAX) / 65_536.0,
            retransmitted: u32::MAX,
            in_flight: u32::MAX,
            ..PeerLine::default()
        };
        Page {
            owner: u32::MAX,
            file: file.to_owned(),
            pid: u32::MAX,
            process: word(24),
            endpoint: word(64),
            tier: word(24),
            interface: word(24),
            queues: word(512),
            counters: list("x"),
            drops: list("\\"),
            verdicts: list("\\"),
            peers: vec![peer; PEERS_MAX],
            connections: u32::MAX,
            ..Page::default()
        }
    }

    #[test]
    fn the_text_of_a_page_is_bounded() {
        const COUNT: usize = 16;
        let page = |number| forged(&format!("{number:075}"));
        let pages: Vec<Page> = (0..COUNT).map(page).collect();
        let own = text(&[]).len() + 2;
        assert!(own < 200, "{own}");
        let text = text(&pages);
        assert!(text.len() <= COUNT * PAGE_MAX + own, "{}", text.len());
        assert!(text.contains(&format!("ofi_xdp_pages_cut{{}} {COUNT}\n")));
        assert_eq!(text.matches("\nofi_xdp_info{").count(), COUNT);
    }

    #[test]
    fn a_page_of_the_provider_is_not_cut() {
        let forged = forged("ofi-xdp-4194304-4294967295-4026531836-18446744073709551615");
        let reason = |number| (format!("a reason for which packets are dropped {number}"), 1 << 40);
        let page = Page {
            process: "fifteen letters".to_owned(),
            endpoint: forged.peers[0].address.clone(),
            tier: "AF_XDP zerocopy".to_owned(),
            interface: "fifteen letters".to_owned(),
            queues: "0-3,7".to_owned(),
            counters: full().counters,
            drops: (0..32).map(reason).collect(),
            verdicts: (0..16).map(reason).collect(),
            ..forged
        };
        let text = text(&[page]);
        assert!(text.contains("ofi_xdp_pages_cut{} 0\n"), "{}", text.len());
    }

    /// The names in `text` that begin like metrics.
    fn metrics(text: &str) -> BTreeSet<&str> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let names = text.split(|letter| !is_part(letter));
        names.filter(|name| name.starts_with("ofi_xdp_")).collect()
    }

    /// A page with each counter of the provider.
    fn full() -> Page {
        let mut page = Page { pid: 7, peers: vec![PeerLine::default()], ..Page::default() };
        for line in include_str!("../../../ffi/src/runtime/statistics.rs").lines() {
            let counter = line.trim().strip_prefix("(\"").and_then(|line| line.split_once('"'));
            page.counters.extend(counter.map(|(name, _)| (name.to_owned(), 1)));
        }
        page.drops.insert("wrong checksum".to_owned(), 3);
        page.verdicts.insert("pass".to_owned(), 3);
        page
    }

    #[test]
    fn the_dashboard_names_metrics_that_exist() {
        let dashboard = include_str!("../../../docs/grafana/xdp.json");
        let _: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let named = metrics(dashboard);
        let text = text(&[full()]);
        let written = metrics(&text);
        let missing: Vec<&&str> = named.difference(&written).collect();
        assert!(named.len() > 15 && missing.is_empty(), "{missing:?}");
    }
}

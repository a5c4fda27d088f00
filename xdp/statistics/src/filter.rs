// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter of pages: every user may write a page, and readers show it to others.
//!
//! Text on a terminal must be neither a command (control characters) nor look like another page
//! (line ends, marks of direction, texts of many lines). Names become names of metrics, and a
//! repeated name makes a reader refuse all pages. In: a page as its file has it. Out: a page with
//! printable ASCII only and names without repetition. Caller: [`crate::read_all`]. Bounds:
//! [`TEXT_MAX`], [`WORD_MAX`], [`NAME_MAX`], [`NAMES_MAX`], [`PEERS_MAX`].

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use crate::page::{PEERS_MAX, Page};

/// Maximum length of a sentence: the reason for a tier.
const TEXT_MAX: usize = 512;
/// Maximum length of a name in a list, and of an address with its port.
const NAME_MAX: usize = 64;
/// Maximum length of the name of a process, an interface, a driver or a tier.
const WORD_MAX: usize = 24;
/// Maximum number of names in a list.
const NAMES_MAX: usize = 128;

/// `page` without the text that its writer may not write.
pub(crate) fn filter(mut page: Page) -> Page {
    for word in [&mut page.process, &mut page.tier, &mut page.interface, &mut page.driver] {
        *word = printable(word, WORD_MAX);
    }
    page.endpoint = printable(&page.endpoint, NAME_MAX);
    page.queues = printable(&page.queues, TEXT_MAX);
    page.advice = printable(&page.advice, TEXT_MAX);
    page.why_not_better = printable(&page.why_not_better, TEXT_MAX);
    retain_names(&mut page.counters, is_identifier);
    retain_names(&mut page.drops, is_printable);
    retain_names(&mut page.verdicts, is_printable);
    let mut known = HashSet::new();
    page.peers.retain_mut(|peer| {
        let Ok(address) = peer.address.parse::<SocketAddr>() else { return false };
        peer.address = address.to_string();
        peer.congestion_window = window(peer.congestion_window);
        known.insert(address)
    });
    page.peers.truncate(PEERS_MAX);
    page
}

/// The window next to `packets` that the engine can have: a number of 32 bits, in parts of 65,536.
fn window(packets: f64) -> f64 {
    f64::from((packets * 65_536.0) as u32) / 65_536.0
}

/// The first `most` characters of `text`; those that are not printable ASCII become `?`.
fn printable(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if is_plain(c) { c } else { '?' }).collect()
}

/// Drops names that are not `allowed`. A changed name could repeat another one.
fn retain_names(list: &mut BTreeMap<String, u64>, allowed: fn(&str) -> bool) {
    let mut left = NAMES_MAX;
    list.retain(|name, _| {
        let kept = left > 0 && (1..=NAME_MAX).contains(&name.len()) && allowed(name);
        left -= usize::from(kept);
        kept
    });
}

/// Whether `name` can be a part of the name of a metric.
fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

fn is_printable(name: &str) -> bool {
    name.chars().all(is_plain)
}

const fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PeerLine;

    /// Line end, escape sequence, C1 control code, mark of direction, line separator, tag.
    const HOSTILE: &str = "a\nb\u{1b}[2Jc\u{9b}2Jd\u{202e}e\u{2028}f\u{e0041}";
    const SHOWN: &str = "a?b?[2Jc?2Jd?e?f?";

    #[test]
    fn text_is_printable_and_short() {
        let name = || HOSTILE.to_owned();
        let page = filter(Page {
            process: name(),
            endpoint: name(),
            tier: name(),
            interface: name(),
            driver: name(),
            queues: name(),
            advice: name(),
            why_not_better: format!("{HOSTILE}{}", "x".repeat(9999)),
            ..Page::default()
        });
        let Page { process, endpoint, tier, interface, driver, queues, advice, .. } = page;
        for shown in [process, endpoint, tier, interface, driver, queues, advice] {
            assert_eq!(shown, SHOWN);
        }
        assert!(page.why_not_better.starts_with(SHOWN));
        assert_eq!(page.why_not_better.len(), TEXT_MAX);
    }

    #[test]
    fn names_are_names() {
        let names = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let long = "x".repeat(NAME_MAX + 1);
        let forged = "x{y=\"z\"} 1";
        let all = ["packets_sent", "wrong checksum", "a\nb", "", HOSTILE, "A", &long, forged];
        let page = filter(Page {
            counters: names(&all),
            drops: names(&all),
            verdicts: names(&all),
            ..Page::default()
        });
        assert_eq!(page.counters, names(&["packets_sent"]));
        let printable = names(&["packets_sent", "wrong checksum", "A", forged]);
        assert_eq!((&page.drops, &page.verdicts), (&printable, &printable));
        let many = (0..10_000).map(|number| (format!("a{number}"), 1)).collect();
        assert_eq!(filter(Page { counters: many, ..Page::default() }).counters.len(), NAMES_MAX);
    }

    #[test]
    fn a_window_is_a_number_of_packets() {
        let most = f64::from(u32::MAX) / 65_536.0;
        let same = [12.5, 1.0 / 65_536.0, most].map(|window| (window, window));
        let none = [-1e300, f64::NAN, -0.5, 1e-300].map(|window| (window, 0.0));
        for (written, shown) in [&same[..], &none, &[(1.7e308, most)]].concat() {
            let peer = PeerLine {
                address: "198.18.0.2:9".to_owned(),
                congestion_window: written,
                ..PeerLine::default()
            };
            let page = filter(Page { peers: vec![peer], ..Page::default() });
            assert_eq!(page.peers[0].congestion_window, shown, "{written}");
        }
    }

    #[test]
    fn a_peer_has_an_address_of_its_own() {
        let peer = |address: &str| PeerLine { address: address.to_owned(), ..PeerLine::default() };
        let peers = ["198.18.0.2:9", HOSTILE, "198.18.0.2:9", "[fd00:0::2]:9", "[fd00::2]:9", ""];
        let page = Page { peers: peers.map(peer).to_vec(), ..Page::default() };
        assert_eq!(filter(page).peers, ["198.18.0.2:9", "[fd00::2]:9"].map(peer));
    }
}

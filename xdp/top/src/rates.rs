// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates of an endpoint and of its peers: the difference of two pages over the time between them.
//!
//! In: filtered pages of one file, before and now. Out: figures a second. Callers: the plain
//! and the interactive output. Bound: the peers of a page.

use std::collections::HashMap;

use ofi_xdp_statistics::{Page, PeerLine};

/// The lowest tier.
pub(crate) const KERNEL: &str = "kernel UDP";
/// How long a change may stay off the page: the provider's interval, and some attempts.
const PAGE_DELAY: f64 = 0.2;

/// The page that `now` follows, among those `before`.
pub(crate) fn earlier<'a>(before: &'a [Page], now: &Page) -> Option<&'a Page> {
    before.iter().find(|one| (one.owner, &one.file) == (now.owner, &now.file))
}

/// Two pages of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    before: Option<&'a Page>,
    now: &'a Page,
    /// Time between the two; 0 without an earlier page, and where nothing has changed.
    seconds: f64,
}

impl<'a> Change<'a> {
    /// From `before` to `now`, which were read `elapsed` seconds apart.
    pub(crate) fn new(before: Option<&'a Page>, now: &'a Page, elapsed: f64) -> Self {
        let of_pages = |before: &Page| now.written_at_ns.saturating_sub(before.written_at_ns);
        let seconds = before.map_or(0.0, |before| of_pages(before) as f64 / 1e9);
        // An idle endpoint writes no page. Its packets are younger than the last read then.
        Self { before, now, seconds: seconds.min(elapsed + PAGE_DELAY) }
    }

    /// The present value of a counter; 0 if the page has none of this name.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.now.counters.get(name).copied().unwrap_or(0)
    }

    /// The increase of a counter; 0 without an earlier page.
    pub(crate) fn increase(&self, name: &str) -> u64 {
        let old = self.before.map(|page| page.counters.get(name).copied().unwrap_or(0));
        old.map_or(0, |old| self.total(name).saturating_sub(old))
    }

    /// The increase of a counter a second.
    pub(crate) fn rate(&self, name: &str) -> f64 {
        // A page that was not written again means that nothing has happened.
        if self.seconds > 0.0 { self.increase(name) as f64 / self.seconds } else { 0.0 }
    }

    /// The part of packets that came by AF_XDP, in percent; `None` without AF_XDP, and where none
    /// came.
    pub(crate) fn xdp_share(&self) -> Option<f64> {
        let received = ["xsk_received", "udp_received"].map(|name| self.increase(name) as f64);
        let [xdp, kernel] = received;
        let some = self.now.tier != KERNEL && xdp + kernel > 0.0;
        some.then(|| 100.0 * xdp / (xdp + kernel))
    }

    /// Each peer of the page, with its rates.
    pub(crate) fn peers(&self) -> Vec<(&'a PeerLine, PeerRates)> {
        let before = self.before.map_or(&[][..], |page| &page.peers);
        let before: HashMap<&str, &PeerLine> =
            before.iter().map(|peer| (peer.address.as_str(), peer)).collect();
        let rates = |peer: &PeerLine| match before.get(peer.address.as_str()) {
            Some(old) if self.seconds > 0.0 => PeerRates::new(old, peer, self.seconds),
            _ => PeerRates::default(),
        };
        self.now.peers.iter().map(|peer| (peer, rates(peer))).collect()
    }
}

/// Packets a second to and from a peer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PeerRates {
    /// Data packets to it.
    pub(crate) sent: f64,
    /// Data packets from it.
    pub(crate) received: f64,
    /// Packets to it that went again.
    pub(crate) retransmitted: f64,
}

impl PeerRates {
    fn new(old: &PeerLine, new: &PeerLine, seconds: f64) -> Self {
        // A count that begins anew looks like one that went back.
        let since = |new: u32, old: u32| match new.wrapping_sub(old) {
            more if more <= u32::MAX / 2 => f64::from(more) / seconds,
            _ => 0.0,
        };
        Self {
            sent: since(new.next_packet, old.next_packet),
            received: since(new.received, old.received),
            retransmitted: since(new.retransmitted, old.retransmitted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(sent: u64, seconds: u64) -> Page {
        let mut page = Page { written_at_ns: seconds * 1_000_000_000, ..Page::default() };
        page.counters.insert("packets_sent".to_owned(), sent);
        let next_packet = (sent as u32).wrapping_sub(10);
        page.peers.push(PeerLine { next_packet, ..PeerLine::default() });
        page
    }

    #[test]
    fn a_rate_is_a_difference_over_the_time_between_the_pages() {
        let (before, now) = (page(1000, 1), page(9000, 3));
        let change = Change::new(Some(&before), &now, 2.0);
        assert_eq!((change.total("packets_sent"), change.rate("packets_sent")), (9000, 4000.0));
        assert_eq!(change.peers()[0].1.sent, 4000.0);
        assert_eq!((change.total("none"), change.rate("none")), (0, 0.0));
    }

    #[test]
    fn the_first_packets_after_a_pause_are_not_spread_over_the_pause() {
        let (before, now) = (page(0, 1), page(1200, 1000));
        assert_eq!(Change::new(Some(&before), &now, 1.0).rate("packets_sent"), 1000.0);
    }

    #[test]
    fn without_two_different_pages_there_is_no_rate() {
        let now = page(9000, 3);
        assert_eq!(Change::new(None, &now, 1.0).rate("packets_sent"), 0.0);
        assert_eq!(Change::new(Some(&now), &now, 1.0).rate("packets_sent"), 0.0);
        assert_eq!(Change::new(None, &now, 1.0).peers()[0].1, PeerRates::default());
        let forged = Page { file: "another".to_owned(), ..page(1, 1) };
        assert!(earlier(&[forged], &now).is_none());
    }

    #[test]
    fn counts_that_begin_anew_are_no_rate() {
        let old = PeerLine { retransmitted: 7, next_packet: u32::MAX, ..PeerLine::default() };
        let new = PeerLine { retransmitted: 0, next_packet: 9, ..PeerLine::default() };
        let rates = PeerRates::new(&old, &new, 1.0);
        assert_eq!((rates.retransmitted, rates.sent), (0.0, 10.0));
    }

    #[test]
    fn the_share_of_af_xdp_is_one_of_received_packets() {
        let with = |tier: &str, xdp: u64, kernel: u64| {
            let mut page = Page { tier: tier.to_owned(), ..Page::default() };
            page.counters.insert("xsk_received".to_owned(), xdp);
            page.counters.insert("udp_received".to_owned(), kernel);
            page
        };
        let share = |tier| {
            let (before, now) = (with(tier, 1000, 0), with(tier, 1750, 250));
            Change::new(Some(&before), &now, 1.0).xdp_share()
        };
        assert_eq!((share("AF_XDP copy"), share(KERNEL)), (Some(75.0), None));
        let idle = with("AF_XDP copy", 1, 1);
        assert_eq!(Change::new(Some(&idle), &idle, 1.0).xdp_share(), None);
    }
}

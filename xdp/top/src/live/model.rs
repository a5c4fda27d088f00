// SPDX-License-Identifier: MIT OR Apache-2.0
//! The endpoints of the machine and their last samples.
//!
//! In: the filtered pages of each read. Out: rows for the pages of the terminal. Caller: `app.rs`.
//! Bounds: [`SAMPLES`] samples of each endpoint, and of each peer of the one that is open.

use std::collections::{HashMap, VecDeque};

use ofi_xdp_statistics::{Page, PeerLine};

use super::binding::{Binding, binding};
use super::users::Users;
use crate::rates::{Change, PeerRates};

/// Number of samples that are kept.
pub(super) const SAMPLES: usize = 120;

/// The last samples of a figure, the newest at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Series(VecDeque<f64>);

impl Series {
    fn push(&mut self, value: f64) {
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The newest `count` samples, the newest at the end.
    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().skip(self.0.len().saturating_sub(count)).copied()
    }

    pub(super) fn last(&self) -> f64 {
        self.0.back().copied().unwrap_or(0.0)
    }

    pub(super) fn max(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// Figures a second of an endpoint.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rates {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) messages: f64,
    /// Bytes placed into memory of the application.
    pub(super) bytes: f64,
    pub(super) retransmitted: f64,
    /// Packets by other queues than those of the AF_XDP sockets.
    pub(super) other_queue: f64,
    /// The part of packets that came by AF_XDP, in percent.
    pub(super) xdp_share: Option<f64>,
}

impl Rates {
    fn of(change: &Change<'_>) -> Self {
        let rate = |name| change.rate(name);
        Self {
            sent: rate("packets_sent"),
            received: rate("packets_received"),
            messages: rate("messages_sent") + rate("messages_accepted"),
            bytes: rate("bytes_placed"),
            retransmitted: rate("retransmissions"),
            other_queue: rate("other_queue"),
            xdp_share: change.xdp_share(),
        }
    }
}

/// An endpoint of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct EndpointRow {
    /// Owner and name of the file, which no other page has.
    pub(super) key: String,
    pub(super) page: Page,
    /// The name of the owner.
    pub(super) user: String,
    pub(super) rates: Rates,
    pub(super) sent: Series,
    pub(super) received: Series,
    pub(super) bytes: Series,
    pub(super) peers: Vec<PeerRow>,
    /// Whether the page is gone; these are its last figures.
    pub(super) gone: bool,
}

impl EndpointRow {
    pub(super) fn total(&self, name: &str) -> u64 {
        self.page.counters.get(name).copied().unwrap_or(0)
    }

    /// Takes the next page. Peers have samples only where it `is_open`.
    fn update(&mut self, page: Page, elapsed: f64, is_open: bool, peer_open: Option<&str>) {
        let earlier = (!self.key.is_empty()).then_some(&self.page);
        let change = Change::new(earlier, &page, elapsed);
        self.rates = Rates::of(&change);
        self.sent.push(self.rates.sent);
        self.received.push(self.rates.received);
        self.bytes.push(self.rates.bytes);
        let mut old: HashMap<String, PeerRow> =
            self.peers.drain(..).map(|peer| (peer.line.address.clone(), peer)).collect();
        for (line, rates) in change.peers() {
            let mut peer = old.remove(&line.address).unwrap_or_default();
            peer.update(line.clone(), rates, is_open);
            self.peers.push(peer);
        }
        let left = peer_open.and_then(|address| old.remove(address));
        self.peers.extend(left.map(|peer| PeerRow { gone: true, ..peer }));
        self.page = page;
        self.gone = false;
    }
}

/// A peer of an endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerRow {
    pub(super) line: PeerLine,
    pub(super) rates: PeerRates,
    pub(super) sent: Series,
    pub(super) received: Series,
    pub(super) retransmitted: Series,
    /// The last bindings, the newest at the end.
    pub(super) bindings: VecDeque<Binding>,
    /// Whether the page has it no longer; these are its last figures.
    pub(super) gone: bool,
}

impl PeerRow {
    fn update(&mut self, line: PeerLine, rates: PeerRates, is_open: bool) {
        if is_open {
            self.sent.push(rates.sent);
            self.received.push(rates.received);
            self.retransmitted.push(rates.retransmitted);
            if self.bindings.len() == SAMPLES {
                self.bindings.pop_front();
            }
            self.bindings.push_back(binding(&line));
        } else {
            *self = Self::default();
        }
        (self.line, self.rates, self.gone) = (line, rates, false);
    }
}

/// Keys of the endpoint and of the peer that are open.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Open {
    pub(super) endpoint: Option<String>,
    pub(super) peer: Option<String>,
}

/// All endpoints.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) endpoints: Vec<EndpointRow>,
    pub(super) open: Open,
    users: Users,
}

impl Model {
    pub(super) fn new(users: Users) -> Self {
        Self { users, ..Self::default() }
    }

    /// Takes the pages of the next read, which was `elapsed` seconds after the one before.
    pub(super) fn update(&mut self, pages: Vec<Page>, elapsed: f64) {
        let mut old: HashMap<String, EndpointRow> =
            self.endpoints.drain(..).map(|one| (one.key.clone(), one)).collect();
        for page in pages {
            let key = format!("{}/{}", page.owner, page.file);
            let is_open = self.open.endpoint.as_deref() == Some(&key);
            let peer = self.open.peer.as_deref().filter(|_| is_open);
            let mut endpoint = old.remove(&key).unwrap_or_default();
            let owner = page.owner;
            endpoint.update(page, elapsed, is_open, peer);
            (endpoint.key, endpoint.user) = (key, self.users.name(owner));
            self.endpoints.push(endpoint);
        }
        let left = self.open.endpoint.as_ref().and_then(|key| old.remove(key));
        self.endpoints.extend(left.map(|one| EndpointRow { gone: true, ..one }));
    }

    /// The endpoint that is open.
    pub(super) fn endpoint(&self) -> Option<&EndpointRow> {
        let key = self.open.endpoint.as_ref()?;
        self.endpoints.iter().find(|one| one.key == *key)
    }

    /// The peer that is open.
    pub(super) fn peer(&self) -> Option<&PeerRow> {
        let address = self.open.peer.as_ref()?;
        self.endpoint()?.peers.iter().find(|peer| peer.line.address == *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(file: &str, sent: u64, seconds: u64) -> Page {
        let mut page = Page { file: file.to_owned(), ..Page::default() };
        page.written_at_ns = seconds * 1_000_000_000;
        page.counters.insert("packets_sent".to_owned(), sent);
        page.peers.push(PeerLine { address: "198.18.0.2:9".to_owned(), ..PeerLine::default() });
        page
    }

    #[test]
    fn samples_are_the_newest_and_bounded() {
        let mut model = Model::default();
        for second in 0..300 {
            model.update(vec![page("a", second * second, second)], 1.0);
        }
        let sent = &model.endpoints[0].sent;
        assert_eq!((sent.newest(1000).count(), sent.last(), sent.max()), (SAMPLES, 597.0, 597.0));
        assert_eq!(sent.newest(2).collect::<Vec<_>>(), [595.0, 597.0]);
        assert_eq!(model.endpoints[0].peers[0].sent.newest(9).count(), 0, "nobody looks");
    }

    #[test]
    fn an_open_page_keeps_its_last_figures() {
        let mut model = Model::default();
        model.open.endpoint = Some("0/a".to_owned());
        model.open.peer = Some("198.18.0.2:9".to_owned());
        model.update(vec![page("a", 1, 1), page("b", 1, 1)], 1.0);
        model.update(vec![Page { peers: Vec::new(), ..page("a", 9, 2) }], 1.0);
        assert_eq!(model.endpoints.len(), 1);
        assert!(model.peer().unwrap().gone && !model.endpoint().unwrap().gone);
        model.update(Vec::new(), 1.0);
        assert!(model.endpoint().unwrap().gone);
        assert_eq!(model.endpoint().unwrap().total("packets_sent"), 9);
        model.update(vec![page("a", 10, 3)], 1.0);
        assert!(!model.endpoint().unwrap().gone && !model.peer().unwrap().gone);
        model.open = Open::default();
        model.update(Vec::new(), 1.0);
        assert!(model.endpoints.is_empty());
    }
}

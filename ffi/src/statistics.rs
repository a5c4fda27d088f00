// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics page of an enabled endpoint (`ofi_xdp_statistics`): written by the domain's
//! progress thread, ten times a second while something happens, never on the data path.
//!
//! In: the endpoint, whose lock is tried and never waited for. Out: the page in shared memory.
//! Bound: one page, of a bounded number of peers. Where shared memory cannot be written, that is
//! logged once and there is no page.

use std::path::Path;
use std::time::Duration;

use ofi_xdp_core::{DropReason, Instant, PeerReport, Stats};
use ofi_xdp_datapath::{Facts, PortStats, Tier, Verdict};
use ofi_xdp_statistics::{FOLDER, Page, PeerLine, Place};

use crate::progress::ActiveEndpoint;
use crate::thread::ATTENTION;

/// From one page to the next.
const INTERVAL: Duration = Duration::from_millis(100);
/// From a look at an endpoint that was busy to the next one: as often as the thread wakes anyway.
/// On the core of one who polls by system calls it finds the lock held nearly always: it gets the
/// processor when a call returns, and those are made under the lock.
const RETRY: Duration = ATTENTION;
/// Every so many pages the XDP program's counters are asked for: a system call each.
const VERDICTS_EVERY: u32 = 10;

/// What one look at an endpoint gives, copied under its lock.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) stats: Stats,
    pub(crate) port: PortStats,
    pub(crate) facts: Facts,
    /// With verdicts, if they were asked for and there is a program.
    pub(crate) verdicts: Option<Vec<(Verdict, u64)>>,
    pub(crate) peers: Vec<PeerReport>,
    pub(crate) peers_active: u32,
}

/// One endpoint's page.
#[derive(Debug)]
pub(crate) struct Statistics {
    place: Place,
    /// The page that is there.
    page: Page,
    /// When the next one is due.
    due: Instant,
    looks: u32,
}

impl Statistics {
    /// A page for `endpoint`; `None` where there is no shared memory.
    pub(crate) fn open(endpoint: &ActiveEndpoint, now: Instant) -> Option<Self> {
        let place = match Place::new(Path::new(FOLDER)) {
            Ok(place) => place,
            Err(error) => {
                log::info!(target: "domain", "no statistics page in {FOLDER}: {error}");
                return None;
            }
        };
        let process = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let page = Page {
            pid: std::process::id(),
            process: process.trim_end().to_owned(),
            endpoint: endpoint.local_addr().to_string(),
            ..Page::default()
        };
        Some(Self { place, page, due: now, looks: 0 })
    }

    /// Writes the page if it is due and anything is new. Returns when to look again at the latest:
    /// not before something happens, where nothing is new.
    pub(crate) fn publish(&mut self, endpoint: &ActiveEndpoint, now: Instant) -> Option<Instant> {
        if now < self.due {
            return Some(self.due);
        }
        self.due = now.after(INTERVAL);
        let with_verdicts = self.looks.is_multiple_of(VERDICTS_EVERY);
        // Busy, it is being driven: there will be another moment.
        let Some(look) = endpoint.look_at(with_verdicts) else {
            self.due = now.after(RETRY);
            return Some(self.due);
        };
        self.looks = self.looks.wrapping_add(1);
        let page = self.fill(look);
        let news = Page { written_at_ns: self.page.written_at_ns, ..page };
        if news == self.page {
            return None;
        }
        self.page = Page { written_at_ns: now.as_nanos(), ..news };
        if let Err(error) = self.place.publish(&self.page) {
            // Out of memory, or gone: figures are not worth more words than these.
            log::debug!(target: "domain", "statistics page: {error}");
        }
        Some(self.due)
    }

    /// The page that `look` makes of the last one.
    fn fill(&self, look: Look) -> Page {
        let Look { stats, port, facts, verdicts, peers, peers_active } = look;
        let mut page = self.page.clone();
        page.tier = facts.tier.to_string();
        page.why_not_better = facts.why_not_better;
        page.interface = facts.interface;
        page.driver = facts.driver;
        page.queue = facts.queue;
        page.mtu = facts.mtu;
        let counters = ENGINE.iter().map(|(name, of)| (*name, of(&stats)));
        let counters = counters.chain(PORT.iter().map(|(name, of)| (*name, of(&port))));
        page.counters = counters.map(|(name, count)| (name.to_owned(), count)).collect();
        let drops = DropReason::ALL.into_iter().map(|reason| (reason, stats.dropped(reason)));
        let drops = drops.filter(|(_, count)| *count > 0);
        page.drops = drops.map(|(reason, count)| (reason.to_string(), count)).collect();
        // Those of a program that is gone say nothing of now.
        if facts.tier == Tier::Udp {
            page.verdicts.clear();
        }
        if let Some(verdicts) = verdicts {
            let named = verdicts.into_iter().map(|(one, count)| (one.name().to_owned(), count));
            page.verdicts = named.collect();
        }
        page.peers = peers.iter().map(peer_line).collect();
        page.peers_active = peers_active;
        page
    }
}

/// A counter's name, and where it is.
type Named<T> = (&'static str, fn(&T) -> u64);

/// The engine's counters that a page has.
const ENGINE: [Named<Stats>; 17] = [
    ("packets_received", |s| s.packets_received),
    ("packets_sent", |s| s.packets_sent),
    ("data_packets_sent", |s| s.data_packets_sent),
    ("retransmissions", |s| s.retransmissions),
    ("losses_by_ack", |s| s.losses_by_ack),
    ("timeouts", |s| s.timeouts),
    ("tail_probes", |s| s.tail_probes),
    ("acks_sent", |s| s.acks_sent),
    ("messages_sent", |s| s.messages_sent),
    ("messages_accepted", |s| s.messages_accepted),
    ("messages_unexpected", |s| s.messages_unexpected),
    ("receiver_not_ready", |s| s.receiver_not_ready),
    ("rendezvous", |s| s.rendezvous),
    ("atomics_executed", |s| s.atomics_executed),
    ("bytes_placed", |s| s.bytes_placed),
    ("handshakes", |s| s.handshakes),
    ("peers_failed", |s| s.peers_failed),
];

/// The port's.
const PORT: [Named<PortStats>; 9] = [
    ("xsk_received", |s| s.xsk_received),
    ("xsk_transmitted", |s| s.xsk_transmitted),
    ("xsk_rejected", |s| s.xsk_rejected),
    ("xsk_kicks", |s| s.xsk_kicks),
    ("xsk_losses", |s| s.xsk_losses),
    ("udp_received", |s| s.udp_received),
    ("udp_transmitted", |s| s.udp_transmitted),
    ("udp_lost", |s| s.udp_lost),
    ("udp_sends", |s| s.udp_sends),
];

fn peer_line(report: &PeerReport) -> PeerLine {
    PeerLine {
        address: report.address.socket_addr().to_string(),
        established: report.established,
        round_trip_ns: u64::try_from(report.round_trip.as_nanos()).unwrap_or(u64::MAX),
        window: f64::from(report.window) / 65_536.0,
        in_flight: report.in_flight,
        lost: report.lost,
        timeouts: report.timeouts,
        next_packet: report.next_packet,
        resent: report.resent,
        received: report.received,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics page of a runtime (`ofi_xdp_statistics`).
//!
//! In: a snapshot of the runtime; its lock is tried, never waited for. Out: the page in shared
//! memory, ten times a second while counters change. Called by the domain's progress thread, never
//! on the data path. Bound: one page, of [`PEERS_MAX`] peers. Without writable shared memory there
//! is no page, and one log line.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use ofi_xdp_core::{DropReason, Instant, PeerReport, Stats};
use ofi_xdp_datapath::{PortStats, PortStatus, Tier, Verdict};
use ofi_xdp_statistics::{FOLDER, Limits, PEERS_MAX, Page, PeerLine, StatsFile, remove_left};

use super::Runtime;

/// Interval of the pages.
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval of attempts at a locked runtime. Most attempts fail beside a thread that polls by
/// system calls on the same core. The scheduler switches when a system call returns, and those are
/// made under the lock.
const RETRY: Duration = Duration::from_millis(5);
/// Pages for each read of the XDP program's counters, which is a system call.
const VERDICTS_EVERY: u32 = 10;

/// Removes the pages of dead processes, once in a process. Takes time for each page there is.
pub(crate) fn remove_pages_left() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(error) = remove_left(Path::new(FOLDER)) {
            log::info!(target: "domain", "pages left in {FOLDER}: {error}");
        }
    });
}

/// The counters of a runtime, copied under its lock.
#[derive(Debug)]
struct Snapshot {
    stats: Stats,
    port: PortStats,
    status: PortStatus,
    /// `None` without a program, or if they were not asked for.
    verdicts: Option<Vec<(Verdict, u64)>>,
    peers: Vec<PeerReport>,
    connections: u32,
}

impl Runtime {
    /// The address of its port.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.lock().port.local_addr()
    }

    /// Copies its counters; `None` while it is locked.
    fn snapshot(&self, with_verdicts: bool) -> Option<Snapshot> {
        let mut peers = Vec::with_capacity(PEERS_MAX);
        let state = self.state.try_lock().ok()?;
        let (stats, connections) = state.engine.with(|engine| {
            peers.extend(engine.peer_reports().take(PEERS_MAX));
            (*engine.stats(), engine.connections())
        });
        let counters = state.port.xsk().filter(|_| with_verdicts).map(|xsk| xsk.counters());
        let verdicts = counters.and_then(Result::ok).flatten().map(|counters| {
            Verdict::ALL.iter().map(|&verdict| (verdict, counters.count(verdict))).collect()
        });
        let (port, status) = (*state.port.stats(), state.port.status().clone());
        Some(Snapshot { stats, port, status, verdicts, peers, connections })
    }
}

/// The page of one runtime.
#[derive(Debug)]
pub(crate) struct Statistics {
    file: StatsFile,
    /// The last page that was written.
    page: Page,
    /// The earliest time of the next page.
    due: Instant,
    /// Snapshots so far.
    snapshots: u32,
}

impl Statistics {
    /// A page for `runtime`; `None` without shared memory.
    pub(crate) fn open(runtime: &Runtime, now: Instant) -> Option<Self> {
        let file = match StatsFile::new(Path::new(FOLDER)) {
            Ok(file) => file,
            Err(error) => {
                log::info!(target: "domain", "no statistics page in {FOLDER}: {error}");
                return None;
            }
        };
        let process = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let page = Page {
            pid: std::process::id(),
            process: process.trim_end().to_owned(),
            endpoint: runtime.local_addr().to_string(),
            ..Page::default()
        };
        Some(Self { file, page, due: now, snapshots: 0 })
    }

    /// Writes the page if it is due and a counter has changed. Returns the latest time of the next
    /// call; `None` after a page without changes: then the next is due when packets move.
    pub(crate) fn publish(&mut self, runtime: &Runtime, now: Instant) -> Option<Instant> {
        if now < self.due {
            return Some(self.due);
        }
        self.due = now.after(INTERVAL);
        let with_verdicts = self.snapshots.is_multiple_of(VERDICTS_EVERY);
        let Some(snapshot) = runtime.snapshot(with_verdicts) else {
            self.due = now.after(RETRY);
            return Some(self.due);
        };
        self.snapshots = self.snapshots.wrapping_add(1);
        let page = self.fill(snapshot);
        let page = Page { written_at_ns: self.page.written_at_ns, ..page };
        if page == self.page {
            return None;
        }
        self.page = Page { written_at_ns: now.as_nanos(), ..page };
        if let Err(error) = self.file.publish(&self.page) {
            // A debug line is enough for statistics.
            log::debug!(target: "domain", "statistics page: {error}");
        }
        Some(self.due)
    }

    /// The next page: the last one with the counters of `snapshot`.
    fn fill(&self, snapshot: Snapshot) -> Page {
        let Snapshot { stats, port, status, verdicts, peers, connections } = snapshot;
        let mut page = self.page.clone();
        page.tier = status.tier.to_string();
        page.why_not_better = status.why_not_better;
        page.interface = status.interface;
        page.driver = status.driver;
        page.queues = status.queues.to_string();
        page.advice = status.advice;
        page.mtu = status.mtu;
        let counters = ENGINE.iter().map(|(name, of)| (*name, of(&stats)));
        let counters = counters.chain(PORT.iter().map(|(name, of)| (*name, of(&port))));
        page.counters = counters.map(|(name, count)| (name.to_owned(), count)).collect();
        let drops = DropReason::ALL.into_iter().map(|reason| (reason, stats.dropped(reason)));
        let drops = drops.filter(|(_, count)| *count > 0);
        page.drops = drops.map(|(reason, count)| (reason.to_string(), count)).collect();
        // A detached program has no current verdicts.
        if status.tier == Tier::Udp {
            page.verdicts.clear();
        }
        if let Some(verdicts) = verdicts {
            let named = verdicts.into_iter().map(|(one, count)| (one.name().to_owned(), count));
            page.verdicts = named.collect();
        }
        page.peers = peers.iter().map(peer_line).collect();
        page.connections = connections;
        page
    }
}

/// The name of a counter, and its reader.
type Named<T> = (&'static str, fn(&T) -> u64);

/// The engine's counters on a page.
const ENGINE: [Named<Stats>; 23] = [
    ("packets_received", |s| s.packets_received),
    ("packets_sent", |s| s.packets_sent),
    ("data_packets_sent", |s| s.data_packets_sent),
    ("retransmissions", |s| s.retransmissions),
    ("losses_by_ack", |s| s.losses_by_ack),
    ("timeouts", |s| s.timeouts),
    ("tail_probes", |s| s.tail_probes),
    ("path_probes", |s| s.path_probes),
    ("path_shrinks", |s| s.path_shrinks),
    ("path_raises", |s| s.path_raises),
    ("pieces_sent", |s| s.pieces_sent),
    ("acks_sent", |s| s.acks_sent),
    ("messages_sent", |s| s.messages_sent),
    ("messages_accepted", |s| s.messages_accepted),
    ("messages_unexpected", |s| s.messages_unexpected),
    ("messages_put_out", |s| s.messages_put_out),
    ("receiver_not_ready", |s| s.receiver_not_ready),
    ("rendezvous", |s| s.rendezvous),
    ("atomics_executed", |s| s.atomics_executed),
    ("bytes_placed", |s| s.bytes_placed),
    ("handshakes", |s| s.handshakes),
    ("connections_ended", |s| s.connections_ended),
    ("peers_failed", |s| s.peers_failed),
];

/// The port's counters on a page.
const PORT: [Named<PortStats>; 10] = [
    ("xsk_received", |s| s.xsk_received),
    ("xsk_transmitted", |s| s.xsk_transmitted),
    ("xsk_rejected", |s| s.xsk_rejected),
    ("xsk_kicks", |s| s.xsk_kicks),
    ("xsk_losses", |s| s.xsk_losses),
    ("udp_received", |s| s.udp_received),
    ("other_queue", |s| s.other_queue),
    ("udp_transmitted", |s| s.udp_transmitted),
    ("udp_lost", |s| s.udp_lost),
    ("udp_sends", |s| s.udp_sends),
];

fn peer_line(report: &PeerReport) -> PeerLine {
    PeerLine {
        address: report.address.socket_addr().to_string(),
        established: report.established,
        round_trip_ns: u64::try_from(report.round_trip.as_nanos()).unwrap_or(u64::MAX),
        congestion_window: f64::from(report.congestion_window) / 65_536.0,
        in_flight: report.in_flight,
        lost: report.lost,
        timeouts: report.timeouts,
        next_packet: report.next_packet,
        retransmitted: report.retransmitted,
        received: report.received,
        limits: Some(Limits {
            posted: report.posted,
            unsent: report.unsent,
            receiver_not_ready: report.receiver_not_ready,
            occupancy_eighths: report.occupancy,
            credits_free: report.credits_free,
            packets_max: report.packets_max,
            packet_len_max: report.packet_max,
        }),
    }
}

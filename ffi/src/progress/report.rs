// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look at an endpoint from outside its data path.
//!
//! In: the statistics page. Out: copies of what is counted. The lock is held for as long as it
//! takes to copy them, and only where nobody else has it.

use std::net::SocketAddr;

use ofi_xdp_datapath::Verdict;
use ofi_xdp_statistics::PEERS_MAX;

use super::ActiveEndpoint;
use crate::statistics::Look;

impl ActiveEndpoint {
    /// Its address.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.lock().port.local_addr()
    }

    /// What it is and does at this moment; `None` while it is being driven.
    pub(crate) fn look_at(&self, with_verdicts: bool) -> Option<Look> {
        let mut peers = Vec::with_capacity(PEERS_MAX);
        let state = self.state.try_lock().ok()?;
        let (stats, peers_active) = state.engine.with_dependent(|_, engine| {
            peers.extend(engine.peer_reports().take(PEERS_MAX));
            (*engine.stats(), engine.active_peers())
        });
        let counters = state.port.xsk().filter(|_| with_verdicts).map(|xsk| xsk.counters());
        let verdicts = counters.and_then(Result::ok).flatten().map(|counters| {
            Verdict::ALL.iter().map(|&verdict| (verdict, counters.count(verdict))).collect()
        });
        let (port, facts) = (*state.port.stats(), state.port.facts().clone());
        Some(Look { stats, port, facts, verdicts, peers, peers_active })
    }
}

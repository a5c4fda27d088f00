// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one progress loop: receive, ingest, advance, transmit, flush.
//!
//! Production, the simulator and the benchmarks all call [`drive`]; nobody else moves packets
//! between an [`Engine`] and a [`Port`]. Bounds: `budget` packets each way and one port flush per
//! call; the clock was read once by the caller.

use crate::{Datagram, Engine, Instant, Memory, Port, PortError, Transmitted};

/// How much one call of [`drive`] may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Most packets to receive. 0: this call only sends what was just posted, and leaves records
    /// that wait for company ([`Engine::release_gathered`]) waiting.
    pub rx_packets: u16,
    /// Most packets to send.
    pub tx_packets: u16,
}

impl Budget {
    /// What a progress call (`fi_cq_read`) does: a batch each way.
    pub const PROGRESS: Self = Self { rx_packets: 64, tx_packets: 64 };
    /// What a posting call (`fi_send`) does: send, receive nothing.
    pub const POST: Self = Self { rx_packets: 0, tx_packets: 64 };
}

/// What one call of [`drive`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Packets received.
    pub received: u16,
    /// Packets sent.
    pub transmitted: u16,
}

/// Moves packets both ways within `budget`, and time forward to `now`.
///
/// # Errors
/// [`PortError`] when the medium is gone for good. The engine stays consistent: packets it believes
/// sent are lost ones to it, and its timers end what cannot be delivered.
pub fn drive<P: Port, M: Memory>(
    engine: &mut Engine<'_>,
    port: &mut P,
    memory: &mut M,
    now: Instant,
    budget: Budget,
) -> Result<Progress, PortError> {
    let mut progress = Progress::default();
    if budget.rx_packets > 0 {
        let ingest = &mut |datagram: Datagram<'_>| engine.ingest(now, datagram, memory);
        progress.received = port.receive(now, budget.rx_packets, ingest)?;
        engine.feed(memory);
        engine.release_gathered();
        engine.advance(now);
    }
    // bound: budget.tx_packets
    while progress.transmitted < budget.tx_packets && engine.wants_transmit() {
        match port.transmit(|packet| engine.transmit(now, packet, memory))? {
            Transmitted::Sent => progress.transmitted = progress.transmitted.saturating_add(1),
            Transmitted::Nothing | Transmitted::Full => break,
        }
    }
    if progress.transmitted > 0 {
        port.flush()?;
    }
    Ok(progress)
}

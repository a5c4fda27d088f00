// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one progress loop: receive, ingest, advance, transmit, flush.
//!
//! Production, the simulator and the benchmarks all call [`drive`]. No other code moves packets
//! between an [`Engine`] and a [`Port`]. Bounds: `budget` packets each way and one port flush per
//! call. The caller reads the clock once.

use crate::{Datagram, Engine, Instant, Memory, Port, PortError, Transmitted};

/// The work that one call of [`drive`] may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The most packets to receive. With 0 the call only sends posted operations, and corked
    /// records ([`Engine::uncork`]) stay corked.
    pub rx_packets: u16,
    /// The most packets to send.
    pub tx_packets: u16,
}

impl Budget {
    /// Budget of a progress call (`fi_cq_read`): a batch each way.
    pub const PROGRESS: Self = Self { rx_packets: 64, tx_packets: 64 };
    /// Budget of a posting call (`fi_send`): send, receive nothing.
    pub const POST: Self = Self { rx_packets: 0, tx_packets: 64 };
}

/// The work that one call of [`drive`] did.
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
/// [`PortError`] when the medium is gone for good. The engine stays consistent: queued packets
/// count as lost, and timers end the operations that cannot be delivered.
pub fn drive<P: Port, M: Memory>(
    engine: &mut Engine<'_>,
    port: &mut P,
    memory: &mut M,
    now: Instant,
    budget: Budget,
) -> Result<Progress, PortError> {
    if engine.carries_datagrams() {
        return drive_datagrams(engine, port, memory, now, budget);
    }
    let mut progress = Progress::default();
    if budget.rx_packets > 0 {
        let mut arrivals = engine.arrivals(now);
        let ingest = &mut |datagram: Datagram<'_>| arrivals.ingest(&datagram, memory);
        progress.received = port.receive(now, budget.rx_packets, ingest)?;
        engine.end_poll(now);
        engine.resume_matching(memory);
        engine.uncork();
        engine.advance(now);
        if engine.has_advice() {
            pass_advice(engine, port, now);
        }
    }
    // bound: budget.tx_packets
    let mut burst = engine.burst(now);
    while progress.transmitted < budget.tx_packets && burst.wants_transmit() {
        match port.transmit(|packet| burst.transmit(packet, memory))? {
            Transmitted::Sent => progress.transmitted = progress.transmitted.saturating_add(1),
            Transmitted::Nothing | Transmitted::Full => break,
        }
    }
    if progress.transmitted > 0 {
        port.flush()?;
    }
    Ok(progress)
}

/// The loop of [`drive`] for an engine that carries datagrams. It has no connections, hence no
/// timers, no advice, and nothing to coalesce.
#[inline(never)]
fn drive_datagrams<P: Port, M: Memory>(
    engine: &mut Engine<'_>,
    port: &mut P,
    memory: &mut M,
    now: Instant,
    budget: Budget,
) -> Result<Progress, PortError> {
    let mut progress = Progress::default();
    if budget.rx_packets > 0 {
        engine.resume_matching(memory);
        let ingest = &mut |datagram: Datagram<'_>| engine.ingest_datagram(&datagram, memory);
        progress.received = port.receive(now, budget.rx_packets, ingest)?;
        // The quarantine of slots ends by the clock.
        engine.end_poll(now);
    }
    // bound: budget.tx_packets
    let mut burst = engine.burst(now);
    while progress.transmitted < budget.tx_packets && burst.has_datagram() {
        match port.transmit(|packet| burst.transmit_datagram(packet, memory))? {
            Transmitted::Sent => progress.transmitted = progress.transmitted.saturating_add(1),
            Transmitted::Nothing | Transmitted::Full => break,
        }
    }
    if progress.transmitted > 0 {
        port.flush()?;
    }
    Ok(progress)
}

/// Passes the engine's advice about paths on to the port.
// Apart from the loop, which it would make slower: advice is rare.
#[cold]
#[inline(never)]
fn pass_advice<P: Port>(engine: &mut Engine<'_>, port: &mut P, now: Instant) {
    // bound: the advice that the engine keeps
    while let Some((to, advice)) = engine.take_advice() {
        if port.advise(now, to, advice) {
            engine.source_port_changed(to.peer);
        }
    }
}

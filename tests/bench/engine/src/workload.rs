// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workloads of the engines.
//!
//! In: a pair and a count. Out: the number of packets. Bound: the count; a pair without progress
//! is an error.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use ofi_xdp_core::Budget;

use crate::pair::{BUFFER_LEN, Pair};

/// Packets that a stream of single messages has delivered at once.
const BATCH: u64 = 16;

/// Bytes of an operation that takes many packets.
const BULK_LEN: u64 = 64 << 10;

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Messages of 8 bytes, 256 outstanding, many in a packet.
    Messages,
    /// Messages of 1,408 bytes, one in a packet, 128 outstanding.
    Packets,
    /// Messages of 8 bytes there and back, one in a packet.
    PingPong,
    /// Messages of 8 bytes one way, one in a packet, acknowledged in batches.
    Singles,
    /// Writes of 8 bytes, 256 outstanding, many in a packet.
    Writes,
    /// Writes of 1,408 bytes, one in a packet, 128 outstanding.
    WritePackets,
    /// Reads of 8 bytes, 64 outstanding.
    Reads,
    /// Fetching additions of 8 bytes, 64 outstanding.
    FetchAdds,
    /// Writes of 64 KiB in packets that are full, 16 outstanding.
    Bulk,
    /// As [`Self::Bulk`], by kernels, which protect the payload.
    KernelBulk,
}

/// The counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    /// Operations that completed.
    pub(crate) operations: u64,
    /// Data packets that were sent.
    pub(crate) data_packets: u64,
    /// Acknowledgments that were packets of their own.
    pub(crate) acks: u64,
}

impl Workload {
    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
        Self::PingPong,
        Self::Singles,
        Self::Messages,
        Self::Packets,
        Self::Writes,
        Self::WritePackets,
        Self::Reads,
        Self::FetchAdds,
        Self::Bulk,
        Self::KernelBulk,
    ];

    /// Bytes of one operation.
    pub(crate) fn len(self) -> u64 {
        match self {
            Self::Packets | Self::WritePackets => 1408,
            Self::Bulk | Self::KernelBulk => BULK_LEN,
            _ => 8,
        }
    }

    /// The pair that does this work.
    ///
    /// # Errors
    /// Those of [`Pair::new`].
    pub(crate) fn pair(self) -> Result<Pair> {
        if self == Self::KernelBulk { Pair::by_kernel() } else { Pair::new() }
    }

    /// As in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Packets => "packets",
            Self::PingPong => "ping-pong",
            Self::Singles => "singles",
            Self::Writes => "writes",
            Self::WritePackets => "write-packets",
            Self::Reads => "reads",
            Self::FetchAdds => "fetch-adds",
            Self::Bulk => "bulk",
            Self::KernelBulk => "kernel-bulk",
        }
    }

    /// Does `count` operations.
    ///
    /// # Errors
    /// When an operation fails or the engines stand still.
    pub(crate) fn run(self, pair: &mut Pair, count: u64) -> Result<Work> {
        let before = pair.packets();
        match self {
            Self::Messages => stream(pair, count, 256, self.len())?,
            Self::Packets => stream(pair, count, 128, self.len())?,
            Self::PingPong => ping_pong(pair, count)?,
            Self::Singles => singles(pair, count)?,
            Self::Writes => one_sided(pair, count, 256, |pair, n, more| pair.write(0, n, 8, more))?,
            Self::WritePackets => {
                one_sided(pair, count, 128, |pair, n, more| pair.write(0, n, 1408, more))?;
            }
            Self::Reads => one_sided(pair, count, 64, |pair, n, more| pair.read(0, n, 8, more))?,
            Self::FetchAdds => {
                one_sided(pair, count, 64, |pair, n, more| pair.fetch_add(0, n, more))?;
            }
            Self::Bulk | Self::KernelBulk => {
                let room = BULK_LEN / BUFFER_LEN as u64;
                let write = |pair: &mut Pair, n: u64, more| pair.write(0, n * room, BULK_LEN, more);
                one_sided(pair, count, 16, write)?;
            }
        }
        let (data, acks) = pair.packets();
        Ok(Work { operations: count, data_packets: data - before.0, acks: acks - before.1 })
    }
}

/// Messages one way, at most `window` outstanding. Posting happens in bursts with `FI_MORE`, as an
/// application that has many to send does; receives are there in time.
fn stream(pair: &mut Pair, count: u64, window: u64, len: u64) -> Result<()> {
    let ahead = window * 2;
    for number in 0..ahead {
        pair.recv(1, number)?;
    }
    let (mut posted, mut sent, mut received, mut idle) = (0, 0, 0, 0);
    while sent < count || received < count {
        let burst = (window - (posted - sent)).min(count - posted);
        for left in (0..burst).rev() {
            pair.send(0, posted, len, left > 0)?;
            posted += 1;
        }
        pair.drive(0, Budget::PROGRESS)?;
        pair.drive(1, Budget::PROGRESS)?;
        let before = sent + received;
        while let Some((number, got)) = pair.received(1)? {
            ensure!(got == len, "a message of {got} bytes for one of {len}");
            received += 1;
            pair.recv(1, number)?;
        }
        while pair.sent(0)? {
            sent += 1;
        }
        idle = if sent + received == before { idle + 1 } else { 0 };
        Pair::check_progress(idle)?;
    }
    take_back(pair, 1, ahead)
}

/// Messages one way that are not coalesced: the sender makes a progress call after each, the
/// receiver after every [`BATCH`].
fn singles(pair: &mut Pair, count: u64) -> Result<()> {
    for number in 0..2 * BATCH {
        pair.recv(1, number)?;
    }
    let (mut sent, mut idle) = (0, 0);
    for posted in 1..=count {
        pair.send(0, posted, Workload::Singles.len(), false)?;
        pair.drive(0, Budget::PROGRESS)?;
        while pair.sent(0)? {
            sent += 1;
        }
        // The window is two batches, as there are receives.
        while posted % BATCH == 0 && posted - sent >= BATCH || posted == count && sent < count {
            pair.drive(1, Budget::PROGRESS)?;
            while let Some((number, _)) = pair.received(1)? {
                pair.recv(1, number)?;
            }
            pair.drive(0, Budget::PROGRESS)?;
            while pair.sent(0)? {
                sent += 1;
            }
            idle += 1;
            Pair::check_progress(idle)?;
        }
        idle = 0;
    }
    take_back(pair, 1, 2 * BATCH)
}

/// One-sided operations, at most `window` outstanding.
fn one_sided(
    pair: &mut Pair,
    count: u64,
    window: u64,
    post: impl Fn(&mut Pair, u64, bool) -> Result<()>,
) -> Result<()> {
    let (mut posted, mut ended, mut idle) = (0, 0, 0);
    while ended < count {
        let burst = (window - (posted - ended)).min(count - posted);
        for left in (0..burst).rev() {
            post(pair, posted, left > 0)?;
            posted += 1;
        }
        pair.drive(0, Budget::PROGRESS)?;
        pair.drive(1, Budget::PROGRESS)?;
        let before = ended;
        while pair.sent(0)? {
            ended += 1;
        }
        idle = if ended == before { idle + 1 } else { 0 };
        Pair::check_progress(idle)?;
    }
    Ok(())
}

/// Cancels the receives that are left.
fn take_back(pair: &mut Pair, side: usize, count: u64) -> Result<()> {
    let engine = &mut pair.nodes[side].engine;
    for number in 0..count {
        ensure!(engine.cancel(ofi_xdp_core::Context(number)), "receive {number} is gone");
    }
    while engine.poll_recv_completion().is_some() {}
    Ok(())
}

/// One message there, one back, `count` in all.
fn ping_pong(pair: &mut Pair, count: u64) -> Result<()> {
    pair.recv(0, 0)?;
    pair.recv(1, 0)?;
    for number in 0..count {
        let (from, to) = if number % 2 == 0 { (0, 1) } else { (1, 0) };
        pair.send(from, number, 8, false)?;
        pair.drive(from, Budget::POST)?;
        let mut idle = 0;
        while pair.received(to)?.is_none() {
            pair.drive(to, Budget::PROGRESS)?;
            idle += 1;
            Pair::check_progress(idle)?;
        }
        pair.recv(to, 0)?;
        while pair.sent(to)? {}
    }
    for side in [0, 1] {
        take_back(pair, side, 1)?;
    }
    // The last messages are acknowledged by the timer, not with other packets.
    let mut idle = 0;
    while pair.nodes.iter().any(|node| node.engine.has_work()) {
        for side in [0, 1] {
            pair.drive(side, Budget::PROGRESS)?;
            while pair.sent(side)? {}
        }
        idle += 1;
        Pair::check_progress(idle)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_moves_its_number_of_bytes() {
        for workload in Workload::ALL {
            let mut pair = workload.pair().unwrap();
            for count in [1, 1000] {
                let work = workload.run(&mut pair, count).unwrap();
                assert_eq!(work.operations, count, "{workload:?}");
                assert!(work.data_packets > 0, "{workload:?}");
            }
        }
    }

    #[test]
    fn a_ping_pong_has_one_message_in_a_packet_and_a_stream_many() {
        let mut pair = Pair::new().unwrap();
        let ping_pong = Workload::PingPong.run(&mut pair, 1000).unwrap();
        assert_eq!(ping_pong.data_packets, 1000);
        assert!(ping_pong.acks < 20, "acknowledgments ride along: {ping_pong:?}");
        let singles = Workload::Singles.run(&mut pair, 1600).unwrap();
        assert_eq!(singles.data_packets, 1600);
        assert!((90..=210).contains(&singles.acks), "a batch has one or two: {singles:?}");
        let stream = Workload::Messages.run(&mut pair, 6000).unwrap();
        assert!(stream.data_packets < 200, "{stream:?}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The initiator of a measurement.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use nix::time::{ClockId, clock_gettime};

use super::link::{Link, Opening};
use super::{Answer, Cell, DRAIN, Limits, PollInterval, Request, Transfer, stamp};
use ofi_xdp_perf::control::Control;
use ofi_xdp_perf::report::{Latency, PerfReport, Stream};
use ofi_xdp_perf::transport::SessionSide;

/// Longest silence of the server, beyond its wait for the bytes.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Measures one cell at the server behind `control`.
///
/// # Errors
/// The first failure of either side, and a transfer that moves nothing within its bounds.
pub fn run(mut control: Control, cell: &Cell, limits: Limits) -> anyhow::Result<PerfReport> {
    ensure!(cell.size >= 8 && cell.depth > 0, "an operation has 8 bytes at least");
    ensure!(cell.client != PollInterval::Never, "only the server can ignore its queue");
    ensure!(
        cell.server != PollInterval::Never || cell.transfer.is_rma(),
        "the target of messages must read its queue"
    );
    let local = control.local_ip()?;
    control.send(&Request::Open(cell.clone()))?;
    let Answer::Name(server) = answer(&mut control)? else { bail!("an answer out of turn") };
    let slots = if cell.transfer == Transfer::Pingpong { 2 } else { 1 } * cell.depth;
    let opening = Opening::begin(cell, SessionSide::Client, local, slots)?;
    control.send(&Request::Peer(opening.name()?))?;
    let link = opening.finish(&server)?;
    let Answer::Ready(key, base) = answer(&mut control)? else { bail!("an answer out of turn") };

    let mut client = Initiator {
        link,
        cell: cell.clone(),
        region: (key, base),
        busy: vec![false; slots],
        posted: 0,
        ended: 0,
    };
    let (major, minor) = ofi_xdp_libfabric::version();
    let mut report = PerfReport {
        with: client.link.description.clone(),
        libfabric: format!("{major}.{minor}"),
        verified: true,
        latency: Vec::new(),
        stream: Vec::new(),
        start_up_ns: None,
        idle: None,
        datagrams: None,
    };
    match cell.transfer {
        Transfer::Pingpong => {
            report.latency.push(client.round_trips(limits)?);
            let _ = stop(&mut control, client.posted)?;
        }
        _ => report.stream.push(client.stream(&mut control, limits)?),
    }
    Ok(report)
}

/// The next answer of the server.
fn answer(control: &mut Control) -> anyhow::Result<Answer> {
    match control.receive(DRAIN + SERVER_TIMEOUT)? {
        Answer::Failed(error) => bail!("the server failed: {error}"),
        answer => Ok(answer),
    }
}

/// Ends the transfer; the number of operations that the server has whole.
fn stop(control: &mut Control, posted: u64) -> anyhow::Result<u64> {
    control.send(&Request::Stop(posted))?;
    let Answer::Done(delivered) = answer(control)? else { bail!("an answer out of turn") };
    Ok(delivered)
}

/// The processor time of all threads of this process.
fn cpu_time() -> anyhow::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?))
}

struct Initiator {
    link: Link,
    cell: Cell,
    /// Key and base address of the server's memory.
    region: (u64, u64),
    /// By slot: whether an operation has it. Operation `n` has slot `n` modulo the depth.
    busy: Vec<bool>,
    posted: u64,
    ended: u64,
}

impl Initiator {
    /// Operations until the time is over, after a first window that is not measured.
    fn stream(&mut self, control: &mut Control, limits: Limits) -> anyhow::Result<Stream> {
        let first = self.cell.depth as u64;
        self.transfer(first, limits)?;
        ensure!(
            self.ended == first,
            "{} of the first {first} operations ended in {} s",
            self.ended,
            (limits.time + limits.grace).as_secs_f32()
        );
        let (start, cpu) = (Instant::now(), cpu_time()?);
        self.transfer(u64::MAX, limits)?;
        let ended = self.ended - first;
        let cpu = cpu_time()?.saturating_sub(cpu);
        let arrived = if self.cell.transfer == Transfer::Read {
            let took = start.elapsed();
            stop(control, self.posted)?;
            (ended, took)
        } else {
            let delivered = stop(control, self.posted)?;
            (delivered.saturating_sub(first), start.elapsed())
        };
        let ((count, took), sent) = (arrived, self.posted - first);
        ensure!(count > 0, "nothing arrived in {} s", took.as_secs_f32());
        let lost = sent.saturating_sub(count);
        Ok(Stream::new(self.cell.size, u32::try_from(first)?, count, lost, (took, cpu)))
    }

    /// Posts operations up to number `end` while there is time, and waits for their completions.
    fn transfer(&mut self, end: u64, limits: Limits) -> anyhow::Result<()> {
        let start = Instant::now();
        // bound: limits.time and limits.grace
        loop {
            self.poll()?;
            let passed = start.elapsed();
            let posts = passed < limits.time && self.posted < end;
            if posts {
                self.post(end)?;
            } else if self.ended == self.posted || passed >= limits.time + limits.grace {
                return Ok(());
            }
            self.cell.client.sleep();
        }
    }

    /// Posts as many operations as there are free slots.
    fn post(&mut self, end: u64) -> anyhow::Result<()> {
        // bound: the depth
        while self.posted < end {
            let slot = usize::try_from(self.posted % self.cell.depth as u64)?;
            if self.busy[slot] {
                break;
            }
            let memory = self.link.slot(slot);
            let accepted = match self.cell.transfer {
                Transfer::Read => {
                    stamp::clear(memory);
                    self.link.read(slot, self.region)?
                }
                Transfer::Write => {
                    stamp::write(memory, self.posted);
                    self.link.write(slot, self.region)?
                }
                Transfer::Tagged | Transfer::Pingpong => {
                    stamp::write(memory, self.posted);
                    self.link.send(slot)?
                }
            };
            if !accepted {
                break;
            }
            self.busy[slot] = true;
            self.posted += 1;
        }
        Ok(())
    }

    /// Reads the queue once.
    fn poll(&mut self) -> anyhow::Result<()> {
        let (busy, ended) = (&mut self.busy, &mut self.ended);
        let mut done = [0; super::link::BATCH];
        let mut count = 0;
        self.link.poll(|slot| {
            busy[slot] = false;
            *ended += 1;
            done[count] = slot;
            count += 1;
        })?;
        if self.cell.transfer == Transfer::Read {
            for slot in &done[..count] {
                stamp::check(self.link.slot(*slot), *slot as u64)?;
            }
        }
        Ok(())
    }

    /// Ping-pong. The slots after the depth hold receives.
    fn round_trips(&mut self, limits: Limits) -> anyhow::Result<Latency> {
        let depth = self.cell.depth;
        for slot in depth..2 * depth {
            ensure!(self.link.receive(slot)?, "no room for a receive");
        }
        let start = Instant::now();
        let (mut warm, mut samples, mut cpu) = (false, Vec::new(), cpu_time()?);
        // bound: limits.time and limits.grace
        while start.elapsed() < limits.time {
            let sent = Instant::now();
            let took = self.round_trip(limits)?;
            if warm {
                samples.push(took);
            } else {
                // The first round trip makes the connection.
                (warm, cpu) = (true, cpu_time()?);
            }
            ensure!(sent.elapsed() < limits.time + limits.grace, "a round trip took too long");
        }
        ensure!(!samples.is_empty(), "one round trip took {} s", limits.time.as_secs_f32());
        let cpu = cpu_time()?.saturating_sub(cpu);
        Ok(Latency::new(self.cell.size, &samples, 0, cpu))
    }

    /// One round trip, in ns.
    fn round_trip(&mut self, limits: Limits) -> anyhow::Result<u64> {
        let (depth, number) = (self.cell.depth, self.posted);
        let (start, mut reply) = (Instant::now(), None);
        // bound: limits.time and limits.grace
        while reply.is_none() {
            if self.posted == number {
                self.post(number + 1)?;
            }
            self.cell.client.sleep();
            let busy = &mut self.busy;
            self.link.poll(|slot| match slot {
                slot if slot < depth => busy[slot] = false,
                slot => reply = Some(slot),
            })?;
            let passed = start.elapsed();
            ensure!(passed < limits.time + limits.grace, "no answer in {} s", passed.as_secs_f32());
        }
        let took = u64::try_from(start.elapsed().as_nanos())?;
        if let Some(slot) = reply {
            stamp::check(self.link.slot(slot), number)?;
            ensure!(self.link.receive(slot)?, "no room for a receive");
        }
        Ok(took)
    }
}

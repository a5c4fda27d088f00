// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of a measurement.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::link::{BATCH, Link, Opening};
use super::{Answer, Cell, DRAIN, PollInterval, Request, Transfer, stamp};
use ofi_xdp_perf::control::Control;
use ofi_xdp_perf::transport::SessionSide;

/// Longest silence of the client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Reads of the queue between two checks of the control connection, without sleeps.
const POLLS_BETWEEN_CHECKS: u32 = 8192;
/// Sleep between two inspections of memory that is written without calls of the library.
const INSPECTION: Duration = Duration::from_micros(100);

/// Serves the client behind `control`: one measurement.
///
/// # Errors
/// The first failure, which was reported to the client too.
pub fn serve(mut control: Control) -> anyhow::Result<()> {
    let served = session(&mut control);
    if let Err(error) = &served {
        // The client may be gone; then the report fails too.
        let _ = control.send(&Answer::Failed(format!("{error:#}")));
    }
    served
}

fn session(control: &mut Control) -> anyhow::Result<()> {
    let Request::Open(cell) = control.receive(CLIENT_TIMEOUT)? else {
        bail!("the client began out of turn");
    };
    let local = control.local_ip()?;
    let slots = if cell.transfer == Transfer::Pingpong { 2 } else { 1 } * cell.depth;
    let opening = Opening::begin(&cell, SessionSide::Server, local, slots)?;
    control.send(&Answer::Name(opening.name()?))?;
    let Request::Peer(client) = control.receive(CLIENT_TIMEOUT)? else {
        bail!("the client did not give its address");
    };
    let mut target = Target::new(opening.finish(&client)?, cell)?;
    let (key, base) = target.link.region();
    control.send(&Answer::Ready(key, base))?;

    target.transfer(control)?;
    let Request::Stop(posted) = control.receive(CLIENT_TIMEOUT)? else {
        bail!("the client spoke out of turn");
    };
    let delivered = target.drain(posted)?;
    control.send(&Answer::Done(delivered))
}

struct Target {
    link: Link,
    cell: Cell,
    /// By slot: the number of the message that its receive takes.
    expected: Vec<u64>,
    /// Number of the next receive.
    next: u64,
    /// Slots without a posted receive.
    consumed: Vec<usize>,
    /// Messages that have arrived.
    arrived: u64,
}

impl Target {
    fn new(link: Link, cell: Cell) -> anyhow::Result<Self> {
        let depth = cell.depth;
        let (expected, next, arrived) = (vec![0; depth], 0, 0);
        let mut target = Self { link, cell, expected, next, consumed: Vec::new(), arrived };
        match target.cell.transfer {
            Transfer::Tagged | Transfer::Pingpong => {
                target.consumed.extend((0..depth).rev());
                target.post()?;
            }
            Transfer::Read => {
                (0..depth).for_each(|slot| stamp::write(target.link.slot(slot), slot as u64));
            }
            Transfer::Write => {
                (0..depth).for_each(|slot| stamp::clear(target.link.slot(slot)));
            }
        }
        Ok(target)
    }

    /// Posts receives in the free slots.
    fn post(&mut self) -> anyhow::Result<()> {
        // bound: the depth
        while let Some(&slot) = self.consumed.last() {
            if !self.link.receive(slot)? {
                break;
            }
            self.consumed.pop();
            self.expected[slot] = self.next;
            self.next += 1;
        }
        Ok(())
    }

    /// Reads the queue at intervals until the client stops; without reads, only waits for that.
    fn transfer(&mut self, control: &mut Control) -> anyhow::Result<()> {
        if self.cell.server == PollInterval::Never {
            return control.wait(CLIENT_TIMEOUT);
        }
        let between = match self.cell.server {
            PollInterval::Every(0) | PollInterval::Never => POLLS_BETWEEN_CHECKS,
            PollInterval::Every(_) => 1,
        };
        let mut polls = 0;
        // bound: the client's transfer
        loop {
            self.poll()?;
            polls += 1;
            if polls >= between {
                polls = 0;
                if control.is_pending()? {
                    return Ok(());
                }
            }
            self.cell.server.sleep();
        }
    }

    /// Reads the queue once, and answers the messages that need an answer.
    fn poll(&mut self) -> anyhow::Result<()> {
        let (mut done, mut count) = ([0; BATCH], 0);
        self.link.poll(|slot| {
            done[count] = slot;
            count += 1;
        })?;
        let depth = self.cell.depth;
        for slot in done[..count].iter().copied().filter(|slot| *slot < depth) {
            let number = self.expected[slot];
            stamp::check(self.link.slot(slot), number)?;
            self.arrived += 1;
            if self.cell.transfer == Transfer::Pingpong {
                // The slots after the depth hold answers; the client waits for each.
                let answer = depth + slot;
                stamp::write(self.link.slot(answer), number);
                self.until_sent(answer)?;
            }
            self.consumed.push(slot);
        }
        self.post()
    }

    /// Posts an answer.
    fn until_sent(&mut self, slot: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        // bound: DRAIN
        while !self.link.send(slot)? {
            if start.elapsed() >= DRAIN {
                bail!("no room for an answer in {} s", DRAIN.as_secs());
            }
            self.link.poll(|_| {})?;
        }
        Ok(())
    }

    /// Waits until the bytes of all `posted` operations are here. Returns the number of operations
    /// that have arrived.
    fn drain(&mut self, posted: u64) -> anyhow::Result<u64> {
        let start = Instant::now();
        // bound: DRAIN
        loop {
            let delivered = match self.cell.transfer {
                Transfer::Write => self.written(posted),
                Transfer::Tagged => self.arrived,
                Transfer::Read | Transfer::Pingpong => posted,
            };
            if delivered >= posted || start.elapsed() >= DRAIN {
                return Ok(delivered);
            }
            if self.cell.server == PollInterval::Never {
                std::thread::sleep(INSPECTION);
            } else {
                self.poll()?;
                self.cell.server.sleep();
            }
        }
    }

    /// Number of writes whose last bytes are in memory, of `posted`.
    fn written(&self, posted: u64) -> u64 {
        let depth = self.cell.depth as u64;
        let of_slot = |slot: u64| {
            let last = stamp::read(self.link.slot(usize::try_from(slot).ok()?))?;
            (last < posted && last % depth == slot).then_some(last / depth + 1)
        };
        (0..depth).filter_map(of_slot).sum()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The relay's loop: takes frames from both devices, holds them, and gives them to the other host
//! when they are due.
//!
//! In: two devices, a path, commands. Out: frames, reports. The thread of [`super::Relay`] runs it.
//! Bounds: [`BATCH`] frames of a direction at once, [`super::delayed::FRAMES_MAX`] under way.

use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::time::{ClockId, clock_gettime};

use super::card::{Card, CardRule};
use super::delayed::{DelayedFrame, Pool, Queue};
use super::device::Device;
use super::frame::{is_address_resolution, too_long_report};
use super::line::{Fate, Line};
use super::options::PathOptions;
use super::report::RelayReport;
use super::schedule::{Occupancy, occupy_core};

/// Most frames of a direction before the other one has its turn.
const BATCH: usize = 32;
/// Longest sleep between two checks for commands.
const REST_MAX: Duration = Duration::from_millis(20);
/// Time without a frame after which a relay with a core of its own sleeps.
const SPIN: Duration = Duration::from_millis(5);

/// A command to the relay's thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Changes the path.
    Set(PathOptions),
    /// Changes the rule of the card of one host: 0 or 1.
    Card(usize, CardRule),
    /// Asks for the report, and begins a new one.
    Report(Sender<RelayReport>),
}

/// One direction.
#[derive(Debug)]
struct Direction {
    line: Line,
    queue: Queue,
}

/// The relay of one link.
#[derive(Debug)]
pub(super) struct Forwarder {
    /// Direction `n` goes from device `n` to the other one.
    devices: [Device; 2],
    /// The card of the host of each device.
    cards: [Card; 2],
    directions: [Direction; 2],
    pool: Pool,
    options: PathOptions,
    commands: Receiver<Command>,
    epoch: Instant,
    report: RelayReport,
    report_began: (Instant, Duration),
    last_moved: Instant,
}

impl Forwarder {
    /// A relay between two devices with cards that follow `rule`, for frames of at most `frame_max`
    /// bytes.
    pub(super) fn new(
        devices: [Device; 2],
        rule: &CardRule,
        options: PathOptions,
        frame_max: usize,
        commands: Receiver<Command>,
    ) -> Self {
        let direction =
            |number| Direction { line: Line::new(options, number), queue: Queue::default() };
        let now = Instant::now();
        let cards = [0, 1].map(|number: usize| Card::new(rule.clone(), devices[number].queues()));
        Self {
            devices,
            cards,
            directions: [direction(0), direction(1)],
            pool: Pool::new(frame_max),
            options,
            commands,
            epoch: now,
            report: RelayReport::new(),
            report_began: (now, Duration::ZERO),
            last_moved: now,
        }
    }

    /// Forwards until the other end of the commands is gone.
    pub(super) fn run(mut self) {
        // Sleeps of the relay end on time; under SCHED_FIFO they always do.
        let _ = set_timerslack(1);
        let occupancy = occupy_core();
        self.report_began = (Instant::now(), thread_cpu());
        // bound: the life of the relay's owner
        while self.obey() {
            let mut moved = 0;
            for number in [0, 1] {
                moved += self.take(number);
                moved += self.give(number);
            }
            if moved > 0 {
                self.last_moved = Instant::now();
            } else if occupancy != Occupancy::OwnCore || self.last_moved.elapsed() > SPIN {
                self.rest();
            }
        }
    }

    /// Obeys all commands; false if there will be none.
    fn obey(&mut self) -> bool {
        // bound: the owner waits for each report
        loop {
            match self.commands.try_recv() {
                Ok(Command::Set(options)) => {
                    self.options = options;
                    for direction in &mut self.directions {
                        direction.line.set(options);
                    }
                }
                Ok(Command::Card(host, rule)) => self.cards[host].set(rule),
                Ok(Command::Report(to)) => {
                    let (wall, cpu) = self.report_began;
                    self.report_began = (Instant::now(), thread_cpu());
                    let mut report = std::mem::replace(&mut self.report, RelayReport::new());
                    report.wall = self.report_began.0 - wall;
                    report.cpu = self.report_began.1.saturating_sub(cpu);
                    // The owner may have given up.
                    let _ = to.send(report);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes frames that a host has sent; returns their number.
    fn take(&mut self, number: usize) -> usize {
        for count in 0..BATCH {
            let Some(slot) = self.pool.alloc() else {
                // The frame is read all the same, so that it is counted here.
                let read = self.devices[number].read(&mut [0; 64]);
                self.report.counts.no_room += u64::from(matches!(read, Ok(Some(_))));
                return count;
            };
            // An error means that the interface is down.
            let Ok(Some((len, queue))) = self.devices[number].read(self.pool.bytes(slot)) else {
                self.pool.release(slot);
                return count;
            };
            self.cards[number].sent(&self.pool.bytes(slot)[..len], queue);
            self.admit(number, slot, len);
        }
        BATCH
    }

    /// Decides on a frame.
    fn admit(&mut self, number: usize, slot: u32, len: usize) {
        let now = self.now();
        let frame = &self.pool.bytes(slot)[..len];
        let direction = &mut self.directions[number];
        match direction.line.admit(len, is_address_resolution(frame), now) {
            Fate::Due(due) => return direction.queue.push(DelayedFrame { due, slot, len }),
            Fate::TooLong if self.options.hop_reports => {
                let mtu = self.options.hop_mtu.unwrap_or(u16::MAX);
                if let Some(report) = too_long_report(frame, mtu) {
                    // A host without room loses the frame, as on any network.
                    let queue = self.cards[number].queue(&report);
                    let _ = self.devices[number].write(&report, queue);
                }
                self.report.drop_frame(Fate::TooLong);
            }
            fate => self.report.drop_frame(fate),
        }
        self.pool.release(slot);
    }

    /// Gives due frames to the other host; returns their number.
    fn give(&mut self, number: usize) -> usize {
        for count in 0..BATCH {
            let now = self.now();
            let Some(DelayedFrame { due, slot, len }) = self.directions[number].queue.pop_due(now)
            else {
                return count;
            };
            let (frame, host) = (&self.pool.bytes(slot)[..len], 1 - number);
            let queue = self.cards[host].queue(frame);
            match self.devices[host].write(frame, queue) {
                Ok(()) => self.report.forwarded(len, now - due),
                Err(_) => self.report.counts.refused += 1,
            }
            self.pool.release(slot);
        }
        BATCH
    }

    /// Sleeps until a frame comes or is due.
    fn rest(&self) {
        let due = self.directions.iter().filter_map(|direction| direction.queue.next_due()).min();
        let until = due.map(|due| Duration::from_nanos(due.saturating_sub(self.now())));
        let timeout = until.unwrap_or(REST_MAX).min(REST_MAX);
        let files = self.devices.iter().flat_map(Device::files);
        let mut files: Vec<_> = files.map(|file| PollFd::new(file, PollFlags::POLLIN)).collect();
        // A signal ends the sleep, which does no harm.
        let _ = ppoll(&mut files, Some(timeout.into()), None);
    }
}

/// The processor time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

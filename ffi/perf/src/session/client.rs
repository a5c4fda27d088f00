// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client of a session, which measures.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::datagrams;
use super::pattern::{self, Position};
use super::samples::Samples;
use super::ticker::{ProgressObserver, Ticker};
use crate::control::{Control, ControlAnswer, ControlRequest, SessionOpening};
use crate::plan::{Bounds, Fetch, STREAM_SIZE_MIN, Workload};
use crate::report::{Description, Latency, PerfReport, Quiet, Stream};
use crate::transport::{SessionSide, Transport};

/// Longest time of flight on an unreliable transport; a later message counts as lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(50);
/// Empty polls between two reads of the clock.
const POLLS_BETWEEN_CLOCKS: u32 = 1024;

/// The measurements of a session.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'p> {
    /// The measurements, in order.
    pub phases: &'p [Workload],
    /// The bounds of each.
    pub bounds: Bounds,
    /// Whether every byte is checked.
    pub verify: bool,
}

/// Runs a measurement at the server behind `control`. The server reads `announced` as the
/// transport's configuration. `begin` gets each phase before it begins, `observer` its progress.
///
/// # Errors
/// The first failure of either side, of `begin`, or of `observer`.
pub fn run<'o, T: Transport>(
    mut control: Control,
    (config, announced): (&T::Config, impl Serialize),
    measurement: Measurement<'_>,
    mut begin: impl FnMut(&Description, Workload) -> anyhow::Result<()>,
    observer: &'o mut ProgressObserver<'o>,
) -> anyhow::Result<PerfReport> {
    let Measurement { phases, bounds, verify } = measurement;
    let size_max = phases.iter().map(Workload::size).max().unwrap_or(0);
    let local = control.local_ip()?;
    let version = SessionOpening::<()>::VERSION.to_owned();
    control.send(&ControlRequest::Open(SessionOpening {
        version,
        config: announced,
        size_max,
        verify,
    }))?;
    let ControlAnswer::Address(server) = answer(&mut control, bounds)? else {
        bail!("the server did not give its address");
    };
    let pending = T::open(config, SessionSide::Client, local, size_max)?;
    control.send(&ControlRequest::<()>::Address(T::name(&pending)?))?;
    let transport = T::establish(pending, &server).context("no way to the server")?;
    ready(&mut control, bounds)?;

    let ticker = Ticker::new(bounds.interval, observer);
    let mut client = SessionClient { transport, bounds, verify, ticker };
    let (major, minor) = ofi_xdp_libfabric::version();
    let mut report = PerfReport {
        with: client.transport.describe(),
        libfabric: format!("{major}.{minor}"),
        verified: verify,
        latency: Vec::new(),
        stream: Vec::new(),
        start_up_ns: None,
        idle: None,
        datagrams: None,
    };
    for phase in phases {
        begin(&report.with, *phase)?;
        if matches!(phase, Workload::Datagrams { .. }) {
            report.datagrams = Some(datagrams::client(&mut control, bounds.timeout)?);
            continue;
        }
        control.send(&ControlRequest::<()>::Start(*phase))?;
        ready(&mut control, bounds)?;
        match *phase {
            Workload::Latency { size } => report.latency.push(client.latency(size)?),
            Workload::Stream { size, window, ahead } => {
                report.stream.push(client.stream(size, window, ahead)?);
            }
            Workload::FetchLatency { fetch, size } => {
                report.latency.push(client.fetch_latency(fetch, size)?);
            }
            Workload::Fetch { fetch, size, window } => {
                report.stream.push(client.fetches(fetch, size, window)?);
            }
            Workload::StartUp { size } => report.start_up_ns = Some(client.start_up(size)?),
            Workload::Datagrams { .. } => {}
            Workload::Quiet { milliseconds } => report.idle = Some(idle(milliseconds)?),
        }
        control.send(&ControlRequest::<()>::Stop)?;
        ready(&mut control, bounds)?;
    }
    control.send(&ControlRequest::<()>::End)?;
    Ok(report)
}

/// The next answer of the server.
fn answer(control: &mut Control, bounds: Bounds) -> anyhow::Result<ControlAnswer> {
    match control.receive(bounds.timeout)? {
        ControlAnswer::Failed(why) => bail!("the server failed: {why}"),
        answer => Ok(answer),
    }
}

fn ready(control: &mut Control, bounds: Bounds) -> anyhow::Result<()> {
    ensure!(answer(control, bounds)? == ControlAnswer::Ready, "the server answered out of turn");
    Ok(())
}

/// Idles, and returns the processor time of that.
fn idle(milliseconds: u64) -> anyhow::Result<Quiet> {
    let (start, cpu) = (Instant::now(), cpu_time()?);
    std::thread::sleep(Duration::from_millis(milliseconds));
    let cpu = cpu_time()?.saturating_sub(cpu);
    Ok(Quiet { seconds: start.elapsed().as_secs_f64(), cpu_seconds: cpu.as_secs_f64() })
}

/// The processor time of all threads of this process.
fn cpu_time() -> anyhow::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?))
}

/// The next step of a stream.
#[derive(Clone, Copy, Debug)]
enum StreamStep {
    /// Sends the window of this number.
    Next(u32),
    /// Waits for the answers to all windows before this one.
    Rest(u32),
}

struct SessionClient<'o, T> {
    transport: T,
    bounds: Bounds,
    verify: bool,
    ticker: Ticker<'o>,
}

impl<T: Transport> SessionClient<'_, T> {
    /// The first message and its answer, with the time since opening.
    fn start_up(&mut self, size: usize) -> anyhow::Result<u64> {
        let start = Instant::now();
        ensure!(self.round_trip(0, size)?, "the first message was lost");
        let took = self.transport.opening() + start.elapsed();
        Ok(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Ping-pong: a message is sent when the answer to the previous one has arrived.
    fn latency(&mut self, size: usize) -> anyhow::Result<Latency> {
        self.single(size, 2, |client, sequence| client.round_trip(sequence, size))
    }

    /// Operations on the server's memory, one after the other.
    fn fetch_latency(&mut self, fetch: Fetch, size: usize) -> anyhow::Result<Latency> {
        self.single(size, 1, |client, _| client.transport.fetch(fetch, size, 1).map(|()| true))
    }

    /// Single operations, the first ones unmeasured. `step` returns false for one that was lost.
    fn single(
        &mut self,
        size: usize,
        divisor: u64,
        mut step: impl FnMut(&mut Self, u64) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Latency> {
        let mut sequence = 0;
        let warm_up = Instant::now();
        // bound: bounds.warm_up, bounds.time
        while sequence < self.bounds.warm_up && warm_up.elapsed() < self.bounds.time {
            step(self, sequence)?;
            sequence += 1;
        }
        let (mut samples, mut lost) = (Samples::new(divisor), 0);
        let (first, last) = (sequence, sequence.saturating_add(self.bounds.count));
        let cpu = cpu_time()?;
        self.ticker.start();
        let start = Instant::now();
        let mut before = start;
        // bound: bounds.count, bounds.time
        while sequence < last {
            let answered = step(self, sequence)?;
            let mut now = Instant::now();
            let mut is_full = false;
            if answered {
                is_full =
                    samples.push(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX));
            } else {
                lost += 1;
            }
            sequence += 1;
            let elapsed = now - start;
            if elapsed >= self.bounds.time {
                break;
            }
            let is_due = self.ticker.is_due(elapsed);
            if is_due || is_full {
                let median = samples.fold();
                if is_due {
                    self.ticker.report(elapsed, sequence - first, median)?;
                }
                // The time of the report is nobody's latency.
                now = Instant::now();
            }
            before = now;
        }
        let cpu = cpu_time()?.saturating_sub(cpu);
        Ok(Latency::of(size, &samples.finish(), lost, cpu))
    }

    /// One round trip; false if a message was lost.
    #[inline]
    fn round_trip(&mut self, sequence: u64, size: usize) -> anyhow::Result<bool> {
        let verify = self.verify;
        self.transport.send(size, |message| {
            if verify {
                pattern::write(sequence, message);
            }
        })?;
        let mut checked = Ok(());
        let answered = self.until_received(|message| {
            if verify {
                checked = pattern::check(sequence, message, size);
            }
            true
        })?;
        checked.map(|()| answered)
    }

    /// Windows of messages, at most `ahead` of them unanswered.
    fn stream(&mut self, size: usize, window: u32, ahead: u32) -> anyhow::Result<Stream> {
        ensure!(
            size >= STREAM_SIZE_MIN,
            "a stream's messages have {STREAM_SIZE_MIN} bytes at least"
        );
        ensure!(ahead > 0, "one window at least is unanswered");
        let under_way = u64::from(window) * u64::from(ahead);
        if let Some(max) = self.transport.unanswered_max() {
            ensure!(
                under_way <= max as u64,
                "{under_way} messages under way, and {max} buffers for them: take fewer of them, \
                 or shorter messages in a measurement of their own"
            );
        }
        let mut answered = 0;
        self.windows(size, window, |client, step| match step {
            StreamStep::Next(number) => {
                client.window(number, size, window)?;
                client.answers(&mut answered, (number + 1).saturating_sub(ahead - 1))
            }
            StreamStep::Rest(end) => client.answers(&mut answered, end),
        })
    }

    /// Windows of operations on the server's memory.
    fn fetches(&mut self, fetch: Fetch, size: usize, window: u32) -> anyhow::Result<Stream> {
        self.windows(size, window, |client, step| match step {
            StreamStep::Next(_) => {
                client.transport.fetch(fetch, size, window).map(|()| u64::from(window))
            }
            StreamStep::Rest(_) => Ok(0),
        })
    }

    /// Windows, the first ones unmeasured. `step` returns the number of messages that have arrived
    /// since its last call.
    fn windows(
        &mut self,
        size: usize,
        window: u32,
        mut step: impl FnMut(&mut Self, StreamStep) -> anyhow::Result<u64>,
    ) -> anyhow::Result<Stream> {
        ensure!(window > 0, "a window has one message at least");
        let windows = |messages: u64| u32::try_from(messages.div_ceil(u64::from(window)));
        let (warm_up, count) = (windows(self.bounds.warm_up)?, windows(self.bounds.count)?.max(1));
        let mut number = 0;
        let start = Instant::now();
        // bound: bounds.warm_up, bounds.time
        while number < warm_up && start.elapsed() < self.bounds.time {
            step(self, StreamStep::Next(number))?;
            number += 1;
        }
        step(self, StreamStep::Rest(number))?;
        let (first, mut arrived) = (number, 0);
        let cpu = cpu_time()?;
        self.ticker.start();
        let start = Instant::now();
        // bound: bounds.count, bounds.time
        while number < first.saturating_add(count) {
            arrived += step(self, StreamStep::Next(number))?;
            number += 1;
            let elapsed = start.elapsed();
            if elapsed >= self.bounds.time {
                break;
            }
            if self.ticker.is_due(elapsed) {
                self.ticker.report(elapsed, arrived, None)?;
            }
        }
        arrived += step(self, StreamStep::Rest(number))?;
        let times = (start.elapsed(), cpu_time()?.saturating_sub(cpu));
        let sent = u64::from(number - first) * u64::from(window);
        Ok(Stream::new(size, window, arrived, sent.saturating_sub(arrived), times))
    }

    /// Sends one window.
    fn window(&mut self, number: u32, size: usize, window: u32) -> anyhow::Result<()> {
        let verify = self.verify;
        for index in 0..window {
            self.transport.send(size, |message| {
                if verify {
                    let sequence = u64::from(number) * u64::from(window) + u64::from(index);
                    pattern::write(sequence, message);
                }
                Position { window: number, index }.write(message);
            })?;
        }
        Ok(())
    }

    /// Waits until all windows before `end` are `answered` or count as lost. Returns the number of
    /// messages in the answers.
    fn answers(&mut self, answered: &mut u32, end: u32) -> anyhow::Result<u64> {
        let mut arrived = 0;
        if *answered < end {
            self.until_received(|message| {
                // Otherwise it is the late answer to a window that counts as lost.
                if let Some(position) =
                    Position::read(message).filter(|position| position.window >= *answered)
                {
                    arrived += u64::from(position.index);
                    *answered = position.window + 1;
                }
                *answered >= end
            })?;
            *answered = end.max(*answered);
        }
        Ok(arrived)
    }

    /// Polls until `accept` takes a message. Returns false if a message was lost on an unreliable
    /// transport; on a reliable one, a missing message is an error.
    #[inline]
    fn until_received(&mut self, mut accept: impl FnMut(&[u8]) -> bool) -> anyhow::Result<bool> {
        let mut polls = 0_u32;
        let mut since = None;
        // bound: LOSS_TIMEOUT or bounds.timeout
        loop {
            let mut accepted = false;
            self.transport.poll(|message| accepted |= accept(message))?;
            if accepted {
                return Ok(true);
            }
            polls += 1;
            if polls < POLLS_BETWEEN_CLOCKS && !self.transport.sleeps() {
                std::hint::spin_loop();
                continue;
            }
            polls = 0;
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if !self.transport.is_reliable() && waited >= LOSS_TIMEOUT {
                return Ok(false);
            }
            if waited >= self.bounds.timeout {
                bail!("no answer in {} s", self.bounds.timeout.as_secs_f32());
            }
        }
    }
}

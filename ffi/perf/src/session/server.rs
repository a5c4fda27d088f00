// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server of a session, which answers.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;

use super::datagrams;
use super::pattern::{self, Position};
use crate::control::{Control, ControlAnswer, ControlRequest, SessionOpening};
use crate::plan::Workload;
use crate::transport::{SessionSide, Transport};

/// Longest wait for the first request: the next client waits meanwhile.
pub(crate) const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence of the client on the control connection between measurements.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest message that a client may ask for.
const SIZE_MAX: usize = 256 << 20;
/// Consecutive empty polls before the server checks the control connection: few enough to end soon,
/// and never reached while messages come.
const POLLS_BEFORE_CONTROL: u32 = 8192;
/// Most messages of one poll, for which room is reserved.
const ARRIVALS: usize = 256;

/// Serves the client behind `control` until it ends the session.
///
/// # Errors
/// The first failure, which was reported to the client too.
pub fn serve<T: Transport>(control: Control) -> anyhow::Result<()> {
    answer_all(control, |control, opening| session::<T>(control, &opening))
}

/// Serves the client behind `control` by `session`, which gets the first request.
///
/// # Errors
/// The first failure, which was reported to the client too.
pub fn answer_all<C: DeserializeOwned>(
    mut control: Control,
    session: impl FnOnce(&mut Control, SessionOpening<C>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let served = opening(&mut control).and_then(|opening| session(&mut control, opening));
    if let Err(error) = &served {
        // The client may be gone; then the report fails too.
        let _ = control.send(&ControlAnswer::Failed(format!("{error:#}")));
    }
    served
}

/// The first request.
fn opening<C: DeserializeOwned>(control: &mut Control) -> anyhow::Result<SessionOpening<C>> {
    let ControlRequest::Open(opening) =
        control.receive::<ControlRequest<serde_json::Value>>(OPENING_TIMEOUT)?
    else {
        bail!("the client began out of turn");
    };
    let (ours, theirs) = (SessionOpening::<C>::VERSION, &opening.version);
    ensure!(ours == theirs, "the server has version {ours}, the client {theirs}: install one");
    let size_max = opening.size_max;
    ensure!(size_max <= SIZE_MAX, "messages have {SIZE_MAX} bytes at most, not {size_max}");
    let config = C::deserialize(&opening.config).context("the client wants another program")?;
    Ok(opening.with(config))
}

/// A session from its first request on.
///
/// # Errors
/// The first failure.
pub fn session<T: Transport>(
    control: &mut Control,
    opening: &SessionOpening<T::Config>,
) -> anyhow::Result<()> {
    let SessionOpening { config, size_max, verify, .. } = opening;
    let (size_max, verify) = (*size_max, *verify);
    let local = control.local_ip()?;
    let pending = T::open(config, SessionSide::Server, local, size_max)?;
    control.send(&ControlAnswer::Address(T::name(&pending)?))?;
    let ControlRequest::<()>::Address(client) = control.receive(CLIENT_TIMEOUT)? else {
        bail!("the client did not give its address");
    };
    let transport = T::establish(pending, &client)?;
    control.send(&ControlAnswer::Ready)?;

    let mut server = SessionServer {
        transport,
        verify,
        idle: 0,
        sequence: 0,
        arrivals: Vec::with_capacity(ARRIVALS),
    };
    // bound: the client's phases
    loop {
        match control.receive(CLIENT_TIMEOUT)? {
            ControlRequest::<()>::Start(Workload::Datagrams { port }) => {
                datagrams::server(control, port, CLIENT_TIMEOUT)?;
            }
            ControlRequest::Start(phase) => {
                control.send(&ControlAnswer::Ready)?;
                server.sequence = 0;
                match phase {
                    Workload::Latency { size } | Workload::StartUp { size } => {
                        server.echo(control, size)?;
                    }
                    Workload::Stream { size, window, .. } => server.sink(control, size, window)?,
                    // These need only progress of the server.
                    Workload::FetchLatency { size, .. } | Workload::Fetch { size, .. } => {
                        server.sink(control, size, u32::MAX)?;
                    }
                    Workload::Datagrams { .. } | Workload::Quiet { .. } => {}
                }
            }
            ControlRequest::Stop => control.send(&ControlAnswer::Ready)?,
            ControlRequest::End => return Ok(()),
            ControlRequest::Open(_) | ControlRequest::Address(_) => {
                bail!("the client spoke out of turn")
            }
        }
    }
}

struct SessionServer<T> {
    transport: T,
    verify: bool,
    /// Consecutive empty polls.
    idle: u32,
    /// The number of the next message.
    sequence: u64,
    /// The messages of one poll: lengths for an echo, positions for a stream.
    arrivals: Vec<(usize, Option<Position>)>,
}

impl<T: Transport> SessionServer<T> {
    /// Sends every message back, until the client stops.
    fn echo(&mut self, control: &mut Control, size: usize) -> anyhow::Result<()> {
        let verify = self.verify;
        // bound: the client's phase
        while !self.is_over(control)? {
            let (mut checked, first) = (Ok(()), self.sequence);
            let (arrivals, next) = (&mut self.arrivals, &mut self.sequence);
            arrivals.clear();
            self.transport.poll(|message| {
                if verify && checked.is_ok() {
                    checked = pattern::check(*next, message, size);
                }
                arrivals.push((message.len(), None));
                *next += 1;
            })?;
            checked?;
            for (sequence, (len, _)) in (first..).zip(arrivals.iter()) {
                self.transport.send(*len, |message| {
                    if verify {
                        pattern::write(sequence, message);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Receives windows of messages and answers each at its last message, until the client stops.
    fn sink(&mut self, control: &mut Control, size: usize, window: u32) -> anyhow::Result<()> {
        let strict = self.verify && self.transport.is_reliable();
        let (mut current, mut arrived) = (0_u32, 0_u32);
        // bound: the client's phase
        while !self.is_over(control)? {
            let mut checked = Ok(());
            let (arrivals, next) = (&mut self.arrivals, &mut self.sequence);
            arrivals.clear();
            self.transport.poll(|message| {
                if strict && checked.is_ok() {
                    checked = check_in_order(*next, message, size, window);
                }
                arrivals.push((message.len(), Position::read(message)));
                *next += 1;
            })?;
            checked?;
            for position in arrivals.iter().filter_map(|(_, position)| *position) {
                if position.window != current {
                    (current, arrived) = (position.window, 0);
                }
                arrived += 1;
                if position.index + 1 == window {
                    let answer = Position { window: current, index: arrived };
                    self.transport.send(8, |message| answer.write(message))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the client has sent a request, which ends the phase. Called only when nothing
    /// arrives.
    fn is_over(&mut self, control: &mut Control) -> anyhow::Result<bool> {
        if !self.arrivals.is_empty() {
            self.idle = 0;
            return Ok(false);
        }
        self.idle += 1;
        if self.idle < POLLS_BEFORE_CONTROL && !self.transport.sleeps() {
            std::hint::spin_loop();
            return Ok(false);
        }
        self.idle = 0;
        control.is_pending()
    }
}

/// Checks that `message` is number `sequence` of a stream.
fn check_in_order(sequence: u64, message: &[u8], size: usize, window: u32) -> anyhow::Result<()> {
    ensure!(message.len() == size, "message {sequence} has {} bytes, not {size}", message.len());
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let window = u64::from(window);
    let wanted = Position { window: number(sequence / window), index: number(sequence % window) };
    let position = Position::read(message);
    ensure!(
        position == Some(wanted),
        "message {sequence} should be {wanted:?}, and is {position:?}"
    );
    // The first bytes are the header.
    let mut whole = message.to_vec();
    let mut start = [0; 8];
    pattern::write(sequence, &mut start);
    whole[..8].copy_from_slice(&start);
    pattern::check(sequence, &whole, size)
}

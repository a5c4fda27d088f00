// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server of a session, which answers.

use std::time::Duration;

use anyhow::{bail, ensure};

use super::pattern::{self, Position};
use crate::control::{Answer, Control, Request};
use crate::plan::Phase;
use crate::transport::{Role, Transport};

/// Longest silence of the client on the control connection.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);
/// Consecutive empty polls before the server checks the control connection: few enough to end soon,
/// and never reached while messages come.
const POLLS_BEFORE_CONTROL: u32 = 8192;
/// Most messages of one poll, for which room is reserved.
const ARRIVALS: usize = 256;

/// Serves the client behind `control` until it ends the session.
///
/// # Errors
/// The first failure, which was reported to the client too.
pub fn serve<T: Transport>(mut control: Control) -> anyhow::Result<()> {
    let served = session::<T>(&mut control);
    if let Err(error) = &served {
        // The client may be gone; then the report fails too.
        let _ = control.send(&Answer::Failed(format!("{error:#}")));
    }
    served
}

fn session<T: Transport>(control: &mut Control) -> anyhow::Result<()> {
    let Request::Open((config, size_max), verify) = control.receive(CLIENT_TIMEOUT)? else {
        bail!("the client began out of turn");
    };
    let local = control.local_ip()?;
    let pending = T::open(&config, Role::Server, local, size_max)?;
    control.send(&Answer::Address(T::name(&pending)?))?;
    let Request::<()>::Address(client) = control.receive(CLIENT_TIMEOUT)? else {
        bail!("the client did not give its address");
    };
    let transport = T::establish(pending, &client)?;
    control.send(&Answer::Ready)?;

    let mut server =
        Server { transport, verify, idle: 0, sequence: 0, arrivals: Vec::with_capacity(ARRIVALS) };
    // bound: the client's phases
    loop {
        match control.receive(CLIENT_TIMEOUT)? {
            Request::<()>::Start(phase) => {
                control.send(&Answer::Ready)?;
                server.sequence = 0;
                match phase {
                    Phase::Latency { size } | Phase::StartUp { size } => {
                        server.echo(control, size)?;
                    }
                    Phase::Stream { size, window, .. } => server.sink(control, size, window)?,
                    // Reads need only progress of the server.
                    Phase::Read { size, .. } => server.sink(control, size, u32::MAX)?,
                    Phase::Idle { .. } => {}
                }
            }
            Request::Stop => control.send(&Answer::Ready)?,
            Request::End => return Ok(()),
            Request::Open(..) | Request::Address(_) => bail!("the client spoke out of turn"),
        }
    }
}

struct Server<T> {
    transport: T,
    verify: bool,
    /// Consecutive empty polls.
    idle: u32,
    /// The number of the next message.
    sequence: u64,
    /// The messages of one poll: lengths for an echo, positions for a stream.
    arrivals: Vec<(usize, Option<Position>)>,
}

impl<T: Transport> Server<T> {
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

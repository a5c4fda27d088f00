// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answering side.

use std::time::Duration;

use anyhow::{bail, ensure};

use super::pattern::{self, Place};
use crate::control::{Answer, Control, Request};
use crate::plan::Phase;
use crate::transport::{Role, Transport};

/// How long the client may say nothing on the control connection.
const CLIENT_PATIENCE: Duration = Duration::from_secs(120);
/// How many fruitless polls in a row before the server asks whether the client has said something:
/// often enough to end soon, never while messages come.
const POLLS_BEFORE_CONTROL: u32 = 8192;
/// Most messages that one poll may hand over, for which room is reserved.
const ARRIVALS: usize = 256;

/// Serves the client behind `control` until it ends the session.
///
/// # Errors
/// The first failure, which the client has been told too.
pub fn serve<T: Transport>(mut control: Control) -> anyhow::Result<()> {
    let served = session::<T>(&mut control);
    if let Err(error) = &served {
        // The client may be gone; then there is nobody to tell.
        let _ = control.send(&Answer::Failed(format!("{error:#}")));
    }
    served
}

fn session<T: Transport>(control: &mut Control) -> anyhow::Result<()> {
    let Request::Open((config, size_max), verify) = control.receive(CLIENT_PATIENCE)? else {
        bail!("the client began out of turn");
    };
    let local = control.local_ip()?;
    let pending = T::open(&config, Role::Server, local, size_max)?;
    control.send(&Answer::Address(T::name(&pending)?))?;
    let Request::<()>::Address(client) = control.receive(CLIENT_PATIENCE)? else {
        bail!("the client did not give its address");
    };
    let transport = T::establish(pending, &client)?;
    control.send(&Answer::Ready)?;

    let mut server =
        Server { transport, verify, idle: 0, sequence: 0, arrivals: Vec::with_capacity(ARRIVALS) };
    // bound: the client's phases
    loop {
        match control.receive(CLIENT_PATIENCE)? {
            Request::<()>::Start(phase) => {
                control.send(&Answer::Ready)?;
                server.sequence = 0;
                match phase {
                    Phase::Latency { size } | Phase::StartUp { size } => {
                        server.echo(control, size)?;
                    }
                    Phase::Stream { size, window, .. } => server.sink(control, size, window)?,
                    // Progress is all that reads need of it.
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
    /// Fruitless polls in a row.
    idle: u32,
    /// The next message's number.
    sequence: u64,
    /// The messages of one poll: lengths for an echo, places for a stream.
    arrivals: Vec<(usize, Option<Place>)>,
}

impl<T: Transport> Server<T> {
    /// Sends every message back, until the client stops.
    fn echo(&mut self, control: &mut Control, size: usize) -> anyhow::Result<()> {
        let verify = self.verify;
        // bound: the client's phase
        while !self.is_over(control)? {
            let (mut verdict, first) = (Ok(()), self.sequence);
            let (arrivals, next) = (&mut self.arrivals, &mut self.sequence);
            arrivals.clear();
            self.transport.poll(|message| {
                if verify && verdict.is_ok() {
                    verdict = pattern::check(*next, message, size);
                }
                arrivals.push((message.len(), None));
                *next += 1;
            })?;
            verdict?;
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

    /// Takes windows of messages and answers each at its last message, until the client stops.
    fn sink(&mut self, control: &mut Control, size: usize, window: u32) -> anyhow::Result<()> {
        let strict = self.verify && self.transport.is_reliable();
        let (mut current, mut arrived) = (0_u32, 0_u32);
        // bound: the client's phase
        while !self.is_over(control)? {
            let mut verdict = Ok(());
            let (arrivals, next) = (&mut self.arrivals, &mut self.sequence);
            arrivals.clear();
            self.transport.poll(|message| {
                if strict && verdict.is_ok() {
                    verdict = check_in_order(*next, message, size, window);
                }
                arrivals.push((message.len(), Place::read(message)));
                *next += 1;
            })?;
            verdict?;
            for place in arrivals.iter().filter_map(|(_, place)| *place) {
                if place.window != current {
                    (current, arrived) = (place.window, 0);
                }
                arrived += 1;
                if place.index + 1 == window {
                    let answer = Place { window: current, index: arrived };
                    self.transport.send(8, |message| answer.write(message))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the client has said something, which ends the phase. Asked only when nothing
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
    let wanted = Place { window: number(sequence / window), index: number(sequence % window) };
    let place = Place::read(message);
    ensure!(place == Some(wanted), "message {sequence} should be {wanted:?}, and is {place:?}");
    // The header took the place of the first bytes.
    let mut whole = message.to_vec();
    let mut start = [0; 8];
    pattern::write(sequence, &mut start);
    whole[..8].copy_from_slice(&start);
    pattern::check(sequence, &whole, size)
}

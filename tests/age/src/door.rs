// SPDX-License-Identifier: MIT OR Apache-2.0
//! A door: it listens for connections (`FI_EP_MSG`), and answers the requests of each with their
//! own bytes, until the other side ends the connection or is dead.
//!
//! In: the number of its host. Out: lines for the run. Bounds: a visitor of each host at a time;
//! the connection of one that was killed stays for the peer time-out.

use std::time::Duration;

use anyhow::Context;
use ofi_xdp_harness::interrupt;
use ofi_xdp_libfabric::{Completion, Endpoint, Error, Listener, Operation, Peer, Setup, Wait};

use crate::hosts::DOOR_PORT;
use crate::offer::{self, Role};
use crate::payload::{ANSWER, LENGTH_MAX, REQUEST, verify};
use crate::resident::say;
use crate::slots::{Next, Waiting};

/// Requests of a connection that are answered at a time.
pub(crate) const WINDOW: usize = 4;
/// Pause of the loop without connections, and with some from which nothing has come.
const REST: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_micros(200);

/// A connection.
#[derive(Debug)]
struct Guest {
    endpoint: Endpoint,
    waiting: Waiting,
    connected: bool,
    served: u64,
}

/// Runs the door of `host`: prints `door`, listens until SIGTERM, closes everything when the last
/// connection has ended, prints `closed`, and waits to be killed.
pub(crate) fn run(host: u8) -> anyhow::Result<()> {
    interrupt::install()?;
    let (_, listener) = offer::open(host, Role::Listener(DOOR_PORT), Listener::open)?;
    say("door")?;
    let (mut guests, mut served, mut accepted) = (Vec::<Guest>::new(), 0, 0);
    while !guests.is_empty() || interrupt::check().is_ok() {
        let mut came = false;
        let mut stay = Vec::new();
        for mut guest in guests {
            match guest.turn()? {
                Some(count) => {
                    came |= count > 0;
                    stay.push(guest);
                }
                None => served += guest.served,
            }
        }
        guests = stay;
        if !came {
            std::thread::sleep(if guests.is_empty() { REST } else { PAUSE });
        }
        if let Some(endpoint) = next(&listener)? {
            accepted += 1;
            guests.push(Guest::new(endpoint));
        }
    }
    drop(listener);
    say(&format!("closed {accepted} connections, {served} answers"))?;
    // bound: the run, which kills this process
    loop {
        std::thread::park();
    }
}

/// The next connection; `None` without a request.
fn next(listener: &Listener) -> anyhow::Result<Option<Endpoint>> {
    let setup = Setup { slots: WINDOW, size: LENGTH_MAX, wait: Wait::Spin };
    match listener.accept_next(setup, Duration::ZERO) {
        Err(Error::Timeout { .. } | Error::Again) => Ok(None),
        accepted => Ok(Some(accepted.context("a connection is not accepted")?)),
    }
}

impl Guest {
    fn new(endpoint: Endpoint) -> Self {
        let mut waiting = Waiting::default();
        (0..WINDOW).for_each(|slot| waiting.push(slot, Next::Receive(REQUEST)));
        Self { endpoint, waiting, connected: false, served: 0 }
    }

    /// Answers the requests that have come. Returns the number of completions; `None` at the end of
    /// the connection. A peer time-out ends it with errors.
    fn turn(&mut self) -> anyhow::Result<Option<usize>> {
        if !self.connected {
            match self.endpoint.wait_connected(Duration::ZERO) {
                Ok(()) => self.connected = true,
                Err(Error::Timeout { .. }) => return Ok(Some(0)),
                Err(_) => return Ok(None),
            }
        }
        if !matches!(self.waiting.post(&mut self.endpoint), Ok(None)) {
            return Ok(None);
        }
        let mut came = Vec::new();
        let Ok(count) = self.endpoint.poll(|completion| came.push(completion)) else {
            return Ok(None);
        };
        for Completion { slot, operation, len, .. } in came {
            if operation != Operation::Receive {
                self.waiting.push(slot, Next::Receive(REQUEST));
                continue;
            }
            let bytes = self.endpoint.bytes(slot)?.get(..len).context("a long request")?;
            verify(bytes)?;
            self.served += 1;
            self.waiting.push(slot, Next::Send(len, Peer::CONNECTED, ANSWER));
        }
        let stays = matches!(
            self.endpoint.wait_shutdown(Duration::ZERO),
            Err(Error::Timeout { .. } | Error::Again)
        );
        Ok(stays.then_some(count))
    }
}

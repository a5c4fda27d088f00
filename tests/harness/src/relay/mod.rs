// SPDX-License-Identifier: MIT OR Apache-2.0
//! A relay: joins an interface of one host to an interface of another by a path. The path has
//! delay, loss, a bottleneck with a queue, and a hop of a smaller MTU.
//!
//! Each interface is a TAP device whose other end is a file of the relay. A thread of this process
//! reads frames, decides on each (`line`), holds it (`delayed`) and writes it when it is due
//! (`forward`). The card of a host (`card`) picks the receive queue of each frame.
//! [`topology`](crate::topology) makes hosts with such links; the program `relay` does it by hand.
//! ARP and neighbour discovery pass like any frame, and are never lost at random.
//!
//! The relay accounts for itself ([`RelayReport`]): a measurement is one of the path only as long
//! as the relay is on time and has room.

mod card;
mod delayed;
mod device;
mod forward;
mod frame;
mod line;
mod options;
mod report;
mod schedule;

use std::fs::File;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};

use device::Device;
use forward::{Command, Forwarder};

pub use card::{CardRule, Spread};
pub use options::{DELAY_MAX, MILLION, PathOptions};
pub use report::{Counts, RelayReport};

/// How long the relay's thread may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a frame beyond the IP packet: the Ethernet header with a VLAN tag.
const HEADER_MAX: usize = 18;

/// One end of a relay: an interface that does not exist yet, on a host.
#[derive(Debug)]
pub struct End {
    /// The host's network namespace, open.
    pub namespace: File,
    /// The interface's name.
    pub interface: String,
}

/// A running relay. On drop it ends, and its interfaces are removed.
#[derive(Debug)]
pub struct Relay {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Makes both interfaces with `queues` queues and cards that follow `rule`, and forwards
    /// between them. `mtu` is the largest IP packet that either interface will have.
    ///
    /// # Errors
    /// Without privilege, without TAP devices, or for a path beyond the bounds.
    pub fn start(
        ends: [End; 2],
        (queues, rule): (u32, &CardRule),
        options: PathOptions,
        mtu: u32,
    ) -> anyhow::Result<Self> {
        check(options)?;
        let [a, b] = ends.map(|end| Device::new(end.namespace, &end.interface, queues));
        let frame_max = usize::try_from(mtu)? + HEADER_MAX;
        let (commands, receiver) = mpsc::channel();
        let forwarder = Forwarder::new([a?, b?], rule, options, frame_max, receiver);
        let name = String::from("relay");
        let thread = std::thread::Builder::new().name(name).spawn(|| forwarder.run())?;
        Ok(Self { commands: Some(commands), thread: Some(thread) })
    }

    /// Changes the path, and begins the losses anew. Frames under way keep their times.
    ///
    /// # Errors
    /// For a path beyond the bounds.
    pub fn set(&self, options: PathOptions) -> anyhow::Result<()> {
        check(options)?;
        self.command(Command::Set(options))
    }

    /// Changes the rule by which the card of one host, 0 or 1, picks receive queues.
    ///
    /// # Errors
    /// When the relay has ended.
    pub fn set_card(&self, host: usize, rule: CardRule) -> anyhow::Result<()> {
        ensure!(host < 2, "a link has two hosts");
        self.command(Command::Card(host, rule))
    }

    /// The report since the start, or since the last report.
    ///
    /// # Errors
    /// When the relay's thread does not answer.
    pub fn report(&self) -> anyhow::Result<RelayReport> {
        let (to, from) = mpsc::channel();
        self.command(Command::Report(to))?;
        from.recv_timeout(ANSWER_TIMEOUT).context("the relay does not answer")
    }

    fn command(&self, command: Command) -> anyhow::Result<()> {
        let sent = self.commands.as_ref().map(|commands| commands.send(command));
        sent.and_then(Result::ok).context("the relay has ended")
    }
}

fn check(options: PathOptions) -> anyhow::Result<()> {
    ensure!(options.delay <= DELAY_MAX, "a delay of more than {DELAY_MAX:?}");
    ensure!(options.loss_ppm <= MILLION, "a loss of more than everything");
    ensure!(options.rate != Some(0), "a rate of nothing");
    Ok(())
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

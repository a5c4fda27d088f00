// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a message among many posted receives or stored messages:
//! `matching --provider xdp --local 127.0.0.1 --depth 10000 [--stored]`.
//!
//! Two endpoints of one thread, with a tag for each receive and message. A message, or a receive,
//! has a tag at random among those that wait, and another one takes its place. The program prints
//! the time of a message as one JSON object. It includes the kernel's sockets, which cost the same
//! at each depth. Bound: the rounds, and [`PATIENCE`] for each message.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Parser;
use ofi_xdp_bench::report::Matching;
use ofi_xdp_bench::want::tagged_messages;
use ofi_xdp_libfabric::{Endpoint, Error, Info, Operation, Peer, Route, Setup, Wait};

/// Bytes of a message.
const LEN: usize = 8;
/// The longest time without a message that is awaited.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time after which messages without a receive are stored.
const ARRIVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The provider, by its full name
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The local address of both endpoints
    #[arg(long, value_name = "IP")]
    local: IpAddr,
    /// Posted receives, or stored messages
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    depth: usize,
    /// Messages wait for receives; otherwise receives wait for messages
    #[arg(long)]
    stored: bool,
    /// Messages of a round
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    messages: u64,
    /// Rounds after the first, which is not measured
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    ensure!(cli.depth > 0, "nothing waits");
    let mut bench = Bench::open(&cli)?;
    bench.fill()?;
    bench.round(cli.messages)?;
    let rounds = (0..cli.rounds).map(|_| bench.round(cli.messages));
    let message_ns = rounds.collect::<anyhow::Result<_>>()?;
    let matching = Matching { provider: cli.provider, depth: cli.depth as u64, message_ns };
    println!("{}", serde_json::to_string(&matching)?);
    Ok(())
}

/// Pseudorandom numbers, the same in each run (Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// The two endpoints.
struct Bench {
    sender: Endpoint,
    receiver: Endpoint,
    to: Peer,
    depth: usize,
    stored: bool,
    random: Random,
    /// Tags of messages that have arrived.
    arrived: Vec<u64>,
}

impl Bench {
    fn open(cli: &Cli) -> anyhow::Result<Self> {
        let mut info = Info::find(&tagged_messages(&cli.provider, cli.local, None))?;
        ensure!(info.inject_size() >= LEN, "{} injects no messages", cli.provider);
        let setup = Setup { slots: 16, size: 64, wait: Wait::Spin };
        let mut sender = Endpoint::open(&info, setup)?;
        // A buffer for each posted receive: that of the tag.
        let slots = if cli.stored { 16 } else { cli.depth };
        info.set_receive_depth(slots.next_power_of_two().max(info.receive_depth()));
        let mut receiver = Endpoint::open(&info, Setup { slots, ..setup })?;
        let to = sender.insert(&receiver.name()?)?;
        let back = receiver.insert(&sender.name()?)?;
        let (depth, stored) = (cli.depth, cli.stored);
        let random = Random(0x9e37_79b9);
        let mut bench = Self { sender, receiver, to, depth, stored, random, arrived: Vec::new() };
        bench.greet(Route { peer: back, tag: Some(u64::MAX) })?;
        Ok(bench)
    }

    /// Sends a message from the receiver to the sender: it may store the messages of a peer that it
    /// sends to in the whole storage.
    fn greet(&mut self, back: Route) -> anyhow::Result<()> {
        let slot = 1;
        self.sender.receive(slot, back.tag)?;
        self.until_room(|bench| bench.receiver.inject(0, LEN, back))?;
        let start = Instant::now();
        while !self.sender.is_free(slot) {
            self.sender.poll(|_| ())?;
            self.receiver.poll(|_| ())?;
            ensure!(start.elapsed() < PATIENCE, "no connection");
        }
        Ok(())
    }

    /// Posts a receive, or sends a message, for each tag.
    fn fill(&mut self) -> anyhow::Result<()> {
        for tag in 0..self.depth {
            if self.stored { self.send(tag)? } else { self.receive(tag, tag)? }
        }
        let start = Instant::now();
        while start.elapsed() < ARRIVAL {
            self.progress()?;
        }
        Ok(())
    }

    /// Nanoseconds of a message, over a round.
    fn round(&mut self, messages: u64) -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..messages {
            let tag = self.random.below(self.depth);
            if self.stored {
                self.receive(0, tag)?;
                self.await_message(tag)?;
                self.send(tag)?;
                self.progress()?;
            } else {
                self.send(tag)?;
                self.await_message(tag)?;
                self.receive(tag, tag)?;
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / messages.max(1) as f64)
    }

    fn await_message(&mut self, tag: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        while self.arrived.is_empty() {
            self.progress()?;
            ensure!(start.elapsed() < PATIENCE, "message {tag} is lost");
        }
        let found = self.arrived.pop();
        ensure!(found == Some(tag as u64), "message {found:?}, not {tag}");
        Ok(())
    }

    fn send(&mut self, tag: usize) -> anyhow::Result<()> {
        let to = Route { peer: self.to, tag: Some(tag as u64) };
        self.until_room(|bench| bench.sender.inject(0, LEN, to))
    }

    fn receive(&mut self, slot: usize, tag: usize) -> anyhow::Result<()> {
        self.until_room(|bench| bench.receiver.receive(slot, Some(tag as u64)))
    }

    fn until_room(
        &mut self,
        mut post: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            match post(self) {
                Err(Error::Again) if start.elapsed() < PATIENCE => self.progress()?,
                posted => return Ok(posted?),
            }
        }
    }

    /// Polls both sides.
    fn progress(&mut self) -> anyhow::Result<()> {
        let mut other = None;
        let arrived = &mut self.arrived;
        self.sender.poll(|done| other = Some(done.operation))?;
        self.receiver.poll(|done| match done.operation {
            Operation::Receive => arrived.push(done.tag),
            operation => other = Some(operation),
        })?;
        if let Some(operation) = other {
            bail!("a completion of {operation:?}, where only messages arrive");
        }
        Ok(())
    }
}

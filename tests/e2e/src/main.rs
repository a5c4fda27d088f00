// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that misbehave, for the end-to-end tests: send to a peer that dies, occupy a port, send
//! garbage, converse while the network changes.
//!
//! Each task prints a line for each event that the test waits for, and is bounded in time.

mod pair;
mod reads;
mod traffic;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::pair::{LIFE, Pair, SIZE, SLOTS, TAG, open, open_with, say, want};
use crate::traffic::{LENGTH_MAX, WINDOW};
use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use ofi_xdp_harness::interrupt;
use ofi_xdp_libfabric::{
    Endpoint, Error, Info, Kind, Listener, Name, Operation, Peer, Route, Setup, Wait,
};

/// Limit of a conversation: on a busy machine, changes of the network take long.
const TALK: Duration = Duration::from_secs(110);

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Open an endpoint, print `name HEX`, and receive messages until killed
    Sink {
        local: IpAddr,
        #[arg(long)]
        port: Option<u16>,
    },
    /// Send to a sink without end; when a send fails, print how all outstanding sends ended
    Flood { local: IpAddr, sink: String },
    /// Send random datagrams, some of them similar to packets, to a UDP port
    Spray { target: SocketAddr, milliseconds: u64 },
    /// Two endpoints in one process that send to each other
    Pair { local: IpAddr },
    /// Two endpoints in one process, messages in one direction. The read that finds a message has a
    /// function of its own. Print the number of messages, as the programs of `tests/bench/engine`
    /// do
    Reads { local: IpAddr, count: u64 },
    /// Open an endpoint, print `name HEX`, and send every message back until killed
    Echo {
        local: IpAddr,
        #[arg(long)]
        port: Option<u16>,
        /// Listen, and send back the messages of one connection
        #[arg(long)]
        connected: bool,
        /// Post so many more receives, for the messages of liars. Receives may end in error then;
        /// print a line about the first one
        #[arg(long, default_value_t = 0)]
        lies: usize,
    },
    /// Send messages to an echo and verify each returned one, until SIGTERM; print `begun` after
    /// the first answer, and their number at the end
    Converse {
        local: IpAddr,
        echo: String,
        #[arg(long)]
        port: Option<u16>,
        /// Connect to an echo that listens
        #[arg(long)]
        connected: bool,
    },
    /// Send one message to an echo, and print the microseconds until it was accepted
    Knock { local: IpAddr, echo: String },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Sink { local, port } => sink(local, port),
        Task::Flood { local, sink } => flood(local, &sink),
        Task::Spray { target, milliseconds } => spray(target, Duration::from_millis(milliseconds)),
        Task::Pair { local } => pair(local),
        Task::Reads { local, count } => reads::run(local, count),
        Task::Echo { local, port, connected: false, lies } => echo(local, port, lies),
        Task::Echo { local, port, connected: true, .. } => echo_connected(local, port),
        Task::Converse { local, echo, port, connected } => {
            converse(local, &echo, (port, connected))
        }
        Task::Knock { local, echo } => knock(local, &echo),
    }
}

/// Prints the name of an endpoint.
fn say_name(Name(bytes): &Name) -> anyhow::Result<()> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    say(&format!("name {hex}"))
}

/// Parses the output of [`say_name`].
fn read_name(hex: &str) -> anyhow::Result<Name> {
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
    Ok(Name(bytes.collect::<Result<_, _>>()?))
}

fn sink(local: IpAddr, port: Option<u16>) -> anyhow::Result<()> {
    let mut endpoint = open(local, port)?;
    let mut free: Vec<usize> = (0..SLOTS).collect();
    say_name(&endpoint.name()?)?;
    let end = Instant::now() + LIFE;
    while Instant::now() < end {
        while let Some(slot) = free.last() {
            match endpoint.receive(*slot, Some(TAG)) {
                Ok(()) => drop(free.pop()),
                Err(Error::Again) => break,
                Err(error) => return Err(error.into()),
            }
        }
        endpoint.poll(|completion| free.push(completion.slot))?;
    }
    Ok(())
}

/// Outcomes of the sends of a flood.
#[derive(Default)]
struct Ends {
    posted: u64,
    completed: u64,
    failed: u64,
    /// The error number of the first failure.
    errno: i32,
}

fn flood(local: IpAddr, sink: &str) -> anyhow::Result<()> {
    let mut endpoint = open(local, None)?;
    let peer = endpoint.insert(&read_name(sink)?)?;
    let route = Route { peer, tag: Some(TAG) };
    let mut ends = Ends::default();
    let mut free: Vec<usize> = (0..SLOTS).collect();
    let end = Instant::now() + LIFE;
    let mut last_completion = Instant::now();
    let mut announced = false;
    // Sends until a send fails; then until all outstanding sends have ended.
    while ends.failed == 0 || free.len() < SLOTS {
        ensure!(Instant::now() < end, "{} sends never ended", SLOTS - free.len());
        while let Some(slot) = free.last().filter(|_| ends.failed == 0) {
            match endpoint.send(*slot, SIZE, route) {
                Ok(()) => {
                    free.pop();
                    ends.posted += 1;
                }
                Err(Error::Again) => break,
                // A send to a dead peer may be refused at once.
                Err(Error::Call { errno, .. }) => {
                    (ends.failed, ends.errno) = (ends.failed + 1, errno);
                    ends.posted += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let polled = endpoint.poll(|completion| {
            ends.completed += 1;
            last_completion = Instant::now();
            free.push(completion.slot);
        });
        match polled {
            Ok(_) => {}
            Err(Error::Completion { slot: Some(slot), errno, operation, .. }) => {
                ensure!(operation != Operation::Receive, "a send failed as a receive");
                if ends.failed == 0 {
                    ends.errno = errno;
                }
                ends.failed += 1;
                free.push(slot);
            }
            Err(error) => return Err(error.into()),
        }
        if ends.completed > 1000 && !announced {
            say("flowing")?;
            announced = true;
        }
    }
    let Ends { posted, completed, failed, errno } = ends;
    let silence = last_completion.elapsed().as_millis();
    say(&format!(
        "posted {posted} completed {completed} failed {failed} errno {errno} silence_ms {silence}"
    ))
}

fn spray(target: SocketAddr, time: Duration) -> anyhow::Result<()> {
    let any: IpAddr = if target.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    let end = Instant::now() + time;
    // Any full-period generator works: datagrams must vary, and be the same in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut datagram = [0_u8; 1472];
    let mut sent = 0_u64;
    while Instant::now() < end {
        let len = next() as usize % (datagram.len() + 1);
        for chunk in datagram[..len].chunks_mut(8) {
            chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
        }
        // Three of four datagrams have the version nibble of the protocol and a small packet kind.
        if len > 1 && !next().is_multiple_of(4) {
            datagram[0] = 0x20;
            datagram[1] &= 0x0f;
        }
        match socket.send_to(&datagram[..len], target) {
            Ok(_) => sent += 1,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error).context("spray"),
        }
    }
    say(&format!("sprayed {sent}"))
}

fn pair(local: IpAddr) -> anyhow::Result<()> {
    const MESSAGES: u32 = 2000;
    let mut pair = Pair::open(local)?;
    for number in 0..MESSAGES {
        pair.exchange(number)?;
    }
    say(&format!("{MESSAGES} messages between two endpoints"))
}

/// The setup of an endpoint for a conversation.
const fn of_exchange(wait: Wait) -> Setup {
    Setup { slots: 2 * WINDOW, size: LENGTH_MAX, wait }
}

fn echo(local: IpAddr, port: Option<u16>, lies: usize) -> anyhow::Result<()> {
    let setup = of_exchange(Wait::Sread);
    let setup = Setup { slots: setup.slots + lies, ..setup };
    let mut endpoint = open_with(local, port, setup)?;
    say_name(&endpoint.name()?)?;
    traffic::echo(&mut endpoint, None, lies > 0, Instant::now() + TALK)
}

fn echo_connected(local: IpAddr, port: Option<u16>) -> anyhow::Result<()> {
    let listener = Listener::open(&Info::find(&want(Kind::Msg, local, port, None))?)?;
    say_name(&listener.name()?)?;
    let mut endpoint = listener.accept(of_exchange(Wait::Sread), LIFE)?;
    traffic::echo(&mut endpoint, Some(Peer::CONNECTED), false, Instant::now() + TALK)
}

fn knock(local: IpAddr, echo: &str) -> anyhow::Result<()> {
    let mut endpoint = open_with(local, None, of_exchange(Wait::Spin))?;
    let peer = endpoint.insert(&read_name(echo)?)?;
    let time = traffic::knock(&mut endpoint, peer, Instant::now() + LIFE)?;
    say(&format!("accepted {}", time.as_micros()))
}

fn converse(
    local: IpAddr,
    echo: &str,
    (port, connected): (Option<u16>, bool),
) -> anyhow::Result<()> {
    interrupt::install()?;
    let (echo, setup) = (read_name(echo)?, of_exchange(Wait::Spin));
    let (mut endpoint, peer) = if connected {
        let info = Info::find(&want(Kind::Msg, local, port, Some(&echo)))?;
        (Endpoint::connect(&info, setup, LIFE)?, Peer::CONNECTED)
    } else {
        let mut endpoint = open_with(local, port, setup)?;
        let peer = endpoint.insert(&echo)?;
        (endpoint, peer)
    };
    let stop = || interrupt::check().is_err();
    let verified = traffic::converse(&mut endpoint, peer, Instant::now() + TALK, stop)?;
    say(&format!("verified {} messages, {} bytes", verified.messages, verified.bytes))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One endpoint of many that all exchange messages with one another:
//! `all-to-all --local 198.18.0.1:7500 --peer 198.18.0.2:7500 --peer 198.18.0.2:7501`.
//!
//! A message to each peer is always under way. The program prints `open` and runs until it is
//! killed, for a minute at most. It sleeps for messages: each processor has many such programs.
//! The suite `queues` reads its statistics page.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Parser;
use ofi_xdp_bench::want::tagged_messages;
use ofi_xdp_libfabric::{
    Completion, Endpoint, Error, Info, Name, Operation, Peer, Route, Setup, Wait,
};

const TAG: u64 = 7;
const LEN: usize = 64;
/// Receives for each peer: messages come at any time.
const RECEIVES: usize = 4;
/// Longest sleep, and longest life.
const SLEEP: Duration = Duration::from_millis(20);
const LIFE: Duration = Duration::from_secs(60);

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The local address and port
    #[arg(long, value_name = "IP:PORT")]
    local: SocketAddr,
    /// The address and port of a peer
    #[arg(long = "peer", value_name = "IP:PORT")]
    peers: Vec<SocketAddr>,
}

fn main() -> anyhow::Result<()> {
    let Cli { local, peers } = Cli::parse();
    let info = Info::find(&tagged_messages("xdp", local.ip(), Some(local.port())))?;
    // The first slots are for sends, one a peer; the others for receives.
    let slots = peers.len() * (1 + RECEIVES);
    let mut endpoint = Endpoint::open(&info, Setup { slots, size: LEN, wait: Wait::Sread })?;
    let name = |peer: &SocketAddr| endpoint.insert(&Name::from(*peer));
    let peers = peers.iter().map(name).collect::<Result<Vec<Peer>, Error>>()?;
    println!("open");
    let mut waiting: Vec<usize> = (0..slots).rev().collect();
    let end = Instant::now() + LIFE;
    while Instant::now() < end {
        post(&mut endpoint, &mut waiting, &peers)?;
        endpoint.wait(SLEEP, |Completion { slot, operation, .. }| match operation {
            // A receive is posted first: a message waits for it.
            Operation::Receive => waiting.push(slot),
            _ => waiting.insert(0, slot),
        })?;
    }
    Ok(())
}

/// Posts the operations of free slots, the last one first, while there is room.
fn post(endpoint: &mut Endpoint, waiting: &mut Vec<usize>, peers: &[Peer]) -> Result<(), Error> {
    // bound: the slots
    while let Some(&slot) = waiting.last() {
        let posted = match peers.get(slot) {
            Some(&peer) => endpoint.send(slot, LEN, Route { peer, tag: Some(TAG) }),
            None => endpoint.receive(slot, Some(TAG)),
        };
        match posted {
            Ok(()) => drop(waiting.pop()),
            Err(Error::Again) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

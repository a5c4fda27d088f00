// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hostile peer, for the end-to-end tests (`docs/PROTOCOL.md` §5.3, §6.4, §10). It attacks one
//! endpoint by packets made by hand. It is an unknown source with forged addresses, or a peer that
//! lies.
//!
//! In: an attack, and the addresses of the target and of a peer of it. Out: a line `attacking` when
//! the attack is under way, then a line with the packets and bytes of both directions. Bound:
//! [`LIFE`], or SIGTERM.

mod attacks;
mod forged;
mod liar;
mod liars;
mod packets;
mod requests;
mod restart;

use std::io::Write;
use std::net::{IpAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use ofi_xdp_harness::interrupt;

use crate::attacks::{Attack, Counts};

/// Limit of an attack.
const LIFE: Duration = Duration::from_secs(60);
/// Time between two steps of an attack: most of the processor is left to the others.
const STEP: Duration = Duration::from_millis(2);

#[derive(Debug, Parser)]
struct Cli {
    /// The attack
    attack: Attack,
    /// The attacker's own address
    local: IpAddr,
    /// The endpoint that is attacked
    target: SocketAddrV4,
    /// A peer of that endpoint: the source of forged packets
    #[arg(long)]
    peer: Option<SocketAddrV4>,
}

fn main() -> anyhow::Result<()> {
    interrupt::install()?;
    let Cli { attack, local, target, peer } = Cli::parse();
    let IpAddr::V4(local) = local else { bail!("an attacker has an IPv4 address") };
    let mut step = attack.prepare(local, target, peer)?;
    let end = Instant::now() + LIFE;
    let (mut counts, mut said) = (Counts::default(), false);
    // bound: LIFE
    while interrupt::check().is_ok() && Instant::now() < end {
        let ready = step(&mut counts).with_context(|| format!("attack {attack:?}"))?;
        if ready && !said {
            say("attacking")?;
            said = true;
        }
        std::thread::sleep(STEP);
    }
    let Counts { sent, sent_bytes, received, received_bytes } = counts;
    let name = attack.to_possible_value().map(|value| value.get_name().to_owned());
    say(&format!(
        "{} sent {sent} packets of {sent_bytes} bytes received {received} packets of \
         {received_bytes} bytes",
        name.unwrap_or_default(),
    ))
}

fn say(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

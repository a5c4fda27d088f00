// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts and a relay between them, by hand.
//!
//! `relay --delay 500us --loss 0.1 --rate 1G` makes the hosts and prints the names of their
//! namespaces. A line on the standard input with such options changes the path. Ctrl-C removes
//! everything. `relay --limit` measures the relay's own limit and ends.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Parser};
use ofi_xdp_harness::flood::flood;
use ofi_xdp_harness::relay::{PathOptions, Relay};
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};
use ofi_xdp_harness::{interrupt, netns};

/// Duration of the measurement of the limit.
const LIMIT_TIME: Duration = Duration::from_secs(2);
/// Time between two looks at the standard input.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Two hosts, joined by a relay.
#[derive(Debug, Parser)]
#[command(name = "relay", version)]
struct Cli {
    #[command(flatten)]
    path: PathArguments,
    /// IP MTU of the link
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Time between two reports, such as 1s; 0s for none
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    every: Duration,
    /// Measure the relay's limit, and end
    #[arg(long)]
    limit: bool,
}

/// A line of the standard input.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    path: PathArguments,
}

#[derive(Debug, Args)]
struct PathArguments {
    /// Delay of each direction, such as 50us, 5ms
    #[arg(long, default_value = "0us", value_parser = parse_duration)]
    delay: Duration,
    /// Frames that are lost, in percent
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    loss: f64,
    /// Rate of the bottleneck, such as 1G (bits per second)
    #[arg(long, value_parser = parse_rate)]
    rate: Option<u64>,
    /// Length of the bottleneck's queue in time
    #[arg(long, default_value = "10ms", value_parser = parse_duration)]
    queue: Duration,
    /// IP MTU of a hop in the middle
    #[arg(long)]
    hop_mtu: Option<u16>,
    /// The hop reports packets that are too long (ICMP)
    #[arg(long, requires = "hop_mtu")]
    hop_reports: bool,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl From<PathArguments> for PathOptions {
    fn from(arguments: PathArguments) -> Self {
        let PathArguments { delay, loss, rate, queue, hop_mtu, hop_reports, seed } = arguments;
        let loss_ppm = (loss * 1e4).round() as u32;
        Self { delay, loss_ppm, rate, queue, hop_mtu, hop_reports, seed }
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => return Err(format!("{text:?} does not end in us, ms or s")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{number:?} is no number"))?;
    Ok(Duration::from_micros(number.saturating_mul(scale)))
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let (number, scale) = match text.chars().last() {
        Some('G') => (&text[..text.len() - 1], 1e9),
        Some('M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no rate, such as 1G"))?;
    Ok((number * scale) as u64)
}

fn main() -> ExitCode {
    let outcome = interrupt::install().and_then(|()| run(Cli::parse()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    netns::sweep()?;
    let path = PathOptions::from(cli.path);
    let options = LinkOptions { mtu: cli.mtu, relay: Some(path), ..LinkOptions::default() };
    let hosts = TwoHosts::new(&[options])?;
    let relay = hosts.relay_of(0).context("the link has a relay")?;
    if cli.limit {
        println!("{}", flood(&hosts, 0, LIMIT_TIME)?);
        return Ok(());
    }
    let (a, b) = (hosts.host(Side::A).name(), hosts.host(Side::B).name());
    println!("A={a} B={b}");
    println!(
        "# host A {}, host B {}: {path}",
        hosts.link(0).v4(Side::A),
        hosts.link(0).v4(Side::B)
    );
    let served = serve(relay, &lines(), cli.every);
    println!("# {}", relay.report()?);
    if interrupt::check().is_err() { Ok(()) } else { served }
}

/// Obeys the standard input until a signal comes.
fn serve(relay: &Relay, lines: &Receiver<String>, every: Duration) -> anyhow::Result<()> {
    let mut reported = Instant::now();
    // bound: a signal
    loop {
        interrupt::check()?;
        if let Ok(line) = lines.recv_timeout(POLL_INTERVAL) {
            match Line::try_parse_from(line.split_whitespace()) {
                Ok(line) => {
                    let path = PathOptions::from(line.path);
                    relay.set(path)?;
                    println!("# {path}");
                }
                Err(error) => eprintln!("{error}"),
            }
        } else {
            // A closed input returns at once.
            std::thread::sleep(POLL_INTERVAL);
        }
        if !every.is_zero() && reported.elapsed() >= every {
            println!("# {}", relay.report()?);
            reported = Instant::now();
        }
    }
}

/// The lines of the standard input.
fn lines() -> Receiver<String> {
    let (to, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

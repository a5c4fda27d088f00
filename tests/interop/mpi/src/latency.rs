// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurement: half a round trip of 8 bytes through a whole MPI, over the provider and over
//! libfabric's TCP in turn, in one run.

use anyhow::Context;

use crate::implementation::Mpi;
use crate::job::Stand;
use crate::program::PINGPONG;
use crate::transport::Transport;
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::tier::XdpMode;

/// Measurements of each transport; the median counts.
const ROUNDS: usize = 3;

/// The goal, as a part of TCP's time.
const GOAL: f64 = 0.5;

/// Measures every one of `mpis` and prints a table. No result is a failure.
///
/// # Errors
/// When a job fails, or when interrupted.
pub fn print(stand: &Stand, mpis: &[Mpi]) -> anyhow::Result<()> {
    let transports = [Transport::Tcp, Transport::Xdp(XdpMode::Auto), Transport::Xdp(XdpMode::Udp)];
    println!("\nhalf round trip of 8 bytes through MPI, median of {ROUNDS} runs, in µs:");
    for &mpi in mpis {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            for (transport, times) in transports.iter().zip(&mut times) {
                interrupt::check()?;
                times.push(one(stand, mpi, *transport)?);
            }
        }
        let [tcp, xdp, udp] = times.map(median);
        let mark = if xdp <= GOAL * tcp { "met" } else { "missed" };
        println!(
            "{:<10} tcp {tcp:7.2}   xdp/auto {xdp:7.2} ({:.2} of tcp; goal {GOAL}: {mark})   \
             xdp/udp {udp:7.2} ({:.2})",
            mpi.name(),
            xdp / tcp,
            udp / tcp,
        );
    }
    Ok(())
}

fn one(stand: &Stand, mpi: Mpi, transport: Transport) -> anyhow::Result<f64> {
    let done = stand
        .run(mpi, transport, &PINGPONG)
        .with_context(|| format!("{} over {}", mpi.name(), transport.label()))?;
    half_rtt(&done.output.stdout).context("pingpong printed no time")
}

fn half_rtt(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("half-rtt-us: ")?.trim().parse().ok())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_from_its_line() {
        assert_eq!(half_rtt("x\nhalf-rtt-us: 12.345\nverified: y\n"), Some(12.345));
        assert_eq!(half_rtt("half-rtt-us: soon"), None);
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}

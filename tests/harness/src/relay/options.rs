// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the path that a relay makes of a link.

use std::fmt;
use std::time::Duration;

/// Longest delay; the relay's storage is sized for it.
pub const DELAY_MAX: Duration = Duration::from_secs(1);
/// One part of a whole, in [`PathOptions::loss_ppm`].
pub const MILLION: u32 = 1_000_000;

/// A path: the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOptions {
    /// Delay of each frame in one direction, in addition to serialization and queue.
    pub delay: Duration,
    /// Frames that are dropped at random, of a million. Address resolution is spared.
    pub loss_ppm: u32,
    /// Rate of the bottleneck in bits per second; `None`: no bottleneck.
    pub rate: Option<u64>,
    /// Length of the bottleneck's queue in time. A frame that would wait longer is dropped.
    pub queue: Duration,
    /// IP MTU of a hop in the middle; `None`: that of the link.
    pub hop_mtu: Option<u16>,
    /// Whether the hop reports a packet that is too long (ICMP). A silent hop is a black hole.
    pub hop_reports: bool,
    /// Seed of the losses.
    pub seed: u64,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            loss_ppm: 0,
            rate: None,
            queue: Duration::from_millis(10),
            hop_mtu: None,
            hop_reports: false,
            seed: 1,
        }
    }
}

impl fmt::Display for PathOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delay {}", Short(self.delay))?;
        if self.loss_ppm > 0 {
            write!(f, ", loss {} %", f64::from(self.loss_ppm) / 1e4)?;
        }
        if let Some(rate) = self.rate {
            write!(f, ", {} Gb/s, queue {}", rate as f64 / 1e9, Short(self.queue))?;
        }
        if let Some(mtu) = self.hop_mtu {
            let how = if self.hop_reports { "" } else { ", silent" };
            write!(f, ", hop MTU {mtu}{how}")?;
        }
        Ok(())
    }
}

/// A duration in the largest unit that needs no fraction.
struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            us if us.is_multiple_of(1000) => write!(f, "{} ms", us / 1000),
            us => write!(f, "{us} µs"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_by_its_properties() {
        let path = PathOptions { delay: Duration::from_micros(500), ..PathOptions::default() };
        assert_eq!(path.to_string(), "delay 500 µs");
        let path = PathOptions {
            delay: Duration::from_millis(5),
            loss_ppm: 100,
            rate: Some(1_000_000_000),
            hop_mtu: Some(1280),
            ..path
        };
        let name = "delay 5 ms, loss 0.01 %, 1 Gb/s, queue 10 ms, hop MTU 1280, silent";
        assert_eq!(path.to_string(), name);
    }
}

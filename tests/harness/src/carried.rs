// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet counters of the provider: each endpoint logs them when it closes, and [`Carried`] reads
//! them from the log.

use anyhow::{bail, ensure};

use crate::tier::XdpMode;

/// The variables that make the provider log its counters, and little else.
pub const LOGGING: [(&str, &str); 3] =
    [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "xdp"), ("FI_LOG_SUBSYS", "ep_data")];

/// Counters of all endpoints of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// Endpoints that closed.
    pub endpoints: u64,
    /// Packets, on any tier.
    pub packets: u64,
    /// Of these, through AF_XDP sockets.
    pub through_xdp: u64,
    /// Of these, through kernel sockets.
    pub through_udp: u64,
    /// Packets that were retransmitted.
    pub retransmissions: u64,
    /// Bytes of the application that were placed.
    pub bytes: u64,
}

impl Carried {
    /// Reads a job's log.
    #[must_use]
    pub fn from_log(log: &str) -> Self {
        let mut carried = Self::default();
        for line in log.lines() {
            let Some((_, counters)) = line.split_once("closing: ") else { continue };
            let count = |name| counter(counters, name).unwrap_or(0);
            carried.endpoints += u64::from(counters.starts_with("Stats"));
            carried.packets += count("packets_sent");
            carried.through_xdp += count("xsk_transmitted");
            carried.through_udp += count("udp_transmitted");
            carried.retransmissions += count("retransmissions");
            carried.bytes += count("bytes_placed");
        }
        carried
    }

    /// Checks that the provider carried a job of `ranks` ranks, on the tier that `mode` asks for.
    ///
    /// # Errors
    /// When it did not, or when the log does not prove it.
    pub fn prove(&self, ranks: usize, mode: XdpMode) -> anyhow::Result<()> {
        let ranks = u64::try_from(ranks)?;
        ensure!(
            self.endpoints >= ranks,
            "{} endpoints of the provider closed, of {ranks} ranks",
            self.endpoints
        );
        ensure!(self.packets > 0 && self.bytes > 0, "the provider carried nothing");
        match mode {
            XdpMode::Udp if self.through_xdp > 0 => bail!("packets went through AF_XDP"),
            XdpMode::Udp => ensure!(self.through_udp > 0, "no packet went through kernel sockets"),
            // Ranks of one host reach each other through kernel sockets.
            _ => ensure!(self.through_xdp > 0, "no packet went through AF_XDP"),
        }
        Ok(())
    }
}

/// The number after `name: ` in Rust's debug form of a structure.
fn counter(text: &str, name: &str) -> Option<u64> {
    let start = text.match_indices(name).map(|(at, _)| at).find(|&at| {
        text[..at].ends_with([' ', '{']) && text[at + name.len()..].starts_with(": ")
    })?;
    let digits = &text[start + name.len() + 2..];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "libfabric:1:2::xdp:ep_data:xdp_fi::progress():294<info> closing: Stats { \
        packets_received: 7, packets_sent: 9, data_packets_sent: 5, retransmissions: 2, \
        bytes_placed: 64 }\n\
        libfabric:1:2::xdp:ep_data:xdp_fi::progress():295<info> closing: PortStats { \
        xsk_received: 3, xsk_transmitted: 4, udp_transmitted: 5 }";

    #[test]
    fn counters_of_all_endpoints_add_up() {
        let carried = Carried::from_log(&format!("{LOG}\nnoise\n{LOG}\n"));
        let expected = Carried {
            endpoints: 2,
            packets: 18,
            through_xdp: 8,
            through_udp: 10,
            retransmissions: 4,
            bytes: 128,
        };
        assert_eq!(carried, expected);
    }

    #[test]
    fn a_name_is_not_found_inside_another() {
        assert_eq!(counter("{ data_packets_sent: 5, packets_sent: 9 }", "packets_sent"), Some(9));
        assert_eq!(counter("{ packets: 5 }", "packets_sent"), None);
    }

    #[test]
    fn a_job_that_went_elsewhere_is_no_proof() {
        let carried = Carried::from_log(LOG);
        assert!(carried.prove(1, XdpMode::Auto).is_ok());
        assert!(carried.prove(2, XdpMode::Auto).is_err(), "a rank without an endpoint");
        assert!(carried.prove(1, XdpMode::Udp).is_err(), "AF_XDP was not wanted");
        let kernel = Carried { through_xdp: 0, ..carried };
        assert!(kernel.prove(1, XdpMode::Skb).is_err() && kernel.prove(1, XdpMode::Udp).is_ok());
        assert!(Carried::from_log("no such line").prove(1, XdpMode::Auto).is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binding of a peer: the thing that packets to it wait for at the moment of a page.
//!
//! In: the peer's line of a page. Out: the binding, and a sentence with the figures that show it.
//! Callers: `model.rs`, `peer.rs`. A page is made between two calls of the application; the rules
//! are those by which the engine sends (`docs/PROTOCOL.md` §4.6, §6.3, §6.4, §8.2). Bound: one
//! line.

use ofi_xdp_statistics::{Limits, PeerLine};

use crate::format::packets;

/// The thing that more packets wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Binding {
    /// Nothing waits at this side.
    Application,
    /// The peer has no buffers or answers, or its port is full.
    Receiver,
    /// The window, losses, or no answer at all.
    Path,
    /// The peer allows no more requests.
    Credit,
    /// A connection is being made.
    Handshake,
    /// The page does not tell.
    Unknown,
}

impl Binding {
    /// Its name for the user.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Receiver => "receiver",
            Self::Path => "path",
            Self::Credit => "credit",
            Self::Handshake => "handshake",
            Self::Unknown => "not known",
        }
    }
}

/// The binding alone.
pub(super) fn binding(line: &PeerLine) -> Binding {
    explained(line).0
}

/// The binding, and why.
pub(super) fn explained(line: &PeerLine) -> (Binding, String) {
    if !line.established {
        let why = "The connection is being made: the peer has not answered the handshake yet.";
        return (Binding::Handshake, why.to_owned());
    }
    if line.timeouts > 0 {
        let why = format!("The peer is silent: {} time-outs in a row.", line.timeouts);
        return (Binding::Path, why);
    }
    match line.limits {
        Some(limits) if limits.unsent => unsent(line, &limits),
        Some(limits) => all_sent(line, &limits),
        None => {
            let why = "The process runs an older provider, whose page has too few figures.";
            (Binding::Unknown, why.to_owned())
        }
    }
}

/// Nothing waits to be sent for the first time.
fn all_sent(line: &PeerLine, limits: &Limits) -> (Binding, String) {
    if line.lost > 0 {
        return (Binding::Path, format!("{} lost packets go again.", line.lost));
    }
    let why = match (limits.posted, line.in_flight) {
        (true, 0) => {
            let why = "The peer has all packets. Operations wait for its buffers or its answers.";
            return (Binding::Receiver, why.to_owned());
        }
        (_, 0) => "Nothing is posted, and nothing is in flight.".to_owned(),
        (_, some) => {
            format!("All that is posted is in flight ({some}); nothing waits behind it.")
        }
    };
    (Binding::Application, why)
}

/// Something waits to be sent for the first time. The conditions are in the engine's order.
fn unsent(line: &PeerLine, limits: &Limits) -> (Binding, String) {
    if limits.receiver_not_ready {
        let why = "The peer has reported receiver-not-ready: it has no buffer for a message.";
        return (Binding::Receiver, why.to_owned());
    }
    if line.in_flight >= limits.packets_max {
        let why = format!(
            "{} packets are in flight: as many as the peer's port holds between two polls.",
            line.in_flight
        );
        return (Binding::Receiver, why);
    }
    let in_network = f64::from(line.in_flight.saturating_sub(line.lost));
    let eighths = limits.occupancy_eighths.min(7);
    let granted = line.congestion_window / 8.0 * f64::from(8 - eighths);
    // A window below one packet is a pace.
    if in_network + 1.0 > granted.max(1.0) || granted < 1.0 {
        let window = packets(line.congestion_window);
        if in_network + 1.0 <= line.congestion_window {
            let why = format!(
                "The peer's storage for messages is {eighths}/8 full, which takes as much of the \
                 window of {window} packets."
            );
            return (Binding::Receiver, why);
        }
        let lost = if line.lost > 0 { format!(", {} lost", line.lost) } else { String::new() };
        let why = format!(
            "The congestion window of {window} packets is in use ({} in flight{lost}).",
            line.in_flight
        );
        return (Binding::Path, why);
    }
    if limits.credits_free == 0 {
        let why = "The peer allows no more requests (reads, atomics) until it has answered some.";
        return (Binding::Credit, why.to_owned());
    }
    let why = "Packets may go: they wait for the next poll, for more records, or for earlier \
               operations that they are ordered behind.";
    (Binding::Application, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection with an open window, and something to send.
    fn line() -> PeerLine {
        let limits =
            Limits { posted: true, unsent: true, credits_free: 1, packets_max: 256, ..none() };
        PeerLine {
            established: true,
            congestion_window: 16.5,
            in_flight: 3,
            limits: Some(limits),
            ..PeerLine::default()
        }
    }

    fn none() -> Limits {
        Limits::default()
    }

    fn with(change: impl Fn(&mut PeerLine, &mut Limits)) -> Binding {
        let mut line = line();
        let mut limits = line.limits.unwrap();
        change(&mut line, &mut limits);
        binding(&PeerLine { limits: Some(limits), ..line })
    }

    #[test]
    fn an_application_that_posts_too_little_binds_itself() {
        assert_eq!(with(|_, _| ()), Binding::Application, "it does not poll");
        assert_eq!(with(|_, limits| limits.unsent = false), Binding::Application);
        let idle = |line: &mut PeerLine, limits: &mut Limits| {
            line.in_flight = 0;
            (limits.posted, limits.unsent) = (false, false);
        };
        assert_eq!(with(idle), Binding::Application);
    }

    #[test]
    fn a_receiver_binds_by_buffers_answers_storage_and_port() {
        assert_eq!(with(|_, limits| limits.receiver_not_ready = true), Binding::Receiver);
        assert_eq!(with(|_, limits| limits.packets_max = 3), Binding::Receiver);
        assert_eq!(with(|_, limits| limits.occupancy_eighths = 7), Binding::Receiver);
        let waits = |line: &mut PeerLine, limits: &mut Limits| {
            (line.in_flight, limits.unsent) = (0, false);
        };
        assert_eq!(with(waits), Binding::Receiver);
    }

    #[test]
    fn a_path_binds_by_window_losses_and_silence() {
        assert_eq!(with(|line, _| line.in_flight = 16), Binding::Path);
        assert_eq!(with(|line, _| line.in_flight = 15), Binding::Application);
        assert_eq!(with(|line, _| line.congestion_window = 0.2), Binding::Path);
        assert_eq!(with(|line, _| line.timeouts = 1), Binding::Path);
        let lost = |line: &mut PeerLine, limits: &mut Limits| {
            (line.lost, limits.unsent) = (1, false);
        };
        assert_eq!(with(lost), Binding::Path);
    }

    #[test]
    fn credit_a_handshake_and_ignorance_have_names_too() {
        assert_eq!(with(|_, limits| limits.credits_free = 0), Binding::Credit);
        assert_eq!(with(|line, _| line.established = false), Binding::Handshake);
        assert_eq!(binding(&PeerLine { limits: None, ..line() }), Binding::Unknown);
        assert_eq!(Binding::Unknown.name(), "not known");
    }
}

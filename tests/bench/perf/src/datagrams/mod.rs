// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of datagrams that may be lost: pings, and a stream one way.
//!
//! In: two ends of one kind ([`Datagrams`]): of libfabric's `FI_EP_DGRAM` ([`FabricDatagrams`]) or
//! bare AF_XDP sockets ([`RawDatagrams`]). Out: times of round trips, and counts with their times.
//! The first byte of a datagram numbers the pings, so that a late answer to a lost one shows.
//! Bounds: the time of the caller, [`LOSS`] for each ping, [`QUIET`] at the end of the receiver.

mod fabric;
mod raw;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use ofi_xdp_libfabric::Name;
use serde::{Deserialize, Serialize};

pub use fabric::FabricDatagrams;
pub use raw::RawDatagrams;

use crate::transport::RawMode;

/// Datagrams that a stream posts together.
const GROUP: usize = 32;
/// Time after which a ping is lost. The receiver may have to wait for its core.
const LOSS: Duration = Duration::from_millis(20);
/// Time without a datagram after which the receiver ends.
const QUIET: Duration = Duration::from_millis(200);
/// Longest time until the first datagram.
const BEGIN: Duration = Duration::from_secs(10);
/// Pings before those that are measured.
const WARM_UP: usize = 500;
/// Polls between two looks at the clock.
const POLLS: u32 = 64;

/// An end to open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// The provider, or `raw-af_xdp`.
    pub provider: String,
    /// The mode of bare AF_XDP sockets.
    pub mode: RawMode,
    /// Bytes of a datagram.
    pub size: usize,
}

/// One end of datagrams to and from one peer.
pub trait Datagrams: Sized {
    /// An end without a peer.
    type Pending;

    /// Opens an end at a local address.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn open(opening: &Opening, local: IpAddr) -> anyhow::Result<Self::Pending>;

    /// The address for the other end.
    ///
    /// # Errors
    /// When there is none.
    fn name(pending: &Self::Pending) -> anyhow::Result<Name>;

    /// Takes the address of the other end.
    ///
    /// # Errors
    /// When it is not understood.
    fn establish(pending: Self::Pending, peer: &Name) -> anyhow::Result<Self>;

    /// Sends a datagram that begins with `first`; with `more` others follow at once. Returns
    /// whether there was room.
    ///
    /// # Errors
    /// When it cannot be sent.
    fn send(&mut self, first: u8, more: bool) -> anyhow::Result<bool>;

    /// Passes the first byte of each datagram that has arrived to `sink`.
    ///
    /// # Errors
    /// When the end has failed.
    fn poll(&mut self, sink: impl FnMut(u8)) -> anyhow::Result<()>;

    /// Datagrams that have left so far.
    fn sent(&self) -> u64;
}

/// What a receiver has seen.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Received {
    /// Datagrams.
    pub count: u64,
    /// Seconds from the first to the last one.
    pub seconds: f64,
}

/// Receives until nothing comes for [`QUIET`]; with `echo` each datagram is answered.
///
/// # Errors
/// When nothing comes at all, or the end has failed.
pub fn receive(end: &mut impl Datagrams, echo: bool) -> anyhow::Result<Received> {
    let begin = Instant::now();
    let (mut first, mut last, mut count) = (None, begin, 0_u64);
    let mut answers = Vec::new();
    // bound: BEGIN, QUIET after the last datagram
    loop {
        let before = count;
        // bound: POLLS; a datagram ends it, so that `last` is its time
        for _ in 0..POLLS {
            end.poll(|number| {
                count += 1;
                if echo {
                    answers.push(number);
                }
            })?;
            for number in answers.drain(..) {
                end.send(number, false)?;
            }
            if count > before {
                break;
            }
        }
        let now = Instant::now();
        if count > before {
            last = now;
            first.get_or_insert(now);
        }
        let limit = if first.is_some() { QUIET } else { BEGIN };
        if now.duration_since(last) > limit {
            break;
        }
    }
    ensure!(count > 0, "no datagram arrived in {} s", BEGIN.as_secs());
    let seconds = last.duration_since(first.unwrap_or(last)).as_secs_f64();
    Ok(Received { count, seconds })
}

/// Sends groups of datagrams for `time`. Returns their number, and the seconds.
///
/// # Errors
/// When the end has failed.
pub fn stream(end: &mut impl Datagrams, time: Duration) -> anyhow::Result<(u64, f64)> {
    let begin = Instant::now();
    let before = end.sent();
    // bound: time
    while begin.elapsed() < time {
        for index in 0..GROUP {
            if !end.send(0, index + 1 < GROUP)? {
                break;
            }
        }
        end.poll(|_| ())?;
    }
    Ok((end.sent() - before, begin.elapsed().as_secs_f64()))
}

/// Sends pings for `time`. Returns the round trips in ns, and the number of lost pings.
///
/// # Errors
/// When the end has failed, or when nothing comes back.
pub fn pings(end: &mut impl Datagrams, time: Duration) -> anyhow::Result<(Vec<u64>, u64)> {
    let (mut round_trips, mut lost, mut number) = (Vec::new(), 0, 0_u8);
    for _ in 0..WARM_UP {
        number = number.wrapping_add(1);
        ping(end, number)?;
    }
    let begin = Instant::now();
    // bound: time
    while begin.elapsed() < time {
        number = number.wrapping_add(1);
        match ping(end, number)? {
            Some(ns) => round_trips.push(ns),
            None => lost += 1,
        }
    }
    ensure!(!round_trips.is_empty(), "none of {lost} pings has an answer");
    Ok((round_trips, lost))
}

/// One round trip in ns; `None` if the ping or its answer is lost.
fn ping(end: &mut impl Datagrams, number: u8) -> anyhow::Result<Option<u64>> {
    let begin = Instant::now();
    end.send(number, false)?;
    let mut answered = false;
    // bound: LOSS
    loop {
        for _ in 0..POLLS {
            end.poll(|answer| answered |= answer == number)?;
            if answered {
                return Ok(Some(u64::try_from(begin.elapsed().as_nanos())?));
            }
        }
        if begin.elapsed() > LOSS {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Two ends in memory; each loses every datagram of a turn that is a multiple of `loses`.
    struct InMemory {
        out: Sender<u8>,
        back: Receiver<u8>,
        loses: u64,
        sent: u64,
    }

    fn pair(loses: u64) -> (InMemory, InMemory) {
        let (there, here) = (channel(), channel());
        let end = |out, back| InMemory { out, back, loses, sent: 0 };
        (end(there.0, here.1), end(here.0, there.1))
    }

    impl Datagrams for InMemory {
        type Pending = ();

        fn open(_: &Opening, _: IpAddr) -> anyhow::Result<()> {
            Ok(())
        }

        fn name((): &()) -> anyhow::Result<Name> {
            Ok(Name(Vec::new()))
        }

        fn establish((): (), _: &Name) -> anyhow::Result<Self> {
            anyhow::bail!("made by `pair`")
        }

        fn send(&mut self, first: u8, _: bool) -> anyhow::Result<bool> {
            self.sent += 1;
            if !self.sent.is_multiple_of(self.loses) {
                self.out.send(first)?;
            }
            Ok(true)
        }

        fn poll(&mut self, mut sink: impl FnMut(u8)) -> anyhow::Result<()> {
            self.back.try_iter().take(GROUP).for_each(&mut sink);
            Ok(())
        }

        fn sent(&self) -> u64 {
            self.sent
        }
    }

    #[test]
    fn lost_pings_are_counted_and_the_others_measured() {
        let (mut here, mut there) = pair(50);
        let server = std::thread::spawn(move || receive(&mut there, true));
        let (round_trips, lost) = pings(&mut here, Duration::from_millis(300)).unwrap();
        let measured = here.sent - WARM_UP as u64;
        assert_eq!(round_trips.len() as u64 + lost, measured, "a ping has an answer or is lost");
        assert!(lost >= measured / 50, "{lost} of {measured}");
        let received = server.join().unwrap().unwrap();
        assert_eq!(received.count, here.sent - here.sent / 50);
    }

    #[test]
    fn the_receiver_of_a_stream_counts_what_is_left_of_it() {
        let (mut here, mut there) = pair(4);
        let server = std::thread::spawn(move || receive(&mut there, false));
        let (sent, seconds) = stream(&mut here, Duration::from_millis(50)).unwrap();
        let received = server.join().unwrap().unwrap();
        assert_eq!(sent, here.sent);
        assert_eq!(received.count, sent - sent / 4);
        assert!(seconds >= 0.05 && received.seconds > 0.0, "{seconds}, {received:?}");
    }
}

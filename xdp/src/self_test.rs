// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a socket that was bound moves anything: some drivers bind, and then stand still.
//!
//! A bound socket comes in as a [`Subject`], an [`Outcome`] goes out; `xsk_port.rs` asks once for
//! each socket, when it opens, before the port is claimed: so no packet is redirected to a socket
//! that is of no use. (A socket from the broker comes with its port claimed: that is one question
//! and one answer, and the client alone can test. Packets that come meanwhile are lost with it.)
//! Bounds: [`PATIENCE`] for a driver that moves nothing; one that works costs
//! its wake-up and the time of one frame.
//!
//! A host alone, without a peer that answers, can see that a frame leaves: it is sent to the
//! interface's own address, with an EtherType that nobody takes ([`frame`]), and has left when the
//! kernel gives it back through the completion ring. No switch forwards a frame to the port that it
//! came from, and a host that gets it drops it. Whether the driver posted frames to receive into
//! cannot be seen before a packet comes: the kernel tells how far it is in the fill ring only then
//! (net/xdp/xsk.c, `xsk_flush`). So where the kernel knows neighbours they are made to answer
//! (`self_test/hearing.rs`).
//!
//! A link that is down moves nothing, however honest its driver. Attaching an XDP program resets
//! some cards for seconds (igb); such a socket is not judged.

mod hearing;
mod neighbours;
mod socket;

use std::io;
use std::time::Duration;

use ofi_xdp_core::frame::MacAddress;

pub(crate) use neighbours::open_hearing;
pub(crate) use socket::{BoundSocket, test};

/// How long a driver may take to send a frame, as the sum of the pauses between looks: a process
/// that gets no processor does not judge early.
pub(crate) const PATIENCE: Duration = Duration::from_millis(90);
/// The first pause; each is twice the one before, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_micros(20);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// Bytes of the frame: Ethernet's least without its check sequence (IEEE 802.3 §3.2.8).
const FRAME_BYTES: usize = 60;
/// IEEE 802's "Local Experimental Ethertype 1" (IEEE 802 §9.2.4).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// A socket as far as it is tested.
pub(crate) trait Subject {
    /// Gives one [`frame`] to the kernel.
    fn send(&mut self) -> io::Result<()>;
    /// Wakes the kernel if it asks for that, and looks whether the frame came back.
    fn has_sent(&mut self) -> io::Result<bool>;
    /// Whether the link is up.
    fn is_up(&self) -> bool;
    /// Lets `time` pass.
    fn pause(&mut self, time: Duration);
}

/// What became of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It moves frames; so much time passed in pauses until it did.
    Works(Duration),
    /// The link is down, so nothing can be said.
    Down,
}

/// The socket is bound, and moves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Stands {
    /// A frame given to the tx ring never left.
    #[error(
        "self-test: the driver bound the socket and sent nothing in {} ms",
        PATIENCE.as_millis()
    )]
    Still,
    /// Packets that come in without the socket do not come in with it.
    #[error(
        "self-test: neighbours answer, and with the socket bound nothing came in for {} ms",
        hearing::PATIENCE.as_millis()
    )]
    Deaf,
    /// Waking the kernel fails.
    #[error("self-test: wake the AF_XDP socket: {0}")]
    Wake(#[from] io::Error),
}

/// Puts the socket to the test.
pub(crate) fn run(subject: &mut impl Subject) -> Result<Outcome, Stands> {
    subject.send()?;
    let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
    // bound: PATIENCE, in pauses of PAUSE_MIN at least.
    while !subject.has_sent()? {
        if waited >= PATIENCE {
            return if subject.is_up() { Err(Stands::Still) } else { Ok(Outcome::Down) };
        }
        subject.pause(pause);
        waited += pause;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(Outcome::Works(waited))
}

/// The frame that is sent: from `mac` to `mac`, of a type that nobody takes, and zeros.
pub(crate) fn frame(mac: MacAddress) -> [u8; FRAME_BYTES] {
    let mut bytes = [0; FRAME_BYTES];
    let header = mac.0.into_iter().chain(mac.0).chain(ETHER_TYPE);
    bytes.iter_mut().zip(header).for_each(|(byte, value)| *byte = value);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that does what it is told to, or not.
    struct Driver {
        /// After which time a frame leaves; `None`: never.
        sends: Option<Duration>,
        up: bool,
        wake: Option<i32>,
        given: u32,
        now: Duration,
    }

    fn driver(sends: Option<u64>) -> Driver {
        let sends = sends.map(Duration::from_millis);
        Driver { sends, up: true, wake: None, given: 0, now: Duration::ZERO }
    }

    impl Subject for Driver {
        fn send(&mut self) -> io::Result<()> {
            self.given += 1;
            Ok(())
        }
        fn has_sent(&mut self) -> io::Result<bool> {
            match self.wake {
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                None => Ok(self.given > 0 && self.sends.is_some_and(|time| self.now >= time)),
            }
        }
        fn is_up(&self) -> bool {
            self.up
        }
        fn pause(&mut self, time: Duration) {
            self.now += time;
        }
    }

    #[test]
    fn an_honest_driver_costs_no_pause() {
        let mut honest = driver(Some(0));
        assert_eq!(run(&mut honest).unwrap(), Outcome::Works(Duration::ZERO));
        assert_eq!((honest.now, honest.given), (Duration::ZERO, 1));
    }

    #[test]
    fn a_slow_driver_is_waited_for() {
        for time in [1, 40, 85] {
            let mut slow = driver(Some(time));
            assert_eq!(run(&mut slow).unwrap(), Outcome::Works(slow.now), "{time}");
        }
    }

    #[test]
    fn who_sends_nothing_is_found_out_within_100_ms() {
        let mut liar = driver(None);
        assert!(matches!(run(&mut liar), Err(Stands::Still)));
        assert!(liar.now >= PATIENCE && liar.now < Duration::from_millis(100));
    }

    #[test]
    fn a_link_that_is_down_is_not_judged() {
        let mut down = Driver { up: false, ..driver(None) };
        assert_eq!(run(&mut down).unwrap(), Outcome::Down);
    }

    #[test]
    fn a_socket_that_cannot_be_woken_is_found_out_at_once() {
        let mut unwoken = Driver { wake: Some(6), ..driver(Some(0)) };
        let error = run(&mut unwoken).unwrap_err().to_string();
        assert!(error.starts_with("self-test: wake the AF_XDP socket: No such device"), "{error}");
        assert_eq!(unwoken.now, Duration::ZERO);
    }

    #[test]
    fn the_frame_goes_to_nobody() {
        let bytes = frame(MacAddress([2, 0, 0, 0, 0, 7]));
        assert_eq!(bytes[..14], [2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 7, 0x88, 0xb5]);
        assert_eq!(bytes[14..], [0; 46]);
    }
}

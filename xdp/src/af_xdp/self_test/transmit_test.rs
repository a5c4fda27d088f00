// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmit test: whether a bound socket sends. Some drivers bind, and then send nothing.
//!
//! A host without a peer can see that a frame leaves. The frame goes to the interface's own address
//! with an unused EtherType ([`frame`]). It has left when the kernel returns it through the
//! completion ring. No switch forwards a frame to the port that it came from, and a host that
//! receives it drops it. Whether the driver posted frames for receiving is not visible before a
//! packet arrives. The kernel reports its position in the fill ring only then (net/xdp/xsk.c,
//! `xsk_flush`). The receive test covers that case (`receive_test.rs`).
//!
//! A link without carrier sends nothing with any driver. Attaching an XDP program resets some
//! devices for seconds (igb). Such a socket passes the test.
//!
//! In: a bound socket as a [`TestedSocket`]. Out: an [`Outcome`]. Caller: `bound_socket.rs`, once
//! for each socket, before the port is claimed; so no packet is redirected to an unusable socket. A
//! socket from the broker is claimed already; packets that arrive during its test are lost if it
//! fails. Bounds: [`TIMEOUT`] for a driver that sends nothing; a working driver costs its wake-up
//! and the time of one frame.

use std::io;
use std::time::Duration;

use crate::headers::MacAddress;

use crate::error::SelfTestError;

/// Time limit for sending a frame, as the sum of the pauses between polls. A process that gets no
/// processor does not exceed it.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(90);
/// The first pause; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_micros(20);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// Bytes of the frame: Ethernet's minimum without the check sequence (IEEE 802.3 §3.2.8).
const FRAME_BYTES: usize = 60;
/// IEEE 802's "Local Experimental Ethertype 1" (IEEE 802 §9.2.4).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// A socket under test.
pub(crate) trait TestedSocket {
    /// Gives the test frame to the kernel.
    fn send(&mut self) -> io::Result<()>;
    /// Wakes the kernel if it asks for that; returns whether the frame has left.
    fn has_sent(&mut self) -> io::Result<bool>;
    /// Whether the link has a carrier.
    fn is_up(&self) -> bool;
    /// Waits for `time`.
    fn pause(&mut self, time: Duration);
}

/// Result of the transmit test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The frame left, after pauses of this length in all.
    Works(Duration),
    /// The link has no carrier, so there is no result.
    Down,
}

/// Tests a socket.
pub(crate) fn run(subject: &mut impl TestedSocket) -> Result<Outcome, SelfTestError> {
    subject.send()?;
    let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
    // bound: TIMEOUT, in pauses of PAUSE_MIN at least.
    while !subject.has_sent()? {
        if waited >= TIMEOUT {
            return if subject.is_up() {
                Err(SelfTestError::NoTransmit(TIMEOUT))
            } else {
                Ok(Outcome::Down)
            };
        }
        subject.pause(pause);
        waited += pause;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(Outcome::Works(waited))
}

/// The test frame: from `mac` to `mac`, with an unused EtherType, and zeros.
pub(crate) fn frame(mac: MacAddress) -> [u8; FRAME_BYTES] {
    let mut bytes = [0; FRAME_BYTES];
    let header = mac.0.into_iter().chain(mac.0).chain(ETHER_TYPE);
    bytes.iter_mut().zip(header).for_each(|(byte, value)| *byte = value);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that sends, or does not.
    struct Driver {
        /// Time until a frame leaves; `None`: never.
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

    impl TestedSocket for Driver {
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
    fn a_working_driver_costs_no_pause() {
        let mut working = driver(Some(0));
        assert_eq!(run(&mut working).unwrap(), Outcome::Works(Duration::ZERO));
        assert_eq!((working.now, working.given), (Duration::ZERO, 1));
    }

    #[test]
    fn a_slow_driver_is_waited_for() {
        for time in [1, 40, 85] {
            let mut slow = driver(Some(time));
            assert_eq!(run(&mut slow).unwrap(), Outcome::Works(slow.now), "{time}");
        }
    }

    #[test]
    fn a_driver_that_sends_nothing_is_found_out_within_100_ms() {
        let mut broken = driver(None);
        assert!(matches!(run(&mut broken), Err(SelfTestError::NoTransmit(_))));
        assert!(broken.now >= TIMEOUT && broken.now < Duration::from_millis(100));
    }

    #[test]
    fn a_link_that_is_down_is_not_judged() {
        let mut down = Driver { up: false, ..driver(None) };
        assert_eq!(run(&mut down).unwrap(), Outcome::Down);
    }

    #[test]
    fn a_socket_that_cannot_be_woken_is_found_out_at_once() {
        let mut no_wakeup = Driver { wake: Some(6), ..driver(Some(0)) };
        let error = run(&mut no_wakeup).unwrap_err().to_string();
        assert!(error.starts_with("self-test: wake the AF_XDP socket: No such device"), "{error}");
        assert_eq!(no_wakeup.now, Duration::ZERO);
    }

    #[test]
    fn the_frame_has_no_receiver() {
        let bytes = frame(MacAddress([2, 0, 0, 0, 0, 7]));
        assert_eq!(bytes[..14], [2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 7, 0x88, 0xb5]);
        assert_eq!(bytes[14..], [0; 46]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive test: whether packets still arrive with the socket bound. Some drivers send, and
//! deliver nothing.
//!
//! The kernel solicits neighbours on the link for their link-layer address (ARP, or RFC 4861 §7.3).
//! Their answers arrive by the device like any packet. A silent neighbour is more often down than
//! the driver broken. So the test fails only if neighbours answer before the socket is bound and
//! after it is closed, but not while it is bound ([`open`]). In all other cases the result is
//! inconclusive and the port is used. These are: no neighbour, no carrier, a neighbour that
//! disappeared, and a process without the right to solicit (`CAP_NET_ADMIN`).
//!
//! In: a function that opens a port. Out: the port and the result. Caller: `neighbours.rs`, once
//! for each port. Bounds: [`SOLICITATIONS`] for each of [`NEIGHBOURS_MAX`] neighbours, and
//! [`TIMEOUT`], at most three times. A neighbour that answers costs its round trip twice.

use std::io;
use std::time::Duration;

use crate::error::SelfTestError;

/// Time limit for an answer, as the sum of the pauses between polls.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(90);
/// Solicitations in that time: a solicitation or an answer may be lost.
pub(crate) const SOLICITATIONS: u32 = 3;
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of neighbours that are solicited.
pub(crate) const NEIGHBOURS_MAX: usize = 4;

/// Access to the neighbours on a link.
pub(crate) trait NeighbourTest {
    /// Makes the kernel solicit each of them.
    fn solicit(&mut self) -> io::Result<()>;
    /// Whether a neighbour has answered since.
    fn has_answered(&mut self) -> io::Result<bool>;
    /// Whether the link is up.
    fn is_up(&self) -> bool;
    /// Waits for `time`.
    fn pause(&mut self, time: Duration);
}

/// Result of the receive test.
#[derive(Debug)]
pub(crate) enum ReceiveTest {
    /// A neighbour's answer arrived.
    Received,
    /// No result, with the reason.
    Inconclusive(String),
}

/// Opens a port by `open` and tests it. Opens it again if the silence had another cause.
///
/// # Errors
/// Those of `open`; [`SelfTestError::NoReceive`].
pub(crate) fn open<T, E: From<SelfTestError>>(
    neighbours: &mut impl NeighbourTest,
    mut open: impl FnMut() -> Result<T, E>,
) -> Result<(T, ReceiveTest), E> {
    let unknown = |why: &str| ReceiveTest::Inconclusive(why.to_owned());
    match answers(neighbours) {
        Ok(true) => {}
        Ok(false) => return Ok((open()?, unknown("no neighbour answers"))),
        Err(error) => return Ok((open()?, not_solicited(&error))),
    }
    let opened = open()?;
    // Attaching a program resets some devices for seconds.
    if !neighbours.is_up() {
        return Ok((opened, unknown("the link is down")));
    }
    match answers(neighbours) {
        Ok(true) => return Ok((opened, ReceiveTest::Received)),
        Err(error) => return Ok((opened, not_solicited(&error))),
        Ok(false) if !neighbours.is_up() => return Ok((opened, unknown("the link went down"))),
        Ok(false) => {}
    }
    drop(opened);
    match answers(neighbours) {
        Ok(true) => Err(SelfTestError::NoReceive(TIMEOUT).into()),
        Ok(false) => Ok((open()?, unknown("the neighbours have gone silent"))),
        Err(error) => Ok((open()?, not_solicited(&error))),
    }
}

fn not_solicited(error: &io::Error) -> ReceiveTest {
    ReceiveTest::Inconclusive(format!("neighbours cannot be solicited: {error}"))
}

/// Solicits the neighbours, and waits for an answer.
fn answers(neighbours: &mut impl NeighbourTest) -> io::Result<bool> {
    let polls = TIMEOUT.as_millis() / PAUSE.as_millis() / u128::from(SOLICITATIONS);
    for _ in 0..SOLICITATIONS {
        neighbours.solicit()?;
        for _ in 0..polls {
            if neighbours.has_answered()? {
                return Ok(true);
            }
            neighbours.pause(PAUSE);
        }
    }
    neighbours.has_answered()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A link with one neighbour.
    struct Link<'a> {
        /// Whether the neighbour answers; the argument is the number of earlier waits.
        answers: &'a dyn Fn(u32) -> bool,
        /// Delay of the answer.
        delay: Duration,
        up: bool,
        solicited: bool,
        waits: u32,
        waiting: Duration,
        now: Duration,
    }

    fn link(answers: &dyn Fn(u32) -> bool) -> Link<'_> {
        let zero = Duration::ZERO;
        Link {
            answers,
            delay: zero,
            up: true,
            solicited: false,
            waits: 0,
            waiting: zero,
            now: zero,
        }
    }

    impl NeighbourTest for Link<'_> {
        fn solicit(&mut self) -> io::Result<()> {
            self.solicited = true;
            Ok(())
        }
        fn has_answered(&mut self) -> io::Result<bool> {
            let answered =
                self.solicited && self.waiting >= self.delay && (self.answers)(self.waits);
            if answered || self.waiting >= TIMEOUT {
                self.waits += 1;
                self.waiting = Duration::ZERO;
                self.solicited = false;
            }
            Ok(answered)
        }
        fn is_up(&self) -> bool {
            self.up
        }
        fn pause(&mut self, time: Duration) {
            self.waiting += time;
            self.now += time;
        }
    }

    /// Opens on `link`; returns the number of opens and the result.
    fn outcome(link: &mut Link<'_>) -> (u32, Result<ReceiveTest, SelfTestError>) {
        let opened = Cell::new(0);
        let result = open(link, || {
            opened.set(opened.get() + 1);
            Ok::<(), SelfTestError>(())
        });
        (opened.get(), result.map(|((), result)| result))
    }

    /// Checks for an inconclusive result after `opened` opens.
    #[track_caller]
    fn unknown(outcome: &(u32, Result<ReceiveTest, SelfTestError>), opened: u32, wanted: &str) {
        let (count, Ok(ReceiveTest::Inconclusive(why))) = outcome else { panic!("{outcome:?}") };
        assert!(*count == opened && why.contains(wanted), "{outcome:?}");
    }

    #[test]
    fn a_driver_that_receives_costs_two_round_trips() {
        let mut link = Link { delay: Duration::from_millis(5), ..link(&|_| true) };
        assert!(matches!(outcome(&mut link), (1, Ok(ReceiveTest::Received))));
        assert_eq!(link.now, Duration::from_millis(10));
    }

    #[test]
    fn a_driver_that_receives_nothing_is_found_out_within_100_ms() {
        let mut link = link(&|waits| waits != 1);
        assert!(matches!(outcome(&mut link), (1, Err(SelfTestError::NoReceive(_)))));
        assert!(link.now >= TIMEOUT && link.now < Duration::from_millis(100));
    }

    #[test]
    fn a_dead_neighbour_says_nothing() {
        unknown(&outcome(&mut link(&|_| false)), 1, "no neighbour answers");
    }

    #[test]
    fn a_neighbour_that_dies_meanwhile_says_nothing() {
        unknown(&outcome(&mut link(&|waits| waits == 0)), 2, "have gone silent");
    }

    #[test]
    fn a_link_that_goes_down_says_nothing() {
        let mut down = Link { up: false, ..link(&|waits| waits == 0) };
        unknown(&outcome(&mut down), 1, "the link is down");
        assert_eq!(down.now, Duration::ZERO, "and is not waited for");
    }

    #[test]
    fn without_the_right_to_ask_it_opens_all_the_same() {
        struct Forbidden;
        impl NeighbourTest for Forbidden {
            fn solicit(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            fn has_answered(&mut self) -> io::Result<bool> {
                panic!("no neighbour was solicited")
            }
            fn is_up(&self) -> bool {
                true
            }
            fn pause(&mut self, _: Duration) {}
        }
        let (number, result) = open(&mut Forbidden, || Ok::<_, SelfTestError>(7)).unwrap();
        assert!(matches!(result, ReceiveTest::Inconclusive(why) if why.contains("denied")));
        assert_eq!(number, 7);
    }

    #[test]
    fn a_lost_question_is_asked_again() {
        struct Lossy(u32, bool);
        impl NeighbourTest for Lossy {
            fn solicit(&mut self) -> io::Result<()> {
                self.0 += 1;
                self.1 = self.0.is_multiple_of(SOLICITATIONS);
                Ok(())
            }
            fn has_answered(&mut self) -> io::Result<bool> {
                Ok(std::mem::take(&mut self.1))
            }
            fn is_up(&self) -> bool {
                true
            }
            fn pause(&mut self, _: Duration) {}
        }
        let (_, result) = open(&mut Lossy(0, false), || Ok::<_, SelfTestError>(())).unwrap();
        assert!(matches!(result, ReceiveTest::Received));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether packets still come in once a socket is bound: some drivers send, and deliver nothing.
//!
//! What opens a port comes in, what it opened goes out, if it hears; `xsk_port.rs` calls, once for
//! each port. Witnesses are neighbours on the link that the kernel knows: it is made to ask them
//! for their link-layer address (ARP, or RFC 4861 §7.3), and their answers come in by the card as
//! any packet does. Bounds: [`ASKS`] questions to each of [`WITNESSES_MAX`] neighbours, and
//! [`PATIENCE`], at most three times; who has such a neighbour pays its round trip twice.
//!
//! A silent neighbour is more often dead than a driver deaf. So a socket is found deaf only if
//! somebody answers right before it was there, nobody while it is, and somebody again when it has
//! gone ([`open`]). Everything else says nothing, and the port is taken as it is: no neighbour, a
//! link that is down, one that went away meanwhile, a process that may not make the kernel ask
//! (`CAP_NET_ADMIN`).

use std::io;
use std::time::Duration;

use super::Stands;

/// How long neighbours may take to answer, as the sum of the pauses between looks.
pub(crate) const PATIENCE: Duration = Duration::from_millis(90);
/// How often they are asked in that time: a question or an answer may get lost.
pub(crate) const ASKS: u32 = 3;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(1);
/// How many neighbours are asked.
pub(crate) const WITNESSES_MAX: usize = 4;

/// The neighbours on a link.
pub(crate) trait Witnesses {
    /// Has the kernel ask each of them.
    fn ask(&mut self) -> io::Result<()>;
    /// Whether one has answered since.
    fn has_answered(&mut self) -> io::Result<bool>;
    /// Whether the link is up.
    fn is_up(&self) -> bool;
    /// Lets `time` pass.
    fn pause(&mut self, time: Duration);
}

/// What is known of a port that was opened.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// A neighbour's answer came in.
    Hears,
    /// Nothing, and why.
    Unknown(String),
}

/// Calls `open`, and again if it was not to blame for a silence.
///
/// # Errors
/// What `open` fails with; [`Stands::Deaf`].
pub(crate) fn open<T, E: From<Stands>>(
    witnesses: &mut impl Witnesses,
    mut open: impl FnMut() -> Result<T, E>,
) -> Result<(T, Verdict), E> {
    let unknown = |why: &str| Verdict::Unknown(why.to_owned());
    match answers(witnesses) {
        Ok(true) => {}
        Ok(false) => return Ok((open()?, unknown("no neighbour answers"))),
        Err(error) => return Ok((open()?, unasked(&error))),
    }
    let opened = open()?;
    // Attaching a program resets some cards, for seconds.
    if !witnesses.is_up() {
        return Ok((opened, unknown("the link is down")));
    }
    match answers(witnesses) {
        Ok(true) => return Ok((opened, Verdict::Hears)),
        Err(error) => return Ok((opened, unasked(&error))),
        Ok(false) if !witnesses.is_up() => return Ok((opened, unknown("the link went down"))),
        Ok(false) => {}
    }
    drop(opened);
    match answers(witnesses) {
        Ok(true) => Err(Stands::Deaf.into()),
        Ok(false) => Ok((open()?, unknown("the neighbours have gone silent"))),
        Err(error) => Ok((open()?, unasked(&error))),
    }
}

fn unasked(error: &io::Error) -> Verdict {
    Verdict::Unknown(format!("neighbours cannot be asked: {error}"))
}

/// Asks, and waits for an answer.
fn answers(witnesses: &mut impl Witnesses) -> io::Result<bool> {
    let looks = PATIENCE.as_millis() / PAUSE.as_millis() / u128::from(ASKS);
    for _ in 0..ASKS {
        witnesses.ask()?;
        for _ in 0..looks {
            if witnesses.has_answered()? {
                return Ok(true);
            }
            witnesses.pause(PAUSE);
        }
    }
    witnesses.has_answered()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A link with one neighbour.
    struct Link<'a> {
        /// Whether it answers, told how often it was waited for before.
        answers: &'a dyn Fn(u32) -> bool,
        /// After which time.
        delay: Duration,
        up: bool,
        asked: bool,
        waits: u32,
        waiting: Duration,
        now: Duration,
    }

    fn link(answers: &dyn Fn(u32) -> bool) -> Link<'_> {
        let zero = Duration::ZERO;
        Link { answers, delay: zero, up: true, asked: false, waits: 0, waiting: zero, now: zero }
    }

    impl Witnesses for Link<'_> {
        fn ask(&mut self) -> io::Result<()> {
            self.asked = true;
            Ok(())
        }
        fn has_answered(&mut self) -> io::Result<bool> {
            let answered = self.asked && self.waiting >= self.delay && (self.answers)(self.waits);
            if answered || self.waiting >= PATIENCE {
                self.waits += 1;
                self.waiting = Duration::ZERO;
                self.asked = false;
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

    /// Opens on `link`; how often, and with what outcome.
    fn outcome(link: &mut Link<'_>) -> (u32, Result<Verdict, Stands>) {
        let opened = Cell::new(0);
        let result = open(link, || {
            opened.set(opened.get() + 1);
            Ok::<(), Stands>(())
        });
        (opened.get(), result.map(|((), verdict)| verdict))
    }

    /// Opened so often, and nothing found out.
    #[track_caller]
    fn unknown(outcome: &(u32, Result<Verdict, Stands>), opened: u32, wanted: &str) {
        let (count, Ok(Verdict::Unknown(why))) = outcome else { panic!("{outcome:?}") };
        assert!(*count == opened && why.contains(wanted), "{outcome:?}");
    }

    #[test]
    fn who_hears_costs_two_round_trips() {
        let mut link = Link { delay: Duration::from_millis(5), ..link(&|_| true) };
        assert!(matches!(outcome(&mut link), (1, Ok(Verdict::Hears))));
        assert_eq!(link.now, Duration::from_millis(10));
    }

    #[test]
    fn who_is_deaf_is_found_out_within_100_ms() {
        let mut link = link(&|waits| waits != 1);
        assert!(matches!(outcome(&mut link), (1, Err(Stands::Deaf))));
        assert!(link.now >= PATIENCE && link.now < Duration::from_millis(100));
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
    fn who_may_not_ask_opens_all_the_same() {
        struct Forbidden;
        impl Witnesses for Forbidden {
            fn ask(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            fn has_answered(&mut self) -> io::Result<bool> {
                panic!("nobody was asked")
            }
            fn is_up(&self) -> bool {
                true
            }
            fn pause(&mut self, _: Duration) {}
        }
        let (number, verdict) = open(&mut Forbidden, || Ok::<_, Stands>(7)).unwrap();
        assert!(matches!(verdict, Verdict::Unknown(why) if why.contains("denied")));
        assert_eq!(number, 7);
    }

    #[test]
    fn a_lost_question_is_asked_again() {
        struct Lossy(u32, bool);
        impl Witnesses for Lossy {
            fn ask(&mut self) -> io::Result<()> {
                self.0 += 1;
                self.1 = self.0.is_multiple_of(ASKS);
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
        let (_, verdict) = open(&mut Lossy(0, false), || Ok::<_, Stands>(())).unwrap();
        assert!(matches!(verdict, Verdict::Hears));
    }
}

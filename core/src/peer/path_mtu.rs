// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovery of the path MTU by probes (RFC 8899; `docs/PROTOCOL.md` §11).
//!
//! In: the suspicion that large packets are lost, the answers to probes, time. Out: probes in
//! rounds, and the largest size that passes. The engine's sender calls. Bounds: [`PROBES`] probes a
//! round, [`ROUNDS_MAX`] rounds a search.

use crate::wire::SEGMENT_QUANTUM;

/// Probes of one round, at the most.
pub(crate) const PROBES: u8 = 4;
/// Rounds of one search, at the most.
pub(crate) const ROUNDS_MAX: u8 = 32;
/// A size counts as too large after this many further rounds at the end of a search (`MAX_PROBES`
/// of RFC 8899 §5.1.2, with the round before). As many rounds without any answer end the search.
const TRIES: u8 = 2;
/// The least size that is tried: `BASE_PLPMTU` of RFC 8899 §5.1.2, in whole units. Every path of
/// IPv6 passes it (RFC 8200 §5), and every record that goes as a whole only fits it.
pub(crate) const BASE: u16 = 1216;
/// Sizes are multiples of this, as those of full packets are.
const UNIT: u16 = SEGMENT_QUANTUM as u16;

/// The state of a search (RFC 8899 §5.2). SEARCH COMPLETE of the RFC is the absence of a search.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// The full size, the present one and [`BASE`] are probed (BASE).
    Confirm,
    /// Sizes between one that passes and one that does not are probed.
    Search,
}

/// The search on one path.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct PathMtu {
    /// The number of the round, which its probes carry.
    round: u16,
    /// The largest size that passes, and the least one that does not or that is tried again.
    low: u16,
    high: u16,
    /// The largest size that was acknowledged in this round; 0: none.
    acked: u16,
    /// The probes of this round that were sent.
    sent: u8,
    tries: u8,
    rounds: u8,
    phase: Phase,
}

/// The result of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoundEnd {
    /// The size that passes, if the round has shown one.
    pub(crate) size: Option<u16>,
    /// Whether the search is over.
    pub(crate) is_last: bool,
}

impl PathMtu {
    /// A search on a path with packets of `size` now, where `limit` is the full size. `round`
    /// differs from those of earlier searches.
    pub(crate) fn new(size: u16, limit: u16, round: u16) -> Self {
        let phase = Phase::Confirm;
        Self { round, low: size, high: limit, acked: 0, sent: 0, tries: 0, rounds: 1, phase }
    }

    fn start_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.rounds += 1;
        (self.acked, self.sent) = (0, 0);
    }

    /// Whether the search has come down to two neighbours: the larger one is tried again.
    const fn is_at_end(&self) -> bool {
        self.high - self.low <= UNIT
    }

    /// The size of probe `number` of the round, in descending order; `None`: there is no such
    /// probe. The last one passes for certain, so that its loss shows the loss of all.
    fn size(&self, number: u8) -> Option<u16> {
        let Self { low, high, .. } = *self;
        match (self.phase, number) {
            (_, PROBES..) => None,
            (Phase::Confirm, 0) => Some(high),
            // A path that loses many packets of any length is not short: the present size is
            // probed more than once (`MAX_PROBES` of RFC 8899 §5.1.2).
            (Phase::Confirm, 1 | 2) => Some(low),
            (Phase::Confirm, _) => (BASE < low).then_some(BASE),
            (Phase::Search, 0) if self.is_at_end() => Some(high),
            (Phase::Search, 1 | 2) if self.is_at_end() => None,
            (Phase::Search, number) => {
                let steps = PROBES - 1 - number;
                let step = (high - low).div_ceil(UNIT).div_ceil(PROBES.into()) * UNIT;
                let size = low + step * u16::from(steps);
                (size < high).then_some(size)
            }
        }
    }

    /// The sizes of the round, in descending order.
    fn sizes(&self) -> impl Iterator<Item = u16> {
        let round = *self;
        (0..PROBES).filter_map(move |number| round.size(number))
    }

    /// The round and size of the next probe; `None` when all were sent.
    pub(crate) fn next_probe(&mut self) -> Option<(u16, u16)> {
        // bound: PROBES
        while self.sent < PROBES {
            let size = self.size(self.sent);
            self.sent += 1;
            if let Some(size) = size {
                return Some((self.round, size));
            }
        }
        None
    }

    /// Whether every probe of the round was sent.
    pub(crate) fn all_sent(&self) -> bool {
        (self.sent..PROBES).all(|number| self.size(number).is_none())
    }

    /// Records that a probe of `size` bytes has arrived. Returns whether the round is over, because
    /// no answer can say more; `None`: no such probe was sent.
    pub(crate) fn acknowledged(&mut self, round: u16, size: u16) -> Option<bool> {
        let sent =
            round == self.round && (0..self.sent).any(|number| self.size(number) == Some(size));
        if !sent {
            return None;
        }
        self.acked = self.acked.max(size);
        Some(self.sizes().next() == Some(self.acked))
    }

    /// Ends a round; `limit` is the full size.
    pub(crate) fn end_round(&mut self, limit: u16) -> RoundEnd {
        let acked = self.acked;
        let is_last = match self.phase {
            // Without any answer the path is down, and the size unknown.
            Phase::Confirm => acked == 0 || self.narrow(limit),
            Phase::Search if acked == 0 => {
                self.tries += 1;
                self.tries > TRIES
            }
            Phase::Search => self.narrow(limit),
        };
        let is_last = is_last || self.rounds >= ROUNDS_MAX;
        if !is_last {
            self.start_round();
        }
        RoundEnd { size: (acked > 0).then_some(acked), is_last }
    }

    /// Takes the answers of a round into account. Returns whether the search is over.
    fn narrow(&mut self, limit: u16) -> bool {
        if self.acked >= limit {
            return true;
        }
        let was_at_end = self.phase == Phase::Search && self.is_at_end();
        if was_at_end && self.acked < self.high {
            self.tries += 1;
            return self.tries >= TRIES;
        }
        let lost = self.sizes().filter(|&size| size > self.acked).min();
        // A size that passes after all is below all that were lost.
        self.high = if self.acked >= self.high { limit } else { lost.unwrap_or(self.high) };
        (self.low, self.phase, self.tries) = (self.acked, Phase::Search, 0);
        false
    }
}

/// Whether packets of `len` bytes may be too long for a path.
pub(crate) const fn may_be_too_long(len: usize) -> bool {
    len > BASE as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches a path that passes `passes` bytes and loses the probes of `losses`, by number.
    /// Returns the size found, and the rounds that it took.
    fn search(size: u16, limit: u16, passes: u16, losses: &[usize]) -> (u16, u32) {
        let mut mtu = PathMtu::new(size, limit, 1);
        let (mut found, mut rounds, mut probes) = (size, 0, 0);
        loop {
            rounds += 1;
            assert!(rounds <= u32::from(ROUNDS_MAX), "a search ends");
            let mut last = u16::MAX;
            while let Some((round, size)) = mtu.next_probe() {
                assert!((BASE.min(size)..=limit).contains(&size) && size <= last);
                last = size;
                if size <= passes && !losses.contains(&probes) {
                    mtu.acknowledged(round, size).unwrap();
                }
                probes += 1;
            }
            assert!(mtu.all_sent());
            let end = mtu.end_round(limit);
            found = end.size.unwrap_or(found);
            if end.is_last {
                return (found, rounds);
            }
        }
    }

    proptest! {
        #[test]
        fn the_largest_size_that_passes_is_found(
            limit in prop_oneof![Just(1472u16), Just(1448), Just(8968), 1300u16..9000],
            passes in BASE..9100,
            size in BASE..9000,
        ) {
            let limit = limit / 8 * 8;
            let size = if size < limit { size / UNIT * UNIT } else { limit };
            let (found, rounds) = search(size, limit, passes, &[]);
            prop_assert!(rounds <= 10, "{rounds}");
            prop_assert!(found <= passes.min(limit), "{found}");
            if passes >= limit {
                prop_assert_eq!(found, limit);
            } else {
                prop_assert!(passes - found < UNIT, "{found} of {passes}");
            }
        }

        #[test]
        fn a_lost_probe_costs_a_round(limit in 1500u16..9000, lost in 0usize..12) {
            let limit = limit / 8 * 8;
            let (found, _) = search(limit, limit, limit, &[lost]);
            prop_assert_eq!(found, limit);
        }
    }

    #[test]
    fn a_path_that_is_down_keeps_its_size() {
        assert_eq!(search(1472, 1472, 0, &[]), (1472, 1));
    }

    #[test]
    fn answers_to_probes_that_were_not_sent_have_no_effect() {
        let mut mtu = PathMtu::new(1472, 1472, 1);
        assert_eq!(mtu.acknowledged(1, 1472), None, "not sent yet");
        assert_eq!(mtu.next_probe(), Some((1, 1472)));
        assert_eq!(mtu.acknowledged(1, BASE), None);
        assert_eq!(mtu.acknowledged(0, 1472), None);
        assert_eq!(mtu.acknowledged(2, 1472), None);
        assert_eq!(mtu.acknowledged(1, 1400), None);
        assert_eq!(mtu.acknowledged(1, 1472), Some(true));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends that the application wants cancelled (`fi_cancel(3)`).
//!
//! A send runs to its end, because its first packet may be with the peer. If it fails after the
//! call, it ends as cancelled: an application may wait for that error, and pass over any other. The
//! engine's name of the operation tells it from others with the same context.
//!
//! In: sends under way that are cancelled, completions. Out: the outcome of a completion. Called by
//! `post` and `completions`. Bound: [`SENDS_MAX`] sends, the latest ones.

use std::collections::VecDeque;

use ofi_xdp_core::{Completion, OpError, OpId};

/// Sends that are remembered.
const SENDS_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CancelledSends(VecDeque<OpId>);

impl CancelledSends {
    /// Remembers a send that is under way.
    pub(super) fn insert(&mut self, send: OpId) {
        if self.0.contains(&send) {
            return;
        }
        if self.0.len() == SENDS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(send);
    }

    /// Forgets the sends that ended without a completion, before others are polled.
    #[inline]
    pub(super) fn keep(&mut self, exists: impl Fn(OpId) -> bool) {
        if !self.0.is_empty() {
            self.0.retain(|&send| exists(send));
        }
    }

    /// Adapts the outcome of a completion that was just polled, if it is that of a remembered send:
    /// that one does not exist any more.
    #[inline]
    pub(super) fn adapt(&mut self, completion: &mut Completion, exists: impl Fn(OpId) -> bool) {
        if !self.0.is_empty() {
            self.adapt_listed(completion, exists);
        }
    }

    #[cold]
    fn adapt_listed(&mut self, completion: &mut Completion, exists: impl Fn(OpId) -> bool) {
        let Some(at) = self.0.iter().position(|&send| !exists(send)) else { return };
        self.0.remove(at);
        if completion.outcome.is_err() {
            completion.outcome = Err(OpError::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::{Context, OpKind, PeerId};

    fn ended(outcome: Result<(), OpError>) -> Completion {
        Completion {
            context: Context(1),
            kind: OpKind::Write,
            peer: PeerId::NONE,
            len: 0,
            overflow: 0,
            tag: 0,
            data: None,
            slice: None,
            ends_buffer: false,
            outcome,
        }
    }

    /// The outcome of the send `ends`, or of another operation.
    fn outcome(
        sends: &mut CancelledSends,
        ends: Option<OpId>,
        before: Result<(), OpError>,
    ) -> Result<(), OpError> {
        let mut completion = ended(before);
        sends.adapt(&mut completion, |send| Some(send) != ends);
        completion.outcome
    }

    const FAILED: Result<(), OpError> = Err(OpError::TimedOut);

    #[test]
    fn a_failure_after_the_call_is_a_cancellation_once() {
        let mut sends = CancelledSends::default();
        let [first, second] = [1, 2].map(|slot| OpId::new(slot, 1));
        sends.insert(first);
        sends.insert(first);
        assert_eq!(outcome(&mut sends, None, FAILED), FAILED);
        assert_eq!(outcome(&mut sends, Some(first), FAILED), Err(OpError::Cancelled));
        assert_eq!(outcome(&mut sends, Some(first), FAILED), FAILED);
        sends.insert(second);
        assert_eq!(outcome(&mut sends, Some(second), Ok(())), Ok(()));
        assert_eq!(outcome(&mut sends, Some(second), FAILED), FAILED);
    }

    #[test]
    fn a_send_that_ended_without_a_completion_is_forgotten() {
        let mut sends = CancelledSends::default();
        let silent = OpId::new(1, 1);
        sends.insert(silent);
        sends.keep(|_| true);
        assert_eq!(sends.0, [silent]);
        sends.keep(|_| false);
        assert_eq!(outcome(&mut sends, Some(silent), FAILED), FAILED);
    }

    #[test]
    fn the_list_has_an_end() {
        let mut sends = CancelledSends::default();
        for slot in 0..2 * SENDS_MAX as u32 {
            sends.insert(OpId::new(slot, 1));
        }
        assert_eq!(sends.0.len(), SENDS_MAX);
    }
}

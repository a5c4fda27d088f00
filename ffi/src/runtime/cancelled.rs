// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends that the application wants cancelled (`fi_cancel(3)`).
//!
//! A send runs to its end, because its first packet may be with the peer. If it fails after the
//! call, it ends as cancelled: an application may wait for that error, and pass over any other.
//!
//! In: contexts of cancelled operations, completions. Out: the outcome of a completion. Called by
//! `post` and `completions`. Bound: [`CONTEXTS_MAX`] contexts, the latest ones.

use std::collections::VecDeque;

use ofi_xdp_core::{Completion, Context, OpError};

/// Contexts that are remembered.
const CONTEXTS_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CancelledSends(VecDeque<Context>);

impl CancelledSends {
    /// Remembers an operation that is no receive.
    pub(super) fn insert(&mut self, context: Context) {
        if self.0.len() == CONTEXTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(context);
    }

    /// Forgets an operation that ends, and adapts its outcome if it is a send. A receive had ended
    /// before the call, and its context is in use again.
    #[inline]
    pub(super) fn adapt(&mut self, completion: &mut Completion, is_receive: bool) {
        if !self.0.is_empty() {
            self.adapt_listed(completion, is_receive);
        }
    }

    #[cold]
    fn adapt_listed(&mut self, completion: &mut Completion, is_receive: bool) {
        let Some(at) = self.0.iter().position(|context| *context == completion.context) else {
            return;
        };
        self.0.remove(at);
        if completion.outcome.is_err() && !is_receive {
            completion.outcome = Err(OpError::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::{OpKind, PeerId};

    fn ended(context: u64, outcome: Result<(), OpError>) -> Completion {
        Completion {
            context: Context(context),
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

    #[test]
    fn a_failure_after_the_call_is_a_cancellation_once() {
        let mut sends = CancelledSends::default();
        sends.insert(Context(1));
        let outcome = |sends: &mut CancelledSends, context, before| {
            let mut completion = ended(context, before);
            sends.adapt(&mut completion, false);
            completion.outcome
        };
        let failed = Err(OpError::TimedOut);
        assert_eq!(outcome(&mut sends, 2, failed), failed);
        assert_eq!(outcome(&mut sends, 1, failed), Err(OpError::Cancelled));
        assert_eq!(outcome(&mut sends, 1, failed), failed);
        sends.insert(Context(3));
        assert_eq!(outcome(&mut sends, 3, Ok(())), Ok(()));
        assert_eq!(outcome(&mut sends, 3, failed), failed);
    }

    #[test]
    fn a_receive_that_had_ended_before_the_call_is_forgotten() {
        let mut sends = CancelledSends::default();
        sends.insert(Context(1));
        let failed = Err(OpError::Truncated);
        for is_receive in [true, false] {
            let mut completion = ended(1, failed);
            sends.adapt(&mut completion, is_receive);
            assert_eq!(completion.outcome, failed);
        }
    }

    #[test]
    fn the_list_has_an_end() {
        let mut sends = CancelledSends::default();
        for context in 0..2 * CONTEXTS_MAX as u64 {
            sends.insert(Context(context));
        }
        assert_eq!(sends.0.len(), CONTEXTS_MAX);
    }
}

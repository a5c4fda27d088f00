// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ends an application is told of: how a completion queue is bound to one side
//! (`fi_endpoint(3)`, `FI_SELECTIVE_COMPLETION`).

use super::bound::BoundCq;
use crate::abi::bits;

/// Which operations that end well make a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reports {
    /// None: there is no queue for it.
    Never,
    /// Those that ask for it (`FI_SELECTIVE_COMPLETION`).
    Asked,
    /// All.
    Always,
}

impl Reports {
    pub(super) fn of(queue: Option<&BoundCq>) -> Self {
        match queue {
            None => Self::Never,
            Some(BoundCq { selective: true, .. }) => Self::Asked,
            Some(_) => Self::Always,
        }
    }

    /// Whether one makes a completion that asks for it, or does not.
    #[inline]
    pub(crate) fn asked(self, asked: bool) -> bool {
        self == Self::Always || (self == Self::Asked && asked)
    }

    /// Whether one with these flags does.
    #[inline]
    pub(crate) fn signals(self, flags: u64) -> bool {
        self.asked(flags & bits::COMPLETION != 0)
    }
}

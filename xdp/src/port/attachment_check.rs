// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check whether the XDP program is still attached. The kernel does not notify of a detachment
//! (`bpf_xdp_link_release`, net/core/dev.c).
//!
//! In: a long run of packets on the kernel socket, the sign of a detachment. Out: the reason why
//! the program redirects nothing any more. Caller: `hybrid/failover.rs`. Bound: one question at a
//! time, and one in [`PAUSE_NANOS`], by a thread. There is none while the program counts packets of
//! the endpoint: it is attached.

use ofi_xdp_core::Instant;

use crate::af_xdp::kernel_hint::KernelRxHint;
use crate::af_xdp::port::XskPort;
use crate::host::question::Question;

/// Pause between two questions (250 ms).
const PAUSE_NANOS: u64 = 250_000_000;

/// The state of the check.
#[derive(Debug, Default)]
pub(super) struct AttachmentCheck {
    question: Option<Question<Option<&'static str>>>,
    /// Time from which the next question may be asked.
    ask_at: Instant,
    /// Packets of the endpoint that the program had counted at the last check.
    counted: u64,
}

impl AttachmentCheck {
    /// Asks whether the program of `port` is attached, unless that is known.
    pub(super) fn begin(&mut self, now: Instant, port: &XskPort, hint: Option<&KernelRxHint>) {
        let counted = hint.map_or(0, KernelRxHint::count);
        let counts = std::mem::replace(&mut self.counted, counted) != counted;
        if counts || self.question.is_some() || now < self.ask_at {
            return;
        }
        self.ask_at = now.after_nanos(PAUSE_NANOS);
        // Without memory for the thread the next run of packets asks.
        self.question = port.attachment().and_then(|question| Question::ask(question).ok());
    }

    /// The reason, once it is known.
    pub(super) fn end_reason(&mut self) -> Option<&'static str> {
        self.question.take_if(|question| question.is_answered())?.answer().flatten()
    }
}

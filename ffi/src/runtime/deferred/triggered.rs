// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggered operations: calls with `FI_TRIGGER` that have not started.
//!
//! They belong to their endpoint as if they had started: they can be cancelled, end with it, and
//! complete in error where they cannot start. Deferred work, in the same queue, belongs to the
//! domain: `FI_CANCEL_WORK` takes it back, and it keeps its endpoint open. The flags of an
//! operation tell the two apart. In: `fi_cancel` and `fi_close` of endpoints, works that are due.
//! Out: completions in error. Bound: the works of a domain.

use std::ptr::addr_eq;
use std::sync::Arc;

use ofi_xdp_core::{AtomicForm, Context, OpError, OpKind, PeerId, UnstartedOp};

use super::{Action, Initiator, Trigger, Work, WorkQueue};
use crate::runtime::{OpFlags, Request, RequestKind, Runtime};
use crate::sys::abi::bits;
use crate::sys::errno::Error;

/// A triggered operation, and its endpoint.
pub(super) struct Call<'a> {
    endpoint: &'a Arc<dyn Initiator>,
    op: UnstartedOp,
}

impl Action {
    /// The triggered operation that it starts; `None` for deferred work.
    pub(super) fn call(&self) -> Option<Call<'_>> {
        let (endpoint, context, flags, kind) = match self {
            Self::Post(endpoint, request) => {
                (endpoint, request.context, request.flags, kind_of(request))
            }
            Self::Receive(endpoint, recv) => {
                (endpoint, recv.context, recv.flags, OpKind::Recv { tagged: recv.tag.is_some() })
            }
            Self::Set(..) | Self::Add(..) => return None,
        };
        let OpFlags::Given(flags) = flags else { return None };
        let fetches = match self {
            Self::Post(_, Request { kind: RequestKind::Atomic(atomic), .. }) => {
                atomic.form != AtomicForm::Base
            }
            _ => false,
        };
        let multi = flags & bits::MULTI_RECV != 0;
        let peer = endpoint.peer().unwrap_or(PeerId::NONE);
        Some(Call { endpoint, op: UnstartedOp { context, kind, fetches, multi, peer } })
    }
}

/// The kind of operation that the completion names.
const fn kind_of(request: &Request) -> OpKind {
    match request.kind {
        RequestKind::Send { tag, .. } => OpKind::Send { tagged: tag.is_some() },
        RequestKind::Write { .. } => OpKind::Write,
        RequestKind::Read { .. } => OpKind::Read,
        RequestKind::Atomic(_) => OpKind::Atomic,
    }
}

impl Call<'_> {
    /// Ends it in error before it has started.
    ///
    /// # Errors
    /// [`Error::Again`] when its endpoint has no room for the completion.
    fn end(&self, error: OpError) -> Result<(), Error> {
        self.endpoint.runtime()?.fail_unstarted(&self.op, error)
    }

    /// Ends an operation that cannot start. The completion has the error that is nearest to the
    /// call's.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub(super) fn fail(&self, error: Error) -> Result<(), Error> {
        self.end(match error {
            Error::Invalid | Error::TooLong => OpError::Bounds,
            _ => OpError::Unsupported,
        })
    }

    /// Whether it is of an endpoint on this runtime. Connected endpoints may share it: each has a
    /// peer of its own.
    fn is_of(&self, runtime: &Arc<Runtime>, connected: Option<PeerId>) -> bool {
        self.endpoint.runtime().is_ok_and(|own| Arc::ptr_eq(own, runtime))
            && self.endpoint.peer() == connected
    }
}

impl WorkQueue {
    /// `fi_cancel`: ends a triggered operation with this context, of this endpoint or an alias;
    /// whether there was one.
    ///
    /// # Errors
    /// [`Error::Again`] when there is no room for its completion: it stays queued.
    pub(crate) fn cancel_call(
        &self,
        (runtime, connected): (&Arc<Runtime>, Option<PeerId>),
        context: Context,
    ) -> Result<bool, Error> {
        if !self.is_busy() {
            return Ok(false);
        }
        let mut state = self.lock();
        for Trigger { waiting, .. } in &mut state.triggers {
            let mut calls =
                waiting.iter().filter_map(|(&at, work)| Some((at, work.action.call()?)));
            let is_meant =
                |call: &Call<'_>| call.op.context == context && call.is_of(runtime, connected);
            let found = calls.find(|(_, call)| is_meant(call));
            let Some((at, call)) = found else { continue };
            call.end(OpError::Cancelled)?;
            waiting.remove(&at);
            state.queued -= 1;
            self.prune(&mut state);
            return Ok(true);
        }
        Ok(false)
    }

    /// Drops the triggered operations of an endpoint that closes, if they have its only other
    /// references; whether no references are left.
    pub(crate) fn drop_calls<E: Initiator>(&self, endpoint: &Arc<E>) -> bool {
        let own = Arc::as_ptr(endpoint);
        let made_by = |work: &Work| {
            work.action.call().is_some_and(|call| addr_eq(Arc::as_ptr(call.endpoint), own))
        };
        // Under the lock no operation drops its reference.
        let mut state = self.lock();
        let calls = state.works().filter(|work| made_by(work)).count();
        let alone = Arc::strong_count(endpoint) == 1 + calls;
        if alone && calls > 0 {
            self.remove_from(&mut state, made_by);
        }
        alone
    }
}

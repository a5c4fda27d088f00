// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls with `FI_TRIGGER` that have not begun: they are their endpoint's as if they had, so they
//! can be cancelled, end with it, and are told of where they cannot begin.
//!
//! Deferred work, which stands in the same queue, is the domain's instead: `FI_CANCEL_WORK` takes
//! it back, and it keeps its endpoint open. Which is which, an operation's flags say. In:
//! `fi_cancel` and `fi_close` of endpoints (`ep`), works whose turn has come. Out: completions in
//! error. Bound: the works of a domain.

use std::sync::Arc;

use ofi_xdp_core::{AtomicForm, Context, OpError, OpKind, Unbegun};

use super::{Op, Trigger, Work, WorkQueue};
use crate::abi::bits;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::OpFlags;
use crate::progress::ActiveEndpoint;

/// A call, and the endpoint that it was made on.
pub(super) struct Call<'a> {
    endpoint: &'a Arc<Endpoint>,
    op: Unbegun,
}

impl Op {
    /// The call that this is; nothing of deferred work.
    pub(super) fn call(&self) -> Option<Call<'_>> {
        let (endpoint, context, flags, kind) = match self {
            Self::Send(endpoint, send) => {
                (endpoint, send.context, send.flags, OpKind::Send { tagged: send.tag.is_some() })
            }
            Self::Recv(endpoint, recv) => {
                (endpoint, recv.context, recv.flags, OpKind::Recv { tagged: recv.tag.is_some() })
            }
            Self::Write(endpoint, write) => (endpoint, write.context, write.flags, OpKind::Write),
            Self::Read(endpoint, read) => (endpoint, read.context, read.flags, OpKind::Read),
            Self::Atomic(endpoint, one) => (endpoint, one.context, one.flags, OpKind::Atomic),
            Self::Set(..) | Self::Add(..) => return None,
        };
        let OpFlags::Given(flags) = flags else { return None };
        let fetches = matches!(self, Self::Atomic(_, one) if one.form != AtomicForm::Base);
        let many = flags & bits::MULTI_RECV != 0;
        Some(Call { endpoint, op: Unbegun { context, kind, fetches, many } })
    }
}

impl Call<'_> {
    /// Ends it in error, before it has begun.
    ///
    /// # Errors
    /// [`Error::Again`] when its endpoint has no room for the completion.
    fn end(&self, error: OpError) -> Result<(), Error> {
        self.endpoint.running()?.active.end_unbegun(&self.op, error)
    }

    /// It cannot begin: its completion says, as nearly as it can, what the call would have.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub(super) fn refuse(&self, error: Error) -> Result<(), Error> {
        self.end(match error {
            Error::Invalid | Error::TooLong => OpError::Bounds,
            _ => OpError::Unsupported,
        })
    }

    fn is_of(&self, active: &Arc<ActiveEndpoint>) -> bool {
        self.endpoint.running().is_ok_and(|running| Arc::ptr_eq(&running.active, active))
    }
}

impl WorkQueue {
    /// `fi_cancel`: ends a call of this endpoint, or of an alias of it, that has this context;
    /// whether there was one.
    ///
    /// # Errors
    /// [`Error::Again`] when the endpoint has no room for its completion: it waits on.
    pub(crate) fn cancel_call(
        &self,
        active: &Arc<ActiveEndpoint>,
        context: Context,
    ) -> Result<bool, Error> {
        if !self.is_busy() {
            return Ok(false);
        }
        let mut state = self.lock();
        for Trigger { waiting, .. } in &mut state.triggers {
            let mut calls = waiting.iter().filter_map(|(&at, work)| Some((at, work.op.call()?)));
            let found = calls.find(|(_, call)| call.op.context == context && call.is_of(active));
            let Some((at, call)) = found else { continue };
            call.end(OpError::Cancelled)?;
            waiting.remove(&at);
            state.queued -= 1;
            self.settle(&mut state);
            return Ok(true);
        }
        Ok(false)
    }

    /// Drops the calls of an endpoint that is to close, unless others have a share in it, too;
    /// whether nobody has now.
    pub(crate) fn drop_calls(&self, endpoint: &Arc<Endpoint>) -> bool {
        let made_by =
            |work: &Work| work.op.call().is_some_and(|call| Arc::ptr_eq(call.endpoint, endpoint));
        // Under the lock no call gives its share back.
        let mut state = self.lock();
        let calls = state.works().filter(|work| made_by(work)).count();
        let alone = Arc::strong_count(endpoint) == 1 + calls;
        if alone && calls > 0 {
            self.remove_from(&mut state, made_by);
        }
        alone
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operation flags: the endpoint's defaults and the flags of a call, resolved to options.
//!
//! In: [`OpFlags`] of a request. Out: [`OpOptions`]. Called by `transfer` and `options`. Bound:
//! constant.

use std::sync::atomic::Ordering;

use crate::endpoint::{Enabled, Endpoint};
use crate::runtime::peers::is_of_group;
use crate::runtime::{
    CompletionPolicy, OpFlags, OpOptions, Recv, Request, RequestKind, SendForm, Side,
};
use crate::sys::abi::bits;
use crate::sys::errno::Error;

/// Flags of an initiator's operation that are not offered, or to endpoints of datagrams alone.
const REFUSED: u64 = bits::COMMIT_COMPLETE | bits::MULTICAST;
/// Flags that nobody can keep for a datagram: it is not acknowledged.
const REFUSED_OF_DATAGRAMS: u64 = bits::DELIVERY_COMPLETE | bits::MATCH_COMPLETE | bits::FENCE;

impl Endpoint {
    /// The flags in force for an operation.
    #[inline]
    pub(super) fn flags(&self, side: Side, flags: OpFlags) -> u64 {
        let default = match side {
            Side::Transmit => &self.tx_op_flags,
            Side::Receive => &self.rx_op_flags,
        };
        match flags {
            OpFlags::Default => default.load(Ordering::Relaxed),
            OpFlags::Given(flags) | OpFlags::Deferred(flags) => flags,
            OpFlags::Inject => bits::INJECT,
        }
    }

    /// Whether a call of this side with these flags is a triggered operation.
    #[inline]
    pub(crate) fn is_triggered(&self, side: Side, flags: OpFlags) -> bool {
        self.flags(side, flags) & bits::TRIGGER != 0
    }

    /// The flags of a triggered operation, for the time when it starts: default flags as they are
    /// now.
    ///
    /// # Errors
    /// [`Error::BadFlags`] if `FI_TRIGGER` was not requested at open. Also with `FI_INJECT`: the
    /// buffer may be used again when the call returns, but would be read later.
    pub(crate) fn triggered_flags(&self, side: Side, flags: OpFlags) -> Result<OpFlags, Error> {
        let flags = self.flags(side, flags);
        if self.caps & bits::TRIGGER == 0 || flags & bits::INJECT != 0 {
            return Err(Error::BadFlags);
        }
        Ok(OpFlags::Given(flags & !bits::TRIGGER))
    }

    /// [`Self::triggered_flags`] of a receive. As a default flag, `FI_MULTI_RECV` is for untagged
    /// receives only (`fi_endpoint(3)`).
    ///
    /// # Errors
    /// As [`Self::triggered_flags`].
    pub(crate) fn triggered_recv_flags(&self, recv: &Recv) -> Result<OpFlags, Error> {
        let flags = self.triggered_flags(Side::Receive, recv.flags)?;
        Ok(match (flags, recv.flags) {
            (OpFlags::Given(flags), OpFlags::Default) if recv.tag.is_some() => {
                OpFlags::Given(flags & !bits::MULTI_RECV)
            }
            (flags, _) => flags,
        })
    }

    /// The options that the flags of a request amount to.
    ///
    /// # Errors
    /// [`Error::BadFlags`] for flags that are not offered; [`Error::TooLong`] beyond `inject_size`;
    /// [`Error::NotSupported`] for other operations than messages on an endpoint of datagrams.
    #[inline]
    pub(super) fn resolve_flags(
        &self,
        enabled: &Enabled,
        request: &Request,
    ) -> Result<OpOptions, Error> {
        let flags = self.flags(Side::Transmit, request.flags);
        if flags & REFUSED != 0 && !self.admits_group(flags) {
            return Err(Error::BadFlags);
        }
        let inject = flags & bits::INJECT != 0 && request.kind.sends_buffer();
        if inject && request.buffer.len() > self.inject_size {
            return Err(Error::TooLong);
        }
        let form = if self.carries_datagrams {
            self.check_group(request, flags)?;
            datagram_form(&request.kind, flags)?
        } else if flags & bits::MATCH_COMPLETE != 0 {
            SendForm::Matched
        } else {
            SendForm::Message
        };
        Ok(OpOptions {
            inject,
            signal: signals(enabled.transmits, request.flags, flags),
            more: flags & bits::MORE != 0,
            fence: flags & bits::FENCE != 0,
            deferred: matches!(request.flags, OpFlags::Deferred(_)),
            form,
            connected: enabled.peer,
        })
    }
}

impl Endpoint {
    /// Whether the refused flags among these are those of a datagram to a group.
    #[cold]
    fn admits_group(&self, flags: u64) -> bool {
        self.caps & bits::MULTICAST != 0 && flags & REFUSED == bits::MULTICAST
    }

    /// Checks that a datagram has `FI_MULTICAST` exactly if it goes to a group (`fi_msg(3)`).
    /// `fi_inject` has the flag of the endpoint.
    #[cold]
    fn check_group(&self, request: &Request, flags: u64) -> Result<(), Error> {
        let flags = match request.flags {
            OpFlags::Inject => self.tx_op_flags.load(Ordering::Relaxed),
            _ => flags,
        };
        let flagged = flags & bits::MULTICAST != 0;
        if flagged == is_of_group(request.peer) { Ok(()) } else { Err(Error::Invalid) }
    }
}

/// The form of a send on an endpoint of datagrams, where other operations do not exist.
#[cold]
fn datagram_form(kind: &RequestKind, flags: u64) -> Result<SendForm, Error> {
    match kind {
        _ if flags & REFUSED_OF_DATAGRAMS != 0 => Err(Error::BadFlags),
        RequestKind::Send { tag: None, data: None } => Ok(SendForm::Datagram),
        _ => Err(Error::NotSupported),
    }
}

/// Whether success writes a completion: `flags` are those in force, `kind` is their origin.
#[inline]
pub(super) fn signals(policy: CompletionPolicy, kind: OpFlags, flags: u64) -> bool {
    match kind {
        OpFlags::Inject => false,
        OpFlags::Deferred(_) => policy != CompletionPolicy::None && flags & bits::COMPLETION != 0,
        OpFlags::Default | OpFlags::Given(_) => policy.signals(flags),
    }
}

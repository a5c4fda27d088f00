// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects that receives are posted to, and the modes of a receive (`fi_msg(3)`, `fi_tagged(3)`).
//!
//! In: the flags in force for a receive. Out: its [`RecvMode`]. Called by endpoints and shared
//! receive contexts. Bound: constant.

use std::sync::atomic::{AtomicUsize, Ordering};

use ofi_xdp_core::{Context, DeferredId, Peek};

use crate::runtime::{ClaimAction, OpFlags, Recv, RecvMode, Side};
use crate::sys::abi::bits;
use crate::sys::errno::Error;

/// `FI_OPT_MIN_MULTI_RECV` of an application that does not set it.
pub(super) const MIN_MULTI_RECV: usize = 64;

/// Flags of a receive that select another mode than one message.
const SPECIAL_FLAGS: u64 = PEEK_FLAGS | bits::MULTI_RECV;
/// Flags of a receive that are about a stored message.
const PEEK_FLAGS: u64 = bits::PEEK | bits::CLAIM | bits::DISCARD;

/// An object that receives are posted to: an endpoint, a shared receive context. All other calls on
/// it are those of `fi_endpoint(3)`.
pub(crate) trait Receives {
    /// Posts a receive of any kind; the name of a deferred one.
    ///
    /// # Errors
    /// [`Error::BadState`] before it is enabled; [`Error::BadFlags`]; as `Runtime::receive`.
    fn receive(&self, recv: &Recv) -> Result<Option<DeferredId>, Error>;

    /// Whether a receive with these flags is a triggered operation.
    fn triggers_recv(&self, flags: OpFlags) -> bool;

    /// `fi_cancel`: ends a triggered operation that has not started, or the oldest receive, with
    /// this context, with an error completion.
    ///
    /// # Errors
    /// [`Error::Again`] if there is no room for the completion.
    fn cancel(&self, context: Context) -> Result<(), Error>;

    /// `FI_OPT_MIN_MULTI_RECV`: a multi-receive buffer is released when fewer bytes are free.
    fn min_multi_recv(&self) -> usize;

    /// Sets it, for buffers that are posted from now on.
    fn set_min_multi_recv(&self, min_free: usize);

    /// `FI_OPT_TX_SIZE`, `FI_OPT_RX_SIZE`: the most operations of a side.
    ///
    /// # Errors
    /// [`Error::NoOption`] where the object has no such size.
    fn size(&self, side: Side) -> Result<usize, Error>;

    /// `FI_OPT_CM_DATA_SIZE`: most bytes that a connection request carries; 0: there are none.
    fn cm_data_size(&self) -> usize {
        0
    }

    /// `fi_rx_size_left`.
    ///
    /// # Errors
    /// [`Error::BadState`] before it is enabled.
    fn receives_left(&self) -> Result<usize, Error>;
}

/// The mode that the flags of a receive select; `min_free` is for multi-receive buffers.
///
/// # Errors
/// [`Error::BadFlags`] for flags that do not go together; [`Error::NotSupported`] for deferred
/// receives of another mode than one message.
#[inline]
pub(super) fn classify_recv(
    recv: &Recv,
    flags: u64,
    min_free: &AtomicUsize,
) -> Result<RecvMode, Error> {
    let deferred = matches!(recv.flags, OpFlags::Deferred(_));
    if flags & SPECIAL_FLAGS == 0 {
        return Ok(if deferred { RecvMode::Deferred } else { RecvMode::Single });
    }
    classify_special_recv(recv, flags, min_free)
}

#[cold]
fn classify_special_recv(
    recv: &Recv,
    flags: u64,
    min_free: &AtomicUsize,
) -> Result<RecvMode, Error> {
    const PEEK: u64 = bits::PEEK;
    const PEEK_AND_CLAIM: u64 = bits::PEEK | bits::CLAIM;
    const PEEK_AND_DISCARD: u64 = bits::PEEK | bits::DISCARD;
    const DISCARD_CLAIMED: u64 = bits::CLAIM | bits::DISCARD;
    let mode = match flags & SPECIAL_FLAGS {
        // As a default flag it is for untagged receives only (fi_endpoint(3)).
        bits::MULTI_RECV if recv.tag.is_some() && recv.flags == OpFlags::Default => {
            RecvMode::Single
        }
        bits::MULTI_RECV => RecvMode::Multi { min_free: min_free.load(Ordering::Relaxed) as u64 },
        // For tagged messages only (fi_tagged(3)).
        _ if recv.tag.is_none() => return Err(Error::BadFlags),
        PEEK => RecvMode::Peek(Peek::Envelope),
        PEEK_AND_CLAIM => RecvMode::Peek(Peek::Claim),
        PEEK_AND_DISCARD => RecvMode::Peek(Peek::Discard),
        bits::CLAIM => RecvMode::Claimed(ClaimAction::Receive),
        DISCARD_CLAIMED => RecvMode::Claimed(ClaimAction::Discard),
        _ => return Err(Error::BadFlags),
    };
    // Their ends are not known to the work queue.
    if matches!(recv.flags, OpFlags::Deferred(_)) { Err(Error::NotSupported) } else { Ok(mode) }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of the provider, and libfabric's error numbers (`fi_errno(3)`).

use std::ffi::{CStr, c_int};

use ofi_xdp_core::{OpError, PeersFull, PostError};

use crate::sys::abi;

/// The reason of a failed call; C gets the negative [`Error::number`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No room now: read completions and try again.
    #[error("no room now; read completions and try again")]
    Again,
    /// An error entry waits in the queue.
    #[error("an error entry is available")]
    Available,
    /// The call has an unknown flag.
    #[error("unknown flags")]
    BadFlags,
    /// The object is not in the state for this call (not enabled yet, or enabled already).
    #[error("the object is in the wrong state for this call")]
    BadState,
    /// An object that was opened from this one, or bound to it, is still open.
    #[error("still in use: close what was opened from it or bound to it first")]
    Busy,
    /// A signal interrupted the wait.
    #[error("interrupted by a signal")]
    Interrupted,
    /// An argument is NULL, of the wrong class, or out of range.
    #[error("invalid argument")]
    Invalid,
    /// The address vector is missing.
    #[error("no address vector is bound")]
    NoAddressVector,
    /// There is no connection, or it has ended.
    #[error("not connected")]
    NotConnected,
    /// The completion queue is missing.
    #[error("no completion queue is bound")]
    NoCompletionQueue,
    /// The event queue is missing.
    #[error("no event queue is bound")]
    NoEventQueue,
    /// Nothing satisfies the request.
    #[error("nothing satisfies the request")]
    NoData,
    /// The memory key is in use.
    #[error("the memory key is in use")]
    NoKey,
    /// Memory, or a table of fixed size, is exhausted.
    #[error("out of memory")]
    NoMemory,
    /// The option is unknown.
    #[error("unknown option")]
    NoOption,
    /// This operation on this datatype is not offered.
    #[error("the operation is not offered on this datatype")]
    NotOffered,
    /// The call is not implemented.
    #[error("not implemented")]
    NotSupported,
    /// An error of the operating system.
    #[error("system error {0}")]
    Os(c_int),
    /// The time-out expired.
    #[error("timed out")]
    TimedOut,
    /// The caller's buffer is too small.
    #[error("the buffer is too small")]
    TooSmall,
    /// The message is longer than the endpoint can carry.
    #[error("the message is too long")]
    TooLong,
    /// A panic was caught in `c_api`.
    #[error("internal error")]
    Internal,
}

impl Error {
    /// libfabric's (positive) number.
    pub(crate) const fn number(self) -> c_int {
        let number = match self {
            Self::Again => abi::FI_EAGAIN,
            Self::Available => abi::FI_EAVAIL,
            Self::BadFlags => abi::FI_EBADFLAGS,
            Self::BadState => abi::FI_EOPBADSTATE,
            Self::Busy => abi::FI_EBUSY,
            Self::Internal => abi::FI_EOTHER,
            Self::Interrupted => abi::FI_EINTR,
            Self::Invalid => abi::FI_EINVAL,
            Self::NotConnected => abi::FI_ENOTCONN,
            Self::NoAddressVector => abi::FI_ENOAV,
            Self::NoCompletionQueue => abi::FI_ENOCQ,
            Self::NoEventQueue => abi::FI_ENOEQ,
            Self::NoData => abi::FI_ENODATA,
            Self::NoKey => abi::FI_ENOKEY,
            Self::NoMemory => abi::FI_ENOMEM,
            Self::NoOption => abi::FI_ENOPROTOOPT,
            Self::NotOffered => abi::FI_EOPNOTSUPP,
            Self::NotSupported => abi::FI_ENOSYS,
            Self::Os(number) => return number,
            Self::TimedOut => abi::FI_ETIMEDOUT,
            Self::TooLong => abi::FI_EMSGSIZE,
            Self::TooSmall => abi::FI_ETOOSMALL,
        };
        number.cast_signed()
    }
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Again => Self::Again,
            PostError::TooLong => Self::TooLong,
            PostError::Unsupported => Self::NotOffered,
            PostError::UnknownPeer | PostError::NotClaimed => Self::Invalid,
        }
    }
}

impl From<PeersFull> for Error {
    fn from(error: PeersFull) -> Self {
        match error {
            PeersFull::Full => Self::NoMemory,
            PeersFull::Quarantined => Self::Again,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Os(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<nix::errno::Errno> for Error {
    fn from(error: nix::errno::Errno) -> Self {
        match error {
            nix::errno::Errno::EINTR => Self::Interrupted,
            error => Self::Os(error as c_int),
        }
    }
}

/// The `err` of an error completion (`fi_cq(3)`).
pub(crate) const fn completion_number(error: OpError) -> c_int {
    let number = match error {
        OpError::Cancelled => abi::FI_ECANCELED,
        OpError::NoMessage => abi::FI_ENOMSG,
        OpError::Closed => abi::FI_ECONNABORTED,
        OpError::Reset => abi::FI_ECONNRESET,
        OpError::TimedOut => abi::FI_ETIMEDOUT,
        OpError::Truncated => abi::FI_ETRUNC,
        OpError::Unreachable => abi::FI_EHOSTUNREACH,
        OpError::Key => abi::FI_EACCES,
        OpError::Bounds => abi::FI_EINVAL,
        OpError::Unsupported => abi::FI_EOPNOTSUPP,
    };
    number.cast_signed()
}

/// The text of the `prov_errno` of an error completion, a number equal to its `err`.
pub(crate) fn completion_text(number: c_int) -> &'static CStr {
    match number.cast_unsigned() {
        abi::FI_ECANCELED => c"cancelled by the application",
        abi::FI_ECONNABORTED => c"the peer closed its endpoint or was removed",
        abi::FI_ECONNRESET => c"the peer restarted; whether the operation took effect is unknown",
        abi::FI_ETIMEDOUT => c"no answer from the peer within FI_XDP_PEER_TIMEOUT",
        abi::FI_ENOMSG => c"no message waits that fits",
        abi::FI_EADDRNOTAVAIL => c"received, from a source that is not in the address vector",
        abi::FI_ETRUNC => c"the message is longer than the receive buffer",
        abi::FI_EHOSTUNREACH => c"the peer did not answer the handshake within FI_XDP_PEER_TIMEOUT",
        _ => abi::error_text(number),
    }
}

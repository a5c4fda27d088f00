// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that a queue of shared receives ([`SharedQueue`](crate::SharedQueue)) returns to its
//! owner.

use crate::{RecvRequest, SharedRecvId};

/// A receive, or a slice of one, that an engine claimed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClaimedRecv {
    /// The receive as it was posted, from any peer; the length is that of the slice.
    pub request: RecvRequest,
    /// Names the buffer. A whole receive has left the queue: its slot is free.
    pub id: SharedRecvId,
    /// The offset of the slice in a multi-receive buffer. The slice is open until
    /// [`SharedQueue::end_slice`](crate::SharedQueue::end_slice).
    pub slice: Option<u64>,
}

/// The end of a slice of a multi-receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SliceEnd {
    /// The effect on the buffer.
    pub release: Release,
    /// [`RecvRequest::signal`] of the receive.
    pub signal: bool,
}

/// The effect of the end of a slice on its multi-receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Release {
    /// The buffer takes messages, or has other open slices.
    None,
    /// The buffer is released, and the completion of the slice reports that.
    Reported,
    /// The buffer is released. It keeps its slot until
    /// [`SharedQueue::report`](crate::SharedQueue::report).
    Unreported,
}

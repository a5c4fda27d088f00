// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of peers that the application has not accepted (`FI_CONNREQ`).
//!
//! In: requests, reads of their events, withdrawals by their peers. Out: which of those that were
//! withdrawn count no more for the backlog and the share of their host. Caller: the socket of the
//! connection manager, under its lock. Bound: the backlog, and requests that the application
//! neither answers nor drops.
//!
//! A request that was withdrawn counts until its event is read, so that the backlog and the shares
//! bound unread events, too.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use ofi_xdp_core::cm::RequestId;

/// The object of a request. The passive endpoint knows its type.
pub(super) type RequestObject = dyn Any + Send + Sync;

/// See the module.
#[derive(Default)]
pub(super) struct UnacceptedRequests(HashMap<RequestId, UnacceptedRequest>);

struct UnacceptedRequest {
    object: Weak<RequestObject>,
    /// Whether the application has its event.
    is_read: bool,
    /// Whether the peer has withdrawn it.
    is_withdrawn: bool,
}

impl UnacceptedRequests {
    pub(super) fn insert(&mut self, id: RequestId, object: Weak<RequestObject>) {
        let request = UnacceptedRequest { object, is_read: false, is_withdrawn: false };
        self.0.insert(id, request);
    }

    pub(super) fn remove(&mut self, id: RequestId) {
        self.0.remove(&id);
    }

    pub(super) fn contains(&self, id: RequestId) -> bool {
        self.0.contains_key(&id)
    }

    /// The application has the event of a request. Returns whether the request counts no more,
    /// because it was withdrawn before.
    pub(super) fn event_read(&mut self, id: RequestId) -> bool {
        self.0.get_mut(&id).is_some_and(|request| {
            request.is_read = true;
            request.is_withdrawn
        })
    }

    /// The peer has withdrawn a request. Returns whether it counts yet, because its event was not
    /// read.
    pub(super) fn withdrawn(&mut self, id: RequestId) -> bool {
        self.0.get_mut(&id).is_some_and(|request| {
            request.is_withdrawn = true;
            !request.is_read
        })
    }

    /// Their objects. The caller drops them without the lock: a request takes it when it is
    /// dropped.
    pub(super) fn objects(&self) -> Vec<Arc<RequestObject>> {
        self.0.values().filter_map(|request| request.object.upgrade()).collect()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection request at a passive endpoint (`FI_CONNREQ`, `fi_cm(3)`).
//!
//! In: the request of a peer. Out: one answer. Called by the passive endpoint and by the endpoint
//! that accepts. A request that is dropped without an answer is rejected; so is one when the
//! endpoint that was opened for it closes. Bound: one request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ofi_xdp_core::PeerId;
use ofi_xdp_core::cm::RequestId;

use super::socket::{CmSocket, DataPort, NewRequest, Requester};
use crate::getinfo::route::RouteTowards;
use crate::objects::object_ops::ObjectOps;
use crate::sys::errno::Error;

/// See the module.
#[derive(Debug)]
pub(crate) struct ConnectionRequest {
    socket: Arc<CmSocket>,
    id: RequestId,
    /// The data port of the peer.
    peer: SocketAddr,
    /// The name of the connection there.
    cid: PeerId,
    /// The address of this host that the peer has asked.
    local: SocketAddr,
    answered: AtomicBool,
    /// C's pointer to the object of this request, exposed; 0: none yet.
    handle: AtomicUsize,
}

impl ConnectionRequest {
    /// A request that has arrived at `socket`.
    pub(crate) fn new(socket: &Arc<CmSocket>, request: NewRequest) -> Arc<Self> {
        let NewRequest { id, from, peer, cid } = request;
        let mut local = socket.local();
        if local.ip().is_unspecified()
            && let Some(route) = RouteTowards::find(from)
        {
            local.set_ip(route.source);
        }
        let (answered, handle) = (AtomicBool::new(false), AtomicUsize::new(0));
        let socket = Arc::clone(socket);
        let request = Arc::new(Self { socket, id, peer, cid, local, answered, handle });
        let listed: Weak<Self> = Arc::downgrade(&request);
        request.socket.list(id, listed);
        request
    }

    /// The peer's data port.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The name that the peer has for the connection.
    pub(crate) const fn cid(&self) -> PeerId {
        self.cid
    }

    /// The address that the peer has asked.
    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// C's pointer to the object of this request, exposed; 0: none.
    pub(crate) fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Records C's pointer.
    pub(crate) fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// The application has its event.
    pub(crate) fn event_read(&self) {
        self.socket.event_read(self.id);
    }

    /// Takes C's pointer, to close its object; 0: there is none any more.
    pub(crate) fn take_handle(&self) -> usize {
        self.handle.swap(0, Ordering::Relaxed)
    }

    /// Accepts, with this data port.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the request has ended; [`Error::BadState`] if it was answered.
    pub(crate) fn accept(
        &self,
        local: DataPort,
        data: &[u8],
        requester: Weak<dyn Requester>,
    ) -> Result<RequestId, Error> {
        self.answer(|| self.socket.accept(self.id, local, data, requester))?;
        Ok(self.id)
    }

    /// Rejects.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub(crate) fn reject(&self, data: &[u8]) -> Result<(), Error> {
        self.answer(|| self.socket.reject(self.id, data))
    }

    /// Rejects, unless it was answered: the endpoint that was opened for it ends. The object of the
    /// request stays until the application rejects it, too, or closes the passive endpoint.
    pub(crate) fn turn_down(&self) {
        // An error means that it was answered, or has ended.
        let _ = self.socket.reject(self.id, &[]);
    }

    /// The socket that the request came to.
    pub(crate) const fn socket(&self) -> &Arc<CmSocket> {
        &self.socket
    }

    /// There is one answer; one that fails is none, so that the next has an error of its own.
    fn answer(&self, send: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        if self.answered.swap(true, Ordering::Relaxed) {
            return Err(Error::BadState);
        }
        send().inspect_err(|_| self.answered.store(false, Ordering::Relaxed))
    }
}

impl Drop for ConnectionRequest {
    fn drop(&mut self) {
        self.turn_down();
        self.socket.unlist(self.id);
    }
}

impl ObjectOps for ConnectionRequest {
    /// An endpoint that was opened for it may exist.
    fn is_unreferenced(self: &Arc<Self>) -> bool {
        true
    }
}

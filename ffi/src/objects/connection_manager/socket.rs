// SPDX-License-Identifier: MIT OR Apache-2.0
//! A socket of connection management, and its agent.
//!
//! In: packets, time-outs, calls of endpoints. Out: packets, and events to the endpoints that they
//! concern. Called by the thread of the manager and by endpoints; an endpoint's call sends its
//! packets itself. Bound: the requests of the agent; one batch of packets a turn.
//!
//! Events are delivered under the lock of the thread's turn, without the lock of the state. So an
//! event may take the lock of a runtime, and [`CmSocket::forget`] returns when no event is on its
//! way.

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ofi_xdp_core::cm::{
    AgentConfig, AnswerError, CONNECT_PACKET_MAX, ConnectError, ConnectEvent, RejectReason,
    RequestId,
};
use ofi_xdp_core::{AgentBox, DropReason, Instant, PeerId};
use ofi_xdp_datapath::fork::Uninherited;

use super::turns::{Turns, Woken};
use super::unaccepted::{RequestObject, UnacceptedRequests};
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::{cm_socket, param};

/// Packets that a turn takes.
const BATCH: usize = 64;

/// The requests that a socket serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Those of endpoints that connect, so many at once.
    Connect(u32),
    /// Those of peers to a passive endpoint, with this backlog at the most.
    Listen(u32),
}

/// The outcome of a request, for the endpoint that made or accepted it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestOutcome {
    /// The listener has accepted; its data port, and the name of the connection there.
    Accepted(SocketAddr, PeerId),
    /// The peer knows that its request was accepted.
    Confirmed,
    /// The request has failed, or the acceptance was not confirmed.
    Failed(Error),
    /// Nobody answered the request.
    Unanswered(Error),
}

/// An endpoint that waits for the outcome of a request.
pub(crate) trait Requester: fmt::Debug + Send + Sync {
    /// Takes the outcome, with the data that the other side's application has added.
    fn outcome(&self, outcome: RequestOutcome, data: &[u8]);
}

/// A request that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRequest {
    /// Its name at the socket.
    pub(crate) id: RequestId,
    /// The socket of connection management that it came from.
    pub(crate) from: SocketAddr,
    /// The data port of the other side.
    pub(crate) peer: SocketAddr,
    /// The name of the connection there.
    pub(crate) cid: PeerId,
}

/// The data port of this side, and the name of the connection there.
pub(crate) type DataPort = (SocketAddr, PeerId);

/// A passive endpoint, which takes requests.
pub(crate) trait RequestSink: fmt::Debug + Send + Sync {
    /// Takes a request at `socket`, with the data that the other side's application has added.
    fn requested(&self, socket: &Arc<CmSocket>, request: NewRequest, data: &[u8]);
}

struct State {
    agent: AgentBox,
    requesters: HashMap<RequestId, Weak<dyn Requester>>,
    unaccepted: UnacceptedRequests,
    sink: Option<Weak<dyn RequestSink>>,
}

impl State {
    /// When the thread has something to do without a packet: at once if an event waits, for which a
    /// call found no route.
    fn due(&self) -> Option<Instant> {
        self.agent.with(
            |agent| {
                if agent.has_event() { Some(Instant::ZERO) } else { agent.poll_at() }
            },
        )
    }
}

/// See the module.
pub(crate) struct CmSocket {
    /// Dropped before the socket. The child of a fork does not keep the port.
    _uninherited: Uninherited,
    socket: UdpSocket,
    local: SocketAddr,
    state: Mutex<State>,
    turns: Arc<Turns>,
}

/// An event with its receiver.
enum Delivery {
    Outcome(Arc<dyn Requester>, RequestOutcome, Vec<u8>),
    Request(Arc<dyn RequestSink>, NewRequest, Vec<u8>),
}

impl CmSocket {
    pub(super) fn open(
        address: SocketAddr,
        purpose: Purpose,
        turns: Arc<Turns>,
    ) -> Result<Arc<Self>, Error> {
        let socket = cm_socket::open(address)?;
        let local = socket.local_addr().map_err(|_| Error::Os(libc::EIO))?;
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|_| Error::Os(libc::EIO))?;
        let (connects, backlog) = match purpose {
            Purpose::Connect(connects) => (connects, 0),
            Purpose::Listen(backlog) => (0, backlog),
        };
        let connect_timeout = param::connect_timeout()?;
        let checksum = ofi_xdp_checksum::crc32c;
        let config = AgentConfig { connect_timeout, connects, backlog, checksum };
        let agent =
            AgentBox::new(&config, u128::from_le_bytes(key)).map_err(|_| Error::NoMemory)?;
        let (requesters, unaccepted) = (HashMap::new(), UnacceptedRequests::default());
        let state = State { agent, requesters, unaccepted, sink: None };
        let (_uninherited, state) = (Uninherited::new(&socket), Mutex::new(state));
        Ok(Arc::new(Self { _uninherited, socket, local, state, turns }))
    }

    /// The address of the socket.
    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Takes requests from now on, `backlog` at once, or none.
    pub(crate) fn listen(&self, sink: Option<Weak<dyn RequestSink>>, backlog: u32) {
        let mut state = self.lock();
        state.agent.with_mut(|agent| agent.set_listening(if sink.is_some() { backlog } else { 0 }));
        state.sink = sink;
    }

    /// Asks the listener at `to` for a connection with this data port.
    ///
    /// # Errors
    /// [`Error::Again`] when too many requests are under way.
    pub(crate) fn connect(
        &self,
        to: SocketAddr,
        (local, cid): DataPort,
        data: &[u8],
        requester: Weak<dyn Requester>,
    ) -> Result<RequestId, Error> {
        let now = now();
        self.change(now, |state| {
            let id = state.agent.with_mut(|agent| {
                let id = agent.connect(now, to.into(), local.port(), data)?;
                agent.set_local_cid(id, cid);
                Ok::<_, Error>(id)
            })?;
            state.requesters.insert(id, requester);
            Ok(id)
        })
    }

    /// Accepts a request with this data port.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the request has ended.
    pub(super) fn accept(
        &self,
        id: RequestId,
        (local, cid): DataPort,
        data: &[u8],
        requester: Weak<dyn Requester>,
    ) -> Result<(), Error> {
        let now = now();
        self.change(now, |state| {
            state.agent.with_mut(|agent| {
                agent.accept(now, id, local.into(), data)?;
                agent.set_local_cid(id, cid);
                Ok::<_, Error>(())
            })?;
            state.unaccepted.remove(id);
            state.requesters.insert(id, requester);
            Ok(())
        })
    }

    /// Rejects a request that was not accepted. One that has ended counts no more.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the request has ended.
    pub(super) fn reject(&self, id: RequestId, data: &[u8]) -> Result<(), Error> {
        let now = now();
        self.change(now, |state| {
            if !state.unaccepted.contains(id) {
                return Err(Error::NotConnected);
            }
            Ok(state.agent.with_mut(|agent| {
                let rejected = agent.reject(now, id, data);
                agent.release(now, id);
                rejected
            })?)
        })
    }

    /// Withdraws a request of this side. When this returns, its endpoint gets no more outcomes.
    pub(crate) fn forget(&self, id: RequestId) {
        let now = now();
        let withdrawn = self.change(now, |state| {
            state.requesters.remove(&id);
            state.agent.with_mut(|agent| agent.cancel(now, id));
            Ok(())
        });
        debug_assert_eq!(withdrawn, Ok(()), "it cannot fail");
        self.turns.wait();
    }

    /// Lists a request until it is accepted or dropped.
    pub(super) fn list(&self, id: RequestId, object: Weak<RequestObject>) {
        self.lock().unaccepted.insert(id, object);
    }

    /// The application has the event of a listed request.
    pub(super) fn event_read(&self, id: RequestId) {
        let mut state = self.lock();
        let State { agent, unaccepted, .. } = &mut *state;
        if unaccepted.event_read(id) {
            agent.with_mut(|agent| agent.release(now(), id));
        }
    }

    /// Reverses [`Self::list`], when the request is dropped.
    pub(super) fn unlist(&self, id: RequestId) {
        self.lock().unaccepted.remove(id);
    }

    /// Takes no more requests. When this returns, the passive endpoint gets no more requests. The
    /// result is those that were not accepted.
    pub(crate) fn stop_listening(&self) -> Vec<Arc<RequestObject>> {
        self.listen(None, 0);
        self.turns.wait();
        // The caller drops them: a request locks this state when it is dropped.
        self.lock().unaccepted.objects()
    }

    /// Whether a rejection waits for its acknowledgement, which is repeated a few times.
    pub(super) fn is_rejecting(&self) -> bool {
        self.lock().agent.with(|agent| agent.is_rejecting())
    }

    /// When the thread has something to do without a packet.
    pub(super) fn due(&self) -> Option<Instant> {
        self.lock().due()
    }

    /// One turn of the thread: packets in, messages of ICMP if `woken` by some, time-outs, packets
    /// out, events. Whether more requests came than the agent answers.
    pub(super) fn serve(self: &Arc<Self>, now: Instant, woken: Woken) -> bool {
        let (flooded, deliveries) = {
            let mut state = self.lock();
            let flooded = self.receive(&mut state, now);
            if woken.errors {
                self.receive_errors(&mut state, now);
            }
            self.transmit(&mut state, now);
            (flooded, Self::events(&mut state, now))
        };
        for delivery in deliveries {
            match delivery {
                Delivery::Outcome(requester, outcome, data) => requester.outcome(outcome, &data),
                Delivery::Request(sink, request, data) => sink.requested(self, request, &data),
            }
        }
        flooded
    }

    /// Runs `call`, sends the packets that follow from it, and shows the thread an earlier timer.
    fn change<T>(
        &self,
        now: Instant,
        call: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.lock();
        let result = call(&mut state)?;
        self.transmit(&mut state, now);
        let due = state.due();
        drop(state);
        if let Some(due) = due {
            self.turns.wake_before(due);
        }
        Ok(result)
    }

    /// Passes packets to the agent, [`BATCH`] at most: the rest keeps the socket readable. Whether
    /// a request found no room.
    fn receive(&self, state: &mut State, now: Instant) -> bool {
        let mut packet = [0; CONNECT_PACKET_MAX];
        let mut no_room = false;
        for _ in 0..BATCH {
            match self.socket.recv_from(&mut packet) {
                Ok((len, from)) => {
                    let bytes = packet.get(..len).unwrap_or_default();
                    // Refused packets are counted by the agent.
                    let taken = state.agent.with_mut(|agent| agent.ingest(now, from.into(), bytes));
                    no_room |= taken == Err(DropReason::NoRoom);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A message of ICMP; the queue of errors has its destination.
                Err(_) => self.receive_errors(state, now),
            }
        }
        no_room
    }

    /// Takes messages of ICMP about packets of this socket, [`BATCH`] at most.
    fn receive_errors(&self, state: &mut State, now: Instant) {
        for _ in 0..BATCH {
            let mut quoted = [0; CONNECT_PACKET_MAX];
            let Some(message) = cm_socket::next_error(&self.socket, &mut quoted) else { return };
            let (to, len, errno) = message;
            let quoted = quoted.get(..len).unwrap_or_default();
            // Messages about other packets are counted by the agent.
            let _ = state
                .agent
                .with_mut(|agent| agent.report_unreachable(now, to.into(), quoted, errno));
        }
    }

    /// Sends the packets of the agent. A packet that cannot be sent is lost, and repeated; where
    /// there is no route, its request ends.
    fn transmit(&self, state: &mut State, now: Instant) {
        let mut packet = [0; CONNECT_PACKET_MAX];
        // bound: the requests of the agent, each with one packet, and the answers to one batch
        while let Some((to, len)) =
            state.agent.with_mut(|agent| agent.poll_transmit(now, &mut packet))
        {
            let bytes = packet.get(..len).unwrap_or_default();
            let send = || self.socket.send_to(bytes, to.socket_addr()).err();
            // A message of ICMP fails the next call, whatever packet it is about. The lack of a
            // route fails each.
            let errno = send().and_then(|_| send()).and_then(|error| error.raw_os_error());
            if let Some(errno @ (libc::ENETUNREACH | libc::EHOSTUNREACH)) = errno {
                state.agent.with_mut(|agent| agent.unreachable(now, to, errno));
            }
        }
    }

    /// The events of the agent, with their receivers.
    fn events(state: &mut State, now: Instant) -> Vec<Delivery> {
        let State { agent, requesters, unaccepted, sink } = state;
        let failed = RequestOutcome::Failed;
        let mut deliveries = Vec::new();
        agent.with_mut(|agent| {
            // bound: the requests of the agent
            while let Some(event) = agent.poll_event() {
                let id = event.id();
                let (data, cid) = (agent.data(id).to_vec(), agent.remote_cid(id));
                let outcome = match event {
                    ConnectEvent::Requested { from, data_address, .. } => {
                        // Without a passive endpoint the agent refuses requests.
                        if let Some(sink) = sink.as_ref().and_then(Weak::upgrade) {
                            let (from, peer) = (from.socket_addr(), data_address.socket_addr());
                            let request = NewRequest { id, from, peer, cid };
                            deliveries.push(Delivery::Request(sink, request, data));
                        }
                        continue;
                    }
                    ConnectEvent::Connected { peer, .. } => {
                        RequestOutcome::Accepted(peer.socket_addr(), cid)
                    }
                    ConnectEvent::Established { .. } => RequestOutcome::Confirmed,
                    ConnectEvent::Rejected { reason, .. } => failed(rejected(reason)),
                    ConnectEvent::Unreachable { code, .. } => {
                        RequestOutcome::Unanswered(Error::Os(code))
                    }
                    ConnectEvent::TimedOut { .. } => RequestOutcome::Unanswered(Error::TimedOut),
                    ConnectEvent::AcceptFailed { .. } => failed(Error::TimedOut),
                    ConnectEvent::RequestGone { .. } => {
                        if unaccepted.withdrawn(id) {
                            continue;
                        }
                        failed(Error::Os(libc::ECONNRESET))
                    }
                };
                agent.release(now, id);
                let requester = requesters.remove(&id);
                if let Some(requester) = requester.as_ref().and_then(Weak::upgrade) {
                    deliveries.push(Delivery::Outcome(requester, outcome, data));
                }
            }
        });
        deliveries
    }

    // A panic while the lock is held leaves state that is sound: the agent checks each call.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a request that was rejected.
const fn rejected(reason: RejectReason) -> Error {
    match reason {
        RejectReason::Refused | RejectReason::Rejected => Error::Os(libc::ECONNREFUSED),
        RejectReason::Busy => Error::Again,
        RejectReason::Gone => Error::Os(libc::ECONNRESET),
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Full => Self::Again,
            ConnectError::TooLong => Self::Invalid,
        }
    }
}

impl From<AnswerError> for Error {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Gone => Self::NotConnected,
            AnswerError::TooLong => Self::Invalid,
        }
    }
}

impl Drop for CmSocket {
    fn drop(&mut self) {
        self.turns.remove(self.socket.as_fd());
    }
}

impl AsFd for CmSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for CmSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmSocket").field("local", &self.local).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ofi_xdp_core::PeerAddress;
    use ofi_xdp_core::wire::{ConnectKind, ConnectPacket};

    use super::*;

    #[derive(Debug)]
    struct NoSink;

    impl RequestSink for NoSink {
        fn requested(&self, _: &Arc<CmSocket>, _: NewRequest, _: &[u8]) {}
    }

    /// A fork may have copied the descriptor.
    #[test]
    fn a_closed_socket_leaves_the_set_where_a_copy_of_it_is_open() {
        let local = "127.0.0.1:0".parse().unwrap();
        let turns = Arc::new(Turns::new().unwrap());
        let socket = CmSocket::open(local, Purpose::Listen(8), Arc::clone(&turns)).unwrap();
        turns.add(socket.as_fd()).unwrap();
        let _copy = socket.as_fd().try_clone_to_owned().unwrap();
        UdpSocket::bind(local).unwrap().send_to(b"a packet", socket.local()).unwrap();
        drop(socket);
        let (start, pause) = (now(), Duration::from_millis(20));
        turns.sleep(start, || Some(start.after(pause)));
        assert!(now().since(start) >= pause, "it woke the thread");
    }

    /// The agent sends 2,000 cookies at once.
    #[test]
    fn a_flood_of_requests_is_noticed() {
        let local = "127.0.0.1:0".parse().unwrap();
        let turns = Arc::new(Turns::new().unwrap());
        let socket = CmSocket::open(local, Purpose::Listen(8), turns).unwrap();
        socket.listen(Some(Weak::<NoSink>::new()), 8);
        let address = PeerAddress::NONE.with_port(4_000);
        let request = ConnectPacket { address, ..ConnectPacket::new(ConnectKind::Connect, 1, 0) };
        let mut bytes = [0; CONNECT_PACKET_MAX];
        let len = request.put(&mut bytes, ofi_xdp_checksum::crc32c).unwrap();
        let (peer, time) = (UdpSocket::bind(local).unwrap(), now());
        let flooded = || {
            for _ in 0..BATCH {
                peer.send_to(&bytes[..len], socket.local()).unwrap();
            }
            socket.serve(time, Woken { errors: false })
        };
        let calm = (0..100).take_while(|_| !flooded()).count();
        assert_eq!(calm, 2_000 / BATCH);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection manager of a fabric: the thread that serves the sockets of connection management
//! (`fi_cm(3)`, `docs/PROTOCOL.md` §12).
//!
//! In: sockets of passive endpoints, and one socket for each local address from which endpoints
//! connect. Out: packets and time-outs to their agents. Called by passive and connected endpoints.
//! Bound: the open sockets; one batch of packets for each socket and turn. The thread sleeps until
//! a packet arrives or a timer is due. All signals are blocked in it.

mod request;
mod socket;
mod turns;
mod unaccepted;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, SigmaskHow};
use ofi_xdp_core::Instant;
use ofi_xdp_datapath::Thread;

use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::sys::limits::LINGER_RECHECK;
use crate::wait::waker::sleep;

pub(crate) use request::ConnectionRequest;
pub(crate) use socket::{CmSocket, NewRequest, Purpose, RequestOutcome, RequestSink, Requester};
use turns::{Turns, Woken};

/// Longest wait of [`ConnectionManager::close`] for acknowledgements.
const LINGER: Duration = Duration::from_millis(500);
/// Pause of the thread after a turn in which more requests came than are answered. The packets of
/// the pause take one turn. Without it each packet of a flood wakes the thread, which then takes
/// the processor from the application's thread.
const FLOOD_PAUSE: Duration = Duration::from_micros(500);
/// Most requests of endpoints with one address that are under way at once.
const CONNECTS_MAX: u32 = 1024;

/// The open sockets.
type Sockets = Mutex<Vec<Weak<CmSocket>>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct ConnectionManager {
    turns: Arc<Turns>,
    sockets: Arc<Sockets>,
    thread: Mutex<Option<Thread>>,
    /// The sockets of endpoints that connect, by local address.
    active: Mutex<HashMap<IpAddr, Weak<CmSocket>>>,
}

impl ConnectionManager {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out, [`Error::NoMemory`] when threads are.
    pub(crate) fn start() -> Result<Self, Error> {
        let (turns, sockets) = (Arc::new(Turns::new()?), Arc::<Sockets>::default());
        let theirs = (Arc::clone(&turns), Arc::clone(&sockets));
        // A new thread inherits the mask, so no signal finds it unblocked.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let spawned = Thread::spawn(c"ofi-xdp-cm", move || run(&theirs.0, &theirs.1));
        mask.thread_set_mask()?;
        let thread = Mutex::new(Some(spawned?));
        Ok(Self { turns, sockets, thread, active: Mutex::default() })
    }

    /// Opens a socket on `address`, port 0: any, with an agent for `purpose`.
    ///
    /// # Errors
    /// [`Error::Os`]: in use, or not of this host.
    pub(crate) fn open(
        &self,
        address: SocketAddr,
        purpose: Purpose,
    ) -> Result<Arc<CmSocket>, Error> {
        let socket = CmSocket::open(address, purpose, Arc::clone(&self.turns))?;
        self.turns.add(socket.as_fd())?;
        lock(&self.sockets).push(Arc::downgrade(&socket));
        Ok(socket)
    }

    /// Closes a socket, if no request refers to it any more. Rejections are acknowledged before, or
    /// [`LINGER`] has passed.
    pub(crate) fn close(&self, socket: Arc<CmSocket>) {
        let deadline = now().after(LINGER);
        // bound: the deadline
        while socket.is_rejecting() {
            // What the thread receives does not end the sleep.
            let recheck = deadline.min(now().after(LINGER_RECHECK));
            let until = socket.due().map_or(recheck, |due| due.min(recheck));
            let mut wakeup = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            // The state of the agent decides, whatever ended the sleep.
            let _ = sleep(&mut wakeup, Some(until.since(now())));
            let turn = self.turns.begin();
            socket.serve(now(), Woken { errors: true });
            drop(turn);
            if now() >= deadline {
                break;
            }
        }
        drop(socket);
        self.turns.wait();
    }

    /// The socket from which endpoints at `ip` connect.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn active(&self, ip: IpAddr) -> Result<Arc<CmSocket>, Error> {
        let mut active = lock(&self.active);
        if let Some(socket) = active.get(&ip).and_then(Weak::upgrade) {
            return Ok(socket);
        }
        let socket = self.open(SocketAddr::new(ip, 0), Purpose::Connect(CONNECTS_MAX))?;
        active.insert(ip, Arc::downgrade(&socket));
        Ok(socket)
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        self.turns.end();
        if let Some(thread) = lock(&self.thread).take() {
            thread.join();
        }
    }
}

/// The thread.
fn run(turns: &Turns, sockets: &Sockets) {
    let mut woken = Woken { errors: true };
    while turns.go_on() {
        let now = now();
        if serve(turns, sockets, now, woken) {
            std::thread::sleep(FLOOD_PAUSE);
        }
        woken = turns.sleep(now, || next_due(turns, sockets));
    }
}

/// One turn of every socket. Whether more requests came than are answered.
fn serve(turns: &Turns, sockets: &Sockets, now: Instant, woken: Woken) -> bool {
    let _turn = turns.begin();
    open_sockets(sockets).iter().fold(false, |flooded, socket| flooded | socket.serve(now, woken))
}

/// When the next turn is due without a packet.
fn next_due(turns: &Turns, sockets: &Sockets) -> Option<Instant> {
    let _turn = turns.begin();
    open_sockets(sockets).iter().fold(None, |due, socket| earlier(due, socket.due()))
}

fn open_sockets(sockets: &Sockets) -> Vec<Arc<CmSocket>> {
    let mut sockets = lock(sockets);
    sockets.retain(|socket| socket.strong_count() > 0);
    sockets.iter().filter_map(Weak::upgrade).collect()
}

// A panic while a lock is held leaves lists that are sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use ofi_xdp_core::PeerAddress;
    use ofi_xdp_core::cm::CONNECT_PACKET_MAX;
    use ofi_xdp_core::wire::{ConnectKind, ConnectPacket};

    use super::*;

    /// The passive endpoint of an application that reads no event.
    #[derive(Debug, Default)]
    struct Unread(Mutex<Vec<Arc<ConnectionRequest>>>);

    impl RequestSink for Unread {
        fn requested(&self, socket: &Arc<CmSocket>, request: NewRequest, _: &[u8]) {
            lock(&self.0).push(ConnectionRequest::new(socket, request));
        }
    }

    /// Each costs its host two packets.
    #[test]
    fn requests_that_are_withdrawn_leave_their_events_and_keep_their_share() {
        const BACKLOG: u32 = 64;
        let turns = Arc::new(Turns::new().unwrap());
        let local = "127.0.0.1:0".parse().unwrap();
        let socket = CmSocket::open(local, Purpose::Listen(BACKLOG), turns).unwrap();
        let unread = Arc::new(Unread::default());
        let sink: Weak<Unread> = Arc::downgrade(&unread);
        socket.listen(Some(sink), BACKLOG);
        let checksum = ofi_xdp_checksum::crc32c;
        let send = |from: &UdpSocket, kind, nonce, cookie| {
            let is_request = kind == ConnectKind::Connect;
            let address = PeerAddress::NONE.with_port(if is_request { 4_000 } else { 0 });
            let packet = ConnectPacket { address, ..ConnectPacket::new(kind, nonce, cookie) };
            let mut bytes = [0; CONNECT_PACKET_MAX];
            let len = packet.put(&mut bytes, checksum).unwrap();
            from.send_to(&bytes[..len], socket.local()).unwrap();
            socket.serve(now(), Woken { errors: false });
        };
        let cookie = |from: &UdpSocket| {
            send(from, ConnectKind::Connect, 1, 0);
            let mut bytes = [0; CONNECT_PACKET_MAX];
            let len = from.recv(&mut bytes).unwrap();
            ConnectPacket::parse(&bytes[..len], checksum).unwrap().proof
        };
        let [one, other] = ["127.0.0.2:0", "127.0.0.3:0"].map(|it| UdpSocket::bind(it).unwrap());
        let (proof, count) = (cookie(&one), || lock(&unread.0).len());
        let ask_and_withdraw = |nonces: std::ops::Range<u128>| {
            for nonce in nonces {
                send(&one, ConnectKind::Connect, nonce, proof);
                send(&one, ConnectKind::Cancel, nonce, proof);
            }
            count()
        };
        let events = ask_and_withdraw(0..200);
        assert!(events < BACKLOG as usize * 3 / 4, "{events} events of one host");
        send(&other, ConnectKind::Connect, 1, cookie(&other));
        assert_eq!(count(), events + 1, "no room for another host");
        lock(&unread.0).iter().for_each(|request| request.event_read());
        assert!(ask_and_withdraw(400..600) > 3 * events / 2, "they count though they were read");
        lock(&unread.0).clear();
        assert_eq!(ask_and_withdraw(200..400), events, "they count though they were answered");
    }
}

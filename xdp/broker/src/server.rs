// SPDX-License-Identifier: MIT OR Apache-2.0
//! The broker's loop: connections in, requests to `office.rs`, grants held as long as connections
//! last.
//!
//! One thread, which waits for nobody but the kernel; what may take long to close others close
//! (`closers.rs`). Bounds: [`CLIENTS_MAX`] connections, [`CLIENTS_PER_USER`] of one user,
//! [`ACCEPTS_MAX`] taken in a turn, one request of each user in a turn, [`REQUESTS_MAX`] over one
//! connection, [`ASKING_MAX`] to get done with asking. Who is in no rule is hung up on before a
//! byte is read. While too much waits to be closed, nobody new is taken in and nobody is heard.

use std::collections::HashSet;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use ofi_xdp_datapath::broker::{Reply, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::closers::Closers;
use crate::companion::Companion;
use crate::connection::{Connection, Heard};
use crate::office::{Granted, Office, Refusal};
use crate::peer::Peer;

/// Most connections at a time.
const CLIENTS_MAX: usize = 512;
/// Most of them that one user has.
const CLIENTS_PER_USER: usize = 64;
/// Most connections taken in one turn.
const ACCEPTS_MAX: usize = 16;
/// Most requests over one connection: the client's tries while the queues are busy, and some.
const REQUESTS_MAX: u32 = 32;
/// How long a client may be connected without a grant.
const ASKING_MAX: Duration = Duration::from_secs(5);
/// How long nobody is served after a connection could not be taken, or while none may be.
const PAUSE: Duration = Duration::from_millis(10);
/// The time between two looks at what was granted.
const ROUND: Duration = Duration::from_secs(1);

/// The time: the broker decides by it whom to hang up on, and nothing else.
#[expect(clippy::disallowed_methods, reason = "the one clock read of this program")]
fn now() -> Instant {
    Instant::now()
}

/// One client.
#[derive(Debug)]
struct Client {
    connection: Connection,
    peer: Peer,
    since: Instant,
    requests: u32,
    granted: Option<Granted>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    office: Office,
    closers: Closers,
    clients: Vec<Client>,
    /// Users who passed what is no socket, until the broker starts again.
    banned: HashSet<u32>,
    /// Users whose refusals are in the log of this round already; `None` is the broker's own
    /// trouble.
    noted: HashSet<Option<u32>>,
    round_ends: Instant,
}

impl Server {
    /// Serves those who connect to `listener`.
    pub(crate) fn new(listener: UnixListener, office: Office) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            office,
            closers: Closers::new()?,
            clients: Vec::new(),
            banned: HashSet::new(),
            noted: HashSet::new(),
            round_ends: now() + ROUND,
        })
    }

    /// Serves until the system fails.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        loop {
            self.turn()?;
        }
    }

    /// Waits for something to do, and does it.
    fn turn(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        let mut served = HashSet::new();
        let mut gone = Vec::new();
        for number in ready {
            let Some(client) = self.clients.get(number) else { continue };
            // Whoever comes second waits a turn: no user has more of the broker's time by asking
            // over many connections.
            if client.granted.is_none() && !served.insert(client.peer.uid) {
                continue;
            }
            if !self.serve(number) {
                gone.push(number);
            }
        }
        for number in gone.into_iter().rev() {
            self.hang_up(number);
        }
        if self.closers.has_room() {
            self.accept();
        } else {
            self.note(None, "too much of clients' waits to be closed: nobody new is served");
            // Those who are not heard stay readable.
            thread::sleep(PAUSE);
        }
        if now() >= self.round_ends {
            self.round();
        }
        Ok(())
    }

    /// Which clients have something to say, ascending; waits for that, or for a new one, until the
    /// round is over.
    fn wait(&self) -> io::Result<Vec<usize>> {
        let connections = self.clients.iter().map(|client| &client.connection);
        let mut fds: Vec<PollFd<'_>> =
            connections.map(|connection| PollFd::new(connection, PollFlags::IN)).collect();
        if self.clients.len() < CLIENTS_MAX {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let left = self.round_ends.saturating_duration_since(now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().take(self.clients.len()).enumerate();
        Ok(ready.filter(|(_, fd)| !fd.revents().is_empty()).map(|(number, _)| number).collect())
    }

    /// Takes in new connections.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            if self.clients.len() >= CLIENTS_MAX || !self.closers.has_room() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Descriptors or memory are out. Those who hang up give some back; until then
                    // the listener stays readable, and asking it again at once is of no use.
                    self.note(None, &format!("take a connection: {error}"));
                    thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        let connection = Connection::new(stream);
        let Ok(peer) = Peer::of(&connection) else {
            return self.closers.close(u32::MAX, connection.end().into_iter().collect());
        };
        let same = self.clients.iter().filter(|client| client.peer.uid == peer.uid).count();
        let reason = if self.banned.contains(&peer.uid) {
            "has passed what is no socket"
        } else if !self.office.knows(&peer) {
            "is in no rule of the policy"
        } else if same >= CLIENTS_PER_USER {
            "has too many connections"
        } else {
            ""
        };
        if reason.is_empty() {
            let since = now();
            self.clients.push(Client { connection, peer, since, requests: 0, granted: None });
            return;
        }
        let reason = format!("user {} {reason}", peer.uid);
        self.note(Some(&peer), &reason);
        // Whether they read it is their business.
        let _ = connection.say(&Reply { status: Status::Refused, reason }, &[]);
        self.closers.close(peer.uid, connection.end().into_iter().collect());
    }

    /// Hears client `number`; says whether the connection goes on.
    fn serve(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(number) else { return false };
        // Who has a grant has nothing to say any more, and who was banned over another connection
        // is not heard.
        if client.granted.is_some() || self.banned.contains(&client.peer.uid) {
            return false;
        }
        if !self.closers.has_room() {
            return true;
        }
        client.requests += 1;
        let (request, descriptors) = match client.connection.hear() {
            Heard::Nothing => return true,
            Heard::End => return false,
            Heard::Message(request, descriptors) => (request, descriptors),
        };
        let peer = client.peer.clone();
        if !descriptors.iter().all(Companion::is_udp) {
            self.closers.close(peer.uid, descriptors);
            self.banned.insert(peer.uid);
            self.note(
                Some(&peer),
                "passed what is no UDP socket; nothing for this user from now on",
            );
            return false;
        }
        let request = request.filter(|_| client.requests <= REQUESTS_MAX);
        let (Some(request), Ok([companion])) = (request, <[_; 1]>::try_from(descriptors)) else {
            return false;
        };
        match self.office.decide(&peer, request, companion) {
            Ok((grant, pending)) => {
                let socket = grant.socket();
                let (queue, mode) = (socket.queue(), grant.mode());
                log::info!("{peer}: {pending} queue {queue}, {mode}");
                let reply = Reply {
                    status: Status::Granted { queue, mode, multi_buffer: socket.multi_buffer() },
                    reason: pending.why_not_steered(&grant).to_owned(),
                };
                let descriptors = [socket.socket(), socket.memory(), pending.board()];
                let said = client.connection.say(&reply, &descriptors);
                // Who hung up has not got it, or not for long.
                if said.is_err() {
                    return false;
                }
                client.granted = self.office.granted(grant, pending);
                client.granted.is_some()
            }
            Err(Refusal::Busy(reason)) => {
                let reply = Reply { status: Status::Busy, reason };
                client.connection.say(&reply, &[]).is_ok()
            }
            Err(Refusal::No(reason)) => {
                let reply = Reply { status: Status::Refused, reason };
                let said = client.connection.say(&reply, &[]);
                self.note(Some(&peer), &reply.reason);
                // Another mode may be asked for next.
                said.is_ok()
            }
        }
    }

    /// Once a second: who asks for too long, and whose grant stands no more, is hung up on.
    fn round(&mut self) {
        let time = now();
        self.round_ends = time + ROUND;
        self.noted.clear();
        for number in (0..self.clients.len()).rev() {
            let stays = self.clients.get(number).is_some_and(|client| match &client.granted {
                Some(granted) => granted.stands(),
                None => time.duration_since(client.since) < ASKING_MAX,
            });
            if !stays {
                self.hang_up(number);
            }
        }
        let granted = self.clients.iter().filter_map(|client| client.granted.as_ref());
        self.office.tidy(granted.clone());
        self.office.publish(granted);
    }

    fn hang_up(&mut self, number: usize) {
        let Client { connection, peer, granted, .. } = self.clients.swap_remove(number);
        if let Some(granted) = granted {
            self.office.ended(&granted);
            log::info!("{peer}: has no socket any more");
        }
        self.closers.close(peer.uid, connection.end().into_iter().collect());
    }

    /// Logs what became of a request, or what ails the broker, once a round for each user and for
    /// the broker: a flood fills no disk.
    fn note(&mut self, peer: Option<&Peer>, what: &str) {
        if self.noted.insert(peer.map(|peer| peer.uid)) {
            match peer {
                Some(peer) => log::warn!("{peer}: {what}"),
                None => log::warn!("{what}"),
            }
        }
    }
}

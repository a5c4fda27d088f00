// SPDX-License-Identifier: MIT OR Apache-2.0
//! The broker's loop: accepts connections, passes requests to `grants.rs`, and keeps grants as long
//! as their connections.
//!
//! One thread, which blocks in the kernel's poll only; other threads close descriptors
//! (`fd_reaper.rs`). In: clients. Out: replies. Caller: `main.rs`. Bounds: [`CLIENTS_MAX`]
//! connections, [`CLIENTS_PER_USER`] of one user, [`ACCEPTS_MAX`] accepted in one iteration, one
//! request of each user in one iteration, [`REQUESTS_MAX`] over one connection, [`ASKING_MAX`] for
//! a connection without a grant. A user without a rule is disconnected before a byte is read. While
//! too many descriptors wait to be closed, no connection is accepted and no request is read.

use std::collections::HashSet;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use ofi_xdp_datapath::broker::{Reply, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{ClientConnection, ClientMessage};
use crate::credentials::Credentials;
use crate::fd_reaper::FdReaper;
use crate::grants::{ActiveGrant, GrantError, GrantManager};
use crate::udp_socket::UdpSocketProof;

/// Maximum number of connections.
const CLIENTS_MAX: usize = 512;
/// Maximum number of connections of one user.
const CLIENTS_PER_USER: usize = 64;
/// Maximum number of connections accepted in one iteration.
const ACCEPTS_MAX: usize = 16;
/// Maximum number of requests over one connection: the client's attempts while the queues are busy,
/// and a few more.
const REQUESTS_MAX: u32 = 32;
/// Time limit of a connection without a grant.
const ASKING_MAX: Duration = Duration::from_secs(5);
/// Pause after a failed accept, and while no request may be read.
const PAUSE: Duration = Duration::from_millis(10);
/// Time between two checks of all grants.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time, which decides about disconnections only.
#[expect(clippy::disallowed_methods, reason = "the one clock read of this program")]
fn now() -> Instant {
    Instant::now()
}

/// One client.
#[derive(Debug)]
struct Client {
    connection: ClientConnection,
    user: Credentials,
    since: Instant,
    requests: u32,
    granted: Option<ActiveGrant>,
}

/// The state of the broker.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    grants: GrantManager,
    reaper: FdReaper,
    clients: Vec<Client>,
    /// Users that passed a descriptor of another kind than a UDP socket, until the broker restarts.
    banned: HashSet<u32>,
    /// Users with a warning in this interval; `None` stands for the broker itself.
    warned: HashSet<Option<u32>>,
    check_at: Instant,
}

impl Server {
    /// A server for clients of `listener`.
    pub(crate) fn new(listener: UnixListener, grants: GrantManager) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            grants,
            reaper: FdReaper::new()?,
            clients: Vec::new(),
            banned: HashSet::new(),
            warned: HashSet::new(),
            check_at: now() + CHECK_INTERVAL,
        })
    }

    /// Serves until the system fails.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        loop {
            self.run_once()?;
        }
    }

    /// One iteration: waits for clients, and serves them.
    fn run_once(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        let mut served = HashSet::new();
        let mut gone = Vec::new();
        for number in ready {
            let Some(client) = self.clients.get(number) else { continue };
            // A second request of a user waits for the next iteration: more connections bring a
            // user no more of the broker's time.
            if client.granted.is_none() && !served.insert(client.user.uid) {
                continue;
            }
            if !self.serve(number) {
                gone.push(number);
            }
        }
        for number in gone.into_iter().rev() {
            self.hang_up(number);
        }
        if self.reaper.has_room() {
            self.accept();
        } else {
            self.warn_limited(
                None,
                "too many descriptors of clients wait to be closed: no request is served",
            );
            // Clients with unread requests stay readable.
            thread::sleep(PAUSE);
        }
        if now() >= self.check_at {
            self.check_clients();
        }
        Ok(())
    }

    /// Indices of readable clients, ascending. Waits for one, or for a new connection, until the
    /// next check of all grants is due.
    fn wait(&self) -> io::Result<Vec<usize>> {
        let connections = self.clients.iter().map(|client| &client.connection);
        let mut fds: Vec<PollFd<'_>> =
            connections.map(|connection| PollFd::new(connection, PollFlags::IN)).collect();
        if self.clients.len() < CLIENTS_MAX {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let left = self.check_at.saturating_duration_since(now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().take(self.clients.len()).enumerate();
        Ok(ready.filter(|(_, fd)| !fd.revents().is_empty()).map(|(number, _)| number).collect())
    }

    /// Accepts new connections.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            if self.clients.len() >= CLIENTS_MAX || !self.reaper.has_room() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Descriptors or memory are exhausted, until a client disconnects. The listener
                    // stays readable meanwhile, so an immediate attempt would fail again.
                    self.warn_limited(None, &format!("take a connection: {error}"));
                    thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        let connection = ClientConnection::new(stream);
        let Ok(user) = Credentials::of(&connection) else {
            return self.reaper.close(u32::MAX, connection.shut_down().into_iter().collect());
        };
        let same = self.clients.iter().filter(|client| client.user.uid == user.uid).count();
        let reason = if self.banned.contains(&user.uid) {
            "has passed a descriptor that is no socket"
        } else if !self.grants.knows(&user) {
            "is in no rule of the policy"
        } else if same >= CLIENTS_PER_USER {
            "has too many connections"
        } else {
            ""
        };
        if reason.is_empty() {
            let since = now();
            self.clients.push(Client { connection, user, since, requests: 0, granted: None });
            return;
        }
        let reason = format!("user {} {reason}", user.uid);
        self.warn_limited(Some(&user), &reason);
        // The reply may stay unread.
        let _ = connection.send(&Reply { status: Status::Refused, reason }, &[]);
        self.reaper.close(user.uid, connection.shut_down().into_iter().collect());
    }

    /// Serves client `number`; returns whether the connection continues.
    fn serve(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(number) else { return false };
        // A client with a grant has no further requests. A user that was banned over another
        // connection is not served.
        if client.granted.is_some() || self.banned.contains(&client.user.uid) {
            return false;
        }
        if !self.reaper.has_room() {
            return true;
        }
        client.requests += 1;
        let (request, descriptors) = match client.connection.receive() {
            ClientMessage::None => return true,
            ClientMessage::Closed => return false,
            ClientMessage::Request(request, descriptors) => (request, descriptors),
        };
        let user = client.user.clone();
        if !descriptors.iter().all(UdpSocketProof::is_udp) {
            self.reaper.close(user.uid, descriptors);
            self.banned.insert(user.uid);
            self.warn_limited(
                Some(&user),
                "passed a descriptor that is no UDP socket; the user is banned",
            );
            return false;
        }
        let request = request.filter(|_| client.requests <= REQUESTS_MAX);
        let (Some(request), Ok([udp_socket])) = (request, <[_; 1]>::try_from(descriptors)) else {
            return false;
        };
        match self.grants.decide(&user, request, udp_socket) {
            Ok((lease, pending)) => {
                let socket = lease.socket();
                let (queue, mode) = (socket.queue(), lease.mode());
                log::info!("{user}: {pending} queue {queue}, {mode}");
                let reply = Reply {
                    status: Status::Granted { queue, mode, multi_buffer: socket.multi_buffer() },
                    reason: pending.unsteered_reason(&lease).to_owned(),
                };
                let descriptors = [socket.socket(), socket.memory(), pending.counters_page()];
                let sent = client.connection.send(&reply, &descriptors);
                // The client has hung up, so it has not got the socket or has lost it.
                if sent.is_err() {
                    return false;
                }
                client.granted = self.grants.granted(lease, pending);
                client.granted.is_some()
            }
            Err(GrantError::Busy(reason)) => {
                let reply = Reply { status: Status::Busy, reason };
                client.connection.send(&reply, &[]).is_ok()
            }
            Err(GrantError::No(reason)) => {
                let reply = Reply { status: Status::Refused, reason };
                let sent = client.connection.send(&reply, &[]);
                self.warn_limited(Some(&user), &reply.reason);
                // The client may ask for another mode next.
                sent.is_ok()
            }
        }
    }

    /// Disconnects clients without a grant after their time limit, and clients with an invalid
    /// grant. Once a second.
    fn check_clients(&mut self) {
        let time = now();
        self.check_at = time + CHECK_INTERVAL;
        self.warned.clear();
        for number in (0..self.clients.len()).rev() {
            let stays = self.clients.get(number).is_some_and(|client| match &client.granted {
                Some(granted) => granted.is_valid(),
                None => time.duration_since(client.since) < ASKING_MAX,
            });
            if !stays {
                self.hang_up(number);
            }
        }
        let granted = self.clients.iter().filter_map(|client| client.granted.as_ref());
        self.grants.tidy(granted.clone());
        self.grants.publish(granted);
    }

    fn hang_up(&mut self, number: usize) {
        let Client { connection, user, granted, .. } = self.clients.swap_remove(number);
        if let Some(granted) = granted {
            self.grants.ended(&granted);
            log::info!("{user}: has no socket any more");
        }
        self.reaper.close(user.uid, connection.shut_down().into_iter().collect());
    }

    /// Logs a warning, at most once a second for each user and for the broker itself, so that a
    /// flood of requests fills no disk.
    fn warn_limited(&mut self, user: Option<&Credentials>, what: &str) {
        if self.warned.insert(user.map(|user| user.uid)) {
            match user {
                Some(user) => log::warn!("{user}: {what}"),
                None => log::warn!("{what}"),
            }
        }
    }
}

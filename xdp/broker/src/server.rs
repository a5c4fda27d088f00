// SPDX-License-Identifier: MIT OR Apache-2.0
//! The broker's loop: accepts connections, passes requests to `grants.rs`, and keeps grants as long
//! as their connections.
//!
//! One thread, which blocks in the kernel's poll only; other processes read the messages of clients
//! and close their descriptors (`intake.rs`). In: clients. Out: replies. Caller: `main.rs`. Bounds:
//! [`CLIENTS_MAX`] connections, [`CLIENTS_PER_USER`] of one user. In one iteration: [`ACCEPTS_MAX`]
//! accepted connections and one request of each user. Over one connection: [`REQUESTS_MAX`];
//! [`ASKING_MAX`] without a grant. A user without a rule is disconnected before a byte is read.
//! While there are too many other processes, no connection is accepted and no message is read; the
//! processes exit in milliseconds.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use ofi_xdp_datapath::SocketRequest;
use ofi_xdp_datapath::broker::{Reply, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::ClientConnection;
use crate::credentials::Credentials;
use crate::grants::{Grant, GrantError, GrantManager};
use crate::intake::IntakePool;
use crate::intake_process::IntakeReply;
use crate::limited_log::LimitedLog;
use crate::policy::Policy;

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
    /// Its number, unlike its index, is never reused.
    id: u64,
    connection: ClientConnection,
    user: Credentials,
    since: Instant,
    requests: u32,
    granted: Option<Grant>,
}

/// Result of a wait.
#[derive(Debug)]
struct Ready {
    /// Indices of readable clients.
    clients: Vec<usize>,
    /// Users with a message that was read.
    replies: Vec<u32>,
}

/// The state of the broker.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    grants: GrantManager,
    intakes: IntakePool,
    clients: Vec<Client>,
    next_id: u64,
    /// Users that passed a descriptor of another kind than a UDP socket, until the broker restarts.
    banned: HashSet<u32>,
    log: LimitedLog,
    check_at: Instant,
    /// Path of the policy.
    policy: PathBuf,
    /// Readable when the policy is to be read again (SIGHUP), or the server ends.
    signals: SignalFd,
}

impl Server {
    /// A server for clients of `listener`.
    pub(crate) fn new(
        listener: UnixListener,
        grants: GrantManager,
        (policy, signals): (PathBuf, SignalFd),
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            grants,
            intakes: IntakePool::default(),
            clients: Vec::new(),
            next_id: 0,
            banned: HashSet::new(),
            log: LimitedLog::default(),
            check_at: now() + CHECK_INTERVAL,
            policy,
            signals,
        })
    }

    /// Serves until a signal ends it, or the system fails.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        while self.run_once()? {}
        Ok(())
    }

    /// One iteration: waits for clients, and serves them. Returns whether another one follows.
    fn run_once(&mut self) -> io::Result<bool> {
        let Ready { clients, replies } = self.wait()?;
        let mut gone: Vec<usize> =
            clients.into_iter().filter(|number| !self.read(*number)).collect();
        for uid in replies {
            let Some((id, reply)) = self.intakes.reply(uid) else { continue };
            let number = self.clients.iter().position(|client| client.id == id);
            gone.extend(number.filter(|number| !self.answer(*number, reply)));
        }
        gone.sort_unstable();
        gone.dedup();
        for number in gone.into_iter().rev() {
            self.hang_up(number);
        }
        self.intakes.reap();
        if self.intakes.has_room() {
            self.accept();
        } else {
            self.log.warn(None, "too many processes close descriptors: no request is served");
            // Clients with unread requests stay readable.
            thread::sleep(PAUSE);
        }
        if let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo != Signal::SIGHUP as u32 {
                return Ok(false);
            }
            self.read_policy();
        }
        if now() >= self.check_at {
            self.check_clients();
        }
        Ok(true)
    }

    /// Reads the policy again, and disconnects clients with a grant that it does not allow.
    fn read_policy(&mut self) {
        match Policy::read(&self.policy) {
            Ok(policy) => {
                log::info!("{} rules are in force", policy.len());
                self.grants.set_policy(policy);
            }
            Err(error) => return log::warn!("the old policy stays in force: {error:#}"),
        }
        for number in (0..self.clients.len()).rev() {
            let stays = self.clients.get(number).is_some_and(|client| match &client.granted {
                Some(granted) => self.grants.allows(&client.user, granted),
                None => self.grants.knows(&client.user),
            });
            if !stays {
                self.hang_up(number);
            }
        }
    }

    /// Waits for a client, a reply of an intake process or a new connection, until the next check
    /// of all grants is due. A user's clients wait while a message of one of them is read.
    fn wait(&self) -> io::Result<Ready> {
        let waits =
            |client: &Client| client.granted.is_none() && self.intakes.is_reading(client.user.uid);
        let polled = self.clients.iter().enumerate().filter(|(_, client)| !waits(client));
        let (numbers, mut fds): (Vec<usize>, Vec<PollFd<'_>>) = polled
            .map(|(number, client)| (number, PollFd::new(&client.connection, PollFlags::IN)))
            .unzip();
        let channels: Vec<_> = self.intakes.channels().collect();
        fds.extend(channels.iter().map(|(_, channel)| PollFd::new(channel, PollFlags::IN)));
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        if self.clients.len() < CLIENTS_MAX {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let left = self.check_at.saturating_duration_since(now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let clients = numbers.iter().zip(&fds).filter(|(_, fd)| is_ready(fd));
        let clients = clients.map(|(number, _)| *number).collect();
        let replies = channels.iter().zip(fds.iter().skip(numbers.len()));
        let replies = replies.filter(|(_, fd)| is_ready(fd)).map(|((uid, _), _)| *uid).collect();
        Ok(Ready { clients, replies })
    }

    /// Accepts new connections.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            if self.clients.len() >= CLIENTS_MAX || !self.intakes.has_room() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Descriptors or memory are exhausted, until a client disconnects. The listener
                    // stays readable meanwhile, so an immediate attempt would fail again.
                    self.log.warn(None, &format!("take a connection: {error}"));
                    thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        let connection = ClientConnection::new(stream);
        let user = match Credentials::of(&connection) {
            Ok(user) => user,
            Err(error) => {
                self.log.warn(None, &format!("read the credentials of a client: {error}"));
                return self.close(u32::MAX, connection.shut_down());
            }
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
            connection.pass_descriptors();
            let (id, since) = (self.next_id, now());
            self.next_id += 1;
            self.clients.push(Client { id, connection, user, since, requests: 0, granted: None });
            return;
        }
        let reason = format!("user {} {reason}", user.uid);
        self.log.warn(Some(&user), &reason);
        // The reply may stay unread.
        let _ = connection.send(&Reply { status: Status::Refused, reason }, &[]);
        self.close(user.uid, connection.shut_down());
    }

    /// Closes a connection of user `uid`, if it has unread data.
    fn close(&mut self, uid: u32, unread: Option<OwnedFd>) {
        if let Some(connection) = unread {
            self.intakes.close(uid, connection);
        }
    }

    /// Has a message of client `number` read; returns whether the connection continues.
    fn read(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(number) else { return false };
        let Client { id, user, connection, requests, granted, .. } = client;
        // A client with a grant has no further requests. A user that was banned over another
        // connection is not served.
        if granted.is_some() || self.banned.contains(&user.uid) {
            return false;
        }
        // More connections bring a user no more of the broker's time.
        if self.intakes.is_reading(user.uid) || !self.intakes.has_room() {
            return true;
        }
        *requests += 1;
        if *requests > REQUESTS_MAX {
            return false;
        }
        if let Err(error) = self.intakes.read(user.uid, *id, connection.as_fd(), now()) {
            self.log.warn(None, &format!("read a request: {error}"));
            thread::sleep(PAUSE);
        }
        true
    }

    /// Answers the message of client `number`; returns whether the connection continues.
    fn answer(&mut self, number: usize, reply: IntakeReply) -> bool {
        let Some(client) = self.clients.get(number) else { return false };
        let user = &client.user;
        match reply {
            IntakeReply::Empty => true,
            IntakeReply::Useless => false,
            IntakeReply::Foreign => {
                let user = user.clone();
                self.banned.insert(user.uid);
                self.log.warn(
                    Some(&user),
                    "passed a descriptor that is no UDP socket; the user is banned",
                );
                false
            }
            IntakeReply::Request(..) if self.banned.contains(&user.uid) => false,
            IntakeReply::Request(request, udp_socket) => self.grant(number, request, udp_socket),
        }
    }

    /// Decides on a request of client `number`; returns whether the connection continues.
    fn grant(&mut self, number: usize, request: SocketRequest, udp_socket: OwnedFd) -> bool {
        let Some(client) = self.clients.get_mut(number) else { return false };
        let user = client.user.clone();
        match self.grants.decide(&user, request, udp_socket, now()) {
            Ok((recorded, pending)) => {
                let lease = recorded.holder();
                let (socket, mode) = (lease.socket(), lease.mode());
                let queue = socket.queue();
                self.log.grant(&user, &format!("{pending} queue {queue}, {mode}"));
                let Some((counts, kernel_rx_at)) = lease.kernel_rx_counter() else { return false };
                let kernel_rx_at = u32::try_from(kernel_rx_at).unwrap_or(u32::MAX);
                let (multi_buffer, may_steer) = (socket.multi_buffer(), pending.may_steer());
                let status = Status::Granted { queue, mode, multi_buffer, may_steer, kernel_rx_at };
                let reply = Reply { status, reason: pending.unsteered_reason(lease).to_owned() };
                let descriptors =
                    [socket.socket(), pending.memory(), pending.counters_page(), counts];
                let sent = client.connection.send(&reply, &descriptors);
                // The client has hung up, so it has not got the socket or has lost it.
                if sent.is_err() {
                    return false;
                }
                client.granted = self.grants.granted(recorded, pending);
                client.granted.is_some()
            }
            Err(GrantError::Busy(reason)) => {
                let reply = Reply { status: Status::Busy, reason };
                client.connection.send(&reply, &[]).is_ok()
            }
            Err(GrantError::No(reason)) => {
                let reply = Reply { status: Status::Refused, reason };
                let sent = client.connection.send(&reply, &[]);
                self.log.warn(Some(&user), &reply.reason);
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
        self.log.next_interval();
        let interfaces = self.grants.changed_interfaces();
        for number in (0..self.clients.len()).rev() {
            let stays =
                self.clients.get_mut(number).is_some_and(|client| match &mut client.granted {
                    Some(granted) => granted.check(interfaces.as_deref()),
                    None => time.duration_since(client.since) < ASKING_MAX,
                });
            if !stays {
                self.hang_up(number);
            }
        }
        let clients = &self.clients;
        self.intakes.check(time, |uid| {
            clients.iter().any(|client| client.user.uid == uid && client.granted.is_none())
        });
        let granted = clients.iter().filter_map(|client| client.granted.as_ref());
        self.grants.tidy(granted, time);
        self.grants.publish();
    }

    fn hang_up(&mut self, number: usize) {
        let Client { connection, user, granted, .. } = self.clients.swap_remove(number);
        if let Some(granted) = granted {
            self.grants.ended(&granted, now());
            self.log.grant(&user, "has no socket any more");
        }
        self.close(user.uid, connection.shut_down());
    }
}

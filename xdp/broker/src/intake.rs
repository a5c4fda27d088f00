// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intake processes: one for each user with messages to read or connections to close.
//!
//! A process of one user delays no other user, and it can be ended. The kernel then closes all that
//! it has and all that waits for it (`intake_process.rs`). In: connections of clients. Out: their
//! messages. Caller: `server.rs`. Bounds: one process that serves a user, [`PROCESSES_MAX`]
//! processes with those that have not exited yet, [`READ_MAX`] for a message.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::fd_message;
use crate::intake_process::{CLOSE, IntakeReply, READ};

/// Maximum number of processes. At that number the processes that read no message are ended.
const PROCESSES_MAX: usize = 64;
/// Time limit of a process for one message; it waits only for closes of earlier descriptors.
const READ_MAX: Duration = Duration::from_secs(1);
/// The running program, also where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// A process and its work.
#[derive(Debug)]
struct Intake {
    process: Child,
    channel: OwnedFd,
    /// The client of the message that is being read, and since when.
    reading: Option<(u64, Instant)>,
    /// Whether connections were handed over to be closed.
    closing: bool,
}

/// All processes.
#[derive(Debug, Default)]
pub(crate) struct IntakePool {
    /// The process of each user.
    intakes: HashMap<u32, Intake>,
    /// Processes that were ended and have not exited yet.
    ending: Vec<Child>,
    /// Connections that no process could take yet, with their users.
    waiting: Vec<(u32, OwnedFd)>,
}

impl IntakePool {
    /// Whether more connections may be accepted and read.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.intakes.len() + self.ending.len() < PROCESSES_MAX
    }

    /// Whether a message of user `uid` is being read.
    pub(crate) fn is_reading(&self, uid: u32) -> bool {
        self.intakes.get(&uid).is_some_and(|intake| intake.reading.is_some())
    }

    /// Starts to read a message of `client`, a connection of user `uid`.
    pub(crate) fn read(
        &mut self,
        uid: u32,
        client: u64,
        connection: BorrowedFd<'_>,
        time: Instant,
    ) -> io::Result<()> {
        self.hand_over(uid, READ, connection)?.reading = Some((client, time));
        Ok(())
    }

    /// The users with a message that is being read, and the descriptor that is readable with the
    /// reply.
    pub(crate) fn channels(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let reading = self.intakes.iter().filter(|(_, intake)| intake.reading.is_some());
        reading.map(|(uid, intake)| (*uid, intake.channel.as_fd()))
    }

    /// The reply of the process of user `uid`, and its client. A process that has exited without a
    /// reply is replaced at the next attempt to read.
    pub(crate) fn reply(&mut self, uid: u32) -> Option<(u64, IntakeReply)> {
        let intake = self.intakes.get_mut(&uid)?;
        match IntakeReply::receive(&intake.channel) {
            Ok(reply) => intake.reading.take().map(|(client, _)| (client, reply)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.end(uid);
                None
            }
        }
    }

    /// Closes `connection` of user `uid`, with the descriptors in its unread messages.
    pub(crate) fn close(&mut self, uid: u32, connection: OwnedFd) {
        match self.hand_over(uid, CLOSE, connection.as_fd()) {
            Ok(intake) => intake.closing = true,
            Err(_) => self.waiting.push((uid, connection)),
        }
    }

    /// Records exits of processes, and hands over connections that wait for one.
    pub(crate) fn reap(&mut self) {
        self.ending.retain_mut(|process| matches!(process.try_wait(), Ok(None)));
        if self.intakes.len() + self.ending.len() >= PROCESSES_MAX {
            self.end_all(|_, intake| intake.reading.is_none());
        }
        for (uid, connection) in std::mem::take(&mut self.waiting) {
            self.close(uid, connection);
        }
    }

    /// Ends the processes that exceed their time: with connections to close, without a client of
    /// their user (`has_clients`), or with a message for too long. Once a second.
    pub(crate) fn check(&mut self, time: Instant, has_clients: impl Fn(u32) -> bool) {
        self.end_all(|uid, intake| match intake.reading {
            Some((_, since)) => time.duration_since(since) >= READ_MAX,
            None => intake.closing || !has_clients(uid),
        });
    }

    fn end_all(&mut self, is_due: impl Fn(u32, &Intake) -> bool) {
        let due = self.intakes.iter().filter(|(uid, intake)| is_due(**uid, intake));
        let due: Vec<u32> = due.map(|(uid, _)| *uid).collect();
        for uid in due {
            self.end(uid);
        }
    }

    /// Ends the process of user `uid`. Its client is read again by the next process.
    fn end(&mut self, uid: u32) {
        if let Some(Intake { mut process, .. }) = self.intakes.remove(&uid) {
            // Fails if the process has exited.
            let _ = process.kill();
            self.ending.push(process);
        }
    }

    /// Passes `connection` to the process of user `uid`. A process with a full channel is ended,
    /// which closes everything in the channel, and another one is started.
    fn hand_over(
        &mut self,
        uid: u32,
        command: u8,
        connection: BorrowedFd<'_>,
    ) -> io::Result<&mut Intake> {
        let send = |intake: &Intake| fd_message::send(&intake.channel, &[command], &[connection]);
        if self.intakes.get(&uid).is_some_and(|intake| send(intake).is_err()) {
            self.end(uid);
        }
        if !self.intakes.contains_key(&uid) {
            if self.intakes.len() + self.ending.len() >= PROCESSES_MAX {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let intake = start()?;
            send(&intake)?;
            self.intakes.insert(uid, intake);
        }
        self.intakes.get_mut(&uid).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for IntakePool {
    fn drop(&mut self) {
        self.end_all(|_, _| true);
    }
}

/// Starts a process. It has no descriptor but its channel and standard error.
fn start() -> io::Result<Intake> {
    let (channel, other) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let process = Command::new(PROGRAM)
        .arg("--intake")
        .env_clear()
        .stdin(Stdio::from(other))
        .stdout(Stdio::null())
        .spawn()?;
    Ok(Intake { process, channel, reading: None, closing: false })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client's side: a process without capabilities asks, and gets a socket or a reason.
//!
//! A [`Wish`], the broker's address and the endpoint's kernel socket come in, a [`Grant`] goes out.
//! `xsk_port.rs` calls while a port opens. Bounds: [`PATIENCE`] to connect and for each answer,
//! [`BIND_TRIES`] tries while the queues are busy.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::fstat;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use socket2::{Domain, SockAddr, Socket, Type};

use super::BoardReader;
use super::message::{REPLY_BYTES, Reply, Request, Status};
use crate::grant::{Grant, Wish};
use crate::socket::{BIND_PAUSE, BIND_TRIES, XskSocket};

/// How long the broker may take to let somebody connect, and for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the broker gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be talked to.
    #[error("xdp-broker at {path}: {source}")]
    Absent {
        /// Where it was looked for.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It answered with something else than an answer.
    #[error("xdp-broker at {path} is of another version")]
    Odd {
        /// Where it listens.
        path: String,
    },
    /// It said no.
    #[error("xdp-broker: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

/// A connection to the broker. While it lives, so does the grant that was made over it.
#[derive(Debug)]
pub(crate) struct Connection(UnixStream);

impl Connection {
    /// Whether the broker still holds the grant. It says nothing more after its answer, and closes
    /// when the program is gone.
    pub(crate) fn is_open(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        matches!(recv(&self.0, &mut byte, flags), Err(rustix::io::Errno::AGAIN))
    }
}

/// Asks the broker at `path` for `wish`, for the endpoint whose kernel socket is `companion`.
pub(crate) fn ask(
    path: &Path,
    wish: Wish,
    companion: BorrowedFd<'_>,
) -> Result<Grant, BrokerError> {
    let absent = |error: io::Error| {
        let source = match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        };
        BrokerError::Absent { path: path.display().to_string(), source }
    };
    let odd = || BrokerError::Odd { path: path.display().to_string() };
    let stream = connect(path).map_err(absent)?;
    for attempt in 1..=BIND_TRIES {
        send(&stream, wish, companion).map_err(absent)?;
        let (reply, descriptors) = receive(&stream).map_err(absent)?;
        let Reply { status, reason } = reply.ok_or_else(odd)?;
        match status {
            Status::Granted { queue, mode, multi_buffer } => {
                let [socket, memory, board] = descriptors.try_into().map_err(|_| odd())?;
                let socket = XskSocket { socket, memory, layout: wish.layout, queue, multi_buffer };
                check_memory(&socket).map_err(absent)?;
                let broker = (Connection(stream), BoardReader::new(board));
                return Ok(Grant::brokered(broker, socket, mode, reason));
            }
            Status::Busy if attempt < BIND_TRIES => thread::sleep(BIND_PAUSE),
            Status::Busy | Status::Refused => return Err(BrokerError::Refused { reason }),
        }
    }
    Err(odd())
}

/// Connects to `path`, over a socket that waits for [`PATIENCE`] at most, for a place in the
/// listener's queue (unix(7), `SO_SNDTIMEO`), too.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(OwnedFd::from(socket).into())
}

/// The memory must be as large as what is going to be mapped of it: touching more is SIGBUS.
fn check_memory(socket: &XskSocket) -> io::Result<()> {
    let size = fstat(&socket.memory)?.st_size;
    if usize::try_from(size).is_ok_and(|size| size >= socket.layout.bytes()) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the memory is too small"))
}

fn send(stream: &UnixStream, wish: Wish, companion: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = Request(wish).to_bytes();
    let descriptors = [companion];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = match sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
        Ok(sent) => sent,
        // It hung up before it was asked, and has said why.
        Err(rustix::io::Errno::PIPE) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// One reply, `None` if it is none, and what came with it.
fn receive(stream: &UnixStream) -> io::Result<(Option<Reply>, Vec<OwnedFd>)> {
    let mut bytes = [0; REPLY_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(stream, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((Reply::from_bytes(bytes.get(..got.bytes).unwrap_or(&[])), descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Queues, RingSizes};
    use crate::facts::XskMode;
    use crate::umem::Layout;
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_broker_that_takes_nobody_in_is_absent() {
        let path = std::env::temp_dir().join(format!("ofi-broker-full-{}", std::process::id()));
        let address = SockAddr::unix(&path).unwrap();
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&address).unwrap();
        listener.listen(0).unwrap();
        // One waits, and nobody takes it.
        let first = UnixStream::connect(&path).unwrap();
        let asked = path.clone();
        let (said, hear) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let layout = Layout::new(RingSizes::default(), 42);
            let (queues, mode) = (Queues::ALL, XskMode::Skb);
            let wish = Wish { interface: 1, queues, mode, layout, longest: 1514, steer: false };
            said.send(ask(&asked, wish, socket.as_fd()).map(|_| ())).unwrap();
        });
        let answer = hear.recv_timeout(2 * PATIENCE);
        drop((listener, first));
        std::fs::remove_file(&path).unwrap();
        let error = answer.expect("somebody waits for ever").unwrap_err();
        assert_eq!(error.to_string(), format!("xdp-broker at {}: timed out", path.display()));
    }
}

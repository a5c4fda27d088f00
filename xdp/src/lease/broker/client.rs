// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client's side of the broker protocol: a request, and a lease or the reason for a refusal.
//!
//! In: a [`SocketRequest`], the broker's path and the endpoint's kernel socket. Out: a [`Lease`].
//! Caller: `af_xdp/open.rs`, while a port opens. Bounds: [`TIMEOUT`] to connect, to be admitted and
//! for each answer, [`BIND_TRIES`] attempts while the queues are busy. A time limit of a socket
//! makes signals end its calls, also with `SA_RESTART` (signal(7)), so these are made again.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use socket2::{Domain, SockAddr, Socket, Type};

use super::connection::BrokerConnection;
use super::counters_page::CountersReader;
use super::message::{REPLY_BYTES, Reply, Status};
use crate::clock::now;
use crate::error::BrokerError;
use crate::lease::request::SocketRequest;
use crate::lease::socket_lease::{BrokerLease, Lease};
use crate::xsk::socket::{BIND_PAUSE, BIND_TRIES, XskSocket};

/// Time limit for connecting, and for each answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest time limit of a socket; a shorter one is none for the kernel.
const TIMEOUT_MIN: Duration = Duration::from_micros(1);
/// Longest pause before the next attempt to send a request.
const ADMISSION_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Sends `request` to the broker at `path`, with the kernel socket of the endpoint.
pub(crate) fn ask(
    path: &Path,
    request: SocketRequest,
    udp_socket: BorrowedFd<'_>,
) -> Result<Lease, BrokerError> {
    let absent = |error: io::Error| {
        let source = match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        };
        BrokerError::Absent { path: path.display().to_string(), source }
    };
    let unknown_answer = || BrokerError::UnknownAnswer { path: path.display().to_string() };
    let stream = connect(path).map_err(absent)?;
    for attempt in 1..=BIND_TRIES {
        send(&stream, request, udp_socket).map_err(absent)?;
        let (reply, descriptors) = receive(&stream).map_err(absent)?;
        let Reply { status, reason } = reply.ok_or_else(unknown_answer)?;
        match status {
            Status::Granted { queue, mode, multi_buffer, may_steer, kernel_rx_at } => {
                let [socket, memory, counters_page, kernel_rx_map] =
                    descriptors.try_into().map_err(|_| unknown_answer())?;
                let (layout, descriptors) = (request.layout, (socket, memory));
                let socket = XskSocket::bound(descriptors, layout, queue, multi_buffer);
                check_memory(&socket).map_err(absent)?;
                let broker = BrokerLease {
                    connection: BrokerConnection::new(stream),
                    counters_page: CountersReader::new(counters_page),
                    kernel_rx_counter: (kernel_rx_map, kernel_rx_at as usize),
                    may_steer,
                };
                return Ok(Lease::brokered(broker, socket, mode, reason));
            }
            Status::Busy if attempt < BIND_TRIES => thread::sleep(BIND_PAUSE),
            Status::Busy | Status::Refused => return Err(BrokerError::Refused { reason }),
        }
    }
    Err(unknown_answer())
}

/// Makes a call again while signals end it, for [`TIMEOUT`] in all. `call` gets the time that is
/// left.
fn uninterrupted<T>(mut call: impl FnMut(Duration) -> io::Result<T>) -> io::Result<T> {
    let deadline = now().after(TIMEOUT);
    let mut left = TIMEOUT;
    // bound: the deadline
    while !left.is_zero() {
        match call(left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
        left = deadline.since(now());
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Connects to `path`. The socket's time limit also limits the wait for a place in the listener's
/// queue (unix(7), `SO_SNDTIMEO`). A call that a signal has ended there leaves the socket as it
/// was.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    uninterrupted(|left| {
        limit_write(&socket, left)?;
        socket.connect(&address)
    })?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    Ok(OwnedFd::from(socket).into())
}

/// Limits the time of a write. `socket2` cuts it to microseconds, and the kernel takes zero for no
/// limit.
fn limit_write(socket: &Socket, time: Duration) -> io::Result<()> {
    socket.set_write_timeout(Some(time.max(TIMEOUT_MIN)))
}

/// Checks that the memory is as large as the mapping will be; an access beyond it is SIGBUS.
fn check_memory(socket: &XskSocket) -> io::Result<()> {
    let size = fstat(&socket.memory)?.st_size;
    if usize::try_from(size).is_ok_and(|size| size >= socket.layout.bytes()) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the memory is too small"))
}

/// Sends the request. Until the broker admits the connection the kernel refuses its descriptor
/// (EPERM; `SO_PASSRIGHTS`, Linux 6.16).
fn send(stream: &UnixStream, request: SocketRequest, udp_socket: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = request.to_bytes();
    let descriptors = [udp_socket];
    let deadline = now().after(TIMEOUT);
    // bound: the deadline, as signals may shorten the pauses
    while now() < deadline {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        match sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == bytes.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            // The broker hung up before the request, and has sent the reason.
            Err(rustix::io::Errno::PIPE) => return Ok(()),
            Err(rustix::io::Errno::PERM | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Readable: the broker has sent the reason for its refusal.
        let mut readable = [PollFd::new(stream, PollFlags::IN)];
        if poll(&mut readable, Some(&ADMISSION_PAUSE)).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// One reply, or `None` if the message is not one, and its descriptors.
fn receive(stream: &UnixStream) -> io::Result<(Option<Reply>, Vec<OwnedFd>)> {
    uninterrupted(|left| {
        stream.set_read_timeout(Some(left))?;
        receive_once(stream)
    })
}

/// As [`receive`], unless a signal arrives.
fn receive_once(stream: &UnixStream) -> io::Result<(Option<Reply>, Vec<OwnedFd>)> {
    let mut bytes = [0; REPLY_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
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
    use crate::config::{QueueRange, RingSizes};
    use crate::lease::broker::message::REQUEST_BYTES;
    use crate::tier::status::XskMode;
    use crate::xsk::umem::Layout;
    use std::io::{Read as _, Write as _};
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::Command;

    /// The answer of a broker at `path` to a request, or the time-out of the test.
    fn answer(path: &Path) -> Result<(), BrokerError> {
        let path = path.to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let layout = Layout::new(RingSizes::default(), 42);
            let (queues, mode) = (QueueRange::ALL, XskMode::Skb);
            let local = socket.local_addr().unwrap();
            let request = SocketRequest {
                interface: 1,
                queues,
                local,
                mode,
                layout,
                longest: 1514,
                steer: false,
                any_payload: false,
            };
            sender.send(ask(&path, request, socket.as_fd()).map(|_| ())).unwrap();
        });
        receiver.recv_timeout(2 * TIMEOUT).expect("the client waits without end")
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("ofi-broker-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_broker_that_accepts_no_connection_is_absent() {
        let path = path("full");
        let address = SockAddr::unix(&path).unwrap();
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&address).unwrap();
        listener.listen(0).unwrap();
        // One connection waits in the queue and is never accepted.
        let first = UnixStream::connect(&path).unwrap();
        let error = answer(&path).unwrap_err();
        drop((listener, first));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.to_string(), format!("xdp-broker at {}: timed out", path.display()));
    }

    /// Stops this process and lets it go on, several times: that ends a call on a socket with a
    /// time limit, as a signal with a handler does (signal(7)).
    fn interrupt() {
        let script = "for n in 1 2 3; do sleep 0.02; kill -STOP $PPID; kill -CONT $PPID; done";
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    }

    #[test]
    fn a_signal_before_the_answer_does_not_end_the_request() {
        let path = path("slow");
        let listener = UnixListener::bind(&path).unwrap();
        let broker = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; REQUEST_BYTES]).unwrap();
            interrupt();
            let reply = Reply { status: Status::Refused, reason: "not today".to_owned() };
            stream.write_all(&reply.to_bytes()).unwrap();
        });
        let error = answer(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(
            matches!(&error, BrokerError::Refused { reason } if reason == "not today"),
            "{error}"
        );
        broker.join().unwrap();
    }

    #[test]
    fn a_signal_before_the_broker_accepts_does_not_end_the_request() {
        let path = path("busy");
        let address = SockAddr::unix(&path).unwrap();
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&address).unwrap();
        listener.listen(0).unwrap();
        let first = UnixStream::connect(&path).unwrap();
        let broker = thread::spawn(move || {
            interrupt();
            // The one that waited, then the client, which finds the connection closed.
            for _ in 0..2 {
                drop(listener.accept().unwrap());
            }
        });
        let error = answer(&path).unwrap_err();
        drop(first);
        std::fs::remove_file(&path).unwrap();
        assert!(!error.to_string().to_lowercase().contains("interrupted"), "{error}");
        broker.join().unwrap();
    }

    #[test]
    fn the_rest_of_a_microsecond_is_a_time_limit() {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        for nanos in [1, 999, 1000] {
            limit_write(&socket, Duration::from_nanos(nanos)).unwrap();
            assert!(socket.write_timeout().unwrap().is_some(), "{nanos} ns");
        }
    }

    #[test]
    fn signals_do_not_put_the_time_limit_off() {
        let (begin, mut least) = (now(), TIMEOUT);
        let result: io::Result<()> = uninterrupted(|left| {
            assert!(left <= least && !left.is_zero());
            least = left;
            thread::sleep(TIMEOUT / 20);
            Err(io::ErrorKind::Interrupted.into())
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((TIMEOUT..2 * TIMEOUT).contains(&now().since(begin)));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intake process: reads the messages of one user's connections, and closes their descriptors.
//!
//! A descriptor of a client may be of any kind, and its last close may block. Examples are a
//! connection that lingers (`SO_LINGER`, socket(7)) and a file server. The broker cannot end a
//! close of its own. It ends this process, and the kernel does not linger for a process that exits
//! (`inet_release` in the kernel). The broker itself receives UDP sockets only.
//!
//! In: connections of clients, over the socket on standard input. Out: an [`IntakeReply`] for each
//! connection to read. Caller: `main.rs`, in a process that `intake.rs` starts. Bounds: one message
//! of a client at a time. The process ends with the broker.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use ofi_xdp_datapath::SocketRequest;
use ofi_xdp_datapath::broker::REQUEST_BYTES;
use rustix::net::RecvFlags;

use crate::fd_message;
use crate::udp_socket::UdpSocketProof;

/// The command to read a message of the connection. Any other byte is the command to close it.
pub(crate) const READ: u8 = 1;
/// The command to close the connection.
pub(crate) const CLOSE: u8 = 2;
/// Bytes of an [`IntakeReply`]: its kind, and the request or nothing.
const REPLY_BYTES: usize = 1 + REQUEST_BYTES;

/// The process's reply about a connection.
#[derive(Debug)]
pub(crate) enum IntakeReply {
    /// No message yet.
    Empty,
    /// A request with its UDP socket.
    Request(SocketRequest, OwnedFd),
    /// The end of the connection, or a message that is no request.
    Useless,
    /// A message with a descriptor that is no UDP socket.
    Foreign,
}

impl IntakeReply {
    const EMPTY: u8 = 0;
    const REQUEST: u8 = 1;
    const USELESS: u8 = 2;
    const FOREIGN: u8 = 3;

    /// Receives a reply from the process at the other end of `channel`, without waiting.
    pub(crate) fn receive(channel: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; REPLY_BYTES];
        let received = fd_message::receive(channel, &mut bytes, RecvFlags::DONTWAIT)?;
        let [kind, request @ ..] = bytes;
        match (kind, received) {
            (_, (0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            (Self::EMPTY, _) => Ok(Self::Empty),
            (Self::FOREIGN, _) => Ok(Self::Foreign),
            (Self::REQUEST, (REPLY_BYTES, descriptors)) => {
                match (SocketRequest::from_bytes(&request), <[_; 1]>::try_from(descriptors)) {
                    (Some(request), Ok([udp_socket])) => Ok(Self::Request(request, udp_socket)),
                    _ => Ok(Self::Useless),
                }
            }
            _ => Ok(Self::Useless),
        }
    }
}

/// Serves the broker until it ends.
pub(crate) fn run() -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    let channel = io::stdin();
    let mut command = [0; 1];
    // bound: the broker's end of the socket
    loop {
        match fd_message::receive(&channel, &mut command, RecvFlags::empty()) {
            Ok((0, _)) => return Ok(()),
            Ok((_, connections)) if command == [READ] => {
                for connection in connections {
                    read(channel.as_fd(), connection.as_fd())?;
                }
            }
            Ok((_, connections)) => drop(connections),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads a message of `connection`, and replies before its descriptors are closed.
fn read(channel: BorrowedFd<'_>, connection: BorrowedFd<'_>) -> io::Result<()> {
    let mut reply = [0; REPLY_BYTES];
    let [kind, request @ ..] = &mut reply;
    let received = fd_message::receive(connection, request, RecvFlags::DONTWAIT);
    let (length, descriptors) = match received {
        Ok(received) => received,
        Err(error) => {
            let again = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
            *kind = if again.contains(&error.kind()) {
                IntakeReply::EMPTY
            } else {
                IntakeReply::USELESS
            };
            return fd_message::send(channel, &reply, &[]);
        }
    };
    if !descriptors.iter().all(UdpSocketProof::is_udp) {
        *kind = IntakeReply::FOREIGN;
        return fd_message::send(channel, &reply, &[]);
    }
    match descriptors.as_slice() {
        [udp_socket] if length == REQUEST_BYTES => {
            *kind = IntakeReply::REQUEST;
            fd_message::send(channel, &reply, &[udp_socket.as_fd()])
        }
        _ => {
            *kind = IntakeReply::USELESS;
            fd_message::send(channel, &reply, &[])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_datapath::{Layout, QueueRange, RingSizes, XskMode};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;

    /// The reply to a client's message of `bytes` and `descriptors`.
    fn reply(bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> IntakeReply {
        let (connection, client) = UnixStream::pair().unwrap();
        if !bytes.is_empty() {
            fd_message::send(&client, bytes, descriptors).unwrap();
        }
        let flags = SocketFlags::CLOEXEC;
        let (ours, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        read(other.as_fd(), connection.as_fd()).unwrap();
        IntakeReply::receive(&ours).unwrap()
    }

    #[test]
    fn the_broker_receives_udp_sockets_only() {
        let layout = Layout::new(RingSizes::default(), 42);
        let request = SocketRequest {
            interface: 3,
            queues: QueueRange::ALL,
            local: "198.18.0.1:7".parse().unwrap(),
            mode: XskMode::Skb,
            layout,
            longest: 1514,
            any_payload: false,
            steer: false,
        };
        let bytes = request.to_bytes();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        match reply(&bytes, &[udp.as_fd()]) {
            IntakeReply::Request(found, _) => assert_eq!(found, request),
            other => panic!("{other:?}"),
        }
        assert!(matches!(reply(&[], &[]), IntakeReply::Empty));
        let useless: [(&[u8], &[BorrowedFd<'_>]); 4] = [
            (&bytes, &[]),
            (&bytes, &[udp.as_fd(), udp.as_fd()]),
            (&bytes[1..], &[udp.as_fd()]),
            (&[0; REQUEST_BYTES], &[udp.as_fd()]),
        ];
        for (bytes, descriptors) in useless {
            assert!(matches!(reply(bytes, descriptors), IntakeReply::Useless), "{bytes:?}");
        }
        assert!(matches!(reply(&bytes, &[udp.as_fd(), tcp.as_fd()]), IntakeReply::Foreign));
        assert!(matches!(reply(&[1], &[tcp.as_fd()]), IntakeReply::Foreign));
    }

    #[test]
    fn the_end_of_a_connection_is_useless() {
        let (connection, client) = UnixStream::pair().unwrap();
        drop(client);
        let flags = SocketFlags::CLOEXEC;
        let (ours, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        read(other.as_fd(), connection.as_fd()).unwrap();
        assert!(matches!(IntakeReply::receive(&ours).unwrap(), IntakeReply::Useless));
        drop(other);
        assert!(IntakeReply::receive(&ours).is_err(), "the process has ended");
    }
}

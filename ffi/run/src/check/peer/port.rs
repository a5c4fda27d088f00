// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look at the TCP port of `xdp-perf` on the other host.
//!
//! In: HOST:PORT. Out: whether a connection is accepted. Called by `peer`. Bounds: [`RESOLVE`] and
//! [`CONNECT`]. The server does not count a connection that says nothing.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::check::bounded::Deadline;

/// Longest wait for the address of a name.
const RESOLVE: Duration = Duration::from_secs(5);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(3);

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    /// The address of this host that reaches the other one.
    pub(super) ours: IpAddr,
    /// The address of the other host.
    pub(super) theirs: IpAddr,
}

/// The port, as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PortState {
    /// A connection was accepted, after so long.
    Open { ends: Ends, took: Duration },
    /// The host answers, and no program listens.
    Refused,
    /// No answer came: the host is down, or a firewall drops the request.
    Unanswered { ours: Option<IpAddr> },
    /// The name has no address.
    Unknown(String),
    /// There is no way to the host.
    Unreachable(String),
}

/// Connects to `address`, HOST:PORT, and leaves.
pub(super) fn look(address: &str) -> PortState {
    let to = match resolve(address) {
        Ok(to) => to,
        Err(error) => return PortState::Unknown(error.to_string()),
    };
    let deadline = Deadline::after(CONNECT);
    let connected = TcpStream::connect_timeout(&to, CONNECT);
    let took = CONNECT.saturating_sub(deadline.left());
    let ours = |stream: TcpStream| stream.local_addr().map(|local| local.ip().to_canonical());
    match connected.and_then(ours) {
        Ok(ours) => PortState::Open { ends: Ends { ours, theirs: to.ip().to_canonical() }, took },
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => PortState::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                PortState::Unanswered { ours: source(to) }
            }
            _ => PortState::Unreachable(error.to_string()),
        },
    }
}

/// The first address of a name. The resolver has no bound of its own, so a thread waits for it.
fn resolve(address: &str) -> io::Result<SocketAddr> {
    let (sender, receiver) = channel();
    let name = address.to_owned();
    std::thread::spawn(move || {
        let found = name.to_socket_addrs().map(|mut found| found.next());
        let _ = sender.send(found);
    });
    let found = receiver.recv_timeout(RESOLVE).map_err(|_| io::Error::from(ErrorKind::TimedOut))?;
    found?.ok_or_else(|| io::Error::from(ErrorKind::NotFound))
}

/// The address of this host for packets to `to`; none is sent.
fn source(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_open_or_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let local = IpAddr::from([127, 0, 0, 1]);
        let PortState::Open { ends, took } = look(&address) else { panic!("it is open") };
        assert_eq!(ends, Ends { ours: local, theirs: local });
        assert!(took < CONNECT);
        drop(listener);
        assert_eq!(look(&address), PortState::Refused);
        assert!(matches!(look("no-such-host.invalid:7471"), PortState::Unknown(_)));
        assert!(matches!(look("no port"), PortState::Unknown(_)));
        assert_eq!(source(SocketAddr::new(local, 9)), Some(local));
    }
}

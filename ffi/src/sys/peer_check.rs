// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reason why a peer does not answer, as far as it can be found out: messages to the user.
//!
//! In: the address of a peer that was given up. Out: a message. Under the name `tcp` the peer may
//! be libfabric's own provider of that name: it accepts a TCP connection at the address. Called
//! when an operation or a request has failed; a check may take [`CHECK_MAX`], and an address is
//! checked once. Bound: [`CHECKS`] checks in a process.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sys::errno::Error;
use crate::sys::notice::Notice;
use crate::sys::personality::{self, Personality};

/// The longest time that a check takes: a host on the network answers at once.
const CHECK_MAX: Duration = Duration::from_millis(100);
/// Checks in a process.
const CHECKS: usize = 16;

/// The addresses that were checked, with the result.
static CHECKED: Mutex<Vec<(SocketAddr, bool)>> = Mutex::new(Vec::new());

static SPEAKS_TCP: Notice = Notice::new("A speaks TCP, not xdp: …");
static OTHER_VERSION: Notice = Notice::new("… packets of another version …");
static SILENT: Notice = Notice::new("peer A has not answered …");
static UNANSWERED: Notice = Notice::new("A has not answered a connection …");

/// Reports a peer that has given no sign of life for the peer time-out; `versions` is the number of
/// packets of another version of the protocol that have arrived.
pub(crate) fn report_silence(peer: SocketAddr, versions: u64) {
    if is_tcp(peer) {
        return;
    }
    if versions > 0 {
        OTHER_VERSION.tell(format_args!(
            "peer {peer} does not answer, and packets of another version of the protocol arrive: \
             install one version of libxdp-fi.so on all hosts"
        ));
        return;
    }
    SILENT.tell(format_args!(
        "peer {peer} has not answered within FI_XDP_PEER_TIMEOUT: is it running, and does a \
         firewall drop its UDP port {}? (`nft list ruleset` there and here)",
        peer.port()
    ));
}

/// Reports a connection request without an answer.
pub(crate) fn report_request(peer: SocketAddr, error: Error) {
    if !is_tcp(peer) && error == Error::TimedOut {
        UNANSWERED.tell(format_args!(
            "{peer} has not answered a connection request within FI_XDP_CONNECT_TIMEOUT: does it \
             listen, and does a firewall drop its UDP port {}? (`nft list ruleset` there and here)",
            peer.port()
        ));
    }
}

/// Whether something accepts TCP connections at `peer`, which is reported then. Looked at under the
/// name `tcp` only.
fn is_tcp(peer: SocketAddr) -> bool {
    let is_tcp = personality::current() == Personality::Tcp && accepts_tcp(peer);
    if is_tcp {
        SPEAKS_TCP.tell(format_args!(
            "{peer} speaks TCP, not xdp: set FI_XDP_NAME=tcp there too, or unset it here"
        ));
    }
    is_tcp
}

/// Whether something accepts TCP connections at `peer`. One that was not checked does not.
fn accepts_tcp(peer: SocketAddr) -> bool {
    let mut made = checked();
    if let Some((_, accepts)) = made.iter().find(|(address, _)| *address == peer) {
        return *accepts;
    }
    if made.len() >= CHECKS {
        return false;
    }
    // The address of a check that is under way is not checked once more.
    made.push((peer, false));
    drop(made);
    let accepts = TcpStream::connect_timeout(&peer, CHECK_MAX).is_ok();
    if accepts && let Some(entry) = checked().iter_mut().find(|(address, _)| *address == peer) {
        entry.1 = true;
    }
    accepts
}

// A panic while the lock is held leaves a list that is sound.
fn checked() -> MutexGuard<'static, Vec<(SocketAddr, bool)>> {
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_is_checked_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        for _ in 0..CHECKS {
            assert!(accepts_tcp(peer));
        }
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_ok());
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(listener);
        assert!(accepts_tcp(peer), "the result is remembered");
    }
}

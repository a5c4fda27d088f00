// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams of kernel sockets, each way: whether a firewall between two hosts passes UDP.
//!
//! The client sends first, as the provider does: a firewall may pass only answers. The ports are
//! any free ones, as those of endpoints. The control connection carries them, and the count of the
//! server.
//!
//! In: the control connection. Out: the numbers of datagrams that arrived. Callers: both sides of
//! a session. Bounds: [`COUNT`] datagrams each way, and [`GRACE`] for the last of them.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::control::{Control, ControlAnswer, ControlRequest};
use crate::plan::Workload;
use crate::report::Datagrams;

/// Datagrams each way.
const COUNT: u8 = 32;
/// Time between two of them, so that no queue on the path is full.
const GAP: Duration = Duration::from_millis(1);
/// Longest wait for datagrams after the last one was sent.
const GRACE: Duration = Duration::from_millis(300);
/// The beginning of each datagram; its number follows.
const MARK: [u8; 7] = *b"ofi-xdp";

/// The client's side: sends, and counts the server's.
///
/// # Errors
/// When the server does not answer within `timeout`, or this host sends no datagrams.
pub(super) fn client(control: &mut Control, timeout: Duration) -> anyhow::Result<Datagrams> {
    let (local, server) = control.ends()?;
    let socket = bind(local)?;
    let port = socket.local_addr()?.port();
    control.send(&ControlRequest::<()>::Start(Workload::Datagrams { port }))?;
    let ControlAnswer::Port(port) = answer(control, timeout)? else {
        bail!("the server did not give its port");
    };
    send(&socket, with_port(server, port))?;
    control.send(&ControlRequest::<()>::Stop)?;
    let ControlAnswer::Arrived(to_server) = answer(control, timeout)? else {
        bail!("the server did not count");
    };
    let to_client = count(&socket)?;
    Ok(Datagrams { sent: COUNT.into(), to_server, to_client })
}

/// The server's side: counts, and sends as many to the client's `port`. `timeout` bounds the wait
/// for the client's end.
///
/// # Errors
/// When the client is gone, or this host sends no datagrams.
pub(super) fn server(control: &mut Control, port: u16, timeout: Duration) -> anyhow::Result<()> {
    let (local, client) = control.ends()?;
    let socket = bind(local)?;
    control.send(&ControlAnswer::Port(socket.local_addr()?.port()))?;
    let ControlRequest::<()>::Stop = control.receive(timeout)? else {
        bail!("the client spoke out of turn");
    };
    let arrived = count(&socket)?;
    send(&socket, with_port(client, port))?;
    control.send(&ControlAnswer::Arrived(arrived))
}

fn answer(control: &mut Control, timeout: Duration) -> anyhow::Result<ControlAnswer> {
    match control.receive(timeout)? {
        ControlAnswer::Failed(why) => bail!("the server failed: {why}"),
        answer => Ok(answer),
    }
}

/// A socket with any free port at the address of this end.
fn bind(local: SocketAddr) -> anyhow::Result<UdpSocket> {
    UdpSocket::bind(with_port(local, 0)).context("no socket for datagrams")
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

fn send(socket: &UdpSocket, to: SocketAddr) -> anyhow::Result<()> {
    for number in 0..COUNT {
        let mut datagram = [number; MARK.len() + 1];
        datagram[..MARK.len()].copy_from_slice(&MARK);
        socket.send_to(&datagram, to).with_context(|| format!("cannot send a datagram to {to}"))?;
        std::thread::sleep(GAP);
    }
    Ok(())
}

/// The datagrams that arrive, each counted once: a network may copy them.
fn count(socket: &UdpSocket) -> anyhow::Result<u32> {
    let (mut seen, deadline) = ([false; COUNT as usize], Instant::now() + GRACE);
    let mut datagram = [0; MARK.len() + 1];
    // bound: deadline
    while seen.contains(&false) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        let len = match socket.recv_from(&mut datagram) {
            Ok((len, _)) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => return Err(error).context("cannot receive datagrams"),
        };
        if let Some((number, mark)) = datagram[..len].split_last()
            && *mark == MARK
            && let Some(one) = seen.get_mut(usize::from(*number))
        {
            *one = true;
        }
    }
    Ok(seen.iter().map(|seen| u32::from(*seen)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_datagram_counts_once_and_strangers_never() {
        let local = SocketAddr::from(([127, 0, 0, 1], 9));
        let (here, there) = (bind(local).unwrap(), bind(local).unwrap());
        let to = here.local_addr().unwrap();
        for stray in [&b"ofi-xdp\x03"[..], b"ofi-xdp\xff", b"ofi-xdp", b"", b"other000"] {
            there.send_to(stray, to).unwrap();
        }
        send(&there, to).unwrap();
        assert_eq!(count(&here).unwrap(), u32::from(COUNT));
        assert_eq!(count(&here).unwrap(), 0, "it ends where nothing comes");
    }
}

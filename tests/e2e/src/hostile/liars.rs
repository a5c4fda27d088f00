// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several liars that do the same, each on a connection of its own.
//!
//! In: how many, and the lie. Out: a step of an attack; each liar tells its lie once in each
//! connection, and makes the next one when the endpoint has ended that. Caller: the attacks. Bound:
//! the liars.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::attacks::{Counts, Step};
use crate::liar::Liar;

/// Steps between two hellos of a liar.
const HELLO_STEPS: u32 = 5;

/// `count` liars, each of which calls `lie` once in each connection. The attack is under way after
/// as many lies.
pub(crate) fn crowd(
    local: Ipv4Addr,
    target: SocketAddrV4,
    count: u64,
    lie: fn(&mut Liar, &mut Counts),
) -> anyhow::Result<Step> {
    let liars = (1..=count).map(|incarnation| Liar::new(local, target, incarnation));
    let mut liars: Vec<Liar> = liars.collect::<Result<_, _>>()?;
    let (mut sent, mut lies, mut step) = (vec![false; liars.len()], 0, 0_u32);
    Ok(Box::new(move |counts| {
        for index in readable(&liars)? {
            liars[index].answer(counts)?;
        }
        for (liar, sent) in liars.iter_mut().zip(&mut sent) {
            if liar.has_ended() {
                liar.start_over();
                *sent = false;
            }
            if liar.is_connected() && !*sent {
                lie(liar, counts);
                *sent = true;
                lies += 1;
            } else if !liar.is_connected() && step.is_multiple_of(HELLO_STEPS) {
                liar.hello(counts);
            }
        }
        step = step.wrapping_add(1);
        Ok(lies >= count)
    }))
}

/// The liars that have received packets. One call for all sockets: a call for each would take a
/// part of a core from the good peers, which is not the attack.
pub(crate) fn readable(liars: &[Liar]) -> anyhow::Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> =
        liars.iter().map(|liar| PollFd::new(liar.as_fd(), PollFlags::POLLIN)).collect();
    poll(&mut polled, PollTimeout::ZERO)?;
    let ready = polled.iter().enumerate().filter(|(_, polled)| polled.any().unwrap_or(true));
    Ok(ready.map(|(index, _)| index).collect())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verified traffic: messages in both directions, every byte checked, while the network changes.
//!
//! In: open endpoints of two processes. Out: the number of messages that came back intact, or the
//! first wrong one. `misbehave` runs both sides. [`echo`] sleeps for messages, [`converse`] polls,
//! so that both kinds of waiting see the change. Bounds: [`WINDOW`] messages in flight, the
//! caller's time.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ofi_xdp_libfabric::{Completion, Endpoint, Error, Name, Operation, Peer, Route};

use crate::pair::say;

/// Messages in flight, and buffers for each direction.
pub(crate) const WINDOW: usize = 24;
/// The longest message.
pub(crate) const LENGTH_MAX: usize = 140_000;
/// Lengths below a packet, of a full packet, of several packets, and of a rendezvous message.
const LENGTHS: [usize; 8] = [64, 8, 1400, 64, 9000, 20_000, 70_000, LENGTH_MAX];
/// Longest sleep of a side with unfinished work and no messages.
const SLEEP: Duration = Duration::from_millis(20);
const TAG: u64 = 7;
/// Length of a message that is received and not sent back.
const KNOCK_LEN: usize = 4;

/// The next use of a buffer.
#[derive(Clone, Copy, Debug)]
enum Next {
    Receive,
    Send(usize),
}

/// Posts waiting operations while there is room.
fn post(
    endpoint: &mut Endpoint,
    waiting: &mut VecDeque<(usize, Next)>,
    peer: Option<Peer>,
) -> anyhow::Result<()> {
    // bound: the buffers
    while let Some((slot, next)) = waiting.front().copied() {
        let posted = match (next, peer) {
            (Next::Receive, _) => endpoint.receive(slot, Some(TAG)),
            (Next::Send(len), Some(peer)) => {
                endpoint.send(slot, len, Route { peer, tag: Some(TAG) })
            }
            (Next::Send(_), None) => bail!("no peer to send to"),
        };
        match posted {
            Ok(()) => drop(waiting.pop_front()),
            Err(Error::Again) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends every message back to `peer`, until `end`. Without a `peer` the first message is the name
/// of the other side. If it is `lied_to`, receives may end in error: it reports the first one.
///
/// # Errors
/// When another operation fails.
pub(crate) fn echo(
    endpoint: &mut Endpoint,
    mut peer: Option<Peer>,
    lied_to: bool,
    end: Instant,
) -> anyhow::Result<()> {
    let mut reported = false;
    let mut waiting: VecDeque<_> =
        (0..endpoint.slots()).map(|slot| (slot, Next::Receive)).collect();
    while Instant::now() < end {
        post(endpoint, &mut waiting, peer)?;
        // A side without work sleeps until a message wakes it, through any change of the network.
        let left = end.saturating_duration_since(Instant::now());
        let sleep = if waiting.is_empty() { left } else { SLEEP };
        let mut came = Vec::new();
        match endpoint.wait(sleep, |completion| came.push(completion)) {
            Err(Error::Completion { operation: Operation::Receive, slot: Some(slot), .. })
                if lied_to =>
            {
                waiting.push_back((slot, Next::Receive));
                if !reported {
                    say("a receive has failed")?;
                    reported = true;
                }
            }
            other => drop(other?),
        }
        for Completion { slot, operation, len, .. } in came {
            if operation != Operation::Receive || len == KNOCK_LEN {
                waiting.push_back((slot, Next::Receive));
                continue;
            }
            if peer.is_none() {
                let name = endpoint.bytes(slot)?.get(..len).context("a long name")?.to_vec();
                peer = Some(endpoint.insert(&Name(name))?);
            }
            waiting.push_back((slot, Next::Send(len)));
        }
    }
    Ok(())
}

/// Sends one message, which is not sent back, to an echo; the time until it was accepted.
///
/// # Errors
/// When it fails, or was not accepted before `end`.
pub(crate) fn knock(endpoint: &mut Endpoint, peer: Peer, end: Instant) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let mut waiting = VecDeque::from([(0, Next::Send(KNOCK_LEN))]);
    let mut accepted = false;
    while !accepted {
        ensure!(Instant::now() < end, "the echo does not accept a message");
        post(endpoint, &mut waiting, Some(peer))?;
        endpoint.poll(|_| accepted = true)?;
    }
    Ok(start.elapsed())
}

/// Verified messages and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verified {
    /// Messages.
    pub(crate) messages: u64,
    /// Bytes of these messages.
    pub(crate) bytes: u64,
}

/// Message `number`: its number, then bytes that depend on it and on their position.
fn message(number: u64) -> Vec<u8> {
    let len = LENGTHS[number as usize % LENGTHS.len()];
    let byte = |index: usize| (number.wrapping_mul(31) as usize).wrapping_add(index) % 251;
    let mut bytes: Vec<u8> = (0..len).map(|index| byte(index) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends messages to `peer`, which sends them back, and verifies each, until `stop` returns true.
/// Then waits for all messages in flight, until `end` at most.
///
/// # Errors
/// When an operation fails, or a message comes back damaged, twice or not at all.
pub(crate) fn converse(
    endpoint: &mut Endpoint,
    peer: Peer,
    end: Instant,
    mut stop: impl FnMut() -> bool,
) -> anyhow::Result<Verified> {
    let mut waiting: VecDeque<_> = (0..WINDOW).map(|slot| (slot, Next::Receive)).collect();
    let mut free: Vec<usize> = (WINDOW..endpoint.slots()).collect();
    let mut verified = Verified::default();
    let (mut number, mut away) = (0, BTreeSet::new());
    greet(endpoint, peer, &mut waiting, &mut free, end)?;
    say("begun")?;
    let senders = free.len();
    loop {
        let stopped = stop();
        if stopped && away.is_empty() && free.len() == senders {
            return Ok(verified);
        }
        ensure!(Instant::now() < end, "{} messages never came back: {away:?}", away.len());
        while !stopped && away.len() < WINDOW {
            let Some(slot) = free.pop() else { break };
            let bytes = message(number);
            endpoint.bytes(slot)?[..bytes.len()].copy_from_slice(&bytes);
            waiting.push_back((slot, Next::Send(bytes.len())));
            away.insert(number);
            number += 1;
        }
        post(endpoint, &mut waiting, Some(peer))?;
        let mut came = Vec::new();
        endpoint.poll(|completion| came.push(completion))?;
        for Completion { slot, operation, len, .. } in came {
            if operation != Operation::Receive {
                free.push(slot);
                continue;
            }
            let bytes = endpoint.bytes(slot)?.get(..len).context("a long message")?;
            verify(bytes, &mut away)?;
            verified.messages += 1;
            verified.bytes += len as u64;
            waiting.push_back((slot, Next::Receive));
        }
    }
}

/// Sends this side's name to the other side, and waits for its answer.
fn greet(
    endpoint: &mut Endpoint,
    peer: Peer,
    waiting: &mut VecDeque<(usize, Next)>,
    free: &mut Vec<usize>,
    end: Instant,
) -> anyhow::Result<()> {
    let Name(name) = endpoint.name()?;
    let slot = free.pop().context("no buffer")?;
    endpoint.bytes(slot)?[..name.len()].copy_from_slice(&name);
    waiting.push_back((slot, Next::Send(name.len())));
    let (mut sent, mut known) = (false, false);
    while !(sent && known) {
        ensure!(Instant::now() < end, "the other side does not answer");
        post(endpoint, waiting, Some(peer))?;
        endpoint.poll(|completion| match completion.operation {
            Operation::Receive => {
                known = true;
                waiting.push_back((completion.slot, Next::Receive));
            }
            _ => {
                sent = true;
                free.push(completion.slot);
            }
        })?;
    }
    Ok(())
}

/// Checks that `bytes` are one of the messages in `away`, and removes it there.
fn verify(bytes: &[u8], away: &mut BTreeSet<u64>) -> anyhow::Result<()> {
    let number = bytes.first_chunk::<8>().context("a short message")?;
    let number = u64::from_le_bytes(*number);
    ensure!(away.remove(&number), "message {number} came back twice, or was never sent");
    let wanted = message(number);
    ensure!(
        bytes.len() == wanted.len(),
        "message {number} has {} bytes, not {}",
        bytes.len(),
        wanted.len()
    );
    let wrong = bytes.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
    match wrong {
        None => Ok(()),
        Some(index) => bail!("message {number} of {} bytes: byte {index} is wrong", wanted.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_itself_once() {
        let mut away: BTreeSet<u64> = (0..16).collect();
        for number in 0..16 {
            verify(&message(number), &mut away).unwrap();
        }
        assert!(away.is_empty());
        assert!(verify(&message(3), &mut away).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn a_damaged_one_is_found() {
        let mut bytes = message(7);
        *bytes.last_mut().unwrap() ^= 1;
        let error = verify(&bytes, &mut BTreeSet::from([7])).unwrap_err().to_string();
        assert!(error.contains("byte 139999 is wrong"), "{error}");
        bytes.pop();
        let error = verify(&bytes, &mut BTreeSet::from([7])).unwrap_err().to_string();
        assert!(error.contains("has 139999 bytes, not 140000"), "{error}");
    }
}

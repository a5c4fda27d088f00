// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages arrive as they must: invariants 1, 2, 3, 8, 9, 14.
//!
//! In: completions, buffers, and the oracle. Out: a complaint. Called by the world for each
//! completion, and once at the end of a run.

use super::{Checked, broken};
use crate::app::{Oracle, State};
use ofi_xdp_core::{Completion, OpError};
use ofi_xdp_test_kit::memory::CANARY;
use ofi_xdp_test_kit::rng::differs_at;

/// 9: an operation completes once, in the life in which it was posted, with a possible result.
///
/// # Errors
/// The invariant is broken.
pub fn ends_once(oracle: &Oracle, node: u32, life: u32, done: &Completion) -> Checked {
    let Some(op) = oracle.op(done.context.0) else {
        return broken(9, format!("node {node}: a completion for no operation: {done:?}"));
    };
    if (op.node, op.life) != (node, life) {
        return broken(9, format!("node {node}: a completion of somebody else's {op:?}"));
    }
    if op.state != State::Pending {
        return broken(9, format!("node {node}: a second completion of {op:?}: {done:?}"));
    }
    if !op.signal && done.outcome.is_ok() {
        return broken(9, format!("node {node}: success of {op:?} was not asked for"));
    }
    Ok(())
}

/// 9: a send fails only if something happened that excuses it.
///
/// # Errors
/// The invariant is broken.
pub fn failure_is_excused(oracle: &Oracle, node: u32, to: u32, done: &Completion) -> Checked {
    let Err(error) = done.outcome else { return Ok(()) };
    let posted = oracle.op(done.context.0).map_or(0, |op| op.posted);
    let excusable = matches!(
        error,
        OpError::Closed | OpError::Reset | OpError::TimedOut | OpError::Unreachable
    );
    if excusable && (oracle.anything_goes || oracle.is_excused(node, to, posted)) {
        return Ok(());
    }
    broken(9, format!("node {node} to {to}: operation {} failed: {error}", done.context.0))
}

/// The send that a receive's completion belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identified {
    /// The send.
    pub send: u64,
    /// Whether no other one looks the same that ended in error, or with its sender: the order of
    /// messages can be judged.
    pub is_certain: bool,
}

/// The send that a receive's completion belongs to, by data, tag, or the first bytes. Without these
/// it is the oldest possible one of that sender.
#[must_use]
pub fn identify(
    oracle: &Oracle,
    (node, life): (u32, u32),
    source: Option<u32>,
    done: &Completion,
    bytes: &[u8],
    tagged: bool,
) -> Option<Identified> {
    let certain = |send| Identified { send, is_certain: true };
    if let Some(data) = done.data {
        return Some(certain(data));
    }
    if tagged {
        return Some(certain(done.tag >> 4));
    }
    if done.len >= 8 {
        return bytes.first_chunk().map(|first| certain(u64::from_le_bytes(*first)));
    }
    let total = done.len + done.overflow;
    let fits = |op: &&crate::app::Op| {
        oracle.send(op.id).is_some_and(|(_, send)| {
            let plain = (send.tag, send.data, send.deliveries) == (None, None, 0);
            plain && send.to == node && send.len == total && source.is_none_or(|s| s == op.node)
        })
    };
    // Some that look the same may have ended in error, or with their sender: the bytes decide,
    // where they can. Else it is one that has not, because such a one may have had no connection.
    // One that went to a former life of the receiver most likely ended there.
    let inside = bytes.get(..done.len as usize).unwrap_or(bytes);
    let exact = |op: &&crate::app::Op| fits(op) && differs_at(op.id, 0, inside).is_none();
    let failed = |op: &crate::app::Op| matches!(op.state, State::Ended(Err(_)) | State::Vanished);
    let sound = |op: &&crate::app::Op| exact(op) && !failed(op);
    let to_this_life = |op: &&crate::app::Op| {
        sound(op) && oracle.send(op.id).is_some_and(|(_, send)| send.to_life == life)
    };
    let all = || oracle.ops().iter();
    let found = all().find(to_this_life).or_else(|| all().find(sound));
    let found = found.or_else(|| all().find(exact)).or_else(|| all().find(fits))?;
    let is_certain = !all().any(|op| exact(&op) && failed(op) && op.id != found.id);
    Some(Identified { send: found.id, is_certain })
}

/// 1: the message exists, was sent to this node, fits the receive, and was not received before.
///
/// # Errors
/// The invariant is broken.
pub fn once(oracle: &Oracle, node: u32, recv: u64, send: u64, source: Option<u32>) -> Checked {
    let Some((op, message)) = oracle.send(send) else {
        return broken(1, format!("node {node}: receive {recv} got no message ({send:#x})"));
    };
    if message.to != node || source.is_some_and(|source| source != op.node) {
        return broken(1, format!("node {node}: receive {recv} got {op:?} from {source:?}"));
    }
    if message.deliveries > 0 {
        return broken(1, format!("node {node}: message {send} came twice, now to {recv}"));
    }
    if oracle.recv(recv).is_none_or(|(_, request)| !request.takes(op.node, message)) {
        return broken(2, format!("node {node}: receive {recv} does not take message {send}"));
    }
    Ok(())
}

/// 3: lengths, tag, data and bytes are the message's, and the bytes behind them are untouched.
///
/// # Errors
/// The invariant is broken.
pub fn contents(oracle: &Oracle, done: &Completion, send: u64, bytes: &[u8]) -> Checked {
    let Some((_, message)) = oracle.send(send) else { return Ok(()) };
    let recv = done.context.0;
    let room = bytes.len() as u64;
    let placed = message.len.min(room);
    let truncated = message.len > room;
    let expected = if truncated { Err(OpError::Truncated) } else { Ok(()) };
    if done.outcome != expected {
        return broken(3, format!("receive {recv} of {send}: {:?}", done.outcome));
    }
    let reported = (done.len, done.overflow, done.tag, done.data);
    let true_ones = (placed, message.len - placed, message.tag.unwrap_or(0), message.data);
    if reported != true_ones {
        return broken(3, format!("receive {recv} of {send}: {reported:?}, not {true_ones:?}"));
    }
    let (inside, behind) = bytes.split_at(placed as usize);
    if let Some(at) = differs_at(send, 0, inside) {
        return broken(3, format!("receive {recv} of {send}: wrong byte {at} of {placed}"));
    }
    if let Some(at) = behind.iter().position(|&byte| byte != CANARY) {
        return broken(3, format!("receive {recv} of {send}: byte {at} behind it was written"));
    }
    Ok(())
}

/// 2, 14: of two messages from one node that a receive takes, the earlier one comes to the earlier
/// receive. This holds over all lives of the sender.
///
/// # Errors
/// The invariant is broken.
pub fn order(oracle: &Oracle, node: u32, life: u32, recv: u64, send: u64) -> Checked {
    let (Some((source, message)), Some((_, request))) = (oracle.send(send), oracle.recv(recv))
    else {
        return Ok(());
    };
    let directed_counts = !oracle.removed_peers.contains_key(&node);
    for &(other_recv, other_send) in oracle.received(node, life) {
        let Some((other_source, other_message)) = oracle.send(other_send) else { continue };
        let Some((_, other_request)) = oracle.recv(other_recv) else { continue };
        if other_source.node != source.node {
            continue;
        }
        // The earlier receive would have taken the later receive's message, which came first.
        let (first_recv, late_send, late_message) = if recv < other_recv {
            ((recv, request, send), other_send, other_message)
        } else {
            ((other_recv, other_request, other_send), send, message)
        };
        let wrong = late_send < first_recv.2 && first_recv.1.takes(source.node, late_message);
        if wrong && (directed_counts || first_recv.1.from.is_none()) {
            let what = format!(
                "node {node}: receive {} got message {}, though the earlier message {late_send} \
                 from node {} went to a later receive",
                first_recv.0, first_recv.2, source.node
            );
            return broken(2, what);
        }
    }
    Ok(())
}

/// 2: no receive that still waits was passed over for a later one.
///
/// # Errors
/// The invariant is broken.
pub fn passed_over(oracle: &Oracle, node: u32, life: u32) -> Checked {
    let directed_counts = !oracle.removed_peers.contains_key(&node);
    for &waiting in oracle.posted(node, life) {
        let Some((op, request)) = oracle.recv(waiting) else { continue };
        let waits = op.state == State::Ended(Err(OpError::Cancelled)) && !request.cancelled;
        if !waits || (request.from.is_some() && !directed_counts) {
            continue;
        }
        for &(recv, send) in oracle.received(node, life) {
            let Some((source, message)) = oracle.send(send) else { continue };
            if waiting < recv && request.takes(source.node, message) {
                let what =
                    format!("node {node}: receive {waiting} was passed over: {recv}, {send}");
                return broken(2, what);
            }
        }
    }
    Ok(())
}

/// 1, 8: at the end of a run each message with a successful send was received, if its receiver
/// lived on. `lives` are the nodes' present lives. `put_out` counts the orphans that each node has
/// put out (`docs/PROTOCOL.md` §6.3): so many messages are missing there at the most.
///
/// # Errors
/// The invariant is broken.
pub fn all_arrived(oracle: &Oracle, lives: &[u32], put_out: &[u64]) -> Checked {
    let mut put_out = put_out.to_vec();
    for op in oracle.ops() {
        let Some((_, send)) = oracle.send(op.id) else { continue };
        let success = match op.state {
            State::Ended(outcome) => outcome.is_ok(),
            // Success without a completion.
            State::Pending => !op.signal,
            State::Vanished => false,
        };
        let receiver_lives = lives.get(send.to as usize) == Some(&send.to_life);
        if !success || !receiver_lives || send.deliveries == 1 {
            continue;
        }
        match put_out.get_mut(send.to as usize) {
            Some(orphans) if *orphans > 0 && send.deliveries == 0 => *orphans -= 1,
            _ => {
                let times = send.deliveries;
                return broken(1, format!("sent, but received {times} times: {op:?}"));
            }
        }
    }
    Ok(())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of operations on remote memory: invariants 3, 5, 6, 7, 8, 19.
//!
//! In: completions, and the memory of the target, which the simulator can see. Out: a complaint.
//! Each write has a place of its own in its target's region. Some overwrite an earlier one of the
//! same initiator, under an order that says which of them stays.

use super::{Checked, broken, delivery};
use crate::app::{Access, CELLS, Op, Oracle, Region, Remote, State};
use crate::world::World;
use ofi_xdp_core::{Completion, OpError, Order};
use ofi_xdp_test_kit::memory::CANARY;
use ofi_xdp_test_kit::rng::differs_at;

/// The bytes at the target that an operation is about, while its region is registered.
fn bytes_at<'w>(world: &'w World, remote: &Remote) -> Option<&'w [u8]> {
    let region = world.oracle.regions.get(remote.region)?;
    let node = world.nodes.get(region.node as usize)?;
    let alive = region.alive && node.life == region.life && !node.down;
    let bytes = if alive { node.memory.region(region.id)? } else { return None };
    bytes.get(remote.offset as usize..)?.get(..remote.len as usize)
}

/// 8: the bytes of a write are in place.
///
/// # Errors
/// The invariant is broken.
pub fn written(world: &World, id: u64, invariant: u8) -> Checked {
    let Some((op, remote)) = world.oracle.remote(id) else { return Ok(()) };
    if remote.superseded || remote.access != Access::Write {
        return Ok(());
    }
    let Some(bytes) = bytes_at(world, remote) else { return Ok(()) };
    match differs_at(id, 0, bytes) {
        Some(at) => broken(invariant, format!("byte {at} is not in place: {op:?}")),
        None => Ok(()),
    }
}

/// 5, 6: writes that the same initiator posted to `node` before operation `id`, under an order that
/// covers them, are placed.
///
/// # Errors
/// An invariant is broken.
pub fn writes_before(world: &World, node: u32, id: u64, order: Order) -> Checked {
    let Some(op) = world.oracle.op(id) else { return Ok(()) };
    if !Order::from_bits_truncate(world.scenario.order).contains(order) {
        return Ok(());
    }
    let invariant = if order == Order::WAW { 5 } else { 6 };
    let before = &world.oracle.ops()[..id as usize - 1];
    let same = |other: &&Op| (other.node, other.life) == (op.node, op.life);
    for earlier in before.iter().filter(same) {
        let Some((_, remote)) = world.oracle.remote(earlier.id) else { continue };
        let failed = matches!(earlier.state, State::Ended(Err(_)) | State::Vanished);
        // A node that polls late does not know yet that it failed.
        let late = world.scenario.ring_full.poll_late > 0.0;
        let failed = failed || (late && earlier.state == State::Pending);
        let silent = !earlier.signal && world.oracle.is_excused(op.node, node, earlier.posted);
        if remote.to == node && remote.wrong.is_none() && !failed && !silent {
            written(world, earlier.id, invariant)?;
        }
    }
    Ok(())
}

/// 5: a peer's write told its data.
///
/// # Errors
/// The invariant is broken.
pub fn remote_data(
    world: &mut World,
    node: u32,
    done: &Completion,
    source: Option<u32>,
) -> Checked {
    if world.oracle.anything_goes {
        return Ok(());
    }
    let id = done.data.unwrap_or(0);
    let Some((op, remote)) = world.oracle.remote(id) else {
        return broken(5, format!("node {node}: data of no write: {done:?}"));
    };
    let wanted = remote.to == node && remote.data == Some(id) && remote.wrong.is_none();
    if !wanted || source.is_some_and(|source| source != op.node) {
        return broken(5, format!("node {node}: {done:?} for {op:?}"));
    }
    if remote.events > 0 {
        return broken(5, format!("node {node}: data of {op:?} came twice"));
    }
    // After the end of a region, or an error at the initiator, the bytes are not known.
    written(world, id, 5)?;
    writes_before(world, node, id, Order::WAW)?;
    if let Some(remote) = world.oracle.remote_mut(id) {
        remote.events += 1;
    }
    Ok(())
}

/// Checks the end of an operation on remote memory: its outcome, and its bytes.
///
/// # Errors
/// An invariant is broken.
pub fn remote_ended(world: &mut World, node: u32, done: &Completion, bytes: &[u8]) -> Checked {
    let id = done.context.0;
    let Some((op, remote)) = world.oracle.remote(id) else {
        return broken(9, format!("node {node}: not an operation on memory: {done:?}"));
    };
    let (op, remote) = (*op, *remote);
    if world.oracle.anything_goes {
        return Ok(());
    }
    let gone = world.oracle.regions.get(remote.region).is_none_or(|r| !r.alive);
    match done.outcome {
        Err(OpError::Key) if gone => return Ok(()),
        Err(error) if remote.wrong == Some(error) => return Ok(()),
        Err(_) => return delivery::failure_is_excused(&world.oracle, node, remote.to, done),
        Ok(()) => {}
    }
    if let Some(error) = remote.wrong {
        return broken(19, format!("success, though it must fail with {error:?}: {op:?}"));
    }
    match remote.access {
        Access::Write => written(world, id, 8),
        Access::Read(id) => read(&op, bytes, id, remote.offset),
        Access::ReadBack(write) => {
            let earlier = world.oracle.remote(write).filter(|(w, r)| {
                !r.superseded && !matches!(w.state, State::Ended(Err(_)) | State::Vanished)
            });
            if earlier.is_some() { read(&op, bytes, write, 0) } else { Ok(()) }
        }
        Access::Add => Ok(()),
        Access::FetchAdd | Access::Swap(_) => {
            let Some(former) = bytes.first_chunk() else {
                return broken(7, format!("nothing came back: {op:?}"));
            };
            let former = u64::from_le_bytes(*former);
            if let Some(remote) = world.oracle.remote_mut(id) {
                remote.former = Some(former);
            }
            Ok(())
        }
    }
}

/// 3, 6: a read returned the bytes of `id`, from `offset` on.
fn read(op: &Op, bytes: &[u8], id: u64, offset: u64) -> Checked {
    match differs_at(id, offset, bytes) {
        Some(at) => broken(6, format!("byte {at} read is not of {id}: {op:?}")),
        None => Ok(()),
    }
}

/// 3, 7, 8: a region holds the results of the operations on it. Checked when no peer can reach it
/// any more, and at the end of a run.
///
/// # Errors
/// An invariant is broken.
pub fn region_contents(oracle: &Oracle, number: usize, bytes: &[u8], at_rest: bool) -> Checked {
    let Some(region) = oracle.regions.get(number) else { return Ok(()) };
    if oracle.anything_goes {
        return Ok(());
    }
    if let Some(at) = differs_at(region.id_of_contents(number), 0, &bytes[..region.fixed as usize])
    {
        return broken(3, format!("byte {at} of region {number} was never to be written"));
    }
    let about: Vec<(&Op, &Remote)> = oracle
        .ops()
        .iter()
        .filter_map(|op| oracle.remote(op.id))
        .filter(|(_, r)| r.region == number && r.wrong.is_none())
        .collect();
    let writes = about.iter().filter(|(_, remote)| remote.access == Access::Write);
    let mut touched = vec![(0, region.writable())];
    for (op, remote) in writes {
        touched.push((remote.offset, remote.offset + remote.len));
        let range = &bytes[remote.offset as usize..][..remote.len as usize];
        // An operation that reports only failures has succeeded when all nodes are idle, not
        // before.
        let sure = op.signal || (at_rest && !silently_lost(oracle, op, remote));
        if op.succeeded()
            && sure
            && !remote.superseded
            && let Some(at) = differs_at(op.id, 0, range)
        {
            return broken(8, format!("byte {at} is not in place: {op:?}"));
        }
    }
    untouched(number, bytes, &mut touched)?;
    (0..CELLS).try_for_each(|cell| counters(region, &about, cell, bytes))
}

/// An operation without a completion for success may have failed with its peer, and the node that
/// killed the peer does not see it.
fn silently_lost(oracle: &Oracle, op: &Op, remote: &Remote) -> bool {
    !op.signal && oracle.is_excused(op.node, remote.to, op.posted)
}

/// 3: bytes outside of every write are unchanged.
fn untouched(number: usize, bytes: &[u8], touched: &mut [(u64, u64)]) -> Checked {
    touched.sort_unstable();
    let mut end = 0;
    let last = bytes.len() as u64;
    for &(from, to) in touched.iter().chain(&[(last, last)]) {
        if from > end {
            let gap = &bytes[end as usize..from as usize];
            if let Some(at) = gap.iter().position(|&byte| byte != CANARY) {
                return broken(3, format!("byte {} of region {number} touched", end + at as u64));
            }
        }
        end = end.max(to);
    }
    Ok(())
}

/// 7: a cell's number is the count of the additions, each of which found another number. A cell
/// that is swapped goes from each number to one next.
fn counters(region: &Region, about: &[(&Op, &Remote)], cell: u64, bytes: &[u8]) -> Checked {
    let offset = region.cell(cell);
    let value = bytes[offset as usize..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let (mut done, mut unknown) = (0, 0);
    let (mut formers, mut swaps) = (Vec::new(), Vec::new());
    for (op, remote) in about.iter().filter(|(_, remote)| remote.offset == offset) {
        let counts = matches!(remote.access, Access::Add | Access::FetchAdd);
        match (op.state, remote.access) {
            (State::Ended(Err(OpError::Key | OpError::Bounds)), _) => {}
            (State::Ended(Ok(())), Access::Swap(compare)) => {
                let swapped = remote.former == Some(compare);
                swaps.extend(swapped.then_some((compare, op.id)));
            }
            (State::Ended(Ok(())), _) if counts => {
                done += 1;
                formers.extend(remote.former);
            }
            (_, Access::Swap(compare)) => unknown += u64::from(compare == value || value == op.id),
            _ if counts => unknown += 1,
            _ => {}
        }
    }
    formers.sort_unstable();
    if formers.windows(2).any(|pair| pair[0] == pair[1]) {
        return broken(7, format!("cell {cell}: two additions found the same: {formers:?}"));
    }
    swaps.sort_unstable();
    if swaps.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return broken(7, format!("cell {cell}: two swaps found the same: {swaps:?}"));
    }
    if region.is_counter(cell) && !(done..=done + unknown).contains(&value) {
        return broken(
            7,
            format!("cell {cell} is {value}, {done} additions and {unknown} unknown"),
        );
    }
    Ok(())
}

/// 5: at the end of a run the data of each write that succeeded has come, if its target lived on.
///
/// # Errors
/// The invariant is broken.
pub fn all_data_reported(oracle: &Oracle, lives: &[u32]) -> Checked {
    for op in oracle.ops() {
        let Some((_, remote)) = oracle.remote(op.id) else { continue };
        let target_lives = lives.get(remote.to as usize) == Some(&remote.to_life);
        let sure = op.succeeded() && target_lives && !silently_lost(oracle, op, remote);
        let wanted = remote.data.is_some() && remote.wrong.is_none();
        if sure && wanted && remote.events != 1 {
            return broken(5, format!("its data came {} times: {op:?}", remote.events));
        }
    }
    Ok(())
}

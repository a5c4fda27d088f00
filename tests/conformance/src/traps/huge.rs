// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages and writes longer than 4 GiB.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Event, Fid as _, Mem};
use crate::world::{World, not_offered};

/// More than 32 bits of length.
const HUGE: usize = (4 << 30) + 4099;

/// Marks at positions where a length cut to 32 bits, or a missing part, shows.
const MARKS: [usize; 5] = [0, 1 << 20, (4 << 30) - 1, 4 << 30, HUGE - 1];

fn marked(mem: Mem) -> Vec<u8> {
    MARKS.iter().map(|at| mem.byte(*at)).collect()
}

fn huge(world: &World, caps: u64) -> Result<(crate::group::Group, Mem, Mem)> {
    let group = world.pair(caps)?;
    if group.info.ep().max_msg_size < HUGE {
        return not_offered("max_msg_size beyond 4 GiB");
    }
    let (from, into) = (Mem::zeroed(HUGE), Mem::zeroed(HUGE));
    for (value, at) in MARKS.into_iter().enumerate() {
        from.write(at, &[value as u8 + 1]);
    }
    Ok((group, from, into))
}

/// Completes within minutes, whatever the machine.
fn patiently(group: &crate::group::Group, node: &crate::group::Node) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(200);
    loop {
        match node.cq.event() {
            Ok(Event::Done(_)) => return Ok(()),
            Ok(event) => anyhow::bail!("{event:?}"),
            Err(errno) => ensure!(errno.0 == abi::FI_EAGAIN, "{errno}"),
        }
        for other in &group.nodes {
            let _ = other.cq.progress();
        }
        ensure!(Instant::now() < end, "it never ends");
    }
}

/// `fi_endpoint(3)`, `max_msg_size`: whatever length is offered.
pub(super) fn slow_message_of_4_gib(world: &World) -> Result<()> {
    let (group, from, into) = huge(world, abi::FI_MSG)?;
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::null()))?;
    group.post(|| group.a().ep.send(from, group.to_b(), Context::null()))?;
    patiently(&group, group.b())?;
    patiently(&group, group.a())?;
    ensure!(marked(into) == [1, 2, 3, 4, 5], "{:?}", marked(into));
    group.close()
}

/// A write of 4 GiB to remote memory.
pub(super) fn slow_write_of_4_gib(world: &World) -> Result<()> {
    let (group, from, into) = huge(world, abi::FI_MSG | abi::FI_RMA)?;
    let region = group.b().expose(&group.info, into, abi::FI_REMOTE_WRITE, 1)?;
    let remote = region.remote(group.to_b());
    group.post(|| group.a().ep.writedata(from, 1, remote, Context::null()))?;
    patiently(&group, group.b())?;
    patiently(&group, group.a())?;
    ensure!(marked(into) == [1, 2, 3, 4, 5], "{:?}", marked(into));
    region.mr.close()?;
    group.close()
}

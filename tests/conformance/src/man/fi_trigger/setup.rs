// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of both kinds of triggered operations need.

use anyhow::Result;

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Cntr, Context, Errno, Fid, Mem, Message, Work};
use crate::group::{Exposed, Group};
use crate::world::{World, not_offered, optional};

pub(super) const CAPS: u64 = abi::FI_MSG | abi::FI_TAGGED | abi::FI_RMA | abi::FI_ATOMIC;

/// Nodes with endpoints that can be triggered, and two counters of the first one's domain.
pub(super) fn trigger_able(world: &World) -> Result<(Group, Cntr, Cntr)> {
    let group = world.pair(CAPS | abi::FI_TRIGGER)?;
    let cntr = || optional(group.a().domain.cntr(), "fi_cntr_open");
    let (first, second) = (cntr()?, cntr()?);
    Ok((group, first, second))
}

/// Queues a work at the first node.
pub(super) fn queue(group: &Group, work: &Work) -> Result<()> {
    match group.a().domain.queue_work(work) {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP)) => not_offered("FI_QUEUE_WORK"),
        queued => Ok(queued?),
    }
}

pub(super) fn close(group: &Group, cntrs: [&Cntr; 2]) -> Result<()> {
    for cntr in cntrs {
        cntr.close()?;
    }
    group.close()
}

pub(super) fn to_b(group: &Group, mem: Mem) -> Message {
    Message::new(mem, group.to_b(), Context::new())
}

/// Posts a receive at the second node.
pub(super) fn expect(group: &Group, len: usize) -> Result<(Mem, Context)> {
    let (into, context) = (Mem::zeroed(len), Context::new());
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, context))?;
    Ok((into, context))
}

/// Memory of the second node that the first may reach.
pub(super) fn expose(group: &Group, mem: Mem) -> Result<Exposed> {
    let access = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
    group.b().expose(&group.info, mem, access, 77)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A region that the peer accesses.

use anyhow::Result;

use crate::abi;
use crate::fi::{Fid as _, Mem};
use crate::group::{Exposed, Group};
use crate::world::{Setup, World};

pub(super) const ALL: u64 =
    abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;

pub(super) const KEY: u64 = 0x77;

/// Two nodes, and memory of the second that the first may reach.
pub(super) fn target(world: &World, setup: &Setup, len: usize) -> Result<(Group, Exposed)> {
    let group = world.group(setup)?;
    let region = group.b().expose(&group.info, Mem::zeroed(len), ALL, KEY)?;
    Ok((group, region))
}

pub(super) fn plain() -> Setup {
    Setup::caps(abi::FI_RMA | abi::FI_MSG)
}

/// Writes that complete only when the bytes are in place.
pub(super) fn delivered() -> Setup {
    Setup { tx_op_flags: abi::FI_DELIVERY_COMPLETE, ..plain() }
}

pub(super) fn close(group: &Group, region: &Exposed) -> Result<()> {
    region.mr.close()?;
    group.close()
}

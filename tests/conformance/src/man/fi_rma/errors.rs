// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses that the target forbids.

use anyhow::{Context as _, Result, ensure};

use super::setup::{ALL, KEY, close, delivered, target};
use crate::abi;
use crate::fi::{Answer, Context, Errno, Fid as _, Mem, Remote};
use crate::group::{Exposed, Group};
use crate::world::World;

/// Checks that a write and a read there end in an error, and that the target is unharmed.
fn forbidden(group: &Group, region: &Exposed, remote: Remote, len: usize) -> Result<()> {
    let before = region.mem.bytes();
    let context = Context::new();
    let (from, into) = (Mem::pattern(len, 5), Mem::zeroed(len));
    fails(group, context, || group.a().ep.write(from, remote, context)).context("write")?;
    fails(group, context, || group.a().ep.read(into, remote, context)).context("read")?;
    ensure!(region.mem.bytes() == before, "the target's memory has changed");
    Ok(())
}

/// Checks that a call is refused, or its operation ends in an error.
fn fails(group: &Group, context: Context, call: impl FnMut() -> Answer) -> Result<()> {
    match group.post(call) {
        Ok(()) => {
            let error = group.error(group.a())?;
            ensure!(error.context == context.ptr() && error.err.0 != 0, "{error:?}");
            Ok(())
        }
        Err(error) if error.is::<Errno>() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Connects where a provider needs it, so that `-FI_EAGAIN` is not an answer to the next call.
fn warmed(world: &World, len: usize) -> Result<(Group, Exposed)> {
    let (group, region) = target(world, &delivered(), len)?;
    let context = Context::new();
    let from = Mem::zeroed(1);
    group.post(|| group.a().ep.write(from, region.remote(group.to_b()), context))?;
    group.done(group.a(), context)?;
    Ok((group, region))
}

/// `fi_domain(3)`, resource management: access that is not allowed ends the operation in error.
pub(super) fn a_wrong_key_is_an_error(world: &World) -> Result<()> {
    let (group, region) = warmed(world, 64)?;
    let remote = region.remote(group.to_b());
    forbidden(&group, &region, Remote { key: remote.key ^ 0x55, ..remote }, 16)?;
    close(&group, &region)
}

/// Addresses outside the region are errors, wherever the range begins and ends.
pub(super) fn an_address_beyond_the_region_is_an_error(world: &World) -> Result<()> {
    let (group, region) = warmed(world, 4096)?;
    let remote = region.remote(group.to_b());
    let outside = [4096, 4090, u64::MAX - remote.address, (1 << 40) - remote.address];
    for offset in outside {
        let remote = Remote { address: remote.address.wrapping_add(offset), ..remote };
        forbidden(&group, &region, remote, 16).with_context(|| format!("at {offset:#x}"))?;
    }
    // Bytes inside the region may change, in any number of packets; bytes behind it may not.
    let all = Mem::zeroed(8192);
    let most = group.b().expose(&group.info, all.part(0, 4096), ALL, KEY + 1)?;
    let (remote, context) = (most.remote(group.to_b()), Context::new());
    let (from, into) = (Mem::pattern(4097, 5), Mem::zeroed(4097));
    fails(&group, context, || group.a().ep.write(from, remote, context)).context("a byte more")?;
    fails(&group, context, || group.a().ep.read(into, remote, context)).context("a byte more")?;
    ensure!(all.part(4096, 4096).bytes() == [0; 4096], "memory behind the region has changed");
    most.mr.close()?;
    close(&group, &region)
}

/// `fi_mr(3)`, access: a right that was not given.
pub(super) fn missing_rights_are_an_error(world: &World) -> Result<()> {
    let (group, region) = warmed(world, 64)?;
    let readable = group.b().expose(&group.info, Mem::zeroed(64), abi::FI_REMOTE_READ, 1)?;
    let writable = group.b().expose(&group.info, Mem::zeroed(64), abi::FI_REMOTE_WRITE, 2)?;
    let context = Context::new();
    let (from, into) = (Mem::pattern(8, 1), Mem::zeroed(8));
    let (to_read, to_write) = (readable.remote(group.to_b()), writable.remote(group.to_b()));
    fails(&group, context, || group.a().ep.write(from, to_read, context))
        .context("a write to what is for reading")?;
    ensure!(readable.mem.bytes() == [0; 64], "it was written to");
    fails(&group, context, || group.a().ep.read(into, to_write, context))
        .context("a read of what is for writing")?;
    readable.mr.close()?;
    writable.mr.close()?;
    close(&group, &region)
}

/// `fi_mr(3)`: the endpoint stays usable.
pub(super) fn an_error_leaves_the_endpoint_usable(world: &World) -> Result<()> {
    let (group, region) = warmed(world, 64)?;
    let remote = region.remote(group.to_b());
    for _ in 0..5 {
        forbidden(&group, &region, Remote { key: 1, ..remote }, 16)?;
        let (from, context) = (Mem::pattern(64, 3), Context::new());
        group.post(|| group.a().ep.write(from, remote, context))?;
        group.done(group.a(), context)?;
        ensure!(region.mem.bytes() == from.bytes(), "other bytes");
        group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    }
    close(&group, &region)
}

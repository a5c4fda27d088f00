// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sandia `OpenSHMEM`: puts and gets with counters, and a quiet that waits for delivery.

use anyhow::{Context as _, Result, ensure};

use super::profile::{NAMED, NO_MODE, Profile, Rule, datagram_hints, register, same};
use crate::abi;
use crate::fi::{Atomic, Context, Fid as _, Mem, Value};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "openshmem":
    puts_are_delivered_when_quiet_returns
}

const MR_MODE: i32 = abi::FI_MR_VIRT_ADDR | abi::FI_MR_ALLOCATED | abi::FI_MR_PROV_KEY;
const PUTS: u64 = 200;

const RULES: [Rule; 4] = [
    NAMED,
    NO_MODE,
    Rule {
        what: "inject_size of a long double",
        holds: |_, offer| offer.tx().inject_size >= 16,
        spoil: |offer| offer.set_tx(|tx| tx.inject_size = 8),
    },
    Rule {
        what: "automatic progress",
        holds: |_, offer| offer.domain().data_progress == abi::FI_PROGRESS_AUTO,
        spoil: |offer| offer.set_domain(|domain| domain.data_progress = abi::FI_PROGRESS_MANUAL),
    },
];

/// The library opens endpoints with fewer capabilities than `fi_getinfo` answered.
fn elements(world: &World) -> Result<Group> {
    let hints = datagram_hints(abi::FI_RMA | abi::FI_ATOMIC, 0, MR_MODE);
    hints.set_provider_name(&world.provider);
    hints.set_domain(|domain| {
        domain.data_progress = abi::FI_PROGRESS_AUTO;
        domain.resource_mgmt = abi::FI_RM_ENABLED;
        domain.threading = abi::FI_THREAD_DOMAIN;
        domain.mr_key_size = 1;
        domain.av_type = abi::FI_AV_TABLE;
    });
    hints.set_tx(|tx| tx.op_flags = abi::FI_DELIVERY_COMPLETE);
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE);
    let profile = Profile { version: abi::VERSION, node, flags, rules: &RULES };
    let info = profile.choose(world, Some(&hints))?;
    let rights = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;
    info.set(|info| info.caps = abi::FI_RMA | abi::FI_ATOMIC | rights);
    info.set_tx(|tx| tx.caps = 0);
    info.set_rx(|rx| rx.caps = 0);
    let bind = abi::FI_SELECTIVE_COMPLETION;
    Group::open(world, info, &Setup { bind, ..Setup::default() })
}

fn puts_are_delivered_when_quiet_returns(world: &World) -> Result<()> {
    let mut group = elements(world)?;
    let counter = group.a().domain.cntr().context("fi_cntr_open")?;
    group.a().ep.bind(&counter, abi::FI_WRITE).context("fi_ep_bind of a counter")?;
    group.enable()?;
    group.exchange_names()?;
    let rights = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
    let heap = Mem::zeroed(8 * PUTS as usize + 8);
    let region = register(group.b(), &group.info, heap, rights, 1)?;
    let remote = region.remote(group.to_b());
    for index in 0..PUTS {
        let value = Mem::of(&index.to_ne_bytes());
        group.post(|| group.a().ep.inject_write(value, remote.at(8 * index)))?;
    }
    let at = remote.at(8 * PUTS);
    let add = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context: Context::null() };
    let three = Value { mem: Mem::of(&3_u64.to_ne_bytes()), count: 1 };
    group.post(|| group.a().ep.inject_atomic(&add, three))?;
    // Quiet: the other side does nothing.
    counter.wait(PUTS + 1, 5000).context("fi_cntr_wait")?;
    let mut wanted: Vec<u8> = (0..PUTS).flat_map(u64::to_ne_bytes).collect();
    wanted.extend(3_u64.to_ne_bytes());
    same(heap, Mem::of(&wanted), "the symmetric heap")?;
    ensure!(counter.readerr() == 0, "{} errors", counter.readerr());
    group.a().ep.close()?;
    counter.close().context("fi_close of a counter")
}

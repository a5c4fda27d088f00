// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NCCL plugin (aws-ofi-nccl) with its protocol of sends and receives, through bounce buffers
//! of the host.

use anyhow::{Result, bail, ensure};

use super::profile::{NAMED, Profile, Rule, SENDS_IN_ORDER, datagram_hints, same};
use crate::abi;
use crate::fi::{Context, Mem};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{NotOffered, Setup, World};

tests! { "nccl":
    device_memory_is_refused_so_that_the_plugin_falls_back
    unknown_options_are_refused_as_the_plugin_tolerates
    a_ring_of_tagged_messages_arrives_in_order
}

const CAPS: u64 = abi::FI_MSG | abi::FI_TAGGED | abi::FI_LOCAL_COMM | abi::FI_REMOTE_COMM;
const MODE: u64 = abi::FI_CONTEXT | abi::FI_CONTEXT2;
const MR_MODE: i32 = abi::FI_MR_LOCAL
    | abi::FI_MR_ENDPOINT
    | abi::FI_MR_VIRT_ADDR
    | abi::FI_MR_ALLOCATED
    | abi::FI_MR_PROV_KEY;
/// `FI_OPT_CUDA_API_PERMITTED` and `FI_OPT_SHARED_MEMORY_PERMITTED`, which 1.18 and 1.19 added.
const OPTIONS: [i32; 2] = [10, 11];

const RULES: [Rule; 3] = [
    NAMED,
    SENDS_IN_ORDER,
    Rule {
        what: "the threading model of the hints",
        holds: |_, offer| offer.domain().threading == abi::FI_THREAD_SAFE,
        spoil: |offer| offer.set_domain(|domain| domain.threading = abi::FI_THREAD_DOMAIN),
    },
];

fn endpoints(world: &World, caps: u64) -> Result<Group> {
    let hints = datagram_hints(caps, MODE, MR_MODE);
    hints.set_provider_name(&world.provider);
    hints.set_tx(|tx| tx.msg_order = abi::FI_ORDER_SAS);
    hints.set_rx(|rx| rx.msg_order = abi::FI_ORDER_SAS);
    hints.set_domain(|domain| {
        domain.threading = abi::FI_THREAD_SAFE;
        domain.mr_key_size = 2;
    });
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE);
    let profile = Profile { version: abi::make_version(1, 20), node, flags, rules: &RULES };
    let info = profile.choose(world, Some(&hints))?;
    let mut group = Group::open(world, info, &Setup::default())?;
    group.enable()?;
    group.exchange_names()?;
    Ok(group)
}

fn device_memory_is_refused_so_that_the_plugin_falls_back(world: &World) -> Result<()> {
    let with = CAPS | abi::FI_HMEM | abi::FI_RMA | abi::FI_READ;
    match endpoints(world, with) {
        Err(error) if error.is::<NotOffered>() => endpoints(world, CAPS)?.close(),
        Err(error) => Err(error),
        Ok(_) => bail!("FI_HMEM is offered"),
    }
}

fn unknown_options_are_refused_as_the_plugin_tolerates(world: &World) -> Result<()> {
    let group = endpoints(world, CAPS)?;
    for option in OPTIONS {
        let answer = group.a().ep.setopt(abi::FI_OPT_ENDPOINT, option, &[0; 1]);
        let tolerated = [abi::FI_ENOPROTOOPT, abi::FI_EOPNOTSUPP];
        let error = answer.expect_err("an option that a provider of the host does not have").0;
        ensure!(tolerated.contains(&error), "option {option}: error {error}");
    }
    group.close()
}

fn a_ring_of_tagged_messages_arrives_in_order(world: &World) -> Result<()> {
    let group = endpoints(world, CAPS)?;
    let (len, count) = (128 << 10, 16);
    let mut chunks = Vec::new();
    for index in 0..count {
        let (into, from) = (Mem::zeroed(len), Mem::pattern(len, index));
        let (received, sent) = (Context::new(), Context::new());
        group.post(|| group.b().ep.trecv(into, abi::FI_ADDR_UNSPEC, 1, 0, received))?;
        group.post(|| group.a().ep.tsend(from, group.to_b(), 1, sent))?;
        chunks.push((into, from, received));
    }
    for (into, from, received) in chunks {
        group.done(group.b(), received)?;
        same(into, from, "a chunk")?;
    }
    group.take(group.a(), usize::from(count))?;
    group.close()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open MPI: its transport for messages (mtl/ofi) and the one for windows (btl/ofi).

use anyhow::{Result, ensure};

use super::profile::{
    DATA_OF_FOUR_BYTES, NAMED, NO_LOCAL_REGISTRATION, Profile, Rule, SENDS_IN_ORDER, close,
    datagram_hints, register, same, tagged,
};
use crate::abi;
use crate::fi::{Atomic, Context, Info, Mem, Tagged, Value};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "open_mpi":
    messages_match_by_tag
    a_peek_without_a_message_is_an_error_entry
    a_message_that_is_too_long_is_truncated
    an_open_domain_in_the_hints_is_tolerated
    windows_have_atomics
}

const MODE: u64 = abi::FI_CONTEXT | abi::FI_CONTEXT2;
const MESSAGES: u64 =
    abi::FI_MSG | abi::FI_TAGGED | abi::FI_LOCAL_COMM | abi::FI_REMOTE_COMM | abi::FI_DIRECTED_RECV;

const MTL_RULES: [Rule; 4] = [NAMED, NO_LOCAL_REGISTRATION, SENDS_IN_ORDER, DATA_OF_FOUR_BYTES];

/// The default exclude list has `tcp`, so under this name a user includes it.
fn profile<'a>(world: &'a World, rules: &'a [Rule]) -> Profile<'a> {
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE);
    Profile { version: abi::make_version(1, 18), node, flags, rules }
}

fn mtl_hints(world: &World) -> Info {
    let hints = datagram_hints(MESSAGES, MODE, abi::FI_MR_ALLOCATED);
    hints.set_provider_name(&world.provider);
    hints.set_tx(|tx| (tx.msg_order, tx.op_flags) = (abi::FI_ORDER_SAS, abi::FI_COMPLETION));
    hints.set_rx(|rx| (rx.msg_order, rx.op_flags) = (abi::FI_ORDER_SAS, abi::FI_COMPLETION));
    hints.set_domain(|domain| {
        domain.threading = abi::FI_THREAD_DOMAIN;
        domain.resource_mgmt = abi::FI_RM_ENABLED;
        domain.av_type = abi::FI_AV_MAP;
        domain.cq_data_size = 4;
    });
    hints
}

/// Two processes; their completion queue is shorter than what is under way.
fn processes(world: &World) -> Result<Group> {
    let setup = Setup { cq_size: 100, bind: abi::FI_SELECTIVE_COMPLETION, ..Setup::default() };
    let info = profile(world, &MTL_RULES).choose(world, Some(&mtl_hints(world)))?;
    let mut group = Group::open(world, info, &setup)?;
    group.enable()?;
    group.exchange_names()?;
    Ok(group)
}

fn messages_match_by_tag(world: &World) -> Result<()> {
    let group = processes(world)?;
    let count = 300;
    let mut posted = Vec::new();
    for tag in 0..count {
        let (into, context) = (Mem::zeroed(512), Context::new());
        group.post(|| group.b().ep.trecv(into, abi::FI_ADDR_UNSPEC, tag, 0, context))?;
        posted.push((into, context));
    }
    for tag in (0..count).rev() {
        tagged(&group, Mem::pattern(512, tag as u8), tag)?;
    }
    let done = group.take(group.b(), posted.len())?;
    ensure!(done.iter().all(|one| one.data == 0x5a && one.len == 512), "{done:?}");
    for (tag, (into, _)) in posted.iter().enumerate() {
        same(*into, Mem::pattern(512, tag as u8), "a tagged message")?;
    }
    group.take(group.a(), posted.len())?;
    group.close()
}

fn a_peek_without_a_message_is_an_error_entry(world: &World) -> Result<()> {
    let group = processes(world)?;
    let peek = Tagged::peek(abi::FI_ADDR_UNSPEC, 9, 0, Context::new());
    group.post(|| group.b().ep.trecvmsg(&peek, abi::FI_PEEK | abi::FI_COMPLETION))?;
    let error = group.error(group.b())?;
    ensure!(error.err.0 == abi::FI_ENOMSG && error.context == peek.context.ptr(), "{error:?}");
    group.close()
}

fn a_message_that_is_too_long_is_truncated(world: &World) -> Result<()> {
    let group = processes(world)?;
    let context = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(100), abi::FI_ADDR_UNSPEC, 1, 0, context))?;
    tagged(&group, Mem::pattern(130, 1), 1)?;
    let error = group.error(group.b())?;
    ensure!(error.err.0 == abi::FI_ETRUNC && error.olen == 30, "{error:?}");
    group.next(group.a())?;
    group.close()
}

/// A second component passes the first one's open domain on.
fn an_open_domain_in_the_hints_is_tolerated(world: &World) -> Result<()> {
    let group = processes(world)?;
    let hints = mtl_hints(world);
    let (fabric, domain) = (group.info.fabric().fabric, group.info.domain().domain);
    hints.set_fabric(|attr| attr.fabric = fabric);
    hints.set_domain(|attr| attr.domain = domain);
    profile(world, &MTL_RULES).choose(world, Some(&hints))?;
    group.close()
}

const BTL_RULES: [Rule; 2] = [
    NAMED,
    Rule {
        what: "FI_DELIVERY_COMPLETE",
        holds: |_, offer| offer.tx().op_flags & abi::FI_DELIVERY_COMPLETE != 0,
        spoil: |offer| offer.set_tx(|tx| tx.op_flags = 0),
    },
];

fn windows_have_atomics(world: &World) -> Result<()> {
    let mr_mode =
        abi::FI_MR_VIRT_ADDR | abi::FI_MR_ALLOCATED | abi::FI_MR_PROV_KEY | abi::FI_MR_ENDPOINT;
    let hints = datagram_hints(abi::FI_RMA | abi::FI_ATOMIC, MODE, mr_mode);
    hints.set_provider_name(&world.provider);
    hints.set_tx(|tx| tx.op_flags = abi::FI_DELIVERY_COMPLETE | abi::FI_COMPLETION);
    let info = profile(world, &BTL_RULES).choose(world, Some(&hints))?;
    let setup = Setup { format: abi::FI_CQ_FORMAT_CONTEXT, ..Setup::default() };
    let mut group = Group::open(world, info, &setup)?;
    group.enable()?;
    group.exchange_names()?;
    let access = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;
    let window = Mem::of(&5_u64.to_ne_bytes());
    let region = register(group.b(), &group.info, window, access, 1)?;
    let at = region.remote(group.to_b());
    let (datatype, context) = (abi::FI_UINT64, Context::new());
    let swap = Atomic { datatype, op: abi::FI_CSWAP, at, context };
    let new = Value { mem: Mem::of(&9_u64.to_ne_bytes()), count: 1 };
    let before = Mem::zeroed(8);
    group
        .post(|| group.a().ep.compare_atomic(&swap, new, Mem::of(&5_u64.to_ne_bytes()), before))?;
    group.done(group.a(), context)?;
    same(before, Mem::of(&5_u64.to_ne_bytes()), "the value before")?;
    same(window, Mem::of(&9_u64.to_ne_bytes()), "the value after")?;
    close(&group, &[&region])
}

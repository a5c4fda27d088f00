// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPICH's ch4:ofi: the offers without hints, then hints with the capabilities of the chosen one.

use anyhow::{Result, ensure};

use super::profile::{
    NAMED_OR_LAYERED, NO_LOCAL_REGISTRATION, Profile, Rule, SENDS_IN_ORDER, close, register, same,
    tagged,
};
use crate::abi;
use crate::fi::{Atomic, Context, Info, Mem, Message, Rma, Tagged, Value};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World, not_offered};

tests! { "mpich":
    the_second_answer_echoes_the_hints
    active_messages_and_tags_arrive
    windows_are_read_written_and_counted
}

/// Capabilities that MPICH uses if they are there, and whose absence this profile reports.
const CAPS: u64 = abi::FI_MSG
    | abi::FI_TAGGED
    | abi::FI_RMA
    | abi::FI_ATOMIC
    | abi::FI_DIRECTED_RECV
    | abi::FI_MULTI_RECV;
const ORDER: u64 = abi::FI_ORDER_SAS
    | abi::FI_ORDER_ATOMIC_RAR
    | abi::FI_ORDER_ATOMIC_RAW
    | abi::FI_ORDER_ATOMIC_WAR
    | abi::FI_ORDER_ATOMIC_WAW;
/// Receives of active messages, and their size.
const ACTIVE: usize = 8;
const ACTIVE_LEN: usize = 64 << 10;

const RULES: [Rule; 5] = [
    NAMED_OR_LAYERED,
    NO_LOCAL_REGISTRATION,
    SENDS_IN_ORDER,
    Rule {
        what: "the threading model of the hints",
        holds: |_, offer| offer.domain().threading == abi::FI_THREAD_DOMAIN,
        spoil: |offer| offer.set_domain(|domain| domain.threading = abi::FI_THREAD_SAFE),
    },
    Rule {
        what: "one context",
        holds: |_, offer| offer.domain().max_ep_tx_ctx == 1,
        spoil: |offer| offer.set_domain(|domain| domain.max_ep_tx_ctx = 8),
    },
];

/// The first offer with the name and all capabilities, without hints.
fn first(world: &World) -> Result<Info> {
    let profile = Profile { version: abi::VERSION, node: None, flags: 0, rules: &[] };
    let offers = profile.offers(None)?;
    let fits = |one: &Info| one.provider_name() == world.provider && one.caps() & CAPS == CAPS;
    let rdm = |one: &Info| one.ep().type_ == abi::FI_EP_RDM;
    match offers.into_iter().find(|one| fits(one) && rdm(one)) {
        Some(found) => Ok(found),
        None => not_offered("FI_EP_RDM with every capability that MPICH uses"),
    }
}

fn offer(world: &World) -> Result<Info> {
    let first = first(world)?;
    let hints = Info::empty();
    let mode = abi::FI_CONTEXT | abi::FI_ASYNC_IOV | abi::FI_RX_CQ_DATA | abi::FI_CONTEXT2;
    hints.set(|info| (info.caps, info.mode) = (first.caps() & !abi::FI_SOURCE_ERR, mode));
    hints.set_provider_name(&first.provider_name());
    hints.set_ep(|ep| {
        (ep.type_, ep.mem_tag_format) = (abi::FI_EP_RDM, first.ep().mem_tag_format);
    });
    hints.set_domain(|domain| {
        domain.threading = abi::FI_THREAD_DOMAIN;
        domain.control_progress = abi::FI_PROGRESS_MANUAL;
        domain.data_progress = abi::FI_PROGRESS_MANUAL;
        domain.resource_mgmt = abi::FI_RM_ENABLED;
        domain.av_type = abi::FI_AV_TABLE;
        domain.mr_mode = abi::FI_MR_ENDPOINT;
    });
    let flags = abi::FI_COMPLETION | abi::FI_DELIVERY_COMPLETE;
    hints.set_tx(|tx| (tx.msg_order, tx.op_flags) = (ORDER, flags));
    hints.set_rx(|rx| (rx.msg_order, rx.op_flags) = (ORDER, abi::FI_COMPLETION));
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE);
    let profile = Profile { version: abi::VERSION, node, flags, rules: &RULES };
    profile.choose(world, Some(&hints))
}

fn the_second_answer_echoes_the_hints(world: &World) -> Result<()> {
    let info = offer(world)?;
    ensure!(info.domain().av_type == abi::FI_AV_TABLE, "another type of vector");
    ensure!(info.tx().inject_size >= 64, "inject_size {}", info.tx().inject_size);
    Ok(())
}

fn processes(world: &World) -> Result<Group> {
    let setup = Setup { cq_size: 16 << 10, ..Setup::default() };
    let mut group = Group::open(world, offer(world)?, &setup)?;
    group.enable()?;
    group.exchange_names()?;
    // MPI's rank is the address.
    ensure!(group.a().peers == [0, 1], "addresses {:?}", group.a().peers);
    Ok(group)
}

fn active_messages_and_tags_arrive(world: &World) -> Result<()> {
    let group = processes(world)?;
    let (any, active) = (abi::FI_ADDR_UNSPEC, Context::new());
    for _ in 0..ACTIVE {
        let receive = Message::new(Mem::zeroed(ACTIVE_LEN), any, active);
        group.post(|| group.b().ep.recvmsg(&receive, abi::FI_MULTI_RECV | abi::FI_COMPLETION))?;
    }
    group.post(|| group.a().ep.inject(Mem::pattern(48, 1), group.to_b()))?;
    ensure!(group.done(group.b(), active)?.len == 48, "an active message");

    // A peek finds the message, a matched peek takes it out.
    let message = Mem::pattern(3000, 2);
    let sent = tagged(&group, message, 0x7_0000_0005)?;
    let peek = Context::new();
    let found = group.until("a message that the peek finds", || {
        let peek = Tagged::peek(any, 5, 0xf_ffff_0000_0000, peek);
        group.post(|| group.b().ep.trecvmsg(&peek, abi::FI_PEEK | abi::FI_CLAIM))?;
        match group.event(group.b())? {
            crate::fi::Event::Done(found) => Ok(Some(found)),
            crate::fi::Event::Failed(error) => {
                ensure!(error.err.0 == abi::FI_ENOMSG, "{error:?}");
                Ok(None)
            }
        }
    })?;
    ensure!(found.len == 3000 && found.tag == 0x7_0000_0005, "{found:?}");
    let into = Mem::zeroed(3000);
    let claim = Tagged::new(into, any, 5, peek);
    group.post(|| group.b().ep.trecvmsg(&claim, abi::FI_CLAIM))?;
    let arrived = group.done(group.b(), peek)?;
    ensure!(arrived.data == 0x5a && arrived.flags & abi::FI_TAGGED != 0, "{arrived:?}");
    group.done(group.a(), sent)?;
    same(into, message, "a claimed message")?;
    group.close()
}

fn windows_are_read_written_and_counted(world: &World) -> Result<()> {
    let group = processes(world)?;
    let access = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;
    let window = Mem::zeroed(64 << 10);
    let region = register(group.b(), &group.info, window, access, 42)?;
    let remote = region.remote(group.to_b());
    let origin = Mem::pattern(60 << 10, 4);
    let write = Rma::new(origin, remote.at(4096), Context::new());
    group.post(|| group.a().ep.writemsg(&write, abi::FI_DELIVERY_COMPLETE | abi::FI_COMPLETION))?;
    group.done(group.a(), write.context)?;
    same(window.part(4096, 60 << 10), origin, "a put")?;

    let (one, before) = (Value { mem: Mem::of(&7_u64.to_ne_bytes()), count: 1 }, Mem::zeroed(8));
    let add =
        Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at: remote, context: Context::new() };
    for wanted in [0, 7] {
        group.post(|| group.a().ep.fetch_atomic(&add, one, before))?;
        group.done(group.a(), add.context)?;
        ensure!(before.bytes() == u64::to_ne_bytes(wanted), "{:?}, not {wanted}", before.bytes());
    }
    let got = Mem::zeroed(60 << 10);
    let read = Rma::new(got, remote.at(4096), Context::new());
    group.post(|| group.a().ep.readmsg(&read, abi::FI_COMPLETION))?;
    group.done(group.a(), read.context)?;
    same(got, origin, "a get")?;
    close(&group, &[&region])
}

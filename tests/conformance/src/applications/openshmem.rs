// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sandia `OpenSHMEM`: puts and gets with counters, and a quiet that waits for delivery.

use anyhow::{Context as _, Result, ensure};

use super::profile::{NAMED, NO_MODE, Profile, Rule, datagram_hints, register, same};
use crate::abi;
use crate::fi::{Atomic, Cntr, Context, Domain, Ep, Fid, Info, Mem, Remote, Rma, Stx, Value};
use crate::group::{Group, cq_attr};
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "openshmem":
    puts_are_delivered_when_quiet_returns
    a_late_counter_begins_at_zero
    a_context_has_an_endpoint_of_its_own
    loopback_is_no_rail_beside_other_interfaces
}

const MR_MODE: i32 = abi::FI_MR_VIRT_ADDR | abi::FI_MR_ALLOCATED | abi::FI_MR_PROV_KEY;
/// The operations of the library, and those of its peers.
const OWN: u64 = abi::FI_READ | abi::FI_WRITE | abi::FI_ATOMIC;
const ACCESS: u64 = abi::FI_RMA | abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
/// `FI_SHARED_CONTEXT`, as `tx_ctx_cnt` has it.
const SHARED_CONTEXT: usize = usize::MAX;
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

/// The elements' main endpoints. The library changes the offer before it opens one: fewer
/// capabilities, operations without flags, and a receive side with those of both.
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
    hints.set_tx(|tx| (tx.op_flags, tx.inject_size) = (abi::FI_DELIVERY_COMPLETE, 16));
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE);
    let profile = Profile { version: abi::VERSION, node, flags, rules: &RULES };
    let info = profile.choose(world, Some(&hints))?;
    let caps = ACCESS | OWN | abi::FI_RECV;
    info.set(|info| info.caps = caps);
    info.set_ep(|ep| ep.tx_ctx_cnt = 0);
    info.set_tx(|tx| (tx.caps, tx.op_flags) = (abi::FI_RMA | abi::FI_ATOMIC, 0));
    info.set_rx(|rx| rx.caps = caps);
    let bind = abi::FI_SELECTIVE_COMPLETION;
    let mut group = Group::open(world, info, &Setup { bind, ..Setup::default() })?;
    group.enable()?;
    group.exchange_names()?;
    Ok(group)
}

/// A shared transmit context, where the provider has them.
fn shared_context(group: &Group) -> Result<Option<Stx>> {
    let has = group.info.domain().max_ep_stx_ctx > 0;
    has.then(|| group.a().domain.stx(None)).transpose().context("fi_stx_context")
}

/// Counters of puts and of gets, bound to an endpoint.
fn counters(domain: &Domain, ep: &Ep) -> Result<[Cntr; 2]> {
    let bound = |flag| -> Result<Cntr> {
        let counter = domain.cntr().context("fi_cntr_open")?;
        ep.bind(&counter, flag).context("fi_ep_bind of a counter")?;
        Ok(counter)
    };
    Ok([bound(abi::FI_WRITE)?, bound(abi::FI_READ)?])
}

/// The endpoint of the default context is the main one. The library binds the shared transmit
/// context and the counters to it after `fi_enable`, and closes the former first.
fn puts_are_delivered_when_quiet_returns(world: &World) -> Result<()> {
    let group = elements(world)?;
    let a = group.a();
    let stx = shared_context(&group)?;
    stx.iter().try_for_each(|stx| a.ep.bind(stx, 0)).context("fi_ep_bind of a shared context")?;
    let [puts, gets] = counters(&a.domain, &a.ep)?;
    let heap = Mem::zeroed(8 * PUTS as usize + 8);
    let rights = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
    let region = register(group.b(), &group.info, heap, rights, 1)?;
    let remote = region.remote(group.to_b());
    put_all(&group, &a.ep, remote)?;
    // Quiet: the other side does nothing.
    puts.wait(PUTS + 1, 5000).context("fi_cntr_wait")?;
    let mut wanted: Vec<u8> = (0..PUTS).flat_map(u64::to_ne_bytes).collect();
    wanted.extend(3_u64.to_ne_bytes());
    same(heap, Mem::of(&wanted), "the symmetric heap")?;
    let copy = Mem::zeroed(heap.len());
    group.post(|| a.ep.read(copy, remote, Context::null()))?;
    gets.wait(1, 5000).context("fi_cntr_wait")?;
    same(copy, heap, "a get")?;
    ensure!(puts.readerr() + gets.readerr() == 0, "{puts:?}, {gets:?}");
    stx.iter().try_for_each(Fid::close).context("fi_close of a shared context")?;
    a.ep.close()?;
    [puts, gets].iter().try_for_each(Fid::close).context("fi_close of a counter")
}

/// Puts of an element each, and an addition behind them.
fn put_all(group: &Group, ep: &Ep, remote: Remote) -> Result<()> {
    for index in 0..PUTS {
        let value = Mem::of(&index.to_ne_bytes());
        group.post(|| ep.inject_write(value, remote.at(8 * index)))?;
    }
    let at = remote.at(8 * PUTS);
    let add = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context: Context::null() };
    let three = Value { mem: Mem::of(&3_u64.to_ne_bytes()), count: 1 };
    group.post(|| ep.inject_atomic(&add, three))
}

/// A counter that is bound late counts operations that end from then on.
fn a_late_counter_begins_at_zero(world: &World) -> Result<()> {
    let group = elements(world)?;
    let a = group.a();
    let heap = Mem::zeroed(8);
    let region = register(group.b(), &group.info, heap, abi::FI_REMOTE_WRITE, 1)?;
    let (value, remote) = (Mem::pattern(8, 1), region.remote(group.to_b()));
    let put = Rma::new(value, remote, Context::new());
    group.post(|| a.ep.writemsg(&put, abi::FI_COMPLETION))?;
    group.done(a, put.context)?;
    let [puts, _gets] = counters(&a.domain, &a.ep)?;
    ensure!(puts.read() == 0, "{} at the start", puts.read());
    group.post(|| a.ep.inject_write(value, remote))?;
    puts.wait(1, 5000).context("fi_cntr_wait")?;
    ensure!(puts.read() == 1, "{} after one", puts.read());
    a.ep.close().context("fi_close of an endpoint")
}

/// Another context has an endpoint with a shared transmit context. The library gives the transmit
/// side a capability of the receive side.
fn a_context_has_an_endpoint_of_its_own(world: &World) -> Result<()> {
    let group = elements(world)?;
    let a = group.a();
    let stx = shared_context(&group)?;
    let info = group.info.dup();
    let caps = OWN | abi::FI_RMA | abi::FI_RECV;
    info.set(|info| info.caps = caps);
    info.set_ep(|ep| ep.tx_ctx_cnt = if stx.is_some() { SHARED_CONTEXT } else { 0 });
    info.set_tx(|tx| (tx.caps, tx.op_flags) = (caps, abi::FI_DELIVERY_COMPLETE));
    info.set_rx(|rx| rx.caps = abi::FI_RECV);
    let ep = a.endpoint(&info)?;
    stx.iter().try_for_each(|stx| ep.bind(stx, 0)).context("fi_ep_bind of a shared context")?;
    let [puts, gets] = counters(&a.domain, &ep)?;
    let cq = a.domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    let bind = abi::FI_SELECTIVE_COMPLETION | abi::FI_TRANSMIT | abi::FI_RECV;
    ep.bind(&cq, bind).context("fi_ep_bind of a queue")?;
    ep.bind(&a.av, 0).context("fi_ep_bind of the vector")?;
    ep.enable().context("fi_enable")?;
    for flags in [0, abi::FI_FETCH_ATOMIC, abi::FI_COMPARE_ATOMIC] {
        let op = if flags == abi::FI_COMPARE_ATOMIC { abi::FI_CSWAP } else { abi::FI_SUM };
        let count = ep.atomic_valid(abi::FI_INT64, op, flags).context("fi_atomicvalid")?;
        ensure!(count >= 1, "{count} elements");
    }
    let heap = Mem::zeroed(8 * PUTS as usize + 8);
    let region = register(group.b(), &group.info, heap, abi::FI_REMOTE_WRITE, 1)?;
    put_all(&group, &ep, region.remote(group.to_b()))?;
    puts.wait(PUTS + 1, 5000).context("fi_cntr_wait")?;
    ensure!(gets.read() == 0, "{} gets", gets.read());
    ep.close()?;
    stx.iter().try_for_each(Fid::close).context("fi_close of a shared context")?;
    [puts, gets].iter().try_for_each(Fid::close)?;
    cq.close().context("fi_close of a queue")
}

/// The library counts every `nic` of the answer as a rail and spreads its elements over all rails.
fn loopback_is_no_rail_beside_other_interfaces(world: &World) -> Result<()> {
    let hints = datagram_hints(abi::FI_RMA | abi::FI_ATOMIC, 0, MR_MODE);
    hints.set_provider_name(&world.provider);
    let profile = Profile { version: abi::VERSION, node: None, flags: 0, rules: &RULES };
    let offers = profile.offers(Some(&hints))?;
    let on_loopback = |offer: &&Info| offer.domain_name() == "lo";
    let mut rails = offers.iter().filter(|offer| offer.nic_class().is_some());
    let alone = offers.iter().all(|offer| on_loopback(&offer));
    ensure!(alone || !rails.any(|rail| on_loopback(&rail)), "loopback is a rail beside others");
    Ok(())
}

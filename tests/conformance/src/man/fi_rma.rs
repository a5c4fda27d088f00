// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_rma(3)`: remote memory.

mod errors;
mod setup;

use anyhow::{Result, ensure};

use self::errors::{
    a_wrong_key_is_an_error, an_address_beyond_the_region_is_an_error,
    an_error_leaves_the_endpoint_usable, missing_rights_are_an_error,
};
use self::setup::{ALL, KEY, close, delivered, plain, target};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Fid as _, Mem, Rma};
use crate::group::{Exposed, Group};
use crate::runner::tests;
use crate::world::{Setup, World, refused};

tests! { "fi_rma":
    write_places_bytes
    every_length_is_written
    writev_gathers
    writemsg_of_several_remote_ranges
    inject_write_frees_its_buffer
    inject_write_beyond_the_limit_is_refused
    writedata_tells_the_target
    writemsg_with_data_tells_the_target
    inject_writedata_tells_the_target
    a_write_without_data_is_silent_at_the_target
    data_is_reported_after_the_bytes
    data_of_many_writes_is_reported_in_order
    write_of_no_bytes_with_data
    read_fetches_bytes
    every_length_is_read
    readv_scatters
    readmsg_of_several_remote_ranges
    reads_see_earlier_writes
    a_wrong_key_is_an_error
    an_address_beyond_the_region_is_an_error
    missing_rights_are_an_error
    an_error_leaves_the_endpoint_usable
    delivery_complete_means_placed
    write_after_write_stays_in_order
    a_send_after_a_write_sees_it
    fence_orders_unordered_operations
    writes_to_oneself
    both_directions_at_once
    many_outstanding
    selective_completion_of_writes
    rma_event_counts_at_the_target
}

/// Section `fi_write`: the bytes are at the target when the operation is delivered.
fn write_places_bytes(world: &World) -> Result<()> {
    let (group, region) = target(world, &delivered(), 200)?;
    let (from, context) = (Mem::pattern(100, 1), Context::new());
    let remote = region.remote(group.to_b());
    group.post(|| group.a().ep.write(from, remote.at(50), context))?;
    let done = group.done(group.a(), context)?;
    let flags = abi::FI_WRITE | abi::FI_RMA;
    ensure!(done.flags & flags == flags, "flags {:#x}", done.flags);
    let bytes = region.mem.bytes();
    ensure!(bytes[50..150] == from.bytes(), "other bytes arrived");
    ensure!(bytes[..50] == [0; 50] && bytes[150..] == [0; 50], "bytes beside it");
    close(&group, &region)
}

const LENS: [usize; 12] =
    [1, 8, 64, 1000, 1400, 1500, 4096, 16_384, 32_769, 65_537, 1_000_003, 8 << 20];

/// Writes of lengths near which implementations change their method.
fn every_length_is_written(world: &World) -> Result<()> {
    let (group, region) = target(world, &delivered(), 8 << 20)?;
    for (index, len) in LENS.into_iter().enumerate() {
        let (from, context) = (Mem::pattern(len, index as u8), Context::new());
        group.post(|| group.a().ep.write(from, region.remote(group.to_b()), context))?;
        group.done(group.a(), context)?;
        ensure!(region.mem.part(0, len).bytes() == from.bytes(), "{len}: other bytes");
    }
    close(&group, &region)
}

/// Section `fi_writev`: several local ranges, one remote.
fn writev_gathers(world: &World) -> Result<()> {
    let (group, region) = target(world, &delivered(), 300_000)?;
    let limit = group.info.tx().iov_limit.min(4);
    for scale in [10, 60_000] {
        let parts: Vec<Mem> =
            (1..=limit).map(|index| Mem::pattern(scale + index, index as u8)).collect();
        let context = Context::new();
        group.post(|| group.a().ep.writev(&parts, region.remote(group.to_b()), context))?;
        group.done(group.a(), context)?;
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).collect();
        ensure!(region.mem.part(0, whole.len()).bytes() == whole, "{scale}: other bytes");
    }
    close(&group, &region)
}

/// Remote ranges that are apart, and one local buffer for all of them.
fn apart(group: &Group, region: &Exposed, len: usize, context: Context) -> Rma {
    let count = group.info.tx().rma_iov_limit.clamp(1, 4);
    let remote = region.remote(group.to_b());
    let ranges = (0..count).map(|index| (remote.at((index * 2 * len) as u64), len)).collect();
    let mem = Mem::pattern(len * count, 9);
    Rma { parts: vec![mem], remote: ranges, context, data: 0 }
}

/// Section `fi_writemsg`: several remote ranges, as many as `rma_iov_limit`.
fn writemsg_of_several_remote_ranges(world: &World) -> Result<()> {
    let (group, region) = target(world, &delivered(), 400_000)?;
    for len in [24, 40_000] {
        let context = Context::new();
        let rma = apart(&group, &region, len, context);
        let flags = abi::FI_COMPLETION | abi::FI_DELIVERY_COMPLETE;
        group.post(|| group.a().ep.writemsg(&rma, flags))?;
        group.done(group.a(), context)?;
        for index in 0..rma.remote.len() {
            let there = region.mem.part(index * 2 * len, len).bytes();
            ensure!(there == rma.parts[0].part(index * len, len).bytes(), "range {index}");
        }
    }
    close(&group, &region)
}

/// Waits until `mem` holds `bytes`.
fn arrived(group: &Group, mem: Mem, bytes: &[u8]) -> Result<()> {
    group.until("the bytes at the target", || Ok((mem.bytes() == bytes).then_some(())))
}

/// Section `fi_inject_write`: the buffer is free at once, and no completion is written.
fn inject_write_frees_its_buffer(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 64)?;
    let from = Mem::pattern(16, 1);
    group.post(|| group.a().ep.inject_write(from, region.remote(group.to_b())))?;
    from.write(0, &[0; 16]);
    arrived(&group, region.mem.part(0, 16), &Mem::pattern(16, 1).bytes())?;
    group.expect_no_event(group.a())?;
    close(&group, &region)
}

/// `fi_endpoint(3)`, `inject_size`: longer ones are refused.
fn inject_write_beyond_the_limit_is_refused(world: &World) -> Result<()> {
    let limit = world.offer(&plain())?.tx().inject_size;
    let (group, region) = target(world, &plain(), limit + 64)?;
    group.post(|| group.a().ep.inject_write(Mem::zeroed(1), region.remote(group.to_b())))?;
    let from = Mem::pattern(limit + 1, 1);
    let errors = [abi::FI_EINVAL, abi::FI_EMSGSIZE, abi::FI_ETOOSMALL];
    refused(
        group.a().ep.inject_write(from, region.remote(group.to_b())),
        &errors,
        "inject_size + 1",
    )?;
    close(&group, &region)
}

/// Checks the target's completion of a write with data.
fn remote_data_arrives(group: &Group, len: usize, data: u64) -> Result<()> {
    let event = group.next(group.b())?;
    let flags = abi::FI_RMA | abi::FI_REMOTE_WRITE | abi::FI_REMOTE_CQ_DATA;
    ensure!(event.flags & flags == flags, "flags {:#x}", event.flags);
    ensure!(event.flags & abi::FI_RECV == 0, "a receive was consumed: {event:?}");
    ensure!(event.data == data, "data {:#x}, not {data:#x}", event.data);
    ensure!(event.context.is_null(), "a context: {event:?}");
    ensure!(event.len == len, "length {}, not {len}", event.len);
    Ok(())
}

/// Section `fi_writedata`: a completion at the target, with the data and without a receive.
fn writedata_tells_the_target(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 200_000)?;
    for len in [8, 3000, 200_000] {
        let (from, context) = (Mem::pattern(len, 1), Context::new());
        let remote = region.remote(group.to_b());
        group.post(|| group.a().ep.writedata(from, 0x1122_3344, remote, context))?;
        remote_data_arrives(&group, len, 0x1122_3344)?;
        ensure!(region.mem.part(0, len).bytes() == from.bytes(), "{len}: other bytes");
        group.done(group.a(), context)?;
    }
    close(&group, &region)
}

/// Section `fi_writemsg`, `FI_REMOTE_CQ_DATA`: a completion with the data at the target.
fn writemsg_with_data_tells_the_target(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 64)?;
    let context = Context::new();
    let mut rma = Rma::new(Mem::pattern(64, 1), region.remote(group.to_b()), context);
    rma.data = 99;
    group.post(|| group.a().ep.writemsg(&rma, abi::FI_REMOTE_CQ_DATA | abi::FI_COMPLETION))?;
    remote_data_arrives(&group, 64, 99)?;
    group.done(group.a(), context)?;
    close(&group, &region)
}

/// Section `fi_inject_writedata`: the same without a completion at the initiator.
fn inject_writedata_tells_the_target(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 64)?;
    let from = Mem::pattern(8, 1);
    group.post(|| group.a().ep.inject_writedata(from, 98, region.remote(group.to_b())))?;
    remote_data_arrives(&group, 8, 98)?;
    ensure!(region.mem.part(0, 8).bytes() == from.bytes(), "other bytes");
    group.expect_no_event(group.a())?;
    close(&group, &region)
}

/// Section `fi_write`: without data the target's application gets no completion.
fn a_write_without_data_is_silent_at_the_target(world: &World) -> Result<()> {
    let (group, region) = target(world, &delivered(), 64)?;
    group.post(|| group.b().ep.recv(Mem::zeroed(64), FI_ADDR_UNSPEC, Context::new()))?;
    let context = Context::new();
    let from = Mem::pattern(64, 1);
    group.post(|| group.a().ep.write(from, region.remote(group.to_b()), context))?;
    group.done(group.a(), context)?;
    group.expect_no_event(group.b())?;
    close(&group, &region)
}

/// `fi_cq(3)`, COMPLETION SEMANTICS: when data is reported, all bytes of that write are in place.
fn data_is_reported_after_the_bytes(world: &World) -> Result<()> {
    let len = 2 << 20;
    let (group, region) = target(world, &plain(), len)?;
    for round in 1..=5 {
        let from = Mem::pattern(len, round);
        let remote = region.remote(group.to_b());
        group.post(|| group.a().ep.writedata(from, round.into(), remote, Context::new()))?;
        let event = group.next(group.b())?;
        let there = region.mem.bytes();
        ensure!(event.data == u64::from(round), "{event:?}");
        ensure!(there == from.bytes(), "round {round}: reported before the bytes were there");
        group.next(group.a())?;
    }
    close(&group, &region)
}

/// `fi_endpoint(3)`, `FI_ORDER_WAW`: when data is reported, all bytes of earlier writes are in
/// place, too.
fn data_of_many_writes_is_reported_in_order(world: &World) -> Result<()> {
    let setup = Setup { order: abi::FI_ORDER_WAW, ..plain() };
    let (len, count) = (50_000, 20);
    let (group, region) = target(world, &setup, len * count)?;
    for index in 0..count {
        let from = Mem::pattern(len, index as u8);
        let remote = region.remote(group.to_b()).at((index * len) as u64);
        group.post(|| group.a().ep.writedata(from, index as u64, remote, Context::new()))?;
    }
    for index in 0..count {
        let event = group.next(group.b())?;
        ensure!(event.data == index as u64, "{} instead of {index}", event.data);
        for before in 0..=index {
            let there = region.mem.part(before * len, len).bytes();
            ensure!(there == Mem::pattern(len, before as u8).bytes(), "{before} after {index}");
        }
    }
    group.take(group.a(), count)?;
    close(&group, &region)
}

/// Section `fi_writedata`: a write without bytes delivers only the data.
fn write_of_no_bytes_with_data(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 64)?;
    let context = Context::new();
    let remote = region.remote(group.to_b());
    group.post(|| group.a().ep.writedata(Mem::null(), 5, remote, context))?;
    remote_data_arrives(&group, 0, 5)?;
    group.done(group.a(), context)?;
    close(&group, &region)
}

/// Section `fi_read`: the bytes are here when the operation completes.
fn read_fetches_bytes(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 200)?;
    region.mem.write(0, &Mem::pattern(200, 4).bytes());
    let (into, context) = (Mem::zeroed(120), Context::new());
    let remote = region.remote(group.to_b()).at(30);
    group.post(|| group.a().ep.read(into.part(0, 100), remote, context))?;
    let done = group.done(group.a(), context)?;
    let flags = abi::FI_READ | abi::FI_RMA;
    ensure!(done.flags & flags == flags, "flags {:#x}", done.flags);
    ensure!(into.bytes()[..100] == Mem::pattern(200, 4).bytes()[30..130], "other bytes");
    ensure!(into.bytes()[100..] == [0; 20], "bytes beside it");
    group.expect_no_event(group.b())?;
    close(&group, &region)
}

/// Reads of lengths near which implementations change their method.
fn every_length_is_read(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 8 << 20)?;
    region.mem.write(0, &Mem::pattern(8 << 20, 4).bytes());
    for len in LENS {
        let (into, context) = (Mem::zeroed(len), Context::new());
        group.post(|| group.a().ep.read(into, region.remote(group.to_b()), context))?;
        group.done(group.a(), context)?;
        ensure!(into.bytes() == region.mem.part(0, len).bytes(), "{len}: other bytes");
    }
    close(&group, &region)
}

/// Section `fi_readv`: several local ranges.
fn readv_scatters(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 200_000)?;
    region.mem.write(0, &Mem::pattern(200_000, 4).bytes());
    for scale in [10, 40_000] {
        let limit = group.info.tx().iov_limit.min(4);
        let parts: Vec<Mem> = (1..=limit).map(|index| Mem::zeroed(scale + index)).collect();
        let context = Context::new();
        group.post(|| group.a().ep.readv(&parts, region.remote(group.to_b()), context))?;
        group.done(group.a(), context)?;
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).collect();
        ensure!(region.mem.part(0, whole.len()).bytes() == whole, "{scale}: other bytes");
    }
    close(&group, &region)
}

/// Section `fi_readmsg`: several remote ranges.
fn readmsg_of_several_remote_ranges(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 400_000)?;
    region.mem.write(0, &Mem::pattern(400_000, 4).bytes());
    for len in [24, 40_000] {
        let context = Context::new();
        let mut rma = apart(&group, &region, len, context);
        rma.parts = vec![Mem::zeroed(len * rma.remote.len())];
        group.post(|| group.a().ep.readmsg(&rma, abi::FI_COMPLETION))?;
        group.done(group.a(), context)?;
        for index in 0..rma.remote.len() {
            let there = region.mem.part(index * 2 * len, len).bytes();
            ensure!(there == rma.parts[0].part(index * len, len).bytes(), "range {index}");
        }
    }
    close(&group, &region)
}

/// `fi_endpoint(3)`, `FI_ORDER_RAW`: a read behind a write reads the written bytes.
fn reads_see_earlier_writes(world: &World) -> Result<()> {
    let setup = Setup { order: abi::FI_ORDER_RAW, ..plain() };
    let (group, region) = target(world, &setup, 100_000)?;
    for round in 1..=10 {
        let (from, into) = (Mem::pattern(100_000, round), Mem::zeroed(100_000));
        let remote = region.remote(group.to_b());
        group.post(|| group.a().ep.write(from, remote, Context::new()))?;
        group.post(|| group.a().ep.read(into, remote, Context::new()))?;
        group.take(group.a(), 2)?;
        ensure!(into.bytes() == from.bytes(), "round {round}: bytes of before");
    }
    close(&group, &region)
}

/// `fi_cq(3)`, `FI_DELIVERY_COMPLETE`: at the completion the bytes are in place.
fn delivery_complete_means_placed(world: &World) -> Result<()> {
    let (group, region) = target(world, &plain(), 1 << 20)?;
    for round in 1..=10 {
        let (from, context) = (Mem::pattern(1 << 20, round), Context::new());
        let rma = Rma::new(from, region.remote(group.to_b()), context);
        let flags = abi::FI_COMPLETION | abi::FI_DELIVERY_COMPLETE;
        group.post(|| group.a().ep.writemsg(&rma, flags))?;
        group.done(group.a(), context)?;
        ensure!(region.mem.bytes() == from.bytes(), "round {round}: not in place yet");
    }
    close(&group, &region)
}

/// `fi_endpoint(3)`, `max_order_waw_size`: of two writes to one address the bytes of the second
/// stay.
fn write_after_write_stays_in_order(world: &World) -> Result<()> {
    let setup = Setup { order: abi::FI_ORDER_WAW, ..delivered() };
    let (group, region) = target(world, &setup, 20_000)?;
    let len = group.info.ep().max_order_waw_size.min(20_000);
    if len == 0 {
        return crate::world::not_offered("max_order_waw_size is 0");
    }
    for round in 0..20 {
        let remote = region.remote(group.to_b());
        let (first, second) = (Mem::pattern(len, round), Mem::pattern(len, round + 100));
        group.post(|| group.a().ep.write(first, remote, Context::new()))?;
        group.post(|| group.a().ep.write(second, remote, Context::new()))?;
        group.take(group.a(), 2)?;
        let there = region.mem.part(0, len).bytes();
        ensure!(there == second.bytes(), "round {round}: the first write came last");
    }
    close(&group, &region)
}

/// `fi_endpoint(3)`, `FI_ORDER_SAW`: a message behind a write is received after it is placed.
fn a_send_after_a_write_sees_it(world: &World) -> Result<()> {
    let setup = Setup { order: abi::FI_ORDER_SAW, ..plain() };
    let (group, region) = target(world, &setup, 300_000)?;
    for round in 1..=8 {
        let (from, receive) = (Mem::pattern(300_000, round), Context::new());
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.a().ep.write(from, region.remote(group.to_b()), Context::new()))?;
        group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
        group.done(group.b(), receive)?;
        ensure!(region.mem.bytes() == from.bytes(), "round {round}: received before the write");
        group.take(group.a(), 2)?;
    }
    close(&group, &region)
}

/// `fi_endpoint(3)`, `FI_FENCE`: a fenced operation takes effect after all earlier ones.
fn fence_orders_unordered_operations(world: &World) -> Result<()> {
    let setup = Setup { order: 0, ..Setup::caps(abi::FI_RMA | abi::FI_MSG | abi::FI_FENCE) };
    let (group, region) = target(world, &setup, 300_000)?;
    for round in 1..=5 {
        let from = Mem::pattern(300_000, round);
        let remote = region.remote(group.to_b());
        group.post(|| group.a().ep.write(from, remote, Context::new()))?;
        let (into, context) = (Mem::zeroed(300_000), Context::new());
        let rma = Rma::new(into, remote, context);
        group.post(|| group.a().ep.readmsg(&rma, abi::FI_FENCE | abi::FI_COMPLETION))?;
        group.take(group.a(), 2)?;
        ensure!(into.bytes() == from.bytes(), "round {round}: bytes of before the fence");
    }
    close(&group, &region)
}

/// `fi_getinfo(3)`, `FI_LOCAL_COMM`: an endpoint reaches its own memory.
fn writes_to_oneself(world: &World) -> Result<()> {
    let (group, region) = target(world, &Setup { nodes: 2, ..delivered() }, 70_000)?;
    let b = group.b();
    let (from, into) = (Mem::pattern(70_000, 1), Mem::zeroed(70_000));
    let contexts = [Context::new(), Context::new()];
    group.post(|| b.ep.write(from, region.remote(b.peers[1]), contexts[0]))?;
    group.done(b, contexts[0])?;
    ensure!(region.mem.bytes() == from.bytes(), "other bytes were written");
    group.post(|| b.ep.read(into, region.remote(b.peers[1]), contexts[1]))?;
    group.done(b, contexts[1])?;
    ensure!(into.bytes() == from.bytes(), "other bytes were read");
    close(&group, &region)
}

/// Section DESCRIPTION: both sides are initiator and target at the same time.
fn both_directions_at_once(world: &World) -> Result<()> {
    let (group, region) = target(world, &delivered(), 500_000)?;
    let own = group.a().expose(&group.info, Mem::zeroed(500_000), ALL, KEY)?;
    let (from_a, from_b) = (Mem::pattern(500_000, 1), Mem::pattern(500_000, 2));
    group.post(|| group.a().ep.write(from_a, region.remote(group.to_b()), Context::new()))?;
    group.post(|| group.b().ep.write(from_b, own.remote(group.to_a()), Context::new()))?;
    group.next(group.a())?;
    group.next(group.b())?;
    ensure!(region.mem.bytes() == from_a.bytes(), "at the second");
    ensure!(own.mem.bytes() == from_b.bytes(), "at the first");
    own.mr.close()?;
    close(&group, &region)
}

/// `fi_endpoint(3)`, size: hundreds under way, reads and writes mixed.
fn many_outstanding(world: &World) -> Result<()> {
    let count = 400;
    let (group, region) = target(world, &plain(), 64 * count)?;
    for index in 0..count {
        let remote = region.remote(group.to_b()).at(64 * index as u64);
        let mem = Mem::pattern(64, index as u8);
        if index % 2 == 0 {
            group.post(|| group.a().ep.write(mem, remote, Context::new()))?;
        } else {
            group.post(|| group.a().ep.read(mem, remote, Context::new()))?;
        }
    }
    group.take(group.a(), count)?;
    group.until("all bytes", || {
        let there = |index: usize| {
            region.mem.part(64 * index, 64).bytes() == Mem::pattern(64, index as u8).bytes()
        };
        Ok((0..count).step_by(2).all(there).then_some(()))
    })?;
    close(&group, &region)
}

/// `fi_endpoint(3)`, `FI_SELECTIVE_COMPLETION`: only requested completions are written.
fn selective_completion_of_writes(world: &World) -> Result<()> {
    let setup = Setup { bind: abi::FI_SELECTIVE_COMPLETION, ..plain() };
    let (group, region) = target(world, &setup, 64)?;
    let (remote, signalled) = (region.remote(group.to_b()), Context::new());
    group.post(|| group.a().ep.write(Mem::pattern(8, 1), remote, Context::new()))?;
    let rma = Rma::new(Mem::pattern(8, 2), remote.at(8), signalled);
    group.post(|| group.a().ep.writemsg(&rma, abi::FI_COMPLETION))?;
    group.done(group.a(), signalled)?;
    group.expect_no_event(group.a())?;
    close(&group, &region)
}

/// `fi_getinfo(3)`, `FI_RMA_EVENT`: a counter of the target counts writes and reads of others.
fn rma_event_counts_at_the_target(world: &World) -> Result<()> {
    let setup = Setup::caps(abi::FI_RMA | abi::FI_MSG | abi::FI_RMA_EVENT);
    let mut group = world.closed_group(&setup)?;
    let open = || crate::world::optional(group.b().domain.cntr(), "fi_cntr_open");
    let (writes, reads) = (open()?, open()?);
    group.b().ep.bind(&writes, abi::FI_REMOTE_WRITE)?;
    group.b().ep.bind(&reads, abi::FI_REMOTE_READ)?;
    group.enable()?;
    group.exchange_names()?;
    let region = group.b().expose(&group.info, Mem::zeroed(100_000), ALL, KEY)?;
    let remote = region.remote(group.to_b());
    for len in [8, 100_000, 16] {
        group.post(|| group.a().ep.write(Mem::zeroed(len), remote, Context::new()))?;
    }
    group.post(|| group.a().ep.read(Mem::zeroed(8), remote, Context::new()))?;
    group.take(group.a(), 4)?;
    group.until("3 writes and 1 read", || {
        Ok(((writes.read(), reads.read()) == (3, 1)).then_some(()))
    })?;
    group.run(crate::world::NO_EVENT_TIME)?;
    ensure!((writes.read(), reads.read()) == (3, 1), "{}, {}", writes.read(), reads.read());
    region.mr.close()?;
    for node in &group.nodes {
        node.ep.close()?;
    }
    writes.close()?;
    Ok(reads.close()?)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_atomic(3)`: atomic operations on remote memory.
//!
//! Every operation with every datatype that the provider offers is executed on small whole numbers.
//! Those are exact in every datatype, so that one table of whole numbers has the results.

mod model;

use anyhow::{Context as _, Result, ensure};

use self::model::{encode, equal, outcome, size};
use crate::abi;
use crate::fi::{Answer, Atomic, Context, Errno, Fid, Mem, Remote, Value};
use crate::group::{Exposed, Group};
use crate::runner::tests;
use crate::world::{Setup, World, not_offered, refused};

tests! { "fi_atomic":
    queries_agree
    sizes_are_those_of_the_datatypes
    integers_of_64_bits_can_be_added
    atomic_does_every_operation
    fetch_atomic_does_every_operation
    compare_atomic_does_every_operation
    signed_numbers_compare_as_signed
    inject_atomic_frees_its_buffer
    atomicv_gathers
    atomicmsg_takes_flags
    fetch_atomicv_gathers_and_scatters
    fetch_atomicmsg_takes_flags
    compare_atomicv_gathers_and_scatters
    compare_atomicmsg_takes_flags
    arrays_up_to_the_limit
    too_many_elements_are_refused
    operations_that_are_not_valid_are_refused
    tagged_buffers_are_no_regions
    a_wrong_key_is_an_error
    an_address_beyond_the_region_is_an_error
    additions_of_two_peers_add_up
    outstanding_fetches_see_each_value_once
    atomics_on_oneself
    completions_name_the_kind_of_operation
}

const KEY: u64 = 3;
const ACCESS: u64 = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;
const DATATYPES: u32 = 16;
const OPS: u32 = 20;
/// `fi_query_atomic`'s three kinds.
const BASE: u64 = 0;
const KINDS: [u64; 3] = [BASE, abi::FI_FETCH_ATOMIC, abi::FI_COMPARE_ATOMIC];

fn setup() -> Setup {
    let tx_op_flags = abi::FI_DELIVERY_COMPLETE;
    Setup { tx_op_flags, ..Setup::caps(abi::FI_ATOMIC | abi::FI_RMA | abi::FI_MSG) }
}

/// Two nodes, and memory of the second.
fn target(world: &World, len: usize) -> Result<(Group, Exposed)> {
    let group = world.group(&setup())?;
    let region = group.b().expose(&group.info, Mem::zeroed(len), ACCESS, KEY)?;
    Ok((group, region))
}

fn close(group: &Group, region: &Exposed) -> Result<()> {
    region.mr.close()?;
    group.close()
}

/// Target, value and compare: equal, less, greater, zero.
const NUMBERS: [(i64, i64, i64); 7] =
    [(5, 3, 5), (3, 5, 4), (0, 7, 1), (7, 0, 7), (0, 0, 0), (6, 6, 2), (12, 10, 15)];

/// Every valid operation of a kind; not offered if there is none.
fn valid(group: &Group, kind: u64) -> Result<Vec<(abi::fi_datatype, abi::fi_op)>> {
    let all = (0..DATATYPES).flat_map(|datatype| (0..OPS).map(move |op| (datatype, op)));
    let domain = &group.a().domain;
    let valid = |(datatype, op): &(u32, u32)| domain.query_atomic(*datatype, *op, kind).is_ok();
    let valid: Vec<_> = all.filter(valid).collect();
    if valid.is_empty() { not_offered("no operation is valid") } else { Ok(valid) }
}

fn number(datatype: abi::fi_datatype, number: i64) -> Value {
    Value { mem: Mem::of(&encode(datatype, number)), count: 1 }
}

/// Does every valid operation of `kind` with every triple of numbers.
fn every_operation(world: &World, kind: u64) -> Result<()> {
    let (group, region) = target(world, 64)?;
    for (datatype, op) in valid(&group, kind)? {
        for (there, value, compare) in NUMBERS {
            let what = format!("datatype {datatype}, op {op}: {there}, {value}, {compare}");
            one_operation(&group, &region, kind, (datatype, op), (there, value, compare))
                .context(what)?;
        }
    }
    close(&group, &region)
}

fn one_operation(
    group: &Group,
    region: &Exposed,
    kind: u64,
    (datatype, op): (abi::fi_datatype, abi::fi_op),
    (there, value, compare): (i64, i64, i64),
) -> Result<()> {
    let size = size(datatype);
    region.mem.write(0, &encode(datatype, there));
    let context = Context::new();
    let at = region.remote(group.to_b());
    let atomic = Atomic { datatype, op, at, context };
    let (operand, with) = (number(datatype, value), number(datatype, compare).mem);
    let result = Mem::of(&[0xa5; 32]).part(0, size);
    let ep = &group.a().ep;
    group.post(|| match kind {
        abi::FI_FETCH_ATOMIC => ep.fetch_atomic(&atomic, operand, result),
        abi::FI_COMPARE_ATOMIC => ep.compare_atomic(&atomic, operand, with, result),
        _ => ep.atomic(&atomic, operand),
    })?;
    group.done(group.a(), context)?;
    let wanted = encode(datatype, outcome(op, there, value, compare));
    let found = region.mem.part(0, size).bytes();
    ensure!(equal(datatype, &found, &wanted), "the target has {found:?}, not {wanted:?}");
    if kind != BASE {
        let before = encode(datatype, there);
        let fetched = result.bytes();
        ensure!(equal(datatype, &fetched, &before), "fetched {fetched:?}, not {before:?}");
    }
    Ok(())
}

/// Section FLAGS, `FI_TAGGED`: the target is a tagged receive buffer, never the region with the tag
/// as its key. A provider without such operations reports that, and refuses one.
fn tagged_buffers_are_no_regions(world: &World) -> Result<()> {
    let group = world.group(&Setup::caps(setup().caps | abi::FI_TAGGED))?;
    let region = group.b().expose(&group.info, Mem::zeroed(8), ACCESS, KEY)?;
    let errors = [abi::FI_EOPNOTSUPP, abi::FI_EBADFLAGS, abi::FI_EINVAL, abi::FI_ENOSYS];
    for (op, kind) in [abi::FI_SUM, abi::FI_SUM, abi::FI_CSWAP].into_iter().zip(KINDS) {
        let at = region.remote(group.to_b());
        let atomic = Atomic { datatype: abi::FI_UINT64, op, at, context: Context::new() };
        let (ep, one, zero) = (&group.a().ep, [numbers(&[1])], [numbers(&[0])]);
        let answer = match kind {
            BASE => ep.atomicmsg(&atomic, &one, abi::FI_TAGGED),
            abi::FI_FETCH_ATOMIC => ep.fetch_atomicmsg(&atomic, &one, &zero, abi::FI_TAGGED),
            _ => ep.compare_atomicmsg(&atomic, &one, &zero, &[numbers(&[0])], abi::FI_TAGGED),
        };
        let flags = kind | abi::FI_TAGGED;
        match group.a().domain.query_atomic(abi::FI_UINT64, op, flags) {
            Ok(_) => answer?,
            query => {
                refused(query, &errors, "fi_query_atomic")?;
                refused(answer, &errors, "an atomic on a tagged buffer")?;
            }
        }
    }
    group.run(crate::world::NO_EVENT_TIME)?;
    ensure!(read(region.mem) == [0], "the region is {:?}", read(region.mem));
    close(&group, &region)
}

/// Section `fi_query_atomic`: the domain and the endpoint give the same answer.
fn queries_agree(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    for kind in KINDS {
        for (datatype, op) in (0..DATATYPES).flat_map(|one| (0..OPS).map(move |op| (one, op))) {
            let domain = group.a().domain.query_atomic(datatype, op, kind);
            let ep = group.a().ep.atomic_valid(datatype, op, kind);
            let what = format!("kind {kind:#x}, datatype {datatype}, op {op}");
            match (domain, ep) {
                (Ok((count, _)), Ok(same)) => {
                    ensure!(count == same && count > 0, "{what}: {count}, {same}");
                }
                (Err(_), Err(_)) => {}
                (domain, ep) => anyhow::bail!("{what}: {domain:?}, {ep:?}"),
            }
        }
    }
    close(&group, &region)
}

/// Section `fi_query_atomic`, size: bytes of an element.
fn sizes_are_those_of_the_datatypes(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    for kind in KINDS {
        for (datatype, op) in valid(&group, kind)? {
            let (_, bytes) = group.a().domain.query_atomic(datatype, op, kind)?;
            ensure!(bytes == size(datatype), "datatype {datatype}: {bytes}");
        }
    }
    close(&group, &region)
}

/// Section DESCRIPTION: a provider may offer few operations, but applications need at least
/// addition and swap of integers of 32 and 64 bits.
fn integers_of_64_bits_can_be_added(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    let domain = &group.a().domain;
    for datatype in [abi::FI_INT32, abi::FI_UINT32, abi::FI_INT64, abi::FI_UINT64] {
        for (op, kind) in [
            (abi::FI_SUM, BASE),
            (abi::FI_SUM, abi::FI_FETCH_ATOMIC),
            (abi::FI_ATOMIC_READ, abi::FI_FETCH_ATOMIC),
            (abi::FI_ATOMIC_WRITE, BASE),
            (abi::FI_CSWAP, abi::FI_COMPARE_ATOMIC),
        ] {
            let answer = domain.query_atomic(datatype, op, kind);
            ensure!(answer.is_ok(), "datatype {datatype}, op {op}, kind {kind:#x}: {answer:?}");
        }
    }
    close(&group, &region)
}

/// Section `fi_atomic`.
fn atomic_does_every_operation(world: &World) -> Result<()> {
    every_operation(world, BASE)
}

/// Section `fi_fetch_atomic`: as `fi_atomic`, with the previous value.
fn fetch_atomic_does_every_operation(world: &World) -> Result<()> {
    every_operation(world, abi::FI_FETCH_ATOMIC)
}

/// Section `fi_compare_atomic`: only where the comparison holds.
fn compare_atomic_does_every_operation(world: &World) -> Result<()> {
    every_operation(world, abi::FI_COMPARE_ATOMIC)
}

/// Section `fi_atomic`, datatypes: a negative number is less than a positive one, and the greatest
/// unsigned one is not.
fn signed_numbers_compare_as_signed(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    let types = [abi::FI_INT8, abi::FI_INT16, abi::FI_INT32, abi::FI_INT64];
    for datatype in types.into_iter().flat_map(|signed| [signed, signed + 1]) {
        if group.a().domain.query_atomic(datatype, abi::FI_MIN, BASE).is_err() {
            continue;
        }
        region.mem.write(0, &encode(datatype, 1));
        let context = Context::new();
        let at = region.remote(group.to_b());
        let atomic = Atomic { datatype, op: abi::FI_MIN, at, context };
        let minus_one = number(datatype, -1);
        group.post(|| group.a().ep.atomic(&atomic, minus_one))?;
        group.done(group.a(), context)?;
        let signed = (datatype - abi::FI_INT8).is_multiple_of(2);
        let wanted = encode(datatype, if signed { -1 } else { 1 });
        let found = region.mem.part(0, size(datatype)).bytes();
        ensure!(found == wanted, "datatype {datatype}: {found:?}");
    }
    close(&group, &region)
}

/// An addition of 64-bit integers at the second node.
fn addition(group: &Group, region: &Exposed, context: Context) -> Atomic {
    let at = region.remote(group.to_b());
    Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context }
}

/// An array of 64-bit integers.
fn numbers(numbers: &[u64]) -> Value {
    let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
    Value { mem: Mem::of(&bytes), count: numbers.len() }
}

fn read(mem: Mem) -> Vec<u64> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    mem.bytes().chunks_exact(8).map(number).collect()
}

/// Section `fi_inject_atomic`: the buffer is free at once, and no completion is written.
fn inject_atomic_frees_its_buffer(world: &World) -> Result<()> {
    let (group, region) = target(world, 8)?;
    let atomic = addition(&group, &region, Context::null());
    let one = numbers(&[5]);
    for _ in 0..4 {
        one.mem.write(0, &5_u64.to_le_bytes());
        group.post(|| group.a().ep.inject_atomic(&atomic, one))?;
        one.mem.write(0, &[0xff; 8]);
    }
    group.until("20", || Ok((read(region.mem) == [20]).then_some(())))?;
    group.expect_no_event(group.a())?;
    close(&group, &region)
}

/// Section `fi_atomicv`: several local arrays, one remote.
fn atomicv_gathers(world: &World) -> Result<()> {
    let (group, region) = target(world, 24)?;
    let context = Context::new();
    let atomic = addition(&group, &region, context);
    let parts = [numbers(&[1]), numbers(&[2, 3])];
    group.post(|| group.a().ep.atomicv(&atomic, &parts))?;
    group.done(group.a(), context)?;
    ensure!(read(region.mem) == [1, 2, 3], "{:?}", read(region.mem));
    close(&group, &region)
}

/// Section `fi_atomicmsg`.
fn atomicmsg_takes_flags(world: &World) -> Result<()> {
    let (group, region) = target(world, 16)?;
    let context = Context::new();
    let atomic = addition(&group, &region, context);
    let flags = abi::FI_COMPLETION | abi::FI_DELIVERY_COMPLETE;
    group.post(|| group.a().ep.atomicmsg(&atomic, &[numbers(&[8, 9])], flags))?;
    group.done(group.a(), context)?;
    ensure!(read(region.mem) == [8, 9], "{:?}", read(region.mem));
    close(&group, &region)
}

/// Section `fi_fetch_atomicv`.
fn fetch_atomicv_gathers_and_scatters(world: &World) -> Result<()> {
    let (group, region) = target(world, 24)?;
    region.mem.write(0, &numbers(&[10, 20, 30]).mem.bytes());
    let context = Context::new();
    let atomic = addition(&group, &region, context);
    let parts = [numbers(&[1, 2]), numbers(&[3])];
    let results = [numbers(&[0]), numbers(&[0, 0])];
    group.post(|| group.a().ep.fetch_atomicv(&atomic, &parts, &results))?;
    group.done(group.a(), context)?;
    ensure!(read(region.mem) == [11, 22, 33], "{:?}", read(region.mem));
    let fetched = [read(results[0].mem), read(results[1].mem)].concat();
    ensure!(fetched == [10, 20, 30], "{fetched:?}");
    close(&group, &region)
}

/// Section `fi_fetch_atomicmsg`.
fn fetch_atomicmsg_takes_flags(world: &World) -> Result<()> {
    let (group, region) = target(world, 8)?;
    let context = Context::new();
    let atomic = addition(&group, &region, context);
    let result = numbers(&[99]);
    let flags = abi::FI_COMPLETION;
    let one = [numbers(&[4])];
    group.post(|| group.a().ep.fetch_atomicmsg(&atomic, &one, &[result], flags))?;
    group.done(group.a(), context)?;
    ensure!(read(region.mem) == [4] && read(result.mem) == [0], "{:?}", read(result.mem));
    close(&group, &region)
}

/// A compare-and-swap of 64-bit integers.
fn swap(group: &Group, region: &Exposed, context: Context) -> Atomic {
    Atomic { op: abi::FI_CSWAP, ..addition(group, region, context) }
}

/// Section `fi_compare_atomicv`: each element on its own.
fn compare_atomicv_gathers_and_scatters(world: &World) -> Result<()> {
    let (group, region) = target(world, 16)?;
    region.mem.write(0, &numbers(&[10, 20]).mem.bytes());
    let domain = &group.a().domain;
    let (count, _) = domain.query_atomic(abi::FI_UINT64, abi::FI_CSWAP, abi::FI_COMPARE_ATOMIC)?;
    if count < 2 {
        return not_offered("arrays of compare-and-swap");
    }
    let context = Context::new();
    let atomic = swap(&group, &region, context);
    let (parts, compares) = ([numbers(&[1]), numbers(&[2])], [numbers(&[10]), numbers(&[21])]);
    let results = [numbers(&[0]), numbers(&[0])];
    group.post(|| group.a().ep.compare_atomicv(&atomic, &parts, &compares, &results))?;
    group.done(group.a(), context)?;
    ensure!(read(region.mem) == [1, 20], "{:?}", read(region.mem));
    let fetched = [read(results[0].mem), read(results[1].mem)].concat();
    ensure!(fetched == [10, 20], "{fetched:?}");
    close(&group, &region)
}

/// Section `fi_compare_atomicmsg`.
fn compare_atomicmsg_takes_flags(world: &World) -> Result<()> {
    let (group, region) = target(world, 8)?;
    let context = Context::new();
    let atomic = swap(&group, &region, context);
    let (value, with, result) = ([numbers(&[4])], [numbers(&[0])], [numbers(&[9])]);
    let flags = abi::FI_COMPLETION;
    group.post(|| group.a().ep.compare_atomicmsg(&atomic, &value, &with, &result, flags))?;
    group.done(group.a(), context)?;
    ensure!(read(region.mem) == [4] && read(result[0].mem) == [0], "{:?}", read(region.mem));
    close(&group, &region)
}

/// How many 64-bit integers one operation may add.
fn limit(group: &Group) -> Result<usize> {
    let kind = abi::FI_FETCH_ATOMIC;
    Ok(group.a().domain.query_atomic(abi::FI_UINT64, abi::FI_SUM, kind)?.0)
}

/// Section `fi_query_atomic`, count: so many elements in one operation.
fn arrays_up_to_the_limit(world: &World) -> Result<()> {
    let (group, region) = target(world, 1 << 20)?;
    let count = limit(&group)?.min(1 << 17);
    let values: Vec<u64> = (0..count as u64).map(|index| index * 3 + 1).collect();
    let (value, result) = (numbers(&values), Mem::zeroed(8 * count));
    for round in 1..=2 {
        let context = Context::new();
        let atomic = addition(&group, &region, context);
        group.post(|| group.a().ep.fetch_atomic(&atomic, value, result))?;
        group.done(group.a(), context)?;
        let wanted: Vec<u64> = values.iter().map(|one| one * round).collect();
        ensure!(read(region.mem.part(0, 8 * count)) == wanted, "round {round}: other sums");
        let before: Vec<u64> = values.iter().map(|one| one * (round - 1)).collect();
        ensure!(read(result) == before, "round {round}: other numbers fetched");
    }
    close(&group, &region)
}

/// Section `fi_query_atomic`: more elements are refused.
fn too_many_elements_are_refused(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    let count = limit(&group)? + 1;
    if count > 1 << 24 {
        return not_offered("a limit of elements");
    }
    let atomic = addition(&group, &region, Context::new());
    let value = Value { mem: Mem::zeroed(8 * count), count };
    let answer = group.a().ep.fetch_atomic(&atomic, value, Mem::zeroed(8 * count));
    let errors = [abi::FI_EINVAL, abi::FI_EMSGSIZE, abi::FI_E2BIG as i32, abi::FI_EOPNOTSUPP];
    refused(answer, &errors, "one element too many")?;
    close(&group, &region)
}

/// Section `fi_query_atomic`: an operation that is not valid is refused.
fn operations_that_are_not_valid_are_refused(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    let errors = [abi::FI_EINVAL, abi::FI_EOPNOTSUPP, abi::FI_ENOSYS];
    let at = region.remote(group.to_b());
    let context = Context::new();
    for (datatype, op) in [(abi::FI_DOUBLE, abi::FI_BXOR), (99, abi::FI_SUM), (abi::FI_INT32, 99)] {
        let atomic = Atomic { datatype, op, at, context };
        let value = Value { mem: Mem::zeroed(32), count: 1 };
        refused(group.a().ep.atomic(&atomic, value), &errors, &format!("{datatype}, {op}"))?;
    }
    close(&group, &region)
}

/// Checks that all three kinds of operation fail there, and change nothing.
fn forbidden(group: &Group, region: &Exposed, at: Remote) -> Result<()> {
    let before = region.mem.bytes();
    let context = Context::new();
    let sum = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context };
    let swap = Atomic { op: abi::FI_CSWAP, ..sum };
    let (value, spare) = (numbers(&[1]), Mem::zeroed(8));
    let ep = &group.a().ep;
    let calls: [&dyn Fn() -> Answer; 3] =
        [&|| ep.atomic(&sum, value), &|| ep.fetch_atomic(&sum, value, spare), &|| {
            ep.compare_atomic(&swap, value, spare, spare)
        }];
    for call in calls {
        match group.post(call) {
            Ok(()) => {
                let error = group.error(group.a())?;
                ensure!(error.context == context.ptr(), "{error:?}");
            }
            Err(error) => ensure!(error.is::<Errno>(), "{error:#}"),
        }
    }
    ensure!(region.mem.bytes() == before, "the target has changed");
    Ok(())
}

/// `fi_domain(3)`, resource management: an unknown key.
fn a_wrong_key_is_an_error(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    let remote = region.remote(group.to_b());
    forbidden(&group, &region, Remote { key: remote.key ^ 0x55, ..remote })?;
    close(&group, &region)
}

/// `fi_domain(3)`, resource management: an address that is not, or not wholly, in the region.
fn an_address_beyond_the_region_is_an_error(world: &World) -> Result<()> {
    let (group, region) = target(world, 64)?;
    for offset in [64, 60, 1 << 40] {
        forbidden(&group, &region, region.remote(group.to_b()).at(offset))?;
    }
    close(&group, &region)
}

/// Section DESCRIPTION: operations of several peers on one address are done as if one after the
/// other.
fn additions_of_two_peers_add_up(world: &World) -> Result<()> {
    let group = world.group(&Setup { nodes: 3, ..setup() })?;
    let region = group.b().expose(&group.info, Mem::zeroed(8), ACCESS, KEY)?;
    let one = numbers(&[1]);
    for _ in 0..200 {
        for node in [&group.nodes[0], &group.nodes[2]] {
            let at = region.remote(node.peers[1]);
            let context = Context::null();
            let atomic = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context };
            group.post(|| node.ep.atomic(&atomic, one))?;
        }
    }
    group.take(&group.nodes[0], 200)?;
    group.take(&group.nodes[2], 200)?;
    ensure!(read(region.mem) == [400], "{:?}", read(region.mem));
    close(&group, &region)
}

/// Section DESCRIPTION: of many operations in flight each sees a value of its own.
fn outstanding_fetches_see_each_value_once(world: &World) -> Result<()> {
    let (group, region) = target(world, 8)?;
    let results: Vec<Value> = (0..300).map(|_| numbers(&[u64::MAX])).collect();
    let atomic = addition(&group, &region, Context::null());
    for result in &results {
        group.post(|| group.a().ep.fetch_atomic(&atomic, numbers(&[1]), result.mem))?;
    }
    group.take(group.a(), results.len())?;
    let mut seen: Vec<u64> = results.iter().flat_map(|result| read(result.mem)).collect();
    seen.sort_unstable();
    ensure!(seen == (0..300).collect::<Vec<_>>(), "{seen:?}");
    ensure!(read(region.mem) == [300], "{:?}", read(region.mem));
    close(&group, &region)
}

/// `fi_getinfo(3)`, `FI_LOCAL_COMM`: an endpoint's own memory.
fn atomics_on_oneself(world: &World) -> Result<()> {
    let (group, region) = target(world, 8)?;
    let (b, context) = (group.b(), Context::new());
    let at = region.remote(b.peers[1]);
    let atomic = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context };
    let result = numbers(&[7]);
    group.post(|| b.ep.fetch_atomic(&atomic, numbers(&[5]), result.mem))?;
    group.done(b, context)?;
    ensure!(read(region.mem) == [5] && read(result.mem) == [0], "{:?}", read(region.mem));
    close(&group, &region)
}

/// `fi_cq(3)`, flags: `FI_ATOMIC` for every kind; further flags are allowed.
fn completions_name_the_kind_of_operation(world: &World) -> Result<()> {
    let (group, region) = target(world, 8)?;
    let context = Context::new();
    let atomic = addition(&group, &region, context);
    let other = abi::FI_MSG | abi::FI_TAGGED | abi::FI_RECV;
    group.post(|| group.a().ep.atomic(&atomic, numbers(&[5])))?;
    let flags = group.done(group.a(), context)?.flags;
    ensure!(flags & (abi::FI_ATOMIC | other) == abi::FI_ATOMIC, "{flags:#x}");
    group.post(|| group.a().ep.fetch_atomic(&atomic, numbers(&[5]), Mem::zeroed(8)))?;
    let flags = group.done(group.a(), context)?.flags;
    ensure!(flags & (abi::FI_ATOMIC | other) == abi::FI_ATOMIC, "{flags:#x}");
    group.expect_no_event(group.b())?;
    close(&group, &region)
}

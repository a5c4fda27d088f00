// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_mr(3)`: registered memory.

use anyhow::{Context as _, Result, ensure};

use crate::abi;
use crate::fi::{Atomic, Context, Errno, Fid, Mem, Remote, Value};
use crate::group::{Exposed, Group};
use crate::runner::tests;
use crate::world::{Setup, World, optional, refused};

tests! { "fi_mr":
    reg_gives_a_key
    the_requested_key_is_the_key
    a_key_in_use_is_refused
    a_key_is_free_after_close
    reg_of_many_regions
    reg_with_a_context
    reg_of_no_bytes_answers
    overlapping_regions_have_rights_of_their_own
    regv_of_several_parts
    regattr_registers
    regattr_refuses_device_memory
    unknown_flags_register_nothing
    offset_zero_is_the_first_byte
    virtual_addresses_name_bytes
    provider_keys_are_not_the_requested_ones
    endpoint_regions_are_bound_and_enabled
    local_descriptors_are_accepted
    raw_keys_are_mapped
    a_raw_key_needs_its_room
    a_bound_counter_counts_changes_of_the_region
    a_counter_counts_changes_from_its_binding_on
    a_closed_region_cannot_be_reached
    whole_address_space
    refresh_answers
    domain_with_a_region_is_busy
}

/// Room for any raw key.
const RAW_KEY_MAX: usize = 1024;
const ALL: u64 = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;

fn pair(world: &World, mr_mode: i32) -> Result<Group> {
    world.group(&Setup { mr_mode, ..Setup::caps(abi::FI_RMA | abi::FI_MSG) })
}

/// Writes through `region` and checks that the bytes arrived.
fn reached(group: &Group, region: &Exposed) -> Result<()> {
    let from = Mem::pattern(region.mem.len(), 7);
    let context = Context::new();
    group.post(|| group.a().ep.write(from, region.remote(group.to_b()), context))?;
    group.done(group.a(), context)?;
    arrived(group, region.mem, &from.bytes())
}

/// Waits until `mem` holds `bytes`: a completion may be of the transmission only.
fn arrived(group: &Group, mem: Mem, bytes: &[u8]) -> Result<()> {
    group.until("the bytes at the target", || Ok((mem.bytes() == bytes).then_some(())))
}

/// Checks that a write there fails.
fn unreachable(group: &Group, remote: Remote, what: &str) -> Result<()> {
    let context = Context::new();
    let from = Mem::pattern(16, 1);
    match group.post(|| group.a().ep.write(from, remote, context)) {
        Ok(()) => {
            let error = group.error(group.a()).context(what.to_owned())?;
            ensure!(error.context == context.ptr(), "{what}: {error:?}");
            Ok(())
        }
        Err(error) if error.is::<Errno>() => Ok(()),
        Err(error) => Err(error).context(what.to_owned()),
    }
}

/// Section `fi_mr_reg`, `fi_mr_key`: a key that is not `FI_KEY_NOTAVAIL`.
fn reg_gives_a_key(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 1)?;
    ensure!(region.mr.key() != abi::FI_KEY_NOTAVAIL, "no key");
    ensure!(region.mr.class() == abi::FI_CLASS_MR as usize, "class {}", region.mr.class());
    reached(&group, &region)?;
    region.mr.close()?;
    group.close()
}

/// Section `fi_mr_reg`, `requested_key`: without `FI_MR_PROV_KEY` it is the application's choice.
fn the_requested_key_is_the_key(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let size = group.info.domain().mr_key_size;
    let most = if size >= 8 { u64::MAX - 1 } else { (1 << (8 * size)) - 1 };
    for key in [0, 1, 0xdead_beef & most, most] {
        let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, key)?;
        ensure!(region.mr.key() == key, "{:#x} instead of {key:#x}", region.mr.key());
        reached(&group, &region).with_context(|| format!("key {key:#x}"))?;
        region.mr.close()?;
    }
    group.close()
}

/// Section `fi_mr_reg`: `-FI_ENOKEY` while another region has it.
fn a_key_in_use_is_refused(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 5)?;
    let again = group.b().domain.mr(Mem::zeroed(64), ALL, 5).map(|mr| mr.key());
    refused(again, &[abi::FI_ENOKEY], "key 5 again")?;
    reached(&group, &region)?;
    region.mr.close()?;
    group.close()
}

/// Section `fi_close`: after the close, the key can be used again.
fn a_key_is_free_after_close(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    for _ in 0..5 {
        let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 5)?;
        reached(&group, &region)?;
        region.mr.close()?;
    }
    group.close()
}

/// `fi_domain(3)`, `mr_cnt`: hundreds of regions, each reached by its key.
fn reg_of_many_regions(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let expose = |key| group.b().expose(&group.info, Mem::zeroed(32), ALL, key);
    let regions = (0..300).map(expose).collect::<Result<Vec<_>>>()?;
    for region in regions.iter().step_by(29) {
        reached(&group, region)?;
    }
    regions.iter().try_for_each(|region| region.mr.close())?;
    group.close()
}

/// Section `fi_mr_regattr`, context: it is in the object.
fn reg_with_a_context(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let context = Context::new();
    let change = |attr: &mut abi::fi_mr_attr| attr.context = context.ptr();
    let mr = group.b().domain.mr_attr(&[Mem::zeroed(64)], ALL, 3, change)?;
    ensure!(mr.user_context() == context.ptr(), "another context");
    mr.close()?;
    group.close()
}

/// Section `fi_mr_reg`: a region without bytes is registered or refused, and gives access to no
/// memory.
fn reg_of_no_bytes_answers(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    if let Ok(mr) = group.b().domain.mr(Mem::zeroed(0), ALL, 3) {
        let remote = Remote { peer: group.to_b(), address: 0, key: 3 };
        unreachable(&group, remote, "a region of no bytes")?;
        mr.close()?;
    }
    group.close()
}

/// Section DESCRIPTION: the same memory in two regions, each with its own rights.
fn overlapping_regions_have_rights_of_their_own(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let mem = Mem::zeroed(64);
    let reader = group.b().expose(&group.info, mem, abi::FI_REMOTE_READ, 1)?;
    let writer = group.b().expose(&group.info, mem, abi::FI_REMOTE_WRITE, 2)?;
    reached(&group, &writer)?;
    let (into, context) = (Mem::zeroed(64), Context::new());
    group.post(|| group.a().ep.read(into, reader.remote(group.to_b()), context))?;
    group.done(group.a(), context)?;
    ensure!(into.bytes() == mem.bytes(), "other bytes were read");
    unreachable(&group, reader.remote(group.to_b()), "a write to a region for reading")?;
    reader.mr.close()?;
    writer.mr.close()?;
    group.close()
}

/// Section `fi_mr_regv`: parts as one range, as many as `mr_iov_limit`.
fn regv_of_several_parts(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let limit = group.info.domain().mr_iov_limit;
    ensure!(limit > 0, "mr_iov_limit 0");
    let parts: Vec<Mem> = (0..limit.min(4)).map(|index| Mem::zeroed(40 + index)).collect();
    let mr = optional(group.b().domain.mr_v(&parts, ALL, 3), "fi_mr_regv")?;
    let region = group.b().exposed(&group.info, parts[0], mr)?;
    let len = parts.iter().map(|part| part.len()).sum();
    let (from, context) = (Mem::pattern(len, 3), Context::new());
    group.post(|| group.a().ep.write(from, region.remote(group.to_b()), context))?;
    group.done(group.a(), context)?;
    group.until("the bytes at the target", || {
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).collect();
        Ok((whole == from.bytes()).then_some(()))
    })?;
    region.mr.close()?;
    group.close()
}

/// Section `fi_mr_regattr`: as `fi_mr_reg`.
fn regattr_registers(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let mem = Mem::zeroed(64);
    let mr = group.b().domain.mr_attr(&[mem], ALL, 3, |_| ())?;
    let region = group.b().exposed(&group.info, mem, mr)?;
    reached(&group, &region)?;
    region.mr.close()?;
    group.close()
}

/// Section `fi_mr_regattr`, iface: without `FI_HMEM` only the system's memory can be registered.
fn regattr_refuses_device_memory(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let change = |attr: &mut abi::fi_mr_attr| attr.iface = abi::FI_HMEM_CUDA;
    let answer = group.b().domain.mr_attr(&[Mem::zeroed(64)], ALL, 3, change).map(|mr| mr.key());
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP, abi::FI_ENODATA];
    refused(answer, &errors, "FI_HMEM_CUDA")?;
    group.close()
}

/// Section ERRORS, `FI_EBADFLAGS`: flags that are not supported. A flag may give the arguments
/// another meaning (`FI_MR_DMABUF`).
fn unknown_flags_register_nothing(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let domain = &group.b().domain;
    for flags in [1 << 40, abi::FI_RMA_PMEM, abi::FI_PEEK] {
        let mr = domain.mr_with(Mem::zeroed(64), ALL, 0, 3, flags).map(|mr| mr.key());
        refused(mr, &[abi::FI_EBADFLAGS], "flags of a registration")?;
    }
    group.close()
}

/// Section ADDRESSING, without `FI_MR_VIRT_ADDR`: addresses count from 0.
fn offset_zero_is_the_first_byte(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let mem = Mem::zeroed(64);
    let region = group.b().expose(&group.info, mem, ALL, 3)?;
    let (from, context) = (Mem::pattern(8, 1), Context::new());
    let remote = Remote { peer: group.to_b(), address: 16, key: 3 };
    group.post(|| group.a().ep.write(from, remote, context))?;
    group.done(group.a(), context)?;
    arrived(&group, mem.part(16, 8), &from.bytes())?;
    ensure!(mem.bytes()[..16] == [0; 16] && mem.bytes()[24..] == [0; 40], "other bytes");
    region.mr.close()?;
    group.close()
}

/// Section ADDRESSING, with it: addresses are those of the target's process.
fn virtual_addresses_name_bytes(world: &World) -> Result<()> {
    let group = pair(world, abi::FI_MR_VIRT_ADDR)?;
    let mem = Mem::zeroed(64);
    let region = group.b().expose(&group.info, mem, ALL, 3)?;
    reached(&group, &region)?;
    region.mr.close()?;
    group.close()
}

/// Section MODES, `FI_MR_PROV_KEY`: the provider chooses, and its keys work.
fn provider_keys_are_not_the_requested_ones(world: &World) -> Result<()> {
    let group = pair(world, abi::FI_MR_PROV_KEY | abi::FI_MR_ALLOCATED)?;
    let first = group.b().expose(&group.info, Mem::zeroed(64), ALL, 3)?;
    // With this mode the requested key has no meaning: the same key twice is no conflict.
    let granted = group.info.domain().mr_mode & abi::FI_MR_PROV_KEY != 0;
    let key = if granted { 3 } else { 4 };
    let second = group.b().expose(&group.info, Mem::zeroed(64), ALL, key)?;
    ensure!(first.mr.key() != second.mr.key(), "one key for two regions");
    reached(&group, &first)?;
    reached(&group, &second)?;
    first.mr.close()?;
    second.mr.close()?;
    group.close()
}

/// Section MODES, `FI_MR_ENDPOINT`: an application that binds and enables its regions is served,
/// whether the provider requires that or not.
pub(crate) fn endpoint_regions_are_bound_and_enabled(world: &World) -> Result<()> {
    let group = pair(world, abi::FI_MR_ENDPOINT)?;
    let mem = Mem::zeroed(64);
    let mr = group.b().domain.mr(mem, ALL, 3)?;
    if group.info.domain().mr_mode & abi::FI_MR_ENDPOINT == 0 {
        // The provider does not require it, so it may accept or refuse the call.
        let _ = mr.bind(&group.b().ep, 0);
        let _ = mr.enable();
    }
    let region = group.b().exposed(&group.info, mem, mr)?;
    reached(&group, &region)?;
    region.mr.close()?;
    group.close()
}

/// Section MODES, `FI_MR_LOCAL`, `fi_mr_desc`: descriptors may be given with every buffer.
fn local_descriptors_are_accepted(world: &World) -> Result<()> {
    let group = pair(world, abi::FI_MR_LOCAL)?;
    let (from, into) = (Mem::pattern(64, 1), Mem::zeroed(64));
    let access = abi::FI_SEND | abi::FI_RECV;
    let (out, inn) = (group.a().domain.mr(from, access, 1)?, group.b().domain.mr(into, access, 1)?);
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| group.b().ep.recv_with(into, inn.desc(), abi::FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.send_with(from, out.desc(), group.to_b(), send))?;
    group.done(group.a(), send)?;
    group.done(group.b(), receive)?;
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    out.close()?;
    inn.close()?;
    group.close()
}

/// Sections `fi_mr_raw_attr`, `fi_mr_map_raw`, `fi_mr_unmap_key`: keys are carried as bytes, and
/// mapped; "usable with all registered memory regions, even if `FI_MR_RAW` has not been set".
fn raw_keys_are_mapped(world: &World) -> Result<()> {
    for mode in [abi::FI_MR_RAW, abi::FI_MR_VIRT_ADDR | abi::FI_MR_PROV_KEY] {
        let group = pair(world, mode)?;
        let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 3)?;
        let (raw, base) = optional(region.mr.raw_attr(RAW_KEY_MAX), "fi_mr_raw_attr")?;
        let mapped = group.a().domain.map_raw(base, &raw).context("fi_mr_map_raw")?;
        if group.info.domain().mr_mode & abi::FI_MR_RAW == 0 {
            ensure!(raw.len() == group.info.domain().mr_key_size, "{} bytes", raw.len());
            ensure!(base == region.remote(0).address, "the base address is {base:#x}");
        }
        let remote = Remote { key: mapped, ..region.remote(group.to_b()) };
        let (from, context) = (Mem::pattern(64, 9), Context::new());
        group.post(|| group.a().ep.write(from, remote, context))?;
        group.done(group.a(), context)?;
        arrived(&group, region.mem, &from.bytes())?;
        group.a().domain.unmap_key(mapped).context("fi_mr_unmap_key")?;
        region.mr.close()?;
        group.close()?;
    }
    Ok(())
}

/// Section `fi_mr_raw_attr`: `-FI_ETOOSMALL`, and the size that is needed.
fn a_raw_key_needs_its_room(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 3)?;
    let (raw, _) = optional(region.mr.raw_attr(RAW_KEY_MAX), "fi_mr_raw_attr")?;
    for room in [0, raw.len() - 1] {
        let needed = region.mr.raw_attr_size(room);
        refused(needed.0, &[abi::FI_ETOOSMALL], "a key in too little room")?;
        ensure!(needed.1 == raw.len(), "{} bytes are said to be needed", needed.1);
    }
    region.mr.close()?;
    group.close()
}

/// Section `fi_mr_bind`, `FI_REMOTE_WRITE`: an event "whenever a remote RMA write or atomic
/// operation modifies the memory region", also one that writes the present value.
fn a_bound_counter_counts_changes_of_the_region(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_RMA | abi::FI_ATOMIC | abi::FI_MSG | abi::FI_RMA_EVENT)?;
    let cntr = optional(group.b().domain.cntr(), "fi_cntr_open")?;
    let mr = group.b().domain.mr_with(Mem::zeroed(8), ALL, 0, 3, abi::FI_RMA_EVENT)?;
    optional(mr.bind(&cntr, abi::FI_REMOTE_WRITE), "fi_mr_bind of a counter")?;
    let region = group.b().exposed(&group.info, Mem::zeroed(8), mr)?;
    let at = region.remote(group.to_b());
    let word = |value: u64| Value { mem: Mem::of(&value.to_ne_bytes()), count: 1 };
    let atomic = |op| Atomic { datatype: abi::FI_UINT64, op, at, context: Context::new() };
    let (ep, into) = (&group.a().ep, Mem::zeroed(8));
    let add = |op: abi::fi_op, value| {
        let asked = atomic(op);
        group.post(|| ep.fetch_atomic(&asked, word(value), into))?;
        group.done(group.a(), asked.context)
    };
    add(abi::FI_SUM, 5)?;
    add(abi::FI_ATOMIC_WRITE, 7)?;
    let swap = atomic(abi::FI_CSWAP);
    group.post(|| ep.compare_atomic(&swap, word(9), word(7).mem, into))?;
    group.done(group.a(), swap.context)?;
    group.until("three changes", || Ok((cntr.read() == 3).then_some(())))?;
    // A pure read is no such event; the next operation shows that it was served.
    add(abi::FI_ATOMIC_READ, 0)?;
    ensure!(into.bytes() == 9_u64.to_ne_bytes(), "{:?}", into.bytes());
    group.post(|| ep.read(into, at, Context::new()))?;
    group.next(group.a())?;
    let context = Context::new();
    group.post(|| ep.write(into, at, context))?;
    group.done(group.a(), context)?;
    group.until("four changes", || Ok((cntr.read() >= 4).then_some(())))?;
    ensure!(cntr.read() == 4, "{} changes", cntr.read());
    region.mr.close()?;
    cntr.close()?;
    group.close()
}

/// Section `fi_mr_bind`: a counter counts from the binding on, as one that is bound to an endpoint.
fn a_counter_counts_changes_from_its_binding_on(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_RMA | abi::FI_MSG | abi::FI_RMA_EVENT)?;
    let cntr = optional(group.b().domain.cntr(), "fi_cntr_open")?;
    let mr = group.b().domain.mr_with(Mem::zeroed(8), ALL, 0, 3, abi::FI_RMA_EVENT)?;
    let region = group.b().exposed(&group.info, Mem::zeroed(8), mr)?;
    let write = || {
        let context = Context::new();
        let (from, to) = (Mem::zeroed(8), region.remote(group.to_b()));
        group.post(|| group.a().ep.write(from, to, context))?;
        group.done(group.a(), context)
    };
    for _ in 0..3 {
        write()?;
    }
    optional(region.mr.bind(&cntr, abi::FI_REMOTE_WRITE), "fi_mr_bind behind fi_mr_enable")?;
    ensure!(cntr.read() == 0, "{} writes", cntr.read());
    write()?;
    group.until("a write", || Ok((cntr.read() > 0).then_some(())))?;
    ensure!(cntr.read() == 1, "{} writes", cntr.read());
    region.mr.close()?;
    cntr.close()?;
    group.close()
}

/// Section `fi_close`: a closed region cannot be accessed, and its memory is not touched.
fn a_closed_region_cannot_be_reached(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 3)?;
    reached(&group, &region)?;
    let remote = region.remote(group.to_b());
    region.mr.close()?;
    region.mem.write(0, &[9; 64]);
    unreachable(&group, remote, "a closed region")?;
    ensure!(region.mem.bytes() == [9; 64], "a closed region was written to");
    group.close()
}

/// Section `fi_mr_reg`: NULL and the greatest length are the whole address space; providers may
/// refuse it.
fn whole_address_space(world: &World) -> Result<()> {
    let group = pair(world, abi::FI_MR_VIRT_ADDR)?;
    let everything = Mem::everything();
    let mr = match group.b().domain.mr(everything, ALL, 3) {
        Ok(mr) => mr,
        Err(errno) => {
            let errors = [abi::FI_EINVAL, abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_ENOMEM];
            ensure!(errors.contains(&errno.0), "{errno}");
            return crate::world::not_offered("regions of the whole address space");
        }
    };
    let region = group.b().exposed(&group.info, everything, mr)?;
    let mem = Mem::zeroed(64);
    let remote = region.remote(group.to_b()).at(mem.address());
    let (from, context) = (Mem::pattern(64, 1), Context::new());
    group.post(|| group.a().ep.write(from, remote, context))?;
    group.done(group.a(), context)?;
    arrived(&group, mem, &from.bytes())?;
    region.mr.close()?;
    group.close()
}

/// Section `fi_mr_refresh`: the call succeeds or is refused, and the region stays usable.
fn refresh_answers(world: &World) -> Result<()> {
    let group = pair(world, 0)?;
    let region = group.b().expose(&group.info, Mem::zeroed(64), ALL, 3)?;
    let mut argument = [0_u64; 4];
    let _ = region.mr.control(abi::FI_REFRESH, argument.as_mut_ptr().cast());
    reached(&group, &region)?;
    region.mr.close()?;
    group.close()
}

/// `fi_domain(3)`, `fi_close`: a region keeps its domain.
fn domain_with_a_region_is_busy(world: &World) -> Result<()> {
    let setup = Setup { nodes: 1, ..Setup::caps(abi::FI_RMA) };
    let group = world.group(&setup)?;
    let domain = group.fabric.domain(&group.info, Context::null())?;
    let mr = domain.mr(Mem::zeroed(64), ALL, 3)?;
    refused(domain.close(), &[abi::FI_EBUSY], "a domain with a region")?;
    mr.close()?;
    domain.close()?;
    group.close()
}

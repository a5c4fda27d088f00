// SPDX-License-Identifier: MIT OR Apache-2.0
//! NIXL's libfabric backend: discovery by name, a rail for a device, notifications by remote CQ
//! data.

use anyhow::{Context as _, Result, ensure};

use super::profile::{
    DATA_OF_FOUR_BYTES, NAMED, NAMED_OR_LAYERED, Profile, Rule, close, datagram_hints, register,
    same,
};
use crate::abi;
use crate::fi::{Completion, Context, Fid as _, Info, Mem, Message, Rma};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "nixl":
    the_device_is_found_by_name
    the_first_offer_of_the_device_is_a_rail
    blocks_are_written_and_notified
    blocks_are_read
}

const VERSION: u32 = abi::make_version(1, 18);
const CAPS: u64 = abi::FI_MSG | abi::FI_RMA | abi::FI_LOCAL_COMM | abi::FI_REMOTE_COMM;
/// Receives that are posted before the first message, and their size.
const RECEIVES: usize = 1024;
const RECEIVE_LEN: usize = 8192;
/// Writes that are posted together.
const BATCH: usize = 16;
/// The room for an address.
const NAME_ROOM: usize = 56;

/// The answer for the hints of discovery: the first offer with a name of NIXL's list.
fn discovered(world: &World) -> Result<Info> {
    let mr_mode = abi::FI_MR_LOCAL | abi::FI_MR_ALLOCATED | abi::FI_MR_VIRT_ADDR;
    let hints = datagram_hints(CAPS, abi::FI_CONTEXT, mr_mode);
    profile(&[NAMED]).choose(world, Some(&hints))
}

fn profile(rules: &[Rule]) -> Profile<'_> {
    Profile { version: VERSION, node: None, flags: 0, rules }
}

/// The rail of the device: hints with its name, and without the provider's.
fn rail(world: &World, device: &str) -> Result<Info> {
    let mr_mode = abi::FI_MR_LOCAL | abi::FI_MR_ALLOCATED;
    let hints = datagram_hints(CAPS, abi::FI_CONTEXT, mr_mode);
    hints.set_domain_name(device);
    hints.set_domain(|domain| domain.threading = abi::FI_THREAD_COMPLETION);
    if world.provider == "xdp" {
        // The name is not on NIXL's list: a user must hide the others.
        hints.set_provider_name("xdp");
    }
    let rules = [NAMED_OR_LAYERED, DATA_OF_FOUR_BYTES];
    let rules = profile(&rules);
    let offers = rules.offers(Some(&hints))?;
    let first = offers.into_iter().next().expect("a list has an element");
    ensure!(rules.missing(world, &first).is_none(), "the first is {}", first.provider_name());
    rules.checked(world, first)
}

fn the_device_is_found_by_name(world: &World) -> Result<()> {
    let device = discovered(world)?.domain_name();
    ensure!(std::path::Path::new("/sys/class/net").join(&device).exists(), "{device}");
    Ok(())
}

/// NIXL takes the first offer with the device's name, whatever its provider.
fn the_first_offer_of_the_device_is_a_rail(world: &World) -> Result<()> {
    rail(world, &discovered(world)?.domain_name()).map(drop)
}

/// Two agents, with their receives posted.
fn agents(world: &World) -> Result<Group> {
    let info = rail(world, &discovered(world)?.domain_name())?;
    let setup = Setup {
        format: abi::FI_CQ_FORMAT_DATA,
        cq_size: 12288,
        wait: abi::FI_WAIT_NONE,
        ..Setup::default()
    };
    let mut group = Group::open(world, info, &setup)?;
    group.enable()?;
    for node in &group.nodes {
        ensure!(node.ep.getname(NAME_ROOM).0.is_ok(), "an address is longer than {NAME_ROOM}");
        for _ in 0..RECEIVES {
            let receive =
                Message::new(Mem::zeroed(RECEIVE_LEN), abi::FI_ADDR_UNSPEC, Context::new());
            group.post(|| node.ep.recvmsg(&receive, 0))?;
        }
    }
    group.exchange_names()?;
    Ok(group)
}

/// The kind of a completion, in the order in which NIXL looks at the flags.
fn kind(completion: &Completion) -> &'static str {
    let has = |flags: u64| completion.flags & flags != 0;
    match () {
        () if has(abi::FI_SEND) => "send",
        () if has(abi::FI_RECV) => "receive",
        () if has(abi::FI_WRITE) => "write",
        () if has(abi::FI_READ) => "read",
        () if has(abi::FI_REMOTE_WRITE | abi::FI_REMOTE_CQ_DATA) => "remote write",
        () => "nothing that NIXL knows",
    }
}

const ACCESS: u64 = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE | abi::FI_READ | abi::FI_WRITE;

/// Writes with 32 bits of data, in batches with `FI_MORE`, and a notification as a message.
fn blocks_are_written_and_notified(world: &World) -> Result<()> {
    let group = agents(world)?;
    for len in [4096, 16 << 10, 1 << 20] {
        let (from, to) = (Mem::pattern(len * BATCH, 7), Mem::zeroed(len * BATCH));
        let target = register(group.b(), &group.info, to, ACCESS, to.address())?;
        let source = register(group.a(), &group.info, from, ACCESS, from.address())?;
        for index in 0..BATCH {
            let offset = index * len;
            let remote = target.remote(group.to_b()).at(offset as u64);
            let mut write = Rma::new(from.part(offset, len), remote, Context::new());
            write.data = 0x8000_0000 | index as u64;
            let more = if index + 1 < BATCH { abi::FI_MORE } else { 0 };
            group.post(|| group.a().ep.writemsg(&write, abi::FI_REMOTE_CQ_DATA | more))?;
        }
        let notice = Mem::pattern(100, 9);
        let sent = Context::new();
        group.post(|| group.a().ep.senddata(notice, 0x1234_5678, group.to_b(), sent))?;
        let ours = group.take(group.a(), BATCH + 1)?;
        let count = |all: &[Completion], what| all.iter().filter(|one| kind(one) == what).count();
        ensure!((count(&ours, "write"), count(&ours, "send")) == (BATCH, 1), "{ours:?}");
        let theirs = group.take(group.b(), BATCH + 1)?;
        ensure!(count(&theirs, "remote write") == BATCH, "{theirs:?}");
        let mut data: Vec<u64> = theirs.iter().map(|one| one.data & 0xffff_ffff).collect();
        data.sort_unstable();
        let wanted = (0..BATCH as u64).map(|index| 0x8000_0000 | index);
        ensure!(data == [0x1234_5678].into_iter().chain(wanted).collect::<Vec<_>>(), "{data:x?}");
        let message = theirs.iter().find(|one| kind(one) == "receive");
        ensure!(message.is_some_and(|one| one.len == 100), "{message:?}");
        same(to, from, "written blocks")?;
        for region in [&target, &source] {
            region.mr.close().context("fi_close of a region")?;
        }
    }
    group.close()
}

fn blocks_are_read(world: &World) -> Result<()> {
    let group = agents(world)?;
    let len = 256 << 10;
    let (into, from) = (Mem::zeroed(len), Mem::pattern(len, 3));
    let source = register(group.b(), &group.info, from, ACCESS, from.address())?;
    let read = Rma::new(into, source.remote(group.to_b()), Context::new());
    group.post(|| group.a().ep.readmsg(&read, 0))?;
    let done = group.next(group.a())?;
    ensure!(kind(&done) == "read", "{done:?}");
    same(into, from, "a block that was read")?;
    close(&group, &[&source])
}

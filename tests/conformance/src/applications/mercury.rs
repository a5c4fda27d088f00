// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mercury's NA plugin for libfabric, on which DAOS stands: unexpected messages in buffers for
//! several, expected ones by tag, bulk data by RMA, a descriptor to wait on.

use anyhow::{Context as _, Result, ensure};

use super::profile::{NAMED_OR_LAYERED, Profile, Rule, close, datagram_hints, register, same};
use crate::abi;
use crate::fi::{Context, Info, Mem, Message, Rma, Tagged};
use crate::group::Group;
use crate::process::poll_fd;
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "mercury":
    the_offer_is_of_the_class
    rpcs_and_bulk_data_arrive
    cancelled_buffers_come_back
    a_cancelled_send_to_a_dead_peer_ends_as_cancelled
}

const CAPS: u64 =
    abi::FI_MSG | abi::FI_TAGGED | abi::FI_RMA | abi::FI_DIRECTED_RECV | abi::FI_MULTI_RECV;
const MR_MODE: i32 = abi::FI_MR_VIRT_ADDR
    | abi::FI_MR_ALLOCATED
    | abi::FI_MR_PROV_KEY
    | abi::FI_MR_LOCAL
    | abi::FI_MR_ENDPOINT;
/// The tag of unexpected messages is above those of expected ones.
const UNEXPECTED_TAG: u64 = 1 << 32;
const MESSAGE_LEN: usize = 4096;

const RULES: [Rule; 3] = [
    NAMED_OR_LAYERED,
    Rule {
        what: "FI_SOCKADDR_IN",
        holds: |_, offer| offer.entry().addr_format == abi::FI_SOCKADDR_IN,
        spoil: |offer| offer.set(|info| info.addr_format = abi::FI_ADDR_STR),
    },
    Rule {
        what: "an interface as domain",
        holds: |_, offer| std::path::Path::new("/sys/class/net").join(offer.domain_name()).exists(),
        spoil: |offer| offer.set_domain_name("tcp"),
    },
];

/// Name and protocol of the class: `tcp` is libfabric's `tcp;ofi_rxm` before 1.18.
fn class(world: &World) -> (&str, u32) {
    match world.provider.as_str() {
        "tcp" if abi::version() < abi::make_version(1, 18) => ("tcp;ofi_rxm", abi::FI_PROTO_RXM),
        "tcp" => ("tcp", abi::FI_PROTO_XNET),
        other => (other, abi::FI_PROTO_UNSPEC),
    }
}

fn offer(world: &World) -> Result<Info> {
    let (name, protocol) = class(world);
    let hints = datagram_hints(CAPS, abi::FI_ASYNC_IOV | abi::FI_CONTEXT, MR_MODE);
    hints.set_provider_name(name);
    hints.set(|info| info.addr_format = abi::FI_SOCKADDR_IN);
    hints.set_ep(|ep| ep.protocol = protocol);
    hints.set_domain(|domain| {
        domain.threading = abi::FI_THREAD_SAFE;
        domain.control_progress = abi::FI_PROGRESS_MANUAL;
        domain.data_progress = abi::FI_PROGRESS_MANUAL;
        domain.resource_mgmt = abi::FI_RM_ENABLED;
        domain.av_type = abi::FI_AV_MAP;
    });
    hints.set_tx(|tx| (tx.size, tx.op_flags) = (256, abi::FI_INJECT_COMPLETE));
    hints.set_rx(|rx| rx.size = 256);
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE | abi::FI_NUMERICHOST);
    let profile = Profile { version: abi::make_version(1, 20), node, flags, rules: &RULES };
    profile.choose(world, Some(&hints))
}

fn the_offer_is_of_the_class(world: &World) -> Result<()> {
    let info = offer(world)?;
    let (name, protocol) = class(world);
    ensure!(info.provider_name() == name, "{}, not {name}", info.provider_name());
    let found = info.ep().protocol;
    ensure!([abi::FI_PROTO_UNSPEC, found].contains(&protocol), "protocol {found}");
    ensure!(info.caps() & abi::FI_MULTI_RECV != 0, "no FI_MULTI_RECV");
    Ok(())
}

/// Two classes with a descriptor to wait on.
fn classes(world: &World) -> Result<Group> {
    let setup = Setup {
        cq_size: 131_072,
        wait: abi::FI_WAIT_FD,
        version: abi::VERSION,
        ..Setup::default()
    };
    let mut group = Group::open(world, offer(world)?, &setup)?;
    for node in &group.nodes {
        let least = MESSAGE_LEN.to_ne_bytes();
        node.ep.setopt(abi::FI_OPT_ENDPOINT, abi::FI_OPT_MIN_MULTI_RECV, &least)?;
    }
    group.enable()?;
    group.exchange_names()?;
    Ok(group)
}

/// A request without a receive of its own, its answer by tag, and the data of both by RMA.
fn rpcs_and_bulk_data_arrive(world: &World) -> Result<()> {
    let group = classes(world)?;
    let buffer = Context::new();
    let room = Mem::zeroed(64 * MESSAGE_LEN);
    let receive = Message::new(room, abi::FI_ADDR_UNSPEC, buffer);
    group.post(|| group.b().ep.recvmsg(&receive, abi::FI_MULTI_RECV))?;
    let request = Mem::pattern(500, 1);
    let asked = Context::new();
    group.post(|| group.a().ep.send(request, group.to_b(), asked))?;
    let arrived = group.done(group.b(), buffer)?;
    ensure!(arrived.flags & abi::FI_MULTI_RECV == 0 && arrived.len == 500, "{arrived:?}");
    ensure!(arrived.buf == room.ptr(), "{arrived:?}");
    group.done(group.a(), asked)?;

    let access = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
    let (bulk, pulled) = (Mem::pattern(1 << 20, 5), Mem::zeroed(1 << 20));
    let origin = register(group.a(), &group.info, bulk, access, 1)?;
    let pull = Rma::new(pulled, origin.remote(group.to_a()), Context::new());
    group.post(|| group.b().ep.readmsg(&pull, abi::FI_COMPLETION))?;
    group.done(group.b(), pull.context)?;
    same(pulled, bulk, "bulk data")?;

    let (into, expected) = (Mem::zeroed(MESSAGE_LEN), Context::new());
    group.post(|| group.a().ep.trecv(into, group.to_b(), 77, 0, expected))?;
    let answer = Context::new();
    let reply = Mem::pattern(MESSAGE_LEN, 2);
    group.post(|| group.b().ep.tsend(reply, group.to_a(), 77, answer))?;
    wait(&group)?;
    group.done(group.a(), expected)?;
    same(into, reply, "an answer")?;
    group.done(group.b(), answer)?;
    close(&group, &[&origin])
}

/// Waits for the first node, as Mercury does: `fi_trywait`, then poll(2).
fn wait(group: &Group) -> Result<()> {
    let fd = group.a().cq.wait_fd().context("FI_GETWAIT")?;
    if group.fabric.trywait(&[&group.a().cq]).is_ok() {
        let _ = group.b().cq.progress();
        ensure!(poll_fd(fd, 5000)?, "the descriptor is not ready");
    }
    Ok(())
}

fn cancelled_buffers_come_back(world: &World) -> Result<()> {
    let group = classes(world)?;
    let buffer = Context::new();
    let receive = Message::new(Mem::zeroed(16 * MESSAGE_LEN), abi::FI_ADDR_UNSPEC, buffer);
    group.post(|| group.b().ep.recvmsg(&receive, abi::FI_MULTI_RECV))?;
    let tagged = Tagged::new(Mem::zeroed(64), abi::FI_ADDR_UNSPEC, UNEXPECTED_TAG, Context::new());
    group.post(|| group.b().ep.trecvmsg(&tagged, 0))?;
    let layered = class(world).1 == abi::FI_PROTO_RXM;
    for context in [buffer, tagged.context] {
        group.b().ep.cancel(context.ptr()).context("fi_cancel")?;
        let error = group.error(group.b())?;
        ensure!(error.err.0 == abi::FI_ECANCELED, "{error:?}");
        ensure!(error.context == context.ptr(), "{error:?}");
        // `ofi_rxm` of 1.17 does not say that the buffer is released.
        let released = layered || error.flags & abi::FI_MULTI_RECV != 0;
        ensure!(released || context.ptr() != buffer.ptr(), "{error:?}");
    }
    group.close()
}

/// An RPC to a server that has ended. Mercury passes over every error but this one of an operation
/// that it wants cancelled, and waits on.
fn a_cancelled_send_to_a_dead_peer_ends_as_cancelled(world: &World) -> Result<()> {
    if class(world).1 == abi::FI_PROTO_RXM {
        // `ofi_rxm` holds the send back until there is a connection.
        return Ok(());
    }
    let group = classes(world)?;
    let node = world.node.as_deref().context("an address of IP")?;
    let silent = std::net::UdpSocket::bind((node, 0)).context("a socket that nobody reads")?;
    let mut name = group.b().name()?;
    name[2..4].copy_from_slice(&silent.local_addr()?.port().to_be_bytes());
    let dead = group.a().av.insert(&name).context("fi_av_insert")?;
    let asked = Context::new();
    group.post(|| group.a().ep.tsend(Mem::pattern(300, 1), dead, 5, asked))?;
    group.a().ep.cancel(asked.ptr()).context("fi_cancel")?;
    let error = group.error(group.a())?;
    ensure!(error.err.0 == abi::FI_ECANCELED && error.context == asked.ptr(), "{error:?}");
    group.close()
}

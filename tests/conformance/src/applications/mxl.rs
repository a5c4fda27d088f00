// SPDX-License-Identifier: MIT OR Apache-2.0
//! MXL's fabrics library: a connection for a flow, grains by writes, the last one with an
//! immediate.

use anyhow::{Context as _, Result, ensure};

use super::profile::{NAMED, NO_MODE, Profile, Rule, same};
use crate::abi;
use crate::connected::{event, until};
use crate::fi::{Completion, Context, Cq, Domain, Ep, Eq, Errno, Fabric, Fid as _, Info, Mem, Rma};
use crate::group::{cq_attr, eq_attr};
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "mxl":
    the_offer_is_a_connection_without_tags
    grains_arrive_before_their_immediate
    the_end_of_a_flow_is_an_event
}

const MR_MODE: i32 =
    abi::FI_MR_VIRT_ADDR | abi::FI_MR_LOCAL | abi::FI_MR_ALLOCATED | abi::FI_MR_PROV_KEY;
/// The depth of a completion queue.
const DEPTH: usize = 8;
/// Slices of a grain.
const SLICES: usize = 12;
const SLICE_LEN: usize = 40_000;

const CONNECTED: Rule = Rule {
    what: "a connected endpoint",
    holds: |_, offer| offer.ep().type_ == abi::FI_EP_MSG,
    spoil: |offer| offer.set_ep(|ep| ep.type_ = abi::FI_EP_RDM),
};
const SOCK_TCP: Rule = Rule {
    what: "FI_PROTO_SOCK_TCP",
    holds: |_, offer| offer.ep().protocol == abi::FI_PROTO_SOCK_TCP,
    spoil: |offer| offer.set_ep(|ep| ep.protocol = abi::FI_PROTO_UNSPEC),
};
/// Without hints too, an offer of `tcp` has no tagged messages.
const UNTAGGED: Rule = Rule {
    what: "no FI_TAGGED",
    holds: |_, offer| offer.caps() & abi::FI_TAGGED == 0,
    spoil: |offer| offer.set(|info| info.caps |= abi::FI_TAGGED),
};
const ADDRESS_OF_IP: Rule = Rule {
    what: "an address of IP",
    holds: |_, offer| {
        [abi::FI_SOCKADDR_IN, abi::FI_SOCKADDR_IN6].contains(&offer.entry().addr_format)
    },
    spoil: |offer| offer.set(|info| info.addr_format = abi::FI_ADDR_STR),
};

/// The capabilities are of both directions, although each side binds a queue for one.
fn hints(world: &World, right: u64) -> Info {
    let hints = world.bare_hints();
    hints.set(|info| info.caps = abi::FI_RMA | right | abi::FI_SEND | abi::FI_RECV);
    hints.set_ep(|ep| ep.type_ = abi::FI_EP_MSG);
    hints.set_domain(|domain| domain.mr_mode = MR_MODE);
    hints
}

fn offer(world: &World, right: u64) -> Result<Info> {
    let (node, flags) = (world.node.as_deref(), abi::FI_SOURCE);
    let rules = [NAMED, CONNECTED, ADDRESS_OF_IP, NO_MODE, SOCK_TCP, UNTAGGED];
    let rules = if world.provider == "tcp" { &rules[..] } else { &rules[..4] };
    let profile = Profile { version: abi::VERSION, node, flags, rules };
    profile.choose(world, Some(&hints(world, right)))
}

fn the_offer_is_a_connection_without_tags(world: &World) -> Result<()> {
    offer(world, abi::FI_REMOTE_WRITE)?;
    // The list that MXL shows its user. Names of others than libfabric's are not on it.
    let tcp = [NAMED, CONNECTED, SOCK_TCP, UNTAGGED];
    let rules = if world.provider == "tcp" { &tcp[..] } else { &tcp[..2] };
    let profile = Profile { version: abi::VERSION, node: None, flags: 0, rules };
    profile.choose(world, None).map(drop)
}

/// One side of a flow.
struct Side {
    domain: Domain,
    cq: Cq,
    ep: Ep,
    info: Info,
}

impl Side {
    /// The objects, in MXL's order; a connected endpoint is enabled by `fi_connect` or `fi_accept`.
    fn open(fabric: &Fabric, eq: &Eq, info: Info, direction: u64) -> Result<Self> {
        let domain = fabric.domain(&info, Context::null()).context("fi_domain")?;
        let setup = Setup {
            format: abi::FI_CQ_FORMAT_DATA,
            cq_size: DEPTH,
            wait: abi::FI_WAIT_UNSPEC,
            ..Setup::default()
        };
        let cq = domain.cq(&mut cq_attr(&setup), Context::null()).context("fi_cq_open")?;
        let ep = domain.endpoint(&info, Context::null()).context("fi_endpoint")?;
        ep.bind(eq, 0).context("fi_ep_bind of the event queue")?;
        ep.bind(&cq, direction).context("fi_ep_bind of the completion queue")?;
        Ok(Self { domain, cq, ep, info })
    }

    /// The next completion, read as MXL waits for it.
    fn completion(&self, other: &Self) -> Result<Completion> {
        until("completion", || {
            let _ = other.cq.progress();
            match self.cq.sread(1, 10) {
                Ok(mut found) => Ok(found.pop()),
                Err(Errno(abi::FI_EAGAIN)) => Ok(None),
                Err(errno) => Err(errno).context("fi_cq_sread"),
            }
        })
    }
}

/// Initiator, target, and their event queues.
fn flow(world: &World) -> Result<(Side, Eq, Side, Eq)> {
    let queue = |fabric: &Fabric| {
        let mut attr = abi::fi_eq_attr { size: 8, ..eq_attr(abi::FI_WAIT_UNSPEC) };
        fabric.eq(&mut attr, Context::null()).context("fi_eq_open")
    };
    let info = offer(world, abi::FI_REMOTE_WRITE)?;
    let theirs = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let their_events = queue(&theirs)?;
    let passive = theirs.passive_ep(&info).context("fi_passive_ep")?;
    passive.bind(&their_events, 0).context("fi_pep_bind")?;
    passive.listen().context("fi_listen")?;
    let name = passive.getname(64).context("fi_getname")?;

    let info = offer(world, abi::FI_WRITE)?;
    let ours = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let our_events = queue(&ours)?;
    let initiator = Side::open(&ours, &our_events, info, abi::FI_TRANSMIT)?;
    initiator.ep.connect(&name).context("fi_connect")?;
    let request = event(&their_events, abi::FI_CONNREQ, &[])?;
    let info = request.info.context("a request without fi_info")?;
    ensure!(!info.dest_addr().is_empty(), "a request without the peer's address");
    let target = Side::open(&theirs, &their_events, info, abi::FI_RECV)?;
    target.ep.accept().context("fi_accept")?;
    event(&our_events, abi::FI_CONNECTED, &[&initiator.cq])?;
    event(&their_events, abi::FI_CONNECTED, &[&target.cq])?;
    Ok((initiator, our_events, target, their_events))
}

/// A random key is a wish: with `FI_MR_PROV_KEY` the provider chooses.
const WISH: u64 = 0x9e37_79b9_7f4a_7c15;

/// The immediate of the last slice implies the others, without an order in the hints.
fn grains_arrive_before_their_immediate(world: &World) -> Result<()> {
    let (initiator, _ours, target, _theirs) = flow(world)?;
    let len = SLICES * SLICE_LEN;
    let (grain, ring) = (Mem::pattern(len, 21), Mem::zeroed(len));
    let remote = target.domain.mr_attr(&[ring], abi::FI_REMOTE_WRITE, WISH, |_| ())?;
    initiator.domain.mr_attr(&[grain], abi::FI_WRITE, WISH, |_| ())?;
    let absolute = target.info.domain().mr_mode & abi::FI_MR_VIRT_ADDR != 0;
    let base = if absolute { ring.address() } else { 0 };
    for index in 0..SLICES {
        let offset = index * SLICE_LEN;
        let address = base + offset as u64;
        let at = crate::fi::Remote { peer: abi::FI_ADDR_UNSPEC, address, key: remote.key() };
        let mut write = Rma::new(grain.part(offset, SLICE_LEN), at, Context::new());
        let last = index + 1 == SLICES;
        write.data = 0xfeed_0001;
        let data = if last { abi::FI_REMOTE_CQ_DATA } else { 0 };
        until("room for a write", || {
            match initiator.ep.writemsg(&write, abi::FI_DELIVERY_COMPLETE | data) {
                Ok(()) => Ok(Some(())),
                Err(Errno(abi::FI_EAGAIN)) => {
                    let _ = initiator.cq.read(1);
                    Ok(None)
                }
                Err(errno) => Err(errno).context("fi_writemsg"),
            }
        })?;
    }
    let arrived = target.completion(&initiator)?;
    ensure!(arrived.flags & abi::FI_REMOTE_CQ_DATA != 0, "{arrived:?}");
    ensure!(arrived.data & 0xffff_ffff == 0xfeed_0001, "{arrived:?}");
    same(ring, grain, "a grain at its immediate")
}

fn the_end_of_a_flow_is_an_event(world: &World) -> Result<()> {
    let (initiator, _ours, target, theirs) = flow(world)?;
    initiator.ep.shutdown().context("fi_shutdown")?;
    event(&theirs, abi::FI_SHUTDOWN, &[&target.cq, &initiator.cq]).map(drop)
}

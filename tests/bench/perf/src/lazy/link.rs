// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint with one peer, of either type, and one registered buffer cut into slots.
//!
//! It is built on libfabric's calls themselves: the measurement needs writes without remote CQ data
//! and one read of the completion queue at a time. Bound: an operation a slot.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use ofi_xdp_libfabric::raw::{
    self, Av, Context, Cq, Domain, Ep, Eq, Errno, Fabric, Fid as _, Info, Mem, Mr, Pep, Remote, abi,
};
use ofi_xdp_libfabric::{Kind, Name};

use super::Cell;
use crate::queue;
use ofi_xdp_perf::report::Description;
use ofi_xdp_perf::transport::SessionSide;

/// Most completions of one read of the queue.
pub(super) const BATCH: usize = 64;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest address.
const NAME_MAX: usize = 256;
/// The tag of every message.
const TAG: u64 = 0x6f66_692d_7864_7002;
/// The requested key, where the application chooses it.
const REGION_KEY: u64 = 0x6f78;
const REMOTE_ACCESS: u64 =
    abi::FI_READ | abi::FI_WRITE | abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;

/// The offer that a cell uses, and whether its provider promises automatic progress.
fn offer(cell: &Cell, local: IpAddr, to: Option<&Name>) -> anyhow::Result<(Info, bool)> {
    let (rma, name) = (cell.transfer.is_rma(), cell.provider.as_str());
    let kinds = [(abi::FI_EP_RDM, !rma), (abi::FI_EP_MSG, !rma), (abi::FI_EP_MSG, false)];
    for auto in [true, false] {
        for (kind, tagged) in kinds {
            let hints = hints(name, (kind, tagged, rma), auto);
            let node = to.is_none().then(|| local.to_string());
            let flags = if node.is_some() { abi::FI_SOURCE } else { 0 };
            if let Some(Name(bytes)) = to {
                let v6 = matches!(local, IpAddr::V6(_));
                let format = if v6 { abi::FI_SOCKADDR_IN6 } else { abi::FI_SOCKADDR_IN };
                hints.set_dest_addr(bytes, format);
            }
            let offers = raw::getinfo(abi::VERSION, node.as_deref(), None, flags, Some(&hints));
            let mut offers = offers.unwrap_or_default().into_iter();
            if let Some(offer) = offers.find(|offer| offer.provider_name() == name) {
                return Ok((offer, auto));
            }
        }
    }
    bail!("the provider {name:?} has no offer for {:?} from {local}", cell.transfer)
}

fn hints(provider: &str, (kind, tagged, rma): (u32, bool, bool), auto: bool) -> Info {
    let hints = Info::empty();
    hints.set(|info| {
        info.caps = if tagged { abi::FI_TAGGED } else { abi::FI_MSG };
        info.caps |= if rma { abi::FI_RMA } else { 0 };
        info.mode = abi::FI_CONTEXT | abi::FI_CONTEXT2;
    });
    hints.set_ep(|endpoint| endpoint.type_ = kind);
    hints.set_domain(|domain| {
        domain.mr_mode = abi::FI_MR_ALLOCATED | abi::FI_MR_VIRT_ADDR | abi::FI_MR_PROV_KEY;
        domain.threading = abi::FI_THREAD_DOMAIN;
        if auto {
            domain.control_progress = abi::FI_PROGRESS_AUTO;
            domain.data_progress = abi::FI_PROGRESS_AUTO;
        }
    });
    hints.set_tx(|tx| tx.msg_order = abi::FI_ORDER_SAS);
    hints.set_rx(|rx| rx.msg_order = abi::FI_ORDER_SAS);
    hints.set_provider_name(provider);
    hints
}

/// A fabric with its event queue.
fn fabric(info: &Info) -> anyhow::Result<(Fabric, Eq)> {
    let fabric = Fabric::open(info, Context::null()).context("fi_fabric")?;
    let mut attributes = abi::fi_eq_attr {
        size: 0,
        flags: 0,
        wait_obj: abi::FI_WAIT_UNSPEC,
        signaling_vector: 0,
        wait_set: std::ptr::null_mut(),
    };
    let events = fabric.eq(&mut attributes, Context::null()).context("fi_eq_open")?;
    Ok((fabric, events))
}

/// Waits for an event of the connection.
fn wait_for(events: &Eq, wanted: u32) -> anyhow::Result<Option<Info>> {
    let ms = i32::try_from(CONNECT_TIMEOUT.as_millis())?;
    let (event, info) = events.sread_cm(ms).context("no connection")?;
    ensure!(event == wanted, "event {event} in place of {wanted}: no connection");
    Ok(info)
}

/// An endpoint without a peer.
pub(super) struct Opening {
    cell: Cell,
    local: IpAddr,
    slots: usize,
    stage: Stage,
}

enum Stage {
    /// `FI_EP_RDM`.
    Datagram(Box<Link>),
    /// `FI_EP_MSG`, the server.
    Listening(Fabric, Eq, Pep, bool),
    /// `FI_EP_MSG`, the client.
    ToConnect,
}

impl Opening {
    /// Does the steps that need no peer.
    pub(super) fn begin(
        cell: &Cell,
        role: SessionSide,
        local: IpAddr,
        slots: usize,
    ) -> anyhow::Result<Self> {
        let (info, auto) = offer(cell, local, None)?;
        let stage = if info.ep().type_ == abi::FI_EP_RDM {
            let (fabric, events) = fabric(&info)?;
            let link = Link::new(cell, (&info, auto), fabric, events, slots)?;
            link.endpoint.enable().context("fi_enable")?;
            Stage::Datagram(Box::new(link))
        } else if role == SessionSide::Server {
            let (fabric, events) = fabric(&info)?;
            let passive = fabric.passive_ep(&info).context("fi_passive_ep")?;
            passive.bind(&events, 0).context("fi_pep_bind")?;
            passive.listen().context("fi_listen")?;
            Stage::Listening(fabric, events, passive, auto)
        } else {
            Stage::ToConnect
        };
        Ok(Self { cell: cell.clone(), local, slots, stage })
    }

    /// The address for the other side; empty if it needs none.
    pub(super) fn name(&self) -> anyhow::Result<Name> {
        Ok(Name(match &self.stage {
            Stage::Datagram(link) => link.endpoint.getname(NAME_MAX).0.context("fi_getname")?,
            Stage::Listening(_, _, passive, _) => {
                passive.getname(NAME_MAX).context("fi_getname")?
            }
            Stage::ToConnect => Vec::new(),
        }))
    }

    /// Does the remaining steps.
    pub(super) fn finish(self, peer: &Name) -> anyhow::Result<Link> {
        let Self { cell, local, slots, stage } = self;
        match stage {
            Stage::Datagram(mut link) => {
                let mut bytes = peer.0.clone();
                bytes.resize(NAME_MAX, 0);
                link.peer = link.addresses.as_ref().context("no address vector")?.insert(&bytes)?;
                Ok(*link)
            }
            Stage::Listening(fabric, events, passive, auto) => {
                let request = wait_for(&events, abi::FI_CONNREQ)?.context("an empty request")?;
                let mut link = Link::new(&cell, (&request, auto), fabric, events, slots)?;
                link.passive = Some(passive);
                link.endpoint.enable().context("fi_enable")?;
                link.endpoint.accept().context("fi_accept")?;
                wait_for(&link.events, abi::FI_CONNECTED)?;
                Ok(link)
            }
            Stage::ToConnect => {
                let (info, auto) = offer(&cell, local, Some(peer))?;
                let (fabric, events) = fabric(&info)?;
                let link = Link::new(&cell, (&info, auto), fabric, events, slots)?;
                link.endpoint.enable().context("fi_enable")?;
                link.endpoint.connect(&peer.0).context("fi_connect")?;
                wait_for(&link.events, abi::FI_CONNECTED)?;
                Ok(link)
            }
        }
    }
}

/// An endpoint with its peer. Closed on drop.
pub(super) struct Link {
    endpoint: Ep,
    passive: Option<Pep>,
    addresses: Option<Av>,
    queue: Cq,
    events: Eq,
    region: Option<Mr>,
    domain: Domain,
    fabric: Fabric,
    memory: Mem,
    /// One a slot, in the order of their addresses.
    contexts: Vec<Context>,
    entries: Box<[abi::fi_cq_tagged_entry; BATCH]>,
    peer: u64,
    size: usize,
    stride: usize,
    base: u64,
    tagged: bool,
    /// How it is reported.
    pub(super) description: Description,
}

/// The entry that nothing was read into.
const EMPTY_ENTRY: abi::fi_cq_tagged_entry = abi::fi_cq_tagged_entry {
    op_context: std::ptr::null_mut(),
    flags: 0,
    len: 0,
    buf: std::ptr::null_mut(),
    data: 0,
    tag: 0,
};

impl Link {
    fn new(
        cell: &Cell,
        (info, auto): (&Info, bool),
        fabric: Fabric,
        events: Eq,
        slots: usize,
    ) -> anyhow::Result<Self> {
        let domain = fabric.domain(info, Context::null()).context("fi_domain")?;
        let stride = cell.size.next_multiple_of(64);
        let memory = Mem::zeroed(stride * slots);
        fill(memory);
        let region = cell.transfer.is_rma().then(|| domain.mr(memory, REMOTE_ACCESS, REGION_KEY));
        let region = region.transpose().context("fi_mr_reg")?;
        let queue = queue::open(&domain, slots)?;
        let datagram = info.ep().type_ == abi::FI_EP_RDM;
        let addresses = datagram.then(|| open_addresses(&domain)).transpose()?;
        let endpoint = domain.endpoint(info, Context::null()).context("fi_endpoint")?;
        endpoint.bind(&queue, abi::FI_TRANSMIT | abi::FI_RECV).context("fi_ep_bind")?;
        match &addresses {
            Some(addresses) => endpoint.bind(addresses, 0).context("fi_ep_bind")?,
            None => endpoint.bind(&events, 0).context("fi_ep_bind")?,
        }
        let mut contexts: Vec<Context> = (0..slots).map(|_| Context::new()).collect();
        contexts.sort_by_key(|context| context.ptr());
        let virtual_address = info.domain().mr_mode & abi::FI_MR_VIRT_ADDR != 0;
        let tagged = info.caps() & abi::FI_TAGGED != 0;
        let description = Description {
            provider: info.provider_name(),
            domain: info.domain_name(),
            endpoint: Some(if datagram { Kind::Rdm } else { Kind::Msg }),
            wait: String::from(if auto { "intervals, auto" } else { "intervals, manual" }),
            tagged,
        };
        Ok(Self {
            endpoint,
            passive: None,
            addresses,
            queue,
            events,
            region,
            domain,
            fabric,
            memory,
            contexts,
            entries: Box::new([EMPTY_ENTRY; BATCH]),
            peer: abi::FI_ADDR_UNSPEC,
            size: cell.size,
            stride,
            base: if virtual_address { memory.address() } else { 0 },
            tagged,
            description,
        })
    }

    /// The bytes of a slot.
    pub(super) fn slot(&self, slot: usize) -> Mem {
        self.memory.part(slot * self.stride, self.size)
    }

    /// Key and base address of the memory, for the peer.
    pub(super) fn region(&self) -> (u64, u64) {
        (self.region.as_ref().map_or(0, Mr::key), self.base)
    }

    /// The slot of the same number in the peer's region.
    fn remote(&self, (key, base): (u64, u64), slot: usize) -> Remote {
        Remote { peer: self.peer, address: base + (slot * self.stride) as u64, key }
    }

    /// Posts a send of a slot; false if there is no room.
    pub(super) fn send(&self, slot: usize) -> anyhow::Result<bool> {
        let (memory, context) = (self.slot(slot), self.contexts[slot]);
        let posted = match self.tagged {
            true => self.endpoint.tsend(memory, self.peer, TAG, context),
            false => self.endpoint.send(memory, self.peer, context),
        };
        accepted("send", posted)
    }

    /// Posts a receive into a slot; false if there is no room.
    pub(super) fn receive(&self, slot: usize) -> anyhow::Result<bool> {
        const ANY: u64 = abi::FI_ADDR_UNSPEC;
        let (memory, context) = (self.slot(slot), self.contexts[slot]);
        let posted = match self.tagged {
            true => self.endpoint.trecv(memory, ANY, TAG, 0, context),
            false => self.endpoint.recv(memory, ANY, context),
        };
        accepted("receive", posted)
    }

    /// Posts a write of a slot to the peer's `region`; false if there is no room.
    pub(super) fn write(&self, slot: usize, region: (u64, u64)) -> anyhow::Result<bool> {
        let remote = self.remote(region, slot);
        accepted("write", self.endpoint.write(self.slot(slot), remote, self.contexts[slot]))
    }

    /// Posts a read of a slot from the peer's `region`; false if there is no room.
    pub(super) fn read(&self, slot: usize, region: (u64, u64)) -> anyhow::Result<bool> {
        let remote = self.remote(region, slot);
        accepted("read", self.endpoint.read(self.slot(slot), remote, self.contexts[slot]))
    }

    /// Reads the completion queue once, and passes the slots of completed operations to `sink`.
    /// Returns their number.
    pub(super) fn poll(&mut self, mut sink: impl FnMut(usize)) -> anyhow::Result<usize> {
        let count = match self.queue.read_into(&mut self.entries[..]) {
            Ok(count) => count,
            Err(Errno(abi::FI_EAGAIN)) => return Ok(0),
            Err(Errno(abi::FI_EAVAIL)) => {
                let failed = self.queue.readerr(0).context("fi_cq_readerr")?;
                bail!("an operation failed: {}", failed.err);
            }
            Err(error) => return Err(error).context("fi_cq_read"),
        };
        for entry in &self.entries[..count] {
            let at = self.contexts.binary_search_by_key(&entry.op_context, |one| one.ptr());
            sink(at.ok().context("a completion of no operation")?);
        }
        Ok(count)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The process ends after the session: a refusal changes nothing.
        let _ = self.endpoint.close();
        let _ = self.passive.as_ref().map(|passive| passive.close());
        let _ = self.addresses.as_ref().map(|addresses| addresses.close());
        let _ = (self.queue.close(), self.events.close());
        let _ = self.region.as_ref().map(|region| region.close());
        let _ = (self.domain.close(), self.fabric.close());
    }
}

/// Touches every page, so that no transfer reads the kernel's page of zeros.
fn fill(memory: Mem) {
    const BLOCK: [u8; 4096] = [0x5a; 4096];
    for start in (0..memory.len()).step_by(BLOCK.len()) {
        memory.write(start, &BLOCK[..BLOCK.len().min(memory.len() - start)]);
    }
}

fn accepted(what: &'static str, posted: raw::Answer) -> anyhow::Result<bool> {
    match posted {
        Ok(()) => Ok(true),
        Err(Errno(abi::FI_EAGAIN)) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot post a {what}")),
    }
}

fn open_addresses(domain: &Domain) -> anyhow::Result<Av> {
    let mut attributes = abi::fi_av_attr {
        type_: abi::FI_AV_UNSPEC,
        rx_ctx_bits: 0,
        count: 0,
        ep_per_node: 0,
        name: std::ptr::null(),
        map_addr: std::ptr::null_mut(),
        flags: 0,
    };
    domain.av(&mut attributes, Context::null()).context("fi_av_open")
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams of libfabric: an endpoint of the type `FI_EP_DGRAM`, with any provider.
//!
//! Receives are always posted; a buffer is posted again as soon as its datagram has been looked at.
//! Bounds: [`WINDOW`] sends and [`RECEIVES`] receives.

use std::collections::VecDeque;
use std::net::IpAddr;

use anyhow::Context as _;
use ofi_xdp_libfabric::Name;
use ofi_xdp_libfabric::raw::{
    Av, Context, Cq, Domain, Ep, Errno, Fabric, Fid as _, Info, Mem, abi, getinfo,
};

use super::{Datagrams, Opening};
use crate::queue;

/// Most sends without a completion.
const WINDOW: usize = 128;
/// Posted receives.
const RECEIVES: usize = 512;
/// Completions of a queue.
const QUEUE: usize = 4096;
/// Completions that one call reads.
const BATCH: usize = 64;
/// Bytes of the longest address.
const NAME_ROOM: usize = 128;

/// An endpoint, and its peer once it is known.
#[derive(Debug)]
pub struct FabricDatagrams {
    ep: Ep,
    av: Av,
    sent_queue: Cq,
    received_queue: Cq,
    to: u64,
    /// Whether the provider injects a datagram of this size.
    injects: bool,
    /// The datagram of each number, which is its first byte.
    from: Vec<Mem>,
    under_way: usize,
    sent: u64,
    /// Posted receives in their order: buffer and context.
    posted: VecDeque<(Mem, Context)>,
    entries: Vec<abi::fi_cq_tagged_entry>,
    /// Open as long as the endpoint.
    _parents: (Fabric, Domain),
}

fn offer(provider: &str, local: IpAddr) -> anyhow::Result<Info> {
    let hints = Info::empty();
    hints.set_provider_name(provider);
    hints.set(|info| info.caps = abi::FI_MSG);
    hints.set_ep(|ep| ep.type_ = abi::FI_EP_DGRAM);
    hints.set_tx(|tx| tx.size = 2 * WINDOW);
    hints.set_rx(|rx| rx.size = RECEIVES);
    let local = local.to_string();
    let offers = getinfo(abi::VERSION, Some(&local), None, abi::FI_SOURCE, Some(&hints));
    offers.context("fi_getinfo")?.into_iter().next().context("no offer of datagrams")
}

fn vector(domain: &Domain) -> anyhow::Result<Av> {
    let mut attributes = abi::fi_av_attr {
        type_: abi::FI_AV_TABLE,
        rx_ctx_bits: 0,
        count: 1,
        ep_per_node: 0,
        name: std::ptr::null(),
        map_addr: std::ptr::null_mut(),
        flags: 0,
    };
    domain.av(&mut attributes, Context::null()).context("fi_av_open")
}

fn entries() -> Vec<abi::fi_cq_tagged_entry> {
    let (op_context, buf) = (std::ptr::null_mut(), std::ptr::null_mut());
    vec![abi::fi_cq_tagged_entry { op_context, flags: 0, len: 0, buf, data: 0, tag: 0 }; BATCH]
}

/// A datagram with this first byte.
fn numbered(number: u8, size: usize) -> Mem {
    let mem = Mem::zeroed(size);
    mem.write(0, &[number]);
    mem
}

impl Datagrams for FabricDatagrams {
    type Pending = Self;

    fn open(opening: &Opening, local: IpAddr) -> anyhow::Result<Self> {
        let info = offer(&opening.provider, local)?;
        let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
        let domain = fabric.domain(&info, Context::null()).context("fi_domain")?;
        let queue = || queue::open(&domain, QUEUE);
        let (av, sent_queue, received_queue) = (vector(&domain)?, queue()?, queue()?);
        let ep = domain.endpoint(&info, Context::null()).context("fi_endpoint")?;
        ep.bind(&sent_queue, abi::FI_TRANSMIT).context("fi_ep_bind")?;
        ep.bind(&received_queue, abi::FI_RECV).context("fi_ep_bind")?;
        ep.bind(&av, 0).context("fi_ep_bind of the address vector")?;
        ep.enable().context("fi_enable")?;
        let injects = info.tx().inject_size >= opening.size;
        let mut end = Self {
            ep,
            av,
            sent_queue,
            received_queue,
            to: abi::FI_ADDR_UNSPEC,
            injects,
            from: (0..=u8::MAX).map(|number| numbered(number, opening.size)).collect(),
            under_way: 0,
            sent: 0,
            posted: VecDeque::with_capacity(RECEIVES),
            entries: entries(),
            _parents: (fabric, domain),
        };
        for _ in 0..RECEIVES.min(info.rx().size) {
            end.post(Mem::zeroed(opening.size), Context::new())?;
        }
        Ok(end)
    }

    fn name(pending: &Self) -> anyhow::Result<Name> {
        Ok(Name(pending.ep.getname(NAME_ROOM).0.context("fi_getname")?))
    }

    fn establish(mut pending: Self, peer: &Name) -> anyhow::Result<Self> {
        pending.to = pending.av.insert(&peer.0).context("fi_av_insert")?;
        Ok(pending)
    }

    /// A single datagram is injected where the provider injects its size.
    #[inline]
    fn send(&mut self, first: u8, more: bool) -> anyhow::Result<bool> {
        let from = self.from[usize::from(first)];
        let answer = if more || self.under_way > 0 || !self.injects {
            if self.under_way == WINDOW {
                return Ok(false);
            }
            let flags = abi::FI_COMPLETION | if more { abi::FI_MORE } else { 0 };
            let sent = self.ep.send_flags(from, self.to, Context::null(), flags);
            self.under_way += usize::from(sent.is_ok());
            sent
        } else {
            let sent = self.ep.inject(from, self.to);
            self.sent += u64::from(sent.is_ok());
            sent
        };
        match answer {
            Err(Errno(abi::FI_EAGAIN)) => Ok(false),
            sent => sent.map(|()| true).context("cannot send a datagram"),
        }
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(u8)) -> anyhow::Result<()> {
        if self.under_way > 0 {
            let count = read(&self.sent_queue, &mut self.entries)?;
            self.under_way -= count;
            self.sent += count as u64;
        }
        let count = read(&self.received_queue, &mut self.entries)?;
        for index in 0..count {
            let context = self.entries[index].op_context;
            let place = self.posted.iter().position(|(_, posted)| posted.ptr() == context);
            let place = place.context("a completion without a receive")?;
            let (buffer, context) = self.posted.remove(place).context("no such receive")?;
            sink(buffer.byte(0));
            self.post(buffer, context)?;
        }
        Ok(())
    }

    fn sent(&self) -> u64 {
        self.sent
    }
}

impl FabricDatagrams {
    #[inline]
    fn post(&mut self, buffer: Mem, context: Context) -> anyhow::Result<()> {
        self.ep.recv(buffer, abi::FI_ADDR_UNSPEC, context).context("fi_recv")?;
        self.posted.push_back((buffer, context));
        Ok(())
    }
}

/// The number of completions in a queue, up to [`BATCH`].
#[inline]
fn read(queue: &Cq, entries: &mut [abi::fi_cq_tagged_entry]) -> anyhow::Result<usize> {
    match queue.read_into(entries) {
        Err(Errno(abi::FI_EAGAIN)) => Ok(0),
        count => count.context("fi_cq_read"),
    }
}

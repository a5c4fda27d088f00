// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_endpoint(3)`, "Scalable endpoints", and `fi_av(3)`, `fi_rx_addr`: several transmit and
//! receive contexts at one address.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Av, Completion, Context, Cq, Domain, Ep, Errno, Fid, Info, Mem, rx_addr};
use crate::group::{Group, NAME_ROOM, av_attr, cq_attr};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World, not_offered, refused};

tests! { "fi_scalable_ep":
    limits_of_contexts
    contexts_have_classes_and_indices
    attributes_of_a_context
    contexts_have_the_address_of_their_endpoint
    a_message_reaches_the_context_that_it_names
    an_unnamed_message_reaches_the_first_context
    a_plain_endpoint_talks_with_a_scalable_one
    remote_memory_is_reached_through_every_context
    a_context_has_one_direction
    a_context_needs_the_vector_and_a_queue
    contexts_that_are_not_there_are_refused
    a_scalable_endpoint_with_contexts_is_busy
    contexts_are_opened_again
    threads_with_a_context_each
}

const CAPS: u64 = abi::FI_MSG | abi::FI_RMA | abi::FI_NAMED_RX_CTX | abi::FI_SOURCE;
/// Bits of an address that name a context.
const BITS: u32 = 7;
const COUNT: usize = 3;

fn setup() -> Setup {
    Setup { caps: CAPS, ..Setup::default() }
}

/// A group of plain endpoints on offers with contexts.
fn plain(world: &World) -> Result<Group> {
    let group = world.group(&setup())?;
    let domain = group.info.domain();
    if domain.max_ep_tx_ctx < COUNT || domain.max_ep_rx_ctx < COUNT {
        return not_offered("max_ep_tx_ctx and max_ep_rx_ctx are less than 3");
    }
    Ok(group)
}

fn counted(info: &Info, count: usize) -> Info {
    let info = info.dup();
    info.set_ep(|ep| (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (count, count));
    info
}

/// A vector with room for contexts in its addresses.
fn vector(domain: &Domain) -> Result<Av> {
    let mut attr = av_attr(abi::FI_AV_UNSPEC);
    attr.rx_ctx_bits = BITS as i32;
    domain.av(&mut attr, Context::null()).context("fi_av_open with rx_ctx_bits")
}

/// A scalable endpoint with all its contexts, each with a queue.
struct Scalable {
    av: Av,
    sep: Ep,
    tx: Vec<(Ep, Cq)>,
    rx: Vec<(Ep, Cq)>,
    name: Vec<u8>,
}

fn queue(domain: &Domain) -> Result<Cq> {
    domain.cq(&mut cq_attr(&setup()), Context::null()).context("fi_cq_open")
}

impl Scalable {
    fn open(domain: &Domain, info: &Info, count: usize) -> Result<Self> {
        let sep = domain.scalable_ep(&counted(info, count)).context("fi_scalable_ep")?;
        let av = vector(domain)?;
        sep.bind(&av, 0).context("fi_scalable_ep_bind")?;
        let (mut tx, mut rx) = (Vec::new(), Vec::new());
        for index in 0..count as i32 {
            tx.push((sep.tx_context(index, None).context("fi_tx_context")?, queue(domain)?));
            rx.push((sep.rx_context(index, None).context("fi_rx_context")?, queue(domain)?));
        }
        for (sides, flag) in [(&tx, abi::FI_TRANSMIT), (&rx, abi::FI_RECV)] {
            for (ep, cq) in sides {
                ep.bind(cq, flag).context("fi_ep_bind of a queue")?;
                ep.enable().context("fi_enable of a context")?;
            }
        }
        sep.enable().context("fi_enable")?;
        let name = sep.getname(NAME_ROOM).0.context("fi_getname")?;
        Ok(Self { av, sep, tx, rx, name })
    }

    fn close(&self) -> Result<()> {
        for (ep, cq) in self.rx.iter().chain(&self.tx) {
            ep.close()?;
            cq.close()?;
        }
        self.sep.close()?;
        Ok(self.av.close()?)
    }
}

/// Two scalable endpoints that know each other.
struct Both {
    group: Group,
    a: Scalable,
    b: Scalable,
    to_b: u64,
    to_a: u64,
}

impl Both {
    fn open(world: &World, count: usize) -> Result<Self> {
        let group = plain(world)?;
        let a = Scalable::open(&group.a().domain, &group.info, count)?;
        let there =
            |world: &World| Scalable::open(&group.b().domain, &world.offer(&setup())?, count);
        let b = match &world.other {
            Some(host) => host.run(|| there(&world.at(host)))?,
            None => there(world)?,
        };
        let (to_b, to_a) = (a.av.insert(&b.name)?, b.av.insert(&a.name)?);
        Ok(Self { group, a, b, to_b, to_a })
    }

    /// The next completion of `cq`; all other queues make progress.
    fn next(&self, cq: &Cq) -> Result<Completion> {
        let end = Instant::now() + EVENT_TIMEOUT;
        loop {
            match cq.readfrom(1) {
                Ok(done) => return Ok(done[0]),
                Err(Errno(abi::FI_EAGAIN)) => ensure!(Instant::now() < end, "no completion"),
                Err(errno) => return Err(errno).context("fi_cq_readfrom"),
            }
            self.group.step()?;
            for side in [&self.a.tx, &self.a.rx, &self.b.tx, &self.b.rx] {
                side.iter().try_for_each(|(_, cq)| match cq.progress() {
                    Ok(_) | Err(Errno(abi::FI_EAGAIN)) => Ok(()),
                    Err(errno) => Err(errno),
                })?;
            }
        }
    }

    /// Transmit context `from` of a sends to `to`, which is receive context `index` of b.
    fn exchange(&self, from: usize, to: u64, index: usize) -> Result<()> {
        let (send, receive) = (Context::new(), Context::new());
        let (mem, into) = (Mem::pattern(100, (from * 8 + index) as u8), Mem::zeroed(100));
        let (sends, sent) = &self.a.tx[from];
        let (receives, received) = &self.b.rx[index];
        receives.recv(into, FI_ADDR_UNSPEC, receive)?;
        sends.send(mem, to, send)?;
        let done = self.next(received)?;
        ensure!(done.context == receive.ptr(), "{done:?}: of another receive");
        ensure!(into.bytes() == mem.bytes(), "other bytes arrived");
        ensure!(done.from == self.to_a, "{done:?}: the source is the scalable endpoint");
        ensure!(self.next(sent)?.context == send.ptr(), "of another send");
        Ok(())
    }

    fn close(&self) -> Result<()> {
        self.a.close()?;
        self.b.close()?;
        self.group.close()
    }
}

/// Sections `tx_ctx_cnt`, `max_ep_tx_ctx` and their kin: counts up to the limit, and none beyond.
fn limits_of_contexts(world: &World) -> Result<()> {
    let group = plain(world)?;
    let most = group.info.domain();
    ensure!(group.info.ep().tx_ctx_cnt == 1 && group.info.ep().rx_ctx_cnt == 1, "defaults");
    let hints = world.hints(&setup());
    hints.set_ep(|ep| (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (most.max_ep_tx_ctx, 2));
    let info = &world.offers(abi::VERSION, &hints)?[0];
    ensure!(info.ep().tx_ctx_cnt >= most.max_ep_tx_ctx && info.ep().rx_ctx_cnt >= 2, "counts");
    hints.set_ep(|ep| ep.rx_ctx_cnt = most.max_ep_rx_ctx + 1);
    refused(world.offers(abi::VERSION, &hints), &[abi::FI_ENODATA], "rx_ctx_cnt")?;
    let beyond = counted(&group.info, most.max_ep_tx_ctx + 1);
    refused(group.a().domain.scalable_ep(&beyond), &[abi::FI_EINVAL], "tx_ctx_cnt")?;
    let several = counted(&group.info, 2);
    let answer = group.a().domain.endpoint(&several, Context::null());
    refused(answer, &[abi::FI_EINVAL], "fi_endpoint with several contexts")?;
    let sep = group.a().domain.scalable_ep(&counted(&group.info, most.max_ep_rx_ctx))?;
    let last = most.max_ep_rx_ctx as i32 - 1;
    sep.tx_context(last, None)?.close()?;
    sep.rx_context(last, None)?.close()?;
    sep.close()?;
    group.close()
}

/// Sections `fi_tx_context`, `fi_rx_context`: a context is known by its index.
fn contexts_have_classes_and_indices(world: &World) -> Result<()> {
    let group = plain(world)?;
    let (domain, info) = (&group.a().domain, counted(&group.info, COUNT));
    let sep = domain.scalable_ep(&info)?;
    ensure!(sep.class() == abi::FI_CLASS_SEP as usize, "class {}", sep.class());
    let (tx, rx) = (sep.tx_context(2, None)?, sep.rx_context(2, None)?);
    ensure!(tx.class() == abi::FI_CLASS_TX_CTX as usize, "class {}", tx.class());
    ensure!(rx.class() == abi::FI_CLASS_RX_CTX as usize, "class {}", rx.class());
    for index in [-1, COUNT as i32] {
        refused(sep.tx_context(index, None), &[abi::FI_EINVAL], "transmit index")?;
        refused(sep.rx_context(index, None), &[abi::FI_EINVAL], "receive index")?;
    }
    let refusals = [abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EINVAL, abi::FI_EOPBADSTATE];
    let send = sep.send(Mem::zeroed(8), 0, Context::null());
    refused(send, &refusals, "a send on the scalable endpoint")?;
    tx.close()?;
    rx.close()?;
    sep.close()?;
    group.close()
}

/// Section `fi_tx_context`: attributes within those of the endpoint; the actual ones come back.
fn attributes_of_a_context(world: &World) -> Result<()> {
    let group = plain(world)?;
    let sep = group.a().domain.scalable_ep(&counted(&group.info, COUNT))?;
    let none = Info::empty();
    let mut tx = abi::fi_tx_attr { size: 16, ..none.tx() };
    let mut rx = abi::fi_rx_attr { size: 16, ..none.rx() };
    let contexts = [sep.tx_context(0, Some(&mut tx))?, sep.rx_context(0, Some(&mut rx))?];
    ensure!(tx.size >= 16 && tx.caps & abi::FI_MSG != 0 && tx.iov_limit > 0, "{tx:?}");
    ensure!(rx.size >= 16 && rx.caps & abi::FI_MSG != 0 && rx.iov_limit > 0, "{rx:?}");
    let mut beyond = abi::fi_tx_attr { iov_limit: 1 << 20, ..none.tx() };
    refused(sep.tx_context(1, Some(&mut beyond)), &[abi::FI_EINVAL], "iov_limit")?;
    contexts.iter().try_for_each(Fid::close)?;
    sep.close()?;
    group.close()
}

/// Section `fi_scalable_ep_bind`: one transport address for all contexts.
fn contexts_have_the_address_of_their_endpoint(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    for (ep, _) in both.b.tx.iter().chain(&both.b.rx) {
        ensure!(ep.getname(NAME_ROOM).0? == both.b.name, "another address");
    }
    let named = rx_addr(both.to_b, 2, BITS);
    ensure!(both.a.av.lookup(named, NAME_ROOM)?.0 == both.b.name, "another address in the vector");
    both.close()
}

/// `fi_rx_addr`: every transmit context reaches every receive context.
fn a_message_reaches_the_context_that_it_names(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    for (from, index) in (0..COUNT).flat_map(|from| (0..COUNT).map(move |index| (from, index))) {
        both.exchange(from, rx_addr(both.to_b, index as u64, BITS), index)?;
    }
    both.close()
}

/// Section `fi_rx_context`: an address that names no context is that of the first one.
fn an_unnamed_message_reaches_the_first_context(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    both.exchange(0, both.to_b, 0)?;
    both.exchange(2, both.to_b, 0)?;
    both.close()
}

/// Both directions; the source is the address of the scalable endpoint.
fn a_plain_endpoint_talks_with_a_scalable_one(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    let a = both.group.a();
    let (to_scalable, to_plain) = (a.av.insert(&both.b.name)?, both.b.av.insert(&a.name()?)?);
    let (send, receive) = (Context::new(), Context::new());
    both.b.rx[0].0.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive)?;
    a.ep.send(Mem::zeroed(8), to_scalable, send)?;
    let done = both.next(&both.b.rx[0].1)?;
    ensure!((done.context, done.from) == (receive.ptr(), to_plain), "{done:?}");
    both.group.done(a, send)?;
    a.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive)?;
    both.b.tx[1].0.send(Mem::zeroed(8), to_plain, send)?;
    ensure!(both.next(&both.b.tx[1].1)?.context == send.ptr(), "of another send");
    both.group.done(a, receive)?;
    both.close()
}

/// Remote memory access names contexts, too.
fn remote_memory_is_reached_through_every_context(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    let b = both.group.b();
    let access = abi::FI_REMOTE_WRITE | abi::FI_REMOTE_READ;
    let region = b.expose(&both.group.info, Mem::zeroed(64), access, 7)?;
    for (index, (ep, cq)) in both.a.tx.iter().enumerate() {
        let at = region.remote(rx_addr(both.to_b, index as u64, BITS));
        let (from, into) = (Mem::pattern(64, index as u8), Mem::zeroed(64));
        ep.write(from, at, Context::null())?;
        both.next(cq)?;
        ep.read(into, at, Context::null())?;
        both.next(cq)?;
        ensure!(into.bytes() == from.bytes(), "{index}: other bytes");
    }
    region.mr.close()?;
    both.close()
}

/// Sections `fi_tx_context`, `fi_rx_context`: a send-only and a receive-only endpoint.
fn a_context_has_one_direction(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EINVAL];
    let (tx, rx) = (&both.a.tx[0].0, &both.a.rx[0].0);
    let receive = tx.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null());
    refused(receive, &errors, "a receive on a transmit context")?;
    let send = rx.send(Mem::zeroed(8), both.to_b, Context::null());
    refused(send, &errors, "a send on a receive context")?;
    let domain = &both.group.a().domain;
    let sep = domain.scalable_ep(&counted(&both.group.info, COUNT))?;
    let (tx, cq) = (sep.tx_context(0, None)?, queue(domain)?);
    refused(tx.bind(&cq, abi::FI_RECV), &errors, "a receive queue of a transmit context")?;
    tx.close()?;
    cq.close()?;
    sep.close()?;
    both.close()
}

/// Section `fi_enable`: a context has the needs of an endpoint.
fn a_context_needs_the_vector_and_a_queue(world: &World) -> Result<()> {
    let group = plain(world)?;
    let domain = &group.a().domain;
    let sep = domain.scalable_ep(&counted(&group.info, COUNT))?;
    let (rx, cq, av) = (sep.rx_context(1, None)?, queue(domain)?, vector(domain)?);
    refused(rx.enable(), &[abi::FI_ENOAV, abi::FI_ENOCQ], "without vector and queue")?;
    sep.bind(&av, 0)?;
    refused(rx.enable(), &[abi::FI_ENOCQ], "without a queue")?;
    rx.bind(&cq, abi::FI_RECV)?;
    rx.enable()?;
    rx.close()?;
    sep.close()?;
    av.close()?;
    cq.close()?;
    group.close()
}

/// `fi_rx_addr`: an index beyond every limit, and an address that was removed.
fn contexts_that_are_not_there_are_refused(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    let send = |to| both.a.tx[0].0.send(Mem::zeroed(8), to, Context::null());
    refused(send(rx_addr(both.to_b, 127, BITS)), &[abi::FI_EINVAL], "context 127")?;
    both.exchange(0, rx_addr(both.to_b, 1, BITS), 1)?;
    both.a.av.remove(&[both.to_b])?;
    refused(send(rx_addr(both.to_b, 1, BITS)), &[abi::FI_EINVAL], "a removed address")?;
    let mut attr = av_attr(abi::FI_AV_UNSPEC);
    attr.rx_ctx_bits = 64;
    let answer = both.group.a().domain.av(&mut attr, Context::null());
    refused(answer, &[abi::FI_EINVAL], "rx_ctx_bits 64")?;
    both.close()
}

/// Section `fi_close`: contexts close first, in any order.
fn a_scalable_endpoint_with_contexts_is_busy(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    both.exchange(1, rx_addr(both.to_b, 2, BITS), 2)?;
    refused(both.a.sep.close(), &[abi::FI_EBUSY], "open contexts")?;
    both.a.rx[2].0.close()?;
    both.a.tx[0].0.close()?;
    both.exchange(1, rx_addr(both.to_b, 0, BITS), 0)?;
    both.a.tx[1].0.close()?;
    both.a.rx[0].0.close()?;
    both.a.tx[2].0.close()?;
    refused(both.a.sep.close(), &[abi::FI_EBUSY], "one open context")?;
    both.a.rx[1].0.close()?;
    both.a.sep.close()?;
    both.b.close()?;
    both.a.tx.iter().chain(&both.a.rx).try_for_each(|(_, cq)| cq.close())?;
    both.a.av.close()?;
    both.group.close()
}

/// A context that was closed is opened again at its place; while it is open, there is one.
fn contexts_are_opened_again(world: &World) -> Result<()> {
    let mut both = Both::open(world, COUNT)?;
    both.exchange(0, rx_addr(both.to_b, 1, BITS), 1)?;
    both.b.rx[1].0.close()?;
    let reopen = || -> Result<Ep> {
        let again = both.b.sep.rx_context(1, None)?;
        again.bind(&both.b.rx[1].1, abi::FI_RECV)?;
        again.enable()?;
        Ok(again)
    };
    both.b.rx[1].0 = match &world.other {
        Some(host) => host.run(reopen)?,
        None => reopen()?,
    };
    both.exchange(2, rx_addr(both.to_b, 1, BITS), 1)?;
    both.close()
}

/// `fi_domain(3)`, `FI_THREAD_COMPLETION`: contexts with queues of their own need no lock of the
/// application.
fn threads_with_a_context_each(world: &World) -> Result<()> {
    let both = Both::open(world, COUNT)?;
    std::thread::scope(|scope| {
        let one = |index: usize| -> Result<()> {
            let ((sends, sent), (receives, received)) = (&both.a.tx[index], &both.b.rx[index]);
            let to = rx_addr(both.to_b, index as u64, BITS);
            for turn in 0..200_u8 {
                let (mem, into) = (Mem::pattern(64, turn), Mem::zeroed(64));
                receives.recv(into, FI_ADDR_UNSPEC, Context::null())?;
                sends.send(mem, to, Context::null())?;
                let (mut open, end) = (2, Instant::now() + EVENT_TIMEOUT);
                while open > 0 {
                    for cq in [sent, received] {
                        match cq.read(1) {
                            Ok(_) => open -= 1,
                            Err(Errno(abi::FI_EAGAIN)) => {}
                            Err(errno) => return Err(errno).context("fi_cq_read"),
                        }
                    }
                    ensure!(Instant::now() < end, "context {index}: no completion");
                }
                ensure!(into.bytes() == mem.bytes(), "context {index}: other bytes");
            }
            Ok(())
        };
        let threads: Vec<_> = (0..COUNT).map(|index| scope.spawn(move || one(index))).collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })?;
    both.close()
}

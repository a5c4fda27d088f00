// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_endpoint(3)`, section "Shared contexts", `fi_srx_context`, `fi_stx_context`.

mod members;
mod multi_recv;
mod shared;

use anyhow::{Context as _, Result, bail, ensure};

use self::members::{
    a_multi_receive_buffer_outlives_a_connected_endpoint,
    endpoints_come_and_go_while_messages_arrive,
};
use self::multi_recv::{
    a_multi_receive_buffer_is_given_back_to_an_endpoint_with_a_queue,
    a_multi_receive_buffer_outlives_its_endpoints, a_multi_receive_buffer_serves_every_endpoint,
    a_multi_receive_buffer_waits_for_the_end_of_a_close,
};
use self::shared::{CAPS, Shared, next};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Errno, Event, Fid, Mem, Message, Tagged};
use crate::group::{NAME_ROOM, cq_attr};
use crate::runner::tests;
use crate::world::{Setup, World, not_offered, optional, refused};

tests! { "fi_srx_context":
    hints_for_a_shared_context_are_answered
    the_object_has_its_class_and_context
    receives_serve_every_endpoint
    receives_are_used_in_posting_order
    tags_match_at_any_endpoint
    messages_that_came_first_are_received_in_order
    long_messages_arrive
    a_stream_to_several_endpoints_arrives_once_and_in_order
    completions_go_to_the_receiving_endpoint
    counters_count_at_the_receiving_endpoint
    selective_completion_is_the_endpoints
    a_directed_receive_waits_for_its_source
    a_multi_receive_buffer_serves_every_endpoint
    a_multi_receive_buffer_outlives_its_endpoints
    a_multi_receive_buffer_waits_for_the_end_of_a_close
    a_multi_receive_buffer_is_given_back_to_an_endpoint_with_a_queue
    a_multi_receive_buffer_outlives_a_connected_endpoint
    endpoints_come_and_go_while_messages_arrive
    a_cancelled_receive_is_reported
    a_peek_sees_the_messages_of_every_endpoint
    a_full_context_says_again
    size_left_counts_down
    min_multi_recv_is_the_contexts
    closing_it_with_endpoints_bound_is_busy
    closing_an_endpoint_leaves_its_receives_to_the_others
    endpoints_of_different_vectors_are_refused
    enable_without_the_shared_context_is_refused
    a_bound_endpoint_takes_no_receives_of_its_own
    sending_from_a_receive_context_is_refused
    a_transmit_context_in_use_is_busy
}

/// `fi_endpoint(3)`, `rx_ctx_cnt` and `tx_ctx_cnt`: `FI_SHARED_CONTEXT`, granted or no data.
fn hints_for_a_shared_context_are_answered(world: &World) -> Result<()> {
    let hints = world.hints(&Setup::default());
    hints.set_ep(|ep| (ep.rx_ctx_cnt, ep.tx_ctx_cnt) = (usize::MAX, usize::MAX));
    let offers = match world.offers(abi::VERSION, &hints) {
        Err(Errno(abi::FI_ENODATA)) => return not_offered("FI_SHARED_CONTEXT"),
        offers => offers?,
    };
    for offer in offers {
        let (ep, domain) = (offer.ep(), offer.domain());
        ensure!(ep.rx_ctx_cnt == usize::MAX && ep.tx_ctx_cnt == usize::MAX, "{ep:?}");
        ensure!(domain.max_ep_srx_ctx > 0 && domain.max_ep_stx_ctx > 0, "{domain:?}");
    }
    Ok(())
}

/// Section `fi_srx_context`: an object of its own class.
fn the_object_has_its_class_and_context(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 0)?;
    ensure!(shared.srx.class() == abi::FI_CLASS_SRX_CTX as usize, "{}", shared.srx.class());
    let info = shared.group.info.dup();
    if info.domain().max_ep_stx_ctx > 0 {
        let stx = shared.group.a().domain.stx(Some(&info))?;
        ensure!(stx.class() == abi::FI_CLASS_STX_CTX as usize, "{}", stx.class());
        stx.close()?;
    }
    shared.close()
}

/// Section "Shared contexts": its buffers are usable by any endpoint bound to it.
fn receives_serve_every_endpoint(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 4)?;
    for to in [3, 0, 2, 1, 1, 3] {
        let (into, context) = (Mem::zeroed(100), Context::new());
        shared.recv(into, context)?;
        shared.send(Mem::pattern(100, to as u8), to)?;
        let done = shared.done(context)?;
        ensure!(done.len == 100 && done.flags & abi::FI_RECV != 0, "{done:?}");
        ensure!(into.bytes() == Mem::pattern(100, to as u8).bytes(), "other bytes");
    }
    shared.expect_no_event()?;
    shared.close()
}

/// `fi_msg(3)`: receives are matched in the order in which they were posted, wherever.
fn receives_are_used_in_posting_order(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    let posted: Vec<_> = (0..10).map(|_| (Mem::zeroed(8), Context::new())).collect();
    posted.iter().try_for_each(|&(into, context)| shared.recv(into, context))?;
    for (index, &(into, context)) in posted.iter().enumerate() {
        shared.send(Mem::pattern(8, index as u8), index % 2)?;
        shared.done(context).with_context(|| format!("receive {index}"))?;
        ensure!(into.bytes() == Mem::pattern(8, index as u8).bytes(), "bytes of {index}");
    }
    shared.close()
}

/// `fi_tagged(3)`: the first posted receive with a matching tag is taken; untagged receives do not
/// match.
fn tags_match_at_any_endpoint(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    let [plain, seven, any] = [Context::new(), Context::new(), Context::new()];
    shared.recv(Mem::zeroed(8), plain)?;
    shared.trecv(Mem::zeroed(8), 7, seven)?;
    let group = &shared.group;
    group.post(|| shared.srx.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 0, u64::MAX, any))?;
    shared.tsend(Mem::zeroed(8), 1, 9)?;
    ensure!(shared.done(any)?.tag == 9, "tag");
    shared.tsend(Mem::zeroed(8), 0, 7)?;
    ensure!(shared.done(seven)?.tag == 7, "tag");
    shared.expect_no_event()?;
    shared.send(Mem::zeroed(8), 1)?;
    shared.done(plain)?;
    shared.close()
}

/// `fi_msg(3)`: messages of one peer are received in order, also those that came first.
fn messages_that_came_first_are_received_in_order(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    for index in 0..20_u8 {
        shared.send(Mem::pattern(50, index), usize::from(index >= 10))?;
    }
    shared.expect_no_event()?;
    let mut from = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        let (into, context) = (Mem::zeroed(50), Context::new());
        shared.recv(into, context)?;
        shared.done(context)?;
        let seed = into.byte(0);
        ensure!(into.bytes() == Mem::pattern(50, seed).bytes(), "other bytes");
        from[usize::from(seed >= 10)].push(seed);
    }
    let wanted = [(0..10).collect::<Vec<u8>>(), (10..20).collect()];
    ensure!(from == wanted, "{from:?}");
    shared.close()
}

/// Messages of every size arrive in shared receives.
fn long_messages_arrive(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    for (round, len) in [0, 2000, 33_000, 3_000_000].into_iter().enumerate() {
        let from = Mem::pattern(len, round as u8);
        for first in [true, false] {
            let (into, receive, send) = (Mem::zeroed(len), Context::new(), Context::new());
            if first {
                shared.recv(into, receive)?;
            }
            let to = shared.to[round % 2];
            shared.group.post(|| shared.group.a().ep.send(from, to, send))?;
            if !first {
                shared.progress_a_while()?;
                shared.recv(into, receive)?;
            }
            ensure!(shared.done(receive)?.len == len, "{len}");
            shared.sent(send)?;
            ensure!(into.bytes() == from.bytes(), "other bytes of {len}");
        }
    }
    shared.close()
}

/// Both together: more messages than receives, to endpoints in turn.
fn a_stream_to_several_endpoints_arrives_once_and_in_order(world: &World) -> Result<()> {
    const EACH: usize = 400;
    const EPS: usize = 3;
    let shared = Shared::open(world, CAPS, EPS)?;
    let slots: Vec<_> = (0..16).map(|_| (Mem::zeroed(16), Context::new())).collect();
    for &(into, context) in &slots {
        shared.recv(into, context)?;
    }
    let (mut sent, mut seen) = (0, [0_u64; EPS]);
    while seen.iter().sum::<u64>() < (EACH * EPS) as u64 {
        for _ in 0..8 {
            if sent == EACH * EPS {
                break;
            }
            let (to, number) = (sent % EPS, (sent / EPS) as u64);
            let from = Mem::of(&[(to as u64).to_ne_bytes(), number.to_ne_bytes()].concat());
            match shared.group.a().ep.send(from, shared.to[to], Context::null()) {
                Ok(()) => sent += 1,
                Err(Errno(abi::FI_EAGAIN)) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        shared.group.a().cq.read(16).ok();
        let Ok(Event::Done(done)) = shared.cq.event() else { continue };
        let slot = slots.iter().find(|(_, context)| context.ptr() == done.context);
        let &(into, context) = slot.context("an unknown context")?;
        let bytes = into.bytes();
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (to, number) = (word(0) as usize, word(8));
        ensure!(seen[to] == number, "message {number} of {to}, not {}", seen[to]);
        seen[to] += 1;
        shared.recv(into, context)?;
    }
    shared.close()
}

/// Section "Shared contexts": completed receives are in the queue of the endpoint.
fn completions_go_to_the_receiving_endpoint(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 1)?;
    let other = shared.group.b().domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    let ep = shared.unbound()?;
    ep.bind(&other, abi::FI_TRANSMIT | abi::FI_RECV)?;
    shared.enable(ep)?;
    let (first, second) = (Context::new(), Context::new());
    shared.recv(Mem::zeroed(8), first)?;
    shared.recv(Mem::zeroed(8), second)?;
    shared.send(Mem::zeroed(8), 1)?;
    let Event::Done(done) = next(&shared.group, &other)? else { bail!("an error") };
    ensure!(done.context == first.ptr(), "{done:?}");
    shared.send(Mem::zeroed(8), 0)?;
    shared.done(second)?;
    shared.eps.iter().try_for_each(Fid::close)?;
    shared.eps.clear();
    other.close()?;
    shared.close()
}

/// Counters count at the receiving endpoint.
fn counters_count_at_the_receiving_endpoint(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 0)?;
    let domain = std::sync::Arc::clone(&shared.group.b().domain);
    let mut cntrs = Vec::new();
    for _ in 0..2 {
        let (ep, cntr) = (shared.unbound()?, optional(domain.cntr(), "fi_cntr_open")?);
        ep.bind(&shared.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        ep.bind(&cntr, abi::FI_RECV)?;
        shared.enable(ep)?;
        cntrs.push(cntr);
    }
    for to in [0, 1, 1] {
        let context = Context::new();
        shared.recv(Mem::zeroed(8), context)?;
        shared.send(Mem::zeroed(8), to)?;
        shared.done(context)?;
    }
    ensure!((cntrs[0].read(), cntrs[1].read()) == (1, 2), "counts");
    shared.eps.iter().try_for_each(Fid::close)?;
    shared.eps.clear();
    cntrs.iter().try_for_each(Fid::close)?;
    shared.close()
}

/// `FI_SELECTIVE_COMPLETION` is a property of the binding between queue and endpoint.
fn selective_completion_is_the_endpoints(world: &World) -> Result<()> {
    let setup = Setup { bind: abi::FI_SELECTIVE_COMPLETION, ..Setup::caps(CAPS) };
    let mut shared = Shared::with(world, &setup, 1, |_| {})?;
    let (silent, signalled) = (Mem::zeroed(8), Context::new());
    shared.recv(silent, Context::new())?;
    let message = Message::new(Mem::zeroed(8), FI_ADDR_UNSPEC, signalled);
    shared.group.post(|| shared.srx.recvmsg(&message, abi::FI_COMPLETION))?;
    for seed in [1, 2] {
        let message = Message::new(Mem::pattern(8, seed), shared.to[0], Context::new());
        shared.group.post(|| shared.group.a().ep.sendmsg(&message, abi::FI_COMPLETION))?;
        shared.group.next(shared.group.a())?;
    }
    shared.done(signalled)?;
    ensure!(silent.bytes() == Mem::pattern(8, 1).bytes(), "the first is not there");
    shared.expect_no_event()?;
    shared.close()
}

/// `fi_msg(3)`, `FI_DIRECTED_RECV`: only from that peer.
fn a_directed_receive_waits_for_its_source(world: &World) -> Result<()> {
    let caps = CAPS | abi::FI_DIRECTED_RECV | abi::FI_SOURCE;
    let setup = Setup { nodes: 3, ..Setup::caps(caps) };
    let mut shared = Shared::with(world, &setup, 2, |_| {})?;
    let (only, any) = (Context::new(), Context::new());
    let from_c = shared.group.b().peers[2];
    shared.group.post(|| shared.srx.recv(Mem::zeroed(8), from_c, only))?;
    shared.recv(Mem::zeroed(8), any)?;
    shared.send(Mem::zeroed(8), 0)?;
    let done = shared.done(any)?;
    ensure!(done.from == shared.group.to_a(), "{done:?}");
    let to = shared.group.nodes[2].av.insert(&shared.eps[1].getname(NAME_ROOM).0?)?;
    let send = |shared: &Shared, mem: Mem| {
        shared.group.post(|| shared.group.nodes[2].ep.send(mem, to, Context::new()))
    };
    send(&shared, Mem::zeroed(8))?;
    ensure!(shared.done(only)?.from == from_c, "source");
    // The other order: a message is there, and its receive comes later.
    send(&shared, Mem::pattern(8, 5))?;
    shared.send(Mem::pattern(8, 6), 1)?;
    shared.progress_a_while()?;
    let (into, late) = (Mem::zeroed(8), Context::new());
    shared.group.post(|| shared.srx.recv(into, from_c, late))?;
    shared.done(late)?;
    ensure!(into.bytes() == Mem::pattern(8, 5).bytes(), "from another");
    shared.close()
}

/// Section `fi_cancel`: a receive that nothing has matched ends with `FI_ECANCELED`.
fn a_cancelled_receive_is_reported(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    let [one, two, three] = [Context::new(), Context::new(), Context::new()];
    shared.recv(Mem::zeroed(8), one)?;
    shared.trecv(Mem::zeroed(8), 1, two)?;
    shared.recv(Mem::zeroed(8), three)?;
    optional(shared.srx.cancel(one.ptr()), "fi_cancel of a shared context")?;
    let error = shared.error()?;
    ensure!(error.context == one.ptr() && error.err.0 == abi::FI_ECANCELED, "{error:?}");
    shared.srx.cancel(Context::new().ptr())?;
    shared.expect_no_event()?;
    shared.send(Mem::zeroed(8), 1)?;
    shared.done(three)?;
    shared.tsend(Mem::zeroed(8), 0, 1)?;
    shared.done(two)?;
    shared.close()
}

/// `fi_tagged(3)`, `FI_PEEK`, `FI_CLAIM`, `FI_DISCARD`.
fn a_peek_sees_the_messages_of_every_endpoint(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    let peek = |tag| Tagged::peek(FI_ADDR_UNSPEC, tag, 0, Context::new());
    match shared.srx.trecvmsg(&peek(5), abi::FI_PEEK) {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP | abi::FI_EBADFLAGS | abi::FI_EINVAL)) => {
            return not_offered("FI_PEEK of a shared context");
        }
        posted => posted?,
    }
    ensure!(shared.error()?.err.0 == abi::FI_ENOMSG, "a peek for nothing");
    for tag in [5, 6, 7] {
        shared.tsend(Mem::pattern(30, tag), 1, tag.into())?;
    }
    shared.progress_a_while()?;
    shared.group.post(|| shared.srx.trecvmsg(&peek(5), abi::FI_PEEK))?;
    let found = shared.next()?;
    ensure!((found.len, found.tag) == (30, 5), "{found:?}");
    let claim = peek(6);
    shared.group.post(|| shared.srx.trecvmsg(&claim, abi::FI_PEEK | abi::FI_CLAIM))?;
    shared.done(claim.context)?;
    shared.group.post(|| shared.srx.trecvmsg(&peek(7), abi::FI_PEEK | abi::FI_DISCARD))?;
    shared.next()?;
    let into = Mem::zeroed(30);
    let taken = Tagged::new(into, FI_ADDR_UNSPEC, 6, claim.context);
    shared.group.post(|| shared.srx.trecvmsg(&taken, abi::FI_CLAIM))?;
    shared.done(claim.context)?;
    ensure!(into.bytes() == Mem::pattern(30, 6).bytes(), "another message");
    let (into, last) = (Mem::zeroed(30), Context::new());
    shared.group.post(|| shared.srx.trecv(into, FI_ADDR_UNSPEC, 0, u64::MAX, last))?;
    ensure!(shared.done(last)?.tag == 5, "what was looked at stays");
    shared.close()
}

/// `fi_rx_attr`, size: there is a bound, and `-FI_EAGAIN` at it.
fn a_full_context_says_again(world: &World) -> Result<()> {
    let setup = Setup::caps(CAPS);
    let mut shared = Shared::with(world, &setup, 1, |info| info.set_rx(|rx| rx.size = 16))?;
    let posted: Vec<Context> = (0..16).map(|_| Context::new()).collect();
    for &context in &posted {
        shared.recv(Mem::zeroed(8), context)?;
    }
    let more = (0..100_000)
        .find_map(|_| shared.srx.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null()).err());
    refused(Err::<(), _>(more.context("there is no bound")?), &[abi::FI_EAGAIN], "one more")?;
    shared.send(Mem::zeroed(8), 0)?;
    shared.done(posted[0])?;
    shared.recv(Mem::zeroed(8), Context::new())?;
    shared.close()
}

/// Section `fi_rx_size_left`.
fn size_left_counts_down(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 1)?;
    let left = optional(shared.srx.rx_size_left(), "fi_rx_size_left of a shared context")?;
    ensure!(left > 0, "{left}");
    shared.recv(Mem::zeroed(8), Context::new())?;
    ensure!(shared.srx.rx_size_left()? == left - 1, "it does not count");
    shared.close()
}

/// Section `fi_setopt`: `FI_OPT_MIN_MULTI_RECV`.
fn min_multi_recv_is_the_contexts(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 1)?;
    let (level, name) = (abi::FI_OPT_ENDPOINT, abi::FI_OPT_MIN_MULTI_RECV);
    let value = 4096_usize.to_ne_bytes();
    match shared.srx.setopt(level, name, &value) {
        Err(Errno(abi::FI_ENOSYS | abi::FI_ENOPROTOOPT)) => {
            return not_offered("options of a shared context");
        }
        set => set?,
    }
    ensure!(shared.srx.getopt(level, name, 8)? == value, "another value");
    shared.close()
}

/// Section `fi_close`: `-FI_EBUSY` while endpoints are bound.
fn closing_it_with_endpoints_bound_is_busy(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 1)?;
    refused(shared.srx.close(), &[abi::FI_EBUSY], "a context with an endpoint")?;
    let context = Context::new();
    shared.recv(Mem::zeroed(8), context)?;
    shared.send(Mem::zeroed(8), 0)?;
    shared.done(context)?;
    shared.close()
}

/// Section `fi_close`: receives without a message do not belong to the endpoint.
fn closing_an_endpoint_leaves_its_receives_to_the_others(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS, 2)?;
    let context = Context::new();
    shared.recv(Mem::zeroed(8), context)?;
    let gone = shared.eps.remove(0);
    gone.close()?;
    shared.send(Mem::zeroed(8), 1)?;
    shared.done(context)?;
    shared.close()
}

/// Section "Shared contexts": connectionless endpoints share the address vector, too.
fn endpoints_of_different_vectors_are_refused(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 1)?;
    let b = shared.group.b();
    let av = b.domain.av(&mut crate::group::av_attr(abi::FI_AV_UNSPEC), Context::null())?;
    let ep = b.endpoint(&shared.info)?;
    ep.bind(&av, 0)?;
    ep.bind(&shared.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    let bound = ep.bind(&shared.srx, 0).and_then(|()| ep.enable());
    refused(bound, &[abi::FI_EINVAL, abi::FI_EOPBADSTATE], "another vector")?;
    ep.close()?;
    av.close()?;
    shared.close()
}

/// Section `fi_enable`: the objects for the endpoint's capabilities are bound first.
fn enable_without_the_shared_context_is_refused(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 1)?;
    let ep = shared.group.b().endpoint(&shared.info)?;
    ep.bind(&shared.group.b().av, 0)?;
    ep.bind(&shared.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    let errors = [abi::FI_EOPBADSTATE, abi::FI_EINVAL, abi::FI_ENORX];
    refused(ep.enable(), &errors, "FI_SHARED_CONTEXT without one")?;
    ep.close()?;
    shared.close()
}

/// Section "Shared contexts": an endpoint has one receive context.
fn a_bound_endpoint_takes_no_receives_of_its_own(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 1)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP, abi::FI_EOPBADSTATE];
    let context = Context::new();
    refused(shared.eps[0].recv(Mem::zeroed(8), FI_ADDR_UNSPEC, context), &errors, "fi_recv")?;
    let tagged = shared.eps[0].trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, 0, context);
    refused(tagged, &errors, "fi_trecv")?;
    shared.close()
}

/// The other way round.
fn sending_from_a_receive_context_is_refused(world: &World) -> Result<()> {
    let shared = Shared::open(world, CAPS, 1)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    let to = shared.group.to_a();
    refused(shared.srx.send(Mem::zeroed(8), to, Context::new()), &errors, "fi_send")?;
    refused(shared.srx.tsend(Mem::zeroed(8), to, 1, Context::new()), &errors, "fi_tsend")?;
    shared.close()
}

/// Section `fi_stx_context`, `fi_close`.
fn a_transmit_context_in_use_is_busy(world: &World) -> Result<()> {
    let group = world.pair(CAPS)?;
    if group.info.domain().max_ep_stx_ctx == 0 {
        return not_offered("max_ep_stx_ctx is 0");
    }
    let info = group.info.dup();
    info.set_ep(|ep| ep.tx_ctx_cnt = usize::MAX);
    let a = group.a();
    let stx = optional(a.domain.stx(Some(&info)), "fi_stx_context")?;
    let ep = a.domain.endpoint(&info, Context::null())?;
    ep.bind(&stx, 0)?;
    refused(stx.close(), &[abi::FI_EBUSY], "a context with an endpoint")?;
    refused(ep.bind(&stx, 0), &[abi::FI_EINVAL, abi::FI_EBUSY], "a second context")?;
    ep.close()?;
    // An endpoint with more than the context's attributes is refused: endpoints use a subset of
    // them.
    let less = info.dup();
    less.set_tx(|tx| tx.size = tx.size.min(64));
    let small = a.domain.stx(Some(&less))?;
    let ep = a.domain.endpoint(&info, Context::null())?;
    refused(ep.bind(&small, 0), &[abi::FI_EINVAL], "a larger queue than the context's")?;
    ep.close()?;
    small.close()?;
    stx.close()?;
    group.close()
}

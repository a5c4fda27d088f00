// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_endpoint(3)` and `fi_cm(3)`: endpoints, their options and addresses.

use anyhow::{Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Fid, Mem, Message};
use crate::group::NAME_ROOM;
use crate::runner::tests;
use crate::world::{Setup, World, not_offered, optional, refused};

tests! { "fi_endpoint":
    endpoint_keeps_its_context
    endpoint_takes_a_reduced_info
    enable_without_a_completion_queue_is_refused
    enable_without_an_address_vector_is_refused
    enable_twice_is_harmless_or_refused
    binding_a_queue_for_no_direction_is_refused
    binding_with_unknown_flags_is_refused
    binding_an_object_of_the_wrong_class_is_refused
    one_queue_for_each_direction
    posting_before_enable_is_refused
    receives_may_be_posted_as_soon_as_enabled
    getopt_min_multi_recv
    getopt_of_every_option_answers
    getopt_of_an_unknown_option_is_refused
    setopt_of_an_unknown_option_is_refused
    setopt_of_another_level_is_refused
    size_left_is_a_number_or_not_offered
    alias_has_its_own_flags
    op_flags_can_be_read
    op_flags_can_be_set
    contexts_of_a_plain_endpoint_are_refused
    shared_receive_context_serves_two_endpoints
    shared_transmit_context_serves_two_endpoints
    closing_with_receives_posted
    closing_with_sends_outstanding
    several_endpoints_of_one_domain
    many_endpoints
    transmit_only_endpoint_has_no_receive_queue
    getname_tells_the_address
    getname_too_small_tells_the_length
    setname_is_done_or_refused
    connection_calls_are_refused
    barrier_is_refused_without_collectives
}

/// Section `fi_endpoint`, context: it is in the object.
fn endpoint_keeps_its_context(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let context = Context::new();
    let ep = group.a().domain.endpoint(&group.info, context)?;
    ensure!(ep.user_context() == context.ptr(), "another context");
    ensure!(ep.class() == abi::FI_CLASS_EP as usize, "class {}", ep.class());
    ep.close()?;
    group.close()
}

/// Section `fi_endpoint`: an application may ask for less than it was offered.
fn endpoint_takes_a_reduced_info(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG | abi::FI_TAGGED)?;
    let info = group.info.dup();
    let less = abi::FI_TAGGED | abi::FI_SEND | abi::FI_RECV;
    info.set(|info| info.caps = less);
    info.set_tx(|tx| (tx.caps, tx.op_flags, tx.mode) = (abi::FI_TAGGED | abi::FI_SEND, 0, 0));
    info.set_rx(|rx| (rx.caps, rx.op_flags, rx.mode) = (abi::FI_TAGGED | abi::FI_RECV, 0, 0));
    let ep = group.a().domain.endpoint(&info, Context::null())?;
    ep.close()?;
    group.close()
}

/// Section `fi_enable`: a direction without a queue.
fn enable_without_a_completion_queue_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = group.a().domain.endpoint(&group.info, Context::null())?;
    ep.bind(&group.a().av, 0)?;
    refused(ep.enable(), &[abi::FI_ENOCQ, abi::FI_EOPBADSTATE], "no completion queue")?;
    ep.close()?;
    group.close()
}

/// Section `fi_enable`: a connectionless endpoint needs an address vector.
fn enable_without_an_address_vector_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = group.a().domain.endpoint(&group.info, Context::null())?;
    ep.bind(&group.a().cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    refused(ep.enable(), &[abi::FI_ENOAV, abi::FI_EOPBADSTATE], "no address vector")?;
    ep.close()?;
    group.close()
}

/// Section `fi_enable`: an enabled endpoint stays enabled.
fn enable_twice_is_harmless_or_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    if let Err(errno) = group.a().ep.enable() {
        let errors = [abi::FI_EOPBADSTATE, abi::FI_EINVAL, abi::FI_EBUSY];
        ensure!(errors.contains(&errno.0), "{errno}");
    }
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_ep_bind`: a queue is bound for a direction.
fn binding_a_queue_for_no_direction_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = group.a().domain.endpoint(&group.info, Context::null())?;
    let errors = [abi::FI_EINVAL, abi::FI_EBADFLAGS];
    refused(ep.bind(&group.a().cq, 0), &errors, "flags 0")?;
    ep.close()?;
    group.close()
}

/// Section `fi_ep_bind`: unknown flags.
fn binding_with_unknown_flags_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = group.a().domain.endpoint(&group.info, Context::null())?;
    let errors = [abi::FI_EINVAL, abi::FI_EBADFLAGS];
    let flags = abi::FI_TRANSMIT | abi::FI_RECV | 1 << 37;
    refused(ep.bind(&group.a().cq, flags), &errors, "bit 37")?;
    ep.close()?;
    group.close()
}

/// Section `fi_ep_bind`: an object that cannot be bound.
fn binding_an_object_of_the_wrong_class_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = group.a().domain.endpoint(&group.info, Context::null())?;
    let errors = [abi::FI_EINVAL, abi::FI_ENOSYS];
    refused(ep.bind(&group.b().ep, abi::FI_TRANSMIT), &errors, "an endpoint")?;
    refused(ep.bind(&group.fabric, 0), &errors, "a fabric")?;
    ep.close()?;
    group.close()
}

/// Section `fi_ep_bind`: transmit and receive completions in queues of their own.
fn one_queue_for_each_direction(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (a, info) = (group.a(), &group.info);
    let attr = || crate::group::cq_attr(&Setup::default());
    let (tx, rx) =
        (a.domain.cq(&mut attr(), Context::null())?, a.domain.cq(&mut attr(), Context::null())?);
    let ep = a.domain.endpoint(info, Context::null())?;
    ep.bind(&tx, abi::FI_TRANSMIT)?;
    ep.bind(&rx, abi::FI_RECV)?;
    ep.bind(&a.av, 0)?;
    ep.enable()?;
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| ep.send(Mem::zeroed(8), group.to_b(), send))?;
    let read = |cq: &crate::fi::Cq| {
        group.until("a completion", || match cq.read(1) {
            Err(crate::fi::Errno(abi::FI_EAGAIN)) => Ok(None),
            answer => Ok(Some(answer?)),
        })
    };
    ensure!(read(&tx)?[0].context == send.ptr(), "another completion");
    group.next(group.b())?;
    let own = ep.getname(NAME_ROOM).0?;
    let to_it = group.b().av.insert(&own)?;
    group.post(|| ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.b().ep.send(Mem::zeroed(8), to_it, Context::new()))?;
    ensure!(read(&rx)?[0].context == receive.ptr(), "another completion");
    ensure!(tx.read(1).is_err(), "a receive in the transmit queue");
    for object in [&ep as &dyn Fid, &tx, &rx] {
        object.close()?;
    }
    group.close()
}

/// Section `fi_enable`: operations before it are refused.
fn posting_before_enable_is_refused(world: &World) -> Result<()> {
    let group = world.closed_group(&Setup { nodes: 1, ..Setup::default() })?;
    let ep = &group.a().ep;
    let errors = [abi::FI_EOPBADSTATE, abi::FI_EINVAL, abi::FI_EAGAIN];
    refused(ep.send(Mem::zeroed(8), 0, Context::new()), &errors, "fi_send")?;
    refused(ep.inject(Mem::zeroed(8), 0), &errors, "fi_inject")?;
    // fi_endpoint(3) lets a provider take receives before.
    if let Err(errno) = ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()) {
        ensure!(errors.contains(&errno.0), "fi_recv: {errno}");
    }
    group.close()
}

/// Section `fi_enable`: an enabled endpoint takes receives before it knows a peer.
fn receives_may_be_posted_as_soon_as_enabled(world: &World) -> Result<()> {
    let group = world.group(&Setup { introduced: false, ..Setup::default() })?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.close()
}

/// Section `fi_getopt`, `FI_OPT_MIN_MULTI_RECV`: there is a default, and it can be changed.
fn getopt_min_multi_recv(world: &World) -> Result<()> {
    let setup = Setup::caps(abi::FI_MSG | abi::FI_MULTI_RECV);
    let group = world.closed_group(&setup)?;
    let ep = &group.a().ep;
    ep.number(abi::FI_OPT_MIN_MULTI_RECV)?;
    ep.setopt(abi::FI_OPT_ENDPOINT, abi::FI_OPT_MIN_MULTI_RECV, &777_usize.to_ne_bytes())?;
    ensure!(ep.number(abi::FI_OPT_MIN_MULTI_RECV)? == 777, "the value was not kept");
    group.close()
}

/// Section `fi_getopt`: `-FI_ENOPROTOOPT` for an option that the provider has not got.
fn getopt_of_every_option_answers(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = &group.a().ep;
    for name in [abi::FI_OPT_CM_DATA_SIZE, abi::FI_OPT_TX_SIZE, abi::FI_OPT_RX_SIZE] {
        if let Err(errno) = ep.number(name) {
            ensure!(errno.0 == abi::FI_ENOPROTOOPT, "option {name}: {errno}");
        }
    }
    match ep.number(abi::FI_OPT_TX_SIZE) {
        Ok(size) => ensure!(size > 0, "room for {size} sends"),
        Err(_) => return not_offered("FI_OPT_TX_SIZE"),
    }
    // "This option is read only."
    let set = ep.setopt(abi::FI_OPT_ENDPOINT, abi::FI_OPT_CM_DATA_SIZE, &[0; 8]);
    refused(set, &[abi::FI_ENOPROTOOPT, abi::FI_EINVAL], "FI_OPT_CM_DATA_SIZE")?;
    // A mode that cannot be had is no mode at all.
    let (level, p2p) = (abi::FI_OPT_ENDPOINT, abi::FI_OPT_FI_HMEM_P2P);
    let required = abi::FI_HMEM_P2P_REQUIRED.to_ne_bytes();
    let errors = [abi::FI_EOPNOTSUPP, abi::FI_ENOPROTOOPT, abi::FI_EINVAL];
    refused(ep.setopt(level, p2p, &required), &errors, "FI_HMEM_P2P_REQUIRED")?;
    if let Ok(mode) = ep.getopt(level, p2p, 4) {
        ensure!(mode.len() == 4, "{mode:?}");
        ep.setopt(level, p2p, &abi::FI_HMEM_P2P_DISABLED.to_ne_bytes())?;
    }
    group.close()
}

/// Section `fi_getopt`: an unknown name.
fn getopt_of_an_unknown_option_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let answer = group.a().ep.getopt(abi::FI_OPT_ENDPOINT, 4711, 64);
    refused(answer, &[abi::FI_ENOPROTOOPT], "option 4711")?;
    group.close()
}

/// Section `fi_setopt`: the same.
fn setopt_of_an_unknown_option_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let answer = group.a().ep.setopt(abi::FI_OPT_ENDPOINT, 4711, &[0; 8]);
    refused(answer, &[abi::FI_ENOPROTOOPT], "option 4711")?;
    group.close()
}

/// Section `fi_setopt`, level: the same for a level.
fn setopt_of_another_level_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let answer = group.a().ep.setopt(99, abi::FI_OPT_MIN_MULTI_RECV, &[0; 8]);
    refused(answer, &[abi::FI_ENOPROTOOPT, abi::FI_EINVAL], "level 99")?;
    group.close()
}

/// Section `fi_rx_size_left`, `fi_tx_size_left`: how many operations may still be posted.
fn size_left_is_a_number_or_not_offered(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let ep = &group.a().ep;
    let left = optional(ep.rx_size_left(), "fi_rx_size_left")?;
    ensure!(left > 0, "rx {left}");
    ensure!(optional(ep.tx_size_left(), "fi_tx_size_left")? > 0, "tx");
    group.post(|| ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    ensure!(ep.rx_size_left()? <= left, "a posted receive makes room");
    group.close()
}

/// Section `fi_ep_alias`: another name for the endpoint, with default flags of its own.
fn alias_has_its_own_flags(world: &World) -> Result<()> {
    let group = world.group(&Setup { bind: abi::FI_SELECTIVE_COMPLETION, ..Setup::default() })?;
    let flags = abi::FI_TRANSMIT | abi::FI_COMPLETION;
    let alias = match group.a().ep.alias(flags) {
        Err(crate::fi::Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP | abi::FI_EINVAL)) => {
            return not_offered("fi_ep_alias");
        }
        answer => answer?,
    };
    for _ in 0..2 {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    }
    let context = Context::new();
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    group.post(|| alias.send(Mem::zeroed(8), group.to_b(), context))?;
    group.done(group.a(), context)?;
    group.expect_no_event(group.a())?;
    alias.close()?;
    group.close()
}

/// Section `fi_control`, `FI_GETOPSFLAG`: the default flags of one direction.
fn op_flags_can_be_read(world: &World) -> Result<()> {
    let setup = Setup { tx_op_flags: abi::FI_DELIVERY_COMPLETE, ..Setup::default() };
    let group = world.group(&setup)?;
    let flags = optional(group.a().ep.op_flags(abi::FI_TRANSMIT), "FI_GETOPSFLAG")?;
    ensure!(flags & abi::FI_DELIVERY_COMPLETE != 0, "flags {flags:#x}");
    group.close()
}

/// Section `fi_control`, `FI_SETOPSFLAG`: they can be changed.
fn op_flags_can_be_set(world: &World) -> Result<()> {
    let group = world.group(&Setup { bind: abi::FI_SELECTIVE_COMPLETION, ..Setup::default() })?;
    let ep = &group.a().ep;
    optional(ep.set_op_flags(abi::FI_TRANSMIT | abi::FI_COMPLETION), "FI_SETOPSFLAG")?;
    let flags = optional(ep.op_flags(abi::FI_TRANSMIT), "FI_GETOPSFLAG")?;
    ensure!(flags & abi::FI_COMPLETION != 0, "flags {flags:#x}");
    let both = abi::FI_TRANSMIT | abi::FI_RECV;
    refused(ep.set_op_flags(both), &[abi::FI_EINVAL, abi::FI_EBADFLAGS], "both directions")?;
    group.close()
}

/// Section `fi_tx_context`: only a scalable endpoint has contexts.
fn contexts_of_a_plain_endpoint_are_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    refused(group.a().ep.tx_context(0, None), &errors, "fi_tx_context")?;
    refused(group.a().ep.rx_context(0, None), &errors, "fi_rx_context")?;
    group.close()
}

/// Section `fi_srx_context`: receives posted there serve all endpoints bound to it.
fn shared_receive_context_serves_two_endpoints(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let info = group.info.dup();
    info.set_ep(|ep| ep.rx_ctx_cnt = usize::MAX);
    let (b, cap) = (group.b(), group.info.domain().max_ep_srx_ctx);
    if cap == 0 {
        return not_offered("max_ep_srx_ctx is 0");
    }
    let srx = optional(b.domain.srx(&info), "fi_srx_context")?;
    let attr = || crate::group::cq_attr(&Setup::default());
    let cq = b.domain.cq(&mut attr(), Context::null())?;
    let mut eps = Vec::new();
    for _ in 0..2 {
        let ep = b.endpoint(&info)?;
        ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        ep.bind(&b.av, 0)?;
        ep.bind(&srx, 0)?;
        ep.enable()?;
        eps.push(ep);
    }
    for _ in 0..2 {
        group.post(|| srx.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    }
    for ep in &eps {
        let peer = group.a().av.insert(&ep.getname(NAME_ROOM).0?)?;
        group.post(|| group.a().ep.send(Mem::zeroed(8), peer, Context::new()))?;
        group.until("a receive", || Ok(cq.read(1).ok()))?;
    }
    group.take(group.a(), 2)?;
    eps.iter().try_for_each(Fid::close)?;
    srx.close()?;
    cq.close()?;
    group.close()
}

/// Section `fi_stx_context`: one transmit context for several endpoints.
fn shared_transmit_context_serves_two_endpoints(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let info = group.info.dup();
    info.set_ep(|ep| ep.tx_ctx_cnt = usize::MAX);
    if group.info.domain().max_ep_stx_ctx == 0 {
        return not_offered("max_ep_stx_ctx is 0");
    }
    let (a, b) = (group.a(), group.b());
    let stx = optional(a.domain.stx(Some(&info)), "fi_stx_context")?;
    let mut eps = Vec::new();
    for _ in 0..2 {
        let ep = a.domain.endpoint(&info, Context::null())?;
        ep.bind(&a.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        ep.bind(&a.av, 0)?;
        ep.bind(&stx, 0)?;
        ep.enable()?;
        eps.push(ep);
    }
    for ep in &eps {
        let (send, receive) = (Context::new(), Context::new());
        group.post(|| b.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
        group.post(|| ep.send(Mem::zeroed(8), group.to_b(), send))?;
        group.done(a, send)?;
        group.done(b, receive)?;
    }
    eps.iter().try_for_each(Fid::close)?;
    stx.close()?;
    group.close()
}

/// Section `fi_close`: posted receives end without a completion; their buffers are not touched any
/// more.
fn closing_with_receives_posted(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let into = Mem::zeroed(64);
    for _ in 0..20 {
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::new()))?;
    }
    group.b().ep.close()?;
    // The peer is closed: this message is lost, or fails much later.
    let _ = group.a().ep.send(Mem::pattern(64, 1), group.to_b(), Context::new());
    std::thread::sleep(crate::world::NO_EVENT_TIME);
    ensure!(into.bytes().iter().all(|byte| *byte == 0), "a buffer was written to after fi_close");
    group.a().ep.close()?;
    Ok(())
}

/// Section `fi_close`: sends that are under way do not delay it.
fn closing_with_sends_outstanding(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    for _ in 0..10 {
        let message = Message::new(Mem::zeroed(300_000), group.to_b(), Context::new());
        group.post(|| group.a().ep.sendmsg(&message, abi::FI_COMPLETION))?;
    }
    let start = std::time::Instant::now();
    group.close()?;
    ensure!(start.elapsed() < crate::world::EVENT_TIMEOUT, "it took {:?}", start.elapsed());
    Ok(())
}

/// `fi_domain(3)`, `ep_cnt`: endpoints that share a domain reach each other.
fn several_endpoints_of_one_domain(world: &World) -> Result<()> {
    let group = world.group(&Setup { one_domain: true, nodes: 3, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let c = &group.nodes[2];
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| c.ep.send(Mem::zeroed(8), c.peers[1], Context::new()))?;
    group.done(group.b(), receive)?;
    group.close()
}

/// Many endpoints of one domain.
fn many_endpoints(world: &World) -> Result<()> {
    let nodes = 12;
    let group = world.group(&Setup { one_domain: true, nodes, ..Setup::default() })?;
    for node in &group.nodes {
        for _ in 0..nodes {
            group.post(|| node.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        }
    }
    for node in &group.nodes {
        for peer in &node.peers {
            group.post(|| node.ep.send(Mem::zeroed(8), *peer, Context::new()))?;
        }
    }
    for node in &group.nodes {
        group.take(node, 2 * nodes)?;
    }
    group.close()
}

/// Section `fi_ep_bind`: an endpoint that only sends needs no queue for receives.
fn transmit_only_endpoint_has_no_receive_queue(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let info = world.offer(&Setup::caps(abi::FI_MSG | abi::FI_SEND))?;
    let a = group.a();
    let ep = a.domain.endpoint(&info, Context::null())?;
    ep.bind(&a.cq, abi::FI_TRANSMIT)?;
    ep.bind(&a.av, 0)?;
    ep.enable()?;
    let send = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| ep.send(Mem::zeroed(8), group.to_b(), send))?;
    group.done(a, send)?;
    group.next(group.b())?;
    ep.close()?;
    group.close()
}

/// `fi_cm(3)`, `fi_getname`: the address that peers insert, whole, of the format that was offered.
fn getname_tells_the_address(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (name, len) = group.a().ep.getname(NAME_ROOM);
    let name = name?;
    ensure!(name.len() == len && len > 0, "length {len}");
    if group.info.entry().addr_format == abi::FI_SOCKADDR_IN {
        ensure!(len == 16, "length {len} of a sockaddr_in");
        ensure!(name[2..4] != [0, 0], "port 0");
    }
    ensure!(group.a().ep.getname(NAME_ROOM).0? == name, "another answer");
    ensure!(group.b().ep.getname(NAME_ROOM).0? != name, "two endpoints at one address");
    group.close()
}

/// `fi_cm(3)`: with too little room, `-FI_ETOOSMALL` and the length that it takes.
fn getname_too_small_tells_the_length(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let whole = group.a().name()?.len();
    for room in [0, 1, whole - 1] {
        let (answer, len) = group.a().ep.getname(room);
        refused(answer, &[abi::FI_ETOOSMALL], "too little room")?;
        ensure!(len == whole, "{len} bytes are said to be needed, not {whole}");
    }
    group.close()
}

/// `fi_cm(3)`, `fi_setname`: changes the address before it is in use, or is refused.
fn setname_is_done_or_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let name = group.a().name()?;
    if let Err(errno) = group.a().ep.setname(&name) {
        let errors = [abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EOPBADSTATE, abi::FI_EBUSY];
        ensure!(errors.contains(&errno.0) || errno.0 == abi::FI_EINVAL, "{errno}");
    }
    group.close()
}

/// `fi_cm(3)`: an endpoint without connections does not connect.
fn connection_calls_are_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (ep, name) = (&group.a().ep, group.b().name()?);
    let errors = [abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EINVAL, abi::FI_EOPBADSTATE];
    refused(ep.connect(&name), &errors, "fi_connect")?;
    refused(ep.getpeer(), &errors, "fi_getpeer")?;
    refused(ep.shutdown(), &errors, "fi_shutdown")?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// `fi_collective(3)`: without `FI_COLLECTIVE` there are no collective operations.
fn barrier_is_refused_without_collectives(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EINVAL];
    refused(group.a().ep.barrier(), &errors, "fi_barrier")?;
    refused(group.a().av.av_set(), &errors, "fi_av_set")?;
    group.close()
}

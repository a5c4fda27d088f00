// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that come and go at a shared context, also connected ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::shared::{CAPS, Shared, next};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::connected::{Listener, Pair, event, ignore_empty, until};
use crate::fi::{Context, Event, Fid, Mem, Message};
use crate::group::cq_attr;
use crate::world::{NO_EVENT_TIME, Setup, World, not_offered, optional};

/// Endpoints are enabled and closed while a message arrives at another one: each call returns.
pub(super) fn endpoints_come_and_go_while_messages_arrive(world: &World) -> Result<()> {
    const MEMBERS: usize = 60;
    let shared = Shared::open(world, CAPS, 1)?;
    let (side, info, srx) = (shared.group.b(), &shared.info, &shared.srx);
    let cq = side.domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    let is_over = AtomicBool::new(false);
    let come_and_go = || -> Result<()> {
        for _ in 0..MEMBERS {
            let ep = side.endpoint(info)?;
            ep.bind(&side.av, 0)?;
            ep.bind(srx, 0)?;
            ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
            ep.enable()?;
            ep.close()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let gone = come_and_go();
            is_over.store(true, Ordering::Release);
            gone
        });
        let mut count = 0_u64;
        while !is_over.load(Ordering::Acquire) {
            shared.recv(Mem::zeroed(8), Context::new())?;
            shared.send(Mem::zeroed(8), 0)?;
            next(&shared.group, &shared.cq)?;
            count += 1;
        }
        ensure!(count > 0, "no message beside them");
        others.join().map_err(|_| anyhow::anyhow!("a call has panicked"))?
    })?;
    cq.close()?;
    shared.close()
}

/// `fi_msg(3)`, `FI_MULTI_RECV`: a completion "will always be generated when the buffer has been
/// consumed", also if its last message came to a connected endpoint that was closed before that
/// completion was read.
pub(super) fn a_multi_receive_buffer_outlives_a_connected_endpoint(world: &World) -> Result<()> {
    let listener = Listener::silent_with(world, abi::FI_MULTI_RECV)?;
    listener.pep.listen()?;
    let name = listener.name()?;
    let mut active = Vec::new();
    let mut requests = Vec::new();
    for _ in 0..2 {
        active.push(Pair::ask(world, &name, abi::FI_MULTI_RECV, &[])?);
        let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
        let info = request.info.context("a request without fi_info")?;
        if info.domain().max_ep_srx_ctx == 0 {
            return not_offered("max_ep_srx_ctx is 0");
        }
        info.set_ep(|ep| ep.rx_ctx_cnt = usize::MAX);
        requests.push(info);
    }
    let domain = listener.fabric.domain(&requests[0], Context::null())?;
    let srx = optional(domain.srx(&requests[0]), "fi_srx_context")?;
    let cq = domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    let mut passive = Vec::new();
    for info in &requests {
        let ep = domain.endpoint(info, Context::null())?;
        ep.bind(&srx, 0)?;
        ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
        ep.bind(&listener.eq, 0)?;
        ep.enable()?;
        ep.accept()?;
        passive.push(ep);
    }
    let context = Context::new();
    let level = abi::FI_OPT_ENDPOINT;
    srx.setopt(level, abi::FI_OPT_MIN_MULTI_RECV, &100_usize.to_ne_bytes())?;
    srx.recvmsg(&Message::new(Mem::zeroed(200), FI_ADDR_UNSPEC, context), abi::FI_MULTI_RECV)?;
    for (_, eq, side) in &active {
        event(eq, abi::FI_CONNECTED, &[&side.cq, &cq])?;
    }
    let (_, _, first) = &active[0];
    first.ep.send(Mem::zeroed(150), FI_ADDR_UNSPEC, Context::new())?;
    // It has arrived when the send is complete. The queue of the receiver is not read.
    until("send", || Ok(first.cq.read(1).map_or_else(|_| None, |mut done| done.pop())))?;
    passive.remove(0).close()?;
    let given_back = until("release of the buffer", || {
        active[1].2.cq.progress().map(drop).or_else(ignore_empty)?;
        Ok(match cq.event() {
            Ok(Event::Done(done)) => Some((done.context, done.flags)),
            Ok(Event::Failed(error)) => Some((error.context, error.flags)),
            Err(_) => None,
        })
    })?;
    let (owner, flags) = given_back;
    ensure!(owner == context.ptr() && flags & abi::FI_MULTI_RECV != 0, "{flags:#x}");
    let end = Instant::now() + NO_EVENT_TIME;
    while Instant::now() < end {
        ensure!(cq.event().is_err(), "a second completion");
    }
    passive.remove(0).close()?;
    for (fabric, eq, side) in active {
        side.close()?;
        eq.close()?;
        fabric.close()?;
    }
    srx.close()?;
    cq.close()?;
    domain.close()?;
    listener.close()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_fabric(3)` and `fi_domain(3)`: the objects that hold the others.

use anyhow::{Result, ensure};

use crate::abi;
use crate::fi::{Context, Errno, Fabric, Fid, Mem};
use crate::group::{av_attr, cq_attr};
use crate::runner::tests;
use crate::world::{Setup, World, not_offered, optional, refused};

tests! { "fi_fabric":
    fabrics_open_and_close
    fabric_keeps_its_context
    two_fabrics_are_independent
    fabric_with_a_domain_is_busy
    domain_keeps_its_context
    several_domains_of_one_fabric
    domain_with_an_endpoint_is_busy
    domain_with_a_queue_is_busy
    domain_with_a_vector_is_busy
    domain_binds_an_event_queue
    a_domains_queue_takes_the_events_of_registrations
    a_domains_queue_takes_the_events_of_vectors
    unknown_control_commands_are_refused
    unknown_operations_are_refused
    passive_endpoints_answer
    query_atomic_answers
    domains_can_be_opened_again_and_again
}

/// `fi_fabric(3)`, `fi_fabric`, `fi_close`.
fn fabrics_open_and_close(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    for _ in 0..10 {
        let fabric = Fabric::open(&info, Context::null())?;
        ensure!(fabric.class() == abi::FI_CLASS_FABRIC as usize, "class {}", fabric.class());
        fabric.close()?;
    }
    Ok(())
}

/// `fi_fabric(3)`, context: it is in the object.
fn fabric_keeps_its_context(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let context = Context::new();
    let fabric = Fabric::open(&info, context)?;
    ensure!(fabric.user_context() == context.ptr(), "another context");
    Ok(fabric.close()?)
}

/// `fi_fabric(3)`: one may be closed while another is in use.
fn two_fabrics_are_independent(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let first = Fabric::open(&info, Context::null())?;
    let group = world.pair(abi::FI_MSG)?;
    first.close()?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// `fi_fabric(3)`, `fi_close`: an object with children cannot be closed.
fn fabric_with_a_domain_is_busy(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let domain = fabric.domain(&info, Context::null())?;
    refused(fabric.close(), &[abi::FI_EBUSY], "a fabric with a domain")?;
    domain.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`, `fi_domain`, context: it is in the object.
fn domain_keeps_its_context(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let context = Context::new();
    let domain = fabric.domain(&info, context)?;
    ensure!(domain.user_context() == context.ptr(), "another context");
    ensure!(domain.class() == abi::FI_CLASS_DOMAIN as usize, "class {}", domain.class());
    domain.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`: a fabric may have several, also of one interface.
fn several_domains_of_one_fabric(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let domains: Vec<_> =
        (0..4).map(|_| fabric.domain(&info, Context::null())).collect::<Result<_, _>>()?;
    for domain in &domains {
        domain.close()?;
    }
    Ok(fabric.close()?)
}

/// `fi_domain(3)`, `fi_close`: an endpoint keeps its domain.
fn domain_with_an_endpoint_is_busy(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let domain = fabric.domain(&info, Context::null())?;
    let ep = domain.endpoint(&info, Context::null())?;
    refused(domain.close(), &[abi::FI_EBUSY], "a domain with an endpoint")?;
    ep.close()?;
    domain.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`: a completion queue keeps it.
fn domain_with_a_queue_is_busy(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let domain = fabric.domain(&info, Context::null())?;
    let cq = domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    refused(domain.close(), &[abi::FI_EBUSY], "a domain with a completion queue")?;
    cq.close()?;
    domain.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`: an address vector keeps it.
fn domain_with_a_vector_is_busy(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let domain = fabric.domain(&info, Context::null())?;
    let av = domain.av(&mut av_attr(info.domain().av_type), Context::null())?;
    refused(domain.close(), &[abi::FI_EBUSY], "a domain with an address vector")?;
    av.close()?;
    domain.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`, `fi_domain_bind`: events of its objects go to a queue; a provider without such
/// events may say so.
fn domain_binds_an_event_queue(world: &World) -> Result<()> {
    let info = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&info, Context::null())?;
    let eq = fabric.eq(&mut crate::group::eq_attr(abi::FI_WAIT_NONE), Context::null())?;
    let domain = fabric.domain(&info, Context::null())?;
    optional(domain.bind(&eq, 0), "an event queue of a domain")?;
    refused(eq.close(), &[abi::FI_EBUSY], "an event queue that is bound")?;
    domain.close()?;
    eq.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`, `fi_domain_bind` with `FI_REG_MR`: each registration ends with an event.
fn a_domains_queue_takes_the_events_of_registrations(world: &World) -> Result<()> {
    let info = world.offer(&Setup::caps(abi::FI_RMA))?;
    let fabric = Fabric::open(&info, Context::null())?;
    let eq = fabric.eq(&mut crate::group::eq_attr(abi::FI_WAIT_NONE), Context::null())?;
    let domain = fabric.domain(&info, Context::null())?;
    match domain.bind(&eq, abi::FI_REG_MR) {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EBADFLAGS | abi::FI_EINVAL)) => {
            return not_offered("asynchronous registration");
        }
        bound => bound?,
    }
    let context = Context::new();
    let change = |attr: &mut abi::fi_mr_attr| attr.context = context.ptr();
    let mr = domain.mr_attr(&[Mem::zeroed(64)], abi::FI_REMOTE_READ, 5, change)?;
    let event = eq.read(64, 0)?;
    ensure!(event.event == abi::FI_MR_COMPLETE, "{event:?}");
    ensure!(event.fid == mr.fid() && event.context == context.ptr(), "{event:?}");
    // "Will not be generated unless the registration call returns success."
    refused(
        domain.mr(Mem::zeroed(64), 1 << 40, 6),
        &[abi::FI_EINVAL, abi::FI_EBADFLAGS],
        "access",
    )?;
    refused(eq.read(64, 0), &[abi::FI_EAGAIN], "an event of what failed")?;
    mr.close()?;
    domain.close()?;
    eq.close()?;
    Ok(fabric.close()?)
}

/// `fi_domain(3)`: the default for objects without a queue of their own.
fn a_domains_queue_takes_the_events_of_vectors(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let attr = &mut crate::group::eq_attr(abi::FI_WAIT_NONE);
    let eq = group.fabric.eq(attr, Context::null())?;
    let domain = group.fabric.domain(&group.info, Context::null())?;
    optional(domain.bind(&eq, 0), "an event queue of a domain")?;
    let mut attr = av_attr(group.info.domain().av_type);
    attr.flags = abi::FI_EVENT;
    let av = optional(domain.av(&mut attr, Context::null()), "FI_EVENT of a vector")?;
    let context = Context::new();
    let (count, _) = av.insert_all(&group.b().name()?, 1, 0, context.ptr())?;
    ensure!(count == 0, "an asynchronous insertion answers {count}");
    let event = eq.read(64, 0)?;
    ensure!(event.event == abi::FI_AV_COMPLETE && event.fid == av.fid(), "{event:?}");
    av.close()?;
    domain.close()?;
    eq.close()?;
    group.close()
}

/// `fi_control(3)`: a command that the object does not know.
fn unknown_control_commands_are_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    let objects: [&dyn Fid; 4] = [&group.fabric, &*group.a().domain, &group.a().cq, &group.a().ep];
    for object in objects {
        let mut room = [0_u64; 8];
        let answer = object.control(0x7fff, room.as_mut_ptr().cast());
        refused(answer, &errors, &format!("class {}", object.class()))?;
    }
    group.close()
}

/// `fi_fabric(3)`, `fi_open_ops`: a name that the provider does not know.
fn unknown_operations_are_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    let objects: [&dyn Fid; 3] = [&group.fabric, &*group.a().domain, &group.a().ep];
    for object in objects {
        refused(object.open_ops(c"nobody's"), &errors, &format!("class {}", object.class()))?;
    }
    group.close()
}

/// `fi_endpoint(3)`, `fi_passive_ep`: an endpoint that does not connect has none.
fn passive_endpoints_answer(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let answer = group.fabric.passive_ep(&group.info);
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    refused(answer, &errors, "a passive endpoint of type FI_EP_RDM")?;
    group.close()
}

/// `fi_atomic(3)`, `fi_query_atomic`: an operation that does not exist is refused.
fn query_atomic_answers(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    let domain = &group.a().domain;
    refused(domain.query_atomic(250, abi::FI_SUM, 0), &errors, "a datatype that is none")?;
    refused(domain.query_atomic(abi::FI_UINT64, 250, 0), &errors, "an operation that is none")?;
    group.close()
}

/// `fi_domain(3)`, `fi_close`: everything is released, so that it can be opened again.
fn domains_can_be_opened_again_and_again(world: &World) -> Result<()> {
    let descriptors = || Ok::<_, std::io::Error>(std::fs::read_dir("/proc/self/fd")?.count());
    world.pair(abi::FI_MSG)?.close()?;
    let before = descriptors()?;
    for _ in 0..20 {
        world.pair(abi::FI_MSG)?.close()?;
    }
    let after = descriptors()?;
    ensure!(after <= before + 4, "{before} open files became {after}");
    Ok(())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo(3)`: offers, by hints.

mod filters;

use anyhow::{Context as _, Result, ensure};

use self::filters::{
    an_open_domain_filters, provider_attributes_only, the_domains_name_filters,
    the_fabrics_name_filters, the_providers_name_filters,
};
use crate::abi;
use crate::fi::{Context, Fabric, Info, getinfo, version};
use crate::runner::tests;
use crate::world::{Setup, World, refused};

tests! { "fi_getinfo":
    null_hints_give_offers
    offers_have_every_attribute
    node_with_source_is_the_local_address
    service_with_source_is_the_local_port
    node_without_source_is_the_destination
    an_unknown_node_gives_no_data
    numeric_host_takes_no_names
    any_version_has_a_listing
    versions_of_old_are_answered
    a_version_beyond_the_library_is_refused
    provider_attributes_only
    the_providers_name_filters
    the_domains_name_filters
    the_fabrics_name_filters
    an_open_domain_filters
    primary_capabilities_are_those_of_the_hints
    a_primary_capability_without_modifiers_has_all
    modifiers_are_kept
    secondary_capabilities_are_given_if_asked_for
    unknown_capabilities_give_no_data
    hmem_is_offered_or_gives_no_data
    no_mode_is_required_that_was_not_in_the_hints
    no_mr_mode_is_required_that_was_not_in_the_hints
    mr_modes_of_the_hints_are_taken
    threading_is_kept
    progress_is_kept
    av_type_is_kept
    resource_management_is_kept
    message_order_is_kept
    op_flags_are_kept
    sizes_within_limits_are_taken
    sizes_beyond_limits_give_no_data
    an_endpoint_type_of_others_gives_no_data
    an_address_format_of_others_gives_no_data
    a_protocol_of_others_gives_no_data
    address_formats_are_kept
    a_source_address_in_the_hints_is_kept
    a_destination_address_in_the_hints_is_kept
    duplicates_are_equal_and_independent
    offers_are_printable
    limits_allow_an_endpoint
    nic_is_described_if_present
}

/// Section DESCRIPTION: NULL hints give all offers; the provider is among them.
fn null_hints_give_offers(world: &World) -> Result<()> {
    let offers = getinfo(abi::VERSION, None, None, 0, None)?;
    let name = world.provider.split(';').next().unwrap_or_default();
    let ours = |info: &&Info| info.provider_name().split(';').any(|part| part == name);
    ensure!(offers.iter().filter(ours).count() > 0, "no {name} in {} offers", offers.len());
    Ok(())
}

/// Section `FI_INFO`: every attribute structure is there, with valid values.
fn offers_have_every_attribute(world: &World) -> Result<()> {
    for info in world.offers(abi::VERSION, &world.hints(&Setup::default()))? {
        let (fabric, domain, entry) = (info.fabric(), info.domain(), info.entry());
        ensure!(!info.fabric_name().is_empty() && !info.domain_name().is_empty(), "no name");
        ensure!(info.ep().type_ == abi::FI_EP_RDM, "endpoint type {}", info.ep().type_);
        ensure!(fabric.prov_version != 0, "prov_version 0");
        ensure!(fabric.api_version == abi::VERSION, "api_version {:#x}", fabric.api_version);
        ensure!(entry.addr_format != abi::FI_FORMAT_UNSPEC, "no address format");
        ensure!(domain.threading != abi::FI_THREAD_UNSPEC, "threading is left open");
        ensure!(domain.control_progress != abi::FI_PROGRESS_UNSPEC, "control progress");
        ensure!(domain.data_progress != abi::FI_PROGRESS_UNSPEC, "data progress");
        ensure!(domain.resource_mgmt != abi::FI_RM_UNSPEC, "resource management");
        ensure!(info.ep().protocol != abi::FI_PROTO_UNSPEC, "protocol");
        ensure!(info.caps() & abi::FI_MSG != 0, "caps {:#x}", info.caps());
    }
    Ok(())
}

/// Section DESCRIPTION, `FI_SOURCE`: node names the local side.
fn node_with_source_is_the_local_address(world: &World) -> Result<()> {
    let Some(node) = &world.node else { return crate::world::not_offered("addresses of IP") };
    for info in world.offers(abi::VERSION, &world.hints(&Setup::default()))? {
        let address = info.src_addr();
        ensure!(ip(&address).as_deref() == Some(node.as_str()), "source {address:?}");
        ensure!(info.entry().src_addrlen == address.len(), "length");
    }
    Ok(())
}

/// The address in a `struct sockaddr_in`.
fn ip(address: &[u8]) -> Option<String> {
    let octets: [u8; 4] = address.get(4..8)?.try_into().ok()?;
    Some(std::net::Ipv4Addr::from(octets).to_string())
}

/// Section DESCRIPTION: service is the local port, and the endpoint has it.
fn service_with_source_is_the_local_port(world: &World) -> Result<()> {
    let Some(node) = &world.node else { return crate::world::not_offered("addresses of IP") };
    let hints = world.hints(&Setup::default());
    let service = (20_000 + std::process::id() % 30_000).to_string();
    let offers = getinfo(abi::VERSION, Some(node), Some(&service), abi::FI_SOURCE, Some(&hints))?;
    let port = offers[0].src_addr()[2..4].to_vec();
    ensure!(port == service.parse::<u16>()?.to_be_bytes(), "{port:?} for {service}");
    let setup = Setup { nodes: 1, ..Setup::default() };
    let group = crate::group::Group::open(world, offers[0].dup(), &setup)?;
    group.enable()?;
    ensure!(group.a().name()?[2..4] == port[..], "the endpoint is at another port");
    group.close()
}

/// Section DESCRIPTION: without `FI_SOURCE`, node and service are the peer.
fn node_without_source_is_the_destination(world: &World) -> Result<()> {
    let Some(node) = &world.node else { return crate::world::not_offered("addresses of IP") };
    let hints = world.hints(&Setup::default());
    for info in getinfo(abi::VERSION, Some(node), Some("4711"), 0, Some(&hints))? {
        let address = info.dest_addr();
        ensure!(ip(&address).as_deref() == Some(node.as_str()), "destination {address:?}");
        ensure!(address[2..4] == 4711_u16.to_be_bytes(), "destination {address:?}");
    }
    Ok(())
}

/// Section RETURN VALUE: a name that cannot be resolved matches no offer.
fn an_unknown_node_gives_no_data(world: &World) -> Result<()> {
    let hints = world.hints(&Setup::default());
    for flags in [0, abi::FI_SOURCE] {
        let node = Some("no-such-host.invalid");
        let answer = getinfo(abi::VERSION, node, Some("1"), flags, Some(&hints));
        refused(answer.map(|offers| offers.len()), &[abi::FI_ENODATA], "an unknown node")?;
    }
    Ok(())
}

/// Section DESCRIPTION, `FI_NUMERICHOST`: names are not resolved.
fn numeric_host_takes_no_names(world: &World) -> Result<()> {
    let hints = world.hints(&Setup::default());
    let flags = abi::FI_NUMERICHOST | abi::FI_SOURCE;
    let answer = getinfo(abi::VERSION, Some("localhost"), None, flags, Some(&hints));
    refused(answer.map(|offers| offers.len()), &[abi::FI_ENODATA, abi::FI_EINVAL], "a name")?;
    if let Some(node) = &world.node {
        getinfo(abi::VERSION, Some(node), None, flags, Some(&hints)).context("a number")?;
    }
    Ok(())
}

/// Section DESCRIPTION: NULL hints give all offers, whichever version the application requests; one
/// that lists the providers first may name none.
fn any_version_has_a_listing(world: &World) -> Result<()> {
    let name = world.provider.split(';').next().unwrap_or_default();
    for version in [0, abi::make_version(1, 0), abi::make_version(1, 4), abi::VERSION] {
        let offers = getinfo(version, None, None, 0, None)?;
        let ours = |info: &Info| info.provider_name().split(';').any(|part| part == name);
        ensure!(offers.iter().any(ours), "version {version:#x}: no {name}");
    }
    Ok(())
}

/// Section DESCRIPTION, version: an application of an older interface is served or refused.
fn versions_of_old_are_answered(world: &World) -> Result<()> {
    let mut served = 0;
    for minor in 0..=17 {
        let hints = world.hints(&Setup::default());
        // Before 1.5 the mode of registration was an enumeration.
        if minor < 5 {
            hints.set_domain(|domain| domain.mr_mode = abi::FI_MR_SCALABLE as i32);
        }
        match world.offers(abi::make_version(1, minor), &hints) {
            Ok(offers) => {
                served += 1;
                let api = offers[0].fabric().api_version;
                ensure!(api == abi::make_version(1, minor), "1.{minor}: api_version {api:#x}");
            }
            Err(errno) => ensure!(errno.0 == abi::FI_ENODATA, "1.{minor}: {errno}"),
        }
    }
    ensure!(served >= 9, "only {served} of 18 versions are served");
    Ok(())
}

/// Section DESCRIPTION: an application that is newer than the library cannot be served.
fn a_version_beyond_the_library_is_refused(world: &World) -> Result<()> {
    let hints = world.hints(&Setup::default());
    let answer = world.offers(version() + 1, &hints).map(|offers| offers.len());
    refused(answer, &[abi::FI_ENOSYS], "a version of tomorrow")
}

const PRIMARY: u64 = abi::FI_MSG
    | abi::FI_RMA
    | abi::FI_TAGGED
    | abi::FI_ATOMIC
    | abi::FI_NAMED_RX_CTX
    | abi::FI_DIRECTED_RECV
    | abi::FI_HMEM;

/// Section CAPABILITIES: primary capabilities have to be asked for, and only those are enabled.
fn primary_capabilities_are_those_of_the_hints(world: &World) -> Result<()> {
    for caps in [abi::FI_MSG, abi::FI_TAGGED, abi::FI_MSG | abi::FI_TAGGED, abi::FI_RMA] {
        let Ok(info) = world.offer(&Setup::caps(caps)) else { continue };
        ensure!(info.caps() & PRIMARY == caps, "{caps:#x} became {:#x}", info.caps());
    }
    Ok(())
}

const MODIFIERS: [(u64, u64); 3] = [
    (abi::FI_MSG, abi::FI_SEND | abi::FI_RECV),
    (abi::FI_TAGGED, abi::FI_SEND | abi::FI_RECV),
    (abi::FI_RMA, abi::FI_READ | abi::FI_WRITE | abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE),
];

/// Section CAPABILITIES: a capability without a direction has all directions.
fn a_primary_capability_without_modifiers_has_all(world: &World) -> Result<()> {
    for (caps, all) in MODIFIERS {
        let Ok(info) = world.offer(&Setup::caps(caps)) else { continue };
        ensure!(info.caps() & all == all, "{caps:#x} became {:#x}", info.caps());
    }
    Ok(())
}

/// Section CAPABILITIES: of directions that were asked for, there are those alone.
fn modifiers_are_kept(world: &World) -> Result<()> {
    for (caps, all) in MODIFIERS {
        for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| all & bit != 0) {
            let Ok(info) = world.offer(&Setup::caps(caps | bit)) else { continue };
            ensure!(info.caps() & all == bit, "{:#x} became {:#x}", caps | bit, info.caps());
        }
    }
    Ok(())
}

/// Section CAPABILITIES: a secondary capability that was requested is granted, or there is no
/// offer.
fn secondary_capabilities_are_given_if_asked_for(world: &World) -> Result<()> {
    let secondary = [
        abi::FI_MULTI_RECV,
        abi::FI_SOURCE,
        abi::FI_SOURCE_ERR,
        abi::FI_RMA_EVENT,
        abi::FI_SHARED_AV,
        abi::FI_TRIGGER,
        abi::FI_FENCE,
        abi::FI_LOCAL_COMM,
        abi::FI_REMOTE_COMM,
        abi::FI_RMA_PMEM,
    ];
    for caps in secondary {
        match world.offers(abi::VERSION, &world.hints(&Setup::caps(abi::FI_MSG | caps))) {
            Ok(offers) => {
                ensure!(offers[0].caps() & caps == caps, "{caps:#x}: {:#x}", offers[0].caps());
            }
            Err(errno) => ensure!(errno.0 == abi::FI_ENODATA, "{caps:#x}: {errno}"),
        }
    }
    Ok(())
}

/// Checks that hints changed so give no data.
fn no_data(world: &World, what: &str, change: impl FnOnce(&Info)) -> Result<()> {
    let hints = world.hints(&Setup::default());
    change(&hints);
    let answer = world.offers(abi::VERSION, &hints).map(|offers| offers.len());
    refused(answer, &[abi::FI_ENODATA], what)
}

/// Section RETURN VALUE: undefined capabilities match no offer.
fn unknown_capabilities_give_no_data(world: &World) -> Result<()> {
    no_data(world, "bit 36", |hints| hints.set(|info| info.caps |= 1 << 36))
}

/// Section CAPABILITIES, `FI_HMEM`: the capability is in the offer, or there is none. A provider
/// that would read device memory with the processor must not offer it.
fn hmem_is_offered_or_gives_no_data(world: &World) -> Result<()> {
    let setup = Setup { mr_mode: abi::FI_MR_HMEM, ..Setup::caps(abi::FI_MSG | abi::FI_HMEM) };
    match world.offers(abi::VERSION, &world.hints(&setup)) {
        Ok(offers) => ensure!(offers[0].caps() & abi::FI_HMEM != 0, "an offer without FI_HMEM"),
        Err(errno) => ensure!(errno.0 == abi::FI_ENODATA, "{errno}"),
    }
    Ok(())
}

/// Section MODE: a mode that is not in the hints cannot be required.
fn no_mode_is_required_that_was_not_in_the_hints(world: &World) -> Result<()> {
    let info = world.offer(&Setup { mode: 0, ..Setup::default() })?;
    ensure!(info.entry().mode == 0, "mode {:#x}", info.entry().mode);
    ensure!(info.tx().mode == 0 && info.rx().mode == 0, "mode of a context");
    Ok(())
}

/// `fi_domain(3)`, `mr_mode`: the same for memory registration.
fn no_mr_mode_is_required_that_was_not_in_the_hints(world: &World) -> Result<()> {
    let info = world.offer(&Setup::caps(abi::FI_MSG | abi::FI_RMA))?;
    ensure!(info.domain().mr_mode == 0, "mr_mode {:#x}", info.domain().mr_mode);
    Ok(())
}

/// `fi_domain(3)`, `mr_mode`: an application that would do more than is needed is served; the offer
/// asks for some of it or none.
fn mr_modes_of_the_hints_are_taken(world: &World) -> Result<()> {
    let bits = [
        abi::FI_MR_LOCAL,
        abi::FI_MR_RAW,
        abi::FI_MR_VIRT_ADDR,
        abi::FI_MR_ALLOCATED,
        abi::FI_MR_PROV_KEY,
        abi::FI_MR_RMA_EVENT,
        abi::FI_MR_ENDPOINT,
    ];
    let all = bits.iter().fold(0, |all, bit| all | bit);
    for mr_mode in bits.into_iter().chain([all]) {
        let info = world.offer(&Setup { mr_mode, ..Setup::caps(abi::FI_MSG | abi::FI_RMA) })?;
        let granted = info.domain().mr_mode;
        ensure!(granted & !mr_mode == 0, "{mr_mode:#x} became {granted:#x}");
    }
    Ok(())
}

/// `fi_domain(3)`, threading: an application that promises less concurrency is served.
fn threading_is_kept(world: &World) -> Result<()> {
    let models = [
        abi::FI_THREAD_SAFE,
        abi::FI_THREAD_FID,
        abi::FI_THREAD_DOMAIN,
        abi::FI_THREAD_COMPLETION,
        abi::FI_THREAD_ENDPOINT,
    ];
    for threading in models {
        let info = world.offer(&Setup { threading, ..Setup::default() })?;
        let granted = info.domain().threading;
        let safe = granted == abi::FI_THREAD_SAFE;
        ensure!(granted == threading || safe, "threading {threading} became {granted}");
    }
    Ok(())
}

/// `fi_domain(3)`, progress: an application that makes progress itself is served; one that asks
/// for automatic progress gets it or nothing.
fn progress_is_kept(world: &World) -> Result<()> {
    world.offer(&Setup { progress: abi::FI_PROGRESS_MANUAL, ..Setup::default() })?;
    let progress = abi::FI_PROGRESS_AUTO;
    let info = world.offer(&Setup { progress, ..Setup::default() })?;
    ensure!(info.domain().data_progress == progress, "data {}", info.domain().data_progress);
    ensure!(info.domain().control_progress == progress, "control progress");
    Ok(())
}

/// `fi_domain(3)`, `av_type`: the type that was asked for.
fn av_type_is_kept(world: &World) -> Result<()> {
    for av_type in [abi::FI_AV_MAP, abi::FI_AV_TABLE] {
        let info = world.offer(&Setup { av_type, ..Setup::default() })?;
        ensure!(info.domain().av_type == av_type, "{av_type} became {}", info.domain().av_type);
    }
    Ok(())
}

/// `fi_domain(3)`, `resource_mgmt`: an application that asks for it gets it.
fn resource_management_is_kept(world: &World) -> Result<()> {
    world.offer(&Setup { resource_mgmt: abi::FI_RM_DISABLED, ..Setup::default() })?;
    let info = world.offer(&Setup { resource_mgmt: abi::FI_RM_ENABLED, ..Setup::default() })?;
    ensure!(info.domain().resource_mgmt == abi::FI_RM_ENABLED, "not enabled");
    Ok(())
}

/// `fi_endpoint(3)`, `msg_order`: an order that was asked for is in the offer, or there is none.
fn message_order_is_kept(world: &World) -> Result<()> {
    for order in [abi::FI_ORDER_SAS, abi::FI_ORDER_WAW, abi::FI_ORDER_RAW, abi::FI_ORDER_SAW] {
        let setup = Setup { order, ..Setup::caps(abi::FI_MSG | abi::FI_RMA) };
        let Ok(info) = world.offer(&setup) else { continue };
        let (tx, rx) = (info.tx().msg_order, info.rx().msg_order);
        ensure!(tx & rx & order == order, "{order:#x} became {tx:#x}, {rx:#x}");
    }
    let info = world.offer(&Setup::default())?;
    ensure!(info.tx().msg_order & abi::FI_ORDER_SAS != 0, "no send after send");
    Ok(())
}

/// `fi_endpoint(3)`, `op_flags`: defaults that were asked for are in the offer, or there is none.
fn op_flags_are_kept(world: &World) -> Result<()> {
    let flags = [
        abi::FI_COMPLETION,
        abi::FI_INJECT_COMPLETE,
        abi::FI_TRANSMIT_COMPLETE,
        abi::FI_DELIVERY_COMPLETE,
    ];
    for tx_op_flags in flags {
        let Ok(info) = world.offer(&Setup { tx_op_flags, ..Setup::default() }) else { continue };
        let granted = info.tx().op_flags;
        ensure!(granted & tx_op_flags != 0, "{tx_op_flags:#x} became {granted:#x}");
    }
    Ok(())
}

/// Section `FI_INFO`: sizes that the provider itself gave are taken in hints.
fn sizes_within_limits_are_taken(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    let hints = world.hints(&Setup::default());
    let (tx, rx, ep, domain) = (offer.tx(), offer.rx(), offer.ep(), offer.domain());
    hints.set_tx(|hint| {
        (hint.inject_size, hint.size, hint.iov_limit) = (tx.inject_size, tx.size, tx.iov_limit);
    });
    hints.set_rx(|hint| (hint.size, hint.iov_limit) = (rx.size, rx.iov_limit));
    hints.set_ep(|hint| hint.max_msg_size = ep.max_msg_size);
    hints.set_domain(|hint| {
        (hint.cq_data_size, hint.mr_key_size) = (domain.cq_data_size, domain.mr_key_size);
    });
    let info = &world.offers(abi::VERSION, &hints)?[0];
    ensure!(info.tx().size >= tx.size && info.tx().inject_size >= tx.inject_size, "tx");
    ensure!(info.rx().size >= rx.size && info.ep().max_msg_size >= ep.max_msg_size, "rx");
    Ok(())
}

/// Section `FI_INFO`: the provider promises no more than it can do.
fn sizes_beyond_limits_give_no_data(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    no_data(world, "inject_size", |hints| {
        hints.set_tx(|tx| tx.inject_size = offer.tx().inject_size.max(1 << 30) + 1);
    })?;
    no_data(world, "tx iov_limit", |hints| hints.set_tx(|tx| tx.iov_limit = 1 << 20))?;
    no_data(world, "rx iov_limit", |hints| hints.set_rx(|rx| rx.iov_limit = 1 << 20))?;
    no_data(world, "cq_data_size", |hints| hints.set_domain(|one| one.cq_data_size = 64))?;
    no_data(world, "mr_key_size", |hints| {
        hints.set(|info| info.caps |= abi::FI_RMA);
        hints.set_domain(|one| one.mr_key_size = 4096);
    })?;
    no_data(world, "tx_ctx_cnt", |hints| {
        let most = offer.domain().max_ep_tx_ctx.max(1 << 20);
        hints.set_ep(|ep| ep.tx_ctx_cnt = most + 1);
    })?;
    let most = offer.ep().max_msg_size;
    if most < usize::MAX {
        no_data(world, "max_msg_size", |hints| hints.set_ep(|ep| ep.max_msg_size = most + 1))?;
    }
    Ok(())
}

/// `fi_endpoint(3)`, type: a type of endpoint that the provider does not have.
fn an_endpoint_type_of_others_gives_no_data(world: &World) -> Result<()> {
    no_data(world, "FI_EP_SOCK_STREAM", |hints| {
        hints.set_ep(|ep| ep.type_ = abi::FI_EP_SOCK_STREAM);
    })
}

/// Section `FI_INFO`, `addr_format`: a format that the provider does not know.
fn an_address_format_of_others_gives_no_data(world: &World) -> Result<()> {
    no_data(world, "FI_ADDR_GNI", |hints| hints.set(|info| info.addr_format = abi::FI_ADDR_GNI))
}

/// `fi_endpoint(3)`, protocol: the protocol of another provider.
fn a_protocol_of_others_gives_no_data(world: &World) -> Result<()> {
    no_data(world, "FI_PROTO_GNI", |hints| hints.set_ep(|ep| ep.protocol = abi::FI_PROTO_GNI))
}

/// Section `FI_INFO`, `addr_format`: the format that was asked for.
fn address_formats_are_kept(world: &World) -> Result<()> {
    for format in [abi::FI_SOCKADDR_IN, abi::FI_SOCKADDR_IN6] {
        let hints = world.hints(&Setup::default());
        hints.set(|info| info.addr_format = format);
        // Without a node: any address of that format.
        match getinfo(abi::VERSION, None, None, 0, Some(&hints)) {
            Ok(offers) => {
                let given = offers[0].entry().addr_format;
                ensure!(given == format, "format {format} became {given}");
            }
            Err(errno) => ensure!(errno.0 == abi::FI_ENODATA, "{errno}"),
        }
    }
    Ok(())
}

/// Section `FI_INFO`, `src_addr`: hints that came from an offer give that address again.
fn a_source_address_in_the_hints_is_kept(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    let again = getinfo(abi::VERSION, None, None, 0, Some(&offer))?;
    ensure!(again[0].src_addr() == offer.src_addr(), "{:?}", again[0].src_addr());
    Ok(())
}

/// Section `FI_INFO`, `dest_addr`: hints with a destination give it again.
fn a_destination_address_in_the_hints_is_kept(world: &World) -> Result<()> {
    let Some(node) = &world.node else { return crate::world::not_offered("addresses of IP") };
    let hints = world.hints(&Setup::default());
    let offer = getinfo(abi::VERSION, Some(node), Some("4711"), 0, Some(&hints))?.remove(0);
    let again = getinfo(abi::VERSION, None, None, 0, Some(&offer))?;
    ensure!(again[0].dest_addr() == offer.dest_addr(), "{:?}", again[0].dest_addr());
    Ok(())
}

/// Section `fi_dupinfo`: a copy has the same contents and outlives the original.
fn duplicates_are_equal_and_independent(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    let copy = offer.dup();
    let (text, address) = (offer.text(), offer.src_addr());
    offer.set_tx(|tx| tx.size = 1);
    ensure!(copy.tx().size != 1, "one transmit attribute for two entries");
    drop(offer);
    ensure!(copy.src_addr() == address && copy.text() == text, "the copy differs");
    let fabric = Fabric::open(&copy, Context::null())?;
    Ok(crate::fi::Fid::close(&fabric)?)
}

/// Section `fi_tostr`: each offer can be printed.
fn offers_are_printable(world: &World) -> Result<()> {
    for info in world.offers(abi::VERSION, &world.bare_hints())? {
        let text = info.text();
        ensure!(text.contains("FI_EP_RDM") && text.contains(&info.domain_name()), "{text}");
    }
    Ok(())
}

/// `fi_domain(3)`: the reported limits are large enough for the promises of the page's other
/// sections.
fn limits_allow_an_endpoint(world: &World) -> Result<()> {
    let info = world.offer(&Setup::caps(abi::FI_MSG))?;
    let (domain, tx, rx) = (info.domain(), info.tx(), info.rx());
    ensure!(domain.cq_cnt > 0 && domain.ep_cnt > 0, "{} {}", domain.cq_cnt, domain.ep_cnt);
    ensure!(domain.max_ep_tx_ctx > 0 && domain.max_ep_rx_ctx > 0, "max_ep contexts");
    ensure!(tx.size > 0 && rx.size > 0, "sizes {} {}", tx.size, rx.size);
    ensure!(tx.iov_limit > 0 && rx.iov_limit > 0, "iov limits");
    ensure!(info.ep().max_msg_size > 0, "max_msg_size");
    let tagged = world.offer(&Setup::caps(abi::FI_TAGGED))?;
    ensure!(tagged.ep().mem_tag_format != 0, "no bit of a tag may be used");
    Ok(())
}

/// `fi_nic(3)`: an entry's nic is of that class.
fn nic_is_described_if_present(world: &World) -> Result<()> {
    for info in world.offers(abi::VERSION, &world.bare_hints())? {
        if let Some(class) = info.nic_class() {
            ensure!(class == abi::FI_CLASS_NIC as usize, "class {class}");
        }
    }
    Ok(())
}

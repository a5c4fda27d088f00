// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints, and the offers that satisfy them.

use super::offer::{
    CAPS, DOMAIN_CAPS, PROTOCOL, PROTOCOL_VERSION, SIZE_MAX, domain_attributes,
    endpoint_attributes, rx_attributes, tx_attributes,
};
use super::*;
use crate::getinfo::interface::Nic;
use crate::runtime::memory::{INJECT_MAX, IOV_MAX};
use crate::sys::abi::make_version;
use crate::sys::limits::CONTEXTS_MAX;
use crate::sys::personality::Personality;

fn request() -> InfoRequest {
    InfoRequest::default()
}

/// `FI_EP_RDM` attributes of hints: all zero but the type.
fn ep() -> abi::fi_ep_attr {
    abi::fi_ep_attr {
        type_: abi::FI_EP_UNSPEC,
        protocol: 0,
        protocol_version: 0,
        max_msg_size: 0,
        mem_tag_format: 0,
        tx_ctx_cnt: 0,
        rx_ctx_cnt: 0,
        ..endpoint_attributes()
    }
}

fn tx() -> abi::fi_tx_attr {
    abi::fi_tx_attr {
        caps: 0,
        op_flags: 0,
        msg_order: 0,
        inject_size: 0,
        size: 0,
        iov_limit: 0,
        ..tx_attributes()
    }
}

fn rx() -> abi::fi_rx_attr {
    abi::fi_rx_attr { caps: 0, op_flags: 0, msg_order: 0, size: 0, iov_limit: 0, ..rx_attributes() }
}

fn domain() -> abi::fi_domain_attr {
    abi::fi_domain_attr {
        threading: 0,
        control_progress: 0,
        data_progress: 0,
        resource_mgmt: 0,
        av_type: 0,
        mr_key_size: 0,
        cq_data_size: 0,
        mr_iov_limit: 0,
        caps: 0,
        mr_cnt: 0,
        ..domain_attributes()
    }
}

/// The types of endpoints of the provider's own name.
fn ep_types() -> &'static [abi::fi_ep_type] {
    Personality::Xdp.ep_types()
}

fn loopback() -> Lookup {
    Lookup {
        api_version: make_version(1, 17),
        node: Some("127.0.0.1".into()),
        service: None,
        flags: bits::SOURCE | bits::NUMERICHOST,
    }
}

/// The first offer of a loopback endpoint for these hints.
fn offered(hints: &InfoRequest) -> Result<Info, Error> {
    let mut found = find(&loopback(), Some(hints), "")?;
    let types: Vec<_> = found.iter().map(|info| info.ep.type_).collect();
    let offered = ep_types().iter().copied().filter(|one| types.contains(one));
    assert_eq!(types, offered.collect::<Vec<_>>(), "one address, one offer of a type");
    Ok(found.remove(0))
}

#[track_caller]
fn refused(hints: &InfoRequest) {
    assert_eq!(offered(hints).err(), Some(Error::NoData));
}

#[test]
fn without_hints_everything_is_offered() {
    let found = find(&loopback(), None, "").unwrap();
    assert_eq!(found[0].caps, CAPS & !(bits::SOURCE_ERR | bits::NAMED_RX_CTX));
    assert_eq!((found[0].tx.size, found[0].rx.size), (SIZE_DEFAULT, SIZE_DEFAULT));
    assert_eq!(found[0].domain_name, "lo");
    assert_eq!(found[0].fabric_name, "127.0.0.0/8");
}

#[test]
fn primary_capabilities_are_as_requested() {
    let tagged = offered(&InfoRequest { caps: bits::TAGGED, ..request() }).unwrap();
    let free = DOMAIN_CAPS | bits::FENCE | bits::MULTI_RECV | bits::TRIGGER;
    assert_eq!(tagged.caps, bits::TAGGED | bits::SEND | bits::RECV | free);
    assert_eq!(tagged.tx.caps, bits::TAGGED | bits::SEND | bits::FENCE | bits::TRIGGER);
    assert_eq!(tagged.rx.caps, bits::TAGGED | bits::RECV | bits::MULTI_RECV | bits::TRIGGER);
    let sender = offered(&InfoRequest { caps: bits::MSG | bits::SEND, ..request() }).unwrap();
    assert_eq!(sender.caps, bits::MSG | bits::SEND | free);
    let sourced = offered(&InfoRequest { caps: bits::MSG | bits::SOURCE, ..request() }).unwrap();
    assert_ne!(sourced.caps & bits::SOURCE, 0);
    assert_eq!(sourced.caps & bits::SOURCE_ERR, 0);
}

#[test]
fn capabilities_that_are_not_there_are_refused() {
    for caps in [bits::HMEM, bits::COLLECTIVE, 1 << 63] {
        refused(&InfoRequest { caps: bits::MSG | caps, ..request() });
    }
}

/// Applications that take more than one context as a wish for them see one, unless they ask.
#[test]
fn several_contexts_are_offered_on_request() {
    let most = |info: &Info| (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx);
    let plain = offered(&request()).unwrap();
    assert_eq!((most(&plain), plain.caps & bits::NAMED_RX_CTX), ((1, 1), 0));
    let caps = bits::MSG | bits::NAMED_RX_CTX;
    let named = offered(&InfoRequest { caps, ..request() }).unwrap();
    assert_eq!(most(&named), (CONTEXTS_MAX, CONTEXTS_MAX));
    assert_eq!((named.ep.tx_ctx_cnt, named.ep.rx_ctx_cnt), (1, 1));
    let counted = abi::fi_ep_attr { tx_ctx_cnt: CONTEXTS_MAX, rx_ctx_cnt: 3, ..ep() };
    let several = offered(&InfoRequest { ep: Some(counted), ..request() }).unwrap();
    assert_eq!((several.ep.tx_ctx_cnt, several.ep.rx_ctx_cnt), (CONTEXTS_MAX, 3));
    assert_eq!(several.caps & bits::DIRECTED_RECV, 0, "of several sources with one address");
    refused(&InfoRequest { caps: caps | bits::DIRECTED_RECV, ..request() });
    let msg = abi::fi_ep_attr { type_: abi::FI_EP_MSG, tx_ctx_cnt: 2, ..ep() };
    refused(&InfoRequest { ep: Some(msg), ..request() });
}

#[test]
fn endpoint_attributes_are_checked() {
    let with = |ep| offered(&InfoRequest { ep: Some(ep), ..request() });
    assert!(with(ep()).is_ok());
    for &ep_type in ep_types() {
        let info = with(abi::fi_ep_attr { type_: ep_type, ..ep() }).unwrap();
        assert_eq!(info.ep.type_, ep_type);
    }
    assert!(with(abi::fi_ep_attr { protocol: PROTOCOL, protocol_version: 1, ..ep() }).is_ok());
    let no = [
        abi::fi_ep_attr { type_: abi::FI_EP_SOCK_STREAM, ..ep() },
        abi::fi_ep_attr { protocol: abi::FI_PROTO_XNET, ..ep() },
        abi::fi_ep_attr { protocol_version: PROTOCOL_VERSION + 1, ..ep() },
        abi::fi_ep_attr { max_msg_size: usize::MAX, ..ep() },
        abi::fi_ep_attr { tx_ctx_cnt: CONTEXTS_MAX + 1, ..ep() },
        abi::fi_ep_attr { rx_ctx_cnt: CONTEXTS_MAX + 1, ..ep() },
        abi::fi_ep_attr { auth_key_size: 1, ..ep() },
    ];
    for ep in no {
        assert_eq!(with(ep).err(), Some(Error::NoData), "{ep:?}");
    }
}

#[test]
fn connected_endpoints_have_no_capabilities_about_sources() {
    let msg = Some(abi::fi_ep_attr { type_: abi::FI_EP_MSG, ..ep() });
    let info = offered(&InfoRequest { ep: msg, ..request() }).unwrap();
    let sources = bits::SOURCE | bits::SOURCE_ERR | bits::DIRECTED_RECV;
    assert_eq!((info.caps | info.rx.caps) & sources, 0);
    for caps in [bits::SOURCE, bits::DIRECTED_RECV] {
        refused(&InfoRequest { ep: msg, caps: bits::MSG | caps, ..request() });
    }
}

#[test]
fn shared_contexts_are_offered_on_request() {
    let with = |ep| offered(&InfoRequest { ep: Some(ep), ..request() }).unwrap();
    let counts = |info: &Info| (info.ep.tx_ctx_cnt, info.ep.rx_ctx_cnt);
    let shared = abi::SHARED_CONTEXT;
    assert_eq!(counts(&with(ep())), (1, 1));
    assert_eq!(counts(&with(abi::fi_ep_attr { rx_ctx_cnt: shared, ..ep() })), (1, shared));
    let info = with(abi::fi_ep_attr { tx_ctx_cnt: shared, rx_ctx_cnt: 1, ..ep() });
    assert_eq!(counts(&info), (shared, 1));
    assert!(info.domain.max_ep_stx_ctx > 0 && info.domain.max_ep_srx_ctx > 0);
}

#[test]
fn domain_attributes_are_echoed() {
    let with = |domain| offered(&InfoRequest { domain: Some(domain), ..request() });
    for threading in abi::FI_THREAD_SAFE..=abi::FI_THREAD_ENDPOINT {
        let info = with(abi::fi_domain_attr { threading, ..domain() }).unwrap();
        assert_eq!(info.domain.threading, threading);
    }
    for av_type in [abi::FI_AV_MAP, abi::FI_AV_TABLE] {
        let info = with(abi::fi_domain_attr { av_type, ..domain() }).unwrap();
        assert_eq!(info.domain.av_type, av_type);
    }
    let resource_mgmt = abi::FI_RM_DISABLED;
    let info = with(abi::fi_domain_attr { resource_mgmt, ..domain() }).unwrap();
    assert_eq!(info.domain.resource_mgmt, resource_mgmt);
    let data_progress = abi::FI_PROGRESS_MANUAL;
    let info = with(abi::fi_domain_attr { data_progress, ..domain() }).unwrap();
    assert_eq!(info.domain.data_progress, data_progress);
}

#[test]
fn domain_attributes_are_checked() {
    let with = |domain| offered(&InfoRequest { domain: Some(domain), ..request() });
    let no = [
        abi::fi_domain_attr { threading: abi::FI_THREAD_ENDPOINT + 1, ..domain() },
        abi::fi_domain_attr { av_type: abi::FI_AV_TABLE + 1, ..domain() },
        abi::fi_domain_attr { cq_data_size: 9, ..domain() },
        abi::fi_domain_attr { mr_key_size: 9, ..domain() },
        abi::fi_domain_attr { cntr_cnt: 1025, ..domain() },
        abi::fi_domain_attr { max_err_data: 29, ..domain() },
        abi::fi_domain_attr { caps: bits::MSG, ..domain() },
        abi::fi_domain_attr { mr_mode: (abi::FI_MR_BASIC | abi::FI_MR_LOCAL) as i32, ..domain() },
    ];
    for domain in no {
        assert_eq!(with(domain).err(), Some(Error::NoData), "{domain:?}");
    }
}

#[test]
fn no_memory_registration_mode_is_required() {
    let offered_modes = [
        0,
        abi::FI_MR_LOCAL,
        abi::FI_MR_LOCAL | abi::FI_MR_VIRT_ADDR | abi::FI_MR_ALLOCATED | abi::FI_MR_PROV_KEY,
        abi::FI_MR_ENDPOINT | abi::FI_MR_HMEM,
    ];
    for mode in offered_modes {
        let domain = abi::fi_domain_attr { mr_mode: mode as i32, ..domain() };
        let info = offered(&InfoRequest { domain: Some(domain), ..request() }).unwrap();
        assert_eq!(info.domain.mr_mode, 0, "{mode:#x}");
    }
}

#[test]
fn sizes_are_echoed_up_to_the_limit() {
    let with = |tx, rx| offered(&InfoRequest { tx: Some(tx), rx: Some(rx), ..request() });
    let info = with(
        abi::fi_tx_attr { size: SIZE_MAX, inject_size: 16, iov_limit: 1, ..tx() },
        abi::fi_rx_attr { size: 3, ..rx() },
    )
    .unwrap();
    assert_eq!((info.tx.size, info.tx.inject_size, info.tx.iov_limit), (SIZE_MAX, 16, 1));
    assert_eq!((info.rx.size, info.rx.iov_limit), (3, IOV_MAX));
    let inject = |size| with(abi::fi_tx_attr { size, ..tx() }, rx()).unwrap().tx.inject_size;
    assert_eq!([0, 4096, 4097, SIZE_MAX].map(inject), [INJECT_MAX, INJECT_MAX, 8192, 1024]);
    let no_tx = [
        abi::fi_tx_attr { size: SIZE_MAX, inject_size: 1025, ..tx() },
        abi::fi_tx_attr { size: SIZE_MAX + 1, ..tx() },
        abi::fi_tx_attr { inject_size: INJECT_MAX + 1, ..tx() },
        abi::fi_tx_attr { iov_limit: IOV_MAX + 1, ..tx() },
        abi::fi_tx_attr { rma_iov_limit: IOV_MAX + 1, ..tx() },
        abi::fi_tx_attr { comp_order: 1, ..tx() },
        abi::fi_tx_attr { op_flags: bits::PEEK, ..tx() },
        abi::fi_tx_attr { caps: bits::HMEM, ..tx() },
    ];
    for tx in no_tx {
        assert_eq!(with(tx, rx()).err(), Some(Error::NoData), "{tx:?}");
    }
    let no_rx = [
        abi::fi_rx_attr { size: SIZE_MAX + 1, ..rx() },
        abi::fi_rx_attr { iov_limit: IOV_MAX + 1, ..rx() },
        abi::fi_rx_attr { total_buffered_recv: 1, ..rx() },
        abi::fi_rx_attr { op_flags: bits::PEEK, ..rx() },
    ];
    for rx in no_rx {
        assert_eq!(with(tx(), rx).err(), Some(Error::NoData), "{rx:?}");
    }
}

#[test]
fn names_and_addresses_filter() {
    let name = |name: &str| Some(name.to_owned());
    assert!(
        offered(&InfoRequest { domain_name: name("LO"), ..request() }).is_ok(),
        "case-insensitive"
    );
    refused(&InfoRequest { domain_name: name("l"), ..request() });
    assert!(offered(&InfoRequest { fabric_name: name("127.0.0.0/8"), ..request() }).is_ok());
    refused(&InfoRequest { fabric_name: name("127.0.0.0/16"), ..request() });
    refused(&InfoRequest { addr_format: abi::FI_SOCKADDR_IN6, ..request() });
    refused(&InfoRequest { addr_format: abi::FI_SOCKADDR_IB, ..request() });
    assert!(offered(&InfoRequest { addr_format: abi::FI_SOCKADDR, ..request() }).is_ok());
    refused(&InfoRequest { provider_version: u32::MAX, ..request() });
}

#[test]
fn node_and_service_become_addresses() {
    let service = Some(String::from("7471"));
    let passive = Lookup { service: service.clone(), ..loopback() };
    let info = find(&passive, None, "").unwrap().remove(0);
    assert_eq!((info.source, info.destination), ("127.0.0.1:7471".parse().unwrap(), None));

    let active = Lookup { service, flags: bits::NUMERICHOST, ..loopback() };
    let found = find(&active, None, "").unwrap();
    assert_eq!(found.len(), ep_types().len(), "one way to loopback");
    assert_eq!(found[0].source, "127.0.0.1:0".parse().unwrap());
    assert_eq!(found[0].destination, "127.0.0.1:7471".parse().ok());
}

#[test]
fn an_unknown_node_is_no_data() {
    let numeric = Lookup { node: Some("no.such.node.invalid".into()), ..loopback() };
    assert_eq!(find(&numeric, None, "").err(), Some(Error::NoData));
    let elsewhere = Lookup { node: Some("203.0.113.7".into()), ..loopback() };
    assert_eq!(find(&elsewhere, None, "").err(), Some(Error::NoData), "a source that is not ours");
}

#[test]
fn numbers_beyond_those_of_ports_are_no_data() {
    for (service, port) in [("65535", Some(65535)), ("065535", Some(65535)), ("65536", None)] {
        let passive = Lookup { service: Some(service.into()), ..loopback() };
        let found = find(&passive, None, "").map(|found| found[0].source.port());
        assert_eq!(found, port.ok_or(Error::NoData), "{service}");
    }
}

#[test]
fn every_version_has_a_listing() {
    for version in [0, make_version(1, 0), make_version(1, 4), make_version(1, 5)] {
        let lookup = Lookup { api_version: version, ..Lookup::default() };
        assert!(!find(&lookup, None, "").unwrap().is_empty(), "version {version:#x}");
    }
}

#[test]
fn the_registration_mode_of_old_versions_is_a_value_of_theirs() {
    let mode = |version, mr_mode: u32| {
        let lookup = Lookup { api_version: version, ..loopback() };
        let domain = abi::fi_domain_attr { mr_mode: mr_mode.cast_signed(), ..domain() };
        let found = find(&lookup, Some(&InfoRequest { domain: Some(domain), ..request() }), "");
        found.unwrap()[0].domain.mr_mode.cast_unsigned()
    };
    assert_eq!(mode(make_version(1, 4), 0), abi::FI_MR_SCALABLE);
    assert_eq!(mode(make_version(1, 4), abi::FI_MR_BASIC), abi::FI_MR_BASIC);
    assert_eq!(mode(make_version(1, 5), 0), 0);
}

/// What MXL (connected), NIXL and Mercury (reliable datagrams) compare.
#[test]
fn offers_of_tcp_have_its_protocols_and_no_tagged_connections() {
    let interfaces = Interface::all().unwrap();
    let offer = |ep_type, wanted| {
        let info = Info::offer_as(Personality::Tcp, ep_type, &interfaces[0], wanted);
        (info.ep.protocol, info.caps & bits::TAGGED, (info.tx.caps | info.rx.caps) & bits::TAGGED)
    };
    let tagged = bits::TAGGED;
    assert_eq!(offer(abi::FI_EP_MSG, 0), (abi::FI_PROTO_SOCK_TCP, 0, 0));
    assert_eq!(offer(abi::FI_EP_MSG, tagged), (abi::FI_PROTO_SOCK_TCP, tagged, tagged));
    assert_eq!(offer(abi::FI_EP_RDM, 0), (abi::FI_PROTO_XNET, tagged, tagged));
    let own = Info::offer_as(Personality::Xdp, abi::FI_EP_MSG, &interfaces[0], 0);
    assert_eq!((own.ep.protocol, own.caps & tagged), (PROTOCOL, tagged));
    assert_eq!(own.tx.inject_size, 1024);
}

#[test]
fn datagrams_are_limited_to_the_path() {
    let limited = |ep_type, mtu| {
        let all = Interface::all().unwrap();
        let v4 = all.iter().find(|interface| interface.ip.is_ipv4()).unwrap();
        let mut info = Info::offer_of(ep_type, v4, 0);
        let before = info.ep.max_msg_size;
        info.limit_to_path(mtu);
        (before, info.ep.max_msg_size, info.tx.inject_size)
    };
    let (before, after, inject) = limited(abi::FI_EP_DGRAM, 1000);
    assert_eq!((after, inject), (972, before.min(INJECT_MAX).min(972)));
    let (before, after, _) = limited(abi::FI_EP_DGRAM, 65_535);
    assert_eq!(after, before, "the interface is the limit");
    let (before, after, _) = limited(abi::FI_EP_RDM, 1000);
    assert_eq!(after, before, "messages are cut");
}

/// `OpenSHMEM` spreads its processes over every nic that it sees.
#[test]
fn only_the_best_kind_of_interface_has_a_nic() {
    let (hardware, bridge) = (Nic { physical: true, ..Nic::default() }, Nic::default());
    let loopback = Nic { loopback: true, ..Nic::default() };
    let all = Interface::all().unwrap();
    let offers = |nics: &[&Nic]| -> Vec<Info> {
        let of_nic = |nic: &&Nic| Info { nic: (*nic).clone(), ..Info::offer(&all[0]) };
        nics.iter().map(of_nic).collect()
    };
    let shown = |nics: &[&Nic]| -> Vec<bool> {
        let mut found = offers(nics);
        show_best_nics(&mut found);
        found.iter().map(|info| info.shows_nic).collect()
    };
    assert_eq!(shown(&[&hardware, &hardware, &bridge, &loopback]), [true, true, false, false]);
    assert_eq!(shown(&[&bridge, &loopback]), [true, false]);
    assert_eq!(shown(&[&loopback]), [true]);
}

/// Debian's `/etc/hosts` has 127.0.1.1 for the name of the host.
#[test]
fn a_further_loopback_address_is_offered_to_who_asks_for_it() {
    for ip in ["127.0.1.1", "127.255.0.3"] {
        let found = find(&Lookup { node: Some(ip.into()), ..loopback() }, None, "").unwrap();
        assert_eq!(found.len(), ep_types().len());
        for info in found {
            assert_eq!(info.source.ip().to_string(), ip);
            assert_eq!((&*info.domain_name, &*info.fabric_name), ("lo", "127.0.0.0/8"));
        }
    }
    let elsewhere = find(&Lookup { node: Some("198.18.255.254".into()), ..loopback() }, None, "");
    assert_eq!(elsewhere.err(), Some(Error::NoData));
}

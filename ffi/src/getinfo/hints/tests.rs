// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules, on an offer of everything that libfabric has, and on the hints of well-known
//! applications.

use super::*;
use crate::getinfo::interface::Interface;
use crate::getinfo::mr_mode::MrMode;
use crate::getinfo::open_objects::{self, OpenObject};

const ALL_MSG: u64 = bits::MSG | bits::TAGGED | bits::SEND | bits::RECV | bits::DIRECTED_RECV;
const ALL_RMA: u64 = bits::RMA | bits::ATOMIC | RMA_DIRECTIONS;
const SECONDARY: u64 = bits::MULTI_RECV | bits::SOURCE | bits::SOURCE_ERR | bits::RMA_EVENT;
const COMM: u64 = bits::LOCAL_COMM | bits::REMOTE_COMM;

/// Every capability but device memory, every order, the usual limits.
fn everything() -> Info {
    let loopback = Interface::all().unwrap().into_iter().find(|it| it.nic.loopback).unwrap();
    let mut info = Info::offer(&loopback);
    info.caps = ALL_MSG | ALL_RMA | SECONDARY | COMM;
    info.tx.caps =
        bits::MSG | bits::TAGGED | bits::RMA | bits::ATOMIC | bits::SEND | bits::READ | bits::WRITE;
    info.rx.caps = info.caps & !(bits::SEND | bits::READ | bits::WRITE | COMM);
    info.tx.msg_order = u64::MAX;
    info.rx.msg_order = u64::MAX;
    info.tx.rma_iov_limit = 4;
    info.ep.max_order_raw_size = usize::MAX;
    info.domain.cntr_cnt = 1024;
    info
}

/// Hints as `fi_allocinfo` makes them: all zero.
struct Hints {
    caps: u64,
    tx: abi::fi_tx_attr,
    rx: abi::fi_rx_attr,
    ep: abi::fi_ep_attr,
    domain: abi::fi_domain_attr,
}

impl Hints {
    fn new(caps: u64) -> Self {
        let Info { mut tx, mut rx, mut ep, mut domain, .. } = everything();
        (tx.caps, tx.op_flags, tx.msg_order) = (0, 0, 0);
        (tx.inject_size, tx.size, tx.iov_limit, tx.rma_iov_limit) = (0, 0, 0, 0);
        (rx.caps, rx.op_flags, rx.msg_order, rx.size, rx.iov_limit) = (0, 0, 0, 0, 0);
        (ep.protocol, ep.protocol_version, ep.max_msg_size) = (0, 0, 0);
        (ep.mem_tag_format, ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (0, 0, 0);
        (ep.max_order_raw_size, ep.max_order_war_size, ep.max_order_waw_size) = (0, 0, 0);
        (domain.threading, domain.control_progress, domain.data_progress) = (0, 0, 0);
        (domain.resource_mgmt, domain.av_type, domain.caps) = (0, 0, 0);
        (domain.mr_key_size, domain.cq_data_size, domain.mr_iov_limit) = (0, 0, 0);
        (domain.mr_cnt, domain.cntr_cnt) = (0, 0);
        Self { caps, tx, rx, ep, domain }
    }

    fn ask(&self) -> Result<Info, &'static str> {
        let request = InfoRequest {
            caps: self.caps,
            tx: Some(self.tx),
            rx: Some(self.rx),
            ep: Some(self.ep),
            domain: Some(self.domain),
            ..InfoRequest::default()
        };
        let mut info = everything();
        check(&request, &info)?;
        shape(Some(&request), &mut info);
        Ok(info)
    }
}

const BASIC: u32 = abi::FI_MR_VIRT_ADDR | abi::FI_MR_ALLOCATED | abi::FI_MR_PROV_KEY;

fn mpich() -> Hints {
    let caps = bits::MSG | bits::TAGGED | bits::RMA | bits::ATOMIC | bits::DIRECTED_RECV;
    let mut hints = Hints::new(caps | bits::MULTI_RECV);
    hints.domain.threading = abi::FI_THREAD_DOMAIN;
    hints.domain.control_progress = abi::FI_PROGRESS_MANUAL;
    hints.domain.data_progress = abi::FI_PROGRESS_MANUAL;
    hints.domain.resource_mgmt = abi::FI_RM_ENABLED;
    hints.domain.av_type = abi::FI_AV_TABLE;
    hints.domain.cq_data_size = 4;
    hints.tx.op_flags = bits::COMPLETION | bits::DELIVERY_COMPLETE;
    hints.rx.op_flags = bits::COMPLETION;
    let atomic = abi::FI_ORDER_ATOMIC_RAR
        | abi::FI_ORDER_ATOMIC_RAW
        | abi::FI_ORDER_ATOMIC_WAR
        | abi::FI_ORDER_ATOMIC_WAW;
    hints.tx.msg_order = bits::ORDER_SAS | atomic;
    hints.rx.msg_order = hints.tx.msg_order;
    hints
}

fn open_mpi_mtl() -> Hints {
    let mut hints = Hints::new(bits::MSG | bits::TAGGED | COMM | bits::DIRECTED_RECV);
    hints.domain.threading = abi::FI_THREAD_SAFE;
    hints.domain.resource_mgmt = abi::FI_RM_ENABLED;
    hints.domain.av_type = abi::FI_AV_MAP;
    hints.domain.cq_data_size = 4;
    hints.tx.op_flags = bits::COMPLETION;
    hints.rx.op_flags = bits::COMPLETION;
    (hints.tx.msg_order, hints.rx.msg_order) = (bits::ORDER_SAS, bits::ORDER_SAS);
    hints
}

fn open_mpi_btl() -> Hints {
    let mut hints = Hints::new(bits::RMA | bits::ATOMIC);
    hints.domain.mr_mode = (BASIC | abi::FI_MR_ENDPOINT).cast_signed();
    hints.domain.threading = abi::FI_THREAD_DOMAIN;
    hints.domain.av_type = abi::FI_AV_MAP;
    hints.tx.op_flags = bits::DELIVERY_COMPLETE | bits::COMPLETION;
    hints
}

fn openshmem() -> Hints {
    let mut hints = Hints::new(bits::RMA | bits::ATOMIC | bits::RMA_EVENT);
    hints.domain.mr_mode = BASIC.cast_signed();
    hints.domain.data_progress = abi::FI_PROGRESS_AUTO;
    hints.domain.resource_mgmt = abi::FI_RM_ENABLED;
    hints.domain.threading = abi::FI_THREAD_COMPLETION;
    hints.domain.mr_key_size = 1;
    hints.tx.op_flags = bits::DELIVERY_COMPLETE;
    hints.tx.inject_size = 16;
    hints
}

fn nccl() -> Hints {
    let mut hints = Hints::new(COMM | bits::TAGGED | bits::MSG);
    let mode = BASIC | abi::FI_MR_LOCAL | abi::FI_MR_ENDPOINT;
    hints.domain.mr_mode = mode.cast_signed();
    hints.domain.mr_key_size = 2;
    hints.domain.threading = abi::FI_THREAD_SAFE;
    (hints.tx.msg_order, hints.rx.msg_order) = (bits::ORDER_SAS, bits::ORDER_SAS);
    hints
}

fn mercury() -> Hints {
    let caps = bits::MSG | bits::TAGGED | bits::RMA | bits::DIRECTED_RECV | bits::MULTI_RECV;
    let mut hints = Hints::new(caps);
    let mode = BASIC | abi::FI_MR_LOCAL | abi::FI_MR_ENDPOINT;
    hints.domain.mr_mode = mode.cast_signed();
    hints.domain.control_progress = abi::FI_PROGRESS_MANUAL;
    hints.domain.data_progress = abi::FI_PROGRESS_MANUAL;
    hints.domain.resource_mgmt = abi::FI_RM_ENABLED;
    hints.tx.op_flags = bits::INJECT_COMPLETE;
    hints
}

fn nixl() -> Hints {
    let mut hints = Hints::new(bits::MSG | bits::RMA | COMM);
    hints.domain.mr_mode = (abi::FI_MR_LOCAL | abi::FI_MR_ALLOCATED).cast_signed();
    hints.domain.threading = abi::FI_THREAD_COMPLETION;
    hints
}

fn mxl(direction: u64) -> Hints {
    let mut hints = Hints::new(bits::RMA | direction);
    hints.domain.mr_mode = (BASIC | abi::FI_MR_LOCAL).cast_signed();
    hints
}

fn applications() -> [(&'static str, Hints); 9] {
    [
        ("MPICH", mpich()),
        ("Open MPI mtl", open_mpi_mtl()),
        ("Open MPI btl", open_mpi_btl()),
        ("OpenSHMEM", openshmem()),
        ("NCCL", nccl()),
        ("Mercury", mercury()),
        ("NIXL", nixl()),
        ("MXL initiator", mxl(bits::WRITE)),
        ("MXL target", mxl(bits::REMOTE_WRITE)),
    ]
}

#[test]
fn every_application_gets_its_requests() {
    for (name, hints) in applications() {
        let info = hints.ask().unwrap_or_else(|attribute| panic!("{name}: {attribute}"));
        assert_eq!(info.caps & hints.caps, hints.caps, "{name}: caps");
        let primary = bits::MSG | bits::TAGGED | bits::RMA | bits::ATOMIC | bits::DIRECTED_RECV;
        assert_eq!(info.caps & primary, hints.caps & primary, "{name}: nothing but what it asks");
        assert_eq!(info.domain.mr_mode, 0, "{name}: mr_mode");
        let (domain, wanted) = (&info.domain, &hints.domain);
        if wanted.threading != 0 {
            assert_eq!(domain.threading, wanted.threading, "{name}: threading");
        }
        if wanted.data_progress != 0 {
            assert_eq!(domain.data_progress, wanted.data_progress, "{name}: data_progress");
        }
        if wanted.av_type != 0 {
            assert_eq!(domain.av_type, wanted.av_type, "{name}: av_type");
        }
        assert_eq!(info.tx.op_flags, hints.tx.op_flags, "{name}: tx op_flags");
        assert_eq!(info.rx.op_flags, hints.rx.op_flags, "{name}: rx op_flags");
        assert_eq!(info.tx.msg_order & hints.tx.msg_order, hints.tx.msg_order, "{name}: order");
        assert!(domain.cq_data_size >= wanted.cq_data_size, "{name}: cq_data_size");
        assert!(domain.mr_key_size >= wanted.mr_key_size, "{name}: mr_key_size");
        assert!(info.tx.inject_size >= 16, "{name}: inject_size");
        assert_eq!((info.ep.tx_ctx_cnt, info.ep.rx_ctx_cnt), (1, 1), "{name}: contexts");
    }
}

#[test]
fn no_application_gets_device_memory_and_each_falls_back() {
    for (name, mut hints) in applications() {
        hints.caps |= bits::HMEM;
        hints.domain.mr_mode |= abi::FI_MR_HMEM.cast_signed();
        assert_eq!(hints.ask().err(), Some("caps"), "{name}");
        hints.caps &= !bits::HMEM;
        // A mode bit alone is an offer of the application.
        assert_eq!(hints.ask().unwrap().domain.mr_mode, 0, "{name}");
    }
}

#[test]
fn an_offer_that_comes_back_is_accepted() {
    for (name, hints) in applications() {
        let Info { caps, tx, rx, ep, domain, .. } = hints.ask().unwrap();
        let again = Hints { caps, tx, rx, ep, domain }.ask();
        let again = again.unwrap_or_else(|attribute| panic!("{name}: {attribute}"));
        assert_eq!(again.caps, caps, "{name}");
        assert_eq!((again.tx.caps, again.rx.caps), (tx.caps, rx.caps), "{name}");
    }
}

#[test]
fn directions_are_expanded_only_without_a_request() {
    let caps = |caps| Hints::new(caps).ask().unwrap().caps & (MSG_DIRECTIONS | RMA_DIRECTIONS);
    assert_eq!(caps(bits::MSG), MSG_DIRECTIONS);
    assert_eq!(caps(bits::MSG | bits::RECV), bits::RECV);
    assert_eq!(caps(bits::RMA), RMA_DIRECTIONS);
    assert_eq!(caps(bits::ATOMIC), RMA_DIRECTIONS);
    assert_eq!(caps(bits::RMA | bits::WRITE), bits::WRITE);
    assert_eq!(caps(bits::MSG | bits::RMA | bits::SEND), bits::SEND | RMA_DIRECTIONS);
    // One side gets no direction that the endpoint does not have.
    let target = mxl(bits::REMOTE_WRITE).ask().unwrap();
    assert_eq!(target.tx.caps & RMA_DIRECTIONS, 0);
    assert_eq!(target.rx.caps & RMA_DIRECTIONS, bits::REMOTE_WRITE);
}

#[test]
fn costly_capabilities_are_given_on_request_only() {
    let costly = bits::SOURCE | bits::SOURCE_ERR | bits::RMA_EVENT;
    let free = bits::MULTI_RECV | COMM;
    let caps = |caps| Hints::new(caps).ask().unwrap().caps;
    assert_eq!(caps(bits::MSG | bits::RMA) & (costly | free), free);
    assert_eq!(caps(bits::MSG | bits::SOURCE) & costly, bits::SOURCE);
    assert_eq!(caps(bits::RMA | bits::RMA_EVENT) & costly, bits::RMA_EVENT);
    // Without hints everything is offered but `FI_SOURCE_ERR`, which makes errors of good messages.
    let mut info = everything();
    shape(None, &mut info);
    assert_eq!(info.caps, everything().caps & !bits::SOURCE_ERR);
}

#[test]
fn orders_that_cost_something_are_promised_on_request_only() {
    let info = Hints::new(bits::RMA).ask().unwrap();
    assert_eq!((info.tx.msg_order, info.rx.msg_order), (bits::ORDER_SAS, bits::ORDER_SAS));
    let mut hints = Hints::new(bits::RMA);
    hints.tx.msg_order = u64::from(abi::FI_ORDER_WAW) | abi::FI_ORDER_ATOMIC_RAW;
    let info = hints.ask().unwrap();
    assert_eq!(info.tx.msg_order, hints.tx.msg_order | bits::ORDER_SAS);
    assert_eq!(info.rx.msg_order, bits::ORDER_SAS);
    // Without hints everything is offered.
    let mut info = everything();
    shape(None, &mut info);
    assert_eq!(info.tx.msg_order, everything().tx.msg_order);
}

#[test]
fn limits_are_inclusive_and_echoed() {
    let mut hints = Hints::new(bits::RMA);
    (hints.tx.rma_iov_limit, hints.ep.max_order_raw_size) = (4, usize::MAX);
    (hints.domain.mr_key_size, hints.domain.cq_data_size, hints.domain.cntr_cnt) = (8, 8, 1024);
    assert_eq!(hints.ask().unwrap().tx.rma_iov_limit, 4);
    hints.tx.rma_iov_limit = 5;
    assert_eq!(hints.ask().err(), Some("tx_attr->rma_iov_limit"));
    hints.tx.rma_iov_limit = 0;
    hints.ep.msg_prefix_size = 1;
    assert_eq!(hints.ask().err(), Some("ep_attr->msg_prefix_size"));
}

#[test]
fn an_open_domain_admits_every_address_on_it_and_no_other() {
    let on = |interface: &str, network: &str| {
        let object = OpenObject {
            fabric: 0,
            network: Some(network.to_owned()),
            interface: Some(interface.to_owned()),
            api_version: abi::make_version(1, 17),
            mr_mode: MrMode::default(),
        };
        // No object can be open at this address.
        open_objects::add(1, object);
        let open_domain = open_objects::find(1);
        open_objects::remove(1);
        assert!(open_domain.is_some() && open_objects::find(1).is_none());
        check(&InfoRequest { open_domain, ..InfoRequest::default() }, &everything())
    };
    assert_eq!(on("lo", "127.0.0.0/8"), Ok(()));
    assert_eq!(on("lo", "::1/128"), Err("domain_attr->domain"));
    assert_eq!(on("eth0", "127.0.0.0/8"), Err("domain_attr->domain"));
}

#[test]
fn both_address_families_may_be_requested_at_once() {
    let with =
        |addr_format| check(&InfoRequest { addr_format, ..InfoRequest::default() }, &everything());
    assert_eq!(with(SOCKADDR_IP), Ok(()));
    assert_eq!(with(abi::FI_ADDR_STR), Err("addr_format"));
}

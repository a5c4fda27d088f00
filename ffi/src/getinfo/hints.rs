// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of `fi_getinfo(3)`: the comparison of an offer with hints, and its adaptation to them.
//!
//! libfabric does not export its functions for this to external providers. The rules are therefore
//! written here, one function for each attribute structure, in the order of the man page. [`check`]
//! admits an offer or returns the reason; [`shape`] follows, and cannot fail.

use crate::getinfo::offer::{Info, SIZE_DEFAULT};
use crate::getinfo::open_objects::OpenHandle;
use crate::getinfo::request::InfoRequest;
use crate::runtime::memory::inject_max;
use crate::sys::abi::{self, SHARED_CONTEXT, bits};
use crate::sys::{personality, sockaddr};

/// The attribute in which an offer does not satisfy the hints.
type Matched = Result<(), &'static str>;

/// Capabilities that are granted on request only (`fi_getinfo(3)`, "primary capabilities"), with
/// their modifiers.
const PRIMARY: u64 = bits::MSG
    | bits::RMA
    | bits::TAGGED
    | bits::ATOMIC
    | bits::MULTICAST
    | bits::NAMED_RX_CTX
    | bits::DIRECTED_RECV
    | bits::COLLECTIVE
    | bits::HMEM
    | MSG_DIRECTIONS
    | RMA_DIRECTIONS;
/// Modifiers of `FI_MSG` and `FI_TAGGED`; without them, both directions.
const MSG_DIRECTIONS: u64 = bits::SEND | bits::RECV;
/// Modifiers of `FI_RMA` and `FI_ATOMIC`; without them, all directions.
const RMA_DIRECTIONS: u64 = bits::READ | bits::WRITE | bits::REMOTE_READ | bits::REMOTE_WRITE;
/// Secondary capabilities with a cost for each operation (a look-up of the source, an event at the
/// target), which are granted on request only.
const ON_REQUEST: u64 = bits::SOURCE | bits::SOURCE_ERR | bits::RMA_EVENT;
/// Capabilities that are left out where none are requested. Received messages make no error entry,
/// and there is one context.
const NEVER_DEFAULT: u64 = bits::SOURCE_ERR | bits::NAMED_RX_CTX;

/// Orders that are always kept. The others make operations wait, so they are granted on request
/// only: an endpoint keeps the orders of its `fi_info`.
const FREE_ORDERS: u64 = bits::ORDER_SAS;

/// Whether `offered` satisfies the hints.
pub(crate) fn check(hints: &InfoRequest, offered: &Info) -> Matched {
    require(hints.caps & !offered.caps == 0, "caps")?;
    check_address(hints, offered)?;
    check_names(hints, offered)?;
    check_contexts(hints, &offered.domain)?;
    if let Some(ep) = &hints.ep {
        check_endpoint(ep, hints.caps, &offered.ep)?;
    }
    if let Some(domain) = &hints.domain {
        check_domain(domain, &offered.domain)?;
    }
    require(hints.max_ep_auth_key == 0, "domain_attr->max_ep_auth_key")?;
    require(hints.max_group_id == 0, "domain_attr->max_group_id")?;
    if let Some(tx) = &hints.tx {
        check_tx(tx, offered.caps, &offered.tx)?;
    }
    if let Some(rx) = &hints.rx {
        check_rx(rx, offered.caps, &offered.rx)?;
    }
    Ok(())
}

/// Compares the length of injected messages with the send slots that are wanted beside it. When an
/// endpoint is opened with more slots than its offer has, it injects less instead.
pub(crate) fn check_inject_size(hints: &InfoRequest) -> Matched {
    let fits = |tx: &abi::fi_tx_attr| {
        let sends = if tx.size == 0 { SIZE_DEFAULT } else { tx.size };
        tx.inject_size <= inject_max(sends)
    };
    require(hints.tx.as_ref().is_none_or(fits), "tx_attr->inject_size")
}

fn require(holds: bool, attribute: &'static str) -> Matched {
    if holds { Ok(()) } else { Err(attribute) }
}

fn check_address(hints: &InfoRequest, offered: &Info) -> Matched {
    let concrete = sockaddr::format_of(&offered.source.ip());
    let accepted = [abi::FI_FORMAT_UNSPEC, abi::FI_SOCKADDR, SOCKADDR_IP, concrete];
    require(accepted.contains(&hints.addr_format), "addr_format")
}

/// `FI_SOCKADDR_IP`, which libfabric 1.20 appended: either of IPv4 and IPv6.
const SOCKADDR_IP: u32 = abi::FI_ADDR_CXI + 2;

fn check_names(hints: &InfoRequest, offered: &Info) -> Matched {
    let same = |wanted: &Option<String>, name: &str| {
        wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    require(same(&hints.domain_name, &offered.domain_name), "domain_attr->name")?;
    require(same(&hints.fabric_name, &offered.fabric_name), "fabric_attr->name")?;
    let on = |open: &Option<OpenHandle>| {
        open.as_ref().is_none_or(|open| open.admits(&offered.fabric_name, &offered.domain_name))
    };
    require(on(&hints.open_fabric), "fabric_attr->fabric")?;
    require(on(&hints.open_domain), "domain_attr->domain")?;
    require(hints.provider_version <= personality::version(), "fabric_attr->prov_version")
}

fn check_endpoint(hints: &abi::fi_ep_attr, caps: u64, offered: &abi::fi_ep_attr) -> Matched {
    require([abi::FI_EP_UNSPEC, offered.type_].contains(&hints.type_), "ep_attr->type")?;
    require(
        [abi::FI_PROTO_UNSPEC, offered.protocol].contains(&hints.protocol),
        "ep_attr->protocol",
    )?;
    require(hints.protocol_version <= offered.protocol_version, "ep_attr->protocol_version")?;
    require(hints.max_msg_size <= offered.max_msg_size, "ep_attr->max_msg_size")?;
    require(hints.msg_prefix_size <= offered.msg_prefix_size, "ep_attr->msg_prefix_size")?;
    if caps & (bits::RMA | bits::ATOMIC) != 0 {
        require(hints.max_order_raw_size <= offered.max_order_raw_size, "max_order_raw_size")?;
        require(hints.max_order_war_size <= offered.max_order_war_size, "max_order_war_size")?;
        require(hints.max_order_waw_size <= offered.max_order_waw_size, "max_order_waw_size")?;
    }
    require(hints.auth_key_size == 0, "ep_attr->auth_key_size")
}

/// The numbers of contexts. Each transmit context is a source of its own to the engine of the
/// other side, which therefore cannot match all of them with one address.
fn check_contexts(hints: &InfoRequest, offered: &abi::fi_domain_attr) -> Matched {
    let admits = |wanted: usize, most: usize| wanted <= most || wanted == SHARED_CONTEXT;
    if let Some(ep) = &hints.ep {
        require(admits(ep.tx_ctx_cnt, offered.max_ep_tx_ctx), "ep_attr->tx_ctx_cnt")?;
        require(admits(ep.rx_ctx_cnt, offered.max_ep_rx_ctx), "ep_attr->rx_ctx_cnt")?;
    }
    let is_directed = hints.caps & bits::DIRECTED_RECV != 0;
    require(!(is_directed && hints.wants_contexts()), "FI_DIRECTED_RECV with several contexts")
}

fn check_domain(hints: &abi::fi_domain_attr, offered: &abi::fi_domain_attr) -> Matched {
    // The provider locks by itself, so every threading model is safe.
    require(hints.threading <= abi::FI_THREAD_ENDPOINT, "domain_attr->threading")?;
    for progress in [hints.control_progress, hints.data_progress] {
        require(progress <= PROGRESS_CONTROL_UNIFIED, "domain_attr->progress")?;
    }
    require(hints.resource_mgmt <= abi::FI_RM_ENABLED, "domain_attr->resource_mgmt")?;
    require(hints.av_type <= abi::FI_AV_TABLE, "domain_attr->av_type")?;
    require(hints.cq_data_size <= offered.cq_data_size, "domain_attr->cq_data_size")?;
    require(hints.mr_key_size <= offered.mr_key_size, "domain_attr->mr_key_size")?;
    require(hints.mr_iov_limit <= offered.mr_iov_limit, "domain_attr->mr_iov_limit")?;
    require(hints.mr_cnt <= offered.mr_cnt, "domain_attr->mr_cnt")?;
    require(hints.cntr_cnt <= offered.cntr_cnt, "domain_attr->cntr_cnt")?;
    require(hints.caps & !offered.caps == 0, "domain_attr->caps")?;
    require(hints.max_err_data <= offered.max_err_data, "domain_attr->max_err_data")?;
    require(hints.auth_key_size == 0, "domain_attr->auth_key_size")?;
    check_mr_mode(hints.mr_mode.cast_unsigned())
}

/// `FI_PROGRESS_CONTROL_UNIFIED`, which libfabric 2.0 appended: all progress at the completion
/// queues.
const PROGRESS_CONTROL_UNIFIED: abi::fi_progress = abi::FI_PROGRESS_MANUAL + 1;

/// No mode is required, so the application may offer any. The two values of libfabric 1.4 exclude
/// other bits.
fn check_mr_mode(mode: u32) -> Matched {
    let alone = |value| mode & value == 0 || mode == value;
    require(alone(abi::FI_MR_BASIC) && alone(abi::FI_MR_SCALABLE), "domain_attr->mr_mode")
}

pub(crate) fn check_tx(hints: &abi::fi_tx_attr, caps: u64, offered: &abi::fi_tx_attr) -> Matched {
    // Capabilities of the other side are ignored here, as libfabric does.
    require(hints.caps & !caps == 0, "tx_attr->caps")?;
    require(hints.op_flags & !offered.op_flags == 0, "tx_attr->op_flags")?;
    require(hints.msg_order & !offered.msg_order == 0, "tx_attr->msg_order")?;
    require(hints.comp_order == 0, "tx_attr->comp_order")?;
    require(hints.inject_size <= offered.inject_size, "tx_attr->inject_size")?;
    require(hints.size <= offered.size, "tx_attr->size")?;
    require(hints.iov_limit <= offered.iov_limit, "tx_attr->iov_limit")?;
    require(hints.rma_iov_limit <= offered.rma_iov_limit, "tx_attr->rma_iov_limit")
}

pub(crate) fn check_rx(hints: &abi::fi_rx_attr, caps: u64, offered: &abi::fi_rx_attr) -> Matched {
    require(hints.caps & !caps == 0, "rx_attr->caps")?;
    require(hints.op_flags & !offered.op_flags == 0, "rx_attr->op_flags")?;
    require(hints.msg_order & !offered.msg_order == 0, "rx_attr->msg_order")?;
    require(hints.comp_order == 0, "rx_attr->comp_order")?;
    require(hints.total_buffered_recv == 0, "rx_attr->total_buffered_recv")?;
    require(hints.size <= offered.size, "rx_attr->size")?;
    require(hints.iov_limit <= offered.iov_limit, "rx_attr->iov_limit")
}

/// Adapts an offer to hints that [`check`] has passed.
pub(crate) fn shape(hints: Option<&InfoRequest>, info: &mut Info) {
    let wanted = hints.map_or(0, |hints| hints.caps);
    info.handle = std::ptr::with_exposed_provenance_mut(hints.map_or(0, |hints| hints.handle));
    let mut left_out = NEVER_DEFAULT & !wanted;
    if hints.is_some_and(InfoRequest::wants_contexts) {
        left_out |= bits::DIRECTED_RECV;
    } else {
        (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx) = (1, 1);
    }
    info.caps = shape_caps(info.caps & !left_out, wanted, info.caps & !left_out);
    if let Some(hints) = hints.and_then(|hints| hints.ep) {
        // One context without a request.
        echo(&mut info.ep.tx_ctx_cnt, hints.tx_ctx_cnt);
        echo(&mut info.ep.rx_ctx_cnt, hints.rx_ctx_cnt);
    }
    shape_domain(hints.and_then(|hints| hints.domain.as_ref()), info);
    shape_tx(hints.and_then(|hints| hints.tx.as_ref()), info);
    shape_rx(hints.and_then(|hints| hints.rx.as_ref()), info);
}

/// Primary capabilities and those of [`ON_REQUEST`] as requested, secondary ones as offered.
/// Without a request, all capabilities of the endpoint.
fn shape_caps(endpoint: u64, wanted: u64, offered: u64) -> u64 {
    let chosen = PRIMARY | ON_REQUEST;
    let wanted = if wanted == 0 { endpoint } else { wanted };
    let mut caps = wanted & offered & chosen | offered & !chosen;
    let kinds =
        [(bits::MSG | bits::TAGGED, MSG_DIRECTIONS), (bits::RMA | bits::ATOMIC, RMA_DIRECTIONS)];
    for (kind, directions) in kinds {
        if caps & kind != 0 && caps & directions == 0 {
            caps |= offered & endpoint & directions;
        }
    }
    caps
}

fn shape_domain(hints: Option<&abi::fi_domain_attr>, info: &mut Info) {
    info.domain.caps = shape_caps(info.caps, hints.map_or(0, |hints| hints.caps), info.domain.caps);
    let Some(hints) = hints else { return };
    echo(&mut info.domain.threading, hints.threading);
    echo(&mut info.domain.control_progress, hints.control_progress);
    echo(&mut info.domain.data_progress, hints.data_progress);
    echo(&mut info.domain.resource_mgmt, hints.resource_mgmt);
    echo(&mut info.domain.av_type, hints.av_type);
    let old = (abi::FI_MR_BASIC | abi::FI_MR_SCALABLE).cast_signed();
    info.domain.mr_mode = hints.mr_mode & old;
}

/// Names the registration mode to an application of an old interface: `mr_mode` was an enumeration
/// there, without a value for "no bit" (`fi_domain(3)`, `mr_mode`).
pub(crate) const fn name_mr_mode(api_version: u32, info: &mut Info) {
    if api_version < abi::REVISED_1_5 && info.domain.mr_mode == 0 {
        info.domain.mr_mode = abi::FI_MR_SCALABLE.cast_signed();
    }
}

fn shape_tx(hints: Option<&abi::fi_tx_attr>, info: &mut Info) {
    info.tx.caps = shape_caps(info.caps, hints.map_or(0, |hints| hints.caps), info.tx.caps);
    info.tx.op_flags = hints.map_or(0, |hints| hints.op_flags);
    info.tx.size = SIZE_DEFAULT;
    echo(&mut info.tx.size, hints.map_or(0, |hints| hints.size));
    info.tx.inject_size = info.tx.inject_size.min(inject_max(info.tx.size));
    let Some(hints) = hints else { return };
    info.tx.msg_order &= hints.msg_order | FREE_ORDERS;
    echo(&mut info.tx.inject_size, hints.inject_size);
    echo(&mut info.tx.iov_limit, hints.iov_limit);
    echo(&mut info.tx.rma_iov_limit, hints.rma_iov_limit);
}

fn shape_rx(hints: Option<&abi::fi_rx_attr>, info: &mut Info) {
    info.rx.caps = shape_caps(info.caps, hints.map_or(0, |hints| hints.caps), info.rx.caps);
    info.rx.op_flags = hints.map_or(0, |hints| hints.op_flags);
    info.rx.size = SIZE_DEFAULT;
    let Some(hints) = hints else { return };
    info.rx.msg_order &= hints.msg_order | FREE_ORDERS;
    echo(&mut info.rx.size, hints.size);
    echo(&mut info.rx.iov_limit, hints.iov_limit);
}

/// Narrows the attributes of a scalable endpoint to those of a context, which [`check_tx`] has
/// passed (`fi_endpoint(3)`, `fi_tx_context`).
pub(crate) fn narrow_tx(own: &mut abi::fi_tx_attr, wanted: &abi::fi_tx_attr) {
    echo(&mut own.caps, wanted.caps);
    echo(&mut own.op_flags, wanted.op_flags);
    echo(&mut own.msg_order, wanted.msg_order);
    echo(&mut own.size, wanted.size);
    own.inject_size = own.inject_size.min(inject_max(own.size));
    echo(&mut own.inject_size, wanted.inject_size);
    echo(&mut own.iov_limit, wanted.iov_limit);
    echo(&mut own.rma_iov_limit, wanted.rma_iov_limit);
}

/// As [`narrow_tx`].
pub(crate) fn narrow_rx(own: &mut abi::fi_rx_attr, wanted: &abi::fi_rx_attr) {
    echo(&mut own.caps, wanted.caps);
    echo(&mut own.op_flags, wanted.op_flags);
    echo(&mut own.msg_order, wanted.msg_order);
    echo(&mut own.size, wanted.size);
    echo(&mut own.iov_limit, wanted.iov_limit);
}

/// Copies a hint, unless it is zero, which means no request.
fn echo<T: Default + PartialEq>(attribute: &mut T, hint: T) {
    if hint != T::default() {
        *attribute = hint;
    }
}

#[cfg(test)]
mod tests;

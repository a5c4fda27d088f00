// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo`: what this provider offers, on which addresses, to whom.
//!
//! What comes in: node, service, flags and hints. What goes out: one [`Info`] for each interface
//! address that satisfies them, best first. The rules by which hints admit and shape an offer are
//! in `hints`; here are the offer itself and the addresses. Called at `fi_getinfo`, and again at
//! `fi_domain` and `fi_endpoint`, which check what the application hands back. Bounds: the
//! machine's addresses.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use ofi_xdp_datapath::Tier;

use crate::abi::{self, bits, make_version};
use crate::errno::Error;
use crate::instances::Instance;
use crate::interface::{Interface, Nic, source_towards};
use crate::memory::{INJECT_MAX, IOV_MAX};
use crate::registry::REGIONS_MAX;
use crate::tier::Choice;
use crate::{hints, instances, param, sockaddr};

/// The oldest interface version that is served; older ones differ in what memory registration means
/// and in how long an error entry is.
pub(crate) const API_VERSION_MIN: u32 = make_version(1, 5);

/// Most operations of one kind that an endpoint can have at once (`tx_attr->size`,
/// `rx_attr->size`).
pub(crate) const SIZE_MAX: usize = 65536;
/// The same, for applications that do not ask.
pub(crate) const SIZE_DEFAULT: usize = 1024;

/// The wire protocol's name: bit 31 marks private protocols, the rest spells `xdp`.
pub(crate) const PROTOCOL: u32 = abi::FI_PROV_SPECIFIC | 0x0078_6470;
/// The wire protocol's version.
pub(crate) const PROTOCOL_VERSION: u32 = 1;
/// A tag of 64 bits without inner structure (`FI_TAG_GENERIC`).
const TAG_FORMAT: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// Capabilities of the sending side.
pub(crate) const TX_CAPS: u64 = bits::MSG
    | bits::TAGGED
    | bits::RMA
    | bits::ATOMIC
    | bits::SEND
    | bits::READ
    | bits::WRITE
    | bits::FENCE
    | bits::TRIGGER;
/// Capabilities of the receiving side.
pub(crate) const RX_CAPS: u64 = bits::MSG
    | bits::TAGGED
    | bits::RMA
    | bits::ATOMIC
    | bits::RECV
    | bits::REMOTE_READ
    | bits::REMOTE_WRITE
    | bits::DIRECTED_RECV
    | bits::MULTI_RECV
    | bits::SOURCE
    | bits::SOURCE_ERR
    | bits::RMA_EVENT
    | bits::TRIGGER;
/// Orders that can be promised: all of them (`fi_endpoint(3)`, "Message Ordering").
pub(crate) const ORDERS: u64 = bits::ORDER_RAR
    | bits::ORDER_RAW
    | bits::ORDER_RAS
    | bits::ORDER_WAR
    | bits::ORDER_WAW
    | bits::ORDER_WAS
    | bits::ORDER_SAR
    | bits::ORDER_SAW
    | bits::ORDER_SAS
    | bits::ORDER_RMA_RAR
    | bits::ORDER_RMA_RAW
    | bits::ORDER_RMA_WAR
    | bits::ORDER_RMA_WAW
    | bits::ORDER_ATOMIC_RAR
    | bits::ORDER_ATOMIC_RAW
    | bits::ORDER_ATOMIC_WAR
    | bits::ORDER_ATOMIC_WAW;
/// Capabilities of the domain.
pub(crate) const DOMAIN_CAPS: u64 = bits::LOCAL_COMM | bits::REMOTE_COMM | bits::SHARED_AV;
/// All of them.
pub(crate) const CAPS: u64 = TX_CAPS | RX_CAPS | DOMAIN_CAPS;

/// Operation flags that a sender may make the default. A send completes when the peer has
/// acknowledged it, which it does when the bytes are placed: that satisfies three completion
/// levels. Of the fourth, a match, see `Engine::post_matched_send`.
pub(crate) const TX_OP_FLAGS: u64 = bits::COMPLETION
    | bits::INJECT
    | bits::INJECT_COMPLETE
    | bits::TRANSMIT_COMPLETE
    | bits::DELIVERY_COMPLETE
    | bits::MATCH_COMPLETE
    | bits::FENCE
    | bits::MORE;
/// Operation flags that a receiver may make the default.
pub(crate) const RX_OP_FLAGS: u64 = bits::COMPLETION | bits::MORE | bits::MULTI_RECV;

/// What the application looks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    /// The interface version that it is written for.
    pub(crate) api_version: u32,
    /// A host name or address.
    pub(crate) node: Option<String>,
    /// A service name or port.
    pub(crate) service: Option<String>,
    /// `FI_SOURCE`, `FI_NUMERICHOST`, and bits of libfabric's own.
    pub(crate) flags: u64,
}

/// A `fi_info` from the application: hints, or what it was offered and hands back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) caps: u64,
    pub(crate) addr_format: u32,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) tx: Option<abi::fi_tx_attr>,
    pub(crate) rx: Option<abi::fi_rx_attr>,
    pub(crate) ep: Option<abi::fi_ep_attr>,
    pub(crate) domain: Option<abi::fi_domain_attr>,
    /// Of hints: authorization keys that an endpoint is to have, the greatest peer group.
    pub(crate) max_ep_auth_key: usize,
    pub(crate) max_group_id: u32,
    pub(crate) domain_name: Option<String>,
    pub(crate) fabric_name: Option<String>,
    /// An open fabric that the hints name.
    pub(crate) open_fabric: Option<Instance>,
    /// An open domain that the hints name.
    pub(crate) open_domain: Option<Instance>,
    pub(crate) provider_version: u32,
}

/// A `fi_info` for the application.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub(crate) caps: u64,
    pub(crate) source: SocketAddr,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) tx: abi::fi_tx_attr,
    pub(crate) rx: abi::fi_rx_attr,
    pub(crate) ep: abi::fi_ep_attr,
    pub(crate) domain: abi::fi_domain_attr,
    pub(crate) domain_name: String,
    pub(crate) fabric_name: String,
    /// An open fabric of that name.
    pub(crate) fabric: *mut abi::fid_fabric,
    pub(crate) nic: Nic,
}

impl Info {
    /// Everything that an endpoint on this address can do.
    pub(crate) fn offer(interface: &Interface) -> Self {
        Self {
            caps: CAPS,
            source: SocketAddr::new(interface.ip, 0),
            destination: None,
            tx: tx_attributes(),
            rx: rx_attributes(),
            ep: endpoint_attributes(),
            domain: domain_attributes(),
            domain_name: interface.nic.name.clone(),
            fabric_name: interface.network(),
            fabric: std::ptr::null_mut(),
            nic: interface.nic.clone(),
        }
    }
}

fn tx_attributes() -> abi::fi_tx_attr {
    abi::fi_tx_attr {
        caps: TX_CAPS,
        mode: 0,
        op_flags: TX_OP_FLAGS,
        msg_order: ORDERS,
        comp_order: 0,
        inject_size: INJECT_MAX,
        size: SIZE_MAX,
        iov_limit: IOV_MAX,
        rma_iov_limit: 1,
        tclass: abi::FI_TC_UNSPEC,
    }
}

fn rx_attributes() -> abi::fi_rx_attr {
    abi::fi_rx_attr {
        caps: RX_CAPS,
        mode: 0,
        op_flags: RX_OP_FLAGS,
        msg_order: ORDERS,
        comp_order: 0,
        total_buffered_recv: 0,
        size: SIZE_MAX,
        iov_limit: IOV_MAX,
    }
}

fn endpoint_attributes() -> abi::fi_ep_attr {
    abi::fi_ep_attr {
        type_: abi::FI_EP_RDM,
        protocol: PROTOCOL,
        protocol_version: PROTOCOL_VERSION,
        max_msg_size: usize::try_from(ofi_xdp_core::MESSAGE_LEN_MAX).unwrap_or(usize::MAX),
        msg_prefix_size: 0,
        max_order_raw_size: usize::MAX,
        max_order_war_size: usize::MAX,
        max_order_waw_size: usize::MAX,
        mem_tag_format: TAG_FORMAT,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        auth_key_size: 0,
        auth_key: std::ptr::null_mut(),
    }
}

fn domain_attributes() -> abi::fi_domain_attr {
    abi::fi_domain_attr {
        domain: std::ptr::null_mut(),
        name: std::ptr::null_mut(),
        threading: abi::FI_THREAD_SAFE,
        control_progress: abi::FI_PROGRESS_MANUAL,
        data_progress: abi::FI_PROGRESS_MANUAL,
        resource_mgmt: abi::FI_RM_ENABLED,
        av_type: abi::FI_AV_UNSPEC,
        mr_mode: 0,
        mr_key_size: size_of::<u64>(),
        cq_data_size: size_of::<u64>(),
        // Counts without a limit of ours: what a process can open.
        cq_cnt: 1024,
        ep_cnt: 1024,
        tx_ctx_cnt: 1024,
        rx_ctx_cnt: 1024,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        max_ep_stx_ctx: 1024,
        max_ep_srx_ctx: 1024,
        cntr_cnt: 1024,
        mr_iov_limit: IOV_MAX,
        caps: DOMAIN_CAPS,
        mode: 0,
        auth_key: std::ptr::null_mut(),
        auth_key_size: 0,
        max_err_data: sockaddr::V6_LEN,
        mr_cnt: REGIONS_MAX as usize,
        tclass: abi::FI_TC_UNSPEC,
    }
}

/// The offers of our own that satisfy `lookup` and `hints`, best first. `passthrough` says, for
/// people, what hardware providers offer, or why not.
///
/// # Errors
/// [`Error::NoData`] if there are none; [`Error::Os`] when the kernel does not say what addresses
/// it has.
pub(crate) fn find(
    lookup: &Lookup,
    hints: Option<&Request>,
    passthrough: &str,
) -> Result<Vec<Info>, Error> {
    if lookup.api_version < API_VERSION_MIN {
        log::info!(target: "core", "applications older than libfabric 1.5 are not served");
        return Err(Error::NoData);
    }
    let wanted = Addresses::resolve(lookup, hints)?;
    let values = param::values();
    let mut found = Vec::new();
    for interface in interfaces(&values)? {
        let mut info = Info::offer(&interface);
        let admitted = admit_tier(values.tier, &interface)
            .and_then(|()| wanted.admit(&interface.ip))
            .and_then(|()| hints.map_or(Ok(()), |hints| hints::check(hints, &info)));
        if let Err(reason) = admitted {
            log::info!(target: "core", "{} ({}): {reason}", interface.nic.name, interface.ip);
            continue;
        }
        info.source.set_port(wanted.source_port);
        info.destination = wanted.destination;
        hints::shape(hints, &mut info);
        instances::refer(hints, lookup.api_version, &mut info);
        if !passthrough.is_empty() {
            info.nic.tiers.push(passthrough.to_owned());
        }
        found.push(info);
    }
    if found.is_empty() { Err(Error::NoData) } else { Ok(found) }
}

/// Whether an interface may be offered by the tier that it will have.
fn admit_tier(choice: Choice, interface: &Interface) -> Result<(), &'static str> {
    match (choice, interface.nic.forecast.tier) {
        (Choice::Passthrough, _) => Err("FI_XDP_TIER=passthrough: hardware providers alone"),
        (Choice::AfXdp, Tier::Udp) => Err("FI_XDP_TIER=af_xdp, which is not to be had here"),
        _ => Ok(()),
    }
}

/// The interfaces to offer.
fn interfaces(values: &param::Values) -> Result<Vec<Interface>, Error> {
    let mut all = Interface::all()?;
    if let Some(name) = &values.interface {
        if !all.iter().any(|interface| interface.nic.name == *name) {
            let mut known: Vec<&str> = all.iter().map(|it| it.nic.name.as_str()).collect();
            known.dedup();
            param::warn_no_interface(name, &known.join(", "));
        }
        all.retain(|interface| interface.nic.name == *name);
    }
    Ok(all)
}

/// Which addresses are asked for: by node and service, else by the hints (`fi_getinfo(3)`).
struct Addresses {
    /// Only this local address; none: any.
    source: Option<IpAddr>,
    /// The local port; 0: any.
    source_port: u16,
    /// The peer.
    destination: Option<SocketAddr>,
}

impl Addresses {
    fn resolve(lookup: &Lookup, hints: Option<&Request>) -> Result<Self, Error> {
        let named = lookup.node.is_some() || lookup.service.is_some();
        let (mut source, mut destination) =
            hints.map_or((None, None), |hints| (hints.source, hints.destination));
        if named {
            let resolved = resolve(lookup, hints)?;
            if lookup.flags & bits::SOURCE != 0 {
                source = Some(resolved);
            } else {
                destination = Some(resolved);
            }
        }
        let source_port = source.map_or(0, |source| source.port());
        let mut ip = source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        // A named interface is the application's choice, whatever the routing table says.
        let chosen = hints.is_some_and(|hints| hints.domain_name.is_some());
        if let (None, false, Some(to)) = (ip, chosen, destination) {
            ip = Some(source_towards(to).ok_or(Error::NoData)?);
        }
        Ok(Self { source: ip, source_port, destination })
    }

    /// Whether an endpoint on `ip` is what was asked for.
    fn admit(&self, ip: &IpAddr) -> Result<(), &'static str> {
        if self.source.is_some_and(|source| source != *ip) {
            return Err("not the source address asked for, or not the way to the destination");
        }
        if self.destination.is_some_and(|to| to.is_ipv4() != ip.is_ipv4()) {
            return Err("not the destination's address family");
        }
        Ok(())
    }
}

/// The first address that node and service name.
pub(crate) fn resolve(lookup: &Lookup, hints: Option<&Request>) -> Result<SocketAddr, Error> {
    let family: c_int = match hints.map_or(abi::FI_FORMAT_UNSPEC, |hints| hints.addr_format) {
        abi::FI_SOCKADDR_IN => libc::AF_INET,
        abi::FI_SOCKADDR_IN6 => libc::AF_INET6,
        _ => libc::AF_UNSPEC,
    };
    let numeric = if lookup.flags & bits::NUMERICHOST == 0 { 0 } else { libc::AI_NUMERICHOST };
    let passive = if lookup.flags & bits::SOURCE == 0 { 0 } else { libc::AI_PASSIVE };
    let wanted = dns_lookup::AddrInfoHints {
        socktype: libc::SOCK_DGRAM,
        protocol: libc::IPPROTO_UDP,
        address: family,
        flags: numeric | passive,
    };
    let (mut node, mut service) = (lookup.node.as_deref(), lookup.service.as_deref());
    if let Some(parts) = node.and_then(sockaddr::split_text) {
        // Such an address says it all (fi_getinfo(3)).
        if service.is_some() {
            return Err(Error::NoData);
        }
        (node, service) = parts;
    }
    let mut found = dns_lookup::getaddrinfo(node, service, Some(wanted)).map_err(|error| {
        log::info!(target: "core", "cannot resolve {node:?}, {service:?}: {error:?}");
        Error::NoData
    })?;
    found.find_map(Result::ok).map(|it| it.sockaddr).ok_or(Error::NoData)
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! An offer of `fi_getinfo`: the capabilities and attributes of an endpoint on one address.

use std::net::SocketAddr;

use ofi_xdp_datapath::payload_max;

use crate::getinfo::interface::{Interface, Nic};
use crate::runtime::memory::{INJECT_LEAST, INJECT_MAX, IOV_MAX};
use crate::sys::abi::{self, bits};
use crate::sys::limits::{CONTEXTS_MAX, REGIONS_MAX};
use crate::sys::personality::{self, Personality};
use crate::sys::sockaddr;

/// Most operations of one kind that an endpoint can have at once (`tx_attr->size`,
/// `rx_attr->size`).
pub(crate) const SIZE_MAX: usize = 65536;
/// The number of operations without a hint.
pub(crate) const SIZE_DEFAULT: usize = 1024;

/// The wire protocol's name: bit 31 marks private protocols, the rest spells `xdp`.
pub(crate) const PROTOCOL: u32 = abi::FI_PROV_SPECIFIC | 0x0078_6470;
/// The wire protocol's version.
pub(crate) const PROTOCOL_VERSION: u32 = 2;
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
    | bits::NAMED_RX_CTX
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
/// Supported message orders: all of them (`fi_endpoint(3)`, "Message Ordering").
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
/// Capabilities that a connected endpoint does not have: its one peer is known.
const ABOUT_PEERS: u64 = bits::DIRECTED_RECV | bits::SOURCE | bits::SOURCE_ERR | bits::NAMED_RX_CTX;
/// Capabilities of an endpoint of datagrams.
const DATAGRAM_CAPS: u64 = bits::MSG
    | bits::SEND
    | bits::RECV
    | bits::DIRECTED_RECV
    | bits::MULTI_RECV
    | bits::SOURCE
    | bits::TRIGGER
    | DOMAIN_CAPS;
/// Its operation flags: a datagram is complete when it has left.
const DATAGRAM_OP_FLAGS: u64 =
    bits::COMPLETION | bits::INJECT | bits::INJECT_COMPLETE | bits::TRANSMIT_COMPLETE | bits::MORE;
/// Capabilities of the domain.
pub(crate) const DOMAIN_CAPS: u64 = bits::LOCAL_COMM | bits::REMOTE_COMM | bits::SHARED_AV;
/// All capabilities.
pub(crate) const CAPS: u64 = TX_CAPS | RX_CAPS | DOMAIN_CAPS;

/// Operation flags that may be defaults of the sending side. A send completes when the peer has
/// acknowledged it, which it does after placing the bytes: this satisfies three completion levels.
/// `Engine::post_matched_send` serves the fourth one, a match.
pub(crate) const TX_OP_FLAGS: u64 = bits::COMPLETION
    | bits::INJECT
    | bits::INJECT_COMPLETE
    | bits::TRANSMIT_COMPLETE
    | bits::DELIVERY_COMPLETE
    | bits::MATCH_COMPLETE
    | bits::FENCE
    | bits::MORE;
/// Operation flags that may be defaults of the receiving side.
pub(crate) const RX_OP_FLAGS: u64 = bits::COMPLETION | bits::MORE | bits::MULTI_RECV;

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
    /// The handle of the hints (`fi_getinfo(3)`): a passive endpoint, or a connection request.
    pub(crate) handle: *mut abi::fid,
    pub(crate) nic: Nic,
    /// Whether C sees [`Self::nic`].
    pub(crate) shows_nic: bool,
}

impl Personality {
    /// The types of endpoints, in the order in which they are offered: that of the provider whose
    /// name it is.
    pub(crate) const fn ep_types(self) -> &'static [abi::fi_ep_type] {
        match self {
            Self::Xdp => &[abi::FI_EP_RDM, abi::FI_EP_MSG, abi::FI_EP_DGRAM],
            Self::Tcp => &[abi::FI_EP_MSG, abi::FI_EP_RDM],
        }
    }

    /// The protocol that offers name. Applications that look for `tcp` compare it.
    const fn protocol(self, ep_type: abi::fi_ep_type) -> u32 {
        match (self, ep_type) {
            (_, abi::FI_EP_DGRAM) => abi::FI_PROTO_UDP,
            (Self::Xdp, _) => PROTOCOL,
            (Self::Tcp, abi::FI_EP_MSG) => abi::FI_PROTO_SOCK_TCP,
            (Self::Tcp, _) => abi::FI_PROTO_XNET,
        }
    }

    /// Capabilities of connected endpoints that are offered on request only. `tcp` has no tagged
    /// messages there, and applications look for that.
    const fn on_request(self) -> u64 {
        match self {
            Self::Xdp => 0,
            Self::Tcp => bits::TAGGED,
        }
    }
}

impl Info {
    /// The offer of an endpoint of a type on this address, with everything that it can do for who
    /// requests the capabilities `wanted`.
    pub(crate) fn offer_of(ep_type: abi::fi_ep_type, interface: &Interface, wanted: u64) -> Self {
        Self::offer_as(personality::current(), ep_type, interface, wanted)
    }

    /// [`Self::offer_of`], of a provider with this name.
    pub(super) fn offer_as(
        personality: Personality,
        ep_type: abi::fi_ep_type,
        interface: &Interface,
        wanted: u64,
    ) -> Self {
        let mut info = Self::offer(interface);
        info.ep.protocol = personality.protocol(ep_type);
        if ep_type != abi::FI_EP_RDM {
            (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx) = (1, 1);
        }
        if ep_type == abi::FI_EP_MSG {
            let left_out = ABOUT_PEERS | personality.on_request() & !wanted;
            info.ep.type_ = ep_type;
            // The send slots are those of all endpoints of a runtime.
            info.tx.inject_size = INJECT_LEAST;
            info.caps &= !left_out;
            info.tx.caps &= !left_out;
            info.rx.caps &= !left_out;
        }
        if ep_type == abi::FI_EP_DGRAM {
            info.limit_to_datagrams(interface);
        }
        info
    }

    /// Limits the offer to an endpoint of datagrams (`FI_EP_DGRAM`). A datagram is one UDP packet
    /// without a header of ours, as those of libfabric's provider `udp`.
    fn limit_to_datagrams(&mut self, interface: &Interface) {
        let mtu = u32::try_from(interface.nic.mtu).unwrap_or(u32::MAX);
        self.ep.type_ = abi::FI_EP_DGRAM;
        self.ep.protocol_version = 0;
        self.ep.max_msg_size = payload_max(mtu, interface.ip);
        self.caps &= DATAGRAM_CAPS;
        (self.tx.caps, self.rx.caps) = (self.tx.caps & self.caps, self.rx.caps & self.caps);
        self.tx.op_flags &= DATAGRAM_OP_FLAGS;
        self.caps |= bits::MULTICAST;
        self.tx.caps |= bits::MULTICAST;
        self.tx.op_flags |= bits::MULTICAST;
        (self.tx.msg_order, self.rx.msg_order) = (0, 0);
        self.tx.inject_size = self.tx.inject_size.min(self.ep.max_msg_size);
        self.tx.rma_iov_limit = 0;
        let ep = &mut self.ep;
        (ep.max_order_raw_size, ep.max_order_war_size, ep.max_order_waw_size) = (0, 0, 0);
        ep.mem_tag_format = 0;
        self.domain.cq_data_size = 0;
    }

    /// Limits datagrams to a path with this MTU, in bytes: a longer one would not arrive. Other
    /// endpoints find the path MTU themselves, and cut messages to it.
    pub(super) fn limit_to_path(&mut self, mtu: u32) {
        if self.ep.type_ == abi::FI_EP_DGRAM {
            let size = self.ep.max_msg_size.min(payload_max(mtu, self.source.ip()));
            self.ep.max_msg_size = size;
            self.tx.inject_size = self.tx.inject_size.min(size);
        }
    }

    /// The offer of a reliable datagram endpoint (`FI_EP_RDM`) on this address.
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
            handle: std::ptr::null_mut(),
            nic: interface.nic.clone(),
            shows_nic: true,
        }
    }
}

pub(super) fn tx_attributes() -> abi::fi_tx_attr {
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

pub(super) fn rx_attributes() -> abi::fi_rx_attr {
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

pub(super) fn endpoint_attributes() -> abi::fi_ep_attr {
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

pub(super) fn domain_attributes() -> abi::fi_domain_attr {
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
        // Counts that only the limits of the process bound.
        cq_cnt: 1024,
        ep_cnt: 1024,
        tx_ctx_cnt: 1024,
        rx_ctx_cnt: 1024,
        max_ep_tx_ctx: CONTEXTS_MAX,
        max_ep_rx_ctx: CONTEXTS_MAX,
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `fi_getinfo`, and of calls that take one of its results.

use std::net::SocketAddr;

use crate::getinfo::open_objects::OpenHandle;
use crate::sys::abi::{self, SHARED_CONTEXT, bits};

/// The arguments of `fi_getinfo` without the hints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    /// The interface version that the application is written for.
    pub(crate) api_version: u32,
    /// A host name or address.
    pub(crate) node: Option<String>,
    /// A service name or port.
    pub(crate) service: Option<String>,
    /// `FI_SOURCE`, `FI_NUMERICHOST`, and bits of libfabric's own.
    pub(crate) flags: u64,
}

/// A `fi_info` from the application: hints, or an offer that it returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct InfoRequest {
    pub(crate) caps: u64,
    pub(crate) addr_format: u32,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) tx: Option<abi::fi_tx_attr>,
    pub(crate) rx: Option<abi::fi_rx_attr>,
    pub(crate) ep: Option<abi::fi_ep_attr>,
    pub(crate) domain: Option<abi::fi_domain_attr>,
    /// Hint: number of authorization keys of an endpoint.
    pub(crate) max_ep_auth_key: usize,
    /// Hint: the greatest peer group.
    pub(crate) max_group_id: u32,
    pub(crate) domain_name: Option<String>,
    pub(crate) fabric_name: Option<String>,
    /// C's pointer to a passive endpoint or a connection request, exposed; 0: none.
    pub(crate) handle: usize,
    /// An open fabric that the hints name.
    pub(crate) open_fabric: Option<OpenHandle>,
    /// An open domain that the hints name.
    pub(crate) open_domain: Option<OpenHandle>,
    pub(crate) provider_version: u32,
}

impl InfoRequest {
    /// Whether more than one context of a side is asked for.
    pub(crate) fn has_several_contexts(&self) -> bool {
        let several = |count: usize| count > 1 && count != SHARED_CONTEXT;
        self.ep.is_some_and(|ep| several(ep.tx_ctx_cnt) || several(ep.rx_ctx_cnt))
    }

    /// Whether a scalable endpoint is asked for: named receive contexts, or several.
    pub(crate) fn wants_contexts(&self) -> bool {
        self.caps & bits::NAMED_RX_CTX != 0 || self.has_several_contexts()
    }
}

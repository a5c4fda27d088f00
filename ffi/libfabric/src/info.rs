// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo`: one offer of one provider for a request.

use std::net::IpAddr;

use crate::owned::text_of;
use crate::raw::{self, Errno, abi};
use crate::{Error, Name};

/// The endpoint types that these programs use (`fi_endpoint(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `FI_EP_RDM`: reliable datagrams to any number of peers.
    Rdm,
    /// `FI_EP_MSG`: a connection to one peer.
    Msg,
}

/// A program's request to libfabric.
#[derive(Clone, Debug)]
pub struct Want<'a> {
    /// The provider's name, in full: `xdp`, `tcp;ofi_rxm`.
    pub provider: &'a str,
    /// The endpoint type.
    pub kind: Kind,
    /// Whether tagged messages are needed; untagged ones otherwise.
    pub tagged: bool,
    /// Whether one-sided operations are needed, too.
    pub rma: bool,
    /// Whether atomic operations are needed, too.
    pub atomic: bool,
    /// Whether the provider must make progress by itself (`FI_PROGRESS_AUTO`); its choice
    /// otherwise.
    pub auto_progress: bool,
    /// The local address to use.
    pub source: Option<IpAddr>,
    /// The local port to use; the provider's choice otherwise. Only with `source`.
    pub port: Option<u16>,
    /// The peer to connect to (only [`Kind::Msg`]).
    pub destination: Option<&'a Name>,
}

/// One offer: a `struct fi_info`.
#[derive(Debug)]
pub struct Info(raw::Info);

impl Info {
    /// The first offer of exactly the wanted provider: libfabric also offers stacks of providers
    /// under the name of the lowest. Requests send-after-send order, and supports every mode bit
    /// without a cost for a message client: `FI_CONTEXT`, `FI_CONTEXT2`, `FI_MR_LOCAL` and those
    /// for targets of RMA.
    ///
    /// # Errors
    /// [`Error::NoMatch`], with libfabric's reason.
    pub fn find(want: &Want<'_>) -> Result<Self, Error> {
        let hints = hints(want);
        let node = want.source.map(|ip| ip.to_string());
        let service = want.port.map(|port| port.to_string());
        let flags = if want.source.is_some() { abi::FI_SOURCE } else { 0 };
        let (node, service) = (node.as_deref(), service.as_deref());
        let none = |errno| Error::NoMatch {
            wanted: format!(
                "provider {:?}, endpoint type {:?}, source {:?}",
                want.provider, want.kind, want.source
            ),
            text: text_of(errno),
        };
        let offers = raw::getinfo(abi::VERSION, node, service, flags, Some(&hints));
        let offers = offers.map_err(|Errno(errno)| none(errno))?;
        let mut offers = offers.into_iter();
        let first = offers.find(|offer| offer.provider_name() == want.provider);
        first.map(Self).ok_or_else(|| none(libc::ENODATA))
    }

    /// The offer that a connection request came with.
    pub(crate) fn of(info: raw::Info) -> Self {
        Self(info)
    }

    /// The entry, for calls that take it.
    pub(crate) fn raw(&self) -> &raw::Info {
        &self.0
    }

    /// The provider's name.
    #[must_use]
    pub fn provider(&self) -> String {
        self.0.provider_name()
    }

    /// The domain's name: for network providers, the interface.
    #[must_use]
    pub fn domain(&self) -> String {
        self.0.domain_name()
    }

    /// The endpoint type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        if self.0.ep().type_ == abi::FI_EP_MSG { Kind::Msg } else { Kind::Rdm }
    }

    /// Whether the offer is for tagged messages.
    #[must_use]
    pub fn tagged(&self) -> bool {
        self.0.caps() & abi::FI_TAGGED != 0
    }

    /// The longest message that may be injected: sent without a completion, its buffer free at
    /// once.
    #[must_use]
    pub fn inject_size(&self) -> usize {
        self.0.tx().inject_size
    }

    /// How many sends may be under way at once.
    #[must_use]
    pub fn transmit_depth(&self) -> usize {
        self.0.tx().size
    }

    /// Asks for room for so many posted receives at the endpoints that are opened with this offer.
    pub fn set_receive_depth(&mut self, receives: usize) {
        self.0.set_rx(|rx| rx.size = receives);
    }

    /// How many receives may be posted at once.
    #[must_use]
    pub fn receive_depth(&self) -> usize {
        self.0.rx().size
    }

    /// The address to connect to; empty if there is none.
    pub(crate) fn destination(&self) -> Vec<u8> {
        self.0.dest_addr()
    }

    /// Whether buffers must be registered before use (`FI_MR_LOCAL`).
    pub(crate) fn wants_registration(&self) -> bool {
        self.0.domain().mr_mode & abi::FI_MR_LOCAL != 0
    }

    /// Whether the offer has one-sided operations.
    pub(crate) fn offers_rma(&self) -> bool {
        self.0.caps() & abi::FI_RMA != 0
    }

    /// Whether addresses are of the format `FI_SOCKADDR_IN`.
    pub(crate) fn takes_ipv4(&self) -> bool {
        self.0.entry().addr_format == abi::FI_SOCKADDR_IN
    }

    /// Whether peers name memory by its address (`FI_MR_VIRT_ADDR`); by the offset in its region
    /// otherwise.
    pub(crate) fn wants_addresses(&self) -> bool {
        self.0.domain().mr_mode & abi::FI_MR_VIRT_ADDR != 0
    }
}

/// The hints for `want`.
fn hints(want: &Want<'_>) -> raw::Info {
    let hints = raw::Info::empty();
    let messages = if want.tagged { abi::FI_TAGGED } else { abi::FI_MSG };
    hints.set(|info| {
        info.caps = messages
            | if want.rma { abi::FI_RMA } else { 0 }
            | if want.atomic { abi::FI_ATOMIC } else { 0 };
        info.mode = abi::FI_CONTEXT | abi::FI_CONTEXT2;
    });
    hints.set_ep(|endpoint| {
        endpoint.type_ = match want.kind {
            Kind::Rdm => abi::FI_EP_RDM,
            Kind::Msg => abi::FI_EP_MSG,
        };
    });
    hints.set_domain(|domain| {
        domain.mr_mode = abi::FI_MR_LOCAL
            | abi::FI_MR_ALLOCATED
            | abi::FI_MR_VIRT_ADDR
            | abi::FI_MR_PROV_KEY
            | abi::FI_MR_ENDPOINT;
        domain.threading = abi::FI_THREAD_DOMAIN;
        if want.auto_progress {
            domain.control_progress = abi::FI_PROGRESS_AUTO;
            domain.data_progress = abi::FI_PROGRESS_AUTO;
        }
    });
    hints.set_tx(|tx| tx.msg_order = abi::FI_ORDER_SAS);
    hints.set_rx(|rx| rx.msg_order = abi::FI_ORDER_SAS);
    hints.set_provider_name(want.provider);
    if let Some(Name(bytes)) = want.destination {
        hints.set_dest_addr(bytes, address_format(bytes));
    }
    hints
}

/// The `addr_format` of a socket address, by its family.
fn address_format(address: &[u8]) -> u32 {
    match address {
        [low, high, ..] if u16::from_ne_bytes([*low, *high]) == libc::AF_INET6 as u16 => {
            abi::FI_SOCKADDR_IN6
        }
        _ => abi::FI_SOCKADDR_IN,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! From `fi_fabric` to `fi_enable`: the objects of an endpoint, in libfabric's order.
//!
//! In: an offer ([`Info`]) and the program's parameters ([`Setup`]). Out: an enabled
//! [`Endpoint`], connected if it is of that type. Bound: the timeout of a connection.

use std::time::Duration;

use super::BATCH;
use super::Endpoint;
use super::completion::EMPTY_ENTRY;
use crate::buffers::Buffers;
use crate::domain::OpenDomain;
use crate::events::Events;
use crate::listener::Listener;
use crate::owned::{Owned, check, failure};
use crate::raw::{self, Context, Fid, abi};
use crate::{Error, Info, Kind};

/// How the program will wait for completions (`fi_cq(3)`, `wait_obj`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// `FI_WAIT_NONE`: it polls.
    Spin,
    /// `FI_WAIT_UNSPEC`: it sleeps in `fi_cq_sread`.
    Sread,
    /// `FI_WAIT_FD`: it sleeps in poll(2).
    Fd,
}

/// The parameters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// How many buffers.
    pub slots: usize,
    /// Bytes in each.
    pub size: usize,
    /// How the program waits.
    pub wait: Wait,
}

impl Listener {
    /// Waits for a connection request and answers it.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Call`].
    pub fn accept(self, setup: Setup, timeout: Duration) -> Result<Endpoint, Error> {
        let (passive, events, domain) = self.into_parts();
        let request = events.request(timeout)?;
        let endpoint = Endpoint::assemble(&request, setup, domain, Some(events), Some(passive))?;
        endpoint.enable()?;
        check("fi_accept", endpoint.endpoint.accept())?;
        endpoint.wait_connected(timeout)?;
        Ok(endpoint)
    }

    /// Waits for a connection request, and answers it. Goes on listening. The connection is there
    /// after [`Endpoint::wait_connected`].
    ///
    /// # Errors
    /// [`Error::Timeout`] without a request, [`Error::Call`].
    pub fn accept_next(&self, setup: Setup, timeout: Duration) -> Result<Endpoint, Error> {
        let (request, domain) = self.request(timeout)?;
        let events = Events::open(domain.fabric())?;
        let endpoint = Endpoint::assemble(&request, setup, domain, Some(events), None)?;
        endpoint.enable()?;
        check("fi_accept", endpoint.endpoint.accept())?;
        Ok(endpoint)
    }
}

impl Endpoint {
    /// Opens and enables an endpoint of type `FI_EP_RDM`.
    ///
    /// # Errors
    /// [`Error::Call`] for the step that failed.
    pub fn open(info: &Info, setup: Setup) -> Result<Self, Error> {
        let endpoint = Self::assemble(info, setup, OpenDomain::open(info)?, None, None)?;
        endpoint.enable()?;
        Ok(endpoint)
    }

    /// Opens an endpoint of type `FI_EP_MSG` and connects it to the destination that `info` was
    /// found with.
    ///
    /// # Errors
    /// [`Error::Call`] for the step that failed, [`Error::Timeout`].
    pub fn connect(info: &Info, setup: Setup, timeout: Duration) -> Result<Self, Error> {
        let domain = OpenDomain::open(info)?;
        let events = Events::open(domain.fabric())?;
        let endpoint = Self::assemble(info, setup, domain, Some(events), None)?;
        endpoint.enable()?;
        let destination = info.destination();
        if destination.is_empty() {
            return Err(failure("fi_connect", libc::EDESTADDRREQ));
        }
        check("fi_connect", endpoint.endpoint.connect(&destination))?;
        endpoint.wait_connected(timeout)?;
        Ok(endpoint)
    }

    /// Ends the connection; the other side learns of it (`fi_shutdown`).
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn shutdown(&self) -> Result<(), Error> {
        check("fi_shutdown", self.endpoint.shutdown())
    }

    /// Waits until the other side has ended the connection.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Call`].
    pub fn wait_shutdown(&self, timeout: Duration) -> Result<(), Error> {
        let Some(events) = &self.events else { return Ok(()) };
        events.wait(abi::FI_SHUTDOWN, "the end of the connection", timeout).map(drop)
    }

    /// Completion queue, address vector, endpoint; bound, not yet enabled.
    fn assemble(
        info: &Info,
        setup: Setup,
        domain: OpenDomain,
        events: Option<Events>,
        passive: Option<Owned<raw::Pep>>,
    ) -> Result<Self, Error> {
        let mut buffers = Buffers::new(setup.slots, setup.size)?;
        if info.wants_registration() || info.offers_rma() {
            buffers.register(&domain, info.offers_rma())?;
        }
        let queue = open_queue(&domain, setup)?;
        let addresses = match info.kind() {
            Kind::Rdm => Some(open_addresses(&domain)?),
            Kind::Msg => None,
        };
        let endpoint = Owned::of("fi_endpoint", domain.endpoint(info.raw(), Context::null()))?;
        bind(&endpoint, &*queue, abi::FI_TRANSMIT | abi::FI_RECV)?;
        if let Some(addresses) = &addresses {
            bind(&endpoint, &**addresses, 0)?;
        }
        if let Some(events) = &events {
            bind(&endpoint, events.queue(), 0)?;
        }
        Ok(Self {
            endpoint,
            passive,
            events,
            queue,
            addresses,
            buffers,
            entries: Box::new([EMPTY_ENTRY; BATCH]),
            domain,
        })
    }

    fn enable(&self) -> Result<(), Error> {
        check("fi_enable", self.endpoint.enable())
    }

    /// Waits until the connection is there.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Call`].
    pub fn wait_connected(&self, timeout: Duration) -> Result<(), Error> {
        let Some(events) = &self.events else { return Ok(()) };
        events.wait(abi::FI_CONNECTED, "the connection", timeout).map(drop)
    }
}

/// `fi_cq_open`: the tagged format, room for every slot's completion.
fn open_queue(domain: &raw::Domain, setup: Setup) -> Result<Owned<raw::Cq>, Error> {
    let mut attributes = abi::fi_cq_attr {
        size: setup.slots.max(1),
        flags: 0,
        format: abi::FI_CQ_FORMAT_TAGGED,
        wait_obj: match setup.wait {
            Wait::Spin => abi::FI_WAIT_NONE,
            Wait::Sread => abi::FI_WAIT_UNSPEC,
            Wait::Fd => abi::FI_WAIT_FD,
        },
        signaling_vector: 0,
        wait_cond: abi::FI_CQ_COND_NONE,
        wait_set: std::ptr::null_mut(),
    };
    Owned::of("fi_cq_open", domain.cq(&mut attributes, Context::null()))
}

/// `fi_av_open`, of the provider's preferred type.
fn open_addresses(domain: &raw::Domain) -> Result<Owned<raw::Av>, Error> {
    let mut attributes = abi::fi_av_attr {
        type_: abi::FI_AV_UNSPEC,
        rx_ctx_bits: 0,
        count: 0,
        ep_per_node: 0,
        name: std::ptr::null(),
        map_addr: std::ptr::null_mut(),
        flags: 0,
    };
    Owned::of("fi_av_open", domain.av(&mut attributes, Context::null()))
}

/// `fi_ep_bind`.
fn bind(endpoint: &raw::Ep, object: &dyn Fid, flags: u64) -> Result<(), Error> {
    check("fi_ep_bind", endpoint.bind(object, flags))
}

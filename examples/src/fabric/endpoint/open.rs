// SPDX-License-Identifier: MIT OR Apache-2.0
//! From `fi_fabric` to `fi_enable`: what an endpoint is made of, in the order in which libfabric
//! wants it.
//!
//! In: an offer ([`Info`]) and what the program wants of it ([`Setup`]). Out: an enabled
//! [`Endpoint`], connected if it is of that type. Bound: the timeout of a connection.
#![allow(unsafe_code)]

use std::time::Duration;

use super::super::buffers::Buffers;
use super::super::listener::{Events, Listener};
use super::super::object::{Owned, check, failure};
use super::super::{Error, Info, Kind, abi};
use super::Endpoint;
use super::completion::{BATCH, EMPTY_ENTRY};

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

/// What an endpoint is opened with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// How many buffers.
    pub slots: usize,
    /// Bytes in each.
    pub size: usize,
    /// How the program waits.
    pub wait: Wait,
}

impl Endpoint {
    /// Opens and enables an endpoint of type `FI_EP_RDM`.
    ///
    /// # Errors
    /// [`Error::Call`] for the step that failed.
    pub fn open(info: &Info, setup: Setup) -> Result<Self, Error> {
        let fabric = open_fabric(info)?;
        let endpoint = Self::assemble(info, setup, fabric, None, None)?;
        endpoint.enable()?;
        Ok(endpoint)
    }

    /// Opens an endpoint of type `FI_EP_MSG` and connects it to the destination that `info` was
    /// found with.
    ///
    /// # Errors
    /// [`Error::Call`] for the step that failed, [`Error::Timeout`].
    pub fn connect(info: &Info, setup: Setup, timeout: Duration) -> Result<Self, Error> {
        let fabric = open_fabric(info)?;
        let events = Events::open(&fabric)?;
        let endpoint = Self::assemble(info, setup, fabric, Some(events), None)?;
        endpoint.enable()?;
        // SAFETY: `info` is alive.
        let destination = unsafe { (*info.as_ptr()).dest_addr };
        if destination.is_null() {
            return Err(failure("fi_connect", libc::EDESTADDRREQ));
        }
        // SAFETY: the endpoint is open; the address is the one libfabric put into `info`.
        let code = unsafe { abi::fi_connect(endpoint.endpoint.as_ptr(), destination) };
        check("fi_connect", code)?;
        endpoint.wait_connected(timeout)?;
        Ok(endpoint)
    }

    /// Answers the connection request `info` on `listener`, whose fabric and events become the
    /// endpoint's.
    pub(in crate::fabric) fn accept(
        listener: Listener,
        info: &Info,
        setup: Setup,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let (passive, events, fabric) = listener.into_parts();
        let endpoint = Self::assemble(info, setup, fabric, Some(events), Some(passive))?;
        endpoint.enable()?;
        // SAFETY: the endpoint is open.
        check("fi_accept", unsafe { abi::fi_accept(endpoint.endpoint.as_ptr()) })?;
        endpoint.wait_connected(timeout)?;
        Ok(endpoint)
    }

    /// Domain, completion queue, address vector, endpoint; bound, not yet enabled.
    fn assemble(
        info: &Info,
        setup: Setup,
        fabric: Owned<abi::fid_fabric>,
        events: Option<Events>,
        passive: Option<Owned<abi::fid_pep>>,
    ) -> Result<Self, Error> {
        let domain = Owned::open("fi_domain", |domain| {
            // SAFETY: the fabric is open, `info` is one of its offers.
            unsafe { abi::fi_domain(fabric.as_ptr(), info.as_ptr(), domain) }
        })?;
        let mut buffers = Buffers::new(setup.slots, setup.size)?;
        if info.wants_registration() || info.offers_rma() {
            buffers.register(&domain, info.offers_rma())?;
        }
        let queue = open_queue(&domain, setup)?;
        let addresses = match info.kind() {
            Kind::Rdm => Some(open_addresses(&domain)?),
            Kind::Msg => None,
        };
        let endpoint = Owned::open("fi_endpoint", |endpoint| {
            // SAFETY: the domain is open, `info` is one of its offers.
            unsafe { abi::fi_endpoint(domain.as_ptr(), info.as_ptr(), endpoint) }
        })?;
        let both = u64::from(abi::FI_TRANSMIT | abi::FI_RECV);
        bind(&endpoint, queue.fid(), both)?;
        if let Some(addresses) = &addresses {
            bind(&endpoint, addresses.fid(), 0)?;
        }
        if let Some(events) = &events {
            bind(&endpoint, events.fid(), 0)?;
        }
        Ok(Self {
            endpoint,
            passive,
            events,
            queue,
            addresses,
            buffers,
            entries: Box::new([EMPTY_ENTRY; BATCH]),
            _domain: domain,
            fabric,
        })
    }

    fn enable(&self) -> Result<(), Error> {
        let command = abi::FI_ENABLE as i32;
        // SAFETY: the endpoint is open; the command takes no argument.
        let code = unsafe { abi::fi_control(self.endpoint.fid(), command, std::ptr::null_mut()) };
        check("fi_enable", code)
    }

    fn wait_connected(&self, timeout: Duration) -> Result<(), Error> {
        let Some(events) = &self.events else { return Ok(()) };
        events.wait(abi::FI_CONNECTED, "the connection", timeout).map(drop)
    }
}

/// `fi_fabric`.
pub(in crate::fabric) fn open_fabric(info: &Info) -> Result<Owned<abi::fid_fabric>, Error> {
    Owned::open("fi_fabric", |fabric| {
        // SAFETY: the attributes are those of an offer that is alive.
        unsafe { abi::fi_fabric(info.fabric_attributes(), fabric, std::ptr::null_mut()) }
    })
}

/// `fi_cq_open`: the tagged format, room for every slot's completion.
fn open_queue(domain: &Owned<abi::fid_domain>, setup: Setup) -> Result<Owned<abi::fid_cq>, Error> {
    // SAFETY: a C structure of integers and pointers, for which all zero is valid.
    let mut attributes: abi::fi_cq_attr = unsafe { std::mem::zeroed() };
    attributes.size = setup.slots.max(1);
    attributes.format = abi::FI_CQ_FORMAT_TAGGED;
    attributes.wait_obj = match setup.wait {
        Wait::Spin => abi::FI_WAIT_NONE,
        Wait::Sread => abi::FI_WAIT_UNSPEC,
        Wait::Fd => abi::FI_WAIT_FD,
    };
    Owned::open("fi_cq_open", |queue| {
        // SAFETY: the domain is open.
        unsafe { abi::fi_cq_open(domain.as_ptr(), &raw mut attributes, queue) }
    })
}

/// `fi_av_open`, of the provider's preferred type.
fn open_addresses(domain: &Owned<abi::fid_domain>) -> Result<Owned<abi::fid_av>, Error> {
    // SAFETY: a C structure of integers and pointers, for which all zero is valid.
    let mut attributes: abi::fi_av_attr = unsafe { std::mem::zeroed() };
    Owned::open("fi_av_open", |vector| {
        // SAFETY: the domain is open.
        unsafe { abi::fi_av_open(domain.as_ptr(), &raw mut attributes, vector) }
    })
}

/// `fi_ep_bind`.
fn bind(endpoint: &Owned<abi::fid_ep>, object: *mut abi::fid, flags: u64) -> Result<(), Error> {
    // SAFETY: both objects are open (the callers hold them).
    check("fi_ep_bind", unsafe { abi::fi_ep_bind(endpoint.as_ptr(), object, flags) })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of a test: the provider under test, and the features that a test needs of it.
//!
//! In: the command line. Out: hints, offers, and [`NotOffered`] where an optional feature is
//! missing. The provider shows this itself: it has no offer for hints that request the feature.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::abi;
use crate::fi::{Answer, Errno, Info, getinfo};
use crate::host::Host;

/// Longest wait of a test for an event that must happen.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(8);
/// Time in which a test checks that an event does not happen.
pub(crate) const NO_EVENT_TIME: Duration = Duration::from_millis(120);

/// The provider under test.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// As `fi_fabric_attr.prov_name` has it.
    pub(crate) provider: String,
    /// The local address to use, as text; `None` where addresses are not of IP.
    pub(crate) node: Option<String>,
    /// The host of every second node, if it is not this one.
    pub(crate) other: Option<Host>,
}

/// An optional feature of the man pages that this provider does not have.
#[derive(Debug)]
pub(crate) struct NotOffered(pub(crate) String);

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not offered: {}", self.0)
    }
}

impl std::error::Error for NotOffered {}

/// Ends the test: the provider does not offer `what`.
pub(crate) fn not_offered<T>(what: impl Into<String>) -> Result<T> {
    Err(NotOffered(what.into()).into())
}

/// An answer; `-FI_ENOSYS` means that the provider does not have `what`.
pub(crate) fn optional<T>(answer: Answer<T>, what: &str) -> Result<T> {
    match answer {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP)) => not_offered(what),
        other => other.with_context(|| what.to_owned()),
    }
}

/// Checks that a call was refused, with one of these errors.
pub(crate) fn refused<T: fmt::Debug>(answer: Answer<T>, errors: &[i32], what: &str) -> Result<()> {
    match answer {
        Err(Errno(errno)) if errors.contains(&errno) => Ok(()),
        Err(errno) => {
            let wanted: Vec<Errno> = errors.iter().map(|errno| Errno(*errno)).collect();
            bail!("{what}: {errno}, where {wanted:?} was to be expected")
        }
        Ok(answer) => bail!("{what}: accepted with {answer:?}"),
    }
}

/// The request of a test to `fi_getinfo` and to the objects that [`crate::group::Group`] opens.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) ep_type: abi::fi_ep_type,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) mr_mode: i32,
    pub(crate) order: u64,
    pub(crate) tx_op_flags: u64,
    pub(crate) rx_op_flags: u64,
    pub(crate) threading: abi::fi_threading,
    pub(crate) progress: abi::fi_progress,
    pub(crate) av_type: abi::fi_av_type,
    pub(crate) resource_mgmt: abi::fi_resource_mgmt,
    pub(crate) format: abi::fi_cq_format,
    pub(crate) cq_size: usize,
    pub(crate) wait: abi::fi_wait_obj,
    /// Flags of the binding to the completion queue, beyond `FI_TRANSMIT | FI_RECV`.
    pub(crate) bind: u64,
    pub(crate) nodes: usize,
    /// All endpoints in one domain.
    pub(crate) one_domain: bool,
    /// Address vectors and names are exchanged at once.
    pub(crate) introduced: bool,
    pub(crate) version: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            ep_type: abi::FI_EP_RDM,
            caps: abi::FI_MSG,
            mode: abi::FI_CONTEXT | abi::FI_CONTEXT2,
            mr_mode: 0,
            order: abi::FI_ORDER_SAS,
            tx_op_flags: 0,
            rx_op_flags: 0,
            threading: abi::FI_THREAD_SAFE,
            progress: abi::FI_PROGRESS_UNSPEC,
            av_type: abi::FI_AV_UNSPEC,
            resource_mgmt: abi::FI_RM_ENABLED,
            format: abi::FI_CQ_FORMAT_TAGGED,
            cq_size: 0,
            wait: abi::FI_WAIT_NONE,
            bind: 0,
            nodes: 2,
            one_domain: false,
            introduced: true,
            version: abi::VERSION,
        }
    }
}

impl Setup {
    /// With these capabilities.
    pub(crate) fn caps(caps: u64) -> Self {
        Self { caps, ..Self::default() }
    }
}

impl World {
    /// The world as seen from `host`.
    pub(crate) fn at(&self, host: &Host) -> Self {
        Self { provider: self.provider.clone(), node: Some(host.address.clone()), other: None }
    }

    /// The address of every second node.
    pub(crate) fn other_node(&self) -> Option<&str> {
        let there = self.other.as_ref().map(|host| &host.address);
        there.or(self.node.as_ref()).map(String::as_str)
    }

    /// Hints that name the provider and an endpoint of type `FI_EP_RDM`, and nothing else.
    pub(crate) fn bare_hints(&self) -> Info {
        let hints = Info::empty();
        hints.set_provider_name(&self.provider);
        hints.set_ep(|ep| ep.type_ = abi::FI_EP_RDM);
        hints
    }

    /// Hints for `setup`.
    pub(crate) fn hints(&self, setup: &Setup) -> Info {
        let hints = self.bare_hints();
        hints.set_ep(|ep| ep.type_ = setup.ep_type);
        hints.set(|info| (info.caps, info.mode) = (setup.caps, setup.mode));
        hints.set_domain(|domain| {
            domain.mr_mode = setup.mr_mode;
            domain.threading = setup.threading;
            domain.control_progress = setup.progress;
            domain.data_progress = setup.progress;
            domain.av_type = setup.av_type;
            domain.resource_mgmt = setup.resource_mgmt;
        });
        hints.set_tx(|tx| (tx.msg_order, tx.op_flags) = (setup.order, setup.tx_op_flags));
        hints.set_rx(|rx| (rx.msg_order, rx.op_flags) = (setup.order, setup.rx_op_flags));
        hints
    }

    /// `fi_getinfo` for a source at the node under test.
    pub(crate) fn offers(&self, version: u32, hints: &Info) -> Answer<Vec<Info>> {
        let flags = if self.node.is_some() { abi::FI_SOURCE } else { 0 };
        getinfo(version, self.node.as_deref(), None, flags, Some(hints))
    }

    /// The first offer for `setup`.
    pub(crate) fn offer(&self, setup: &Setup) -> Result<Info> {
        match self.offers(setup.version, &self.hints(setup)) {
            Ok(mut offers) if !offers.is_empty() => Ok(offers.remove(0)),
            Ok(_) => bail!("fi_getinfo succeeded with an empty list"),
            Err(Errno(abi::FI_ENODATA)) => not_offered(describe(setup)),
            Err(errno) => Err(errno).context("fi_getinfo"),
        }
    }
}

/// The wish, for people.
fn describe(setup: &Setup) -> String {
    let hints = Info::empty();
    hints.set(|info| info.caps = setup.caps);
    let text = hints.text();
    let caps = text.lines().find(|line| line.trim_start().starts_with("caps:"));
    let plain = Setup::default();
    let mut wish = caps.unwrap_or_default().trim().to_owned();
    if setup.ep_type == abi::FI_EP_DGRAM {
        wish += ", FI_EP_DGRAM";
    }
    if setup.mr_mode != 0 {
        wish += &format!(", mr_mode {:#x}", setup.mr_mode);
    }
    if setup.order != plain.order {
        wish += &format!(", msg_order {:#x}", setup.order);
    }
    if setup.tx_op_flags != 0 {
        wish += &format!(", op_flags {:#x}", setup.tx_op_flags);
    }
    if setup.progress != plain.progress {
        wish += &format!(", progress {}", setup.progress);
    }
    wish
}

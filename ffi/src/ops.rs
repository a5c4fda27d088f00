// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an object can do, as safe traits: one for each of libfabric's tables of functions.
//!
//! `shim` turns raw arguments into the types here and calls these traits; each libfabric object has
//! a file that implements those that it needs. What is not implemented is [`Error::NotSupported`]
//! by default, so no slot of a table is ever empty. Every variant of sending (`send`, `sendv`,
//! `sendmsg`, `senddata`, `inject`, `injectdata`, tagged or not) arrives as one [`Send`], every
//! variant of receiving as one [`Recv`], and so on (`transfer`).

mod transfer;

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use ofi_xdp_core::Context;

use crate::abi::{self, fi_addr_t};
use crate::av::{Av, AvAttributes};
use crate::cntr::Cntr;
use crate::cq::{Cq, CqAttributes, ErrorEntry};
use crate::domain::Domain;
use crate::ep::Endpoint;
use crate::eq::{Eq, EqAttributes};
use crate::errno::Error;
use crate::info::Request;
use crate::instances::Place;
use crate::mr::{MrAttributes, Region};
use crate::poll_set::PollSet;
use crate::shim::cq::Entries;
use crate::sockaddr::SocketAddress;
use crate::srx::SharedRx;
use crate::stx::SharedTx;
use crate::wait_set::{WaitObject, WaitSet};

pub(crate) use transfer::{Atomic, OpFlags, Recv, Rma, Send};

type Result<T> = std::result::Result<T, Error>;

/// An object that another is bound to (`fi_ep_bind` and its kin).
pub(crate) enum Bound {
    /// An address vector.
    Av(Arc<Av>),
    /// A counter.
    Cntr(Arc<Cntr>),
    /// A completion queue.
    Cq(Arc<Cq>),
    /// An endpoint.
    Endpoint,
    /// An event queue.
    Eq(Arc<Eq>),
    /// A shared receive context.
    SharedRx(Arc<SharedRx>),
    /// A shared transmit context.
    SharedTx(Arc<SharedTx>),
}

/// Which side of an endpoint (`FI_TRANSMIT`, `FI_RECV`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Sending.
    Transmit,
    /// Receiving.
    Receive,
}

/// `struct fi_ops`: what every object can do.
pub(crate) trait FidOps {
    /// Called when nobody else has a share in the object; after success it is gone.
    fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Whether nobody else has a share in the object, which is to close. What ends with it has none
    /// any more then.
    fn is_alone(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    /// Of what `fi_getinfo` tells of while it is open: how it is found.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Of what may be in a set: what sets read while they look at it. It is written while the
    /// object is closed.
    fn looks(&self) -> Option<Arc<RwLock<()>>> {
        None
    }

    /// `fi_*_bind`.
    fn bind(self: &Arc<Self>, _other: Bound, _flags: u64) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Whether calls of this side that leave their flags to the endpoint are triggered operations:
    /// `FI_TRIGGER` is among its default flags.
    fn triggers(&self, _side: Side) -> bool {
        false
    }

    /// `fi_enable`.
    fn enable(self: &Arc<Self>) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// `FI_GETWAIT` of an object that waits on a file descriptor.
    fn wait_fd(&self) -> Result<RawFd> {
        Err(Error::NotSupported)
    }

    /// `FI_GETWAITOBJ`: what kind of wait object it was opened with.
    fn wait_object(&self) -> Result<u32> {
        Err(Error::NotSupported)
    }

    /// `FI_ALIAS`: the same object with other default flags for one side.
    fn alias(self: &Arc<Self>, _side: Side, _flags: u64) -> Result<Arc<Self>> {
        Err(Error::NotSupported)
    }

    /// `FI_GETOPSFLAG`: the default operation flags of one side.
    fn op_flags(&self, _side: Side) -> Result<u64> {
        Err(Error::NotSupported)
    }

    /// `FI_SETOPSFLAG`.
    fn set_op_flags(&self, _side: Side, _flags: u64) -> Result<()> {
        Err(Error::NotSupported)
    }
}

/// Something that `fi_trywait` can be asked about.
#[derive(Clone, Copy)]
pub(crate) enum Waitable<'a> {
    /// A completion queue.
    Cq(&'a Arc<Cq>),
    /// A counter.
    Cntr(&'a Arc<Cntr>),
    /// An event queue.
    Eq(&'a Arc<Eq>),
    /// A wait set.
    Set(&'a Arc<WaitSet>),
}

/// `struct fi_ops_fabric`.
pub(crate) trait FabricOps: FidOps {
    /// `fi_domain`.
    fn domain(self: &Arc<Self>, _request: &Request) -> Result<Arc<Domain>> {
        Err(Error::NotSupported)
    }

    /// `fi_eq_open`.
    fn event_queue(self: &Arc<Self>, _attributes: EqAttributes) -> Result<Arc<Eq>> {
        Err(Error::NotSupported)
    }

    /// `fi_wait_open`.
    fn wait_set(self: &Arc<Self>, _kind: u32) -> Result<Arc<WaitSet>> {
        Err(Error::NotSupported)
    }

    /// `fi_trywait` of one object: `Again` if it must be read before its descriptor may be waited
    /// on.
    fn try_wait(&self, _object: Waitable<'_>) -> Result<()> {
        Err(Error::NotSupported)
    }
}

/// `struct fi_ops_domain` and `struct fi_ops_mr`.
pub(crate) trait DomainOps: FidOps {
    /// `fi_av_open`.
    fn address_vector(self: &Arc<Self>, _attributes: &AvAttributes) -> Result<Arc<Av>> {
        Err(Error::NotSupported)
    }

    /// `fi_cq_open`.
    fn completion_queue(self: &Arc<Self>, _attributes: CqAttributes) -> Result<Arc<Cq>> {
        Err(Error::NotSupported)
    }

    /// `fi_poll_open`.
    fn poll_set(self: &Arc<Self>) -> Result<Arc<PollSet>> {
        Err(Error::NotSupported)
    }

    /// `fi_endpoint`.
    fn endpoint(self: &Arc<Self>, _request: &Request) -> Result<Arc<Endpoint>> {
        Err(Error::NotSupported)
    }

    /// `fi_srx_context`; without attributes, the defaults.
    fn shared_receives(
        self: &Arc<Self>,
        _attributes: Option<&abi::fi_rx_attr>,
    ) -> Result<Arc<SharedRx>> {
        Err(Error::NotSupported)
    }

    /// `fi_stx_context`; without attributes, the defaults.
    fn shared_transmits(
        self: &Arc<Self>,
        _attributes: Option<&abi::fi_tx_attr>,
    ) -> Result<Arc<SharedTx>> {
        Err(Error::NotSupported)
    }

    /// `fi_cntr_open`; `wait` is what threads wait on.
    fn counter(self: &Arc<Self>, _wait: WaitObject) -> Result<Arc<Cntr>> {
        Err(Error::NotSupported)
    }

    /// The event queue that registrations report to, if they are asynchronous; `Again` if it is
    /// full.
    fn registrations(&self) -> Result<Option<&Arc<Eq>>> {
        Ok(None)
    }

    /// The `api_version` that the application opened the fabric with.
    fn api_version(&self) -> u32;

    /// `fi_mr_reg`, `fi_mr_regv`, `fi_mr_regattr`.
    fn register(self: &Arc<Self>, _attributes: MrAttributes) -> Result<Arc<Region>> {
        Err(Error::NotSupported)
    }
}

/// `struct fi_ops_av`.
pub(crate) trait AvOps: FidOps {
    /// How many bytes an address has in an array given to `fi_av_insert`.
    fn address_len(&self) -> usize;

    /// `fi_av_insert` of one address.
    fn insert(&self, address: SocketAddr) -> Result<fi_addr_t>;

    /// The event queue that insertions report to, if they are asynchronous; `Again` if it is full.
    fn events(&self) -> Result<Option<&Arc<Eq>>>;

    /// The address behind the names of `fi_av_insertsvc`.
    fn resolve(&self, node: Option<&str>, service: Option<&str>) -> Result<SocketAddr>;

    /// The same of `fi_av_insertsym`: the n-th node after the first, and so the service.
    fn resolve_nth(&self, node: (&str, usize), service: (&str, usize)) -> Result<SocketAddr>;

    /// `fi_av_remove` of one address.
    fn remove(&self, address: fi_addr_t) -> Result<()>;

    /// `fi_av_lookup`.
    fn lookup(&self, address: fi_addr_t) -> Result<SocketAddr>;
}

/// `struct fi_ops_cq`.
pub(crate) trait CqOps: FidOps {
    /// Progress, then as many completions as there are and fit; `Again` if none, `Available` if an
    /// error must be read first.
    fn read(&self, entries: &mut Entries) -> Result<usize>;

    /// `read`, waiting for the first completion; no `timeout` waits for ever.
    fn read_wait(&self, entries: &mut Entries, timeout: Option<Duration>) -> Result<usize>;

    /// The error at the head of the queue.
    fn read_error(&self) -> Result<ErrorEntry>;

    /// Keeps an address for an application that brings no room for it, until the next one.
    fn keep(&self, address: SocketAddress) -> *const u8;

    /// Wakes whoever waits in `read_wait`, or lets the next one return at once.
    fn signal(&self) -> Result<()>;

    /// The `api_version` that the application opened the fabric with.
    fn api_version(&self) -> u32;
}

/// `struct fi_ops_cntr`.
pub(crate) trait CntrOps: FidOps {
    /// How many operations have ended with success.
    fn value(&self) -> u64;

    /// How many have ended in error.
    fn errors(&self) -> u64;

    /// `fi_cntr_add`, `fi_cntr_adderr`.
    fn add(&self, done: u64, failed: u64);

    /// `fi_cntr_set`, `fi_cntr_seterr`: what is given.
    fn set(&self, done: Option<u64>, failed: Option<u64>);

    /// Waits until the value reaches `threshold`; no `timeout` waits for ever. `Available` when an
    /// operation ends in error meanwhile.
    fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Result<()>;
}

/// `struct fi_ops_msg`.
pub(crate) trait MsgOps: FidOps {
    /// `fi_send` and its variants.
    fn send(&self, _send: Send) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// `fi_recv` and its variants.
    fn recv(&self, _recv: Recv) -> Result<()> {
        Err(Error::NotSupported)
    }
}

/// `struct fi_ops_tagged`.
pub(crate) trait TaggedOps: FidOps {
    /// `fi_tsend` and its variants.
    fn tagged_send(&self, _send: Send) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// `fi_trecv` and its variants.
    fn tagged_recv(&self, _recv: Recv) -> Result<()> {
        Err(Error::NotSupported)
    }
}

/// `struct fi_ops_rma`.
pub(crate) trait RmaOps: FidOps {
    /// `fi_write` and its variants.
    fn write(&self, _write: Rma) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// `fi_read` and its variants.
    fn read(&self, _read: Rma) -> Result<()> {
        Err(Error::NotSupported)
    }
}

/// `struct fi_ops_atomic`.
pub(crate) trait AtomicOps: FidOps {
    /// `fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic` and their variants.
    fn atomic(&self, _atomic: Atomic) -> Result<()> {
        Err(Error::NotSupported)
    }
}

/// `struct fi_ops_ep` and `struct fi_ops_cm`.
pub(crate) trait EndpointOps: FidOps {
    /// `fi_cancel`: ends a matching call that has not begun (`FI_TRIGGER`), or the oldest matching
    /// receive, with an error completion, if there is one; `Again` if there is no room for that.
    fn cancel(&self, _context: Context) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// `FI_OPT_MIN_MULTI_RECV`: a buffer for many messages is released when fewer bytes are left.
    fn min_multi_recv(&self) -> Result<usize> {
        Err(Error::NoOption)
    }

    /// Sets it, for buffers that are posted from now on.
    fn set_min_multi_recv(&self, _least: usize) -> Result<()> {
        Err(Error::NoOption)
    }

    /// `FI_OPT_TX_SIZE`, `FI_OPT_RX_SIZE`: how many operations of a side there may be.
    fn size(&self, _side: Side) -> Result<usize> {
        Err(Error::NoOption)
    }

    /// `fi_rx_size_left`.
    fn receives_left(&self) -> Result<usize> {
        Err(Error::NotSupported)
    }

    /// `fi_tx_size_left`.
    fn sends_left(&self) -> Result<usize> {
        Err(Error::NotSupported)
    }

    /// `fi_getname`.
    fn name(&self) -> Result<SocketAddr> {
        Err(Error::NotSupported)
    }
}

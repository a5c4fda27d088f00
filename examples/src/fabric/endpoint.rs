// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint with all that it needs: from `fi_fabric` to `fi_enable`, and the data path.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

mod rma;

use super::abi;
use super::buffers::Buffers;
pub use super::buffers::Operation;
use super::listener::{Events, Listener};
use super::object::{Owned, check, check_size, text_of};
use super::{Error, Info, Kind, Name};
pub use rma::{Place, RemoteRegion};

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

/// A peer in the address vector: `fi_addr_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(abi::fi_addr_t);

impl Peer {
    /// The other end of a connected endpoint.
    pub const CONNECTED: Self = Self(abi::ANYBODY);
}

/// Where a message goes, or is to come from: a peer, and a tag for a tagged message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The peer; of no meaning to a receive, which takes from anybody.
    pub peer: Peer,
    /// `None`: an untagged message.
    pub tag: Option<u64>,
}

/// A finished operation; its buffer is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Its buffer; `usize::MAX` for a remote write, which had none.
    pub slot: usize,
    /// What it was.
    pub operation: Operation,
    /// Bytes received.
    pub len: usize,
    /// Remote CQ data.
    pub data: u64,
    /// The tag of a tagged message received.
    pub tag: u64,
}

/// No provider's address is longer: `FI_NAME_MAX` is 64.
const NAME_MAX: usize = 256;

/// How many completions one call reads at most.
const BATCH: usize = 16;

/// An enabled endpoint, its queues and its buffers.
#[derive(Debug)]
pub struct Endpoint {
    // Dropped in this order: each before what it was opened from or bound to.
    endpoint: Owned<abi::fid_ep>,
    passive: Option<Owned<abi::fid_pep>>,
    events: Option<Events>,
    queue: Owned<abi::fid_cq>,
    addresses: Option<Owned<abi::fid_av>>,
    buffers: Buffers,
    /// What one call reads. Kept: to clear it for each look would show in a latency.
    entries: Box<[abi::fi_cq_tagged_entry; BATCH]>,
    _domain: Owned<abi::fid_domain>,
    fabric: Owned<abi::fid_fabric>,
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
            return Err(super::object::failure("fi_connect", libc::EDESTADDRREQ));
        }
        // SAFETY: the endpoint is open; the address is the one libfabric put into `info`.
        let code = unsafe { abi::fi_connect(endpoint.endpoint.as_ptr(), destination) };
        check("fi_connect", code)?;
        endpoint.wait_connected(timeout)?;
        Ok(endpoint)
    }

    /// Answers the connection request `info` on `listener`, whose fabric and events become the
    /// endpoint's.
    pub(super) fn accept(
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

    /// Adds a peer to the address vector.
    ///
    /// # Errors
    /// [`Error::Call`] when the provider does not take the name, or when the endpoint is a
    /// connected one.
    pub fn insert(&mut self, name: &Name) -> Result<Peer, Error> {
        let failed = || super::object::failure("fi_av_insert", libc::EINVAL);
        let addresses = self.addresses.as_ref().ok_or_else(failed)?;
        let mut peer = abi::ANYBODY;
        // Providers read as many bytes as their address format has, whatever a stranger's name has.
        let mut bytes = [0_u8; NAME_MAX];
        let len = name.0.len().min(NAME_MAX);
        bytes[..len].copy_from_slice(&name.0[..len]);
        let address = bytes.as_ptr().cast::<c_void>();
        // SAFETY: the vector is open; the address is longer than any address format's.
        let count = unsafe { abi::fi_av_insert(addresses.as_ptr(), address, 1, &raw mut peer) };
        check("fi_av_insert", count)?;
        if count == 1 { Ok(Peer(peer)) } else { Err(failed()) }
    }

    /// Posts a receive into a free buffer.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn receive(&mut self, slot: usize, tag: Option<u64>) -> Result<(), Error> {
        let into = self.buffers.operand(slot, usize::MAX)?;
        let endpoint = self.endpoint.as_ptr();
        let code = match tag {
            // SAFETY: the endpoint is open; buffer and context stay until the completion: the slot
            // is marked posted below, and the endpoint is closed before its buffers go.
            Some(tag) => unsafe { abi::fi_trecv(endpoint, into, tag) },
            // SAFETY: as above.
            None => unsafe { abi::fi_recv(endpoint, into) },
        };
        check_size("fi_recv", code)?;
        self.buffers.mark_posted(slot);
        Ok(())
    }

    /// Sends the first `len` bytes of a free buffer.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn send(&mut self, slot: usize, len: usize, to: Route) -> Result<(), Error> {
        let from = self.buffers.operand(slot, len)?;
        let endpoint = self.endpoint.as_ptr();
        let code = match to.tag {
            // SAFETY: as in `receive`.
            Some(tag) => unsafe { abi::fi_tsend(endpoint, from, to.peer.0, tag) },
            // SAFETY: as in `receive`.
            None => unsafe { abi::fi_send(endpoint, from, to.peer.0) },
        };
        check_size("fi_send", code)?;
        self.buffers.mark_posted(slot);
        Ok(())
    }

    /// Sends the first `len` bytes of a free buffer, which stays free: no completion will come.
    /// `len` is at most [`Info::inject_size`].
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn inject(&mut self, slot: usize, len: usize, to: Route) -> Result<(), Error> {
        let from = self.buffers.operand(slot, len)?;
        let endpoint = self.endpoint.as_ptr();
        let code = match to.tag {
            // SAFETY: the endpoint is open; the buffer is valid during the call.
            Some(tag) => unsafe { abi::fi_tinject(endpoint, from, to.peer.0, tag) },
            // SAFETY: as above.
            None => unsafe { abi::fi_inject(endpoint, from, to.peer.0) },
        };
        check_size("fi_inject", code).map(drop)
    }

    /// The bytes of a free buffer.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[inline]
    pub fn bytes(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.buffers.bytes(slot)
    }

    /// Drives progress, and hands what has finished to `sink`: at most 16 completions. Returns
    /// their number.
    ///
    /// # Errors
    /// [`Error::Completion`] for an operation that failed; later calls go on with the rest.
    #[inline]
    pub fn poll(&mut self, sink: impl FnMut(Completion)) -> Result<usize, Error> {
        let entries = self.entries.as_mut_ptr();
        // SAFETY: the queue is open, of the tagged format; there is room for BATCH entries.
        let code = unsafe { abi::fi_cq_read(self.queue.as_ptr(), entries, BATCH) };
        self.completions(code, sink)
    }

    /// The same, but sleeps for something to happen, for `timeout` at most ([`Wait::Sread`]).
    ///
    /// # Errors
    /// As [`Endpoint::poll`].
    pub fn wait(
        &mut self,
        timeout: Duration,
        sink: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        let entries = self.entries.as_mut_ptr();
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is open, of the tagged format; there is room for BATCH entries.
        let code = unsafe { abi::fi_cq_sread(self.queue.as_ptr(), entries, BATCH, ms) };
        self.completions(code, sink)
    }

    #[inline]
    fn completions(
        &mut self,
        code: isize,
        mut sink: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        if code == -(abi::FI_EAVAIL as isize) {
            return Err(self.error_completion());
        }
        let count = match check_size("fi_cq_read", code) {
            Ok(count) => count,
            Err(Error::Again) => return Ok(0),
            Err(error) => return Err(error),
        };
        for entry in self.entries.iter().take(count) {
            let operation = operation_of(entry.flags);
            let slot = match operation {
                // No operation of ours has ended.
                Operation::RemoteWrite => Some(usize::MAX),
                _ => self.buffers.complete(entry.op_context),
            };
            if let Some(slot) = slot {
                let abi::fi_cq_tagged_entry { len, data, tag, .. } = *entry;
                sink(Completion { slot, operation, len, data, tag });
            }
        }
        Ok(count)
    }

    /// The error completion that the queue has announced.
    #[cold]
    fn error_completion(&mut self) -> Error {
        // SAFETY: a C structure of integers and pointers, for which all zero is valid.
        let mut entry: abi::fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open; no error data is asked for.
        let code = unsafe { abi::fi_cq_readerr(self.queue.as_ptr(), &raw mut entry) };
        if let Err(error) = check_size("fi_cq_readerr", code) {
            return error;
        }
        Error::Completion {
            operation: operation_of(entry.flags),
            slot: self.buffers.complete(entry.op_context),
            errno: entry.err,
            provider_errno: entry.prov_errno,
            text: text_of(entry.err),
        }
    }

    /// Whether the program may sleep on [`Endpoint::wait_fd`] now (`fi_trywait`); if not, it must
    /// poll first.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn may_sleep(&self) -> Result<bool, Error> {
        let mut object = self.queue.fid();
        // SAFETY: fabric and queue are open; one object.
        let code = unsafe { abi::fi_trywait(self.fabric.as_ptr(), &raw mut object, 1) };
        match check("fi_trywait", code) {
            Ok(()) => Ok(true),
            Err(Error::Again) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The descriptor that turns readable when the completion queue wants attention ([`Wait::Fd`]).
    ///
    /// # Errors
    /// [`Error::Call`] when the queue has none.
    pub fn wait_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        let mut fd: RawFd = -1;
        let command = abi::FI_GETWAIT as i32;
        let argument = (&raw mut fd).cast::<c_void>();
        // SAFETY: the queue is open; of a queue with FI_WAIT_FD the command writes one int.
        check("fi_control", unsafe { abi::fi_control(self.queue.fid(), command, argument) })?;
        if fd < 0 {
            return Err(super::object::failure("fi_control", libc::EBADF));
        }
        // SAFETY: the queue owns the descriptor, and `self` keeps the queue.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// This endpoint's address, to be given to peers.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn name(&self) -> Result<Name, Error> {
        read_name(|address, len| {
            // SAFETY: the endpoint is open; `address` has room for `len` bytes.
            unsafe { abi::fi_getname(self.endpoint.as_ptr(), address, len) }
        })
    }

    /// How many buffers there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.buffers.slots()
    }

    /// Whether no operation has the buffer.
    #[must_use]
    pub fn is_free(&self, slot: usize) -> bool {
        self.buffers.is_free(slot)
    }

    /// Whether this endpoint answers a connection that it listened for.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.passive.is_some()
    }
}

/// An entry that nothing was read into.
const EMPTY_ENTRY: abi::fi_cq_tagged_entry = abi::fi_cq_tagged_entry {
    op_context: std::ptr::null_mut(),
    flags: 0,
    len: 0,
    buf: std::ptr::null_mut(),
    data: 0,
    tag: 0,
};

/// What an entry's flags say it was.
fn operation_of(flags: u64) -> Operation {
    let has = |bits: u32| flags & u64::from(bits) != 0;
    if has(abi::FI_REMOTE_CQ_DATA) && has(abi::FI_REMOTE_WRITE | abi::FI_RMA) {
        Operation::RemoteWrite
    } else if has(abi::FI_WRITE) {
        Operation::Write
    } else if has(abi::FI_READ) {
        Operation::Read
    } else if has(abi::FI_RECV) {
        Operation::Receive
    } else if has(abi::FI_SEND) {
        Operation::Send
    } else {
        Operation::Unknown
    }
}

/// `fi_fabric`.
pub(super) fn open_fabric(info: &Info) -> Result<Owned<abi::fid_fabric>, Error> {
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

/// `fi_getname` of whatever endpoint.
pub(super) fn read_name(read: impl FnOnce(*mut c_void, *mut usize) -> i32) -> Result<Name, Error> {
    let mut bytes = vec![0_u8; NAME_MAX];
    let mut len = bytes.len();
    check("fi_getname", read(bytes.as_mut_ptr().cast::<c_void>(), &raw mut len))?;
    bytes.truncate(len);
    Ok(Name(bytes))
}

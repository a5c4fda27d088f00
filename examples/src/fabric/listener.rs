// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: the passive endpoint that listens, and the event queue that tells of them
//! (`fi_cm(3)`).
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::time::Duration;

use super::abi;
use super::endpoint::{open_fabric, read_name};
use super::object::{Owned, check, check_size, failure};
use super::{Endpoint, Error, Info, Name, Setup};

/// A passive endpoint of type `FI_EP_MSG` that waits for one connection.
#[derive(Debug)]
pub struct Listener {
    // Dropped in this order.
    passive: Owned<abi::fid_pep>,
    events: Events,
    fabric: Owned<abi::fid_fabric>,
}

impl Listener {
    /// Listens at the source address that `info` was found with.
    ///
    /// # Errors
    /// [`Error::Call`] for the step that failed.
    pub fn open(info: &Info) -> Result<Self, Error> {
        let fabric = open_fabric(info)?;
        let events = Events::open(&fabric)?;
        let passive = Owned::open("fi_passive_ep", |endpoint| {
            // SAFETY: the fabric is open, `info` is one of its offers.
            unsafe { abi::fi_passive_ep(fabric.as_ptr(), info.as_ptr(), endpoint) }
        })?;
        // SAFETY: both are open.
        check("fi_pep_bind", unsafe { abi::fi_pep_bind(passive.as_ptr(), events.fid()) })?;
        // SAFETY: the endpoint is open.
        check("fi_listen", unsafe { abi::fi_listen(passive.as_ptr()) })?;
        Ok(Self { passive, events, fabric })
    }

    /// Where it listens, to be given to the peer.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn name(&self) -> Result<Name, Error> {
        read_name(|address, len| {
            // SAFETY: the endpoint is open; `address` has room for `len` bytes.
            unsafe { abi::fi_getname_passive(self.passive.as_ptr(), address, len) }
        })
    }

    /// Waits for a connection request and answers it.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Call`].
    pub fn accept(self, setup: Setup, timeout: Duration) -> Result<Endpoint, Error> {
        let event = self.events.wait(abi::FI_CONNREQ, "a connection request", timeout)?;
        let request = event.ok_or_else(|| failure("fi_eq_sread", libc::EIO))?;
        Endpoint::accept(self, &request, setup, timeout)
    }

    pub(super) fn into_parts(self) -> (Owned<abi::fid_pep>, Events, Owned<abi::fid_fabric>) {
        (self.passive, self.events, self.fabric)
    }
}

/// An event queue.
#[derive(Debug)]
pub(super) struct Events(Owned<abi::fid_eq>);

impl Events {
    pub(super) fn open(fabric: &Owned<abi::fid_fabric>) -> Result<Self, Error> {
        // SAFETY: a C structure of integers and pointers, for which all zero is valid.
        let mut attributes: abi::fi_eq_attr = unsafe { std::mem::zeroed() };
        attributes.wait_obj = abi::FI_WAIT_UNSPEC;
        Owned::open("fi_eq_open", |queue| {
            // SAFETY: the fabric is open.
            unsafe { abi::fi_eq_open(fabric.as_ptr(), &raw mut attributes, queue) }
        })
        .map(Self)
    }

    pub(super) fn fid(&self) -> *mut abi::fid {
        self.0.fid()
    }

    /// Waits for `event`, and gives the `fi_info` that came with it.
    pub(super) fn wait(
        &self,
        event: u32,
        waited_for: &'static str,
        timeout: Duration,
    ) -> Result<Option<Info>, Error> {
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: a C structure of integers and pointers, for which all zero is valid.
        let mut entry: abi::fi_eq_cm_entry = unsafe { std::mem::zeroed() };
        let mut seen = 0;
        // SAFETY: the queue is open; `entry` is of the size that the call announces.
        let code = unsafe { abi::fi_eq_sread(self.0.as_ptr(), &raw mut seen, &raw mut entry, ms) };
        if code == -(abi::FI_EAVAIL as isize) {
            return Err(self.error_event());
        }
        match check_size("fi_eq_sread", code) {
            Ok(_) if seen == event => Ok(Info::adopt(entry.info)),
            Ok(_) => Err(failure("fi_eq_sread", libc::ECONNREFUSED)),
            Err(Error::Again) => {
                Err(Error::Timeout { waited_for, ms: u64::try_from(ms).unwrap_or(0) })
            }
            Err(error) => Err(error),
        }
    }

    /// The error event that the queue has announced.
    fn error_event(&self) -> Error {
        // SAFETY: a C structure of integers and pointers, for which all zero is valid.
        let mut entry: abi::fi_eq_err_entry = unsafe { std::mem::zeroed() };
        entry.err_data = std::ptr::null_mut::<c_void>();
        // SAFETY: the queue is open; no error data is asked for.
        let code = unsafe { abi::fi_eq_readerr(self.0.as_ptr(), &raw mut entry) };
        match check_size("fi_eq_readerr", code) {
            Ok(_) => failure("fi_eq_sread", entry.err),
            Err(error) => error,
        }
    }
}

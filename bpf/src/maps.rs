// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's four maps.
//!
//! In: typed keys and values (`layout.rs`). Out: the entries of the maps. Callers: `redirect.rs`
//! opens the maps, `claim.rs` changes them. Bound: [`SLOTS`] entries in each of the two maps that
//! grow.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{CAPABILITY_LOAD, Error};
use crate::layout::{Counters, PortEntry, SLOTS, Verdict};

/// Descriptors of the four maps.
#[derive(Debug)]
pub(crate) struct Maps {
    ports: MapHandle,
    sockets: MapHandle,
    counters: MapHandle,
    passed: MapHandle,
}

impl Maps {
    /// Names of the maps in `redirect.bpf.c`.
    pub(crate) const PORTS: &str = "ports";
    pub(crate) const SOCKETS: &str = "sockets";
    pub(crate) const COUNTERS: &str = "counters";
    pub(crate) const PASSED: &str = "passed";

    pub(crate) const fn new(
        ports: MapHandle,
        sockets: MapHandle,
        counters: MapHandle,
        passed: MapHandle,
    ) -> Self {
        Self { ports, sockets, counters, passed }
    }

    /// A second set of descriptors of these maps.
    pub(crate) fn duplicate(&self) -> Result<Self, Error> {
        let duplicate = |map| {
            MapHandle::try_from(map)
                .map_err(|error| Error::libbpf("duplicate a map", CAPABILITY_LOAD, error))
        };
        Ok(Self::new(
            duplicate(&self.ports)?,
            duplicate(&self.sockets)?,
            duplicate(&self.counters)?,
            duplicate(&self.passed)?,
        ))
    }

    /// The entry of `port`, if it has one.
    pub(crate) fn port(&self, port: u16) -> Result<Option<PortEntry>, Error> {
        let value = self
            .ports
            .lookup(port.as_bytes(), MapFlags::ANY)
            .map_err(|error| Error::libbpf("look up a port", CAPABILITY_LOAD, error))?;
        Ok(value.and_then(|value| PortEntry::read_from_bytes(&value).ok()))
    }

    /// Writes the entry of `port`; `flags` as in `BPF_MAP_UPDATE_ELEM`. Returns `false` if an entry
    /// exists and `flags` forbid to change it.
    pub(crate) fn set_port(
        &self,
        port: u16,
        entry: PortEntry,
        flags: MapFlags,
    ) -> Result<bool, Error> {
        match self.ports.update(port.as_bytes(), entry.as_bytes(), flags) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::libbpf("claim a port", CAPABILITY_LOAD, error)),
        }
    }

    /// Deletes the entry of `port`, if there is one.
    pub(crate) fn delete_port(&self, port: u16) -> Result<(), Error> {
        match self.ports.delete(port.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::libbpf("release a port", CAPABILITY_LOAD, error))
            }
            _ => Ok(()),
        }
    }

    /// All ports with an entry. A concurrent change may show a port twice or not at all.
    pub(crate) fn ports(&self) -> Vec<u16> {
        // bound: twice the map's size, in case the iteration restarts under concurrent deletes.
        let most = 2 * SLOTS as usize;
        self.ports.keys().take(most).filter_map(|key| u16::read_from_bytes(&key).ok()).collect()
    }

    /// Puts `socket` into `slot` if the slot is empty; returns whether it was.
    pub(crate) fn take_slot(&self, slot: u32, socket: BorrowedFd<'_>) -> Result<bool, Error> {
        let value = socket.as_raw_fd();
        match self.sockets.update(slot.as_bytes(), value.as_bytes(), MapFlags::NO_EXIST) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::libbpf("claim a socket slot", CAPABILITY_LOAD, error)),
        }
    }

    /// Empties `slot`, which belongs to the caller.
    pub(crate) fn empty_slot(&self, slot: u32) -> Result<(), Error> {
        self.sockets
            .delete(slot.as_bytes())
            .map_err(|error| Error::libbpf("release a socket slot", CAPABILITY_LOAD, error))
    }

    /// Lets the program alone write map `passed`. All holders of a descriptor can map it for
    /// reading, and no process can change it (`BPF_MAP_FREEZE`, bpf(2)).
    pub(crate) fn freeze_passed(&self) -> Result<(), Error> {
        self.passed.freeze().map_err(|error| Error::libbpf("freeze a map", CAPABILITY_LOAD, error))
    }

    /// The descriptor of map `passed`, and the offset of the count of `slot` in the mapped map. A
    /// `struct kernel_rx_line` of `wire.h` begins with the count.
    pub(crate) fn kernel_rx_counter(&self, slot: u32) -> (BorrowedFd<'_>, usize) {
        (self.passed.as_fd(), self.passed.value_size() as usize * slot as usize)
    }

    /// Packets for the endpoint in `slot` that were left to its kernel socket.
    pub(crate) fn passed(&self, slot: u32) -> Result<u64, Error> {
        let line = self.passed.lookup(slot.as_bytes(), MapFlags::ANY).map_err(|error| {
            Error::libbpf("read the count of passed packets", CAPABILITY_LOAD, error)
        })?;
        let count = line.and_then(|line| Some(u64::read_from_prefix(&line).ok()?.0));
        Ok(count.unwrap_or_default())
    }

    /// The counters, summed over the CPUs.
    pub(crate) fn counters(&self) -> Result<Counters, Error> {
        let mut counters = Counters::default();
        for (verdict, sum) in Verdict::ALL.iter().zip(counters.as_mut_slice()) {
            let values =
                self.counters
                    .lookup_percpu((*verdict as u32).as_bytes(), MapFlags::ANY)
                    .map_err(|error| Error::libbpf("read the counters", CAPABILITY_LOAD, error))?;
            *sum = values
                .iter()
                .flatten()
                .filter_map(|value| u64::read_from_bytes(value).ok())
                .fold(0, u64::wrapping_add);
        }
        Ok(counters)
    }
}

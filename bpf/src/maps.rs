// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's four maps, and the Rust view of what is in them (`bpf/wire.h`).
//!
//! Typed keys and values come in and go out; `redirect.rs` opens the maps and `claim.rs` changes
//! them. Bounds: at most [`SLOTS`] entries in each of the two that grow.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{CAPABILITY_LOAD, Error};

/// Most AF_XDP sockets that can share one interface (`SOCKETS_MAX` of `wire.h`).
pub const SLOTS: u32 = 64;

macro_rules! verdicts {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What became of a frame: `enum verdict` of `wire.h`, in its order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        pub enum Verdict {
            $($(#[$doc])* $name,)*
        }

        impl Verdict {
            /// All of them, in the order of `wire.h`.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name in `wire.h`, in lower case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

verdicts! {
    /// Went to an AF_XDP socket.
    Redirected = "redirected",
    /// Neither IPv4 nor IPv6 (ARP, two VLAN tags …).
    PassNotIp = "pass_not_ip",
    /// IPv4 with options, or IPv6 with extension headers.
    PassOptions = "pass_options",
    /// A fragment.
    PassFragment = "pass_fragment",
    /// Not UDP.
    PassNotUdp = "pass_not_udp",
    /// Ends inside a header, or is shorter than any packet of ours.
    PassTruncated = "pass_truncated",
    /// Nobody claimed the UDP port.
    PassPort = "pass_port",
    /// The UDP port was claimed for another address.
    PassAddress = "pass_address",
    /// Longer than what the socket takes: several packets in one piece.
    PassOversize = "pass_oversize",
    /// Another version of the packet format, or not our format.
    PassVersion = "pass_version",
    /// Arrived on another queue than the socket's.
    PassQueue = "pass_queue",
    /// The port's socket is gone.
    PassNoSocket = "pass_no_socket",
}

/// How many frames met each [`Verdict`] since the program was loaded, over all CPUs.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct Counters([u64; Verdict::ALL.len()]);

impl Counters {
    /// Frames that met `verdict`.
    #[must_use]
    pub const fn count(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    /// Their bytes, for another process of this machine: numbers of 64 bits in its byte order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        IntoBytes::as_bytes(self)
    }

    /// The same, to be written.
    #[must_use]
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        IntoBytes::as_mut_bytes(self)
    }
}

/// One entry of map `ports`: `struct port_entry` of `wire.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PortEntry {
    pub(crate) queue: u32,
    pub(crate) slot: u32,
    pub(crate) longest: u32,
    pub(crate) address: [u8; 16],
}

impl PortEntry {
    /// The entry of the endpoint at `address`, whose socket takes IP packets of at most `longest`
    /// bytes.
    pub(crate) fn new(queue: u32, slot: u32, address: SocketAddr, longest: u32) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self { queue, slot, longest, address: ip.octets() }
    }

    /// The endpoint's IP address.
    pub(crate) fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }
}

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

    /// A second set of descriptors of the same maps.
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

    /// Writes the entry of `port`; `flags` as of `BPF_MAP_UPDATE_ELEM`. `false`: it has one
    /// already, and `flags` forbid to change it.
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

    /// Deletes the entry of `port`; it is well if there is none.
    pub(crate) fn delete_port(&self, port: u16) -> Result<(), Error> {
        match self.ports.delete(port.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::libbpf("release a port", CAPABILITY_LOAD, error))
            }
            _ => Ok(()),
        }
    }

    /// All ports that have an entry. A concurrent change may show one twice or not at all.
    pub(crate) fn ports(&self) -> Vec<u16> {
        // bound: twice the map's size, in case the iteration restarts under concurrent deletes.
        let most = 2 * SLOTS as usize;
        self.ports.keys().take(most).filter_map(|key| u16::read_from_bytes(&key).ok()).collect()
    }

    /// Puts `socket` into `slot` if that is empty; says whether it was.
    pub(crate) fn take_slot(&self, slot: u32, socket: BorrowedFd<'_>) -> Result<bool, Error> {
        let value = socket.as_raw_fd();
        match self.sockets.update(slot.as_bytes(), value.as_bytes(), MapFlags::NO_EXIST) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::libbpf("claim a socket slot", CAPABILITY_LOAD, error)),
        }
    }

    /// Empties `slot`, which the caller took.
    pub(crate) fn empty_slot(&self, slot: u32) -> Result<(), Error> {
        self.sockets
            .delete(slot.as_bytes())
            .map_err(|error| Error::libbpf("release a socket slot", CAPABILITY_LOAD, error))
    }

    /// Map `passed`, and the byte where what it says of `slot` stands in it when it is mapped:
    /// `struct passed_line` of `wire.h`, which begins with the count.
    pub(crate) fn passed_word(&self, slot: u32) -> (BorrowedFd<'_>, usize) {
        (self.passed.as_fd(), self.passed.value_size() as usize * slot as usize)
    }

    /// How many packets for the endpoint in `slot` were left to its kernel socket.
    pub(crate) fn passed(&self, slot: u32) -> Result<u64, Error> {
        let line = self
            .passed
            .lookup(slot.as_bytes(), MapFlags::ANY)
            .map_err(|error| Error::libbpf("read what was passed", CAPABILITY_LOAD, error))?;
        let count = line.and_then(|line| Some(u64::read_from_prefix(&line).ok()?.0));
        Ok(count.unwrap_or_default())
    }

    /// The counters, summed over the CPUs.
    pub(crate) fn counters(&self) -> Result<Counters, Error> {
        let mut counters = Counters([0; Verdict::ALL.len()]);
        for (verdict, sum) in Verdict::ALL.iter().zip(&mut counters.0) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_address() {
        for address in ["198.18.0.1:7", "[fd00::1]:7"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(PortEntry::new(0, 1, address, 1500).ip(), address.ip());
        }
    }

    #[test]
    fn verdicts_count_from_zero() {
        for (index, verdict) in Verdict::ALL.iter().enumerate() {
            assert_eq!(*verdict as usize, index);
        }
    }
}

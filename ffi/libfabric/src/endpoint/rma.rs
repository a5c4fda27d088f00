// SPDX-License-Identifier: MIT OR Apache-2.0
//! One-sided operations: writes with remote CQ data into a peer's buffers, and reads from them
//! (`fi_rma(3)`).
//!
//! In: the description of the peer's buffers ([`RemoteRegion`]). Out: completions, as of messages.

use super::{Endpoint, Peer};
use crate::buffers::Operand;
use crate::owned::failure;
use crate::raw::{Atomic, Remote, Value, abi};
use crate::{Error, Info};

/// A peer's buffers, as it describes them to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// The key.
    pub key: u64,
    /// Address or offset of the first buffer, whichever the peer's domain uses.
    pub base: u64,
}

/// One of a peer's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteBuffer {
    /// The owner of the memory.
    pub peer: Peer,
    /// Its region.
    pub region: RemoteRegion,
    /// Its number. Both sides have buffers of the same size.
    pub slot: usize,
}

impl RemoteRegion {
    /// Bytes of [`RemoteRegion::to_bytes`].
    pub const LEN: usize = 16;

    /// The description as bytes, for a message to the peer.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..].copy_from_slice(&self.base.to_le_bytes());
        bytes
    }

    /// The description in a peer's message; `None` if it is too short.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk::<8>()?;
        let (base, _) = rest.split_first_chunk::<8>()?;
        Some(Self { key: u64::from_le_bytes(*key), base: u64::from_le_bytes(*base) })
    }
}

impl Endpoint {
    /// The description of this side's buffers for peers; `info` is the offer of the endpoint.
    ///
    /// # Errors
    /// [`Error::Call`] when they are not registered.
    pub fn region(&self, info: &Info) -> Result<RemoteRegion, Error> {
        let region = self.buffers.region().ok_or_else(|| failure("fi_mr_reg", libc::ENOENT))?;
        let base = if info.wants_addresses() { self.buffers.address() } else { 0 };
        Ok(RemoteRegion { key: region.key(), base })
    }

    /// Writes the first `len` bytes of a free buffer to a peer's; `data` is in its completion.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn write_data(
        &mut self,
        slot: usize,
        len: usize,
        to: RemoteBuffer,
        data: u64,
    ) -> Result<(), Error> {
        let target = self.target(to);
        self.post("fi_writedata", slot, len, |endpoint, from| {
            let Operand { memory, descriptor, context } = from;
            endpoint.writedata_with(memory, descriptor, data, target, context)
        })
    }

    /// Writes from a buffer that stays free: no completion will come. `len` is at most
    /// [`Info::inject_size`].
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn inject_write_data(
        &mut self,
        slot: usize,
        len: usize,
        to: RemoteBuffer,
        data: u64,
    ) -> Result<(), Error> {
        let target = self.target(to);
        self.call("fi_inject_writedata", slot, len, |endpoint, from| {
            endpoint.inject_writedata(from.memory, data, target)
        })
    }

    /// Reads `len` bytes of a peer's buffer into a free one.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn read(&mut self, slot: usize, len: usize, from: RemoteBuffer) -> Result<(), Error> {
        let target = self.target(from);
        self.post("fi_read", slot, len, |endpoint, into| {
            let Operand { memory, descriptor, context } = into;
            endpoint.read_with(memory, descriptor, target, context)
        })
    }

    /// Adds the number in the first eight bytes of a free buffer to that of a peer's; the former
    /// number comes into the next eight bytes.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn fetch_add(&mut self, slot: usize, at: RemoteBuffer) -> Result<(), Error> {
        let target = self.target(at);
        self.post("fi_fetch_atomic", slot, 16, |endpoint, operand| {
            let Operand { memory, descriptor, context } = operand;
            let (datatype, op) = (abi::FI_UINT64, abi::FI_SUM);
            let atomic = Atomic { datatype, op, at: target, context };
            let value = Value { mem: memory.part(0, 8), count: 1 };
            endpoint.fetch_atomic_with(&atomic, value, memory.part(8, 8), descriptor)
        })
    }

    #[inline]
    fn target(&self, remote: RemoteBuffer) -> Remote {
        let address = remote.region.base + remote.slot as u64 * self.buffers.stride();
        Remote { peer: remote.peer.0, address, key: remote.region.key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_survives_its_message() {
        let region = RemoteRegion { key: 0x0102_0304, base: u64::MAX - 7 };
        assert_eq!(RemoteRegion::from_bytes(&region.to_bytes()), Some(region));
        assert_eq!(RemoteRegion::from_bytes(&region.to_bytes()[..15]), None);
    }
}

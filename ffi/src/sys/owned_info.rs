// SPDX-License-Identifier: MIT OR Apache-2.0
//! A `fi_info` of the running library's size that this provider owns: an offer of another provider,
//! or the copy of an application's.
//!
//! In: structures of libfabric. Out: reads, changes, copies. Called by passthrough and by passive
//! endpoints. Bound: one structure.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::abi::{self, fi_info, running};
use super::errno::Error;

/// A single `fi_info`, in no list.
#[derive(Debug)]
pub(crate) struct OwnedInfo(NonNull<fi_info>);

// SAFETY: the structure is this object's alone.
unsafe impl Send for OwnedInfo {}
// SAFETY: as for `Send`; a shared reference only reads.
unsafe impl Sync for OwnedInfo {}

impl OwnedInfo {
    /// Takes over a `fi_info` from libfabric.
    ///
    /// # Safety
    /// It has no other owner, and is in no list.
    pub(crate) unsafe fn from_raw(info: NonNull<fi_info>) -> Self {
        Self(info)
    }

    /// A copy of one element of a list.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    ///
    /// # Safety
    /// `info` is initialised, as `fi_getinfo(3)` says.
    pub(crate) unsafe fn copy_of(info: &fi_info) -> Result<Self, Error> {
        // SAFETY: passed on from the caller.
        unsafe { running::duplicate_info(info) }.map(Self).ok_or(Error::NoMemory)
    }

    /// A copy of it.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn duplicate(&self) -> Result<Self, Error> {
        // SAFETY: initialised by libfabric.
        unsafe { Self::copy_of(self.get()) }
    }

    /// The pointer, which stays owned.
    pub(crate) const fn as_ptr(&self) -> *mut fi_info {
        self.0.as_ptr()
    }

    /// The structure.
    pub(crate) fn get(&self) -> &fi_info {
        // SAFETY: initialised by libfabric, and owned.
        unsafe { self.0.as_ref() }
    }

    /// The structure, to change it.
    pub(crate) fn get_mut(&mut self) -> &mut fi_info {
        // SAFETY: as in `get`.
        unsafe { self.0.as_mut() }
    }

    /// Gives it away.
    pub(crate) fn into_raw(self) -> *mut fi_info {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// Replaces the names.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn rename(
        &mut self,
        provider: Option<&str>,
        fabric: Option<&str>,
        domain: Option<&str>,
    ) -> Result<(), Error> {
        // SAFETY: an owned element, with its attributes and strings, which come from C's allocator
        // (`fi_freeinfo` frees them so).
        if let Some(attributes) = unsafe { self.get_mut().fabric_attr.as_mut() } {
            // SAFETY: as above.
            unsafe { abi::replace_text(&mut attributes.prov_name, provider) }
                .ok_or(Error::NoMemory)?;
        }
        self.rename_network(fabric, domain)
    }

    /// Replaces the names of fabric and domain.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn rename_network(
        &mut self,
        fabric: Option<&str>,
        domain: Option<&str>,
    ) -> Result<(), Error> {
        let info = self.get_mut();
        // SAFETY: as in `rename`.
        if let Some(attributes) = unsafe { info.fabric_attr.as_mut() } {
            // SAFETY: as above.
            unsafe { abi::replace_text(&mut attributes.name, fabric) }.ok_or(Error::NoMemory)?;
        }
        // SAFETY: as above.
        if let Some(attributes) = unsafe { info.domain_attr.as_mut() } {
            // SAFETY: as above.
            unsafe { abi::replace_text(&mut attributes.name, domain) }.ok_or(Error::NoMemory)?;
        }
        Ok(())
    }
}

impl Drop for OwnedInfo {
    fn drop(&mut self) {
        // SAFETY: from libfabric, and owned.
        unsafe { abi::free_info(self.0) };
    }
}

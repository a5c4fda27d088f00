// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_info` from libfabric that this provider owns for a time: lists, single elements, and names.
//!
//! In: results of `fi_getinfo` and `fi_dupinfo`. Out: elements with other names, to the application
//! or to a hardware provider. The others are freed. Called by `offers` and `table_copy`. Bound: the
//! length of libfabric's results.

use std::ptr::NonNull;

use crate::c_api::text;
use crate::getinfo::hardware::Names;
use crate::sys::abi::{self, fi_info, fid_domain};
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;

/// An owned list of `fi_info`.
pub(super) struct InfoList {
    first: *mut fi_info,
    last: *mut fi_info,
}

impl Default for InfoList {
    fn default() -> Self {
        Self { first: std::ptr::null_mut(), last: std::ptr::null_mut() }
    }
}

impl InfoList {
    /// Takes over a list from libfabric.
    ///
    /// # Safety
    /// The list has no other owner.
    pub(super) unsafe fn from_raw(first: NonNull<fi_info>) -> Self {
        // The end is needed only to append.
        Self { first: first.as_ptr(), last: first.as_ptr() }
    }

    /// Whether it has no element.
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// The first element, which stays in it.
    pub(super) const fn first(&self) -> *const fi_info {
        self.first
    }

    /// The offers on `domain`, an open object that hints may name. All offers if it is NULL; an
    /// offer without a domain stays, as not every provider reports one.
    pub(super) fn only_on(mut self, domain: *mut fid_domain) -> Self {
        let (mut on, mut others) = (Self::default(), Self::default());
        while let Some(one) = self.pop() {
            // SAFETY: an owned element.
            let attributes = unsafe { one.get().domain_attr.as_ref() };
            let here = attributes.is_some_and(|it| std::ptr::eq(it.domain, domain));
            if here && !domain.is_null() { on.push(one) } else { others.push(one) }
        }
        if on.is_empty() { others } else { on }
    }

    /// The distinct names of domains.
    pub(super) fn domains(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut next = self.first();
        // SAFETY: elements of this list.
        while let Some(info) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            names.extend(unsafe { OwnedNames::of(info) }?.domain);
            next = info.next;
        }
        names.dedup();
        Ok(names)
    }

    /// Removes the first element.
    pub(super) fn pop(&mut self) -> Option<OwnedInfo> {
        // SAFETY: the first element of an owned list, which leaves it here.
        let mut one = unsafe { OwnedInfo::from_raw(NonNull::new(self.first)?) };
        self.first = std::mem::replace(&mut one.get_mut().next, std::ptr::null_mut());
        Some(one)
    }

    /// Appends an element.
    pub(super) fn push(&mut self, info: OwnedInfo) {
        let info = info.into_raw();
        if self.first.is_null() {
            self.first = info;
        } else {
            // SAFETY: the last element of this list, which is owned.
            unsafe { (*self.last).next = info };
        }
        self.last = info;
    }

    /// The list with `next` appended.
    pub(super) fn before(self, next: *mut fi_info) -> *mut fi_info {
        let Self { first, last } = *std::mem::ManuallyDrop::new(self);
        if first.is_null() {
            return next;
        }
        // SAFETY: the last element of this list, which was owned.
        unsafe { (*last).next = next };
        first
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if let Some(first) = NonNull::new(self.first) {
            // SAFETY: an owned list from libfabric.
            unsafe { abi::free_info(first) };
        }
    }
}

/// The names in a `fi_info`.
#[derive(Default)]
pub(super) struct OwnedNames {
    pub(super) provider: Option<String>,
    pub(super) fabric: Option<String>,
    pub(super) domain: Option<String>,
}

impl OwnedNames {
    /// # Safety
    /// The pointers in `info` are NULL, or as `fi_getinfo(3)` requires.
    pub(super) unsafe fn of(info: &fi_info) -> Result<Self, Error> {
        let mut names = Self::default();
        // SAFETY: promised by the caller, here and below.
        if let Some(fabric) = unsafe { info.fabric_attr.as_ref() } {
            // SAFETY: as above: NULL or a string.
            names.provider = unsafe { text(fabric.prov_name) }?;
            // SAFETY: as above.
            names.fabric = unsafe { text(fabric.name) }?;
        }
        // SAFETY: as above.
        if let Some(domain) = unsafe { info.domain_attr.as_ref() } {
            // SAFETY: as above.
            names.domain = unsafe { text(domain.name) }?;
        }
        Ok(names)
    }

    pub(super) fn borrowed(&self) -> Names<'_> {
        let Self { provider, fabric, domain } = self;
        Names {
            provider: provider.as_deref(),
            fabric: fabric.as_deref(),
            domain: domain.as_deref(),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_info` that libfabric has made and this provider owns for a while: lists, single elements,
//! and the names in them.
//!
//! In: what `fi_getinfo` and `fi_dupinfo` return. Out: the same with other names, to the
//! application or to a hardware provider. What is not handed on is freed. Called by `passthrough`
//! and `interpose`. Bounds: what libfabric returned.

use std::ptr::NonNull;

use super::text;
use crate::abi::library;
use crate::abi::{self, fi_info, fid_domain};
use crate::errno::Error;
use crate::passthrough::Names;

/// A list of `fi_info` that nobody else has.
pub(super) struct List {
    first: *mut fi_info,
    last: *mut fi_info,
}

impl Default for List {
    fn default() -> Self {
        Self { first: std::ptr::null_mut(), last: std::ptr::null_mut() }
    }
}

impl List {
    /// A list that libfabric has given us.
    ///
    /// # Safety
    /// Nobody else has it.
    pub(super) unsafe fn from_raw(first: NonNull<fi_info>) -> Self {
        // The end is only needed where one is put behind it.
        Self { first: first.as_ptr(), last: first.as_ptr() }
    }

    /// Whether there is none in it.
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// The first element, which stays in it.
    pub(super) const fn first(&self) -> *const fi_info {
        self.first
    }

    /// What is offered on `domain`, an open object that hints may name; all of it where it is
    /// NULL, or where nothing says which domain it is on: not every provider does.
    pub(super) fn only_on(mut self, domain: *mut fid_domain) -> Self {
        let (mut on, mut others) = (Self::default(), Self::default());
        while let Some(one) = self.pop() {
            // SAFETY: an element of ours.
            let attributes = unsafe { one.get().domain_attr.as_ref() };
            let here = attributes.is_some_and(|it| std::ptr::eq(it.domain, domain));
            if here && !domain.is_null() { on.push(one) } else { others.push(one) }
        }
        if on.is_empty() { others } else { on }
    }

    /// The names of the domains in it, each once.
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

    /// Takes the first one out.
    pub(super) fn pop(&mut self) -> Option<One> {
        let mut one = One(NonNull::new(self.first)?);
        self.first = std::mem::replace(&mut one.get_mut().next, std::ptr::null_mut());
        Some(one)
    }

    /// Puts one at the end.
    pub(super) fn push(&mut self, info: One) {
        let info = info.into_raw();
        if self.first.is_null() {
            self.first = info;
        } else {
            // SAFETY: the last element of this list, which is ours alone.
            unsafe { (*self.last).next = info };
        }
        self.last = info;
    }

    /// The list, and behind its end `next`.
    pub(super) fn before(self, next: *mut fi_info) -> *mut fi_info {
        let Self { first, last } = *std::mem::ManuallyDrop::new(self);
        if first.is_null() {
            return next;
        }
        // SAFETY: the last element of this list, which was ours alone.
        unsafe { (*last).next = next };
        first
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(first) = NonNull::new(self.first) {
            // SAFETY: a list from libfabric that nobody else has.
            unsafe { abi::free_info(first) };
        }
    }
}

/// One `fi_info`, in no list, that nobody else has.
pub(super) struct One(NonNull<fi_info>);

impl One {
    /// One that libfabric has given us.
    ///
    /// # Safety
    /// Nobody else has it, and it is in no list.
    pub(super) unsafe fn from_raw(info: NonNull<fi_info>) -> Self {
        Self(info)
    }

    pub(super) const fn as_ptr(&self) -> *mut fi_info {
        self.0.as_ptr()
    }

    pub(super) fn get(&self) -> &fi_info {
        // SAFETY: initialised by libfabric, and ours alone.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn get_mut(&mut self) -> &mut fi_info {
        // SAFETY: as in `get`.
        unsafe { self.0.as_mut() }
    }

    fn into_raw(self) -> *mut fi_info {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// Gives it these names.
    pub(super) fn rename(
        &mut self,
        provider: Option<&str>,
        fabric: Option<&str>,
        domain: Option<&str>,
    ) -> Result<(), Error> {
        let info = self.get_mut();
        // SAFETY: an element of ours alone; so are the attributes and strings that it points to,
        // which C's allocator made (`fi_freeinfo` frees them so).
        if let Some(attributes) = unsafe { info.fabric_attr.as_mut() } {
            // SAFETY: as above.
            unsafe { library::replace_text(&mut attributes.prov_name, provider) }
                .ok_or(Error::NoMemory)?;
            // SAFETY: as above.
            unsafe { library::replace_text(&mut attributes.name, fabric) }
                .ok_or(Error::NoMemory)?;
        }
        // SAFETY: as above.
        if let Some(attributes) = unsafe { info.domain_attr.as_mut() } {
            // SAFETY: as above.
            unsafe { library::replace_text(&mut attributes.name, domain) }
                .ok_or(Error::NoMemory)?;
        }
        Ok(())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        // SAFETY: from libfabric, and nobody else has it.
        unsafe { abi::free_info(self.0) };
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
    /// The pointers in `info` are NULL, or point to what `fi_getinfo(3)` says.
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

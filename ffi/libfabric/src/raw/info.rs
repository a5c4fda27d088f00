// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_info` and `fi_getinfo(3)`.

use std::ffi::{CStr, CString, c_char, c_int};

use super::abi;
use super::{Answer, Object, done};

/// One entry, owned: hints, or a copy of an offer.
#[derive(Debug)]
pub struct Info(Object<abi::fi_info>);

/// Access to an attribute structure of an entry: a copy, and a change.
macro_rules! attributes {
    ($($get:ident $set:ident $field:ident $kind:ty;)*) => { $(
        /// A copy of these attributes.
        pub fn $get(&self) -> $kind {
            // SAFETY: every attribute structure of an entry is present (`fi_dupinfo`).
            unsafe { *self.entry().$field }
        }

        /// Changes these attributes.
        pub fn $set(&self, change: impl FnOnce(&mut $kind)) {
            // SAFETY: as above, and the entry is ours alone.
            change(unsafe { &mut *self.entry().$field });
        }
    )* };
}

impl Info {
    /// `fi_allocinfo`: empty hints.
    pub fn empty() -> Self {
        Self::copy_of(std::ptr::null())
    }

    /// `fi_dupinfo`.
    pub fn dup(&self) -> Self {
        Self::copy_of(self.ptr())
    }

    /// Takes over an entry that came with a connection request.
    pub(super) fn adopted(info: *mut abi::fi_info) -> Option<Self> {
        (!info.is_null()).then(|| Self(Object::new(info)))
    }

    fn copy_of(info: *const abi::fi_info) -> Self {
        // SAFETY: null, or an entry that libfabric made.
        Self(Object::new(unsafe { abi::fi_dupinfo(info) }))
    }

    /// The entry, for calls that take it.
    pub fn ptr(&self) -> *mut abi::fi_info {
        self.0.get()
    }

    /// The entry's own fields.
    pub fn entry(&self) -> abi::fi_info {
        // SAFETY: an entry that libfabric made; a copy of its fields.
        unsafe { *self.ptr() }
    }

    /// Changes the entry's own fields.
    pub fn set(&self, change: impl FnOnce(&mut abi::fi_info)) {
        // SAFETY: as above, and the entry is ours alone.
        change(unsafe { &mut *self.ptr() });
    }

    attributes! {
        tx set_tx tx_attr abi::fi_tx_attr;
        rx set_rx rx_attr abi::fi_rx_attr;
        ep set_ep ep_attr abi::fi_ep_attr;
        domain set_domain domain_attr abi::fi_domain_attr;
        fabric set_fabric fabric_attr abi::fi_fabric_attr;
    }

    /// The capabilities.
    pub fn caps(&self) -> u64 {
        self.entry().caps
    }

    /// The provider's name.
    pub fn provider_name(&self) -> String {
        text(self.fabric().prov_name)
    }

    /// The fabric's name.
    pub fn fabric_name(&self) -> String {
        text(self.fabric().name)
    }

    /// The domain's name.
    pub fn domain_name(&self) -> String {
        text(self.domain().name)
    }

    /// Changes the provider's name.
    pub fn set_provider_name(&self, name: &str) {
        self.set_fabric(|fabric| fabric.prov_name = duplicate(name));
    }

    /// Changes the fabric's name.
    pub fn set_fabric_name(&self, name: &str) {
        self.set_fabric(|fabric| fabric.name = duplicate(name));
    }

    /// Changes the domain's name.
    pub fn set_domain_name(&self, name: &str) {
        self.set_domain(|domain| domain.name = duplicate(name));
    }

    /// Changes the destination address and the address format.
    pub fn set_dest_addr(&self, name: &[u8], format: u32) {
        // SAFETY: no preconditions. `fi_freeinfo` frees the copy with free(3).
        let copy = unsafe { libc::malloc(name.len()) }.cast::<u8>();
        assert!(!copy.is_null(), "no memory for {} bytes", name.len());
        // SAFETY: both are valid for `name.len()` bytes, and distinct.
        unsafe { name.as_ptr().copy_to_nonoverlapping(copy, name.len()) };
        self.set(|entry| {
            (entry.dest_addr, entry.dest_addrlen) = (copy.cast(), name.len());
            entry.addr_format = format;
        });
    }

    /// The source address, as bytes.
    pub fn src_addr(&self) -> Vec<u8> {
        let entry = self.entry();
        bytes(entry.src_addr.cast(), entry.src_addrlen)
    }

    /// The destination address, as bytes.
    pub fn dest_addr(&self) -> Vec<u8> {
        let entry = self.entry();
        bytes(entry.dest_addr.cast(), entry.dest_addrlen)
    }

    /// The class of the network interface's description, if there is one.
    pub fn nic_class(&self) -> Option<usize> {
        let nic = self.entry().nic;
        // SAFETY: null, or a structure that belongs to the entry.
        unsafe { nic.as_ref() }.map(|nic| nic.fid.fclass)
    }

    /// `fi_tostr` of the whole entry.
    pub fn text(&self) -> String {
        // SAFETY: the type matches the pointer; the answer is a string of the library's.
        text(unsafe { abi::fi_tostr(self.ptr().cast(), abi::FI_TYPE_INFO) })
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by libfabric, owned by `self` alone.
        unsafe { abi::fi_freeinfo(self.ptr()) };
    }
}

/// `fi_getinfo`: every offer, in its order.
pub fn getinfo(
    version: u32,
    node: Option<&str>,
    service: Option<&str>,
    flags: u64,
    hints: Option<&Info>,
) -> Answer<Vec<Info>> {
    let text = |text: Option<&str>| text.map(|text| CString::new(text).expect("no zero byte"));
    let (node, service) = (text(node), text(service));
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
    let hints = hints.map_or(std::ptr::null(), |hints| hints.ptr().cast_const());
    let mut list = std::ptr::null_mut();
    let (node, service) = (pointer(&node), pointer(&service));
    // SAFETY: strings are zero-terminated or null, hints complete or null.
    let code: c_int =
        unsafe { abi::fi_getinfo(version, node, service, flags, hints, &raw mut list) };
    done(code)?;
    let mut offers = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        offers.push(Info::copy_of(entry));
        // SAFETY: an entry of the list, which is freed below.
        entry = unsafe { (*entry).next };
    }
    if !list.is_null() {
        // SAFETY: the list is libfabric's, and only its copies go on.
        unsafe { abi::fi_freeinfo(list) };
    }
    Ok(offers)
}

/// A C string, or nothing.
pub(super) fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: libfabric's strings are zero-terminated.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// A copy that `fi_freeinfo` frees.
fn duplicate(text: &str) -> *mut c_char {
    let text = CString::new(text).expect("no zero byte");
    // SAFETY: zero-terminated.
    unsafe { libc::strdup(text.as_ptr()) }
}

pub(super) fn bytes(from: *const u8, len: usize) -> Vec<u8> {
    if from.is_null() {
        return Vec::new();
    }
    // SAFETY: an entry's address has the length that the entry gives.
    unsafe { std::slice::from_raw_parts(from, len) }.to_vec()
}

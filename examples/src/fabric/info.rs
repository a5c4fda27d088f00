// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo`: from a wish to one offer of one provider.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::net::IpAddr;
use std::ptr::NonNull;

use super::abi;
use super::object::text_of;
use super::{Error, Name};

/// The endpoint types that these programs use (`fi_endpoint(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `FI_EP_RDM`: reliable datagrams to any number of peers.
    Rdm,
    /// `FI_EP_MSG`: a connection to one peer.
    Msg,
}

/// What a program asks of libfabric.
#[derive(Clone, Debug)]
pub struct Want<'a> {
    /// The provider's name, in full: `xdp`, `tcp;ofi_rxm`.
    pub provider: &'a str,
    /// The endpoint type.
    pub kind: Kind,
    /// Whether tagged messages are needed; untagged ones otherwise.
    pub tagged: bool,
    /// Whether one-sided operations are needed, too.
    pub rma: bool,
    /// Whether the provider must make progress by itself (`FI_PROGRESS_AUTO`); its choice
    /// otherwise.
    pub auto_progress: bool,
    /// The local address to use.
    pub source: Option<IpAddr>,
    /// The local port to use; the provider's choice otherwise. Only with `source`.
    pub port: Option<u16>,
    /// The peer to connect to (only [`Kind::Msg`]).
    pub destination: Option<&'a Name>,
}

/// One offer: a `struct fi_info`.
#[derive(Debug)]
pub struct Info(NonNull<abi::fi_info>);

impl Info {
    /// The first offer of exactly the wanted provider. Requests send-after-send order, and supports
    /// every mode bit that costs a message client nothing (`FI_CONTEXT`, `FI_CONTEXT2`,
    /// `FI_MR_LOCAL` and what concerns only the targets of RMA).
    ///
    /// # Errors
    /// [`Error::NoMatch`], with libfabric's reason.
    pub fn find(want: &Want<'_>) -> Result<Self, Error> {
        let hints = Self::hints(want)?;
        let node = want.source.map(|ip| c_string(&ip.to_string()));
        let service = want.port.map(|port| c_string(&port.to_string()));
        let flags = if want.source.is_some() { abi::FI_SOURCE } else { 0 };
        let as_ptr =
            |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());

        let mut list = std::ptr::null_mut();
        // SAFETY: the strings are zero-terminated or null, `hints` is complete, `list` takes the
        // answer.
        let code = unsafe {
            abi::fi_getinfo(
                abi::VERSION,
                as_ptr(&node),
                as_ptr(&service),
                flags,
                hints.as_ptr(),
                &raw mut list,
            )
        };
        let none = |errno| Error::NoMatch {
            wanted: format!(
                "provider {:?}, endpoint type {:?}, source {:?}",
                want.provider, want.kind, want.source
            ),
            text: text_of(errno),
        };
        if code != 0 {
            return Err(none(-code));
        }
        // The list is one allocation to us: owned, so that it is freed however we leave.
        let list = NonNull::new(list).map(Self).ok_or_else(|| none(libc::ENODATA))?;
        list.first_of(want.provider).ok_or_else(|| none(libc::ENODATA))
    }

    /// The hints for `want`.
    fn hints(want: &Want<'_>) -> Result<Self, Error> {
        let hints = Self::duplicate(std::ptr::null())?;
        let (messages, kind) = match (want.tagged, want.kind) {
            (true, Kind::Rdm) => (abi::FI_TAGGED, abi::FI_EP_RDM),
            (true, Kind::Msg) => (abi::FI_TAGGED, abi::FI_EP_MSG),
            (false, Kind::Rdm) => (abi::FI_MSG, abi::FI_EP_RDM),
            (false, Kind::Msg) => (abi::FI_MSG, abi::FI_EP_MSG),
        };
        // SAFETY: `duplicate` of nothing is a complete fi_info with empty attributes, ours alone.
        let info = unsafe { &mut *hints.as_ptr() };
        info.caps = u64::from(messages | if want.rma { abi::FI_RMA } else { 0 });
        info.mode = abi::FI_CONTEXT | abi::FI_CONTEXT2;
        // SAFETY: as above; every attribute structure is present.
        let endpoint = unsafe { &mut *info.ep_attr };
        endpoint.type_ = kind;
        // SAFETY: as above.
        let domain = unsafe { &mut *info.domain_attr };
        let mr_mode = abi::FI_MR_LOCAL
            | abi::FI_MR_ALLOCATED
            | abi::FI_MR_VIRT_ADDR
            | abi::FI_MR_PROV_KEY
            | abi::FI_MR_ENDPOINT;
        domain.mr_mode = mr_mode as i32;
        domain.threading = abi::FI_THREAD_DOMAIN;
        if want.auto_progress {
            domain.control_progress = abi::FI_PROGRESS_AUTO;
            domain.data_progress = abi::FI_PROGRESS_AUTO;
        }
        // SAFETY: as above.
        let tx = unsafe { &mut *info.tx_attr };
        tx.msg_order = u64::from(abi::FI_ORDER_SAS);
        // SAFETY: as above.
        let rx = unsafe { &mut *info.rx_attr };
        rx.msg_order = u64::from(abi::FI_ORDER_SAS);
        // SAFETY: as above.
        let fabric = unsafe { &mut *info.fabric_attr };
        // SAFETY: the argument is zero-terminated. fi_freeinfo frees the copy with free(3).
        fabric.prov_name = unsafe { libc::strdup(c_string(want.provider).as_ptr()) };
        if let Some(Name(bytes)) = want.destination {
            // SAFETY: no preconditions. fi_freeinfo frees the copy with free(3).
            let copy = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
            if !copy.is_null() {
                // SAFETY: both are valid for `bytes.len()` bytes, and distinct.
                unsafe { bytes.as_ptr().copy_to_nonoverlapping(copy, bytes.len()) };
                info.dest_addr = copy.cast();
                info.dest_addrlen = bytes.len();
                info.addr_format = address_format(bytes);
            }
        }
        Ok(hints)
    }

    /// A copy of the first entry of this list whose provider is exactly `provider`: libfabric also
    /// offers stacks of providers under the name of the lowest.
    fn first_of(&self, provider: &str) -> Option<Self> {
        let mut entry = self.as_ptr();
        while !entry.is_null() {
            // SAFETY: an entry of the list that `self` owns.
            let info = unsafe { &*entry };
            if provider_name(info) == provider {
                return Self::duplicate(entry).ok();
            }
            entry = info.next;
        }
        None
    }

    /// `fi_dupinfo`: a copy of `info`, or an empty one for null.
    fn duplicate(info: *const abi::fi_info) -> Result<Self, Error> {
        // SAFETY: null, or an entry of a list that libfabric made.
        let copy = unsafe { abi::fi_dupinfo(info) };
        NonNull::new(copy)
            .map(Self)
            .ok_or_else(|| super::object::failure("fi_dupinfo", libc::ENOMEM))
    }

    /// Takes over a `fi_info` that libfabric handed out (a connection request).
    pub(super) fn adopt(info: *mut abi::fi_info) -> Option<Self> {
        NonNull::new(info).map(Self)
    }

    pub(super) fn as_ptr(&self) -> *mut abi::fi_info {
        self.0.as_ptr()
    }

    /// The entry itself.
    fn entry(&self) -> &abi::fi_info {
        // SAFETY: `self` owns a complete fi_info that libfabric made.
        unsafe { self.0.as_ref() }
    }

    /// The provider's name.
    #[must_use]
    pub fn provider(&self) -> String {
        provider_name(self.entry())
    }

    /// The domain's name: for network providers, the interface.
    #[must_use]
    pub fn domain(&self) -> String {
        // SAFETY: libfabric fills every attribute structure of its offers.
        text(unsafe { (*self.entry().domain_attr).name })
    }

    /// The endpoint type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        // SAFETY: libfabric fills every attribute structure of its offers.
        let kind = unsafe { (*self.entry().ep_attr).type_ };
        if kind == abi::FI_EP_MSG { Kind::Msg } else { Kind::Rdm }
    }

    /// Whether the offer is for tagged messages.
    #[must_use]
    pub fn tagged(&self) -> bool {
        self.entry().caps & u64::from(abi::FI_TAGGED) != 0
    }

    /// The longest message that may be injected: sent without a completion, its buffer free at
    /// once.
    #[must_use]
    pub fn inject_size(&self) -> usize {
        // SAFETY: libfabric fills every attribute structure of its offers.
        unsafe { (*self.entry().tx_attr).inject_size }
    }

    /// How many sends may be under way at once.
    #[must_use]
    pub fn transmit_depth(&self) -> usize {
        // SAFETY: libfabric fills every attribute structure of its offers.
        unsafe { (*self.entry().tx_attr).size }
    }

    /// How many receives may be posted at once.
    #[must_use]
    pub fn receive_depth(&self) -> usize {
        // SAFETY: libfabric fills every attribute structure of its offers.
        unsafe { (*self.entry().rx_attr).size }
    }

    /// Whether buffers must be registered before use (`FI_MR_LOCAL`).
    pub(super) fn wants_registration(&self) -> bool {
        // SAFETY: libfabric fills every attribute structure of its offers.
        let mr_mode = unsafe { (*self.entry().domain_attr).mr_mode };
        mr_mode & abi::FI_MR_LOCAL as i32 != 0
    }

    /// Whether the offer has one-sided operations.
    pub(super) fn offers_rma(&self) -> bool {
        self.entry().caps & u64::from(abi::FI_RMA) != 0
    }

    /// Whether addresses are of the format `FI_SOCKADDR_IN`.
    pub(super) fn takes_ipv4(&self) -> bool {
        self.entry().addr_format == abi::FI_SOCKADDR_IN
    }

    /// Whether peers name memory by its address (`FI_MR_VIRT_ADDR`); by the offset in its region
    /// otherwise.
    pub(super) fn wants_addresses(&self) -> bool {
        // SAFETY: libfabric fills every attribute structure of its offers.
        let mr_mode = unsafe { (*self.entry().domain_attr).mr_mode };
        mr_mode & abi::FI_MR_VIRT_ADDR as i32 != 0
    }

    /// The fabric's attributes, for `fi_fabric`.
    pub(super) fn fabric_attributes(&self) -> *mut abi::fi_fabric_attr {
        self.entry().fabric_attr
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by libfabric, owned by `self` alone.
        unsafe { abi::fi_freeinfo(self.0.as_ptr()) };
    }
}

/// The provider's name in an entry.
fn provider_name(info: &abi::fi_info) -> String {
    // SAFETY: libfabric fills every attribute structure of its offers.
    text(unsafe { (*info.fabric_attr).prov_name })
}

/// A C string of libfabric's, or nothing.
fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null; libfabric's strings are zero-terminated and live as long as their fi_info.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// The `addr_format` of a socket address, by its family.
fn address_format(address: &[u8]) -> u32 {
    match address {
        [low, high, ..] if u16::from_ne_bytes([*low, *high]) == libc::AF_INET6 as u16 => {
            abi::FI_SOCKADDR_IN6
        }
        _ => abi::FI_SOCKADDR_IN,
    }
}

/// `text` for C; a name with a zero byte in it matches nothing, as it should.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

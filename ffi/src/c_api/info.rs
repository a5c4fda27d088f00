// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_info`: read as a [`InfoRequest`], and written from an [`Info`].
//!
//! Members are read and written one by one, through references to the 1.17 part: the structures of
//! the running library may be longer (see `abi`).

use std::ffi::{c_char, c_int, c_void};
use std::net::SocketAddr;
use std::ptr::NonNull;

use super::{answer, array, control, nic, passthrough, text};
use crate::c_api::object;
use crate::endpoint::passive::PassiveEndpoint;
use crate::getinfo::open_objects;
use crate::getinfo::{self, Info, InfoRequest, Lookup};
use crate::sys::abi::running::InfoQuery;
use crate::sys::abi::{self, fi_info};
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;
use crate::sys::reserve;
use crate::sys::sockaddr::{self, SocketAddress};

/// `fi_getinfo`, called by libfabric's core.
pub(crate) unsafe extern "C" fn getinfo(
    api_version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    found: *mut *mut fi_info,
) -> c_int {
    control(|| {
        let before = reserve::refusals();
        let query = InfoQuery { api_version, node, service, flags };
        // SAFETY: the man page's contract: NULL or an initialised `fi_info`.
        let hints = unsafe { hints.as_ref() };
        // SAFETY: the man page's contract.
        let offers = unsafe { passthrough::offers(query, hints) }?;
        // SAFETY: the man page's contract.
        let own = match unsafe { own(query, hints, &offers.summary()) } {
            _ if reserve::refused_since(before) => return Err(Error::NoMemory),
            Ok(own) => own.map_or(std::ptr::null_mut(), Allocated::into_raw),
            Err(_) if !offers.is_empty() => std::ptr::null_mut(),
            Err(error) => {
                offers.report_absence(error);
                return Err(error);
            }
        };
        // SAFETY: the man page's contract: `found` may be written.
        unsafe { answer(found, offers.before(own)) }
    })
}

/// The offers of this provider itself.
///
/// # Safety
/// The contract of `fi_getinfo(3)`, for the strings of `query` and for `hints`.
unsafe fn own(
    query: InfoQuery,
    hints: Option<&fi_info>,
    passthrough: &str,
) -> Result<Option<Allocated>, Error> {
    let hints = match hints {
        Some(hints) => {
            // SAFETY: promised by the caller: its pointers are NULL or as `fi_getinfo(3)` requires.
            let mut wanted = unsafe { request(hints) }?;
            // SAFETY: as above.
            unsafe { restrict(hints, &mut wanted) }?;
            // SAFETY: as above: libfabric passes hints in its own layout, not the
            // application's.
            let limits = unsafe { abi::appended(hints.domain_attr) };
            (wanted.max_ep_auth_key, wanted.max_group_id) = limits;
            // Hints may keep the handle of an object that was closed since, as of a request that
            // was accepted, or of another provider's: it is not looked into.
            if open_objects::is_passive(hints.handle.addr())
                // SAFETY: it is open, as it is listed.
                && let Ok(passive) = unsafe { object::object::<PassiveEndpoint>(hints.handle) }
            {
                // The offers are for an endpoint with its address.
                wanted.source = Some(passive.name()?);
            }
            Some(wanted)
        }
        None => None,
    };
    let lookup = Lookup {
        api_version: query.api_version,
        // SAFETY: promised by the caller: NULL or a string.
        node: unsafe { text(query.node) }?,
        // SAFETY: as above.
        service: unsafe { text(query.service) }?,
        flags: query.flags,
    };
    let before = reserve::refusals();
    let mut list = None;
    // From the last to the first, as each one is linked in front of the list.
    for info in getinfo::find(&lookup, hints.as_ref(), passthrough)?.iter().rev() {
        list = Some(Allocated::with(info, list)?);
        reserve::check(before)?;
    }
    Ok(list)
}

/// Hints of an application, or an offer that it returns.
///
/// # Safety
/// The pointers in `info` are NULL, or as `fi_getinfo(3)` requires, with matching lengths.
pub(super) unsafe fn request(info: &fi_info) -> Result<InfoRequest, Error> {
    // SAFETY: promised by the caller, here and below.
    let domain = unsafe { info.domain_attr.as_ref() };
    // SAFETY: as above.
    let fabric = unsafe { info.fabric_attr.as_ref() };
    let domain_name = domain.map_or(std::ptr::null_mut(), |domain| domain.name);
    let fabric_name = fabric.map_or(std::ptr::null_mut(), |fabric| fabric.name);
    Ok(InfoRequest {
        caps: info.caps,
        addr_format: info.addr_format,
        // SAFETY: as above.
        source: unsafe { address(info.src_addr, info.src_addrlen) }?,
        // SAFETY: as above.
        destination: unsafe { address(info.dest_addr, info.dest_addrlen) }?,
        // SAFETY: as above.
        tx: unsafe { info.tx_attr.as_ref() }.copied(),
        // SAFETY: as above.
        rx: unsafe { info.rx_attr.as_ref() }.copied(),
        // SAFETY: as above.
        ep: unsafe { info.ep_attr.as_ref() }.copied(),
        domain: domain.copied(),
        max_ep_auth_key: 0,
        max_group_id: 0,
        // SAFETY: as above: NULL or a string.
        domain_name: unsafe { text(domain_name) }?,
        // SAFETY: as above: NULL or a string.
        fabric_name: unsafe { text(fabric_name) }?,
        handle: info.handle.expose_provenance(),
        open_fabric: None,
        open_domain: None,
        provider_version: fabric.map_or(0, |fabric| fabric.prov_version),
    })
}

/// Adds the open fabric and domain that hints may name, to which offers must belong. Hints with
/// objects of another provider have no offer.
///
/// # Safety
/// Those of [`request`].
unsafe fn restrict(hints: &fi_info, wanted: &mut InfoRequest) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let (fabric, domain) = unsafe { open_objects(hints) };
    let instance = |fid: usize, is_domain: bool| match fid {
        0 => Ok(None),
        fid => match open_objects::find(fid) {
            Some(found) if found.is_domain() == is_domain => Ok(Some(found)),
            _ => Err(Error::NoData),
        },
    };
    wanted.open_fabric = instance(fabric, false)?;
    wanted.open_domain = instance(domain, true)?;
    Ok(())
}

/// The fabric and the domain that hints name, 0 for none.
///
/// # Safety
/// Those of [`request`].
pub(super) unsafe fn open_objects(hints: &fi_info) -> (usize, usize) {
    // SAFETY: promised by the caller, here and below.
    let fabric = unsafe { hints.fabric_attr.as_ref() }.map_or(0, |it| it.fabric.addr());
    // SAFETY: as above.
    let domain = unsafe { hints.domain_attr.as_ref() }.map_or(0, |it| it.domain.addr());
    (fabric, domain)
}

/// # Safety
/// `address` is NULL or has `len` bytes.
unsafe fn address(address: *const c_void, len: usize) -> Result<Option<SocketAddr>, Error> {
    if address.is_null() || len == 0 {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    let bytes = unsafe { array(address.cast::<u8>(), len) }?;
    // An address of another kind is no error: no offer matches it.
    sockaddr::decode(bytes).map(Some).ok_or(Error::NoData)
}

/// A `fi_info` of the running library's size, not yet given to C.
struct Allocated(NonNull<fi_info>);

impl Allocated {
    /// A new element in front of `next`.
    fn with(info: &Info, next: Option<Self>) -> Result<Self, Error> {
        let allocated = Self(abi::allocate_info().ok_or(Error::NoMemory)?);
        // SAFETY: just allocated, zeroed, at least of the size known here, and owned by this
        // function only.
        let to = unsafe { &mut *allocated.0.as_ptr() };
        to.next = next.map_or(std::ptr::null_mut(), Self::into_raw);
        to.caps = info.caps;
        to.mode = 0;
        to.handle = info.handle;
        to.addr_format = sockaddr::format_of(&info.source.ip());
        (to.src_addr, to.src_addrlen) = owned_address(Some(info.source))?;
        (to.dest_addr, to.dest_addrlen) = owned_address(info.destination)?;
        if info.shows_nic {
            to.nic = nic::allocate(&info.nic)?;
        }
        // SAFETY: `fi_dupinfo(NULL)` allocates all five attribute structures, which are this one's
        // alone.
        *unsafe { to.tx_attr.as_mut() }.ok_or(Error::NoMemory)? = info.tx;
        // SAFETY: as above.
        *unsafe { to.rx_attr.as_mut() }.ok_or(Error::NoMemory)? = info.rx;
        // SAFETY: as above.
        fill_endpoint(unsafe { to.ep_attr.as_mut() }.ok_or(Error::NoMemory)?, &info.ep);
        // SAFETY: as above.
        fill_domain(unsafe { to.domain_attr.as_mut() }.ok_or(Error::NoMemory)?, info)?;
        // SAFETY: as above.
        let fabric = unsafe { to.fabric_attr.as_mut() }.ok_or(Error::NoMemory)?;
        fabric.fabric = info.fabric;
        fabric.name = owned_text(&info.fabric_name)?;
        fabric.prov_version = crate::sys::personality::version();
        Ok(allocated)
    }

    fn into_raw(self) -> *mut fi_info {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: allocated by `allocate_info`, and owned: `into_raw` forgets `self`.
        unsafe { abi::free_info(self.0) };
    }
}

// `fi_tx_attr` and `fi_rx_attr` have one layout in all versions, and are assigned as a whole. The
// two structures below have grown into their padding, so only their members are assigned.

fn fill_endpoint(to: &mut abi::fi_ep_attr, from: &abi::fi_ep_attr) {
    to.type_ = from.type_;
    to.protocol = from.protocol;
    to.protocol_version = from.protocol_version;
    to.max_msg_size = from.max_msg_size;
    to.max_order_raw_size = from.max_order_raw_size;
    to.max_order_war_size = from.max_order_war_size;
    to.max_order_waw_size = from.max_order_waw_size;
    to.mem_tag_format = from.mem_tag_format;
    to.tx_ctx_cnt = from.tx_ctx_cnt;
    to.rx_ctx_cnt = from.rx_ctx_cnt;
}

fn fill_domain(to: &mut abi::fi_domain_attr, info: &Info) -> Result<(), Error> {
    let from = &info.domain;
    to.domain = from.domain;
    to.name = owned_text(&info.domain_name)?;
    to.threading = from.threading;
    to.control_progress = from.control_progress;
    to.data_progress = from.data_progress;
    to.resource_mgmt = from.resource_mgmt;
    to.av_type = from.av_type;
    to.mr_mode = from.mr_mode;
    to.mr_key_size = from.mr_key_size;
    to.cq_data_size = from.cq_data_size;
    to.cq_cnt = from.cq_cnt;
    to.ep_cnt = from.ep_cnt;
    to.tx_ctx_cnt = from.tx_ctx_cnt;
    to.rx_ctx_cnt = from.rx_ctx_cnt;
    to.max_ep_tx_ctx = from.max_ep_tx_ctx;
    to.max_ep_rx_ctx = from.max_ep_rx_ctx;
    to.max_ep_stx_ctx = from.max_ep_stx_ctx;
    to.max_ep_srx_ctx = from.max_ep_srx_ctx;
    to.cntr_cnt = from.cntr_cnt;
    to.mr_iov_limit = from.mr_iov_limit;
    to.caps = from.caps;
    to.mr_cnt = from.mr_cnt;
    to.max_err_data = from.max_err_data;
    Ok(())
}

/// Gives a copied `fi_info` the addresses of a connection request.
pub(super) fn readdress(
    copied: &mut OwnedInfo,
    local: SocketAddr,
    peer: SocketAddr,
) -> Result<(), Error> {
    let info = copied.get_mut();
    let (source, destination) = (owned_address(Some(local))?, owned_address(Some(peer))?);
    for old in [info.src_addr, info.dest_addr] {
        // SAFETY: NULL, or allocated by `fi_dupinfo`, whose copies `free` frees.
        unsafe { libc::free(old) };
    }
    (info.src_addr, info.src_addrlen) = source;
    (info.dest_addr, info.dest_addrlen) = destination;
    info.addr_format = sockaddr::format_of(&local.ip());
    Ok(())
}

fn owned_text(text: &str) -> Result<*mut c_char, Error> {
    let text = abi::c_string(text);
    if text.is_null() { Err(Error::NoMemory) } else { Ok(text) }
}

fn owned_address(address: Option<SocketAddr>) -> Result<(*mut c_void, usize), Error> {
    let Some(address) = address.map(SocketAddress::from) else {
        return Ok((std::ptr::null_mut(), 0));
    };
    let memory = abi::c_bytes(address.bytes());
    if memory.is_null() { Err(Error::NoMemory) } else { Ok((memory, address.bytes().len())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getinfo::interface::Interface;

    /// Another provider's object, or one that was closed since the hints were made.
    #[test]
    fn a_handle_of_no_open_passive_endpoint_is_not_looked_into() {
        let query = InfoQuery {
            api_version: abi::make_version(1, 17),
            node: std::ptr::null(),
            service: std::ptr::null(),
            flags: 0,
        };
        let interface = Interface::all().unwrap().remove(0);
        let offer = Info::offer_of(abi::FI_EP_MSG, &interface, 0);
        let hints = Allocated::with(&offer, None).unwrap();
        // SAFETY: allocated above, and used by nothing else.
        let hints = unsafe { &mut *hints.into_raw() };
        // No memory is there.
        hints.handle = std::ptr::without_provenance_mut(64);
        // SAFETY: an initialised structure, without strings in the query.
        assert!(unsafe { own(query, Some(hints), "") }.unwrap().is_some());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fid_nic`: the properties of a network interface, owned by a `fi_info`.
//!
//! `fi_dupinfo` calls its `control(FI_DUP)`, `fi_freeinfo` its `close`, and `fi_tostr` (for
//! `fi_info -v`) its `tostr`. One box holds its strings and structures, which C reads only.
//!
//! `ofi_rxm` copies the C structure of a layered provider's NIC itself, with the table of
//! functions. So each function tells a box from a copy: only in a box the structures are behind C's
//! part.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;

use super::{answer, control, text, unsupported::slot};
use crate::getinfo::interface::{Nic, Pci, PciIds};
use crate::sys::abi;
use crate::sys::errno::Error;

static OPS: abi::fi_ops = abi::fi_ops {
    size: size_of::<abi::fi_ops>(),
    close: Some(close),
    bind: slot(),
    control: Some(command),
    ops_open: slot(),
    tostr: Some(tostr),
    ops_set: slot(),
};

/// C's part first, then the structures and strings that it points to.
#[repr(C)]
struct NicBox {
    c: abi::fid_nic,
    device: abi::fi_device_attr,
    bus: abi::fi_bus_attr,
    link: abi::fi_link_attr,
    strings: Strings,
    properties: Nic,
}

/// The texts that the attributes point to.
struct Strings {
    name: CString,
    driver: CString,
    address: CString,
    network: CString,
    vendor: Option<CString>,
    model: Option<CString>,
    revision: Option<CString>,
}

/// A new `fid_nic` for C, freed by its `close`.
pub(super) fn allocate(properties: &Nic) -> Result<*mut abi::fid_nic, Error> {
    let string = |text: &str| CString::new(text).map_err(|_| Error::Invalid);
    let known = |text: &Option<String>| text.as_deref().map(string).transpose();
    let strings = Strings {
        name: string(&properties.name)?,
        driver: string(&properties.driver)?,
        address: string(&properties.address)?,
        network: string(if properties.loopback { "loopback" } else { "Ethernet" })?,
        vendor: known(&properties.ids.vendor)?,
        model: known(&properties.ids.device)?,
        revision: known(&properties.ids.revision)?,
    };
    let pointer = |text: &Option<CString>| {
        text.as_ref().map_or(std::ptr::null_mut(), |text| text.as_ptr().cast_mut())
    };
    let new = Box::new(NicBox {
        c: abi::fid_nic {
            fid: abi::fid {
                fclass: abi::FI_CLASS_NIC as usize,
                context: std::ptr::null_mut(),
                ops: std::ptr::from_ref(&OPS).cast_mut(),
            },
            device_attr: std::ptr::null_mut(),
            bus_attr: std::ptr::null_mut(),
            link_attr: std::ptr::null_mut(),
            prov_attr: std::ptr::null_mut(),
        },
        device: abi::fi_device_attr {
            name: strings.name.as_ptr().cast_mut(),
            device_id: pointer(&strings.model),
            device_version: pointer(&strings.revision),
            vendor_id: pointer(&strings.vendor),
            driver: strings.driver.as_ptr().cast_mut(),
            // Only the driver's own tools report it.
            firmware: std::ptr::null_mut(),
        },
        bus: bus(properties),
        link: abi::fi_link_attr {
            address: strings.address.as_ptr().cast_mut(),
            mtu: properties.mtu,
            speed: properties.speed_bits,
            state: if properties.up { abi::FI_LINK_UP } else { abi::FI_LINK_DOWN },
            network_type: strings.network.as_ptr().cast_mut(),
        },
        strings,
        properties: properties.clone(),
    });
    let nic = Box::into_raw(new);
    // SAFETY: the box is alive, and owned by this function only. Its parts do not move until
    // `close`.
    let parts = unsafe { &mut *nic };
    parts.c.device_attr = &raw mut parts.device;
    parts.c.bus_attr = &raw mut parts.bus;
    parts.c.link_attr = &raw mut parts.link;
    Ok(nic.cast())
}

/// The PCI address of the card, for programs, if `FI_XDP_PCI` is set. MPICH asserts that its hwloc
/// knows the address (`src/util/mpir_hwtopo.c`), and the hwloc of its wheel does not. It also
/// chooses the nearest of several cards, although an Ethernet network need not connect every card
/// with every peer. The text for users has the address in any case (`describe`).
fn bus(properties: &Nic) -> abi::fi_bus_attr {
    let shown = properties.pci.filter(|_| properties.shows_pci);
    let bus_type = if shown.is_some() { abi::FI_BUS_PCI } else { abi::FI_BUS_UNKNOWN };
    let pci = shown.unwrap_or_default();
    let pci = abi::fi_pci_attr {
        domain_id: pci.domain,
        bus_id: pci.bus,
        device_id: pci.device,
        function_id: pci.function,
    };
    abi::fi_bus_attr { bus_type, attr: abi::fi_bus_attr__bindgen_ty_1 { pci } }
}

/// C's part of a box or of a copy.
///
/// # Safety
/// `fid` is NULL or an open libfabric object, which stays open for `'a`.
unsafe fn nic<'a>(fid: *const abi::fid) -> Result<&'a abi::fid_nic, Error> {
    if fid.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: not NULL, open (promised): an initialised `fid`.
    let ops = unsafe { (*fid).ops };
    if !std::ptr::eq(ops, &raw const OPS) {
        return Err(Error::Invalid);
    }
    // SAFETY: boxes and copies of them carry this table; both begin with this structure, open for
    // `'a` (promised).
    Ok(unsafe { &*fid.cast::<abi::fid_nic>() })
}

/// Whether C's part is that of a box, not a copy.
fn is_boxed(nic: &abi::fid_nic) -> bool {
    let device = std::ptr::from_ref(nic).addr() + std::mem::offset_of!(NicBox, device);
    nic.device_attr.addr() == device
}

/// The properties of a box, or what its copy tells of them.
///
/// # Safety
/// As [`nic`].
unsafe fn properties(fid: *const abi::fid) -> Result<Nic, Error> {
    // SAFETY: promised by the caller.
    let nic = unsafe { nic(fid) }?;
    if is_boxed(nic) {
        // SAFETY: a box (checked), which is open (promised). The pointer from C may access all of
        // it.
        return Ok(unsafe { &*fid.cast::<NicBox>() }.properties.clone());
    }
    let mut found = Nic::default();
    // SAFETY: a copy has NULL or a structure of its own, here and below.
    if let Some(device) = unsafe { nic.device_attr.as_ref() } {
        // SAFETY: NULL or a string, here and below.
        found.name = unsafe { text(device.name) }?.unwrap_or_default();
        // SAFETY: as above.
        found.driver = unsafe { text(device.driver) }?.unwrap_or_default();
        found.ids = PciIds {
            // SAFETY: as above.
            vendor: unsafe { text(device.vendor_id) }?,
            // SAFETY: as above.
            device: unsafe { text(device.device_id) }?,
            // SAFETY: as above.
            revision: unsafe { text(device.device_version) }?,
        };
    }
    // SAFETY: as above.
    let bus = unsafe { nic.bus_attr.as_ref() };
    if let Some(bus) = bus.filter(|bus| bus.bus_type == abi::FI_BUS_PCI) {
        // SAFETY: the union's member for this bus type.
        let pci = unsafe { bus.attr.pci };
        found.shows_pci = true;
        found.pci = Some(Pci {
            domain: pci.domain_id,
            bus: pci.bus_id,
            device: pci.device_id,
            function: pci.function_id,
        });
    }
    // SAFETY: as above.
    if let Some(link) = unsafe { nic.link_attr.as_ref() } {
        // SAFETY: as above.
        found.address = unsafe { text(link.address) }?.unwrap_or_default();
        // SAFETY: as above.
        found.loopback = unsafe { text(link.network_type) }?.as_deref() == Some("loopback");
        (found.mtu, found.speed_bits) = (link.mtu, link.speed);
        found.up = link.state == abi::FI_LINK_UP;
    }
    Ok(found)
}

/// Frees a copy: libfabric has allocated each part.
///
/// # Safety
/// `copy` is an open copy, which no call uses.
unsafe fn free_copy(copy: &abi::fid_nic) {
    let mut parts: Vec<*mut c_void> = Vec::with_capacity(12);
    // SAFETY: a copy has NULL or a structure of its own, here and below.
    if let Some(device) = unsafe { copy.device_attr.as_ref() } {
        let texts = [device.name, device.device_id, device.device_version];
        let more = [device.vendor_id, device.driver, device.firmware];
        parts.extend(texts.iter().chain(&more).map(|text| text.cast::<c_void>()));
    }
    // SAFETY: as above.
    if let Some(link) = unsafe { copy.link_attr.as_ref() } {
        parts.extend([link.address.cast::<c_void>(), link.network_type.cast()]);
    }
    parts.extend([copy.device_attr.cast::<c_void>(), copy.bus_attr.cast(), copy.link_attr.cast()]);
    parts.push(std::ptr::from_ref(copy).cast_mut().cast());
    for part in parts {
        // SAFETY: NULL, or allocated by libfabric for this copy alone; freed once.
        unsafe { libc::free(part) };
    }
}

/// Frees the box or the copy; called by `fi_freeinfo`.
unsafe extern "C" fn close(fid: *mut abi::fid) -> c_int {
    control(|| {
        // SAFETY: the contract of `fi_close`.
        let nic = unsafe { nic(fid) }?;
        if is_boxed(nic) {
            // SAFETY: `allocate` made it from a box.
            drop(unsafe { Box::from_raw(fid.cast::<NicBox>()) });
        } else {
            // SAFETY: a copy; the contract of `fi_close`: no call uses it.
            unsafe { free_copy(nic) };
        }
        Ok(())
    })
}

/// `FI_DUP`: called by `fi_dupinfo`.
unsafe extern "C" fn command(fid: *mut abi::fid, command: c_int, argument: *mut c_void) -> c_int {
    control(|| {
        if command.cast_unsigned() != abi::FI_DUP {
            return Err(Error::NotSupported);
        }
        // SAFETY: the contract of `fi_control`: open.
        let properties = unsafe { properties(fid) }?;
        // SAFETY: `FI_DUP` passes a `struct fid **` that may be written.
        unsafe { answer(argument.cast::<*mut abi::fid_nic>(), allocate(&properties)?) }
    })
}

/// Appends a text to the string in `buffer`, in the layout of `fi_tostr(3)`.
unsafe extern "C" fn tostr(fid: *const abi::fid, buffer: *mut c_char, len: usize) -> c_int {
    control(|| {
        // SAFETY: the contract of `fi_tostr`: open.
        let properties = unsafe { properties(fid) }?;
        let text = CString::new(describe(&properties)).map_err(|_| Error::Invalid)?;
        if buffer.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: not NULL; libfabric passes a zero-terminated string with room for `len` bytes in
        // all.
        let used = unsafe { CStr::from_ptr(buffer) }.count_bytes();
        let room = len.saturating_sub(used);
        // SAFETY: `used` is below `len`.
        let end = unsafe { buffer.add(used) };
        // SAFETY: from there, `room` bytes are left.
        unsafe { super::copy_text(&text, end, room) };
        Ok(())
    })
}

fn describe(nic: &Nic) -> String {
    let mut text = String::from("    nic:\n        fi_device_attr:\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "            name: {}", nic.name);
    let ids = [
        ("device_id", &nic.ids.device),
        ("device_version", &nic.ids.revision),
        ("vendor_id", &nic.ids.vendor),
    ];
    for (name, value) in ids {
        if let Some(value) = value {
            let _ = writeln!(text, "            {name}: {value}");
        }
    }
    let _ = writeln!(text, "            driver: {}", nic.driver);
    let pci_if = |shown| nic.pci.filter(|_| nic.shows_pci == shown);
    if let Some(pci) = pci_if(true) {
        let _ = writeln!(text, "        fi_bus_attr:\n            pci: {pci}");
    }
    let _ = writeln!(text, "        fi_link_attr:\n            address: {}", nic.address);
    let _ = writeln!(text, "            mtu: {}", nic.mtu);
    let _ = writeln!(text, "            speed: {}", nic.speed_bits);
    let state = if nic.up { "FI_LINK_UP" } else { "FI_LINK_DOWN" };
    let _ = writeln!(text, "            state: {state}");
    let network = if nic.loopback { "loopback" } else { "Ethernet" };
    let _ = writeln!(text, "            network_type: {network}");
    let kept = pci_if(false).map(|pci| format!("pci: {pci}"));
    for (number, line) in kept.iter().chain(&nic.tiers).enumerate() {
        if number == 0 {
            let _ = writeln!(text, "        xdp:");
        }
        let _ = writeln!(text, "            {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getinfo::interface::Pci;

    /// `value` in memory of libfabric.
    fn given<T>(value: T) -> *mut T {
        // SAFETY: no memory is passed.
        let memory = unsafe { libc::malloc(size_of::<T>()) }.cast::<T>();
        assert!(!memory.is_null());
        // SAFETY: not NULL, of this size, aligned for every type.
        unsafe { memory.write(value) };
        memory
    }

    /// A copy as `ofi_rxm` makes it: C's part alone, with our functions.
    #[test]
    fn a_copy_by_libfabric_can_be_copied_and_closed() {
        let ids = PciIds { device: Some("0x1234".to_owned()), ..PciIds::default() };
        let (name, mtu) = ("eth7".to_owned(), 9000);
        let original = allocate(&Nic { name, mtu, up: true, ids, ..Nic::default() }).unwrap();
        // SAFETY: just allocated, here and below.
        let whole = unsafe { *original };
        // SAFETY: as above.
        let device = unsafe { *whole.device_attr };
        // SAFETY: as above.
        let link = unsafe { *whole.link_attr };
        let same = |text: *mut c_char| {
            // SAFETY: not NULL, hence a string.
            if text.is_null() { text } else { unsafe { libc::strdup(text) } }
        };
        let device = abi::fi_device_attr {
            name: same(device.name),
            device_id: same(device.device_id),
            driver: same(device.driver),
            ..device
        };
        let (address, network_type) = (same(link.address), same(link.network_type));
        let link = abi::fi_link_attr { address, network_type, ..link };
        let (device_attr, link_attr) = (given(device), given(link));
        let bus_attr = std::ptr::null_mut();
        let copy = given(abi::fid_nic { device_attr, bus_attr, link_attr, ..whole });
        // SAFETY: open, from here on.
        assert_eq!(unsafe { close(original.cast()) }, 0);
        let mut second = std::ptr::null_mut::<abi::fid_nic>();
        let to = (&raw mut second).cast();
        // SAFETY: open; `FI_DUP` writes a pointer.
        assert_eq!(unsafe { command(copy.cast(), abi::FI_DUP.cast_signed(), to) }, 0);
        // SAFETY: open.
        assert_eq!(unsafe { close(copy.cast()) }, 0);
        // SAFETY: open.
        let found = unsafe { properties(second.cast()) }.unwrap();
        assert_eq!((found.name.as_str(), found.mtu, found.up), ("eth7", 9000, true));
        assert_eq!(found.ids.device.as_deref(), Some("0x1234"));
        // SAFETY: open.
        assert_eq!(unsafe { close(second.cast()) }, 0);
    }

    /// Programs see the PCI address of a card with `FI_XDP_PCI` only; the text always has it.
    #[test]
    fn programs_see_the_bus_only_if_allowed() {
        let pci = Some(Pci { domain: 1, bus: 0x3b, device: 2, function: 1 });
        let mut nic = Nic { name: "eth0".to_owned(), pci, ..Nic::default() };
        assert_eq!(bus(&nic).bus_type, abi::FI_BUS_UNKNOWN);
        let text = describe(&nic);
        assert!(text.contains("xdp:\n            pci: 0001:3b:02.1"), "{text}");
        assert!(!text.contains("fi_bus_attr"), "{text}");
        nic.shows_pci = true;
        let shown = bus(&nic);
        assert_eq!(shown.bus_type, abi::FI_BUS_PCI);
        // SAFETY: the union's only member for this bus type.
        let pci = unsafe { shown.attr.pci };
        assert_eq!((pci.domain_id, pci.bus_id), (1, 0x3b));
        assert_eq!((pci.device_id, pci.function_id), (2, 1));
        let text = describe(&nic);
        assert!(text.contains("fi_bus_attr:\n            pci: 0001:3b:02.1"), "{text}");
        assert!(!text.contains("xdp:"), "{text}");
        nic.pci = None;
        assert_eq!(bus(&nic).bus_type, abi::FI_BUS_UNKNOWN);
    }
}

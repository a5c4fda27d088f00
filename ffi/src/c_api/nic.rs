// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fid_nic`: the properties of a network interface, owned by a `fi_info`.
//!
//! `fi_dupinfo` calls its `control(FI_DUP)`, `fi_freeinfo` its `close`, and `fi_tostr` (for
//! `fi_info -v`) its `tostr`. One box holds its strings and structures, which C reads only.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write as _;

use super::{answer, control, unsupported::slot};
use crate::getinfo::interface::Nic;
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

/// The box behind a pointer from C.
///
/// # Safety
/// `fid` is NULL or an open libfabric object, which stays open for `'a`.
unsafe fn boxed<'a>(fid: *const abi::fid) -> Result<&'a NicBox, Error> {
    if fid.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: not NULL, open (promised): an initialised `fid`.
    let ops = unsafe { (*fid).ops };
    if !std::ptr::eq(ops, &raw const OPS) {
        return Err(Error::Invalid);
    }
    // SAFETY: only `NicBox` carries this table, and it is open for `'a` (promised).
    Ok(unsafe { &*fid.cast::<NicBox>() })
}

/// Frees the box; called by `fi_freeinfo`.
unsafe extern "C" fn close(fid: *mut abi::fid) -> c_int {
    control(|| {
        // SAFETY: the contract of `fi_close`.
        unsafe { boxed(fid) }?;
        // SAFETY: `boxed` has checked that this is a `NicBox`, which `allocate` made from a box.
        drop(unsafe { Box::from_raw(fid.cast::<NicBox>()) });
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
        let nic = unsafe { boxed(fid) }?;
        // SAFETY: `FI_DUP` passes a `struct fid **` that may be written.
        unsafe { answer(argument.cast::<*mut abi::fid_nic>(), allocate(&nic.properties)?) }
    })
}

/// Appends a text to the string in `buffer`, in the layout of `fi_tostr(3)`.
unsafe extern "C" fn tostr(fid: *const abi::fid, buffer: *mut c_char, len: usize) -> c_int {
    control(|| {
        // SAFETY: the contract of `fi_tostr`: open.
        let nic = unsafe { boxed(fid) }?;
        let text = CString::new(describe(&nic.properties)).map_err(|_| Error::Invalid)?;
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of `FI_XDP_IFACE`, as a filter for the offers of hardware providers.

use crate::c_api::array;
use crate::getinfo::interface::Interface;
use crate::sys::abi::{self, fi_info};
use crate::sys::errno::Error;
use crate::sys::sockaddr;

/// The addresses of the interface.
pub(super) struct InterfaceList(Vec<Interface>);

impl InterfaceList {
    /// The interface with this name; `None` without a name.
    ///
    /// # Errors
    /// Those of [`Interface::all`].
    pub(super) fn of(interface: Option<&str>) -> Result<Option<Self>, Error> {
        let Some(name) = interface else { return Ok(None) };
        let mut found = Interface::all()?;
        found.retain(|interface| interface.nic.name == name);
        Ok(Some(Self(found)))
    }

    /// Whether an offer has an address of the interface, or its PCI address.
    ///
    /// # Safety
    /// `info` is as `fi_getinfo(3)` requires.
    pub(super) unsafe fn has(&self, info: &fi_info) -> bool {
        // SAFETY: promised by the caller.
        let bytes = unsafe { array(info.src_addr.cast::<u8>(), info.src_addrlen) };
        let ip = match (info.addr_format, bytes) {
            (abi::FI_SOCKADDR | abi::FI_SOCKADDR_IN | abi::FI_SOCKADDR_IN6, Ok(bytes)) => {
                sockaddr::decode(bytes).map(|address| address.ip())
            }
            _ => None,
        };
        // SAFETY: promised by the caller.
        let bus = unsafe { info.nic.as_ref() }.map(|nic| nic.bus_attr);
        // SAFETY: as above.
        let bus = bus.and_then(|bus| unsafe { bus.as_ref() });
        let pci = bus.filter(|bus| bus.bus_type == abi::FI_BUS_PCI).map(|bus| {
            // SAFETY: of this type, the union's only member.
            let pci = unsafe { bus.attr.pci };
            (pci.domain_id, pci.bus_id, pci.device_id, pci.function_id)
        });
        self.0.iter().any(|interface| {
            let device = interface.nic.pci.map(|it| (it.domain, it.bus, it.device, it.function));
            ip.is_some_and(|ip| ip == interface.ip) || (pci.is_some() && pci == device)
        })
    }
}

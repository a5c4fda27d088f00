// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a hardware provider's offer is: on the interface that the user has named, or elsewhere.

use crate::abi::{self, fi_info};
use crate::errno::Error;
use crate::interface::Interface;
use crate::shim::array;
use crate::sockaddr;

/// The interface of `FI_XDP_IFACE`, by which offers are known that are on it.
pub(super) struct Place(Vec<Interface>);

impl Place {
    /// None if no interface is named.
    ///
    /// # Errors
    /// As [`Interface::all`].
    pub(super) fn of(interface: Option<&str>) -> Result<Option<Self>, Error> {
        let Some(name) = interface else { return Ok(None) };
        let mut found = Interface::all()?;
        found.retain(|interface| interface.nic.name == name);
        Ok(Some(Self(found)))
    }

    /// Whether an offer has an address of the interface, or its place on the PCI bus.
    ///
    /// # Safety
    /// `info` is as `fi_getinfo(3)` says.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls: `SIOCETHTOOL` and `SIOCGIFMTU` of ioctl(2) (netdevice(7)).
//!
//! In: a [`RuleRequest`] or a [`HashRequest`]. Out: the answer, in the request. Callers: [`super`];
//! the kernel socket, for the MTU.
//! The socket keeps the network namespace, and the index the interface, so a rule is removed from
//! the right interface on any thread, also after a change of its name. Bounds: two system calls,
//! and two more for each change of the name meanwhile, up to [`NAMES_MAX`].

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use nix::errno::Errno;
use nix::libc;

use super::Device;
use super::hash::HashRequest;
use super::rules::{RULES_MAX, RuleRequest};

/// linux/sockios.h.
pub(crate) const SIOCETHTOOL: u16 = 0x8946;
/// linux/sockios.h.
const SIOCGIFNAME: u16 = 0x8910;
/// linux/sockios.h.
const SIOCGIFMTU: u16 = 0x8921;

/// Maximum number of names by which one request is made.
const NAMES_MAX: u32 = 3;

/// A name in the form of the kernel, which ends with a zero.
type KernelName = [c_char; libc::IFNAMSIZ];

/// `struct ifreq` with an MTU.
#[repr(C)]
struct MtuRequest {
    name: KernelName,
    mtu: i32,
    rest: [u8; size_of::<libc::ifreq>() - size_of::<KernelName>() - size_of::<i32>()],
}

const _: () = assert!(size_of::<MtuRequest>() == size_of::<libc::ifreq>());

/// The MTU of the interface with this index, in the network namespace of `socket`. Two system
/// calls, which wait for no lock of interfaces (`dev_ifsioc_locked`, `net/core/dev_ioctl.c`).
///
/// # Errors
/// ENXIO, ENODEV: there is no such interface any more.
pub(crate) fn interface_mtu(socket: BorrowedFd<'_>, index: u32) -> io::Result<u32> {
    let name = interface_name(socket, index)?;
    let mut request = MtuRequest { name, mtu: 0, rest: [0; _] };
    let (fd, code) = (socket.as_raw_fd(), SIOCGIFMTU.into());
    // SAFETY: `request` lives through the call and has no other user. It has the length of a
    // `struct ifreq`, of which the kernel reads the name and writes the MTU.
    let result = unsafe { libc::ioctl(fd, code, &raw mut request) };
    Errno::result(result)?;
    Ok(u32::try_from(request.mtu).unwrap_or(0))
}

/// The present name of the interface with this index, in the network namespace of `socket`. An
/// interface that is up may be renamed (since Linux 6.2), and another one may get its former name.
///
/// # Errors
/// ENXIO: there is no such interface any more. ENODEV of a request says less: the device may be
/// switched off.
fn interface_name(socket: BorrowedFd<'_>, index: u32) -> io::Result<KernelName> {
    let ifru_ifindex = i32::try_from(index).map_err(|_| Errno::ENXIO)?;
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_ifindex };
    let mut interface = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru };
    let (fd, code) = (socket.as_raw_fd(), SIOCGIFNAME.into());
    // SAFETY: `interface` lives through the call and has no other user. The kernel reads its index
    // and writes its name (`dev_ifname`, net/core/dev_ioctl.c).
    let result = unsafe { libc::ioctl(fd, code, &raw mut interface) };
    match Errno::result(result) {
        Ok(_) => Ok(interface.ifr_name),
        Err(Errno::ENODEV) => Err(Errno::ENXIO.into()),
        Err(error) => Err(error.into()),
    }
}

/// An interface by index, in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct EthtoolInterface {
    index: u32,
    socket: UnixDatagram,
}

/// A request that has room for the kernel's answer.
enum DriverRequest<'a> {
    Rules(&'a mut RuleRequest),
    Hash(&'a mut HashRequest),
}

impl EthtoolInterface {
    /// The interface with index `index` in the calling thread's network namespace.
    pub(crate) fn open(index: u32) -> io::Result<Self> {
        // The socket stands for the namespace. Sockets of every family take the request
        // (`sock_do_ioctl`, net/socket.c); the broker may have none of the Internet's
        // (`RestrictAddressFamilies` of its unit).
        let interface = Self { index, socket: UnixDatagram::unbound()? };
        interface.kernel_name()?;
        Ok(interface)
    }

    /// The present name, or the index of an interface that is gone.
    pub(crate) fn name(&self) -> String {
        let Ok(name) = self.kernel_name() else { return format!("interface {}", self.index) };
        // `char` is signed on x86-64, and not on aarch64.
        let bytes = name.map(|char| u8::from_ne_bytes(char.to_ne_bytes()));
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The present name, as [`interface_name`].
    fn kernel_name(&self) -> io::Result<KernelName> {
        interface_name(self.socket.as_fd(), self.index)
    }

    /// The caller has checked that the request has room.
    fn execute(&self, mut request: DriverRequest<'_>) -> io::Result<()> {
        let mut name = self.kernel_name()?;
        for _ in 0..NAMES_MAX {
            let result = self.execute_by(name, &mut request);
            if result != Err(Errno::ENODEV) {
                return Ok(result?);
            }
            // No interface has the name, or the device is switched off (`netif_device_present`).
            let present = self.kernel_name()?;
            if present == name {
                break;
            }
            name = present;
        }
        Err(Errno::ENODEV.into())
    }

    /// Makes the request of the interface that has this name.
    fn execute_by(&self, name: KernelName, request: &mut DriverRequest<'_>) -> nix::Result<()> {
        let data = match request {
            DriverRequest::Rules(request) => std::ptr::from_mut(*request).cast(),
            DriverRequest::Hash(request) => std::ptr::from_mut(*request).cast(),
        };
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: data };
        let mut interface = libc::ifreq { ifr_name: name, ifr_ifru };
        let fd = self.socket.as_raw_fd();
        let code = SIOCETHTOOL.into();
        // SAFETY: `interface` and the request behind its pointer live through the call and have no
        // other user. The kernel accesses a `struct ethtool_rxnfc`, the beginning of a
        // `RuleRequest`, and after it at most `count` locations; or a `struct ethtool_rxfh`, the
        // beginning of a `HashRequest`, and after it table and key of the lengths in the request.
        // Both callers check that there is room.
        let result = unsafe { libc::ioctl(fd, code, &raw mut interface) };
        Errno::result(result).map(drop)
    }
}

impl Device for EthtoolInterface {
    fn call(&self, request: &mut RuleRequest) -> io::Result<()> {
        if request.count() as usize > RULES_MAX {
            return Err(Errno::EMSGSIZE.into());
        }
        self.execute(DriverRequest::Rules(request))
    }

    fn read_hash(&self, request: &mut HashRequest) -> io::Result<()> {
        if !request.has_room() {
            return Err(Errno::EMSGSIZE.into());
        }
        self.execute(DriverRequest::Hash(request))
    }
}

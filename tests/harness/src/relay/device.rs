// SPDX-License-Identifier: MIT OR Apache-2.0
//! TAP devices: the host has an interface, the relay a file that reads and writes its frames
//! (Documentation/networking/tuntap.rst).
//!
//! The device has no `IFF_VNET_HDR`, so no frame exceeds the MTU and every checksum is complete.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, anyhow, ensure};
use nix::libc;
use nix::sched::{CloneFlags, setns};

nix::ioctl_write_int!(
    /// `TUNSETIFF`.
    tun_set_interface,
    b'T',
    202
);

/// The relay's end of a TAP device; the interface is removed on drop.
#[derive(Debug)]
pub(super) struct Device(File);

impl Device {
    /// Makes the interface `name` in `namespace`, with non-blocking reads.
    pub(super) fn new(namespace: File, name: &str) -> anyhow::Result<Self> {
        let name = name.to_owned();
        // The device belongs to the namespace in which the file was opened; a thread of its own
        // leaves this one where it is.
        let made = std::thread::spawn(move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET).context("setns(2)")?;
            open(&name).with_context(|| format!("cannot make the TAP device {name}"))
        });
        made.join().map_err(|_| anyhow!("the thread that makes a device panicked"))?
    }

    /// Reads the next frame into `buffer`; `None` if there is none.
    pub(super) fn read(&self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a frame to the host.
    pub(super) fn write(&self, frame: &[u8]) -> std::io::Result<()> {
        (&self.0).write(frame).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(name: &str) -> anyhow::Result<Device> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun").context("/dev/net/tun")?;
    let mut if_name = [0; libc::IFNAMSIZ];
    ensure!(name.len() < if_name.len(), "{name}: too long");
    for (to, byte) in if_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::try_from(byte)?;
    }
    let flags = libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI)?;
    let request = libc::ifreq {
        ifr_name: if_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    };
    // SAFETY: TUNSETIFF reads a `struct ifreq`, and `request` is one that outlives the call.
    unsafe { tun_set_interface(file.as_raw_fd(), (&raw const request).addr() as libc::c_ulong) }?;
    Ok(Device(file))
}

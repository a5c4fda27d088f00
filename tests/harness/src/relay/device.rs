// SPDX-License-Identifier: MIT OR Apache-2.0
//! TAP devices: the host has an interface, the relay a file that reads and writes its frames
//! (Documentation/networking/tuntap.rst).
//!
//! A device with several queues has a file for each: a frame that is written to a file arrives by
//! its queue. The device has no `IFF_VNET_HDR`, so no frame exceeds the MTU and every checksum is
//! complete.
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
pub(super) struct Device {
    /// The files of the queues, in their order.
    queues: Vec<File>,
    /// The queue that is read next.
    next: usize,
}

impl Device {
    /// Makes the interface `name` with `queues` queues in `namespace`, with non-blocking reads.
    pub(super) fn new(namespace: File, name: &str, queues: u32) -> anyhow::Result<Self> {
        let name = name.to_owned();
        // The device belongs to the namespace in which the file was opened; a thread of its own
        // leaves this one where it is.
        let made = std::thread::spawn(move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET).context("setns(2)")?;
            let files = (0..queues.max(1)).map(|_| open(&name, queues > 1));
            let files: anyhow::Result<Vec<File>> = files.collect();
            files.with_context(|| format!("cannot make the TAP device {name}"))
        });
        let queues =
            made.join().map_err(|_| anyhow!("the thread that makes a device panicked"))??;
        Ok(Self { queues, next: 0 })
    }

    /// Reads the next frame into `buffer`; its length and queue, or `None` if there is none.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<(usize, u32)>> {
        for _ in 0..self.queues.len() {
            let queue = self.next;
            match (&self.queues[queue]).read(buffer) {
                Ok(len) => return Ok(Some((len, queue as u32))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.next = (queue + 1) % self.queues.len();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Gives a frame to the host, by one of its queues.
    pub(super) fn write(&self, frame: &[u8], queue: u32) -> std::io::Result<()> {
        let queue = (queue as usize).min(self.queues.len() - 1);
        (&self.queues[queue]).write(frame).map(drop)
    }

    /// The number of queues.
    pub(super) fn queues(&self) -> u32 {
        self.queues.len() as u32
    }

    /// The files, readable when the host has sent a frame.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(AsFd::as_fd)
    }
}

fn open(name: &str, several: bool) -> anyhow::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun").context("/dev/net/tun")?;
    let mut if_name = [0; libc::IFNAMSIZ];
    ensure!(name.len() < if_name.len(), "{name}: too long");
    for (to, byte) in if_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::try_from(byte)?;
    }
    let queues = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI | queues)?;
    let request = libc::ifreq {
        ifr_name: if_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    };
    // SAFETY: TUNSETIFF reads a `struct ifreq`, and `request` is one that outlives the call.
    unsafe { tun_set_interface(file.as_raw_fd(), (&raw const request).addr() as libc::c_ulong) }?;
    Ok(file)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors that the child of a fork does not keep.
//!
//! A socket lives until its last descriptor closes, in whichever process. A child that lives on
//! would keep the queue, the UDP port and the XDP program of endpoints that its parent has closed.
//! So the child closes its copies ([`close_in_child`]); mappings of the sockets are not inherited
//! (`xsk/mapping.rs`). The child uses no object of its parent.
//!
//! In: descriptors, as an `Uninherited` beside each owner, or as an [`UninheritedFd`]. Out: nothing
//! in the parent; in the child each number names `/dev/null`, so that it names no other file of the
//! child. Callers: the owners, and the provider's fork handler. Bound: the descriptors of the
//! process.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

pub use ofi_xdp_bpf::ProcessList;
use rustix::io::{DupFlags, dup3};

/// The registered descriptors; one that two values registered is in the list twice.
static DESCRIPTORS: ProcessList<RawFd> = ProcessList::new();

/// Registers a descriptor while it lives. Its owner drops it before the descriptor.
#[derive(Debug)]
pub struct Uninherited(RawFd);

impl Uninherited {
    /// Registers the descriptor of `owner`.
    #[must_use]
    pub fn new(owner: &impl AsFd) -> Self {
        let descriptor = owner.as_fd().as_raw_fd();
        DESCRIPTORS.lock().push(descriptor);
        Self(descriptor)
    }
}

impl Drop for Uninherited {
    fn drop(&mut self) {
        let mut descriptors = DESCRIPTORS.lock();
        if let Some(at) = descriptors.iter().position(|&one| one == self.0) {
            descriptors.swap_remove(at);
        }
    }
}

/// A registered descriptor.
#[derive(Debug)]
pub(crate) struct UninheritedFd {
    /// In front of its descriptor, as the fields are dropped in this order.
    _uninherited: Uninherited,
    descriptor: OwnedFd,
}

impl UninheritedFd {
    /// A duplicate of `descriptor`.
    ///
    /// # Errors
    /// Those of `fcntl(2)`.
    pub(crate) fn duplicate(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let descriptor = descriptor.try_clone_to_owned()?;
        Ok(Self { _uninherited: Uninherited::new(&descriptor), descriptor })
    }
}

impl AsFd for UninheritedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Closes the registered descriptors. Called once, in the child of a fork, before any other code
/// there. If another thread of the parent was changing the list, the child keeps them.
pub fn close_in_child() {
    ofi_xdp_bpf::unlock_programs_in_child();
    let Some(mut descriptors) = DESCRIPTORS.unlock_in_child() else { return };
    let nothing = File::open("/dev/null").ok();
    // bound: the registered descriptors
    for descriptor in descriptors.drain(..) {
        // SAFETY: it is open, as its owner is dropped after its `Uninherited`. The child neither
        // uses nor drops that owner, an object of its parent.
        let mut copy = unsafe { OwnedFd::from_raw_fd(descriptor) };
        if let Some(nothing) = &nothing
            && dup3(nothing, &mut copy, DupFlags::CLOEXEC).is_ok()
        {
            // The number stays occupied.
            let _ = copy.into_raw_fd();
        }
    }
}

/// Whether a descriptor is registered.
#[cfg(test)]
pub(crate) fn is_registered(descriptor: RawFd) -> bool {
    DESCRIPTORS.lock().contains(&descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn registered(owner: &UnixStream) -> usize {
        DESCRIPTORS.lock().iter().filter(|&&one| one == owner.as_raw_fd()).count()
    }

    #[test]
    fn a_descriptor_is_registered_as_often_as_it_has_values() {
        let (one, _other) = UnixStream::pair().unwrap();
        let first = Uninherited::new(&one);
        let second = Uninherited::new(&one);
        assert_eq!(registered(&one), 2);
        drop(first);
        assert_eq!(registered(&one), 1);
        drop(second);
        assert_eq!(registered(&one), 0);
    }
}

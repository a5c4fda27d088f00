// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event queue. Connectionless endpoints and synchronous insertion make no events, so it is
//! always empty: applications that open one as a matter of course find one.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::errno::Error;
use crate::fabric::Fabric;
use crate::ops::FidOps;
use crate::waker::sleep;

/// See the module.
#[derive(Debug)]
pub(crate) struct Eq {
    /// Keeps the fabric busy.
    _fabric: Arc<Fabric>,
    /// Never readable.
    event: EventFd,
}

impl Eq {
    /// `fi_eq_open`.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(crate) fn open(fabric: &Arc<Fabric>) -> Result<Arc<Self>, Error> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Arc::new(Self { _fabric: Arc::clone(fabric), event }))
    }

    /// `fi_eq_sread`: nothing comes, so this ends with the time or a signal.
    ///
    /// # Errors
    /// [`Error::Again`] when the time is over, [`Error::Interrupted`].
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<usize, Error> {
        sleep(&mut [PollFd::new(self.event.as_fd(), PollFlags::POLLIN)], timeout)?;
        Err(Error::Again)
    }
}

impl FidOps for Eq {
    fn wait_fd(&self) -> Result<RawFd, Error> {
        Ok(self.event.as_fd().as_raw_fd())
    }
}

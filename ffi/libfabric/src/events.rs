// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event queue that reports connections (`fi_cm(3)`, `fi_eq(3)`).

use std::time::Duration;

use crate::owned::{Owned, check, failure};
use crate::raw::{self, Context, Errno, abi};
use crate::{Error, Info};

/// An event queue.
#[derive(Debug)]
pub(crate) struct Events(Owned<raw::Eq>);

impl Events {
    pub(crate) fn open(fabric: &raw::Fabric) -> Result<Self, Error> {
        let mut attributes = abi::fi_eq_attr {
            size: 0,
            flags: 0,
            wait_obj: abi::FI_WAIT_UNSPEC,
            signaling_vector: 0,
            wait_set: std::ptr::null_mut(),
        };
        Owned::of("fi_eq_open", fabric.eq(&mut attributes, Context::null())).map(Self)
    }

    pub(crate) fn queue(&self) -> &raw::Eq {
        &self.0
    }

    /// Waits for `event`, and gives the offer that came with it.
    pub(crate) fn wait(
        &self,
        event: u32,
        waited_for: &'static str,
        timeout: Duration,
    ) -> Result<Option<Info>, Error> {
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        match self.0.sread_cm(ms) {
            Ok((seen, info)) if seen == event => Ok(info.map(Info::of)),
            Ok(_) => Err(failure("fi_eq_sread", libc::ECONNREFUSED)),
            Err(Errno(abi::FI_EAVAIL)) => Err(self.error_event()),
            Err(Errno(abi::FI_EAGAIN)) => {
                Err(Error::Timeout { waited_for, ms: u64::try_from(ms).unwrap_or(0) })
            }
            Err(errno) => check("fi_eq_sread", Err(errno)),
        }
    }

    /// Waits for a connection request, and gives the offer that came with it.
    pub(crate) fn request(&self, timeout: Duration) -> Result<Info, Error> {
        let info = self.wait(abi::FI_CONNREQ, "a connection request", timeout)?;
        info.ok_or_else(|| failure("fi_eq_sread", libc::EIO))
    }

    /// The error event that the queue has announced.
    fn error_event(&self) -> Error {
        match check("fi_eq_readerr", self.0.readerr()) {
            Ok(event) => failure("fi_eq_sread", event.err.0),
            Err(error) => error,
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offers of libfabric that the programs take.
//!
//! In: host and role. Out: an offer, and the object that was opened with it. Callers: residents,
//! visitors, doors. Bound: [`OFFERED`].

use std::time::Duration;

use nix::libc::{EHOSTUNREACH, ENETUNREACH, ENODATA};
use ofi_xdp_harness::interrupt::wait_until;
use ofi_xdp_libfabric::{Error, Info, Kind, Name, Want};

use crate::hosts::address;

/// Time until an interface that is down must be up again.
const OFFERED: Duration = Duration::from_secs(20);

/// The use of an offer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role<'a> {
    /// An endpoint for any number of peers, at this port.
    Peers(u16),
    /// Connections to this port.
    Listener(u16),
    /// A connection to this name.
    Caller(&'a Name),
}

/// The offer for a program of `host`, and the object that `open` opens with it. While the interface
/// is down nothing is offered, no fabric is there, and no connection is made; nor is one where the
/// other host's is down for three seconds, in which its neighbours give it up.
///
/// # Errors
/// When nothing is offered for [`OFFERED`], and those of `open`.
pub(crate) fn open<T>(
    host: u8,
    role: Role<'_>,
    open: impl Fn(&Info) -> Result<T, Error>,
) -> anyhow::Result<(Info, T)> {
    let (kind, port, destination) = match role {
        Role::Peers(port) => (Kind::Rdm, Some(port), None),
        Role::Listener(port) => (Kind::Msg, Some(port), None),
        Role::Caller(name) => (Kind::Msg, None, Some(name)),
    };
    let want = Want {
        provider: "xdp",
        kind,
        tagged: true,
        rma: true,
        atomic: false,
        auto_progress: true,
        source: Some(address(host).into()),
        port,
        destination,
    };
    wait_until("an offer", OFFERED, || {
        match Info::find(&want).and_then(|info| open(&info).map(|opened| (info, opened))) {
            Err(
                Error::NoMatch { .. }
                | Error::Call { errno: ENODATA | ENETUNREACH | EHOSTUNREACH, .. },
            ) => Ok(None),
            opened => Ok(Some(opened?)),
        }
    })
}

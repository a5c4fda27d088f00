// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rule in the device that sends the packets of one address to the queue of its `AF_XDP` socket,
//! where the device's hash would spread them over all queues (RSS).
//!
//! In: interface, queue, address. Out: a [`Steering`], or why there is none; dropping it removes
//! the rule. `grant.rs` calls, only where it was asked for: a rule is a change of the device. The
//! kernel has no netlink form of these requests (Documentation/networking/ethtool-netlink.rst,
//! "Request translation"), so they go by ioctl(2) (linux/ethtool.h, `struct ethtool_rxnfc`).
//! Bounds: a few system calls, [`RULES_MAX`] rules looked at.
//!
//! The rule belongs to the device, not to a process: of one that is killed it stays. What it
//! matches then goes to a queue that it might have gone to anyway.

mod ioctl;
mod request;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;
use nix::net::if_::if_indextoname;

use ioctl::Interface;
use request::{ANY_LOCATION, Command, FlowSpec, RULES_MAX, Request, SPECIAL_LOCATIONS, TABLE_SIZE};

/// Takes requests: a device, or a test's idea of one.
trait Device {
    /// Does what `request` says; answers are in it.
    fn call(&self, request: &mut Request) -> io::Result<()>;
}

/// Why packets are not steered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SteeringError {
    /// The driver has no such rules, or they are off.
    #[error(
        "the driver takes no rules for UDP ports, or `ethtool -K {0} ntuple on` has to allow them"
    )]
    Unsupported(String),
    /// There is no room for one more.
    #[error("the device's table of rules is full (`ethtool -n {0}` shows it)")]
    Full(String),
    /// Something else.
    #[error("a rule for the device: {0}")]
    Os(io::Error),
}

/// A rule of ours in a device; removed when dropped.
#[derive(Debug)]
pub(crate) struct Steering {
    interface: Interface,
    rule: FlowSpec,
}

impl Steering {
    /// Has the interface with index `interface`, of the calling thread's network namespace, send
    /// UDP packets for `local` to `queue`.
    pub(crate) fn new(
        interface: u32,
        queue: u32,
        local: SocketAddr,
    ) -> Result<Self, SteeringError> {
        let os = |error: Errno| SteeringError::Os(error.into());
        let name = if_indextoname(interface).map_err(os)?;
        let name = name.to_string_lossy().into_owned();
        let interface = Interface::open(&name).map_err(SteeringError::Os)?;
        match insert(&interface, FlowSpec::new(local, queue)) {
            Ok(rule) => Ok(Self { interface, rule }),
            Err(error) => Err(match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EOPNOTSUPP | Errno::EINVAL) => SteeringError::Unsupported(name),
                Some(Errno::ENOSPC) => SteeringError::Full(name),
                _ => SteeringError::Os(error),
            }),
        }
    }
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, location) = (self.interface.name(), self.rule.location());
        let queue = self.rule.queue();
        write!(
            f,
            "rule {location} of {name} steers its packets to queue {queue}; if this process is \
             killed the rule stays, until `ethtool -N {name} delete {location}`"
        )
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        match remove(&self.interface, &self.rule) {
            Ok(()) => {}
            // The device went, and its rules with it.
            Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => {}
            Err(error) => log::warn!("this rule could not be removed ({error}): {self}"),
        }
    }
}

/// Puts `rule` into the device's table; it says where.
fn insert(device: &impl Device, mut rule: FlowSpec) -> io::Result<FlowSpec> {
    let mut request = Request::new(Command::Count);
    device.call(&mut request)?;
    // Some drivers choose the place; in the others' tables the one who asks does, and must not take
    // one that has a rule: it would be replaced.
    let place = if request.data & SPECIAL_LOCATIONS != 0 {
        ANY_LOCATION
    } else {
        free_place(device, request.count())?
    };
    rule.place(place);
    let mut request = Request::of_rule(Command::Insert, rule);
    device.call(&mut request)?;
    Ok(request.rule)
}

/// The last free place of a table with `count` rules: the first match counts, and rules that
/// somebody made come before ours.
fn free_place(device: &impl Device, count: u32) -> io::Result<u32> {
    let full = || io::Error::from(Errno::ENOSPC);
    if count as usize > RULES_MAX {
        return Err(full());
    }
    let mut request = Request::new(Command::All);
    request.set_count(count);
    device.call(&mut request)?;
    let size = u32::try_from(request.data & TABLE_SIZE).unwrap_or(u32::MAX);
    let used = request.places();
    // bound: one round more than there are rules.
    (0..size).rev().find(|place| !used.contains(place)).ok_or_else(full)
}

/// Removes `rule`, unless another one is in its place by now.
fn remove(device: &impl Device, rule: &FlowSpec) -> io::Result<()> {
    let mut request = Request::of_rule(Command::Get, *rule);
    match device.call(&mut request) {
        Ok(()) if request.rule.is_same(rule) => {
            device.call(&mut Request::of_rule(Command::Delete, *rule))
        }
        Ok(()) => Ok(()),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            // There is none: somebody removed it, or the device was reset.
            Some(Errno::EINVAL | Errno::ENOENT) => Ok(()),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;

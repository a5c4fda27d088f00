// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steering: a rule in the device that sends the packets of one address to the queue of its
//! `AF_XDP` socket. Without it the device's hash spreads them over all queues (RSS).
//!
//! In: interface, queue, address. Out: a [`Steering`], or the reason why there is none; dropping it
//! removes the rule. Callers: `socket_lease.rs`, on request only, because a rule changes the
//! device; the broker, for the rules of one that was killed. Bounds: a few system calls,
//! [`RULES_MAX`] rules.
//!
//! The rule belongs to the device. It stays when its process is killed. It then sends packets to a
//! queue that they might have reached anyway. The broker keeps records of its rules, and removes
//! those that are left by [`SteeringRule::remove_left`].

use std::fmt;
use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;

use crate::ethtool::Device;
use crate::ethtool::ioctl::EthtoolInterface;
use crate::ethtool::rules::{
    ANY_LOCATION, Command, FlowSpec, RULES_MAX, RuleRequest, SPECIAL_LOCATIONS, TABLE_SIZE,
};

/// What a rule does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SteeringRule {
    /// Index of the interface, in the calling thread's network namespace.
    pub interface: u32,
    /// The queue that the packets are sent to.
    pub queue: u32,
    /// The destination of the packets.
    pub address: SocketAddr,
}

impl SteeringRule {
    /// Removes all rules of the device that do this, and returns how many there were. The process
    /// that inserted them is gone.
    ///
    /// # Errors
    /// [`SteeringError`].
    pub fn remove_left(self) -> Result<u32, SteeringError> {
        let interface = EthtoolInterface::open(self.interface).map_err(SteeringError::Os)?;
        let rule = FlowSpec::new(self.address, self.queue);
        remove_all(&interface, rule).map_err(|error| SteeringError::of(&interface, error))
    }
}

/// Reason why packets are not steered.
#[derive(Debug, thiserror::Error)]
pub enum SteeringError {
    /// The driver has no such rules, or they are switched off.
    #[error(
        "the driver takes no rules for UDP ports, or `ethtool -K {0} ntuple on` has to allow them"
    )]
    Unsupported(String),
    /// The table is full.
    #[error("the device's table of rules is full (`ethtool -n {0}` shows it)")]
    Full(String),
    /// Another error of the operating system.
    #[error("a rule for the device: {0}")]
    Os(io::Error),
}

impl SteeringError {
    fn of(interface: &EthtoolInterface, error: io::Error) -> Self {
        let name = interface.name();
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EOPNOTSUPP | Errno::EINVAL) => Self::Unsupported(name),
            Some(Errno::ENOSPC) => Self::Full(name),
            _ => Self::Os(error),
        }
    }
}

/// A rule in a device; removed on drop.
#[derive(Debug)]
pub(crate) struct Steering {
    interface: EthtoolInterface,
    rule: FlowSpec,
}

impl Steering {
    /// Inserts `rule`.
    pub(crate) fn new(rule: SteeringRule) -> Result<Self, SteeringError> {
        let interface = EthtoolInterface::open(rule.interface).map_err(SteeringError::Os)?;
        match insert(&interface, FlowSpec::new(rule.address, rule.queue)) {
            Ok(rule) => Ok(Self { interface, rule }),
            Err(error) => Err(SteeringError::of(&interface, error)),
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
            // The device is gone, and its rules with it.
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {}
            Err(error) => log::warn!("this rule could not be removed ({error}): {self}"),
        }
    }
}

/// Inserts `rule` into the device's table; returns it with its location.
fn insert(device: &impl Device, mut rule: FlowSpec) -> io::Result<FlowSpec> {
    let mut request = RuleRequest::new(Command::Count);
    device.call(&mut request)?;
    // Some drivers choose the location. For other drivers the caller chooses, and must choose a
    // free one: a rule in that location would be replaced.
    let location = if request.data & SPECIAL_LOCATIONS != 0 {
        ANY_LOCATION
    } else {
        free_location(device, request.count(), rule.queue())?
    };
    rule.set_location(location);
    let mut request = RuleRequest::about_rule(Command::Insert, rule);
    device.call(&mut request)?;
    Ok(request.rule)
}

/// A free location for a rule that names `queue`, in a table with `count` rules. The first match
/// counts, so foreign rules come before ours: the search begins at the end.
///
/// Another process may search at the same time, and the later rule in a location replaces the
/// earlier one. So each queue has locations of its own, in turns from the end, and the process that
/// has the queue's only `AF_XDP` socket searches there. Where none of them is free it takes any.
fn free_location(device: &impl Device, count: u32, queue: u64) -> io::Result<u32> {
    let full = || io::Error::from(Errno::ENOSPC);
    let queues = queue_count(device);
    let request = locations(device, count)?;
    let size = u32::try_from(request.data & TABLE_SIZE).unwrap_or(u32::MAX);
    let used = request.locations();
    let is_free = |place: &u32| !used.contains(&(size - 1 - place));
    let first = u32::try_from(queue % u64::from(queues)).unwrap_or(0);
    // bound: one round more than there are rules, twice.
    let own = (first..size).step_by(queues as usize).find(is_free);
    let place = own.or_else(|| (0..size).find(is_free)).ok_or_else(full)?;
    Ok(size - 1 - place)
}

/// The number of the device's receive queues; 1 if it does not report it.
fn queue_count(device: &impl Device) -> u32 {
    let mut request = RuleRequest::new(Command::Queues);
    let count = device.call(&mut request).map_or(1, |()| request.data);
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

/// The answer with the locations of `count` rules.
fn locations(device: &impl Device, count: u32) -> io::Result<RuleRequest> {
    if count as usize > RULES_MAX {
        return Err(Errno::ENOSPC.into());
    }
    let mut request = RuleRequest::new(Command::All);
    request.set_count(count);
    device.call(&mut request)?;
    Ok(request)
}

/// Removes all rules that are the same as `rule`, in any location; returns how many there were.
fn remove_all(device: &impl Device, mut rule: FlowSpec) -> io::Result<u32> {
    let mut request = RuleRequest::new(Command::Count);
    device.call(&mut request)?;
    let mut removed = 0;
    for location in locations(device, request.count())?.locations() {
        rule.set_location(*location);
        let mut request = RuleRequest::about_rule(Command::Get, rule);
        device.call(&mut request)?;
        if request.rule.is_same(&rule) {
            device.call(&mut RuleRequest::about_rule(Command::Delete, rule))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes `rule`, unless its location has another rule by now.
fn remove(device: &impl Device, rule: &FlowSpec) -> io::Result<()> {
    let mut request = RuleRequest::about_rule(Command::Get, *rule);
    match device.call(&mut request) {
        Ok(()) if request.rule.is_same(rule) => {
            device.call(&mut RuleRequest::about_rule(Command::Delete, *rule))
        }
        Ok(()) => Ok(()),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            // The rule is gone: another program removed it, or the device was reset.
            Some(Errno::EINVAL | Errno::ENOENT) => Ok(()),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;

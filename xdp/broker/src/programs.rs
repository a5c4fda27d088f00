// SPDX-License-Identifier: MIT OR Apache-2.0
//! The XDP programs that the broker keeps attached.
//!
//! Many cards reset when a program is attached or detached, which a client could cause at will. So
//! a program stays for some time after its last grant. That is no time at first, and twice as long
//! each time that it is attached again. It is no time, too, while a former client keeps a queue in
//! zero-copy mode, which drivers take back without a program. In: opened leases. Out: the programs
//! with their counters. Caller: `grants.rs`. Bounds: one program for each interface, kept for
//! [`KEEP_MAX`] at most, or as long as endpoints of other processes have ports in it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ofi_xdp_datapath::Redirect;

/// Time that a program is kept when it was attached for the second time.
const KEEP_MIN: Duration = Duration::from_secs(1);
/// Longest time that an unused program is kept.
const KEEP_MAX: Duration = Duration::from_secs(600);

/// The times of one interface's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeepTime {
    /// Time that the program is kept without a grant.
    keep: Duration,
    /// Time of the last use.
    used: Instant,
}

impl KeepTime {
    /// The times of a program that is attached at `time`. `former` are those of the last one.
    fn attached(former: Option<Self>, time: Instant) -> Self {
        let keep = former.map_or(Duration::ZERO, |former| (former.keep * 2).max(KEEP_MIN));
        Self { keep: keep.min(KEEP_MAX), used: time }
    }

    /// Whether an unused program is detached at `time`.
    fn is_over(self, time: Instant) -> bool {
        time.duration_since(self.used) >= self.keep
    }

    /// Whether a detached program is forgotten at `time`, and the next one begins anew.
    fn is_forgotten(self, time: Instant) -> bool {
        time.duration_since(self.used) >= self.keep + KEEP_MAX
    }
}

/// The programs by the index of their interface.
#[derive(Debug, Default)]
pub(crate) struct Programs(HashMap<u32, (KeepTime, Option<Redirect>)>);

impl Programs {
    /// Records that a lease on `interface` has attached `program`, or joined it. A former program
    /// is dropped: its device has gone to another namespace, and this one has got its index.
    pub(crate) fn opened(&mut self, interface: u32, program: &Redirect, time: Instant) {
        match self.0.get_mut(&interface) {
            Some((times, Some(former))) if former.is(program) => times.used = time,
            former => {
                let times = KeepTime::attached(former.map(|former| former.0), time);
                self.0.insert(interface, (times, Some(program.clone())));
            }
        }
    }

    /// Drops programs that an administrator has detached.
    pub(crate) fn drop_detached(&mut self) {
        for (_, program) in self.0.values_mut() {
            if program.as_ref().is_some_and(|program| !program.is_attached().unwrap_or(false)) {
                *program = None;
            }
        }
    }

    /// Drops the programs that no grant has used for long enough (`is_used`, by interface), and
    /// those of interfaces that are not in this namespace any more (`exists`): the kernel leaves
    /// them attached to a device that goes to another one. A program that has ports stays: the
    /// claims of grants are gone, so these are of endpoints that have joined it without its link.
    /// An unused program is not kept where `is_abused`: a former client keeps a queue by it.
    pub(crate) fn tidy(
        &mut self,
        time: Instant,
        exists: impl Fn(u32) -> bool,
        (is_used, is_abused): (&dyn Fn(u32) -> bool, &dyn Fn(u32) -> bool),
    ) {
        self.0.retain(|interface, (times, program)| {
            if !exists(*interface) {
                return false;
            }
            let Some(attached) = program else { return !times.is_forgotten(time) };
            if is_used(*interface) {
                times.used = time;
            } else if is_abused(*interface) || (times.is_over(time) && !attached.has_ports()) {
                *program = None;
            }
            program.is_some() || !times.is_forgotten(time)
        });
    }

    /// The attached programs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Redirect)> {
        self.0.iter().filter_map(|(index, (_, program))| Some((*index, program.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_comes_and_goes_is_kept_for_a_growing_time() {
        #[expect(clippy::disallowed_methods, reason = "any time will do")]
        let mut time = Instant::now();
        let mut times = KeepTime::attached(None, time);
        assert!(times.is_over(time), "an only grant leaves nothing behind");
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            times = KeepTime::attached(Some(times), time);
            assert_eq!(times.keep, Duration::from_secs(seconds));
            assert!(!times.is_over(time));
            time += times.keep;
            assert!(times.is_over(time) && !times.is_forgotten(time));
        }
        assert!(times.is_forgotten(time + KEEP_MAX));
    }
}

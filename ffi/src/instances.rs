// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fabrics and domains that are open, for `fi_getinfo`, which tells of them (`fi_fabric(3)`,
//! `fi_domain(3)`): components of one process that know nothing of each other share them so.
//!
//! In: whatever `fid` opens and closes. Out: C's pointers, which are compared and handed out and
//! never followed, so that one that is stale does no harm. Who gets one sees to it that nobody
//! closes it meanwhile, as the man pages say. Bounds: what the application has open.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::info::{Info, Request};
use crate::mr::MrMode;
use crate::provider;

/// What an open fabric or domain is called, and how it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The address of our fabric: what is on one fabric has it in common.
    pub(crate) fabric: usize,
    /// The fabric's name; none: any.
    pub(crate) network: Option<String>,
    /// The domain's name; none: it is a fabric.
    pub(crate) interface: Option<String>,
    /// The interface version that the fabric was opened with, which says how long the structures
    /// are that an application passes.
    pub(crate) api_version: u32,
    /// How a domain's memory regions are called by peers.
    pub(crate) mr_mode: MrMode,
}

/// An open fabric or domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Instance {
    /// C's pointer to it, exposed.
    fid: usize,
    /// Of the process that opened it: a fork may not use what its parent has opened.
    generation: u32,
    place: Place,
}

static OPEN: Mutex<Vec<Instance>> = Mutex::new(Vec::new());

impl Instance {
    /// Whether an offer is on it.
    pub(crate) fn admits(&self, info: &Info) -> bool {
        let named = |name: &Option<String>, of: &str| {
            name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(of))
        };
        named(&self.place.network, &info.fabric_name)
            && named(&self.place.interface, &info.domain_name)
    }

    /// Whether it is a domain, not a fabric.
    pub(crate) const fn is_domain(&self) -> bool {
        self.place.interface.is_some()
    }
}

/// Notes what was opened as `fid`.
pub(crate) fn add(fid: usize, place: Place) {
    open().push(Instance { fid, generation: provider::generation(), place });
}

/// Forgets what is closed.
pub(crate) fn remove(fid: usize) {
    open().retain(|it| it.fid != fid);
}

/// The fabric or domain behind a pointer of C's, if it is one of ours that is open.
pub(crate) fn find(fid: usize) -> Option<Instance> {
    open().iter().find(|it| it.fid == fid && it.generation == provider::generation()).cloned()
}

/// Puts into an offer the fabric and the domain that the hints name, or else the first ones that
/// are open and that an application of this version could have opened from the offer.
pub(crate) fn refer(hints: Option<&Request>, api_version: u32, info: &mut Info) {
    let all = open();
    let ours = || all.iter().filter(|it| it.generation == provider::generation());
    let (fabric, domain) = hints
        .map_or((None, None), |hints| (hints.open_fabric.as_ref(), hints.open_domain.as_ref()));
    let fabric = fabric.or_else(|| {
        ours().filter(|it| !it.is_domain()).find(|it| match domain {
            Some(domain) => it.place.fabric == domain.place.fabric,
            None => it.place.api_version == api_version && it.admits(info),
        })
    });
    let mr_mode = MrMode::from_bits(info.domain.mr_mode.cast_unsigned());
    let domain = domain.or_else(|| {
        ours().filter(|it| it.is_domain()).find(|it| {
            fabric.is_some_and(|fabric| fabric.place.fabric == it.place.fabric)
                && it.place.mr_mode == mr_mode
                && it.admits(info)
        })
    });
    info.fabric = pointer(fabric);
    info.domain.domain = pointer(domain);
}

fn pointer<T>(instance: Option<&Instance>) -> *mut T {
    instance.map_or(std::ptr::null_mut(), |it| std::ptr::with_exposed_provenance_mut(it.fid))
}

// What the lock protects is a list, consistent at all times.
fn open() -> MutexGuard<'static, Vec<Instance>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

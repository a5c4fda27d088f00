// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open fabrics and domains, which `fi_getinfo` reports (`fi_fabric(3)`, `fi_domain(3)`): so
//! independent components of a process share them. And the open passive endpoints, which hints may
//! name.
//!
//! In: objects that `c_api::object` opens and closes. Out: C's pointers. They are compared and
//! returned, never dereferenced, so a stale one does no harm. The man pages make the application
//! responsible for not closing an object in use. Bound: the application's open objects.

use ofi_xdp_datapath::fork::ProcessList;

use crate::getinfo::mr_mode::MrMode;
use crate::sys::{abi, process};

/// The names of an open fabric or domain, and the properties that it was opened with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OpenObject {
    /// The address of the fabric object, by which a domain names its fabric.
    pub(crate) fabric: usize,
    /// The fabric's name; `None`: any.
    pub(crate) network: Option<String>,
    /// The domain's name; `None`: the object is a fabric.
    pub(crate) interface: Option<String>,
    /// The interface version that the fabric was opened with. It decides the length of the
    /// structures that the application passes.
    pub(crate) api_version: u32,
    /// The registration mode of a domain.
    pub(crate) mr_mode: MrMode,
}

/// An open fabric or domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OpenHandle {
    /// C's pointer to it, exposed.
    fid: usize,
    /// Fork generation of the process that opened it: a child may not use objects of its parent.
    generation: u32,
    object: OpenObject,
}

/// The properties of an offer that decide which open objects it can refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfferKey<'a> {
    /// The interface version that the application is written for.
    pub(crate) api_version: u32,
    /// The fabric's name.
    pub(crate) fabric_name: &'a str,
    /// The domain's name.
    pub(crate) domain_name: &'a str,
    /// The registration mode.
    pub(crate) mr_mode: MrMode,
}

static OPEN: ProcessList<OpenHandle> = ProcessList::new();
/// C's pointers to the open passive endpoints.
static PASSIVE: ProcessList<usize> = ProcessList::new();

impl OpenHandle {
    /// Whether an offer with these names belongs to it.
    pub(crate) fn admits(&self, fabric_name: &str, domain_name: &str) -> bool {
        let named = |name: &Option<String>, of: &str| {
            name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(of))
        };
        named(&self.object.network, fabric_name) && named(&self.object.interface, domain_name)
    }

    /// Whether it is a domain, not a fabric.
    pub(crate) const fn is_domain(&self) -> bool {
        self.object.interface.is_some()
    }
}

/// Adds an object that was opened as `fid`.
pub(crate) fn add(fid: usize, object: OpenObject) {
    OPEN.lock().push(OpenHandle { fid, generation: process::generation(), object });
}

/// Removes a closed object.
pub(crate) fn remove(fid: usize) {
    OPEN.lock().retain(|it| it.fid != fid);
}

/// The open fabric or domain of this provider with this C pointer.
pub(crate) fn find(fid: usize) -> Option<OpenHandle> {
    OPEN.lock().iter().find(|it| it.fid == fid && it.generation == process::generation()).cloned()
}

/// Adds a passive endpoint that was opened as `fid`.
pub(crate) fn add_passive(fid: usize) {
    PASSIVE.lock().push(fid);
}

/// Removes a passive endpoint, which closes.
pub(crate) fn remove_passive(fid: usize) {
    PASSIVE.lock().retain(|&it| it != fid);
}

/// Whether this is C's pointer to a passive endpoint of this provider.
pub(crate) fn is_passive(fid: usize) -> bool {
    PASSIVE.lock().contains(&fid)
}

/// The fabric and the domain to put into an offer, as C's pointers. They are those that the hints
/// name (`fabric`, `domain`). Else they are the first open ones from which an application of this
/// version could have opened the offer. NULL means that there is none.
pub(crate) fn for_offer(
    fabric: Option<&OpenHandle>,
    domain: Option<&OpenHandle>,
    offer: &OfferKey<'_>,
) -> (*mut abi::fid_fabric, *mut abi::fid_domain) {
    let all = OPEN.lock();
    let ours = || all.iter().filter(|it| it.generation == process::generation());
    let fits = |it: &OpenHandle| it.admits(offer.fabric_name, offer.domain_name);
    let fabric = fabric.or_else(|| {
        ours().filter(|it| !it.is_domain()).find(|it| match domain {
            Some(domain) => it.object.fabric == domain.object.fabric,
            None => it.object.api_version == offer.api_version && fits(it),
        })
    });
    let domain = domain.or_else(|| {
        ours().filter(|it| it.is_domain()).find(|it| {
            fabric.is_some_and(|fabric| fabric.object.fabric == it.object.fabric)
                && it.object.mr_mode == offer.mr_mode
                && fits(it)
        })
    });
    (pointer(fabric), pointer(domain))
}

fn pointer<T>(handle: Option<&OpenHandle>) -> *mut T {
    handle.map_or(std::ptr::null_mut(), |it| std::ptr::with_exposed_provenance_mut(it.fid))
}

/// Makes the lists usable in the child of a fork. Called before any other code there.
pub(crate) fn unlock_in_child() {
    drop(OPEN.unlock_in_child());
    drop(PASSIVE.unlock_in_child());
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offers of hardware providers, with the names that the application sees; and the opening of
//! their fabrics.
//!
//! In: an application's `fi_getinfo` and `fi_fabric`. Out: the `fi_info` of hardware providers with
//! changed names (`hardware` has the rules), and their own objects. The queries go through
//! libfabric's public `fi_getinfo`, so its filters, utility providers and hooks apply. A query that
//! comes back to this provider meanwhile is answered without passthrough. An offered `fi_info`
//! belongs to the application. No other state is kept: later calls read the `fi_info` that the
//! application returns. Bound: the offers of the providers.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::info_list::{InfoList, OwnedNames};
use super::table_copy;
use crate::c_api::{info, text};
use crate::getinfo::hardware::{self, Filter, Names, ProviderQueries, ProviderRoute};
use crate::getinfo::open_objects;
use crate::sys::abi::running::{self, InfoQuery};
use crate::sys::abi::{self, fi_fabric_attr, fi_info, fid_fabric};
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;
use crate::sys::tier::Choice;
use crate::sys::{notice, param};

use super::interface_list::InterfaceList;

/// libfabric's internal flag of `fi_getinfo`: include providers that `FI_PROVIDER` hides (`ofi.h`).
const GETINFO_HIDDEN: u64 = 1 << 60;

thread_local! {
    /// The query that this thread has under way.
    static ASKING: Cell<Asking> = const { Cell::new(Asking::None) };
}

/// The own query under way. It comes back to this provider if the queried one queries others.
#[derive(Clone, Copy)]
enum Asking {
    None,
    /// To a hardware provider: no other one is queried meanwhile.
    Hardware,
    /// To a utility provider over this one, for the hardware provider at this index of the list,
    /// which is queried when the query comes back.
    Over(usize),
}

impl Asking {
    /// Marks the query as under way while the result lives.
    fn begin(self) -> Until {
        Until(ASKING.replace(self))
    }
}

/// Restores the previous state.
struct Until(Asking);

impl Drop for Until {
    fn drop(&mut self) {
        ASKING.set(self.0);
    }
}

/// The offers of hardware providers, and the reasons why there are no more, as text.
#[derive(Default)]
pub(in crate::c_api) struct Offers {
    list: InfoList,
    domains: Vec<String>,
    why_not_more: Vec<String>,
}

impl Offers {
    /// A line of `fi_info -v`.
    pub(in crate::c_api) fn summary(&self) -> String {
        let mut text = match &*self.domains {
            [] => "no passthrough".to_owned(),
            domains => format!("passthrough: offered as {}", domains.join(", ")),
        };
        for (index, reason) in self.why_not_more.iter().enumerate() {
            text += if index == 0 { ": " } else { "; " };
            text += reason;
        }
        text
    }

    /// Reports the absence of hardware if `FI_XDP_TIER` admits nothing else, and if this is the
    /// answer to an application, not to a query of this provider's own. `error` is that of the
    /// query.
    pub(in crate::c_api) fn report_absence(&self, error: Error) {
        let alone = param::values().is_ok_and(|values| values.tier == Choice::Passthrough);
        if alone && error == Error::NoData && self.is_empty() && !self.why_not_more.is_empty() {
            notice::no_hardware(&self.summary());
        }
    }

    /// The list with `next` appended.
    pub(in crate::c_api) fn before(self, next: *mut fi_info) -> *mut fi_info {
        self.list.before(next)
    }

    /// Whether there is no offer.
    pub(in crate::c_api) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The offers of hardware providers for a query of an application, the best first.
///
/// # Errors
/// [`Error::NoMemory`]; [`Error::Invalid`] for a name in the hints that is not UTF-8.
///
/// # Safety
/// The contract of `fi_getinfo(3)`, for the strings of `query` and for `hints`.
pub(in crate::c_api) unsafe fn offers(
    query: InfoQuery,
    hints: Option<&fi_info>,
) -> Result<Offers, Error> {
    let mut offers = Offers::default();
    let mut values = param::values()?;
    match ASKING.get() {
        Asking::None => {}
        Asking::Hardware => return Ok(offers),
        Asking::Over(index) => values.passthrough = values.passthrough.only(index),
    }
    let _asking = Asking::Hardware.begin();
    // SAFETY: promised by the caller.
    if hints.is_some_and(|hints| unsafe { names_own_object(hints) }) {
        offers.why_not_more.push("the hints name an open object of another tier".to_owned());
        return Ok(offers);
    }
    let wanted = match hints {
        // SAFETY: promised by the caller.
        Some(hints) => unsafe { OwnedNames::of(hints) }?,
        None => OwnedNames::default(),
    };
    let filter = Filter::parse(abi::provider_filter().as_deref());
    let ProviderQueries { queries, skipped } = hardware::queries(
        values.tier,
        &values.passthrough,
        &filter,
        registered(),
        wanted.borrowed(),
    );
    offers.why_not_more = skipped;
    let interfaces = InterfaceList::of(values.interface.as_deref())?;
    let mut found = Found {
        filter: &filter,
        wanted: wanted.borrowed(),
        interfaces: interfaces.as_ref(),
        texts: Vec::new(),
        stranded: Vec::new(),
    };
    for one in queries {
        // SAFETY: promised by the caller.
        unsafe { found.ask(query, hints, &one, &mut offers) }?;
        let _over = Asking::Over(one.index).begin();
        for layers in std::mem::take(&mut found.stranded) {
            // SAFETY: as above.
            unsafe { found.ask(query, hints, &one.rerouted(&layers), &mut offers) }?;
        }
    }
    // SAFETY: promised by the caller.
    if let Some(domain) = hints.and_then(|hints| unsafe { hints.domain_attr.as_ref() }) {
        offers.list = offers.list.only_on(domain.domain);
    }
    offers.domains = offers.list.domains()?;
    log::info!(target: "core", "{}", offers.summary());
    Ok(offers)
}

/// Whether hints name an open fabric or domain of this provider.
///
/// # Safety
/// Those of [`offers`].
unsafe fn names_own_object(hints: &fi_info) -> bool {
    // SAFETY: promised by the caller.
    let (fabric, domain) = unsafe { info::open_objects(hints) };
    [fabric, domain].into_iter().any(|fid| open_objects::find(fid).is_some())
}

/// The names of the providers of the running libfabric, including hidden ones.
fn registered() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let (node, service) = (std::ptr::null(), std::ptr::null());
        let flags = abi::FI_PROV_ATTR_ONLY;
        let query = InfoQuery { api_version: abi::version(), node, service, flags };
        // SAFETY: no node, no service, no hints.
        let Ok(list) = (unsafe { running::getinfo(query, std::ptr::null()) }) else {
            return Vec::new();
        };
        // SAFETY: libfabric has made it for this call.
        let list = unsafe { InfoList::from_raw(list) };
        let mut names = Vec::new();
        let mut next = list.first();
        // SAFETY: elements of an owned list.
        while let Some(info) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            let found = unsafe { OwnedNames::of(info) }.ok();
            names.extend(found.and_then(|names| names.provider));
            next = info.next;
        }
        names
    })
}

/// The application's hints, with the provider's own names.
///
/// # Safety
/// Those of [`offers`].
unsafe fn hints_for(
    hints: Option<&fi_info>,
    to: &hardware::ProviderQuery,
) -> Result<OwnedInfo, Error> {
    let copied = match hints {
        // SAFETY: promised by the caller.
        Some(hints) => unsafe { running::duplicate_info(hints) },
        None => abi::allocate_info(),
    };
    // SAFETY: a copy made for this call.
    let mut inner = unsafe { OwnedInfo::from_raw(copied.ok_or(Error::NoMemory)?) };
    if hints.is_none() {
        // Missing hints accept every mode; zeros would accept none.
        inner.get_mut().mode = u64::MAX;
        // SAFETY: allocated with the copy, and owned by it.
        if let Some(domain) = unsafe { inner.get_mut().domain_attr.as_mut() } {
            domain.mode = u64::MAX;
            domain.mr_mode = (!(abi::FI_MR_BASIC | abi::FI_MR_SCALABLE)).cast_signed();
        }
    }
    if inner.get().fabric_attr.is_null() {
        // Hints may have no fabric attributes; an empty element provides its own.
        let spare = abi::allocate_info().ok_or(Error::NoMemory)?;
        // SAFETY: made for this call.
        let mut spare = unsafe { OwnedInfo::from_raw(spare) };
        std::mem::swap(&mut inner.get_mut().fabric_attr, &mut spare.get_mut().fabric_attr);
    }
    // SAFETY: present, and owned by the copy.
    if let Some(fabric) = unsafe { inner.get_mut().fabric_attr.as_mut() } {
        // The version in the hints is that of this provider.
        fabric.prov_version = 0;
    }
    inner.rename(Some(&to.provider), to.fabric.as_deref(), to.domain.as_deref())?;
    Ok(inner)
}

/// The conditions for an offer, and the offers found so far.
struct Found<'a> {
    filter: &'a Filter,
    wanted: Names<'a>,
    interfaces: Option<&'a InterfaceList>,
    /// The text of the offers so far, to skip duplicates.
    texts: Vec<String>,
    /// Layers that were offered over a hidden provider.
    stranded: Vec<String>,
}

impl Found<'_> {
    /// Queries a provider, and appends its wanted offers with changed names.
    ///
    /// # Safety
    /// Those of [`offers`].
    unsafe fn ask(
        &mut self,
        query: InfoQuery,
        hints: Option<&fi_info>,
        one: &hardware::ProviderQuery,
        offers: &mut Offers,
    ) -> Result<(), Error> {
        let bottom = one.provider.split(';').next().unwrap_or_default();
        let hidden = if self.filter.hides(bottom) { GETINFO_HIDDEN } else { 0 };
        let query = InfoQuery { flags: query.flags | hidden, ..query };
        // SAFETY: promised by the caller.
        let inner = unsafe { hints_for(hints, one) }?;
        // SAFETY: as above; the hints are initialised.
        let mut list = match unsafe { running::getinfo(query, inner.get()) } {
            // SAFETY: libfabric has made it for this call.
            Ok(list) => unsafe { InfoList::from_raw(list) },
            Err(errno) => {
                let why = abi::error_text(errno).to_string_lossy();
                offers.why_not_more.push(format!("{}: no offer ({why})", one.provider));
                return Ok(());
            }
        };
        while let Some(mut info) = list.pop() {
            if !self.shown(&mut info)? {
                continue;
            }
            // SAFETY: an owned element.
            let said = unsafe { running::text_of(info.get()) };
            if !self.texts.contains(&said) {
                self.texts.push(said);
                offers.list.push(info);
            }
        }
        Ok(())
    }

    /// Gives an offer the names that the application sees; returns whether it is wanted.
    fn shown(&mut self, info: &mut OwnedInfo) -> Result<bool, Error> {
        // SAFETY: an owned element, as libfabric made it.
        let own = unsafe { OwnedNames::of(info.get()) }?;
        let Some(provider) = own.provider.filter(|provider| !self.filter.excludes(provider)) else {
            return Ok(false);
        };
        if let Some(layers) = self.filter.stranded(&provider) {
            if !self.stranded.iter().any(|known| known == layers) {
                self.stranded.push(layers.to_owned());
            }
            return Ok(false);
        }
        // SAFETY: as above.
        if self.interfaces.is_some_and(|list| !unsafe { list.has(info.get()) }) {
            return Ok(false);
        }
        let fabric = ProviderRoute::shown(&provider, own.fabric.as_deref().unwrap_or_default());
        let domain = ProviderRoute::shown(&provider, own.domain.as_deref().unwrap_or_default());
        let is = |wanted: Option<&str>, name: &str| {
            wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        if !is(self.wanted.fabric, &fabric) || !is(self.wanted.domain, &domain) {
            return Ok(false);
        }
        // Without a provider's name libfabric puts the name of this one there; with a name it would
        // take this provider for a utility provider.
        info.rename(None, Some(&fabric), Some(&domain))?;
        Ok(true)
    }
}

/// `fi_fabric` for a name of [`offers`]; `None` for another name.
///
/// # Safety
/// The contract of `fi_fabric(3)`.
pub(in crate::c_api) unsafe fn open(
    attributes: &fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> Result<Option<()>, Error> {
    // SAFETY: promised by the caller: NULL or a string.
    let Some(name) = (unsafe { text(attributes.name) })? else { return Ok(None) };
    let providers = param::values()?.passthrough;
    let Some(name) = providers.split(&name) else { return Ok(None) };
    let filter = Filter::parse(abi::provider_filter().as_deref());
    let route = ProviderRoute::to(name.provider, &filter);
    let mut names = Texts::default();
    let mut inner = fi_fabric_attr {
        name: names.add(&route.own(name.own))?,
        prov_name: names.add(&route.provider)?,
        ..*attributes
    };
    // SAFETY: the attributes are a copy with other names, which live until the call returns.
    let status = unsafe { running::open_fabric(&raw mut inner, fabric, context) };
    if status != 0 {
        return Err(Error::Os(-status));
    }
    // SAFETY: the call above has written it.
    let opened = NonNull::new(unsafe { fabric.read() }).ok_or(Error::Internal)?;
    // SAFETY: the hardware provider's object, just opened.
    let adopted = unsafe { table_copy::adopt_fabric(opened) };
    if adopted.is_err() {
        // SAFETY: open, and not passed on.
        unsafe { table_copy::close(opened.as_ptr().cast()) };
    }
    adopted.map(Some)
}

/// Strings that live for a call.
#[derive(Default)]
struct Texts(Vec<std::ffi::CString>);

impl Texts {
    fn add(&mut self, text: &str) -> Result<*mut c_char, Error> {
        let text = std::ffi::CString::new(text).map_err(|_| Error::Invalid)?;
        // The text of a string does not move with its owner.
        let pointer = text.as_ptr().cast_mut();
        self.0.push(text);
        Ok(pointer)
    }
}

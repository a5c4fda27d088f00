// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passthrough at libfabric's border: what hardware providers offer, under names of ours, and
//! opened under their own.
//!
//! In: an application's `fi_getinfo` and `fi_fabric`. Out: the hardware provider's `fi_info`, in
//! which only the names are changed (`passthrough` has the rules), and its own objects. libfabric
//! is asked as an application asks it, so its filters, utility providers and hooks work as ever; a
//! question that comes back to this provider meanwhile is answered without passthrough. A `fi_info`
//! belongs to the application from the moment it is handed out. Nothing else is kept, and what is
//! read later is what the application hands back. Bounds: what the providers offer.

mod place;

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::infos::{List, One, OwnedNames};
use super::{interpose, text};
use crate::abi::library::{self, Question};
use crate::abi::{self, fi_fabric_attr, fi_info, fid_fabric};
use crate::errno::Error;
use crate::instances;
use crate::param;
use crate::passthrough::{self, Filter, Names, Plan, Route};

use place::Place;

/// libfabric's own flag for `fi_getinfo`: also providers that `FI_PROVIDER` hides (`ofi.h`).
const GETINFO_HIDDEN: u64 = 1 << 60;

thread_local! {
    /// Where this thread is.
    static ASKING: Cell<Asking> = const { Cell::new(Asking::Nobody) };
}

/// Questions of ours that are under way, which come back if a provider asks others.
#[derive(Clone, Copy)]
enum Asking {
    Nobody,
    /// A hardware provider: no other is asked meanwhile.
    Hardware,
    /// A utility provider over us, for the hardware provider at this place of the list: that one
    /// is asked when the question comes back.
    Over(usize),
}

impl Asking {
    /// For as long as the result lives.
    fn begin(self) -> Until {
        Until(ASKING.replace(self))
    }
}

/// Puts back what was before.
struct Until(Asking);

impl Drop for Until {
    fn drop(&mut self) {
        ASKING.set(self.0);
    }
}

/// What hardware providers offer, and why there is not more, for people.
#[derive(Default)]
pub(super) struct Offers {
    list: List,
    domains: Vec<String>,
    why_not_more: Vec<String>,
}

impl Offers {
    /// In a line of `fi_info -v`.
    pub(super) fn summary(&self) -> String {
        let mut text = match &*self.domains {
            [] => "no passthrough".to_owned(),
            domains => format!("passthrough: offered as {}", domains.join(", ")),
        };
        for (place, reason) in self.why_not_more.iter().enumerate() {
            text += if place == 0 { ": " } else { "; " };
            text += reason;
        }
        text
    }

    /// The list, and in front of its end `next`.
    pub(super) fn before(self, next: *mut fi_info) -> *mut fi_info {
        self.list.before(next)
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What hardware providers offer to an application's question, best first.
///
/// # Errors
/// [`Error::NoMemory`]; [`Error::Invalid`] for a name in the hints that is no text.
///
/// # Safety
/// The contract of `fi_getinfo(3)`, for the strings of `question` and for `hints`.
pub(super) unsafe fn offers(question: Question, hints: Option<&fi_info>) -> Result<Offers, Error> {
    let mut offers = Offers::default();
    let mut values = param::values();
    match ASKING.get() {
        Asking::Nobody => {}
        Asking::Hardware => return Ok(offers),
        Asking::Over(place) => values.passthrough = values.passthrough.only(place),
    }
    let _asking = Asking::Hardware.begin();
    // SAFETY: promised by the caller.
    if hints.is_some_and(|hints| unsafe { names_an_object_of_ours(hints) }) {
        offers.why_not_more.push("the hints name an open object of another tier".to_owned());
        return Ok(offers);
    }
    let wanted = match hints {
        // SAFETY: promised by the caller.
        Some(hints) => unsafe { OwnedNames::of(hints) }?,
        None => OwnedNames::default(),
    };
    let filter = Filter::parse(library::provider_filter().as_deref());
    let Plan { questions, skipped } = passthrough::plan(
        values.tier,
        &values.passthrough,
        &filter,
        registered(),
        wanted.borrowed(),
    );
    offers.why_not_more = skipped;
    let place = Place::of(values.interface.as_deref())?;
    let mut found = Found {
        filter: &filter,
        wanted: wanted.borrowed(),
        place: place.as_ref(),
        texts: Vec::new(),
        stranded: Vec::new(),
    };
    for one in questions {
        // SAFETY: promised by the caller.
        unsafe { found.ask(question, hints, &one, &mut offers) }?;
        let _over = Asking::Over(one.place).begin();
        for layers in std::mem::take(&mut found.stranded) {
            // SAFETY: as above.
            unsafe { found.ask(question, hints, &one.rerouted(&layers), &mut offers) }?;
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

/// Hints that name a fabric or a domain that is open and not passed through.
///
/// # Safety
/// As [`offers`].
unsafe fn names_an_object_of_ours(hints: &fi_info) -> bool {
    // SAFETY: promised by the caller.
    let (fabric, domain) = unsafe { super::info::open_objects(hints) };
    [fabric, domain].into_iter().any(|fid| instances::find(fid).is_some())
}

/// The names of the providers that the running libfabric has, hidden ones too.
fn registered() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let (node, service) = (std::ptr::null(), std::ptr::null());
        let flags = abi::FI_PROV_ATTR_ONLY;
        let question = Question { api_version: abi::version(), node, service, flags };
        // SAFETY: no node, no service, no hints.
        let Ok(list) = (unsafe { library::getinfo(question, std::ptr::null()) }) else {
            return Vec::new();
        };
        // SAFETY: libfabric has made it for us.
        let list = unsafe { List::from_raw(list) };
        let mut names = Vec::new();
        let mut next = list.first();
        // SAFETY: elements of a list of ours.
        while let Some(info) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            let found = unsafe { OwnedNames::of(info) }.ok();
            names.extend(found.and_then(|names| names.provider));
            next = info.next;
        }
        names
    })
}

/// The application's hints, with the names that the provider knows.
///
/// # Safety
/// As [`offers`].
unsafe fn hints_for(hints: Option<&fi_info>, to: &passthrough::Question) -> Result<One, Error> {
    let copied = match hints {
        // SAFETY: promised by the caller.
        Some(hints) => unsafe { library::duplicate(hints) },
        None => abi::allocate_info(),
    };
    // SAFETY: a copy made for us.
    let mut inner = unsafe { One::from_raw(copied.ok_or(Error::NoMemory)?) };
    if hints.is_none() {
        // No hints accept every mode; zeros would accept none.
        inner.get_mut().mode = u64::MAX;
        // SAFETY: allocated with it, and ours alone.
        if let Some(domain) = unsafe { inner.get_mut().domain_attr.as_mut() } {
            domain.mode = u64::MAX;
            domain.mr_mode = (!(abi::FI_MR_BASIC | abi::FI_MR_SCALABLE)).cast_signed();
        }
    }
    if inner.get().fabric_attr.is_null() {
        // Hints may have none; an empty element gives its own.
        let spare = abi::allocate_info().ok_or(Error::NoMemory)?;
        // SAFETY: made for us.
        let mut spare = unsafe { One::from_raw(spare) };
        std::mem::swap(&mut inner.get_mut().fabric_attr, &mut spare.get_mut().fabric_attr);
    }
    // SAFETY: there, and ours alone.
    if let Some(fabric) = unsafe { inner.get_mut().fabric_attr.as_mut() } {
        // The version hinted at is this provider's.
        fabric.prov_version = 0;
    }
    inner.rename(Some(&to.provider), to.fabric.as_deref(), to.domain.as_deref())?;
    Ok(inner)
}

/// What an offer must be, and what has been found of it.
struct Found<'a> {
    filter: &'a Filter,
    wanted: Names<'a>,
    place: Option<&'a Place>,
    /// What the offers so far say, so that nothing comes twice.
    texts: Vec<String>,
    /// Layers that were offered over what is hidden.
    stranded: Vec<String>,
}

impl Found<'_> {
    /// Asks a provider, and moves what is wanted of its list, renamed, behind the offers so far.
    ///
    /// # Safety
    /// As [`offers`].
    unsafe fn ask(
        &mut self,
        question: Question,
        hints: Option<&fi_info>,
        one: &passthrough::Question,
        offers: &mut Offers,
    ) -> Result<(), Error> {
        let bottom = one.provider.split(';').next().unwrap_or_default();
        let hidden = if self.filter.hides(bottom) { GETINFO_HIDDEN } else { 0 };
        let asked = Question { flags: question.flags | hidden, ..question };
        // SAFETY: promised by the caller.
        let inner = unsafe { hints_for(hints, one) }?;
        // SAFETY: as above; the hints are initialised.
        let mut list = match unsafe { library::getinfo(asked, inner.get()) } {
            // SAFETY: libfabric has made it for us.
            Ok(list) => unsafe { List::from_raw(list) },
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
            // SAFETY: an element of ours.
            let said = unsafe { library::text_of(info.get()) };
            if !self.texts.contains(&said) {
                self.texts.push(said);
                offers.list.push(info);
            }
        }
        Ok(())
    }

    /// Gives an offer the names that the application sees, if it is wanted.
    fn shown(&mut self, info: &mut One) -> Result<bool, Error> {
        // SAFETY: an element of ours, as libfabric made it.
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
        if self.place.is_some_and(|place| !unsafe { place.has(info.get()) }) {
            return Ok(false);
        }
        let fabric = Route::shown(&provider, own.fabric.as_deref().unwrap_or_default());
        let domain = Route::shown(&provider, own.domain.as_deref().unwrap_or_default());
        let is = |wanted: Option<&str>, name: &str| {
            wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        if !is(self.wanted.fabric, &fabric) || !is(self.wanted.domain, &domain) {
            return Ok(false);
        }
        // Without a provider's name libfabric puts ours there; with one it would take us for a
        // utility provider.
        info.rename(None, Some(&fabric), Some(&domain))?;
        Ok(true)
    }
}

/// `fi_fabric`, if the name is one that [`offers`] gave; `None` if it is not.
///
/// # Safety
/// The contract of `fi_fabric(3)`.
pub(super) unsafe fn open(
    attributes: &fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> Result<Option<()>, Error> {
    // SAFETY: promised by the caller: NULL or a string.
    let Some(name) = (unsafe { text(attributes.name) })? else { return Ok(None) };
    let providers = param::values().passthrough;
    let Some(name) = providers.split(&name) else { return Ok(None) };
    let filter = Filter::parse(library::provider_filter().as_deref());
    let route = Route::to(name.provider, &filter);
    let mut names = Texts::default();
    let mut inner = fi_fabric_attr {
        name: names.add(&route.own(name.own))?,
        prov_name: names.add(&route.provider)?,
        ..*attributes
    };
    // SAFETY: the attributes are a copy with other names, which are there until it returns.
    let status = unsafe { library::open_fabric(&raw mut inner, fabric, context) };
    if status != 0 {
        return Err(Error::Os(-status));
    }
    // SAFETY: the call above has written it.
    let opened = NonNull::new(unsafe { fabric.read() }).ok_or(Error::Internal)?;
    // SAFETY: the hardware provider's own, just opened.
    let adopted = unsafe { interpose::adopt_fabric(opened) };
    if adopted.is_err() {
        // SAFETY: open, and nobody has seen it.
        unsafe { interpose::close(opened.as_ptr().cast()) };
    }
    adopted.map(Some)
}

/// Strings for the time of a call.
#[derive(Default)]
struct Texts(Vec<std::ffi::CString>);

impl Texts {
    fn add(&mut self, text: &str) -> Result<*mut c_char, Error> {
        let text = std::ffi::CString::new(text).map_err(|_| Error::Invalid)?;
        // The string itself does not move with its owner.
        let pointer = text.as_ptr().cast_mut();
        self.0.push(text);
        Ok(pointer)
    }
}

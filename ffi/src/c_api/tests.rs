// SPDX-License-Identifier: MIT OR Apache-2.0
//! No slot of a table is NULL, each table has its size, and newer slots return an error.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

use super::unsupported::{self, ExportXpu, XpuContext};
use crate::c_api::object::Object;
use crate::endpoint::shared_rx::SharedRx;
use crate::endpoint::shared_tx::SharedTx;
use crate::endpoint::{Endpoint, Handle};
use crate::getinfo::InfoRequest;
use crate::objects::av::Av;
use crate::objects::cntr::Cntr;
use crate::objects::cq::{Cq, CqAttributes};
use crate::objects::domain::Domain;
use crate::objects::eq::Eq;
use crate::objects::fabric::Fabric;
use crate::objects::mr::{MemoryRegion, MrAttributes};
use crate::objects::poll_set::PollSet;
use crate::objects::wait_set::{WaitObject, WaitSet};
use crate::runtime::memory::Buffer;
use crate::sys::abi;

/// The words of a table: its size, then one function pointer for each slot.
///
/// # Safety
/// `table` is a table of ours.
unsafe fn words<'a, T>(table: *const T) -> &'a [usize] {
    let first = table.cast::<usize>();
    // SAFETY: promised: a table begins with its size.
    let size = unsafe { first.read() };
    assert_eq!(size % size_of::<usize>(), 0);
    assert!(size >= size_of::<T>() && size <= size_of::<T>() + size_of::<usize>());
    // SAFETY: a table is a `size_t` and function pointers, all of a word's size, without padding,
    // `size` bytes together; it is a static.
    unsafe { std::slice::from_raw_parts(first, size / size_of::<usize>()) }
}

#[track_caller]
fn assert_full<T>(table: *const T) {
    // SAFETY: the tests below pass tables of ours.
    let [_, slots @ ..] = (unsafe { words(table) }) else { panic!("a table without a size") };
    assert!(!slots.is_empty());
    for (index, slot) in slots.iter().enumerate() {
        assert_ne!(*slot, 0, "slot {index} is empty");
    }
}

/// The slot after a table of libfabric 2.6.
#[track_caller]
fn behind<T, F>(table: *const T) -> F {
    // SAFETY: the tests below pass tables of ours.
    assert!(size_of_val(unsafe { words(table) }) > size_of::<T>(), "there is none");
    // SAFETY: the table is longer than `T`.
    let slot = unsafe { table.add(1) };
    // SAFETY: as above; the tests name the slot's type.
    unsafe { slot.cast::<F>().read() }
}

/// Checks the tables of an object through its C structure.
macro_rules! assert_tables_full {
    ($object:expr, $($table:ident),*) => {{
        let object = $object;
        assert_full(object.fid.ops);
        $(assert_full(object.$table);)*
    }};
}

#[test]
fn tables_of_unsupported_operations_are_full() {
    assert_full(&super::rma::OPS);
    assert_full(&super::atomic::OPS);
    assert_full(&unsupported::COLLECTIVE);
}

/// The refused members of the tables in the files of this folder, each behind the file's name.
fn refused_members() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/c_api");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = BTreeSet::new();
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "unsupported" || name == "tests" {
            continue;
        }
        for before in std::fs::read_to_string(&file).unwrap().split(": slot()") {
            let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
            let member = before.rsplit(|letter| !is_of_name(letter)).next().unwrap();
            found.insert(format!("{name} {member}"));
        }
        // Behind the last one is the rest of the file.
        let _ = found.remove(&format!("{name} "));
    }
    found
}

/// The names in `docs/ENTRY-POINTS.md`, as [`refused_members`] has them.
fn documented_members() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/ENTRY-POINTS.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut found = BTreeSet::new();
    for item in text.split("\n* ").skip(1) {
        let item = item.split("\n\n").next().unwrap();
        let (objects, members) = item.split_once(':').unwrap();
        let quoted = |text: &str| -> Vec<String> {
            text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        for object in quoted(objects) {
            found.extend(quoted(members).iter().map(|member| format!("{object} {member}")));
        }
    }
    found
}

#[test]
fn every_refused_entry_point_is_documented() {
    assert_eq!(refused_members(), documented_members());
}

/// The C structure of an object.
fn c<T: Object>(object: &T) -> T::C {
    let ops = std::ptr::from_ref(T::fid_ops()).cast_mut();
    let fclass = T::CLASS as usize;
    object.c_object(abi::fid { fclass, context: null_mut(), ops })
}

fn loopback() -> InfoRequest {
    InfoRequest { source: "127.0.0.1:0".parse().ok(), ..InfoRequest::default() }
}

fn fabric() -> Arc<Fabric> {
    Fabric::open(None, abi::make_version(1, 17)).unwrap()
}

/// libfabric's headers after 2.6 call these slots without a check of the table's size.
#[test]
fn slots_behind_the_tables_of_2_6_refuse() {
    const REFUSED: c_int = -abi::FI_ENOSYS.cast_signed();

    /// The result of the slot that exports an object with the structure `F` to a device.
    fn export<F, T>(table: *const T) -> c_int {
        let slot: ExportXpu<F> = behind(table);
        // SAFETY: the slot returns an error, and reads no argument.
        unsafe { slot.unwrap()(null_mut(), 0, null_mut()) }
    }

    let domain = Domain::open(&fabric(), &loopback()).unwrap();
    let context: XpuContext = behind(c(&*domain).ops);
    // SAFETY: the slot returns an error, and reads no argument.
    let answer = unsafe { context.unwrap()(null_mut(), null_mut(), null_mut(), null_mut()) };
    assert_eq!(answer, REFUSED);
    let endpoint = Endpoint::open(&domain, &loopback(), Handle::None).unwrap();
    assert_eq!(export::<abi::fid_ep, _>(c(&*endpoint).ops), REFUSED);
    let receives = SharedRx::open(&domain, None).unwrap();
    assert_eq!(export::<abi::fid_ep, _>(c(&*receives).ops), REFUSED);
    let transmits = SharedTx::open(&domain, None).unwrap();
    assert_eq!(export::<abi::fid_ep, _>(c(&*transmits).ops), REFUSED);
    let queue = Cq::open(&domain, CqAttributes::default()).unwrap();
    assert_eq!(export::<abi::fid_cq, _>(c(&*queue).ops), REFUSED);
    let counter = Cntr::open(&domain, WaitObject::None).unwrap();
    assert_eq!(export::<abi::fid_cntr, _>(c(&*counter).ops), REFUSED);
}

#[test]
fn tables_of_every_object_are_full() {
    let fabric = fabric();
    let domain = Domain::open(&fabric, &loopback()).unwrap();
    assert_tables_full!(c(&*fabric), ops);
    assert_tables_full!(c(&*domain), ops, mr);
    assert_tables_full!(c(&*Eq::open(&fabric, Default::default()).unwrap()), ops);
    assert_tables_full!(c(&*Av::open(&domain, &Default::default()).unwrap()), ops);
    assert_tables_full!(c(&*Cq::open(&domain, CqAttributes::default()).unwrap()), ops);
    assert_tables_full!(c(&*WaitSet::open(&fabric, abi::FI_WAIT_UNSPEC).unwrap()), ops);
    assert_tables_full!(c(&*PollSet::open(&domain)), ops);
    let region = MrAttributes {
        buffer: Buffer::EMPTY,
        access: abi::bits::SEND,
        offset: 0,
        requested_key: 7,
    };
    assert_tables_full!(c(&*MemoryRegion::register(&domain, region).unwrap()),);
    assert_tables_full!(c(&*SharedTx::open(&domain, None).unwrap()), ops);
    let shared = SharedRx::open(&domain, None).unwrap();
    assert_tables_full!(c(&*shared), ops, cm, msg, rma, tagged, atomic, collective);
    assert_tables_full!(c(&*Cntr::open(&domain, WaitObject::None).unwrap()), ops);
    let endpoint = Endpoint::open(&domain, &loopback(), Handle::None).unwrap();
    assert_tables_full!(c(&*endpoint), ops, cm, msg, rma, tagged, atomic, collective);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! No slot of any table is empty, and each table says how long it is.

use super::unsupported;
use crate::abi;

/// The words of a table: its size, then one function pointer for each slot.
fn words<T>(table: &T) -> &[usize] {
    assert_eq!(size_of::<T>() % size_of::<usize>(), 0);
    let first = std::ptr::from_ref(table).cast::<usize>();
    // SAFETY: a table is a `size_t` and function pointers, all of a word's size, without padding;
    // it is borrowed as long as the slice.
    unsafe { std::slice::from_raw_parts(first, size_of::<T>() / size_of::<usize>()) }
}

#[track_caller]
fn assert_full<T>(table: &T) {
    let [size, slots @ ..] = words(table) else { panic!("a table without a size") };
    assert_eq!(*size, size_of::<T>());
    assert!(!slots.is_empty());
    for (index, slot) in slots.iter().enumerate() {
        assert_ne!(*slot, 0, "slot {index} is empty");
    }
}

/// The tables behind an object's structure, found as C finds them.
macro_rules! assert_tables_full {
    ($object:expr, $($table:ident),*) => {{
        let object = $object;
        // SAFETY: `fi_ops` of an object of ours is a static.
        assert_full(unsafe { &*object.fid.ops });
        // SAFETY: so are its other tables.
        $(assert_full(unsafe { &*object.$table });)*
    }};
}

#[test]
fn tables_of_what_is_not_supported_are_full() {
    assert_full(&super::rma::OPS);
    assert_full(&super::atomic::OPS);
    assert_full(&unsupported::COLLECTIVE);
}

#[test]
fn tables_of_every_object_are_full() {
    use crate::cq::CqAttributes;
    use crate::fid::Object;
    use crate::info::Request;
    use crate::memory::Buffer;
    use crate::mr::MrAttributes;
    use crate::ops::{DomainOps, FabricOps};

    fn c<T: Object>(object: &T) -> T::C {
        let ops = std::ptr::from_ref(T::fid_ops()).cast_mut();
        let fclass = T::CLASS as usize;
        object.c_object(abi::fid { fclass, context: std::ptr::null_mut(), ops })
    }

    let loopback = Request { source: "127.0.0.1:0".parse().ok(), ..Request::default() };
    let fabric = crate::fabric::Fabric::open(None, abi::make_version(1, 17)).unwrap();
    let domain = fabric.domain(&loopback).unwrap();
    assert_tables_full!(c(&*fabric), ops);
    assert_tables_full!(c(&*domain), ops, mr);
    assert_tables_full!(c(&*fabric.event_queue(Default::default()).unwrap()), ops);
    assert_tables_full!(c(&*domain.address_vector(&Default::default()).unwrap()), ops);
    assert_tables_full!(c(&*domain.completion_queue(CqAttributes::default()).unwrap()), ops);
    assert_tables_full!(c(&*fabric.wait_set(abi::FI_WAIT_UNSPEC).unwrap()), ops);
    assert_tables_full!(c(&*domain.poll_set().unwrap()), ops);
    let region = MrAttributes {
        buffer: Buffer::EMPTY,
        access: abi::bits::SEND,
        offset: 0,
        requested_key: 7,
    };
    assert_tables_full!(c(&*domain.register(region).unwrap()),);
    assert_tables_full!(c(&*domain.shared_transmits(None).unwrap()), ops);
    let shared = domain.shared_receives(None).unwrap();
    assert_tables_full!(c(&*shared), ops, cm, msg, rma, tagged, atomic, collective);
    let endpoint = domain.endpoint(&loopback).unwrap();
    assert_tables_full!(c(&*endpoint), ops, cm, msg, rma, tagged, atomic, collective);
}

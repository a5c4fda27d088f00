// SPDX-License-Identifier: MIT OR Apache-2.0
//! The static inline functions of libfabric's headers.
//!
//! In: an open object and the arguments of the call. Out: the answer of the object's provider. The
//! body is the same for all: it calls a slot of a table of function pointers that the object has.
//! Names, order and types of the arguments are those of the C functions. C has one `fi_getname` for
//! both kinds of endpoints; passive endpoints have [`fi_getname_passive`] here.

/// Defines functions that call a slot of an object's table: `= table.slot`. A NULL slot answers
/// `-FI_ENOSYS`, or the value after `else`.
macro_rules! slots {
    ($(
        fn $name:ident($object:ident: *mut $kind:ty $(, $argument:ident: $type:ty)* $(,)?)
            -> $answer:ty = $table:ident.$slot:ident $(else $absent:expr)?;
    )*) => { $(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// The object is open: libfabric made it, and `fi_close` of it has not succeeded. The
        /// arguments are as the man page of the function demands.
        #[inline]
        pub unsafe fn $name($object: *mut $kind $(, $argument: $type)*) -> $answer {
            // SAFETY: the object is open (promised by the caller).
            let table = unsafe { (*$object).$table };
            // SAFETY: the tables of an open object stay in place until it is closed
            // (fi_provider(7)).
            match unsafe { (*table).$slot } {
                // SAFETY: the arguments are as the man page demands (promised by the caller).
                Some(slot) => unsafe { slot($object.cast() $(, $argument)*) },
                None => absent!($answer $(, $absent)?),
            }
        }
    )* };
}

/// The answer of a slot that is NULL.
macro_rules! absent {
    ($answer:ty) => {
        -($crate::bindings::FI_ENOSYS as $answer)
    };
    ($answer:ty, $absent:expr) => {
        $absent
    };
}

mod endpoint;
mod objects;
mod queues;
mod rma;

pub use endpoint::*;
pub use objects::*;
pub use queues::*;
pub use rma::*;

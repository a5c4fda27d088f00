// SPDX-License-Identifier: MIT OR Apache-2.0
//! One element of an atomic operation of a peer, on registered memory.
//!
//! In: the element's address and the operation. Out: its previous value. Called by
//! [`AppMemory`](super::AppMemory) for the engine. Bound: the element; one attempt more for each
//! concurrent change of it.
//!
//! `fi_atomic(3)` promises that each element is indivisible for other atomic operations on the
//! memory, on any endpoint. Aligned elements of up to 8 bytes are changed by the processor's
//! compare-and-exchange. So atomics of the application and of other processes see the old or the
//! new value. All other elements are changed under one lock of the process.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ofi_xdp_core::{AtomicOp, Datatype};

use super::Buffer;

/// Bytes of the longest element.
const ELEMENT_MAX: usize = 32;

/// The operation on one element.
pub(super) struct Step<'a> {
    pub(super) datatype: Datatype,
    pub(super) op: AtomicOp,
    /// One element; empty for a plain read.
    pub(super) operand: &'a [u8],
    /// One element, if the op compares.
    pub(super) compare: &'a [u8],
}

impl Step<'_> {
    fn apply<const N: usize>(&self, mut element: [u8; N]) -> [u8; N] {
        self.op.apply(self.datatype, &mut element, self.operand, self.compare);
        element
    }
}

macro_rules! exchange {
    ($name:ident, $atomic:ty, $int:ty) => {
        /// # Safety
        /// `at` is aligned for the integer, and may be read, and written unless the op is a read.
        unsafe fn $name(at: *mut u8, step: &Step<'_>) -> [u8; ELEMENT_MAX] {
            // SAFETY: aligned and valid (promised); concurrent accesses come from outside of Rust.
            let cell = unsafe { <$atomic>::from_ptr(at.cast()) };
            let found = if step.op == AtomicOp::Read {
                // No write at all: the memory may be read-only.
                cell.load(Ordering::Acquire)
            } else {
                let new = |old: $int| <$int>::from_ne_bytes(step.apply(old.to_ne_bytes()));
                cell.update(Ordering::AcqRel, Ordering::Acquire, new)
            };
            widen(&found.to_ne_bytes())
        }
    };
}

exchange!(exchange_1, AtomicU8, u8);
exchange!(exchange_2, AtomicU16, u16);
exchange!(exchange_4, AtomicU32, u32);
exchange!(exchange_8, AtomicU64, u64);

fn widen(bytes: &[u8]) -> [u8; ELEMENT_MAX] {
    let mut wide = [0; ELEMENT_MAX];
    wide.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from);
    wide
}

impl Buffer {
    /// Changes the element of `size` bytes at `offset` of registered memory; returns its previous
    /// value.
    pub(super) fn element(&self, offset: u64, size: usize, step: &Step<'_>) -> [u8; ELEMENT_MAX] {
        let first = self.parts(offset, size).next();
        let whole = first.filter(|part| part.len == size && part.base.addr().is_multiple_of(size));
        let exchange = match size {
            1 => exchange_1,
            2 => exchange_2,
            4 => exchange_4,
            8 => exchange_8,
            _ => return self.element_locked(offset, size, step),
        };
        match whole {
            // SAFETY: aligned (checked), and inside memory that is registered for this access:
            // the engine has checked rights and bounds, and `parts` cuts to the segments.
            Some(part) => unsafe { exchange(part.base, step) },
            None => self.element_locked(offset, size, step),
        }
    }

    fn element_locked(&self, offset: u64, size: usize, step: &Step<'_>) -> [u8; ELEMENT_MAX] {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = [0; ELEMENT_MAX];
        let Some(element) = found.get_mut(..size) else { return found };
        // SAFETY: memory that is registered for this access, as above.
        unsafe { self.read(offset, element) };
        if step.op != AtomicOp::Read {
            let mut changed = found;
            if let Some(element) = changed.get_mut(..size) {
                step.op.apply(step.datatype, element, step.operand, step.compare);
                // SAFETY: as above.
                unsafe { self.write(offset, element) };
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::abi::iovec;

    fn region(parts: &mut [&mut [u8]]) -> Buffer {
        let iov: Vec<iovec> = parts
            .iter_mut()
            .map(|part| iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
            .collect();
        Buffer::region(&iov).unwrap()
    }

    fn sum<'a>(datatype: Datatype, operand: &'a [u8]) -> Step<'a> {
        Step { datatype, op: AtomicOp::Sum, operand, compare: &[] }
    }

    #[test]
    fn elements_of_every_size_and_alignment_are_changed_and_returned() {
        let cases = [
            (Datatype::Uint8, 1),
            (Datatype::Uint16, 2),
            (Datatype::Uint32, 4),
            (Datatype::Uint64, 8),
            (Datatype::Uint128, 16),
        ];
        for (datatype, size) in cases {
            for offset in 0..9 {
                let mut bytes = [1_u8; 32];
                let buffer = region(&mut [&mut bytes]);
                let found = buffer.element(offset, size, &sum(datatype, &[2; 16][..size]));
                assert_eq!(found[..size], [1; 16][..size]);
                let at = offset as usize;
                assert!(bytes[at..at + size].iter().all(|&byte| byte == 3));
                assert_eq!(bytes.iter().filter(|&&byte| byte == 3).count(), size);
            }
        }
    }

    #[test]
    fn an_element_may_lie_in_two_segments() {
        let (mut a, mut b) = ([1_u8; 3], [1_u8; 5]);
        let buffer = region(&mut [&mut a, &mut b]);
        let found = buffer.element(0, 8, &sum(Datatype::Uint64, &[1; 8]));
        assert_eq!((found[..8].to_vec(), a, b), (vec![1; 8], [2; 3], [2; 5]));
    }

    #[test]
    fn adders_in_many_threads_lose_nothing() {
        let mut words = [0_u64; 3];
        let iov = iovec { iov_base: words.as_mut_ptr().cast(), iov_len: 24 };
        let buffer = Buffer::region(&[iov]).unwrap();
        let one = 1_u128.to_ne_bytes();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..1000 {
                        buffer.element(0, 8, &sum(Datatype::Uint64, &one[..8]));
                        buffer.element(8, 16, &sum(Datatype::Uint128, &one));
                    }
                });
            }
        });
        assert_eq!(words, [4000, 4000, 0]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic of atomic operations (`fi_atomic(3)`): libfabric's datatypes and ops, on plain bytes.
//!
//! In: one element of memory, an operand, a value to compare with. Out: the element's new value.
//! The owner of the memory makes each step indivisible. Elements are in the machine's byte order;
//! the protocol takes it to be little-endian on both sides. Bound: one pass over the elements.

mod element;
mod extended;
mod op;

use element::{Complex, each};
use extended::Extended;
pub use op::{AtomicForm, AtomicOp, Datatype};

impl AtomicOp {
    /// Replaces each element of `target` by the op's result. `operands` has as many bytes as
    /// `target` (none for [`AtomicOp::Read`]), and so has `compare` for comparing ops. Elements
    /// without an operand stay unchanged, and so do all if the op is not valid for the datatype.
    pub fn apply(self, datatype: Datatype, target: &mut [u8], operands: &[u8], compare: &[u8]) {
        let form = if self.compares() { AtomicForm::Compare } else { AtomicForm::Fetch };
        if !self.is_valid(form, datatype) {
            return;
        }
        match datatype {
            Datatype::Int8 => each::<i8, 1>(self, target, operands, compare),
            Datatype::Uint8 => each::<u8, 1>(self, target, operands, compare),
            Datatype::Int16 => each::<i16, 2>(self, target, operands, compare),
            Datatype::Uint16 => each::<u16, 2>(self, target, operands, compare),
            Datatype::Int32 => each::<i32, 4>(self, target, operands, compare),
            Datatype::Uint32 => each::<u32, 4>(self, target, operands, compare),
            Datatype::Int64 => each::<i64, 8>(self, target, operands, compare),
            Datatype::Uint64 => each::<u64, 8>(self, target, operands, compare),
            Datatype::Int128 => each::<i128, 16>(self, target, operands, compare),
            Datatype::Uint128 => each::<u128, 16>(self, target, operands, compare),
            Datatype::Float => each::<f32, 4>(self, target, operands, compare),
            Datatype::Double => each::<f64, 8>(self, target, operands, compare),
            Datatype::FloatComplex => each::<Complex<f32>, 8>(self, target, operands, compare),
            Datatype::DoubleComplex => each::<Complex<f64>, 16>(self, target, operands, compare),
            Datatype::LongDouble => each::<Extended, 16>(self, target, operands, compare),
            Datatype::LongDoubleComplex => {
                each::<Complex<Extended>, 32>(self, target, operands, compare);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn apply<const N: usize>(
        op: AtomicOp,
        datatype: Datatype,
        target: [u8; N],
        operand: [u8; N],
        compare: [u8; N],
    ) -> [u8; N] {
        let mut result = target;
        op.apply(datatype, &mut result, &operand, &compare);
        result
    }

    #[test]
    fn numbers_come_back_and_sizes_fit() {
        for datatype in Datatype::ALL {
            assert_eq!(Datatype::from_number(datatype as u8), Some(datatype));
        }
        for (number, op) in (0..).zip(AtomicOp::ALL) {
            assert_eq!((op as u8, AtomicOp::from_number(number)), (number, Some(op)));
        }
        assert_eq!(Datatype::from_number(16), None);
        assert_eq!(AtomicOp::from_number(19), None);
    }

    #[test]
    fn complex_numbers_multiply() {
        let bytes = |re: f32, im: f32| -> [u8; 8] { zerocopy::transmute!([re, im]) };
        let product =
            apply(AtomicOp::Prod, Datatype::FloatComplex, bytes(1.0, 2.0), bytes(3.0, 4.0), [0; 8]);
        assert_eq!(product, bytes(-5.0, 10.0));
    }

    proptest! {
        #[test]
        fn integers_follow_the_man_page(target: i32, operand: i32, compare: i32) {
            let run = |op| {
                let [t, o, c] = [target, operand, compare].map(i32::to_ne_bytes);
                i32::from_ne_bytes(apply(op, Datatype::Int32, t, o, c))
            };
            let when = |swaps: bool| if swaps { operand } else { target };
            prop_assert_eq!(run(AtomicOp::Sum), target.wrapping_add(operand));
            prop_assert_eq!(run(AtomicOp::Min), target.min(operand));
            prop_assert_eq!(run(AtomicOp::Bxor), target ^ operand);
            prop_assert_eq!(run(AtomicOp::Land), i32::from(target != 0 && operand != 0));
            prop_assert_eq!(run(AtomicOp::Read), target);
            prop_assert_eq!(run(AtomicOp::Write), operand);
            prop_assert_eq!(run(AtomicOp::Cswap), when(compare == target));
            prop_assert_eq!(run(AtomicOp::CswapLe), when(compare <= target));
            prop_assert_eq!(run(AtomicOp::CswapGt), when(compare > target));
            prop_assert_eq!(run(AtomicOp::Mswap), (target & !compare) | (operand & compare));
        }

        #[test]
        fn every_valid_combination_changes_whole_elements_only(
            target in prop::collection::vec(any::<u8>(), 40),
            operands in prop::collection::vec(any::<u8>(), 40),
            compare in prop::collection::vec(any::<u8>(), 40),
        ) {
            for datatype in Datatype::ALL {
                for op in AtomicOp::ALL {
                    let mut result: Vec<u8> = target.clone();
                    op.apply(datatype, &mut result, &operands, &compare);
                    let whole = 40 - 40 % datatype.size();
                    prop_assert_eq!(&result[whole..], &target[whole..]);
                    let forms = [AtomicForm::Base, AtomicForm::Fetch, AtomicForm::Compare];
                    if !forms.into_iter().any(|form| op.is_valid(form, datatype)) {
                        prop_assert_eq!(&result, &target, "{:?} on {:?}", op, datatype);
                    }
                }
            }
        }
    }
}

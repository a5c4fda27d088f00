// SPDX-License-Identifier: MIT OR Apache-2.0
//! What atomic operations compute (`fi_atomic(3)`): libfabric's datatypes and ops, on plain bytes.
//!
//! In: one element of memory, an operand, a value to compare with. Out: the element's new value.
//! Who holds the memory makes each step indivisible; this is the arithmetic, the same everywhere.
//! Elements are in the machine's byte order, which version 1 of the protocol takes to be
//! little-endian on both sides. Bound: one pass over the elements.

mod element;

use crate::AtomicForm;
use element::{Complex, each};

/// Type of an element; the numbers are libfabric's `enum fi_datatype`. `long double` is left out:
/// its layout differs between machines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Datatype {
    Int8 = 0,
    Uint8 = 1,
    Int16 = 2,
    Uint16 = 3,
    Int32 = 4,
    Uint32 = 5,
    Int64 = 6,
    Uint64 = 7,
    Float = 8,
    Double = 9,
    FloatComplex = 10,
    DoubleComplex = 11,
    Int128 = 14,
    Uint128 = 15,
}

impl Datatype {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float,
        Self::Double,
        Self::FloatComplex,
        Self::DoubleComplex,
        Self::Int128,
        Self::Uint128,
    ];

    /// The type that has this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&datatype| datatype as u8 == number)
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::DoubleComplex | Self::Int128 | Self::Uint128 => 16,
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::Float | Self::Double)
    }

    const fn is_complex(self) -> bool {
        matches!(self, Self::FloatComplex | Self::DoubleComplex)
    }
}

/// What is done to an element; the numbers are libfabric's `enum fi_op`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names, and fi_atomic(3), say it")]
pub enum AtomicOp {
    Min = 0,
    Max = 1,
    Sum = 2,
    Prod = 3,
    Lor = 4,
    Land = 5,
    Bor = 6,
    Band = 7,
    Lxor = 8,
    Bxor = 9,
    Read = 10,
    Write = 11,
    Cswap = 12,
    CswapNe = 13,
    CswapLe = 14,
    CswapLt = 15,
    CswapGe = 16,
    CswapGt = 17,
    Mswap = 18,
}

impl AtomicOp {
    /// All of them, by number.
    pub const ALL: [Self; 19] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Prod,
        Self::Lor,
        Self::Land,
        Self::Bor,
        Self::Band,
        Self::Lxor,
        Self::Bxor,
        Self::Read,
        Self::Write,
        Self::Cswap,
        Self::CswapNe,
        Self::CswapLe,
        Self::CswapLt,
        Self::CswapGe,
        Self::CswapGt,
        Self::Mswap,
    ];

    /// The op that has this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether it needs values to compare with.
    #[must_use]
    pub const fn compares(self) -> bool {
        self as u8 >= Self::Cswap as u8
    }

    /// Whether `form` of this op on `datatype` means anything (`fi_atomic(3)`, "Atomic
    /// Operations"): comparing ops go with [`AtomicForm::Compare`] and no others, reading is
    /// fetching, floating-point numbers have no bits, and complex ones no order.
    #[must_use]
    pub const fn is_valid(self, form: AtomicForm, datatype: Datatype) -> bool {
        let form_fits = match form {
            AtomicForm::Base => !self.compares() && !matches!(self, Self::Read),
            AtomicForm::Fetch => !self.compares(),
            AtomicForm::Compare => self.compares(),
        };
        let bits = matches!(self, Self::Bor | Self::Band | Self::Bxor | Self::Mswap);
        let order = matches!(
            self,
            Self::Min | Self::Max | Self::CswapLe | Self::CswapLt | Self::CswapGe | Self::CswapGt
        );
        let type_fits = !(bits && (datatype.is_float() || datatype.is_complex()))
            && !(order && datatype.is_complex());
        form_fits && type_fits
    }

    /// Replaces each element of `target` by the op's result. `operands` has as many bytes as
    /// `target` (none are looked at by [`AtomicOp::Read`]), `compare` likewise for comparing ops.
    /// What is too short is left alone; so is everything if the op is not valid for the datatype.
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
        assert_eq!(Datatype::from_number(12), None, "long double");
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

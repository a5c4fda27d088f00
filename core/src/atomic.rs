// SPDX-License-Identifier: MIT OR Apache-2.0
//! What atomic operations compute (`fi_atomic(3)`): libfabric's datatypes and ops, on plain bytes.
//!
//! In: one element of memory, an operand, a value to compare with. Out: the element's new value.
//! Who holds the memory makes each step indivisible; this is the arithmetic, the same everywhere.
//! Elements are in the machine's byte order, which version 1 of the protocol takes to be
//! little-endian on both sides. Bound: one pass over the elements.

use crate::AtomicForm;

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

fn each<T: Element<N>, const N: usize>(
    op: AtomicOp,
    target: &mut [u8],
    operands: &[u8],
    compare: &[u8],
) {
    let (elements, _) = target.as_chunks_mut::<N>();
    let at = |bytes: &[u8], index: usize| bytes.as_chunks::<N>().0.get(index).map(|b| T::load(*b));
    for (index, element) in elements.iter_mut().enumerate() {
        let Some(operand) = at(operands, index) else { return };
        let current = T::load(*element);
        let new = if op.compares() {
            let Some(compare) = at(compare, index) else { return };
            current.swap(op, operand, compare)
        } else {
            current.combine(op, operand)
        };
        if let Some(new) = new {
            *element = new.store();
        }
    }
}

/// One element: how it is stored and combined. `None`: the element stays as it is.
trait Element<const N: usize>: Copy + PartialEq + PartialOrd {
    fn load(bytes: [u8; N]) -> Self;
    fn store(self) -> [u8; N];
    fn combine(self, op: AtomicOp, operand: Self) -> Option<Self>;

    fn mask_swap(self, _operand: Self, _mask: Self) -> Option<Self> {
        None
    }

    /// `self` is the target's present value. A comparison reads "compare op target".
    fn swap(self, op: AtomicOp, operand: Self, compare: Self) -> Option<Self> {
        let swaps = match op {
            AtomicOp::Cswap => compare == self,
            AtomicOp::CswapNe => compare != self,
            AtomicOp::CswapLe => compare <= self,
            AtomicOp::CswapLt => compare < self,
            AtomicOp::CswapGe => compare >= self,
            AtomicOp::CswapGt => compare > self,
            AtomicOp::Mswap => return self.mask_swap(operand, compare),
            _ => false,
        };
        swaps.then_some(operand)
    }
}

macro_rules! integer {
    ($($int:ty),*) => {$(
        impl Element<{ size_of::<$int>() }> for $int {
            fn load(bytes: [u8; size_of::<$int>()]) -> Self {
                Self::from_ne_bytes(bytes)
            }

            fn store(self) -> [u8; size_of::<$int>()] {
                self.to_ne_bytes()
            }

            fn mask_swap(self, operand: Self, mask: Self) -> Option<Self> {
                Some((self & !mask) | (operand & mask))
            }

            fn combine(self, op: AtomicOp, operand: Self) -> Option<Self> {
                let (a, b) = (self != 0, operand != 0);
                Some(match op {
                    AtomicOp::Min => self.min(operand),
                    AtomicOp::Max => self.max(operand),
                    AtomicOp::Sum => self.wrapping_add(operand),
                    AtomicOp::Prod => self.wrapping_mul(operand),
                    AtomicOp::Lor => Self::from(a || b),
                    AtomicOp::Land => Self::from(a && b),
                    AtomicOp::Lxor => Self::from(a != b),
                    AtomicOp::Bor => self | operand,
                    AtomicOp::Band => self & operand,
                    AtomicOp::Bxor => self ^ operand,
                    AtomicOp::Write => operand,
                    _ => return None,
                })
            }
        }
    )*};
}

integer!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! float {
    ($($float:ty),*) => {$(
        impl Element<{ size_of::<$float>() }> for $float {
            fn load(bytes: [u8; size_of::<$float>()]) -> Self {
                Self::from_ne_bytes(bytes)
            }

            fn store(self) -> [u8; size_of::<$float>()] {
                self.to_ne_bytes()
            }

            fn combine(self, op: AtomicOp, operand: Self) -> Option<Self> {
                let (a, b) = (self != 0.0, operand != 0.0);
                let truth = |value: bool| if value { 1.0 } else { 0.0 };
                Some(match op {
                    AtomicOp::Min => self.min(operand),
                    AtomicOp::Max => self.max(operand),
                    AtomicOp::Sum => self + operand,
                    AtomicOp::Prod => self * operand,
                    AtomicOp::Lor => truth(a || b),
                    AtomicOp::Land => truth(a && b),
                    AtomicOp::Lxor => truth(a != b),
                    AtomicOp::Write => operand,
                    _ => return None,
                })
            }
        }

        impl Element<{ 2 * size_of::<$float>() }> for Complex<$float> {
            fn load(bytes: [u8; 2 * size_of::<$float>()]) -> Self {
                let [re, im] = zerocopy::transmute!(bytes);
                Self { re, im }
            }

            fn store(self) -> [u8; 2 * size_of::<$float>()] {
                zerocopy::transmute!([self.re, self.im])
            }

            fn combine(self, op: AtomicOp, operand: Self) -> Option<Self> {
                let zero = Self { re: 0.0, im: 0.0 };
                let (a, b) = (self != zero, operand != zero);
                let truth = |value: bool| Self { re: if value { 1.0 } else { 0.0 }, im: 0.0 };
                Some(match op {
                    AtomicOp::Sum => Self { re: self.re + operand.re, im: self.im + operand.im },
                    AtomicOp::Prod => Self {
                        re: self.re * operand.re - self.im * operand.im,
                        im: self.re * operand.im + self.im * operand.re,
                    },
                    AtomicOp::Lor => truth(a || b),
                    AtomicOp::Land => truth(a && b),
                    AtomicOp::Lxor => truth(a != b),
                    AtomicOp::Write => operand,
                    _ => return None,
                })
            }
        }
    )*};
}

float!(f32, f64);

/// A complex number as C lays it out.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Complex<T> {
    re: T,
    im: T,
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

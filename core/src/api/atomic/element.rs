// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of one element, type by type: integers, floating point, complex numbers.
//!
//! In: bytes of the target and the operands, as they lie in memory. Out: the target's new bytes.
//! Called by [`AtomicOp::apply`]. Bound: one pass over the elements.

use super::op::AtomicOp;

/// Replaces each element of `target` by the op's result.
pub(super) fn each<T: Element<N>, const N: usize>(
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
pub(super) trait Element<const N: usize>: Copy + PartialEq + PartialOrd {
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
                    // A comparison with no number is false, so the target stays (fi_atomic(3)).
                    AtomicOp::Min => if operand < self { operand } else { self },
                    AtomicOp::Max => if operand > self { operand } else { self },
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
pub(super) struct Complex<T> {
    pub(super) re: T,
    pub(super) im: T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stay_beside_what_is_no_number_and_beside_the_other_zero() {
        for op in [AtomicOp::Min, AtomicOp::Max] {
            for (target, operand) in [(f64::NAN, 1.0), (1.0, f64::NAN), (0.0, -0.0), (-0.0, 0.0)] {
                let kept = target.combine(op, operand).unwrap();
                assert_eq!(kept.to_bits(), target.to_bits(), "{op:?} of {target} and {operand}");
            }
        }
        assert_eq!(3.0.combine(AtomicOp::Min, 2.0), Some(2.0));
        assert_eq!(3.0_f32.combine(AtomicOp::Max, 4.0), Some(4.0));
    }
}

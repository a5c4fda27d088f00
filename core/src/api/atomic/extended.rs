// SPDX-License-Identifier: MIT OR Apache-2.0
//! `long double` of x86: the double-extended format in 16 bytes, its arithmetic by integers.
//!
//! Rust has no such type, and this crate has no `unsafe` for the processor's instructions. Sums and
//! products are those of the x87 unit in its usual state: 64 bits of significand, rounded to the
//! nearest, ties to even (IEEE 754, §4.3.1). The integer bit is explicit; encodings without it are
//! not numbers, as for the unit.
//!
//! In: the bytes of elements. Out: their new bytes. Called as the other elements. Bound: constant.

use core::cmp::Ordering;
use core::ops::{Add, Mul, Sub};

use super::element::{Complex, Element};
use super::op::AtomicOp;

/// Bytes of an element: 8 of significand, 2 of sign and exponent, 6 without a meaning.
const LEN: usize = 16;
/// The exponent of 1.
const BIAS: i32 = 16_383;
/// The exponent of infinities, and of all that is no number.
const EXPONENT_MAX: i32 = 0x7fff;
/// The bit of the significand before the point.
const INTEGER_BIT: u64 = 1 << 63;
/// The bit that tells a quiet NaN.
const QUIET_BIT: u64 = 1 << 62;

/// An element as it lies in memory. Equality and order are those of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extended {
    negative: bool,
    /// 15 bits.
    exponent: i32,
    significand: u64,
}

/// The value of an element.
enum Value {
    /// No number, with the significand of a quiet one.
    Nan(u64),
    Infinite,
    /// A multiple of two to this power.
    Finite(u64, i32),
}

impl Extended {
    const ONE: Self = Self { negative: false, exponent: BIAS, significand: INTEGER_BIT };
    /// The result of an operation that has none.
    const INDEFINITE: Self = Self::nan(true, INTEGER_BIT | QUIET_BIT);

    const fn nan(negative: bool, significand: u64) -> Self {
        Self { negative, exponent: EXPONENT_MAX, significand }
    }

    const fn infinite(negative: bool) -> Self {
        Self { negative, exponent: EXPONENT_MAX, significand: INTEGER_BIT }
    }

    const fn zero(negative: bool) -> Self {
        Self { negative, exponent: 0, significand: 0 }
    }

    const fn truth(value: bool) -> Self {
        if value { Self::ONE } else { Self::zero(false) }
    }

    const fn value(self) -> Value {
        let Self { exponent, significand, .. } = self;
        let has_integer_bit = significand & INTEGER_BIT != 0;
        match exponent {
            0 => Value::Finite(significand, 1 - BIAS - 63),
            _ if !has_integer_bit => Value::Nan(INTEGER_BIT | QUIET_BIT),
            EXPONENT_MAX if significand == INTEGER_BIT => Value::Infinite,
            EXPONENT_MAX => Value::Nan(significand | QUIET_BIT),
            _ => Value::Finite(significand, exponent - BIAS - 63),
        }
    }

    const fn is_zero(self) -> bool {
        matches!(self.value(), Value::Finite(0, _))
    }

    /// The element nearest to `magnitude` times two to the power of `exponent`. The lowest bit of
    /// `magnitude` also stands for any remainder below it.
    fn rounded(negative: bool, magnitude: u128, exponent: i32) -> Self {
        if magnitude == 0 {
            return Self::zero(negative);
        }
        let zeros = magnitude.leading_zeros();
        let mut magnitude = magnitude << zeros;
        // The upper half becomes the significand.
        let mut biased = exponent - zeros.cast_signed() + 64 + 63 + BIAS;
        if biased < 1 {
            magnitude = shifted(magnitude, biased.abs_diff(1));
            biased = 1;
        }
        let [mut significand, rest] = [(magnitude >> 64) as u64, magnitude as u64];
        let half = 1_u64 << 63;
        if rest > half || (rest == half && significand & 1 == 1) {
            significand = significand.wrapping_add(1);
            if significand == 0 {
                (significand, biased) = (INTEGER_BIT, biased + 1);
            }
        }
        if biased >= EXPONENT_MAX {
            return Self::infinite(negative);
        }
        // Below the least normal number the exponent is encoded as 0.
        let exponent = if significand & INTEGER_BIT == 0 { 0 } else { biased };
        Self { negative, exponent, significand }
    }

    /// The NaN that an operation with at least one of them gives: that with the greater
    /// significand.
    fn either_nan(self, other: Self) -> Option<Self> {
        match (self.value(), other.value()) {
            (Value::Nan(a), Value::Nan(b)) if a == b => {
                Some(Self::nan(self.negative && other.negative, a))
            }
            (Value::Nan(a), Value::Nan(b)) if a < b => Some(Self::nan(other.negative, b)),
            (Value::Nan(a), _) => Some(Self::nan(self.negative, a)),
            (_, Value::Nan(b)) => Some(Self::nan(other.negative, b)),
            _ => None,
        }
    }

    fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }
}

/// `magnitude` shifted to the right. A one that is shifted out stays as the lowest bit.
fn shifted(magnitude: u128, by: u32) -> u128 {
    match by {
        0 => magnitude,
        1..=127 => magnitude >> by | u128::from(magnitude << (128 - by) != 0),
        _ => u128::from(magnitude != 0),
    }
}

impl Add for Extended {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if let Some(nan) = self.either_nan(other) {
            return nan;
        }
        let (a, b) = match (self.value(), other.value()) {
            (Value::Finite(a, exponent), Value::Finite(b, least)) => {
                ((self.negative, a, exponent), (other.negative, b, least))
            }
            (Value::Infinite, Value::Infinite) if self.negative != other.negative => {
                return Self::INDEFINITE;
            }
            (Value::Infinite, _) => return self,
            _ => return other,
        };
        let (high, low) = if a.2 >= b.2 { (a, b) } else { (b, a) };
        let (sign, high, exponent) = high;
        // A bit for the carry above, 63 bits for the remainder below.
        let (high, lower) = (u128::from(high) << 63, u128::from(low.1) << 63);
        let lower = shifted(lower, exponent.abs_diff(low.2));
        let exponent = exponent - 63;
        if sign == low.0 {
            return Self::rounded(sign, high + lower, exponent);
        }
        match high.cmp(&lower) {
            Ordering::Greater => Self::rounded(sign, high - lower, exponent),
            Ordering::Less => Self::rounded(low.0, lower - high, exponent),
            // IEEE 754 §6.3: the sum of opposites is +0.
            Ordering::Equal => Self::zero(false),
        }
    }
}

impl Sub for Extended {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        // A NaN keeps its sign.
        if matches!(other.value(), Value::Nan(_)) { self + other } else { self + other.negated() }
    }
}

impl Mul for Extended {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        if let Some(nan) = self.either_nan(other) {
            return nan;
        }
        let negative = self.negative != other.negative;
        match (self.value(), other.value()) {
            (Value::Finite(a, exponent), Value::Finite(b, further)) => {
                let product = u128::from(a) * u128::from(b);
                Self::rounded(negative, product, exponent + further)
            }
            _ if self.is_zero() || other.is_zero() => Self::INDEFINITE,
            _ => Self::infinite(negative),
        }
    }
}

impl PartialEq for Extended {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.either_nan(*other).is_some() {
            return None;
        }
        if self.is_zero() && other.is_zero() {
            return Some(Ordering::Equal);
        }
        // The encodings of numbers have their order, where the least normal one has one encoding.
        let magnitude = |it: &Self| {
            let exponent = if it.significand & INTEGER_BIT == 0 { 0 } else { it.exponent.max(1) };
            (exponent, it.significand)
        };
        let ordering = magnitude(self).cmp(&magnitude(other));
        Some(match (self.negative, other.negative) {
            (false, false) => ordering,
            (true, true) => ordering.reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        })
    }
}

impl Element<LEN> for Extended {
    fn load(bytes: [u8; LEN]) -> Self {
        let [significand, upper]: [u64; 2] = zerocopy::transmute!(bytes);
        let exponent = i32::from(upper.to_le() as u16 & 0x7fff);
        let negative = upper.to_le() & 0x8000 != 0;
        Self { negative, exponent, significand: significand.to_le() }
    }

    fn store(self) -> [u8; LEN] {
        let sign = if self.negative { 0x8000 } else { 0 };
        let upper = u64::from(self.exponent.cast_unsigned()) | sign;
        zerocopy::transmute!([self.significand.to_le(), upper.to_le()])
    }

    fn combine(self, op: AtomicOp, operand: Self) -> Option<Self> {
        let (a, b) = (!self.is_zero(), !operand.is_zero());
        Some(match op {
            // A comparison with no number is false, so the target stays (fi_atomic(3)).
            AtomicOp::Min if operand < self => operand,
            AtomicOp::Max if operand > self => operand,
            AtomicOp::Min | AtomicOp::Max => self,
            AtomicOp::Sum => self + operand,
            AtomicOp::Prod => self * operand,
            AtomicOp::Lor => Self::truth(a || b),
            AtomicOp::Land => Self::truth(a && b),
            AtomicOp::Lxor => Self::truth(a != b),
            AtomicOp::Write => operand,
            _ => return None,
        })
    }
}

impl Element<{ 2 * LEN }> for Complex<Extended> {
    fn load(bytes: [u8; 2 * LEN]) -> Self {
        let [re, im]: [[u8; LEN]; 2] = zerocopy::transmute!(bytes);
        Self { re: Extended::load(re), im: Extended::load(im) }
    }

    fn store(self) -> [u8; 2 * LEN] {
        zerocopy::transmute!([self.re.store(), self.im.store()])
    }

    fn combine(self, op: AtomicOp, operand: Self) -> Option<Self> {
        let is_true = |it: Self| !it.re.is_zero() || !it.im.is_zero();
        let (a, b) = (is_true(self), is_true(operand));
        let truth = |value| Self { re: Extended::truth(value), im: Extended::zero(false) };
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

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Against whole numbers, against `f64` where that is exact, and against the definition of
//! rounding. A program in C compares with the processor (`ffi/tests/c/long_double.c`).

use super::*;
use proptest::prelude::*;

fn element(negative: bool, exponent: i32, significand: u64) -> Extended {
    Extended { negative, exponent, significand }
}

/// A number that `f64` has, too.
fn from_f64(number: f64) -> Extended {
    let bits = number.to_bits();
    let negative = bits >> 63 == 1;
    let (exponent, fraction) = ((bits >> 52) as i32 & 0x7ff, bits & ((1 << 52) - 1));
    match (exponent, fraction) {
        (0x7ff, 0) => Extended::infinite(negative),
        (0x7ff, _) => Extended::nan(negative, INTEGER_BIT | fraction << 11 | QUIET_BIT),
        (0, _) => Extended::rounded(negative, fraction.into(), 1 - 1023 - 52),
        _ => Extended::rounded(negative, u128::from(fraction | 1 << 52), exponent - 1023 - 52),
    }
}

fn bits(number: Extended) -> (bool, i32, u64) {
    (number.negative, number.exponent, number.significand)
}

/// Rounds by the definition: of the two neighbours the nearer one, of two as near the even one.
/// `exact` is in units of the last place, with 64 further bits behind the point.
fn nearest(exact: u128) -> u64 {
    let (below, rest) = ((exact >> 64) as u64, exact as u64);
    let to_below = u128::from(rest);
    let to_above = (1_u128 << 64) - to_below;
    match to_below.cmp(&to_above) {
        Ordering::Less => below,
        Ordering::Greater => below + 1,
        Ordering::Equal => below + (below & 1),
    }
}

proptest! {
    #[test]
    fn bytes_come_back(negative: bool, exponent in 0..=EXPONENT_MAX, significand: u64) {
        let number = element(negative, exponent, significand);
        let bytes = number.store();
        prop_assert_eq!(&bytes[..8], &significand.to_le_bytes()[..]);
        prop_assert_eq!(&bytes[10..], &[0; 6][..]);
        prop_assert_eq!(bits(Extended::load(bytes)), bits(number));
    }

    #[test]
    fn whole_numbers_add_and_multiply(a: i32, b: i32) {
        let number = |whole: i64| {
            Extended::rounded(whole < 0, u128::from(whole.unsigned_abs()), 0)
        };
        let (x, y) = (number(a.into()), number(b.into()));
        let (a, b) = (i64::from(a), i64::from(b));
        // Zeros have signs that whole numbers have not.
        prop_assert!(x + y == number(a + b) && x - y == number(a - b));
        prop_assert!(x * y == number(a * b));
        prop_assert_eq!(x.partial_cmp(&y), Some(a.cmp(&b)));
    }

    #[test]
    fn products_of_singles_are_those_of_doubles(a: f32, b: f32) {
        // 48 bits of significand, and no exponent that a double has not.
        let (wide, other) = (f64::from(a), f64::from(b));
        let (product, expected) = (from_f64(wide) * from_f64(other), from_f64(wide * other));
        if (wide * other).is_nan() {
            prop_assert!(matches!(product.value(), Value::Nan(_)));
        } else {
            prop_assert_eq!(bits(product), bits(expected));
        }
        prop_assert_eq!(from_f64(wide).partial_cmp(&from_f64(other)), wide.partial_cmp(&other));
    }

    #[test]
    fn products_are_rounded_to_the_nearest(
        a in INTEGER_BIT.., b in INTEGER_BIT.., exponent in 8000..24_000_i32, negative: bool,
    ) {
        let product = element(negative, exponent, a) * element(false, BIAS, b);
        let exact = u128::from(a) * u128::from(b);
        let up = exact.leading_zeros() == 0;
        let (exact, raised) = if up { (exact, 1) } else { (exact << 1, 0) };
        let expected = match nearest(exact) {
            // The last significand of an exponent was rounded up.
            0 => (negative, exponent + raised + 1, INTEGER_BIT),
            significand => (negative, exponent + raised, significand),
        };
        prop_assert_eq!(bits(product), expected);
    }

    #[test]
    fn sums_are_rounded_to_the_nearest(a in INTEGER_BIT.., b in INTEGER_BIT.., gap in 1..62_i32) {
        let sum = element(false, BIAS + gap, a) + element(false, BIAS, b);
        // Both in units of the last place of `a`, one bit lower so that the carry fits.
        let exact = (u128::from(a) << 63) + (u128::from(b) << 63 >> gap);
        let carried = exact.leading_zeros() == 0;
        let exact = if carried { exact } else { exact << 1 };
        let exponent = BIAS + gap + i32::from(carried);
        // The bits of `b` that were shifted out are 0: `gap` is below 63.
        let expected = match nearest(exact) {
            0 => (false, exponent + 1, INTEGER_BIT),
            significand => (false, exponent, significand),
        };
        prop_assert_eq!(bits(sum), expected);
    }

    #[test]
    fn a_sum_and_its_negation_cancel(negative: bool, exponent in 0..EXPONENT_MAX, fraction: u64) {
        let integer_bit = if exponent == 0 { 0 } else { INTEGER_BIT };
        let number = element(negative, exponent, fraction & !INTEGER_BIT | integer_bit);
        prop_assert_eq!(bits(number - number), bits(Extended::zero(false)));
        prop_assert_eq!(bits(number + Extended::zero(!negative)).2, number.significand);
        prop_assert_eq!(bits(number * Extended::ONE), bits(number));
    }

    #[test]
    fn small_addends_count_where_they_decide(
        negative: bool,
        far in prop_oneof![64..68_i32, 64..16_000],
    ) {
        // Half a unit in the last place is a tie; anything more, however small, rounds up.
        let number = element(false, BIAS + 8000, INTEGER_BIT);
        let half = element(false, BIAS + 8000 - 64, INTEGER_BIT);
        prop_assert_eq!(bits(number + half), bits(number));
        let more = element(false, BIAS + 8000 - 64, INTEGER_BIT | 1);
        prop_assert_eq!(bits(number + more).2, INTEGER_BIT | 1);
        // Units in the last place below a power of two have half the size of those above it.
        let tiny = element(negative, BIAS + 8000 - far, INTEGER_BIT);
        prop_assert_eq!(bits(number + tiny).2 == INTEGER_BIT, !negative || far > 64);
        let odd = element(false, BIAS + 8000, INTEGER_BIT | 1);
        prop_assert_eq!(bits(odd + half), (false, BIAS + 8000, INTEGER_BIT | 2));
    }
}

#[test]
fn the_ends_of_the_range() {
    let largest = element(false, EXPONENT_MAX - 1, u64::MAX);
    let least = element(false, 0, 1);
    let least_normal = element(false, 1, INTEGER_BIT);
    assert_eq!(bits(largest + largest), bits(Extended::infinite(false)));
    assert_eq!(bits(largest * largest.negated()), bits(Extended::infinite(true)));
    assert_eq!(bits(largest + least), bits(largest));
    assert_eq!(bits(least * least.negated()), bits(Extended::zero(true)));
    assert_eq!(bits(least + least), bits(element(false, 0, 2)));
    assert_eq!(bits(least_normal - least), bits(element(false, 0, INTEGER_BIT - 1)));
    assert_eq!(bits(element(false, 0, INTEGER_BIT - 1) + least), bits(least_normal));
    // An exponent of 0 with the integer bit is the least normal number, too.
    assert!(element(false, 0, INTEGER_BIT) == least_normal && least < least_normal);
    let half = element(false, BIAS - 1, INTEGER_BIT);
    assert_eq!(bits(least * half), bits(Extended::zero(false)), "a tie, to even");
    assert_eq!(bits(element(false, 0, 3) * half), bits(element(false, 0, 2)));
}

#[test]
fn what_is_no_number_stays_none() {
    let (infinite, zero) = (Extended::infinite(false), Extended::zero(true));
    let nan = Extended::nan(false, INTEGER_BIT | 5);
    for result in [infinite - infinite, infinite * zero, zero * infinite] {
        assert_eq!(bits(result), bits(Extended::INDEFINITE));
    }
    assert_eq!(bits(nan + infinite), (false, EXPONENT_MAX, INTEGER_BIT | QUIET_BIT | 5));
    assert_eq!(bits(infinite + infinite), bits(infinite));
    assert_eq!(bits(infinite * Extended::ONE.negated()), bits(infinite.negated()));
    // Without its integer bit.
    assert!(matches!((element(false, BIAS, 1) + Extended::ONE).value(), Value::Nan(_)));
    assert!(nan != nan && nan.partial_cmp(&infinite).is_none());
    assert!(zero == Extended::zero(false) && zero.negated() > infinite.negated());
    // As C compares: the target stays beside no number, and beside the other zero.
    for op in [AtomicOp::Min, AtomicOp::Max] {
        for (target, operand) in [(nan, zero), (zero, nan), (zero, zero.negated())] {
            assert_eq!(bits(target.combine(op, operand).unwrap()), bits(target));
        }
    }
}

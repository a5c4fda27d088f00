// SPDX-License-Identifier: MIT OR Apache-2.0
//! What operations do, computed by the test itself.

use crate::abi;

/// The bytes of one element.
pub(super) fn size(datatype: abi::fi_datatype) -> usize {
    match datatype {
        abi::FI_INT8 | abi::FI_UINT8 => 1,
        abi::FI_INT16 | abi::FI_UINT16 => 2,
        abi::FI_INT32 | abi::FI_UINT32 | abi::FI_FLOAT => 4,
        abi::FI_INT64 | abi::FI_UINT64 | abi::FI_DOUBLE | abi::FI_FLOAT_COMPLEX => 8,
        abi::FI_LONG_DOUBLE_COMPLEX => 32,
        _ => 16,
    }
}

/// A small whole number as an element.
pub(super) fn encode(datatype: abi::fi_datatype, number: i64) -> Vec<u8> {
    let real = match datatype {
        abi::FI_FLOAT | abi::FI_FLOAT_COMPLEX => (number as f32).to_le_bytes().to_vec(),
        abi::FI_DOUBLE | abi::FI_DOUBLE_COMPLEX => (number as f64).to_le_bytes().to_vec(),
        abi::FI_LONG_DOUBLE | abi::FI_LONG_DOUBLE_COMPLEX => extended(number),
        _ => i128::from(number).to_le_bytes()[..size(datatype)].to_vec(),
    };
    // The imaginary part of a complex number is 0.
    let mut bytes = real;
    bytes.resize(size(datatype), 0);
    bytes
}

/// The 80-bit extended format of x86, in 16 bytes: 64 bits of significand, exponent, sign.
fn extended(number: i64) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    if number != 0 {
        let magnitude = number.unsigned_abs();
        let shift = magnitude.leading_zeros();
        let exponent = 16_383 + 63 - shift as u16;
        let sign = if number < 0 { 0x8000 } else { 0 };
        bytes[..8].copy_from_slice(&(magnitude << shift).to_le_bytes());
        bytes[8..10].copy_from_slice(&(exponent | sign).to_le_bytes());
    }
    bytes
}

/// Whether two elements are equal; 6 bytes of an extended number have no meaning.
pub(super) fn equal(datatype: abi::fi_datatype, one: &[u8], other: &[u8]) -> bool {
    let long = matches!(datatype, abi::FI_LONG_DOUBLE | abi::FI_LONG_DOUBLE_COMPLEX);
    let (size, used) = if long { (16, 10) } else { (1, 1) };
    one.chunks(size).zip(other.chunks(size)).all(|(one, other)| one[..used] == other[..used])
}

/// The target's value after an operation: section `fi_atomic`'s table.
pub(super) fn outcome(op: abi::fi_op, target: i64, value: i64, compare: i64) -> i64 {
    let swap = |yes: bool| if yes { value } else { target };
    match op {
        abi::FI_MIN => target.min(value),
        abi::FI_MAX => target.max(value),
        abi::FI_SUM => target + value,
        abi::FI_PROD => target * value,
        abi::FI_LOR => i64::from(target != 0 || value != 0),
        abi::FI_LAND => i64::from(target != 0 && value != 0),
        abi::FI_LXOR => i64::from((target != 0) != (value != 0)),
        abi::FI_BOR => target | value,
        abi::FI_BAND => target & value,
        abi::FI_BXOR => target ^ value,
        abi::FI_ATOMIC_WRITE => value,
        abi::FI_CSWAP => swap(compare == target),
        abi::FI_CSWAP_NE => swap(compare != target),
        abi::FI_CSWAP_LE => swap(compare <= target),
        abi::FI_CSWAP_LT => swap(compare < target),
        abi::FI_CSWAP_GE => swap(compare >= target),
        abi::FI_CSWAP_GT => swap(compare > target),
        abi::FI_MSWAP => (value & compare) | (target & !compare),
        _ => target,
    }
}

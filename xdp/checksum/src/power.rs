// SPDX-License-Identifier: MIT OR Apache-2.0
//! Powers of x modulo the polynomial of CRC-32C. A multiplication by one moves a sum to an earlier
//! position.

/// The polynomial, with the lowest power in the highest bit, as in all values here.
pub(crate) const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The power of x that moves a sum before `bits` bits of zeros: x^(bits - 33). Of the 33 bits, 32
/// come from a factor in the lower half of its word. One is lost because a product of two words has
/// a bit less than its register. At least 33 bits.
pub(crate) const fn shift_power(bits: u32) -> u32 {
    let mut power = 1 << 31; // x^0
    let mut n = 33;
    while n < bits {
        power = times_x(power);
        n += 1;
    }
    power
}

/// Multiplies a value by x.
pub(crate) const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Powers of x modulo the polynomial of CRC-32C, which move sums before what follows them.

/// The polynomial, lowest power in the highest bit, as all values here.
pub(crate) const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The power of x by which a sum is multiplied to stand before `bits` bits of zeros: x^(bits - 33).
/// Of the 33, 32 are those of a factor that lies in the lower half of its word, and one is lost
/// where a product of two words has a bit less than its register. At least 33 bits.
pub(crate) const fn ahead(bits: u32) -> u32 {
    let mut power = 1 << 31; // x^0
    let mut n = 33;
    while n < bits {
        power = times_x(power);
        n += 1;
    }
    power
}

/// A value times x.
pub(crate) const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

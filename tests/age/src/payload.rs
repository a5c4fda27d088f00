// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of messages: a head that names the sender, then bytes that depend on the number.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | number of the message |
//! | 8 | 1 | length of the sender's name |
//! | 9 | ≤ 55 | the sender's name, as of `fi_getname` |
//! | 64 | | the pattern of the number |
//!
//! In: numbers. Out: bytes, and whether received ones are right. Callers: residents and visitors.

use anyhow::{Context, ensure};
use ofi_xdp_libfabric::Name;
use ofi_xdp_test_kit::rng::{differs_at, fill_pattern};

/// Tag of a request, and of its answer: the same bytes.
pub(crate) const REQUEST: u64 = 1;
pub(crate) const ANSWER: u64 = 2;
/// Bytes before the pattern; the shortest message.
const HEAD: usize = 64;
/// The longest message.
pub(crate) const LENGTH_MAX: usize = 140_000;
/// Lengths of a packet, of several packets, and of rendezvous messages.
const LENGTHS: [usize; 8] = [HEAD, 128, 1400, HEAD, 9000, 20_000, 70_000, LENGTH_MAX];

/// Length of message `number`.
pub(crate) const fn length(number: u64) -> usize {
    LENGTHS[number as usize % LENGTHS.len()]
}

/// Writes message `number` of the sender called `name`; returns its length.
pub(crate) fn fill(number: u64, name: &Name, into: &mut [u8]) -> anyhow::Result<usize> {
    let len = length(number);
    let into = into.get_mut(..len).context("a short buffer")?;
    let (head, body) = into.split_at_mut(HEAD);
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8] = u8::try_from(name.0.len())?;
    head.get_mut(9..9 + name.0.len()).context("a long name")?.copy_from_slice(&name.0);
    fill_pattern(number, HEAD as u64, body);
    Ok(len)
}

/// The number of a received message, if all its bytes are right, and its sender's name.
pub(crate) fn verify(bytes: &[u8]) -> anyhow::Result<(u64, Name)> {
    let (number, _) = bytes.split_first_chunk::<8>().context("a short message")?;
    let number = u64::from_le_bytes(*number);
    let wanted = length(number);
    ensure!(bytes.len() == wanted, "message {number} has {} bytes, not {wanted}", bytes.len());
    let wrong = differs_at(number, HEAD as u64, &bytes[HEAD..]);
    ensure!(wrong.is_none(), "message {number}: byte {} is wrong", HEAD + wrong.unwrap_or(0));
    let name = bytes.get(9..9 + usize::from(bytes[8])).context("a long name")?;
    Ok((number, Name(name.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_right_until_a_byte_changes() {
        let name = Name(vec![7; 16]);
        let mut bytes = vec![0; LENGTH_MAX];
        for number in 0..16 {
            let len = fill(number, &name, &mut bytes).unwrap();
            assert_eq!(verify(&bytes[..len]).unwrap(), (number, Name(vec![7; 16])));
            assert!(verify(&bytes[..len - 1]).is_err());
            if len > HEAD {
                bytes[len - 1] ^= 1;
                let error = verify(&bytes[..len]).unwrap_err().to_string();
                assert_eq!(error, format!("message {number}: byte {} is wrong", len - 1));
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of messages: bytes that both sides can compute, and the header of a stream.

use anyhow::bail;

/// The byte at `position` of message `sequence`. It differs between messages, and has a period
/// (251, a prime) along the message that no buffer or packet size has.
fn byte(sequence: u64, position: usize) -> u8 {
    ((sequence.wrapping_mul(0x9e37_79b9) as usize).wrapping_add(position) % 251) as u8
}

/// Writes message `sequence`.
pub(super) fn write(sequence: u64, message: &mut [u8]) {
    for (position, slot) in message.iter_mut().enumerate() {
        *slot = byte(sequence, position);
    }
}

/// Checks that `message` is message `sequence`, of `len` bytes.
pub(super) fn check(sequence: u64, message: &[u8], len: usize) -> anyhow::Result<()> {
    if message.len() != len {
        bail!("message {sequence} has {} bytes instead of {len}", message.len());
    }
    let wrong = message.iter().enumerate().find(|(position, b)| **b != byte(sequence, *position));
    if let Some((position, found)) = wrong {
        let wanted = byte(sequence, position);
        bail!("message {sequence} of {len} bytes: byte {position} is {found} instead of {wanted}");
    }
    Ok(())
}

/// The position of a stream's message: its window, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// The window's number, from 0.
    pub(super) window: u32,
    /// The message's number in the window, from 0; in an answer, the number of arrived messages.
    pub(super) index: u32,
}

impl Position {
    /// Writes the header at the start of a message of at least 8 bytes.
    #[inline]
    pub(super) fn write(self, message: &mut [u8]) {
        message[..4].copy_from_slice(&self.window.to_le_bytes());
        message[4..8].copy_from_slice(&self.index.to_le_bytes());
    }

    /// The header of a message; `None` if it is too short.
    #[inline]
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let (window, rest) = message.split_first_chunk::<4>()?;
        let (index, _) = rest.split_first_chunk::<4>()?;
        Some(Self { window: u32::from_le_bytes(*window), index: u32::from_le_bytes(*index) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_itself_and_no_other() {
        let mut message = vec![0; 1000];
        write(7, &mut message);
        assert!(check(7, &message, 1000).is_ok());
        assert!(check(8, &message, 1000).is_err());
        assert!(check(7, &message[..999], 1000).is_err());
        message[500] ^= 1;
        assert!(check(7, &message, 1000).unwrap_err().to_string().contains("byte 500"));
    }

    #[test]
    fn a_place_survives() {
        let position = Position { window: 0x0102_0304, index: 63 };
        let mut message = [0; 8];
        position.write(&mut message);
        assert_eq!(Position::read(&message), Some(position));
        assert_eq!(Position::read(&message[..7]), None);
    }
}

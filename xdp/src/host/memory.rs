// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists with an entry for each object of the host, such as its interfaces: a refusal is an error.
//!
//! In: a list and an entry. Out: the longer list. Callers: `interfaces.rs`, the self-test. Bound:
//! the host's objects.

use std::io;

use nix::errno::Errno;

/// Appends `entry`.
///
/// # Errors
/// `ENOMEM`; then the list is as before.
pub(crate) fn push<T>(list: &mut Vec<T>, entry: T) -> io::Result<()> {
    list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    list.push(entry);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::push;

    #[test]
    fn entries_are_appended_in_order() {
        let mut list = vec![1];
        push(&mut list, 2).unwrap();
        push(&mut list, 3).unwrap();
        assert_eq!(list, [1, 2, 3]);
    }
}

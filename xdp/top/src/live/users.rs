// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of users.
//!
//! In: the text of `/etc/passwd` (passwd(5)). Out: the name of a user id, or its number. Caller:
//! `model.rs`. Bounds: [`BYTES_MAX`], [`NAME_MAX`].

use std::collections::HashMap;
use std::io::Read as _;

const FILE: &str = "/etc/passwd";
/// Maximum number of bytes that are read.
const BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a name.
const NAME_MAX: usize = 32;

/// User ids and names of this machine.
#[derive(Debug, Default)]
pub(super) struct Users(HashMap<u32, String>);

impl Users {
    /// Those of the file; none where it cannot be read.
    pub(super) fn of_machine() -> Self {
        let mut text = String::new();
        if let Ok(file) = std::fs::File::open(FILE) {
            let _ = file.take(BYTES_MAX).read_to_string(&mut text);
        }
        Self::of(&text)
    }

    fn of(text: &str) -> Self {
        let user = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let id = fields.nth(1)?.parse().ok()?;
            let plain = name.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
            (plain && (1..=NAME_MAX).contains(&name.len())).then(|| (id, name.to_owned()))
        };
        // The first of several names is the one that other tools show.
        Self(text.lines().rev().filter_map(user).collect())
    }

    pub(super) fn name(&self, id: u32) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_a_number() {
        let users =
            Users::of("root:x:0:0::/:/bin/sh\ntoor:x:0:0::/:\nmpi:x:1000:\n\u{1b}[2J:x:7:\nbad\n");
        assert_eq!([0, 1000, 7].map(|id| users.name(id)), ["root", "mpi", "7"]);
    }
}

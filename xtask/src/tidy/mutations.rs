// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of mutations follows the code: each `from` is in its file exactly once.

use super::tree::{Fault, Tree};
use crate::mutate::table;

/// Entries that cannot be applied any more. `cargo xtask mutate` would only say so after minutes.
pub(super) fn apply(tree: &Tree) -> Vec<Fault> {
    let Some(file) = tree.file(table::FILE) else { return Vec::new() };
    let mutations = match table::parse(&file.text) {
        Ok(mutations) => mutations,
        Err(error) => return vec![Fault::new(file, 0, format!("{error:#}"))],
    };
    let faults = mutations.iter().filter_map(|one| {
        let problem = match tree.file(&one.file) {
            Some(target) => one.check(&target.text).err()?.to_string(),
            None => format!("{}: there is no {}", one.name, one.file),
        };
        Some(Fault::new(file, 0, problem))
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_not_apply_fails() {
        let entry = |name: &str, file: &str| {
            format!(
                "[[mutation]]\nname = '{name}'\nfile = '{file}'\nfrom = 'a'\nto = 'b'\nwhy = 'c'\n"
            )
        };
        let text = [entry("good", "x.rs"), entry("twice", "y.rs"), entry("gone", "z.rs")].concat();
        let tree = Tree::of(&[(table::FILE, &text), ("x.rs", "a"), ("y.rs", "a a")]);
        let faults: Vec<String> = apply(&tree).into_iter().map(|fault| fault.what).collect();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("twice") && faults[1].starts_with("gone"), "{faults:?}");
        assert_eq!(apply(&Tree::of(&[(table::FILE, "]")])).len(), 1);
        assert!(apply(&Tree::of(&[("x.rs", "a")])).is_empty());
    }
}

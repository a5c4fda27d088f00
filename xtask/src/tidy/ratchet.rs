// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules with excused faults: their number in each crate may only go down.
//!
//! In: a rule and the exceptions. Out: the faults of each crate that has more than its number, and
//! the numbers that are larger than needed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::exceptions::FILE;
use super::tree::{Fault, Tree};

/// A rule with faults that are excused, up to a number for each crate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratchet {
    /// Its table in [`FILE`].
    pub(super) name: &'static str,
    pub(super) rule: fn(&Tree) -> Vec<Fault>,
}

impl Ratchet {
    /// The faults by crate, and how many of them are excused.
    fn by_crate(self, tree: &Tree) -> BTreeMap<String, (Vec<Fault>, usize)> {
        let mut crates: BTreeMap<String, (Vec<Fault>, usize)> = BTreeMap::new();
        for fault in (self.rule)(tree) {
            let name = tree.crate_of(&fault.path).to_owned();
            crates.entry(name).or_default().0.push(fault);
        }
        for name in tree.exceptions.counts.get(self.name).into_iter().flat_map(|one| one.keys()) {
            if name != "*" {
                crates.entry(name.clone()).or_default();
            }
        }
        for (name, (_, excused)) in &mut crates {
            *excused = tree.exceptions.count(self.name, name);
        }
        crates
    }

    /// All faults of the crates that have more than their number, and the numbers that are larger
    /// than needed.
    pub(super) fn faults(self, tree: &Tree) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, (found, excused)) in self.by_crate(tree) {
            let (rule, count) = (self.name, found.len());
            match count.cmp(&excused) {
                Ordering::Equal => {}
                Ordering::Less => {
                    let what =
                        format!("[{rule}] {name} = {excused}, and there are {count}: lower it");
                    faults.push(Fault { path: FILE.to_owned(), line: 0, what });
                }
                Ordering::Greater => {
                    faults.extend(found);
                    if excused > 0 {
                        let what = format!(
                            "{count} faults against the rule \"{rule}\", {excused} excused in \
                             {FILE}: some of those above are new"
                        );
                        faults.push(Fault { path: name, line: 0, what });
                    }
                }
            }
        }
        faults
    }

    /// Every fault, excused or not.
    pub(super) fn all(self, tree: &Tree) -> Vec<Fault> {
        (self.rule)(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::super::exceptions::Exceptions;
    use super::*;

    fn tree(exceptions: &str) -> Tree {
        let mut tree = Tree::of(&[("a/Cargo.toml", ""), ("a/b.rs", ""), ("c.rs", "")]);
        tree.exceptions = Exceptions::read(exceptions).unwrap();
        tree
    }

    const RATCHET: Ratchet = Ratchet {
        name: "words",
        rule: |tree| tree.files.iter().map(|file| Fault::new(file, 1, "x")).collect(),
    };

    #[test]
    fn a_crate_with_more_faults_than_excused_fails() {
        assert_eq!(RATCHET.faults(&tree("")).len(), 3);
        let faults = RATCHET.faults(&tree("[words]\na = 1\n\".\" = 1\n"));
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[2].to_string().starts_with("a: 2 faults against"), "{faults:?}");
        assert!(RATCHET.faults(&tree("[words]\na = 2\n\"*\" = 1\n")).is_empty());
        assert_eq!(RATCHET.all(&tree("[words]\na = 2\n")).len(), 3);
    }

    #[test]
    fn a_number_that_is_too_large_is_reported() {
        let stale = RATCHET.faults(&tree("[words]\na = 3\ngone = 1\n\".\" = 1\n"));
        assert_eq!(stale.len(), 2);
        assert!(stale[0].what.contains("a = 3, and there are 2"), "{stale:?}");
        assert!(RATCHET.faults(&tree("[words]\na = 2\n\".\" = 1\n")).is_empty());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traits with one implementor, and type names with two meanings.
//!
//! In: the items of product code. Out: each trait that selects among one type, and each type name
//! that is defined more than once without a reason.

use std::collections::BTreeMap;

use super::modules::{Crate, crates};
use super::tree::{Fault, Tree};

/// Traits that one type of product code implements, or none, and why they exist.
const TRAITS: &[(&str, &str)] = &[
    ("Device", "the seam to ethtool's ioctl(2): tests have a card of their own"),
    ("Initiator", "deferred work stands below endpoints, and names what it needs of one"),
    ("Memory", "the engine's seam to application memory: tests implement it too"),
    ("NeighbourTest", "the seam to the network of a card: tests have one of their own"),
    ("Observer", "a runtime stands below its endpoint, and names what it tells it"),
    ("Port", "the engine's seam to the network: tests implement it too"),
    (
        "RequestSink",
        "connection management stands below passive endpoints, and names what it tells",
    ),
    ("Requester", "connection management stands below endpoints, and names what it tells them"),
    ("TestedSocket", "the seam to a socket in its self-test: tests have one of their own"),
    ("WorkCounter", "deferred work stands below counters, and names what it needs of one"),
];

/// Type names that have more than one definition, and why each is clear where it stands.
const HOMONYMS: &[(&str, &str)] = &[
    ("Entry", "the element of the collection in whose file it stands"),
    ("Error", "each crate's own error"),
    ("State", "the states of the machine in whose file it stands"),
];

/// Folders of product code: code that runs in an application's process, or beside it.
const PRODUCT: &[&str] = &["core/", "bpf/", "xdp/", "ffi/"];

/// Folders inside of these with other code: libfabric's own names, and the client of examples and
/// tests. The client has a type for each object of libfabric, as the provider has.
const NOT_PRODUCT: &[&str] = &["ffi/libfabric/", "ffi/libfabric-sys/"];

fn is_product(path: &str) -> bool {
    let in_one = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    in_one(PRODUCT) && !in_one(NOT_PRODUCT)
}

/// Entries of a list for names that have fewer definitions than `least`.
fn stale(crates: &[Crate<'_>], list: &[(&str, &str)], least: usize) -> Vec<Fault> {
    let count = |name: &str| {
        let items = crates.iter().flat_map(|one| one.items());
        items.filter(|(file, item)| is_product(&file.path) && item.name == name).count()
    };
    let stale = list.iter().filter(|(name, _)| count(name) < least);
    let reported = stale.filter(|_| crates.iter().any(|one| one.root == "xtask/src"));
    reported
        .map(|(name, _)| Fault {
            path: file!().to_owned(),
            line: 0,
            what: format!("lists {name} without need: remove the entry"),
        })
        .collect()
}

/// Traits with one implementor in product code, or with none.
pub(super) fn traits(tree: &Tree) -> Vec<Fault> {
    let crates = crates(tree);
    let mut implementors: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, block) in crates.iter().flat_map(|one| one.impls()) {
        if let Some(name) = &block.of_trait {
            *implementors.entry(name).or_default() += if block.is_template { 2 } else { 1 };
        }
    }
    let mut faults = stale(&crates, TRAITS, 1);
    let items = crates.iter().flat_map(|one| one.items());
    for (file, item) in
        items.filter(|(file, item)| is_product(&file.path) && item.keyword == "trait")
    {
        let count = implementors.get(&*item.name).copied().unwrap_or_default();
        if count < 2 && TRAITS.iter().all(|(name, _)| *name != item.name) {
            let what = format!(
                "trait {} has {count} implementors outside of tests: use the type itself, or give \
                 a reason in {}",
                item.name,
                file!()
            );
            faults.push(Fault::new(file, item.line, what));
        }
    }
    faults
}

/// Type names that are defined more than once.
pub(super) fn homonyms(tree: &Tree) -> Vec<Fault> {
    let crates = crates(tree);
    let kinds = ["struct", "enum", "union", "trait", "type"];
    let mut by_name: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (file, item) in crates.iter().flat_map(|one| one.items()) {
        if is_product(&file.path) && kinds.contains(&&*item.keyword) {
            by_name.entry(&item.name).or_default().push((&file.path, item.line));
        }
    }
    let mut faults = stale(&crates, HOMONYMS, 2);
    for (name, mut places) in by_name {
        places.sort_unstable();
        places.dedup();
        if places.len() < 2 || HOMONYMS.iter().any(|(allowed, _)| *allowed == name) {
            continue;
        }
        for (path, line) in &places {
            let others = places.iter().filter(|place| *place != &(*path, *line));
            let others: Vec<String> = others.map(|(path, line)| format!("{path}:{line}")).collect();
            let what = format!(
                "{name} is also a type of {}: rename one, or give a reason in {}",
                others.join(", "),
                file!()
            );
            faults.push(Fault { path: (*path).to_owned(), line: *line, what });
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(faults: &[Fault]) -> Vec<String> {
        faults.iter().map(|one| format!("{}:{}", one.path, one.line)).collect()
    }

    #[test]
    fn a_trait_needs_two_implementors() {
        let one = "trait A {}\ntrait B {}\npub trait Port {}\nimpl<T: Fn() -> u8> A for T {}\n\
                   #[cfg(test)] mod tests { impl A for u8 {} }\nimpl B for u8 {}\n\
                   trait D {}\nmacro_rules! d { () => { impl D for $t {} } }";
        let two = "impl<'a> crate::B<'a> for X<'a> where X: Y {} impl X {}";
        let tree = Tree::of(&[
            ("core/Cargo.toml", ""),
            ("core/src/lib.rs", one),
            ("core/src/x.rs", two),
            ("tests/harness/Cargo.toml", ""),
            ("tests/harness/src/lib.rs", "trait C {}"),
        ]);
        assert_eq!(lines(&traits(&tree)), ["core/src/lib.rs:1"]);
    }

    #[test]
    fn a_type_name_has_one_meaning() {
        let tree = Tree::of(&[
            ("core/Cargo.toml", ""),
            ("core/src/a.rs", "struct A;\nenum State {}\nfn b() { struct B; }"),
            ("xdp/Cargo.toml", ""),
            (
                "xdp/src/b.rs",
                "\nenum A {}\nenum State {}\nstruct B;\nimpl X for B { type A = u8; }",
            ),
            ("tests/engine/sim/Cargo.toml", ""),
            ("tests/engine/sim/src/c.rs", "struct A;"),
        ]);
        let faults = homonyms(&tree);
        assert_eq!(lines(&faults), ["core/src/a.rs:1", "xdp/src/b.rs:2"]);
        assert!(faults[0].what.starts_with("A is also a type of xdp/src/b.rs:2"), "{}", faults[0]);
    }
}

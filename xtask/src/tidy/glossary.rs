// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names in `docs/GLOSSARY.md` are names of the code, and every entry has a source.
//!
//! In: each entry, `- **term** (`name`, …): sentence. [source]`. Out: names that no Rust file has,
//! and entries without a source.

use std::collections::HashSet;

use super::tokens::Token;
use super::tree::{Fault, Tree};

const DOCUMENT: &str = "docs/GLOSSARY.md";
/// Where a name of an entry may come from. Not from the rules, which have names in their tests.
const WITHOUT: &str = "xtask/";

/// Names of entries that the code does not have.
pub(super) fn names_exist(tree: &Tree) -> Vec<Fault> {
    let Some(document) = tree.file(DOCUMENT) else { return Vec::new() };
    let known = known(tree);
    let mut faults = Vec::new();
    for (line, entry) in entries(&document.text) {
        for name in names(&entry).filter(|name| !exists(&known, name)) {
            let what = format!("names `{name}`, which no code has: put the present name");
            faults.push(Fault::new(document, line, what));
        }
    }
    faults
}

/// Entries that do not end with a source in brackets.
pub(super) fn sources_exist(tree: &Tree) -> Vec<Fault> {
    let Some(document) = tree.file(DOCUMENT) else { return Vec::new() };
    let lacking = entries(&document.text).into_iter().filter(|(_, entry)| !entry.ends_with(']'));
    let what = "no source: end it with [page, RFC, document or decision]";
    lacking.map(|(line, _)| Fault::new(document, line, what)).collect()
}

/// Every identifier of the code, and every part of a path.
fn known(tree: &Tree) -> HashSet<&str> {
    let mut known = HashSet::new();
    for file in tree.with_extension(&["rs"]).filter(|file| !file.path.starts_with(WITHOUT)) {
        let words = file.tokens().iter().filter_map(|token| match token {
            Token::Word(word) => Some(&**word),
            _ => None,
        });
        known.extend(words);
        known.extend(file.path.trim_end_matches(".rs").split('/'));
    }
    known
}

/// Whether each part of a path such as `Policy::{None, All}` is known. A `*` at the end stands for
/// any rest.
fn exists(known: &HashSet<&str>, name: &str) -> bool {
    let parts = name.split(|sign: char| !sign.is_alphanumeric() && !['_', '*'].contains(&sign));
    parts.filter(|part| !part.is_empty()).all(|part| match part.strip_suffix('*') {
        Some(beginning) => known.iter().any(|one| one.starts_with(beginning)),
        None => known.contains(part),
    })
}

/// The entries of the lists, each on one line, with the line that it begins on.
fn entries(text: &str) -> Vec<(usize, String)> {
    let mut entries: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("- **") {
            entries.push((index + 1, line.to_owned()));
        } else if let (Some(rest), Some((_, entry))) = (line.strip_prefix("  "), entries.last_mut())
        {
            entry.push(' ');
            entry.push_str(rest);
        }
    }
    entries
}

/// The names between backticks before the sentence of an entry.
fn names(entry: &str) -> impl Iterator<Item = &str> {
    let head = entry.split_once(": ").map_or(entry, |(head, _)| head);
    head.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_source_fails() {
        let text = "- **a**: x. [c(2)]\n- **b** (`y`):\n  z [1].\n- **c**: x.\n  [RFC\n  1]\n";
        let faults: Vec<String> =
            sources_exist(&Tree::of(&[(DOCUMENT, text)])).iter().map(Fault::to_string).collect();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("docs/GLOSSARY.md:2: no source"), "{faults:?}");
    }

    #[test]
    fn a_name_that_no_code_has_fails() {
        let text = "# Terms\n- **a, b** (`is_a`, `B::{X, Y}`,\n  `gone`): as `here`. [c(2)]\n\
                    - **d** (`push_*`, `d`), **e** (`left`): x.\n";
        let code = "struct B; fn is_a() { X; Y; push_back() }";
        let files = [(DOCUMENT, text), ("core/d.rs", code), ("xtask/a.rs", "fn gone() {}")];
        let faults: Vec<String> =
            names_exist(&Tree::of(&files)).iter().map(Fault::to_string).collect();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("docs/GLOSSARY.md:2: names `gone`"), "{faults:?}");
        assert!(faults[1].starts_with("docs/GLOSSARY.md:4: names `left`"), "{faults:?}");
        assert!(names_exist(&Tree::of(&[("a.rs", code)])).is_empty());
    }
}

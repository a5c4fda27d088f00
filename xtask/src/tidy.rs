// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tidy: the rules of this code base that no common tool knows.
//!
//! In: the project's text files. Out: one line for each fault, with file, line and remedy, and
//! failure if there is one. Called by people and by `test --all`. Each rule is a function from the
//! tree to its faults and has a test that shows it fire.

mod circles;
mod documents;
mod engine;
mod exceptions;
mod glossary;
mod layering;
mod layers;
mod modules;
mod mutations;
mod pages;
mod prose;
mod ratchet;
mod size;
mod text;
mod tokens;
mod tree;
mod types;
mod unsafe_code;
mod walk;
mod words;

use std::path::Path;

use anyhow::{Result, bail};

use self::ratchet::Ratchet;
use self::tree::{Fault, Tree};

/// Every rule without exceptions.
const RULES: &[fn(&Tree) -> Vec<Fault>] = &[
    unsafe_code::listed,
    size::files,
    size::lines,
    layering::names,
    layering::dependencies,
    text::licence_line,
    text::module_doc,
    text::leftovers,
    text::private_paths,
    documents::protocol_sections,
    documents::parameters,
    documents::named_files,
    documents::tables,
    layers::documented,
    mutations::apply,
    glossary::names_exist,
    glossary::sources_exist,
    prose::figures,
];

/// Rules with exceptions that are left over, by the name of their list.
const RATCHETS: &[Ratchet] = &[
    Ratchet { name: "layers", rule: layers::downward },
    Ratchet { name: "circles", rule: circles::none },
    Ratchet { name: "facade", rule: engine::one_facade },
    Ratchet { name: "fields", rule: engine::private_fields },
    Ratchet { name: "slots", rule: engine::typed_slots },
    Ratchet { name: "traits", rule: types::traits },
    Ratchet { name: "homonyms", rule: types::homonyms },
    Ratchet { name: "length", rule: pages::length },
    Ratchet { name: "width", rule: pages::width },
    Ratchet { name: "figures", rule: pages::figures },
    Ratchet { name: "walk", rule: walk::holds },
    Ratchet { name: "words", rule: words::forbidden },
];

/// Applies every rule to the project at `root`.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    println!("{}", unsafe_code::table(&tree));
    for note in size::long_files(&tree) {
        println!("note: {note}");
    }
    let mut faults: Vec<Fault> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    faults.extend(RATCHETS.iter().flat_map(|ratchet| ratchet.faults(&tree)));
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        bail!("{} faults against the rules of CONTRIBUTING.md", faults.len());
    }
    println!("tidy: {} files, {} rules, no fault", tree.files.len(), RULES.len() + RATCHETS.len());
    Ok(())
}

/// Prints the figures of the comments' language, or each doubtful word below `folder`.
pub(crate) fn prose(root: &Path, folder: &str) -> Result<()> {
    print!("{}", prose::report(&Tree::read(root)?, folder));
    Ok(())
}

/// Prints every fault that the list of exceptions excuses.
pub(crate) fn excused(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    for ratchet in RATCHETS {
        let faults = ratchet.all(&tree);
        println!("{}: {}", ratchet.name, faults.len());
        for fault in faults {
            println!("    {fault}");
        }
    }
    Ok(())
}

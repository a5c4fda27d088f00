// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine is components with private fields and typed slots.
//!
//! In: the files of `core/src`, and of `xdp/src` for the ports. Out: `impl Engine` in too many
//! files, fields of components that other files see, and slots without a type of their own.

use super::tokens::{Token, is_word};
use super::tree::{Fault, SourceFile, Tree};

const ENGINE: &str = "core/src/engine/";
/// The folders with components.
const COMPONENT_FOLDERS: &[&str] = &["core/src/", "xdp/src/"];
/// Files with an `impl Engine`, at most.
const FILES_MAX: usize = 4;
/// The parts of the engine, and the ports, that keep their state to themselves.
const COMPONENTS: &[&str] = &[
    "Completions",
    "Connection",
    "ConnectionTable",
    "Credits",
    "Engine",
    "Errors",
    "Hello",
    "HybridPort",
    "Matcher",
    "Path",
    "Queue",
    "ReceiveState",
    "RmaTarget",
    "SendState",
    "Sender",
    "SharedQueue",
    "Timers",
    "XskPort",
];
/// Names of slots. Their types: `PeerSlot`, `ConnSlot`, `OpSlot`, `RecvSlot`, `StoredSlot`.
const SLOTS: &[&str] = &["number", "active", "conn", "recv", "message", "stored", "peer", "op"];

fn files<'a>(tree: &'a Tree, folders: &'a [&str]) -> impl Iterator<Item = &'a SourceFile> {
    let inside = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    tree.with_extension(&["rs"]).filter(move |file| inside(&file.path) && !file.is_test())
}

/// Each file with an `impl Engine`, if there are too many.
pub(super) fn one_facade(tree: &Tree) -> Vec<Fault> {
    let mut found = Vec::new();
    for file in files(tree, &[ENGINE]) {
        let tokens = file.tokens();
        let block = (0..tokens.len()).find(|at| is_impl_of(&tokens[*at..], "Engine"));
        if let Some(at) = block {
            let what = format!(
                "impl Engine; {FILES_MAX} files at most have it: make this a method of the \
                 component whose fields it uses"
            );
            found.push(Fault::new(file, file.source().lines[at], what));
        }
    }
    if found.len() <= FILES_MAX { Vec::new() } else { found }
}

/// `impl Engine`, `impl<…> Engine<…>`.
fn is_impl_of(tokens: &[Token], name: &str) -> bool {
    if !is_word(tokens.first(), "impl") {
        return false;
    }
    let mut angles = 0_usize;
    for token in &tokens[1..] {
        match token {
            Token::Punct('<') => angles += 1,
            Token::Punct('>') => angles = angles.saturating_sub(1),
            Token::Word(word) if angles == 0 => return word == name,
            Token::Open('{') => return false,
            _ => {}
        }
    }
    false
}

/// Fields of components that are not private; and components that do not exist.
pub(super) fn private_fields(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in COMPONENTS {
        let mut exists = false;
        for file in files(tree, COMPONENT_FOLDERS) {
            let tokens = file.tokens();
            let is_struct = |at: &usize| is_word(tokens.get(*at), "struct");
            let named = |at: &usize| is_word(tokens.get(at + 1), name);
            let Some(at) = (0..tokens.len()).filter(is_struct).find(named) else { continue };
            exists = true;
            faults.extend(visible_fields(file, at, name));
        }
        if !exists && tree.file("core/src/engine/mod.rs").is_some() {
            let what = format!("has no component {name}: change the list in {}", file!());
            faults.push(Fault { path: ENGINE.to_owned() + "mod.rs", line: 0, what });
        }
    }
    faults
}

/// The fields of the struct at `at` that have `pub`.
fn visible_fields(file: &SourceFile, at: usize, name: &str) -> Vec<Fault> {
    let source = file.source();
    let tokens = &source.tokens;
    let open = (at..tokens.len())
        .find(|at| matches!(tokens[*at], Token::Open('{') | Token::Open('(') | Token::Punct(';')));
    let Some(open) = open.filter(|open| tokens[*open] == Token::Open('{')) else { return vec![] };
    let fields = open..source.group_end(open);
    let visible = fields.filter(|at| is_word(tokens.get(*at), "pub"));
    let faults = visible.map(|at| {
        let what = format!("{name} has a field that other files see: give it a method instead");
        Fault::new(file, source.lines[at], what)
    });
    faults.collect()
}

/// Slots that are numbers.
pub(super) fn typed_slots(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files(tree, &[ENGINE]) {
        let source = file.source();
        for (at, window) in source.tokens.windows(3).enumerate() {
            let [Token::Word(name), Token::Punct(':'), kind] = window else { continue };
            if SLOTS.contains(&&**name) && is_word(Some(kind), "u32") {
                let what = format!(
                    "{name}: u32 does not say of what it is a slot: PeerSlot, ConnSlot, OpSlot, \
                     RecvSlot, StoredSlot"
                );
                faults.push(Fault::new(file, source.lines[at], what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "core/src/engine/a.rs";

    #[test]
    fn the_engine_has_an_impl_in_few_files() {
        let paths: Vec<String> = (0..5).map(|at| format!("core/src/engine/{at}.rs")).collect();
        let text = "impl<'s, M: Memory> Engine<'s, M> { }";
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (&**path, text)).collect();
        assert_eq!(one_facade(&Tree::of(&files)).len(), 5);
        files[0].1 = "impl Sender { fn f(e: &Engine) {} } impl Drop for Engine {}";
        assert!(one_facade(&Tree::of(&files)).is_empty());
    }

    #[test]
    fn a_component_keeps_its_fields_to_itself() {
        let text =
            "pub struct Sender { a: u8,\n pub(super) b: u8 }\npub struct Other { pub c: u8 }";
        let faults = private_fields(&Tree::of(&[(PATH, text)]));
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].line, 2);
        let text = "pub struct Path(u8); impl Path { pub fn f() {} }";
        assert!(private_fields(&Tree::of(&[(PATH, text)])).is_empty());
        let faults = private_fields(&Tree::of(&[("core/src/engine/mod.rs", "struct Engine;")]));
        assert_eq!(faults.len(), COMPONENTS.len() - 1);
    }

    #[test]
    fn a_slot_has_a_type() {
        let text = "fn f(active: u32, count: u32) {}\nstruct A { peer: u32 }\nfn g(op: OpSlot) {}";
        let lines: Vec<usize> = typed_slots(&Tree::of(&[(PATH, text), ("ffi/src/a.rs", text)]))
            .iter()
            .map(|one| one.line)
            .collect();
        assert_eq!(lines, [1, 2]);
    }
}

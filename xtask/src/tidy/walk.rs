// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk of one call through the code, in `docs/ARCHITECTURE.md`, is true.
//!
//! In: each table there with a number, `file` and `function` as its first columns, a call a row:
//!
//! ```text
//! | # | file | function | effect |
//! |---|---|---|---|
//! | 1 | `ffi/src/c_api/rma.rs` | `write` | pointers become a request |
//! | 2 | `ffi/src/endpoint/transfer.rs` | `Endpoint::post` | flags are resolved |
//! ```
//!
//! Out: rows with a file or function that does not exist, and rows with a function that does not
//! name the function of the next row.

use super::tokens::{Token, is_word};
use super::tree::{Fault, SourceFile, Tree};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";
const COLUMNS: [&str; 2] = ["file", "function"];

/// A row of a walk.
struct Step {
    line: usize,
    file: String,
    function: String,
    /// Whether it begins a table.
    is_first: bool,
}

/// Rows that the code contradicts.
pub(super) fn holds(tree: &Tree) -> Vec<Fault> {
    let Some(document) = tree.file(DOCUMENT) else { return Vec::new() };
    let steps = steps(&document.text);
    let mut faults = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let next = steps.get(at + 1).filter(|next| !next.is_first);
        if let Some(what) = problem(tree, step, next) {
            faults.push(Fault::new(document, step.line, what));
        }
    }
    faults
}

fn problem(tree: &Tree, step: &Step, next: Option<&Step>) -> Option<String> {
    let Some(file) = tree.file(&step.file) else {
        return Some(format!("the walk goes through {}, which is not there", step.file));
    };
    let bodies = bodies(file, name(&step.function));
    if bodies.is_empty() {
        return Some(format!("the walk names fn {}, which is not in {}", step.function, step.file));
    }
    let next = next?;
    let called = name(&next.function);
    let calls = bodies.iter().any(|body| body.iter().any(|token| is_word(Some(token), called)));
    (!calls).then(|| {
        format!(
            "{} in {} does not call {}, which is the next step of the walk",
            step.function, step.file, next.function
        )
    })
}

/// The last part of `Type::name`.
fn name(function: &str) -> &str {
    function.rsplit("::").next().unwrap_or(function)
}

/// The bodies of each function of this name.
fn bodies<'a>(file: &'a SourceFile, name: &str) -> Vec<&'a [Token]> {
    let source = file.source();
    let tokens = &source.tokens;
    let starts = (1..tokens.len())
        .filter(|at| is_word(tokens.get(at - 1), "fn") && is_word(tokens.get(*at), name));
    let bodies = starts.filter_map(|mut at| {
        loop {
            match tokens.get(at)? {
                Token::Open('{') => return Some(&tokens[at..source.group_end(at)]),
                Token::Open(_) => at = source.group_end(at),
                Token::Punct(';') => return None,
                _ => at += 1,
            }
        }
    });
    bodies.collect()
}

/// The rows of every walk.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // Whether the table is a walk; none outside of tables.
    let mut is_walk = None;
    let mut is_first = false;
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            is_walk = None;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(walk) = is_walk else {
            let titles: Vec<String> = cells.iter().map(|cell| cell.to_lowercase()).collect();
            is_walk = Some(titles.get(1..3).is_some_and(|two| two == COLUMNS));
            is_first = true;
            continue;
        };
        let is_rule = cells.iter().all(|cell| cell.trim_matches(['-', ':']).is_empty());
        if let (true, false, [_, file, function, ..]) = (walk, is_rule, &*cells) {
            let plain = |cell: &str| cell.trim_matches('`').trim_end_matches("()").to_owned();
            let (file, function) = (plain(file), plain(function));
            steps.push(Step { line: index + 1, file, function, is_first });
            is_first = false;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: &str = "| # | File | Function | |\n|---|---|---|---|\n\
        | 1 | `a.rs` | `write` | x |\n| 2 | `b.rs` | `B::post()` | |\n\n\
        | step | file | function |\n|--|--|--|\n| 1 | `a.rs` | `other` |\n\n\
        | step | what |\n|--|--|\n| 1 | `c.rs` |\n";

    fn faults(a: &str, b: &str) -> Vec<String> {
        let tree = Tree::of(&[(DOCUMENT, WALK), ("a.rs", a), ("b.rs", b)]);
        holds(&tree).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn a_true_walk_has_no_fault() {
        let a = "fn write<T>(x: [u8; 2]) -> u8 where T: X { b.post(x) } fn other() {}";
        assert!(faults(a, "impl B { fn post() {} }").is_empty());
        assert!(holds(&Tree::of(&[("a.rs", "")])).is_empty());
    }

    #[test]
    fn each_step_exists_and_calls_the_next() {
        let a = "fn write() { /* post */ } fn post_it() { post() }";
        let found = faults(a, "fn sent() { post() }");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains(":3: write in a.rs does not call B::post"), "{found:?}");
        assert!(found[1].contains(":4: the walk names fn B::post, which is not in b.rs"));
        assert!(found[2].contains(":8: the walk names fn other"), "{found:?}");
    }

    #[test]
    fn a_file_that_is_gone_is_a_fault() {
        let found = holds(&Tree::of(&[(DOCUMENT, WALK)]));
        assert!(found[0].what.contains("a.rs, which is not there"), "{found:?}");
    }
}

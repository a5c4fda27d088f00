// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk of one call through the code, in `docs/ARCHITECTURE.md`, is true.
//!
//! In: each numbered list there with a file and a function at the start of each item:
//!
//! ```text
//! 1. `ffi/src/c_api/rma.rs` `write`: pointers become a request
//! 2. `ffi/src/endpoint/transfer.rs` `Endpoint::post`: flags are resolved
//! ```
//!
//! Out: steps with a file or function that does not exist, and steps that do not call the next one.
//! `Type::name` stands in an `impl` of that type. A call has the name, its argument list, and a
//! fitting receiver. A function of another crate is public, so a façade between two crates is a
//! step of its own.

use super::tokens::{Token, is_word};
use super::tree::{Fault, SourceFile, Tree};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

/// An item of a walk.
struct Step {
    line: usize,
    file: String,
    function: String,
    /// Whether it begins a list.
    is_first: bool,
}

impl Step {
    /// The type of `Type::name`, and the name.
    fn parts(&self) -> (Option<&str>, &str) {
        match self.function.rsplit_once("::") {
            Some((owner, name)) => (Some(owner), name),
            None => (None, &self.function),
        }
    }
}

/// A function with its body.
struct Function<'a> {
    body: &'a [Token],
    /// Whether other crates can call it.
    is_public: bool,
}

/// Steps that the code contradicts.
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
    let found = functions(file, step);
    if found.is_empty() {
        return Some(format!("the walk names fn {}, which is not in {}", step.function, step.file));
    }
    let next = next?;
    if !found.iter().any(|function| calls(function.body, step, next)) {
        return Some(format!(
            "{} in {} does not call {}, which is the next step of the walk",
            step.function, step.file, next.function
        ));
    }
    let is_other_crate = tree.crate_of(&step.file) != tree.crate_of(&next.file);
    let callees = tree.file(&next.file).map(|file| functions(file, next)).unwrap_or_default();
    let is_hidden = !callees.is_empty() && !callees.iter().any(|function| function.is_public);
    (is_other_crate && is_hidden).then(|| {
        format!(
            "{} in {} cannot call {}, which is not public in its crate: a step is missing",
            step.function, step.file, next.function
        )
    })
}

/// Whether `body`, of the function of `step`, calls the function of `next`.
fn calls(body: &[Token], step: &Step, next: &Step) -> bool {
    let ((owner, _), (next_owner, name)) = (step.parts(), next.parts());
    let is = |at: Option<usize>, sign| at.and_then(|at| body.get(at)) == Some(&Token::Punct(sign));
    (0..body.len()).filter(|at| is_word(body.get(*at), name)).any(|at| {
        let is_turbofish = is(Some(at + 1), ':') && is(Some(at + 3), '<');
        if !is_turbofish && body.get(at + 1) != Some(&Token::Open('(')) {
            return false;
        }
        let before = at.checked_sub(1);
        if is(before, '.') {
            let is_self = at >= 2 && is_word(body.get(at - 2), "self");
            let is_own = is_self && !is(at.checked_sub(3), '.');
            return next_owner.is_some() && (!is_own || next_owner == owner);
        }
        if is(before, ':') {
            let path = at.checked_sub(3).and_then(|at| body.get(at));
            let named = next_owner.is_some_and(|next| is_word(path, next));
            let is_self = is_word(path, "Self") && next_owner == owner;
            return named || is_self || next_owner.is_none();
        }
        next_owner.is_none() && !before.is_some_and(|at| is_word(body.get(at), "fn"))
    })
}

/// The functions in `file` that `step` names.
fn functions<'a>(file: &'a SourceFile, step: &Step) -> Vec<Function<'a>> {
    let source = file.source();
    let tokens = &source.tokens;
    let (owner, name) = step.parts();
    let blocks: Vec<Block<'a>> = blocks(file);
    let starts = (1..tokens.len())
        .filter(|at| is_word(tokens.get(at - 1), "fn") && is_word(tokens.get(*at), name));
    let found = starts.filter_map(|start| {
        let block = blocks.iter().find(|block| (block.open..block.end).contains(&start));
        if block.map(|block| block.owner) != owner {
            return None;
        }
        let mut at = start;
        let body = loop {
            match tokens.get(at)? {
                Token::Open('{') => break &tokens[at..source.group_end(at)],
                Token::Open(_) => at = source.group_end(at),
                Token::Punct(';') => return None,
                _ => at += 1,
            }
        };
        let mut before = start - 1;
        let is_qualifier = |token: Option<&Token>| {
            let words = ["const", "unsafe", "extern"];
            token == Some(&Token::Literal) || words.iter().any(|word| is_word(token, word))
        };
        while before > 0 && is_qualifier(tokens.get(before - 1)) {
            before -= 1;
        }
        let is_pub = before > 0 && is_word(tokens.get(before - 1), "pub");
        let is_public = is_pub || block.is_some_and(|block| block.is_of_trait);
        Some(Function { body, is_public })
    });
    found.collect()
}

/// An `impl` block.
struct Block<'a> {
    open: usize,
    end: usize,
    owner: &'a str,
    is_of_trait: bool,
}

fn blocks(file: &SourceFile) -> Vec<Block<'_>> {
    let source = file.source();
    let tokens = &source.tokens;
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for at in (0..tokens.len()).filter(|at| is_word(tokens.get(*at), "impl")) {
        // `impl Trait` in the signature of a method is no block.
        if blocks.last().is_some_and(|block| at < block.end) {
            continue;
        }
        let (mut angles, mut owner, mut is_of_trait) = (0_usize, None, false);
        for behind in at + 1..tokens.len() {
            match &tokens[behind] {
                Token::Punct('<') => angles += 1,
                Token::Punct('>') if tokens[behind - 1] != Token::Punct('-') => {
                    angles = angles.saturating_sub(1);
                }
                Token::Word(word) if angles == 0 && word == "for" => is_of_trait = true,
                Token::Word(word) if angles == 0 && word == "where" => angles = usize::MAX / 2,
                Token::Word(word) if angles == 0 => owner = Some(&**word),
                Token::Open('{') => {
                    let end = source.group_end(behind);
                    let block = owner.map(|owner| Block { open: behind, end, owner, is_of_trait });
                    blocks.extend(block);
                    break;
                }
                Token::Close(_) | Token::Punct(';' | ',') if angles == 0 => break,
                _ => {}
            }
        }
    }
    blocks
}

/// The steps of every walk.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_first = true;
    for (index, line) in text.lines().enumerate() {
        if let Some((file, function)) = step(line) {
            steps.push(Step { line: index + 1, file, function, is_first });
            is_first = false;
        } else if !line.starts_with(' ') {
            is_first = true;
        }
    }
    steps
}

/// The file and the function of an item.
fn step(line: &str) -> Option<(String, String)> {
    let (number, item) = line.split_once(". ")?;
    number.parse::<u32>().ok()?;
    let (file, rest) = item.strip_prefix('`')?.split_once("` `")?;
    let (function, _) = rest.split_once('`')?;
    file.contains('.').then(|| (file.to_owned(), function.trim_end_matches("()").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: &str = "1. `a.rs` `write`: x\n   more\n2. `b/b.rs` `B::post()`\n\n\
        3. `a.rs` `other`: x\n\n1. A list of its own.\n2. `c.rs` is no step\n";

    fn faults(a: &str, b: &str) -> Vec<String> {
        let tree = Tree::of(&[(DOCUMENT, WALK), ("a.rs", a), ("b/b.rs", b), ("b/Cargo.toml", "")]);
        holds(&tree).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn a_true_walk_has_no_fault() {
        let a = "fn write<T>(x: [u8; 2]) -> u8 where T: X { b.post(x) } fn other() {}";
        let empty: [&str; 0] = [];
        assert_eq!(faults(a, "impl<T: Fn() -> u8> B<T> { pub fn post() {} }"), empty);
        let call = "fn write() { B::post::<u8>(x) } fn other() {}";
        assert_eq!(faults(call, "impl crate::Post for B<'_> { fn post() {} }"), empty);
        assert!(holds(&Tree::of(&[("a.rs", "")])).is_empty());
    }

    #[test]
    fn each_step_exists_and_calls_the_next() {
        let a = "fn write() { /* b.post() */ } fn post_it() { b.post() }";
        let found = faults(a, "impl B { fn sent() { post() } }");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains(":1: write in a.rs does not call B::post"), "{found:?}");
        assert!(found[1].contains(":3: the walk names fn B::post, which is not in b/b.rs"));
        assert!(found[2].contains(":5: the walk names fn other"), "{found:?}");
    }

    #[test]
    fn a_function_of_the_same_name_is_not_the_step() {
        let b = "impl B { pub fn post() {} } impl C { pub fn post() {} }";
        for body in ["post(x)", "C::post(x)", "self.post(x)", "x.post", "post::x"] {
            let found = faults(&format!("fn write() {{ {body} }} fn other() {{}}"), b);
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(found[0].contains("does not call B::post"), "{found:?}");
        }
        let a = "fn write() { b.post(x) } fn other() {}";
        assert!(faults(a, "impl C { pub fn post() {} }")[0].contains("not in b/b.rs"));
    }

    #[test]
    fn a_facade_between_crates_is_a_step() {
        let a = "fn write() { facade.post(x) } fn other() {}";
        for hidden in ["pub(crate) fn", "fn", "unsafe fn"] {
            let found = faults(a, &format!("impl B {{ {hidden} post() {{}} }}"));
            assert!(found[0].contains("cannot call B::post"), "{found:?}");
        }
        assert!(faults(a, "impl B { pub const unsafe fn post() {} }").is_empty());
    }

    #[test]
    fn a_file_that_is_gone_is_a_fault() {
        let found = holds(&Tree::of(&[(DOCUMENT, WALK)]));
        assert!(found[0].what.contains("a.rs, which is not there"), "{found:?}");
    }
}

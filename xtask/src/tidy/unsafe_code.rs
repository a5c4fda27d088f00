// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unsafe code lives in a short list of files, each with a limit.
//!
//! Counted: unsafe blocks, functions, impls, foreign blocks and attributes; not counted: pointer
//! types to unsafe functions, which do nothing. That each has a SAFETY comment is clippy's
//! business.

use std::fmt::Write as _;

use super::tokens::{Token, is_word, tokens};
use super::{Fault, SourceFile, Tree};

/// File, the most unsafe that it may hold. Raising a number is a decision: say in the commit why
/// the operation cannot be safe.
const ALLOWED: &[(&str, usize)] = &[
    ("bpf/src/raw.rs", 6),
    ("examples/src/fabric/abi.rs", 41),
    ("examples/src/fabric/buffers.rs", 6),
    ("examples/src/fabric/endpoint.rs", 6),
    ("examples/src/fabric/endpoint/completion.rs", 7),
    ("examples/src/fabric/endpoint/open.rs", 12),
    ("examples/src/fabric/endpoint/peers.rs", 3),
    ("examples/src/fabric/endpoint/rma.rs", 4),
    ("examples/src/fabric/info.rs", 23),
    ("examples/src/fabric/listener.rs", 10),
    ("examples/src/fabric/object.rs", 13),
    ("ffi/src/abi.rs", 26),
    ("ffi/src/abi/library.rs", 15),
    ("ffi/src/bindings.rs", 5),
    ("ffi/src/fid.rs", 11),
    ("ffi/src/memory.rs", 6),
    ("ffi/src/memory/atomic.rs", 5),
    ("ffi/src/memory/buffer.rs", 12),
    ("ffi/src/provider.rs", 12),
    ("ffi/src/shim/atomic.rs", 36),
    ("ffi/src/shim/atomic/arguments.rs", 6),
    ("ffi/src/shim/av.rs", 40),
    ("ffi/src/shim/cntr.rs", 17),
    ("ffi/src/shim/cq.rs", 35),
    ("ffi/src/shim/domain.rs", 39),
    ("ffi/src/shim/ep.rs", 17),
    ("ffi/src/shim/eq.rs", 18),
    ("ffi/src/shim/fabric.rs", 30),
    ("ffi/src/shim/fid.rs", 34),
    ("ffi/src/shim/info.rs", 35),
    ("ffi/src/shim/infos.rs", 22),
    ("ffi/src/shim/interpose.rs", 62),
    ("ffi/src/shim/mod.rs", 16),
    ("ffi/src/shim/mr.rs", 18),
    ("ffi/src/shim/msg.rs", 34),
    ("ffi/src/shim/nic.rs", 16),
    ("ffi/src/shim/passthrough.rs", 34),
    ("ffi/src/shim/passthrough/place.rs", 5),
    ("ffi/src/shim/poll.rs", 14),
    ("ffi/src/shim/raw_key.rs", 15),
    ("ffi/src/shim/rma.rs", 28),
    ("ffi/src/shim/srx.rs", 2),
    ("ffi/src/shim/stx.rs", 2),
    ("ffi/src/shim/tagged.rs", 32),
    ("ffi/src/shim/tests.rs", 9),
    ("ffi/src/shim/unsupported.rs", 2),
    ("ffi/src/shim/wait.rs", 5),
    ("ffi/src/shim/work.rs", 39),
    ("tests/conformance/src/abi.rs", 4),
    ("tests/conformance/src/fi/cq.rs", 4),
    ("tests/conformance/src/fi/domain.rs", 3),
    ("tests/conformance/src/fi/ep.rs", 1),
    ("tests/conformance/src/fi/eq.rs", 1),
    ("tests/conformance/src/fi/info.rs", 14),
    ("tests/conformance/src/fi/mem.rs", 4),
    ("tests/conformance/src/fi/mod.rs", 16),
    ("tests/conformance/src/fi/mr.rs", 2),
    ("tests/no_std/src/lib.rs", 1),
    ("tests/src/process.rs", 1),
    ("xdp/broker/src/raw.rs", 1),
    // One for each way to sum, and the tests'.
    ("xdp/checksum/src/lib.rs", 4),
    ("xdp/src/mapping.rs", 5),
    ("xdp/src/ring.rs", 7),
    ("xdp/src/steering/ioctl.rs", 1),
    ("xdp/src/umem.rs", 2),
    // The one ioctl(2) that makes a TAP device.
    ("xdp/tests/hearing.rs", 1),
];

/// More unsafe in a file than the list allows, or a list entry without its file.
pub(super) fn listed(tree: &Tree) -> Vec<Fault> {
    against(tree, ALLOWED)
}

fn against(tree: &Tree, allowed: &[(&str, usize)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["rs"]) {
        let count = count(file);
        let limit = allowed.iter().find(|(path, _)| *path == file.path).map_or(0, |one| one.1);
        if count > limit {
            let what = format!(
                "{count} unsafe items, {limit} allowed: move them to a listed file, or change the \
                 list in xtask/src/tidy/unsafe_code.rs and say why"
            );
            faults.push(Fault::new(file, 0, what));
        }
    }
    let gone = allowed.iter().filter(|(path, _)| tree.file(path).is_none());
    faults.extend(gone.map(|(path, _)| Fault {
        path: (*path).to_owned(),
        line: 0,
        what: "is in the list of unsafe files and does not exist: remove the entry".to_owned(),
    }));
    faults
}

/// The files with unsafe code, for people.
pub(super) fn table(tree: &Tree) -> String {
    let mut text = String::from("unsafe items by file:");
    let mut total = 0;
    for file in tree.with_extension(&["rs"]) {
        let count = count(file);
        if count > 0 {
            total += count;
            let _ = write!(text, "\n    {count:>4}  {}", file.path);
        }
    }
    let _ = write!(text, "\n    {total:>4}  in all");
    text
}

fn count(file: &SourceFile) -> usize {
    let tokens = tokens(&file.text);
    let starts = tokens.iter().enumerate().filter(|(_, token)| is_word(Some(token), "unsafe"));
    starts.filter(|(at, _)| !is_pointer_type(&tokens[at + 1..])).count()
}

/// After `unsafe`: `fn(` or `extern "C" fn(`, where a definition would have a name before the `(`.
fn is_pointer_type(rest: &[Token]) -> bool {
    let mut rest = rest.iter();
    let mut next = rest.next();
    if is_word(next, "extern") {
        next = rest.next();
        if next == Some(&Token::Literal) {
            next = rest.next();
        }
    }
    is_word(next, "fn") && rest.next() == Some(&Token::Open('('))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        // unsafe { in a comment }
        type Slot = Option<unsafe extern \"C\" fn(usize) -> i32>;
        unsafe extern \"C\" fn f() { unsafe { g() }; \"unsafe\"; }
        unsafe impl Send for X {}
        #[unsafe(no_mangle)] fn h() {}
    ";

    #[test]
    fn blocks_functions_and_impls_count_and_types_do_not() {
        assert_eq!(count(&SourceFile { path: "a.rs".into(), text: SOURCE.into() }), 4);
    }

    #[test]
    fn a_file_that_is_not_listed_fails() {
        let faults = against(&Tree::of(&[("a.rs", SOURCE)]), &[]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].what.contains("4 unsafe items, 0 allowed"), "{}", faults[0]);
    }

    #[test]
    fn a_limit_holds_and_an_entry_must_exist() {
        let tree = Tree::of(&[("a.rs", SOURCE)]);
        assert!(against(&tree, &[("a.rs", 4)]).is_empty());
        assert_eq!(against(&tree, &[("a.rs", 3)]).len(), 1);
        let faults = against(&tree, &[("a.rs", 4), ("gone.rs", 1)]);
        assert_eq!(faults[0].path, "gone.rs");
    }

    #[test]
    fn the_table_shows_each_file() {
        let table = table(&Tree::of(&[("a.rs", SOURCE), ("b.rs", "fn f() {}")]));
        assert!(table.contains("4  a.rs") && !table.contains("b.rs"), "{table}");
    }
}

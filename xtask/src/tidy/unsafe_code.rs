// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unsafe code lives in a short list of files, each with a limit.
//!
//! Counted: unsafe blocks, functions, impls, foreign blocks and attributes; not counted: pointer
//! types to unsafe functions, which do nothing. That each has a SAFETY comment is clippy's
//! business.

use std::fmt::Write as _;

use super::tokens::{Token, is_word};
use super::tree::{Fault, SourceFile, Tree};

/// File, the most unsafe that it may hold. Raising a number is a decision: say in the commit why
/// the operation cannot be safe.
const ALLOWED: &[(&str, usize)] = &[
    ("bpf/src/raw.rs", 6),
    ("ffi/libfabric-sys/src/bindings.rs", 5),
    ("ffi/libfabric-sys/src/inline/mod.rs", 4),
    ("ffi/libfabric-sys/src/lib.rs", 4),
    ("ffi/libfabric-sys/src/running.rs", 17),
    ("ffi/libfabric/src/buffers.rs", 7),
    ("ffi/libfabric/src/raw/cq.rs", 5),
    ("ffi/libfabric/src/raw/domain.rs", 3),
    ("ffi/libfabric/src/raw/ep.rs", 1),
    ("ffi/libfabric/src/raw/eq.rs", 3),
    ("ffi/libfabric/src/raw/info.rs", 16),
    ("ffi/libfabric/src/raw/mem.rs", 7),
    ("ffi/libfabric/src/raw/mc.rs", 1),
    ("ffi/libfabric/src/raw/mod.rs", 5),
    ("ffi/libfabric/src/raw/mr.rs", 2),
    ("ffi/src/c_api/args.rs", 2),
    ("ffi/src/c_api/atomic.rs", 37),
    ("ffi/src/c_api/atomic/arguments.rs", 8),
    ("ffi/src/c_api/av.rs", 40),
    ("ffi/src/c_api/cm.rs", 25),
    ("ffi/src/c_api/cntr.rs", 17),
    ("ffi/src/c_api/cq.rs", 39),
    ("ffi/src/c_api/deferred_work.rs", 36),
    ("ffi/src/c_api/domain.rs", 43),
    ("ffi/src/c_api/endpoint.rs", 17),
    ("ffi/src/c_api/eq.rs", 28),
    ("ffi/src/c_api/fabric.rs", 30),
    ("ffi/src/c_api/fid.rs", 35),
    ("ffi/src/c_api/info.rs", 39),
    ("ffi/src/c_api/mod.rs", 16),
    ("ffi/src/c_api/mr.rs", 18),
    ("ffi/src/c_api/msg.rs", 34),
    ("ffi/src/c_api/multicast.rs", 5),
    ("ffi/src/c_api/nic.rs", 46),
    ("ffi/src/c_api/object.rs", 11),
    ("ffi/src/c_api/passive_ep.rs", 27),
    ("ffi/src/c_api/passthrough/info_list.rs", 14),
    ("ffi/src/c_api/passthrough/interface_list.rs", 5),
    ("ffi/src/c_api/passthrough/offers.rs", 34),
    ("ffi/src/c_api/passthrough/table_copy.rs", 62),
    ("ffi/src/c_api/poll_set.rs", 14),
    ("ffi/src/c_api/raw_key.rs", 15),
    ("ffi/src/c_api/rma.rs", 34),
    ("ffi/src/c_api/scalable.rs", 17),
    ("ffi/src/c_api/srx.rs", 2),
    ("ffi/src/c_api/stx.rs", 2),
    ("ffi/src/c_api/tagged.rs", 32),
    ("ffi/src/c_api/tests.rs", 9),
    ("ffi/src/c_api/trigger.rs", 10),
    ("ffi/src/c_api/unsupported.rs", 2),
    ("ffi/src/c_api/wait_set.rs", 5),
    // The name and the version of the provider structure, which are chosen at load.
    ("ffi/src/c_api/provider.rs", 13),
    ("ffi/src/runtime/memory/atomic.rs", 5),
    ("ffi/src/runtime/memory/buffer.rs", 14),
    ("ffi/src/runtime/memory/mod.rs", 6),
    ("ffi/src/sys/abi.rs", 26),
    ("ffi/src/sys/owned_info.rs", 15),
    ("ffi/src/sys/process.rs", 1),
    // The allocator: a trait that is unsafe to implement.
    ("ffi/src/sys/reserve.rs", 16),
    ("tests/conformance/src/process.rs", 9),
    ("tests/engine/no_std/src/lib.rs", 1),
    ("tests/harness/src/process.rs", 1),
    // The one ioctl(2) that makes a TAP device, and the priority of the thread that serves them.
    ("tests/harness/src/relay/device.rs", 1),
    ("tests/harness/src/relay/schedule.rs", 1),
    ("xdp/broker/src/raw.rs", 3),
    // One for each way to sum, and the tests'.
    ("xdp/checksum/src/lib.rs", 4),
    // The name of an interface, and the request by it.
    ("xdp/src/ethtool/ioctl.rs", 3),
    // The child of a fork takes descriptors by their numbers: it does not use their owners.
    ("xdp/src/fork.rs", 1),
    // A thread without the standard library's allocations, which cannot be refused.
    ("xdp/src/thread.rs", 9),
    ("xdp/src/xsk/mapping.rs", 6),
    ("xdp/src/xsk/ring.rs", 7),
    ("xdp/src/xsk/umem.rs", 2),
    // The one ioctl(2) that makes a TAP device.
    ("xdp/tests/receive_test.rs", 1),
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
    let tokens = file.tokens();
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
        assert_eq!(count(&SourceFile::new("a.rs", SOURCE)), 4);
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

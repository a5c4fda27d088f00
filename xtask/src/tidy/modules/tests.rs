// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn imports(files: &[(&str, &str)]) -> Vec<String> {
    let mut files = files.to_vec();
    files.push(("a/Cargo.toml", ""));
    let tree = Tree::of(&files);
    let crates = crates(&tree);
    let imports = crates.iter().flat_map(Crate::imports);
    let short = |path: &str| path.trim_start_matches("a/src/").to_owned();
    imports.map(|one| format!("{}:{} {}", short(&one.from), one.line, short(&one.to))).collect()
}

#[test]
fn groups_and_paths_are_imports_and_declarations_are_none() {
    let files = [
        ("a/src/lib.rs", "mod b;\nmod c;\n"),
        ("a/src/b.rs", "use std::fmt;\nuse crate::{c::{self, d::{E, F as G}}, missing};\n"),
        ("a/src/c/mod.rs", "pub mod d;\nfn f() { let x = crate::b::y::<u8>(); d::E::new() }\n"),
        ("a/src/c/d.rs", "pub struct E;\nuse super::super::b::*;\n"),
    ];
    let expected = [
        "b.rs:2 c/d.rs",
        "b.rs:2 c/mod.rs",
        "b.rs:2 lib.rs",
        "c/d.rs:2 b.rs",
        "c/mod.rs:2 b.rs",
        "c/mod.rs:2 c/d.rs",
    ];
    assert_eq!(imports(&files), expected);
}

#[test]
fn a_name_is_followed_to_the_file_that_defines_it() {
    let files = [
        ("a/src/lib.rs", "pub(crate) use self::c::E;\npub use b::*;\n"),
        ("a/src/b.rs", "pub struct B; use crate::E;\n"),
        ("a/src/c/mod.rs", "mod d;\npub(super) use d::E;\n"),
        ("a/src/c/d.rs", "pub struct E;\nuse crate::B;\n"),
    ];
    assert_eq!(imports(&files), ["b.rs:1 c/d.rs", "c/d.rs:2 b.rs"]);
}

#[test]
fn tests_are_left_out() {
    let files = [
        ("a/src/lib.rs", ""),
        (
            "a/src/b.rs",
            "#[cfg(test)]\nmod tests { use crate::c::X; }\n#[cfg(test)]\nuse crate::c;\n",
        ),
        ("a/src/b/tests.rs", "use crate::c::X;"),
        ("a/src/c.rs", "#[cfg(not(test))]\nuse crate::b::Y;\nmod d { use super::super::b; }\n"),
    ];
    assert_eq!(imports(&files), ["c.rs:2 b.rs"]);
}

#[test]
fn a_local_use_of_a_name_in_scope_is_no_second_import() {
    let files = [
        ("a/src/lib.rs", ""),
        ("a/src/b.rs", "use std::fmt; use fmt::Write; use log::debug; fn f() { log::trace!() }"),
    ];
    assert!(imports(&files).is_empty());
}

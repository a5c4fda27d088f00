// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long files and lines may be. The length of functions is clippy's business.

use super::tree::{Fault, SourceFile, Tree};

/// Lines: a product file beyond this is worth a look, …
const PRODUCT_NOTE: usize = 400;
/// … and any file beyond this holds two things.
const FILE_MAX: usize = 600;
/// Characters.
const LINE_MAX: usize = 100;

fn written(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.with_extension(&["rs", "c", "h"]).filter(|file| !file.is_generated())
}

/// Files longer than a file may be.
pub(super) fn files(tree: &Tree) -> Vec<Fault> {
    let over = written(tree).filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > FILE_MAX)
            .then(|| Fault::new(file, 0, format!("{lines} lines, {FILE_MAX} at most: split it")))
    });
    over.collect()
}

/// Product files near their limit, as notes.
pub(super) fn long_files(tree: &Tree) -> Vec<Fault> {
    let over = written(tree).filter(|file| !file.is_test()).filter_map(|file| {
        let lines = file.text.lines().count();
        (PRODUCT_NOTE < lines && lines <= FILE_MAX)
            .then(|| Fault::new(file, 0, format!("{lines} lines; {FILE_MAX} at most")))
    });
    over.collect()
}

/// Lines longer than fit beside another file.
pub(super) fn lines(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in written(tree) {
        for (index, line) in file.text.lines().enumerate() {
            let length = line.chars().count();
            // A link cannot be broken, nor a row of a table in a comment.
            let whole =
                line.contains("https://") || line.contains("//! | ") || line.contains("/// | ");
            if length > LINE_MAX && !whole {
                let what = format!("{length} characters, {LINE_MAX} at most");
                faults.push(Fault::new(file, index + 1, what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_fail() {
        let long = "x\n".repeat(601);
        let tree = Tree::of(&[("a.rs", &long), ("tests/a.rs", &long), ("a.md", &long)]);
        let faults: Vec<_> = files(&tree).iter().map(ToString::to_string).collect();
        let what = "601 lines, 600 at most: split it";
        assert_eq!(faults, [format!("a.rs: {what}"), format!("tests/a.rs: {what}")]);
        let generated = format!("// Made by a program; do not edit.\n{long}");
        assert!(files(&Tree::of(&[("a.rs", &generated)])).is_empty());
    }

    #[test]
    fn a_file_near_its_limit_is_noted() {
        let text = "x\n".repeat(401);
        assert_eq!(long_files(&Tree::of(&[("a.rs", &text), ("tests/a.rs", &text)])).len(), 1);
        assert!(files(&Tree::of(&[("a.rs", &text)])).is_empty());
    }

    #[test]
    fn a_long_line_fails_in_c_too() {
        let line = format!("ok\n{}\n", "é".repeat(101));
        let faults = lines(&Tree::of(&[("a.h", &line), ("b.rs", &"é".repeat(100))]));
        assert_eq!(faults.len(), 1);
        assert_eq!((faults[0].path.as_str(), faults[0].line), ("a.h", 2));
        let link = format!("// https://{}", "a".repeat(100));
        let row = format!("//! | {} |", "a".repeat(100));
        assert!(lines(&Tree::of(&[("a.rs", &link), ("b.rs", &row)])).is_empty());
    }
}

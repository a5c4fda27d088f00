// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text that each file must have, and text that no file may have.

use super::tree::{Fault, SourceFile, Tree};

/// Every file's licence, as an SPDX expression, …
const LICENCE: &str = "MIT OR Apache-2.0";
/// … but for programs that run in the kernel, which asks for its own licence or a compatible one.
const KERNEL_LICENCE: &str = "GPL-2.0 OR MIT OR Apache-2.0";
const KERNEL_FOLDER: &str = "bpf/src/bpf/";

/// Marks of unfinished work. In parts, so that this file has none.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

/// Beginnings of paths that exist on one person's machine only.
const PRIVATE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Rust, C and scripts.
fn is_source(file: &SourceFile) -> bool {
    file.is(&["rs", "c", "h", "sh"]) || file.text.starts_with("#!/")
}

/// The licence line comes first (in a script after `#!`), and is the project's.
pub(super) fn licence_line(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| is_source(file)) {
        let kernel = file.path.starts_with(KERNEL_FOLDER);
        let licence = if kernel { KERNEL_LICENCE } else { LICENCE };
        let first = file.text.lines().find(|line| !line.starts_with("#!/")).unwrap_or_default();
        let first =
            first.trim_start_matches(['/', '*', '#', ' ']).trim_end_matches(['*', '/', ' ']);
        if first.strip_prefix("SPDX-License-Identifier: ") != Some(licence) {
            let what = format!("the first line must be SPDX-License-Identifier: {licence}");
            faults.push(Fault::new(file, 1, what));
        }
    }
    faults
}

/// A Rust file says its purpose at its top. A module of tests has that of the tested file.
pub(super) fn module_doc(tree: &Tree) -> Vec<Fault> {
    let rust = tree.with_extension(&["rs"]).filter(|file| !file.path.ends_with("/tests.rs"));
    let silent = rust.filter(|file| {
        let after_licence = file.text.lines().skip(1);
        let mut lines = after_licence.filter(|line| !line.is_empty() && !line.starts_with("#!["));
        // A generated file's comment says how it was made.
        !lines.next().is_some_and(|line| line.starts_with("//"))
    });
    silent.map(|file| Fault::new(file, 2, "has no module documentation (//!)")).collect()
}

/// No unfinished work is noted in the text: it belongs into an issue.
pub(super) fn leftovers(tree: &Tree) -> Vec<Fault> {
    matches(tree, LEFTOVERS, "is a mark of unfinished work")
}

/// No file depends on the folders of one machine.
pub(super) fn private_paths(tree: &Tree) -> Vec<Fault> {
    matches(tree, PRIVATE_PATHS, "is a path of one machine")
}

fn matches(tree: &Tree, words: &[&str], what: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                faults.push(Fault::new(file, index + 1, format!("{word:?} {what}")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(faults: Vec<Fault>) -> Vec<String> {
        faults.into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn a_source_without_its_licence_fails() {
        let tree = Tree::of(&[
            ("a.rs", "//! Doc.\n"),
            ("b.c", "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n"),
            ("c.rs", "// SPDX-License-Identifier: GPL-3.0\n"),
            ("bpf/src/bpf/d.h", "/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */\n"),
            ("bpf/src/bpf/e.h", "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n"),
            (".ci/run", "#!/bin/sh\n# SPDX-License-Identifier: MIT OR Apache-2.0\n"),
            ("f", "#!/bin/sh\nset -e\n"),
            ("README.md", "no line needed"),
        ]);
        assert_eq!(paths(licence_line(&tree)), ["a.rs", "c.rs", "bpf/src/bpf/e.h", "f"]);
    }

    #[test]
    fn a_module_without_documentation_fails() {
        let tree = Tree::of(&[
            ("a.rs", "// SPDX\n\n#![no_std]\n//! Doc.\n"),
            ("b.rs", "// SPDX\nuse std::fs;\n//! Late.\n"),
            ("x/tests.rs", "// SPDX\nuse super::*;\n"),
        ]);
        assert_eq!(paths(module_doc(&tree)), ["b.rs"]);
    }

    #[test]
    fn every_mark_of_unfinished_work_is_found() {
        for mark in LEFTOVERS {
            let text = format!("fine\n    {mark} later\n");
            let faults = leftovers(&Tree::of(&[("a.rs", &text)]));
            assert_eq!(faults.len(), 1, "{mark}");
            assert_eq!(faults[0].line, 2);
        }
        assert!(leftovers(&Tree::of(&[("a.md", "to do, fix me")])).is_empty());
    }

    #[test]
    fn every_private_path_is_found() {
        for path in PRIVATE_PATHS {
            let text = format!("see {path}x");
            assert_eq!(private_paths(&Tree::of(&[("a.md", &text)])).len(), 1, "{path}");
        }
        assert!(private_paths(&Tree::of(&[("a.md", "see /usr/lib/libfabric")])).is_empty());
    }
}

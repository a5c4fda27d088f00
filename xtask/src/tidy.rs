// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tidy: the rules of this code base that no common tool knows.
//!
//! In: the project's text files. Out: one line for each fault, with file, line and what to do, and
//! failure if there is one. Called by people and by `test --all`. Each rule is a function from the
//! tree to its faults and has a test that shows it fire.

mod documents;
mod layering;
mod mutations;
mod size;
mod text;
mod tokens;
mod unsafe_code;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use walkdir::{DirEntry, WalkDir};

/// A file of the project.
#[derive(Debug)]
struct SourceFile {
    /// From the top of the project, with `/`.
    path: String,
    text: String,
}

impl SourceFile {
    /// Whether its name ends in one of `extensions`.
    fn is(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extensions.iter().any(|one| extension == *one))
    }

    /// Whether it holds tests, or helps them.
    fn is_test(&self) -> bool {
        let folders = ["tests/", "benches/"];
        self.path.ends_with("/tests.rs")
            || folders.iter().any(|folder| {
                self.path.starts_with(folder) || self.path.contains(&format!("/{folder}"))
            })
    }
}

/// All files that rules look at.
#[derive(Debug)]
struct Tree {
    files: Vec<SourceFile>,
}

impl Tree {
    /// Reads every text file below `root` but what is generated, fetched or git's.
    fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_ours) {
            let entry = entry?;
            if !entry.file_type().is_file() {
                continue;
            }
            let bytes = fs::read(entry.path())
                .with_context(|| format!("cannot read {}", entry.path().display()))?;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
            files.push(SourceFile { path, text });
        }
        Ok(Self { files })
    }

    fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    fn with_extension<'a>(
        &'a self,
        extensions: &'a [&'a str],
    ) -> impl Iterator<Item = &'a SourceFile> {
        self.files.iter().filter(move |file| file.is(extensions))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { files: files.iter().map(file).collect() }
    }
}

/// Folders called `target`, hidden ones but those with our own configuration, the corpus of the
/// fuzz targets and lock files are not ours to tidy.
fn is_ours(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let hidden = name.starts_with('.') && entry.depth() > 0;
    let kept = [".ci", ".cargo", ".config"].contains(&&*name);
    (!hidden || kept) && !["target", "corpus", "Cargo.lock"].contains(&&*name)
}

/// Something against a rule.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    path: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    what: String,
}

impl Fault {
    fn new(file: &SourceFile, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Every rule, by what it keeps.
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
    mutations::apply,
];

/// Applies every rule to the project at `root`.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    println!("{}", unsafe_code::table(&tree));
    for note in size::long_files(&tree) {
        println!("note: {note}");
    }
    let faults: Vec<Fault> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        bail!("{} faults against the rules of CONTRIBUTING.md", faults.len());
    }
    println!("tidy: {} files, {} rules, no fault", tree.files.len(), RULES.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_their_place() {
        let is_test = |path| SourceFile { path: String::from(path), text: String::new() }.is_test();
        assert!(is_test("tests/src/netns.rs") && is_test("bpf/tests/redirect.rs"));
        assert!(is_test("core/src/slab/tests.rs"));
        assert!(!is_test("core/src/slab.rs") && !is_test("xdp/src/contests.rs"));
    }

    #[test]
    fn a_fault_names_its_place() {
        let file = SourceFile { path: "a.rs".into(), text: String::new() };
        assert_eq!(Fault::new(&file, 3, "x").to_string(), "a.rs:3: x");
        assert_eq!(Fault::new(&file, 0, "x").to_string(), "a.rs: x");
    }

    #[test]
    fn a_tree_is_read_without_what_is_generated() {
        let root = std::env::temp_dir().join(format!("xtask-tidy-{}", std::process::id()));
        for (path, text) in
            [("a/b.rs", "x"), ("target/c.rs", "x"), (".git/d", "x"), (".ci/run", "")]
        {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        let tree = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "a/b.rs"]);
    }
}

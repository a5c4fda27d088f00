// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project as the rules see it: files, and faults in them.
//!
//! In: the folder of the project. Out: every text file, read once. Called by `tidy` and its rules.

use std::cell::OnceCell;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Error, Result};
use walkdir::{DirEntry, WalkDir};

use super::exceptions::{self, Exceptions};
use super::tokens::{Source, Token};

/// A file of the project.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// From the top of the project, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// Read when a rule first asks for it.
    source: OnceCell<Source>,
}

impl SourceFile {
    pub(super) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), source: OnceCell::new() }
    }

    /// The tokens and comments of a file in Rust or C.
    pub(super) fn source(&self) -> &Source {
        self.source.get_or_init(|| Source::read(&self.text))
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.source().tokens
    }

    /// Whether a program wrote it.
    pub(super) fn is_generated(&self) -> bool {
        self.text
            .lines()
            .take(3)
            .any(|line| line.starts_with("//") && line.ends_with("do not edit."))
    }

    /// Whether its name ends in one of `extensions`.
    pub(super) fn is(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extensions.iter().any(|one| extension == *one))
    }

    /// Whether it holds tests, or helps them.
    pub(super) fn is_test(&self) -> bool {
        let folders = ["tests/", "benches/"];
        self.path.ends_with("/tests.rs")
            || folders.iter().any(|folder| {
                self.path.starts_with(folder) || self.path.contains(&format!("/{folder}"))
            })
    }
}

/// All files that the rules read.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) files: Vec<SourceFile>,
    pub(super) exceptions: Exceptions,
}

impl Tree {
    /// Reads every text file below `root`, without build output, fetched files and git's own.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_ours) {
            let entry = entry?;
            if !entry.file_type().is_file() {
                continue;
            }
            let bytes = fs::read(entry.path())
                .with_context(|| format!("cannot read {}", entry.path().display()))?;
            let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
            // An input of a fuzz target has a name, and nothing to read.
            let bytes = if path.contains("/corpus/") { Vec::new() } else { bytes };
            let Ok(text) = String::from_utf8(bytes) else { continue };
            files.push(SourceFile::new(path, text));
        }
        let mut tree = Self { files, exceptions: Exceptions::default() };
        if let Some(file) = tree.file(exceptions::FILE) {
            tree.exceptions = Exceptions::read(&file.text).map_err(Error::msg)?;
        }
        Ok(tree)
    }

    /// The folder of the crate that `path` belongs to: the nearest one with a manifest. The top of
    /// the project is `.`.
    pub(super) fn crate_of<'a>(&self, path: &'a str) -> &'a str {
        let mut folder = path;
        while let Some((above, _)) = folder.rsplit_once('/') {
            if self.file(&format!("{above}/Cargo.toml")).is_some() {
                return above;
            }
            folder = above;
        }
        "."
    }

    pub(super) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn with_extension<'a>(
        &'a self,
        extensions: &'a [&'a str],
    ) -> impl Iterator<Item = &'a SourceFile> {
        self.files.iter().filter(move |file| file.is(extensions))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile::new(*path, *text);
        let files = files.iter().map(file).collect();
        Self { files, exceptions: Exceptions::default() }
    }
}

/// Not ours to tidy: folders called `target`, hidden ones but those with our own configuration, and
/// lock files.
fn is_ours(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let hidden = name.starts_with('.') && entry.depth() > 0;
    let kept = [".ci", ".cargo", ".config"].contains(&&*name);
    (!hidden || kept) && !["target", "Cargo.lock"].contains(&&*name)
}

/// Something against a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) path: String,
    /// From 1; 0 is the file as a whole.
    pub(super) line: usize,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn new(file: &SourceFile, line: usize, what: impl Into<String>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_their_place() {
        let is_test = |path: &str| SourceFile::new(path, "").is_test();
        assert!(is_test("tests/harness/src/netns.rs") && is_test("bpf/tests/redirect.rs"));
        assert!(is_test("core/src/collections/slab/tests.rs"));
        assert!(!is_test("core/src/collections/slab.rs") && !is_test("xdp/src/contests.rs"));
    }

    #[test]
    fn a_fault_names_its_place() {
        let file = SourceFile::new("a.rs", "");
        assert_eq!(Fault::new(&file, 3, "x").to_string(), "a.rs:3: x");
        assert_eq!(Fault::new(&file, 0, "x").to_string(), "a.rs: x");
    }

    #[test]
    fn a_tree_is_read_without_generated_files() {
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy of the project, kept up to date.
//!
//! In: two folders. Out: the second has the files of the first. Equal files are left
//! alone, so that cargo sees only the changes. Called by `cargo xtask mutate` only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use walkdir::{DirEntry, WalkDir};

/// Makes `to` a copy of the project at `from`.
pub(super) fn sync(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let wanted = files(from)?;
    for path in &wanted {
        let bytes = fs::read(from.join(path))?;
        let copy = to.join(path);
        if fs::read(&copy).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&copy, bytes).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    for path in files(to)?.difference(&wanted) {
        fs::remove_file(to.join(path))?;
    }
    Ok(())
}

/// Every file of a project, from its top.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in WalkDir::new(root).into_iter().filter_entry(is_source) {
        let entry = entry?;
        if entry.file_type().is_file() {
            files.insert(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    Ok(files)
}

/// Whether an entry is a source: no build output, and nothing of git.
fn is_source(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let hidden = name.starts_with('.') && name != ".cargo";
    entry.depth() == 0 || (!hidden && name != "target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_its_source_and_leaves_equal_files_alone() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("target/to"));
        for (path, text) in [("a/b", "1"), ("c", "2"), ("target/d", "3"), (".git/e", "4")] {
            let file = from.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        sync(&from, &to).unwrap();
        let there: Vec<PathBuf> = files(&to).unwrap().into_iter().collect();
        assert_eq!(there, [Path::new("a/b"), Path::new("c")]);
        let written = || fs::metadata(to.join("c")).unwrap().modified().unwrap();
        let before = written();
        fs::write(from.join("a/b"), "5").unwrap();
        sync(&from, &to).unwrap();
        assert_eq!(written(), before);
        assert_eq!(fs::read_to_string(to.join("a/b")).unwrap(), "5");
        fs::remove_file(from.join("c")).unwrap();
        sync(&from, &to).unwrap();
        assert!(!to.join("c").exists());
        fs::remove_dir_all(&root).unwrap();
    }
}

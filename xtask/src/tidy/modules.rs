// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules of a crate and the imports between its files.
//!
//! In: the tree. Out: for each crate, which file names which other file, and on which line. A name
//! is followed through `use` declarations to the file that defines it. A `mod` declaration and a
//! re-export (`pub use`) are no import. Code for tests is left out. Called by the rules on layers
//! and circles.

mod reader;

use std::collections::BTreeMap;

use self::reader::{Impl, Item, Module, Reader, child};
use super::tree::{SourceFile, Tree};

/// `use` declarations that are followed one behind the other, at most.
const HOPS_MAX: usize = 8;
/// One file of a crate names another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) line: usize,
    pub(super) to: String,
}

/// A crate by its modules.
#[derive(Debug)]
pub(super) struct Crate<'a> {
    /// The folder of its sources, such as `core/src`.
    pub(super) root: String,
    modules: BTreeMap<Vec<String>, Module<'a>>,
}

/// Every crate of the project that has a library or a program in `src`.
pub(super) fn crates(tree: &Tree) -> Vec<Crate<'_>> {
    let manifests = tree.files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    manifests
        .map(|folder| Crate::read(tree, folder))
        .filter(|one| !one.modules.is_empty())
        .collect()
}

impl<'a> Crate<'a> {
    fn read(tree: &'a Tree, folder: &str) -> Self {
        let root = format!("{folder}/src");
        let mut found = Self { root, modules: BTreeMap::new() };
        for file in tree.with_extension(&["rs"]).filter(|file| !file.is_generated()) {
            let inside = file.path.strip_prefix(&found.root);
            let Some(path) = inside.and_then(|rest| rest.strip_prefix('/')) else { continue };
            if let Some(module) = module_path(path) {
                let source = file.source();
                let mut reader = Reader { file, source, modules: &mut found.modules };
                reader.read(0, source.tokens.len(), &module);
            }
        }
        found
    }

    /// The files of its modules.
    pub(super) fn files(&self) -> Vec<&'a SourceFile> {
        let mut files: Vec<&SourceFile> = self.modules.values().map(|module| module.file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        files
    }

    /// The items of its modules, each with its file.
    pub(super) fn items(&self) -> impl Iterator<Item = (&'a SourceFile, &Item)> {
        self.modules.values().flat_map(|one| one.items.iter().map(|item| (one.file, item)))
    }

    /// The `impl` blocks of its modules, each with its file.
    pub(super) fn impls(&self) -> impl Iterator<Item = (&'a SourceFile, &Impl)> {
        self.modules.values().flat_map(|one| one.impls.iter().map(|block| (one.file, block)))
    }

    /// Every import, each pair of files once, with the first line that makes it.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut lines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (path, module) in &self.modules {
            let from = &*module.file.path;
            let uses = module.uses.iter().filter(|one| !one.is_public);
            let uses = uses.map(|one| (one.line, &one.path));
            let paths = module.paths.iter().map(|(line, path)| (*line, path));
            for (line, named) in uses.chain(paths) {
                if let Some(to) = self.resolve(path, named, 0)
                    && to != from
                {
                    let first = lines.entry((from, to)).or_insert(line);
                    *first = line.min(*first);
                }
            }
        }
        let imports = lines.into_iter().map(|((from, to), line)| Import {
            from: from.to_owned(),
            line,
            to: to.to_owned(),
        });
        imports.collect()
    }

    /// The file that defines `path`, as code in `module` names it; `None` for another crate's.
    fn resolve(&self, module: &[String], path: &[String], hops: usize) -> Option<&str> {
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => self.walk(&[], rest, hops),
            "self" => self.walk(module, rest, hops),
            "super" => {
                let (_, above) = module.split_last()?;
                match rest.first().map(|next| &**next) {
                    Some("super") => self.resolve(above, rest, hops),
                    _ => self.walk(above, rest, hops),
                }
            }
            _ => {
                let known = self.modules.get(module)?;
                let is_child = self.modules.contains_key(&*child(module, first));
                let is_used = known.uses.iter().any(|one| one.name == **first && one.path != path);
                (is_child || is_used).then(|| self.walk(module, path, hops)).flatten()
            }
        }
    }

    fn walk(&self, module: &[String], path: &[String], hops: usize) -> Option<&str> {
        let known = self.modules.get(module)?;
        let Some((name, rest)) = path.split_first() else { return Some(&known.file.path) };
        let below = child(module, name);
        if self.modules.contains_key(&below) {
            return self.walk(&below, rest, hops);
        }
        if known.defines(name) || hops > HOPS_MAX {
            return Some(&known.file.path);
        }
        let uses = known.uses.iter();
        if let Some(one) = uses.clone().find(|one| one.name == *name) {
            let found = self.resolve(module, &one.path, hops + 1);
            return found.or_else(|| one.is_public.then_some(&*known.file.path));
        }
        let globs = uses.filter(|one| one.name == "*");
        let defined =
            globs.filter_map(|one| self.in_glob(module, &one.path, name, hops + 1)).next();
        Some(defined.unwrap_or(&known.file.path))
    }

    /// The file that defines `name`, if the module at `path` has that name.
    fn in_glob(&self, module: &[String], path: &[String], name: &str, hops: usize) -> Option<&str> {
        let file = self.resolve(module, path, hops)?;
        let (path, known) = self.modules.iter().find(|(_, one)| one.file.path == file)?;
        let has = known.defines(name) || known.uses.iter().any(|one| one.name == name);
        has.then(|| self.walk(path, &[name.to_owned()], hops)).flatten()
    }
}

/// The module of a file, from the crate's `src`. `None` for tests and for programs in `bin`.
fn module_path(path: &str) -> Option<Vec<String>> {
    let mut parts: Vec<&str> = path.strip_suffix(".rs")?.split('/').collect();
    if parts.contains(&"tests") || (parts[0] == "bin" && parts.len() > 1) {
        return None;
    }
    if parts.last() == Some(&"mod") || parts == ["lib"] || parts == ["main"] {
        parts.pop();
    }
    Some(parts.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layers inside of each crate: folders import downward only.
//!
//! In: the imports of each crate. Out: each import that the table does not allow, and each file
//! without a layer. The file at the root of a crate is exempt: it declares modules and re-exports.

use super::modules::{Crate, crates};
use super::tree::{Fault, Tree};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

/// A folder or file of a crate, and those that it may name beside its own.
type Layer = (&'static str, &'static [&'static str]);

/// The layers of each crate, from the top down.
const LAYERS: &[(&str, &[Layer])] =
    &[("core/src", CORE), ("ffi/src", PROVIDER), ("xdp/src", DATAPATH)];

const CORE: &[Layer] = &[
    ("boxed.rs", &["cm", "shared_queue", "engine", "peer", "wire", "api", "collections"]),
    ("drive.rs", &["engine", "api", "collections"]),
    ("cm", &["wire", "api", "collections"]),
    ("shared_queue", &["engine", "api", "collections"]),
    ("engine", &["peer", "wire", "api", "collections"]),
    ("peer", &["wire", "api", "collections"]),
    ("wire", &["api", "collections"]),
    ("api", &["collections"]),
    ("collections", &[]),
];

const PROVIDER: &[Layer] = &[
    ("c_api", &["endpoint", "objects", "getinfo", "runtime", "wait", "sys"]),
    ("endpoint", &["objects", "getinfo", "runtime", "wait", "sys"]),
    ("objects", &["getinfo", "runtime", "wait", "sys"]),
    ("getinfo", &["runtime", "wait", "sys"]),
    ("runtime", &["wait", "sys"]),
    ("wait", &["sys"]),
    ("sys", &[]),
];

const DATAPATH: &[Layer] = &[
    (
        "port",
        &[
            "af_xdp",
            "udp",
            "tier",
            "headers",
            "host",
            "mtu.rs",
            "error.rs",
            "stats.rs",
            "config.rs",
            "clock.rs",
            "epoll_set.rs",
            "fork.rs",
            "thread.rs",
        ],
    ),
    (
        "af_xdp",
        &["lease", "xsk", "tier", "host", "headers", "mtu.rs", "error.rs", "stats.rs", "config.rs"],
    ),
    (
        "lease",
        &["steering", "xsk", "tier", "headers", "error.rs", "config.rs", "clock.rs", "fork.rs"],
    ),
    ("xsk", &["tier", "error.rs", "stats.rs", "config.rs", "fork.rs"]),
    ("tier", &["host", "config.rs"]),
    ("host", &["ethtool", "headers", "mtu.rs", "error.rs", "config.rs", "thread.rs"]),
    ("udp", &["ethtool", "mtu.rs", "stats.rs", "config.rs", "clock.rs", "epoll_set.rs", "fork.rs"]),
    ("steering", &["ethtool"]),
    ("ethtool", &[]),
    ("headers", &[]),
    ("mtu.rs", &["config.rs"]),
    ("error.rs", &[]),
    ("stats.rs", &[]),
    ("config.rs", &[]),
    ("clock.rs", &[]),
    ("epoll_set.rs", &[]),
    ("fork.rs", &[]),
    ("thread.rs", &[]),
];

/// Imports upward, and files without a layer.
pub(super) fn downward(tree: &Tree) -> Vec<Fault> {
    let crates = crates(tree);
    let known = crates.iter().filter_map(|one| {
        let layers = LAYERS.iter().find(|(root, _)| *root == one.root)?.1;
        Some(against(one, layers))
    });
    known.flatten().collect()
}

fn against(one: &Crate<'_>, layers: &[Layer]) -> Vec<Fault> {
    let layer = |path: &str| {
        let path = path.strip_prefix(&*one.root)?.strip_prefix('/')?;
        layers.iter().find(|(name, _)| is_inside(path, name))
    };
    let mut faults = Vec::new();
    let files = one.files();
    for file in files.iter().filter(|file| !is_root(&file.path) && layer(&file.path).is_none()) {
        let what = "is in no layer: move it into a folder, or add it to xtask/src/tidy/layers.rs";
        faults.push(Fault::new(file, 0, what));
    }
    for (name, _) in layers {
        let exists = |path: &str| layer(path).is_some_and(|(found, _)| found == name);
        if !files.iter().any(|file| exists(&file.path)) {
            let what = format!("has no {name}: remove it from xtask/src/tidy/layers.rs");
            faults.push(Fault { path: one.root.clone() + "/lib.rs", line: 0, what });
        }
    }
    for import in one.imports() {
        let (Some((from, below)), Some((to, _))) = (layer(&import.from), layer(&import.to)) else {
            continue;
        };
        if from != to && !below.contains(to) {
            let named = import.to.trim_start_matches(&*one.root).trim_start_matches('/');
            let what = format!("names {named}; {from} may name {}", allowed(below));
            faults.push(Fault { path: import.from, line: import.line, what });
        }
    }
    faults
}

/// The table of layers in `docs/ARCHITECTURE.md` lists those of each crate, in their order.
pub(super) fn documented(tree: &Tree) -> Vec<Fault> {
    let Some(document) = tree.file(DOCUMENT) else { return Vec::new() };
    let faults = LAYERS.iter().filter_map(|(root, layers)| {
        let krate = root.trim_end_matches("/src");
        let layers: Vec<&str> =
            layers.iter().map(|(name, _)| name.trim_end_matches(".rs")).collect();
        let mut lines = document.text.lines().enumerate();
        let first = lines.find_map(|(index, line)| Some((index + 1, row(line, krate)?)));
        let Some((line, names)) = first else {
            return Some(Fault::new(document, 0, format!("lists no layers of {krate}")));
        };
        let further = lines.map_while(|(_, line)| row(line, ""));
        let cells = std::iter::once(names).chain(further);
        let named: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let what = format!("the layers of {krate} are {}", layers.join(", "));
        (named != layers).then(|| Fault::new(document, line, what))
    });
    faults.collect()
}

/// The second cell of a row of two cells whose first one names `krate`. A row without a name
/// continues the row above it.
fn row<'a>(line: &'a str, krate: &str) -> Option<&'a str> {
    let [_, first, names, _] = line.split('|').collect::<Vec<_>>()[..] else { return None };
    (first.trim().trim_matches('`') == krate).then_some(names)
}

/// Whether `path` is the file or folder `layer`, or below it. The module of a folder may be a file
/// beside it.
fn is_inside(path: &str, layer: &str) -> bool {
    let rest = path.strip_prefix(layer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
}

fn allowed(below: &[&str]) -> String {
    if below.is_empty() { "nothing".to_owned() } else { format!("{} only", below.join(", ")) }
}

fn is_root(path: &str) -> bool {
    ["/lib.rs", "/main.rs"].iter().any(|name| path.ends_with(&format!("/src{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Layer] = &[("top", &["low"]), ("low", &[])];

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let mut files = files.to_vec();
        files.push(("a/Cargo.toml", ""));
        let tree = Tree::of(&files);
        let found = crates(&tree);
        found.iter().flat_map(|one| against(one, TABLE)).map(|fault| fault.to_string()).collect()
    }

    #[test]
    fn an_import_upward_fails() {
        let found = faults(&[
            ("a/src/lib.rs", "use low::X;"),
            ("a/src/top/mod.rs", "use crate::low::X;"),
            ("a/src/low.rs", "\nfn f() { crate::top::g() }"),
        ]);
        assert_eq!(found, ["a/src/low.rs:2: names top/mod.rs; low may name nothing"]);
    }

    #[test]
    fn a_file_without_a_layer_fails_and_a_layer_without_files() {
        let found = faults(&[("a/src/top.rs", ""), ("a/src/topmost.rs", "")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a/src/topmost.rs: is in no layer"), "{found:?}");
        assert!(found[1].starts_with("a/src/lib.rs: has no low"), "{found:?}");
    }

    #[test]
    fn each_layer_of_the_tables_names_layers_below_it() {
        for (root, layers) in LAYERS {
            for (at, (name, below)) in layers.iter().enumerate() {
                let is_below = |one: &&str| layers[at + 1..].iter().any(|(other, _)| other == one);
                assert!(below.iter().all(is_below), "{root}: {name} names upward");
            }
        }
    }
    #[test]
    fn the_document_lists_the_layers_of_each_crate() {
        let rows = LAYERS.iter().map(|(root, layers)| {
            let names =
                layers.iter().map(|(name, _)| format!("`{}`", name.trim_end_matches(".rs")));
            let names: Vec<String> = names.collect();
            format!("| `{}` | {} |\n", root.trim_end_matches("/src"), names.join(", "))
        });
        let table: String = rows.collect();
        let faults = |text: &str| documented(&Tree::of(&[(DOCUMENT, text)]));
        assert_eq!(faults(&table), []);
        assert_eq!(faults(&table.replace("`wait`, ", "")).len(), 1);
        assert_eq!(faults(&table.replace("`wait`, ", "|\n| | `wait`, ")), []);
        assert_eq!(faults("").len(), LAYERS.len());
    }
}

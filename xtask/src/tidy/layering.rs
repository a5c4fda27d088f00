// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may name what: the layers of `docs/ARCHITECTURE.md`.

use super::tokens::{Token, is_word, tokens};
use super::{Fault, SourceFile, Tree};

/// A crate, and the only folder whose code may name it.
const OWNERS: &[(&str, &str)] =
    &[("rustix", "xdp/"), ("libbpf_rs", "bpf/"), ("libbpf_cargo", "bpf/")];

/// Folders that see libfabric's raw declarations (module `bindings`), and the one file in each that
/// may.
const BINDINGS: &[(&str, &str)] = &[
    ("ffi/", "ffi/src/abi.rs"),
    ("examples/", "examples/src/fabric/abi.rs"),
    ("tests/conformance/", "tests/conformance/src/abi.rs"),
];

/// The packages of the workspace that each may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("bpf", &[]),
    ("xdp", &["ofi-xdp-core", "ofi-xdp-bpf"]),
    ("xdp/broker", &["ofi-xdp-datapath"]),
    ("xdp/checksum", &[]),
    ("xdp/statistics", &[]),
    ("xdp/top", &["ofi-xdp-statistics"]),
    ("ffi", &["ofi-xdp-core", "ofi-xdp-checksum", "ofi-xdp-datapath", "ofi-xdp-statistics"]),
    // The baseline of the benchmarks: raw AF_XDP through our own port.
    ("examples", &["ofi-xdp-core", "ofi-xdp-datapath"]),
    // It sees libfabric's C interface, so that any provider can be under test.
    ("tests/conformance", &[]),
    // They prove things of the engine alone, and build in seconds: no port, no C library.
    ("tests/engine-bench", &["ofi-xdp-core", "ofi-xdp-checksum"]),
    ("tests/fuzz", &["ofi-xdp-core"]),
    ("tests/sim", &["ofi-xdp-core"]),
    ("xtask", &[]),
];

/// The crates that core may be built from: all work without an operating system.
const CORE_CRATES: &[&str] =
    &["bitflags", "heapless", "log", "static_assertions", "thiserror", "zerocopy"];

/// Code that names what only another layer may name.
pub(super) fn names(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["rs"]) {
        let tokens = tokens(&file.text);
        for (name, owner) in OWNERS {
            let named = tokens.iter().any(|token| is_word(Some(token), name));
            if named && !file.path.starts_with(owner) {
                faults.push(Fault::new(file, 0, format!("names {name}; only {owner} may")));
            }
        }
        for (folder, abi) in BINDINGS {
            let outside = file.path.starts_with(folder) && file.path != *abi;
            if outside && names_bindings(&tokens) {
                let what = format!("names the raw libfabric bindings; only {abi} may");
                faults.push(Fault::new(file, 0, what));
            }
        }
    }
    faults
}

/// `bindings::…` or `mod bindings`; a variable of that name is none of our business.
fn names_bindings(tokens: &[Token]) -> bool {
    let path = [Token::Punct(':'), Token::Punct(':')];
    let after = |at: usize| tokens[at + 1..].starts_with(&path);
    let before = |at: usize| at > 0 && is_word(tokens.get(at - 1), "mod");
    (0..tokens.len()).any(|at| is_word(tokens.get(at), "bindings") && (after(at) || before(at)))
}

/// Packages that depend on what their layer may not.
pub(super) fn dependencies(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (folder, allowed) in MAY_USE {
        let Some(file) = tree.file(&format!("{folder}/Cargo.toml")) else { continue };
        let Ok(manifest) = file.text.parse::<toml::Table>() else {
            faults.push(Fault::new(file, 0, "is not TOML"));
            continue;
        };
        for name in keys(&manifest, "dependencies") {
            if name.starts_with("ofi-xdp-") && !allowed.contains(&name) {
                let what = format!("depends on {name}, which is not below it");
                faults.push(Fault::new(file, 0, what));
            }
            if *folder == "core" && !CORE_CRATES.contains(&name) {
                let what = format!("depends on {name}, which is not on core's list");
                faults.push(Fault::new(file, 0, what));
            }
        }
        faults.extend(foreign_crates(file, &manifest));
    }
    faults
}

/// Crates of [`OWNERS`] in the manifest of a package that does not own them.
fn foreign_crates(file: &SourceFile, manifest: &toml::Table) -> Vec<Fault> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let names = kinds.into_iter().flat_map(|kind| keys(manifest, kind));
    let foreign = names.filter_map(|name| {
        let owner = OWNERS.iter().find(|(one, _)| *one == name.replace('-', "_"))?.1;
        (!file.path.starts_with(owner))
            .then(|| Fault::new(file, 0, format!("depends on {name}; only {owner} may")))
    });
    foreign.collect()
}

fn keys<'a>(manifest: &'a toml::Table, table: &str) -> Vec<&'a str> {
    let table = manifest.get(table).and_then(|value| value.as_table());
    table.into_iter().flat_map(|table| table.keys()).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_names_a_foreign_crate_fails() {
        let tree = Tree::of(&[
            ("ffi/src/a.rs", "use rustix::net;"),
            ("xdp/src/rings.rs", "use rustix::net;"),
            ("tests/a.rs", "fn f() { libbpf_rs::x() }"),
            ("core/src/a.rs", "// like rustix\nfn f() {}"),
        ]);
        let paths: Vec<String> = names(&tree).into_iter().map(|fault| fault.path).collect();
        assert_eq!(paths, ["ffi/src/a.rs", "tests/a.rs"]);
    }

    #[test]
    fn raw_bindings_are_named_in_one_file_only() {
        let tree = Tree::of(&[
            ("ffi/src/abi.rs", "mod bindings; use bindings::fid;"),
            ("ffi/src/cq.rs", "use crate::abi::bindings::fid;"),
            ("ffi/src/ep.rs", "fn f(bindings: u32) { bindings + 1 }"),
            ("examples/src/lib.rs", "mod bindings;"),
        ]);
        let paths: Vec<String> = names(&tree).into_iter().map(|fault| fault.path).collect();
        assert_eq!(paths, ["ffi/src/cq.rs", "examples/src/lib.rs"]);
    }

    #[test]
    fn core_may_not_grow_a_dependency() {
        let manifest = "[dependencies]\nlog.workspace = true\nlibc.workspace = true\n\
                        [dev-dependencies]\nproptest.workspace = true\n";
        let faults = dependencies(&Tree::of(&[("core/Cargo.toml", manifest)]));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].what.contains("libc"), "{}", faults[0]);
    }

    #[test]
    fn a_package_may_not_depend_upwards_or_on_foreign_crates() {
        let tree = Tree::of(&[
            (
                "xdp/Cargo.toml",
                "[dependencies]\nofi-xdp-ffi = { path = \"../ffi\" }\nrustix = \"1\"\n",
            ),
            ("ffi/Cargo.toml", "[dependencies]\nofi-xdp-core = \"1\"\nrustix = \"1\"\n"),
            ("bpf/Cargo.toml", "[dependencies"),
        ]);
        let mut faults: Vec<String> = dependencies(&tree).iter().map(Fault::to_string).collect();
        faults.sort();
        assert_eq!(
            faults,
            [
                "bpf/Cargo.toml: is not TOML",
                "ffi/Cargo.toml: depends on rustix; only xdp/ may",
                "xdp/Cargo.toml: depends on ofi-xdp-ffi, which is not below it",
            ]
        );
    }
}

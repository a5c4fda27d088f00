// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dependencies between crates: the layers of `docs/ARCHITECTURE.md`.

use super::tokens::is_word;
use super::tree::{Fault, SourceFile, Tree};

/// A crate, and the only folder with code that may name it.
const OWNERS: &[(&str, &str)] =
    &[("rustix", "xdp/"), ("libbpf_rs", "bpf/"), ("libbpf_cargo", "bpf/")];

/// The crate with libfabric's C interface, and the files that may name it.
const LIBFABRIC: (&str, &[&str]) = (
    "ofi_xdp_libfabric_sys",
    &["ffi/libfabric-sys/", "ffi/libfabric/src/raw/mod.rs", "ffi/src/sys/abi.rs"],
);

/// The packages of the workspace that each may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("bpf", &[]),
    ("xdp", &["ofi-xdp-core", "ofi-xdp-bpf", "ofi-xdp-checksum"]),
    ("xdp/broker", &["ofi-xdp-datapath"]),
    ("xdp/checksum", &[]),
    ("xdp/statistics", &[]),
    ("xdp/top", &["ofi-xdp-statistics"]),
    (
        "ffi",
        &[
            "ofi-xdp-core",
            "ofi-xdp-checksum",
            "ofi-xdp-datapath",
            "ofi-xdp-libfabric-sys",
            "ofi-xdp-statistics",
        ],
    ),
    ("ffi/libfabric", &["ofi-xdp-libfabric-sys"]),
    ("ffi/libfabric-sys", &[]),
    // Its tests load the provider. It reads the reports of `xdp-perf`, and pages of endpoints.
    ("ffi/run", &["ofi-xdp-libfabric", "ofi-xdp-ffi", "ofi-xdp-perf", "ofi-xdp-statistics"]),
    // They show applications: libfabric is all that they see.
    ("examples", &["ofi-xdp-libfabric"]),
    // The baseline of the benchmarks: raw AF_XDP through our own port.
    ("ffi/perf", &["ofi-xdp-libfabric", "ofi-xdp-ffi"]),
    (
        "tests/bench/perf",
        &["ofi-xdp-core", "ofi-xdp-datapath", "ofi-xdp-libfabric", "ofi-xdp-perf"],
    ),
    (
        "tests/bench/lab",
        &["ofi-xdp-core", "ofi-xdp-bench", "ofi-xdp-harness", "ofi-xdp-perf", "ofi-xdp-statistics"],
    ),
    // A transfer of the fixture returns the report of `xdp-perf`.
    ("tests/harness", &["ofi-xdp-core", "ofi-xdp-perf"]),
    // The hostile peer makes packets by hand.
    ("tests/e2e", &["ofi-xdp-core", "ofi-xdp-harness", "ofi-xdp-libfabric", "ofi-xdp-test-kit"]),
    (
        "tests/age",
        &["ofi-xdp-harness", "ofi-xdp-libfabric", "ofi-xdp-statistics", "ofi-xdp-test-kit"],
    ),
    ("tests/interop/mpi", &["ofi-xdp-harness"]),
    ("tests/vm", &["ofi-xdp-harness", "ofi-xdp-mpi", "ofi-xdp-perf"]),
    // It sees libfabric's C interface alone, so that any provider can be under test.
    ("tests/conformance", &["ofi-xdp-libfabric"]),
    // They prove things of the engine alone, and build in seconds: no port, no C library.
    ("tests/bench/engine", &["ofi-xdp-core", "ofi-xdp-checksum", "ofi-xdp-test-kit"]),
    ("tests/engine/fuzz", &["ofi-xdp-core", "ofi-xdp-test-kit"]),
    ("tests/engine/kit", &["ofi-xdp-core"]),
    ("tests/engine/sim", &["ofi-xdp-core", "ofi-xdp-test-kit"]),
    ("xtask", &[]),
];

/// The crates that core may be built from: all work without an operating system. `self_cell` comes
/// with the feature `alloc` only.
const CORE_CRATES: &[&str] = &[
    "bitflags",
    "heapless",
    "log",
    "self_cell",
    "siphasher",
    "static_assertions",
    "thiserror",
    "zerocopy",
];

/// Code that names a crate of another layer.
pub(super) fn names(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["rs"]) {
        let tokens = file.tokens();
        for (name, owner) in OWNERS {
            let named = tokens.iter().any(|token| is_word(Some(token), name));
            if named && !file.path.starts_with(owner) {
                faults.push(Fault::new(file, 0, format!("names {name}; only {owner} may")));
            }
        }
        let (libfabric, doors) = LIBFABRIC;
        let named = tokens.iter().any(|token| is_word(Some(token), libfabric));
        if named && !doors.iter().any(|door| file.path.starts_with(door)) {
            let what = format!("names {libfabric}; only {} may", doors.join(", "));
            faults.push(Fault::new(file, 0, what));
        }
    }
    faults
}

/// Packages that depend on a package above them.
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
    fn the_c_interface_of_libfabric_has_few_doors() {
        let tree = Tree::of(&[
            ("ffi/src/sys/abi.rs", "pub(crate) use ofi_xdp_libfabric_sys::*;"),
            ("ffi/src/objects/cq.rs", "use ofi_xdp_libfabric_sys::fid;"),
            ("ffi/libfabric/src/raw/mod.rs", "pub use ofi_xdp_libfabric_sys::wide as abi;"),
            (
                "ffi/libfabric/src/lib.rs",
                "// ofi_xdp_libfabric_sys\nuse ofi_xdp_libfabric_sys::fid;",
            ),
        ]);
        let paths: Vec<String> = names(&tree).into_iter().map(|fault| fault.path).collect();
        assert_eq!(paths, ["ffi/src/objects/cq.rs", "ffi/libfabric/src/lib.rs"]);
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

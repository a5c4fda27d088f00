// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a plain `cargo test`: the packages that it leaves out, and the command for all.
//!
//! In: the top `Cargo.toml`. Out: lines on standard output. It is a program, because cargo hides
//! the output of a test that passes. A runner that asks for a list of tests, or has a filter,
//! passes arguments, and gets nothing.

fn main() {
    if std::env::args().count() > 1 {
        return;
    }
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("cargo reads it");
    let left_out = difference(&names(&manifest, "members"), &names(&manifest, "default-members"));
    println!(
        "\nLEFT OUT by a plain `cargo test`: {}.\nThey need clang, libelf, libfabric, root or an \
         optimised build. `cargo xtask test` installs the requirements and runs all tests; without \
         root it names those that it skips.\n",
        left_out.join(", ")
    );
}

/// A list of the workspace.
fn names<'a>(manifest: &'a toml::Table, list: &str) -> Vec<&'a str> {
    let names = manifest["workspace"][list].as_array().expect("a list of folders");
    names.iter().filter_map(toml::Value::as_str).collect()
}

/// The packages in `all` that are not in `some`, each of which is in `all`.
fn difference<'a>(all: &[&'a str], some: &[&str]) -> Vec<&'a str> {
    let left: Vec<&str> = all.iter().filter(|name| !some.contains(name)).copied().collect();
    assert_eq!(left.len() + some.len(), all.len(), "a default member is no member");
    left
}

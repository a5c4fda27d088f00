// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built library as a dynamic linker sees it: its exports, its imports, and its flags.

mod support;

use std::process::Command;

use support::library;

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(library())
        .output()
        .unwrap_or_else(|error| panic!("{program} (install binutils): {error}"));
    assert!(output.status.success(), "{program} failed");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_entry_point_is_all_that_is_exported() {
    let symbols = output("nm", &["--dynamic", "--defined-only"]);
    let names: Vec<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["fi_prov_ini"]);
}

/// The library imports only symbols that have one version in all releases of libfabric, so one file
/// loads on each of them.
#[test]
fn libfabric_is_needed_in_its_first_version() {
    let dynamic = output("readelf", &["--dynamic", "--wide"]);
    assert!(dynamic.contains("[libfabric.so.1]"), "not linked to libfabric:\n{dynamic}");
    let symbols = output("nm", &["--dynamic", "--undefined-only", "--with-symbol-versions"]);
    let imports: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| name.starts_with("fi_"))
        .collect();
    assert!(!imports.is_empty());
    for import in imports {
        assert!(import.ends_with("@FABRIC_1.0"), "{import}");
    }
}

#[test]
fn the_library_is_never_unmapped() {
    assert!(output("readelf", &["--dynamic", "--wide"]).contains("NODELETE"));
}

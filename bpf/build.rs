// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles `redirect.bpf.c` with clang and generates its libbpf-rs skeleton into `OUT_DIR`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/redirect.bpf.c";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    // `<linux/types.h>` includes `<asm/types.h>`. Debian and Ubuntu keep that file in the multiarch
    // folder, which clang does not search for target bpf; of another architecture it is where the
    // compiler of that has its headers.
    let multiarch = format!("-I/usr/include/{architecture}-linux-gnu");
    let cross = format!("-I/usr/{architecture}-linux-gnu/include");
    SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args([multiarch, cross, "-Wall".into(), "-Werror".into()].map(OsString::from))
        .build_and_generate(out.join("redirect.skel.rs"))
        .unwrap_or_else(|error| panic!("{SOURCE} does not build (needs clang): {error:#}"));
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-changed=src/bpf/wire.h");
}

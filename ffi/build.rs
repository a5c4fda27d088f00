// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the provider is linked: it stays mapped once it is loaded.
//!
//! libfabric closes its providers from a destructor. Threads and thread-local destructors of this
//! library may still run after that, and a fork handler stays registered.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}

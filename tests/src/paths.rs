// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the built things are.

use std::path::{Path, PathBuf};

use anyhow::bail;

/// The workspace's root folder.
#[must_use]
pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// The folder that holds `libxdp-fi.so`: our own `FI_PROVIDER_PATH`, or `target/provider`.
///
/// # Errors
/// When it has not been built.
pub fn provider() -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("FI_PROVIDER_PATH")
        .map_or_else(|| workspace().join("target/provider"), PathBuf::from);
    if !folder.join("libxdp-fi.so").is_file() {
        bail!("{} has no libxdp-fi.so: run `cargo xtask build`", folder.display());
    }
    Ok(folder)
}

/// A program of the examples package: beside the running one, or in `target/release`, or in the
/// folder `OFI_XDP_PROGRAMS`.
///
/// # Errors
/// When it has not been built.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let mut folders = Vec::new();
    folders.extend(std::env::var_os("OFI_XDP_PROGRAMS").map(PathBuf::from));
    if let Ok(running) = std::env::current_exe() {
        // A test's own folder is `deps` below the programs'.
        folders.extend(running.ancestors().skip(1).take(2).map(Path::to_path_buf));
    }
    folders.push(workspace().join("target/release"));
    folders.push(workspace().join("target/debug"));
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path),
        None => bail!("the program {name} is not built: run `cargo xtask build`"),
    }
}

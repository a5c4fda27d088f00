// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of built files.

use std::path::{Path, PathBuf};

use anyhow::bail;

/// The workspace's root folder.
#[must_use]
pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_path_buf()
}

/// The folder with `libxdp-fi.so`: the variable `FI_PROVIDER_PATH`, or `target/provider`.
///
/// # Errors
/// When the library has not been built.
pub fn provider() -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("FI_PROVIDER_PATH")
        .map_or_else(|| workspace().join("target/provider"), PathBuf::from);
    if !folder.join("libxdp-fi.so").is_file() {
        bail!("{} has no libxdp-fi.so: run `cargo xtask build`", folder.display());
    }
    Ok(folder)
}

/// A program of the workspace: beside the current one, in `target/release`, or in the folder
/// `OFI_XDP_PROGRAMS`.
///
/// # Errors
/// When the program has not been built.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let mut folders = Vec::new();
    folders.extend(std::env::var_os("OFI_XDP_PROGRAMS").map(PathBuf::from));
    if let Ok(running) = std::env::current_exe() {
        // The folder of tests is `deps`, below that of the programs.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared libraries of a program. The guest needs them too, at the same paths.
//!
//! In: a program or library. Out: paths, by ldd(1), which asks the loader itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The libraries of `program`, its loader included; none for a static program.
pub(crate) fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("ldd did not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && !text.contains("not a dynamic") {
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("not a dynamic") {
            return Ok(Vec::new());
        }
        bail!("ldd {}: {}", program.display(), error.trim());
    }
    paths(&text).with_context(|| program.display().to_string())
}

/// From lines `name => path (address)` and `path (address)`.
fn paths(text: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.contains("not found") {
            bail!("a library is missing: {line}");
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split_whitespace().next().unwrap_or_default();
        // The kernel's own library (linux-vdso.so.1) has no path.
        if path.starts_with('/') {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_of_ldds_lines() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let found = paths(text).unwrap();
        assert_eq!(found, ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
        assert!(paths("\tlibx.so => not found\n").is_err());
        assert!(paths("\tstatically linked\n").unwrap().is_empty());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system in one file, as the kernel unpacks it at boot (cpio, format `newc`:
//! Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! In: files by their path in the guest. Out: the archive. Folders are made as they are needed;
//! links are followed, so that a name has its content. Not compressed: unpacking costs the guest
//! more than reading.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cpio::newc::{Builder, ModeFileType, trailer};

use super::libraries;

/// The content of a file.
#[derive(Debug)]
enum Content {
    Copy(PathBuf),
    Bytes(Vec<u8>),
}

/// A file system in the making.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    files: BTreeMap<PathBuf, Content>,
    folders: BTreeMap<PathBuf, ()>,
}

impl Archive {
    /// A file with these bytes.
    pub(crate) fn bytes(&mut self, guest_path: impl Into<PathBuf>, bytes: Vec<u8>) {
        self.insert(guest_path.into(), Content::Bytes(bytes));
    }

    /// An empty folder.
    pub(crate) fn folder(&mut self, guest_path: impl Into<PathBuf>) {
        let guest_path = guest_path.into();
        self.parents(&guest_path);
        self.folders.insert(guest_path, ());
    }

    /// The program or library at `path` of this machine, at `guest_path`, with the libraries that
    /// it needs.
    pub(crate) fn program(&mut self, path: &Path, guest_path: impl Into<PathBuf>) -> Result<()> {
        for library in libraries::of(path)? {
            self.insert(library.clone(), Content::Copy(library));
        }
        self.insert(guest_path.into(), Content::Copy(path.to_owned()));
        Ok(())
    }

    fn insert(&mut self, guest_path: PathBuf, content: Content) {
        self.parents(&guest_path);
        self.files.insert(guest_path, content);
    }

    fn parents(&mut self, guest_path: &Path) {
        let parents = guest_path.ancestors().skip(1).filter(|parent| parent.parent().is_some());
        self.folders.extend(parents.map(|parent| (parent.to_owned(), ())));
    }

    /// Writes it to `to`.
    pub(crate) fn write(&self, to: &Path) -> Result<()> {
        let mut out = BufWriter::new(File::create(to).with_context(|| to.display().to_string())?);
        // Sorted, so that a folder comes before its files.
        for folder in self.folders.keys() {
            let entry = entry(folder)?.set_mode_file_type(ModeFileType::Directory);
            out = entry.write(out, 0).finish()?;
        }
        for (guest_path, content) in &self.files {
            let bytes = match content {
                Content::Bytes(bytes) => bytes.clone(),
                Content::Copy(path) => {
                    fs::read(path).with_context(|| path.display().to_string())?
                }
            };
            let size = u32::try_from(bytes.len()).context("a file of 4 GiB")?;
            let entry = entry(guest_path)?.set_mode_file_type(ModeFileType::Regular);
            let mut writer = entry.write(out, size);
            writer.write_all(&bytes)?;
            out = writer.finish()?;
        }
        trailer(out)?.flush()?;
        Ok(())
    }
}

fn entry(guest_path: &Path) -> Result<Builder> {
    let name = guest_path.strip_prefix("/").unwrap_or(guest_path);
    let name = name.to_str().with_context(|| format!("{} is not UTF-8", guest_path.display()))?;
    Ok(Builder::new(name).mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_folders_before_files_and_ends() {
        let mut archive = Archive::default();
        archive.bytes("/lib/modules/x.ko", b"module".to_vec());
        archive.folder("/proc");
        let path = std::env::temp_dir().join(format!("xtask-archive-{}", std::process::id()));
        archive.write(&path).unwrap();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        fs::remove_file(&path).unwrap();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not there"));
        assert!(text.starts_with("070701"));
        assert!(at("lib/modules\0") < at("lib/modules/x.ko\0") && at("proc\0") < at("x.ko\0"));
        assert!(at("TRAILER!!!") > at("x.ko"));
    }
}

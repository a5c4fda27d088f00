// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics page of an endpoint: its configuration and counters, for other processes.
//!
//! A page is a file in shared memory (tmpfs, `/dev/shm`), one for each enabled endpoint of a
//! process. The provider's progress thread writes it several times a second under another name, and
//! renames it. So a reader sees one page or the next, never parts of both, and no process waits for
//! another. The page is removed with its endpoint. After a kill, [`read_all`] skips the page, and
//! the next process of the same user that opens an endpoint removes it.
//!
//! Containers may share the folder and have process ids of their own. Therefore a lock on the page
//! (flock(2)) shows that its process lives, and the name contains the namespace of the process id.
//! Every user may put files into the folder. Files of another kind or size are skipped without
//! waiting for them; `filter.rs` limits the text of the others. A page is shown with the owner of
//! its file and the file's name, about which its writer cannot lie. A file that others have put in
//! the way of a page (they cannot be removed from a sticky folder) gives the page another name.
//!
//! In: the provider's figures. Out: the same figures, for `xdp-top` and for readers of JSON.
//! Callers: the provider, `xdp-top`, tests. Bounds: [`PEERS_MAX`] peers in a page, and
//! [`BYTES_MAX`] bytes; [`NAMES_MAX`] names for one file; [`PAGES_MAX`] pages in one reading.

mod filter;
mod page;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;

pub use page::{Limits, PEERS_MAX, Page, PeerLine};

/// Folder of the pages.
pub const FOLDER: &str = "/dev/shm";
/// Beginning of each name. Process id, number of the endpoint, and namespace of the process id
/// follow.
const PREFIX: &str = "ofi-xdp-";
const SUFFIX: &str = ".json";
const DRAFT_SUFFIX: &str = ".draft";
/// Maximum number of names that are tried for one file. Others know the first one only.
const NAMES_MAX: u32 = 3;
/// Maximum number of pages in one reading.
pub const PAGES_MAX: usize = 512;
/// Maximum number of files that one reading opens, those of killed processes too.
const OPENED_MAX: usize = 8 * PAGES_MAX;
/// Maximum number of files that one reading chooses from.
const FOUND_MAX: usize = 1 << 16;
/// Maximum length of the name of a page: the prefix, four numbers, the suffix.
const NAME_LEN_MAX: usize = 80;
/// Maximum size of a page that is read: twenty times that of a page with [`PEERS_MAX`] peers.
pub const BYTES_MAX: u64 = 1 << 20;
/// Mode of a page: readable by all users, because its figures are no secrets of the application.
const MODE: u32 = 0o644;

/// The file of one endpoint's page; removed on drop.
#[derive(Debug)]
pub struct StatsFile {
    folder: PathBuf,
    /// The first name of page and draft, without suffix.
    name: String,
    path: PathBuf,
    draft: PathBuf,
    /// The present page, with our lock on it.
    page: Option<File>,
    /// The process that owns the file; a fork's copy of this value does not remove it.
    pid: u32,
}

impl StatsFile {
    /// A file for another endpoint of this process, in `folder`.
    ///
    /// # Errors
    /// The folder does not exist, or cannot be written to.
    pub fn new(folder: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        fs::read_dir(folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        // Without /proc, or with that of another namespace, names may clash.
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino());
        let name = format!("{PREFIX}{pid}-{number}-{namespace}");
        let path = folder.join(format!("{name}{SUFFIX}"));
        let draft = folder.join(format!("{name}{DRAFT_SUFFIX}"));
        Ok(Self { folder: folder.to_owned(), name, path, draft, page: None, pid })
    }

    /// Replaces the page by `page`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&mut self, page: &Page) -> io::Result<()> {
        let mut file = self.new_draft()?;
        file.try_lock()?;
        file.write_all(&serde_json::to_vec(page)?)?;
        self.rename_draft()?;
        self.page = Some(file);
        Ok(())
    }

    /// A new file, which follows no link.
    fn new_draft(&mut self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(MODE);
        for _ in 1..NAMES_MAX {
            // Removes a draft that a killed process with this number has left.
            let _ = fs::remove_file(&self.draft);
            match options.open(&self.draft) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.draft = self.other_path(DRAFT_SUFFIX);
                }
                result => return result,
            }
        }
        options.open(&self.draft)
    }

    /// Replaces the page by the draft.
    fn rename_draft(&mut self) -> io::Result<()> {
        use io::ErrorKind::{IsADirectory, PermissionDenied};
        for _ in 1..NAMES_MAX {
            match fs::rename(&self.draft, &self.path) {
                Err(error) if matches!(error.kind(), IsADirectory | PermissionDenied) => {
                    self.path = self.other_path(SUFFIX);
                }
                result => return result,
            }
        }
        fs::rename(&self.draft, &self.path)
    }

    /// A path that others cannot foresee. [`pages`] finds it, as it continues the name by a number.
    fn other_path(&self, suffix: &str) -> PathBuf {
        let number = RandomState::new().hash_one(&self.name);
        self.folder.join(format!("{}-{number}{suffix}", self.name))
    }
}

impl Drop for StatsFile {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        // The page may never have been published.
        let _ = fs::remove_file(&self.draft);
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the pages that dead processes of this user have left. Opens every page of the user.
///
/// # Errors
/// The folder cannot be read.
pub fn remove_left(folder: &Path) -> io::Result<()> {
    let user = geteuid().as_raw();
    for PageFile { path, .. } in pages(folder)?.into_iter().filter(|file| file.owner == user) {
        if open(&path).is_some_and(|page| is_left(&page)) {
            // Another process of the user may do the same.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// The pages of live processes, in the order of processes and endpoints; of more than [`PAGES_MAX`]
/// the first ones of each user. Pages of another format version are skipped.
///
/// # Errors
/// The folder cannot be read.
pub fn read_all(folder: &Path) -> io::Result<Vec<Page>> {
    let mut found = pages(folder)?;
    found.sort();
    let read = in_turns(found).into_iter().take(OPENED_MAX).filter_map(|file| {
        let page = read(&file.path)?;
        Some((file, page))
    });
    let mut read: Vec<_> = read.take(PAGES_MAX).collect();
    read.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(read.into_iter().map(|(_, page)| page).collect())
}

/// `files` in an order in which each user has the same number of files in front.
fn in_turns(files: Vec<PageFile>) -> Vec<PageFile> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let numbered = files.into_iter().map(|file| {
        let count = counts.entry(file.owner).or_default();
        *count += 1;
        (*count, file)
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, file)| file).collect()
}

/// The filtered page at `path`, if it is one and its process lives.
fn read(path: &Path) -> Option<Page> {
    let file = open(path)?;
    let metadata = file.metadata().ok()?;
    if is_left(&file) || metadata.len() > BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    // The owner may extend the file meanwhile.
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let page = filter::filter(serde_json::from_slice(&bytes).ok()?);
    let name = path.file_stem()?.to_str()?.to_owned();
    Some(Page { owner: metadata.uid(), file: name, ..page })
}

/// The plain file at `path`, opened for reading.
fn open(path: &Path) -> Option<File> {
    // Does not wait for the writer of a FIFO, and follows no link.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// Whether the process that wrote `page` is gone, with all its forks that run the same program. A
/// live process holds the lock until the next page replaces this one; then this one has no name any
/// more.
fn is_left(page: &File) -> bool {
    page.try_lock_shared().is_ok() && page.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// A file with the name of a page.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PageFile {
    /// The process id in its name.
    pid: u32,
    path: PathBuf,
    /// The user that owns it.
    owner: u32,
}

/// The files with names of pages.
fn pages(folder: &Path) -> io::Result<Vec<PageFile>> {
    let entries = fs::read_dir(folder)?.filter_map(Result::ok);
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let numbers = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let (pid, rest) = numbers.split_once('-')?;
        let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        if name.len() > NAME_LEN_MAX || !rest.bytes().all(is_number) {
            return None;
        }
        let owner = entry.metadata().ok()?.uid();
        Some(PageFile { pid: pid.parse().ok()?, path: entry.path(), owner })
    });
    Ok(found.take(FOUND_MAX).collect())
}

#[cfg(test)]
mod tests;

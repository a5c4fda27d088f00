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
//! Callers: the provider, `xdp-top`, `xdp-run`, tests. Bounds: [`PEERS_MAX`] peers in a page, and
//! [`BYTES_MAX`] bytes; [`NAMES_MAX`] names for one file; in one reading [`LISTED_MAX`]
//! files of the folder, of which it opens [`OPENED_MAX`], [`READ_MAX`] bytes of them, and
//! [`PAGES_MAX`] pages.

mod filter;
mod page;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
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
/// Maximum number of files in the folder that one reading looks at, those of others too.
const LISTED_MAX: usize = 1 << 20;
/// More bytes than a page with [`PEERS_MAX`] peers has.
const PAGE_BYTES: u64 = 1 << 16;
/// Maximum number of bytes that one reading reads: as many as [`PAGES_MAX`] pages have.
const READ_MAX: u64 = PAGES_MAX as u64 * PAGE_BYTES;
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

/// Removes the pages that dead processes of this user have left. Opens [`OPENED_MAX`] pages of the
/// user at the most.
///
/// # Errors
/// The folder cannot be read.
pub fn remove_left(folder: &Path) -> io::Result<()> {
    let user = geteuid().as_raw();
    for PageFile { path, .. } in pages(folder, OPENED_MAX, |_, owner| owner == user)? {
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
    read_where(folder, |_, _| true)
}

/// As [`read_all`], but of the files that are wanted by name, without its ending, and owner. No
/// other file is opened.
///
/// # Errors
/// The folder cannot be read.
pub fn read_where(folder: &Path, is_wanted: impl Fn(&str, u32) -> bool) -> io::Result<Vec<Page>> {
    let mut read = read_in_turns(pages(folder, OPENED_MAX, is_wanted)?, &mut { READ_MAX });
    read.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(read.into_iter().map(|(_, page)| page).collect())
}

/// Reads at most [`PAGES_MAX`] pages and `left` bytes of `files`. The user with the least bytes is
/// the next. A file counts as [`PAGE_BYTES`] at least, so that pages of the provider count alike.
fn read_in_turns(files: Vec<PageFile>, left: &mut u64) -> Vec<(PageFile, Page)> {
    let mut turns: BTreeMap<(u64, u32), VecDeque<PageFile>> = BTreeMap::new();
    for file in files {
        turns.entry((0, file.owner)).or_default().push_back(file);
    }
    let mut pages = Vec::new();
    // bound: the files
    while pages.len() < PAGES_MAX
        && let Some(((used, owner), mut files)) = turns.pop_first()
    {
        let Some(file) = files.pop_front() else { continue };
        let before = *left;
        pages.extend(read(&file.path, left).map(|page| (file, page)));
        turns.insert((used + (before - *left).max(PAGE_BYTES), owner), files);
    }
    pages
}

/// The filtered page at `path`, if it is one, its process lives, and it has at most `left` bytes.
/// Takes the bytes that it reads from `left`.
fn read(path: &Path, left: &mut u64) -> Option<Page> {
    let file = open(path)?;
    let metadata = file.metadata().ok()?;
    let most = BYTES_MAX.min(*left);
    if is_left(&file) || metadata.len() > most {
        return None;
    }
    let mut bytes = Vec::new();
    // The owner may extend the file meanwhile.
    let result = file.take(most).read_to_end(&mut bytes);
    *left -= bytes.len() as u64;
    result.ok()?;
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
    /// Device and inode, which are the same for all names of a file.
    inode: (u64, u64),
}

/// The [`first`] `most` files with names of pages, of those that are wanted by name, without its
/// ending, and owner.
fn pages(
    folder: &Path,
    most: usize,
    is_wanted: impl Fn(&str, u32) -> bool,
) -> io::Result<Vec<PageFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)?.take(LISTED_MAX).filter_map(Result::ok) {
        found.extend(page_file(&entry, &is_wanted));
        if found.len() >= 2 * most {
            found = first(found, most);
        }
    }
    Ok(first(found, most))
}

/// The file of `entry`, if it is wanted and has the name of a page.
fn page_file(entry: &fs::DirEntry, is_wanted: impl Fn(&str, u32) -> bool) -> Option<PageFile> {
    let name = entry.file_name().into_string().ok()?;
    let stem = name.strip_suffix(SUFFIX)?;
    let (pid, rest) = stem.strip_prefix(PREFIX)?.split_once('-')?;
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    if name.len() > NAME_LEN_MAX || !rest.bytes().all(is_number) {
        return None;
    }
    let metadata = entry.metadata().ok()?;
    let (owner, inode) = (metadata.uid(), (metadata.dev(), metadata.ino()));
    let file = PageFile { pid: pid.parse().ok()?, path: entry.path(), owner, inode };
    is_wanted(stem, owner).then_some(file)
}

/// `most` of `files` at the most, each by one of its names: of each user the same number, the first
/// ones in the order of processes.
fn first(mut files: Vec<PageFile>, most: usize) -> Vec<PageFile> {
    files.sort();
    let mut inodes = HashSet::new();
    files.retain(|file| inodes.insert(file.inode));
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let placed = files.into_iter().map(|file| {
        let count = counts.entry(file.owner).or_default();
        *count += 1;
        ((*count, file.owner), file)
    });
    let mut placed: Vec<_> = placed.collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().take(most).map(|(_, file)| file).collect()
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics page of an endpoint: what it is and does, for those who look from outside.
//!
//! A page is a file in shared memory (tmpfs, `/dev/shm`), one for each enabled endpoint of a
//! process. The provider's progress thread writes it some times a second, whole, under another name
//! and then renames it: a reader sees one page or the next, never parts of both, and nobody waits
//! for anybody. It goes with its endpoint; the page of a process that was killed is passed over by
//! [`read_all`] and removed by the next process of the same user that opens an endpoint.
//!
//! Containers may share the folder and have process ids of their own. So the sign that a page's
//! process lives is a lock on the page (flock(2)), and the name has the namespace of the process id
//! in it.
//!
//! Anybody may put a file of any kind where pages are: what is no plain file of a page's size is
//! passed over, too, and nobody who looks waits for it.
//!
//! In: the provider's figures. Out: the same, to `xdp-top` and to whoever reads JSON. Bounds:
//! [`PEERS_MAX`] peers in a page, and [`BYTES_MAX`] bytes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// Where pages are.
pub const FOLDER: &str = "/dev/shm";
/// How the name of each begins; process id, number of the endpoint and the process id's namespace
/// follow.
const PREFIX: &str = "ofi-xdp-";
const SUFFIX: &str = ".json";
/// Most peers in a page: those with traffic, the first of them.
pub const PEERS_MAX: usize = 128;
/// Most bytes of a page that is read: twenty times what one with [`PEERS_MAX`] peers has.
pub const BYTES_MAX: u64 = 1 << 20;
/// Who may read a page: everybody; its figures are no secrets of the application's.
const MODE: u32 = 0o644;

/// What an endpoint is and does.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// The process.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`).
    pub process: String,
    /// The endpoint's address.
    pub endpoint: String,
    /// Which way packets move: `AF_XDP zerocopy`, `AF_XDP copy`, `AF_XDP skb` or `kernel UDP`.
    pub tier: String,
    /// Why it is nothing better; empty if there is none better.
    pub why_not_better: String,
    /// The interface, its driver, and the queue of the AF_XDP socket, if there is one.
    pub interface: String,
    /// See `interface`.
    pub driver: String,
    /// See `interface`.
    pub queue: Option<u32>,
    /// The interface's MTU in bytes.
    pub mtu: u32,
    /// When the page was written, by the monotonic clock, in ns.
    pub written_at_ns: u64,
    /// Counters since the endpoint was opened, by name.
    pub counters: BTreeMap<String, u64>,
    /// Packets dropped, by reason; reasons that never applied are left out.
    pub drops: BTreeMap<String, u64>,
    /// Frames by what the XDP program of the interface did with them, since it was loaded, for all
    /// endpoints there; empty without AF_XDP.
    pub verdicts: BTreeMap<String, u64>,
    /// Peers with traffic.
    pub peers: Vec<PeerLine>,
    /// How many there are.
    pub peers_active: u32,
}

/// A peer in a page.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PeerLine {
    /// Its address.
    pub address: String,
    /// Whether data can go out.
    pub established: bool,
    /// Smoothed round trip in ns; 0 before the first measurement.
    pub round_trip_ns: u64,
    /// Congestion window in packets.
    pub window: f64,
    /// Data packets under way.
    pub in_flight: u32,
    /// Of those, taken for lost.
    pub lost: u32,
    /// Time-outs in a row.
    pub timeouts: u32,
    /// Number of the next data packet to it, modulo 2^32: differences are packets sent.
    pub next_packet: u32,
    /// Packets to it that went out again, modulo 2^32, since it has had traffic without a pause.
    pub resent: u32,
    /// Data packets received from it, modulo 2^32.
    pub received: u32,
}

/// The place of one endpoint's page; removed on drop.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    draft: PathBuf,
    /// The page that is there, and our lock on it.
    page: Option<File>,
    /// Whose it is: a fork's copy of it is not.
    pid: u32,
}

impl Place {
    /// A place for another endpoint of this process, in `folder`. Places of this user's processes
    /// that are gone are removed.
    ///
    /// # Errors
    /// When the folder is not there or cannot be written to.
    pub fn new(folder: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        for (_, path) in pages(folder)? {
            if open(&path).is_some_and(|page| is_left(&page)) {
                // Another user's stays.
                let _ = fs::remove_file(path);
            }
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        // Where /proc is another namespace's, or is not there, names may clash.
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |facts| facts.ino());
        let name = format!("{PREFIX}{pid}-{number}-{namespace}");
        let path = folder.join(format!("{name}{SUFFIX}"));
        Ok(Self { path, draft: folder.join(format!("{name}.draft")), page: None, pid })
    }

    /// Puts `page` there, in place of the one before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn publish(&mut self, page: &Page) -> io::Result<()> {
        // What a killed process of this number left; a new file, so that no link is followed.
        let _ = fs::remove_file(&self.draft);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(MODE).open(&self.draft)?;
        file.try_lock()?;
        file.write_all(&serde_json::to_vec(page)?)?;
        fs::rename(&self.draft, &self.path)?;
        self.page = Some(file);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        // It may never have been published.
        let _ = fs::remove_file(&self.draft);
        let _ = fs::remove_file(&self.path);
    }
}

/// The pages of all processes that live, in the order of processes and endpoints. What is not
/// understood (another version's) is passed over.
///
/// # Errors
/// When the folder cannot be read.
pub fn read_all(folder: &Path) -> io::Result<Vec<Page>> {
    let mut found = pages(folder)?;
    found.sort();
    Ok(found.into_iter().filter_map(|(_, path)| read(&path)).collect())
}

/// The page at `path`, if it is one, and its process lives.
fn read(path: &Path) -> Option<Page> {
    let file = open(path)?;
    if is_left(&file) || file.metadata().ok()?.len() > BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    // Whose it is may make it longer meanwhile.
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The plain file at `path`, to be read.
fn open(path: &Path) -> Option<File> {
    // Without waiting for who writes to a FIFO, and without a look at what a link leads to.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
}

/// Whether the process that wrote `page` is gone, with every fork of it that runs no other program.
/// One that lives has it locked until the next page is in its place: then it has no name any more.
fn is_left(page: &File) -> bool {
    page.try_lock_shared().is_ok() && page.metadata().is_ok_and(|facts| facts.nlink() > 0)
}

/// Process and path of every page.
fn pages(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries = fs::read_dir(folder)?.filter_map(Result::ok);
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let numbers = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let (pid, _) = numbers.split_once('-')?;
        Some((pid.parse().ok()?, entry.path()))
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests;

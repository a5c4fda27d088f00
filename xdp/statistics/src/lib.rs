// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics page of an endpoint: what it is and does, for those who look from outside.
//!
//! A page is a file in shared memory (tmpfs, `/dev/shm`), one for each enabled endpoint of a
//! process. The provider's progress thread writes it some times a second, whole, under another name
//! and then renames it: a reader sees one page or the next, never parts of both, and nobody waits
//! for anybody. It goes with its endpoint; the page of a process that was killed is passed over by
//! [`read_all`] and removed by the next process of the same user that opens an endpoint.
//!
//! Anybody may put a file of any kind where pages are: what is no plain file of a page's size is
//! passed over, too, and nobody who looks waits for it.
//!
//! In: the provider's figures. Out: the same, to `xdp-top` and to whoever reads JSON. Bounds:
//! [`PEERS_MAX`] peers in a page, and [`BYTES_MAX`] bytes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// Where pages are.
pub const FOLDER: &str = "/dev/shm";
/// How the name of each begins; process id and number of the endpoint follow.
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
        for (pid, path) in pages(folder)? {
            if !is_alive(pid) {
                // Another user's stays.
                let _ = fs::remove_file(path);
            }
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let name = format!("{PREFIX}{pid}-{number}");
        let path = folder.join(format!("{name}{SUFFIX}"));
        Ok(Self { path, draft: folder.join(format!("{name}.draft")), pid })
    }

    /// Puts `page` there, in place of the one before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn publish(&self, page: &Page) -> io::Result<()> {
        // What a killed process of this number left; a new file, so that no link is followed.
        let _ = fs::remove_file(&self.draft);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(MODE).open(&self.draft)?;
        file.write_all(&serde_json::to_vec(page)?)?;
        fs::rename(&self.draft, &self.path)
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
    let living = found.into_iter().filter(|(pid, _)| is_alive(*pid));
    Ok(living.filter_map(|(_, path)| read(&path)).collect())
}

/// The page at `path`, if it is one.
fn read(path: &Path) -> Option<Page> {
    // Without waiting for who writes to a FIFO, and without a look at what a link leads to.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.len() > BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    // Whose it is may make it longer meanwhile.
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
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

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of a test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_page_is_read_as_it_was_written_and_goes_with_its_endpoint() {
        let folder = folder("whole");
        let place = Place::new(&folder).unwrap();
        assert_eq!(read_all(&folder).unwrap(), []);
        let mut page = Page { pid: std::process::id(), queue: Some(3), ..Page::default() };
        place.publish(&page).unwrap();
        page.counters.insert(String::from("packets_sent"), u64::MAX);
        page.peers.push(PeerLine { window: 15.5, ..PeerLine::default() });
        place.publish(&page).unwrap();
        assert_eq!(read_all(&folder).unwrap(), [page]);
        drop(place);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_passed_over_and_removed() {
        let folder = folder("dead");
        // No process has this number: it is above PID_MAX_LIMIT.
        let dead = folder.join(format!("{PREFIX}4194305-0{SUFFIX}"));
        fs::write(&dead, serde_json::to_vec(&Page::default()).unwrap()).unwrap();
        let foreign = folder.join(format!("{PREFIX}{}-7{SUFFIX}", std::process::id()));
        fs::write(&foreign, "no page").unwrap();
        assert_eq!(read_all(&folder).unwrap(), []);
        drop(Place::new(&folder).unwrap());
        assert!(!dead.exists() && foreign.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
    #[test]
    fn what_is_no_plain_file_of_a_pages_size_is_passed_over_at_once() {
        use rustix::fs::{CWD, FileType, mknodat};
        let folder = folder("strange");
        let path = |number: u8| folder.join(format!("{PREFIX}1-{number}{SUFFIX}"));
        mknodat(CWD, path(0), FileType::Fifo, Mode::RUSR, 0).unwrap();
        File::create(path(1)).unwrap().set_len(1 << 40).unwrap();
        let page = Page { pid: 1, ..Page::default() };
        let text = serde_json::to_string(&page).unwrap();
        // JSON may begin with spaces.
        let spaces = " ".repeat(usize::try_from(BYTES_MAX).unwrap() - text.len());
        fs::write(path(2), format!("{spaces}{text}")).unwrap();
        fs::write(path(3), format!("{spaces} {text}")).unwrap();
        std::os::unix::fs::symlink(path(2), path(4)).unwrap();
        fs::create_dir(path(5)).unwrap();
        let (told, heard) = std::sync::mpsc::channel();
        let looked = folder.clone();
        std::thread::spawn(move || told.send(read_all(&looked)));
        let found = heard.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
        assert_eq!(found.unwrap(), [page]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

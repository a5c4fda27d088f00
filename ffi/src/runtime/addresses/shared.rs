// SPDX-License-Identifier: MIT OR Apache-2.0
//! A named address vector, which processes of a machine share (`FI_SHARED_AV`).
//!
//! In: insertions and removals by any process that has the vector open. Out: one table in each
//! process, with the same index for each address. Bound: [`RECORDS_MAX`] changes in the life of the
//! file.
//!
//! Every change is a record at the end of a file in memory (`/dev/shm`), written under the file's
//! lock. Each process plays the records into its own table, in order. A process reads new records
//! before it changes the vector, for an index that it does not know, and for `fi_av_lookup`. Data
//! calls with a known index read no file.
//!
//! A record counts once all of it is in the file, for its writer too. An incomplete record of a
//! failed or killed writer is cut off before the next one is written.
//!
//! The file lives while a process has the vector open. Each process holds a shared lock on it; a
//! process that gets the exclusive lock is the only one. So the next process removes the records of
//! a killed one. Processes open and close the vector in turns, under the lock of writers. So none
//! takes the exclusive lock of another one for a sign of use. A lock lasts as long as a copy of its
//! descriptor, also that of a forked child: each turn, and each failed opening, unlocks. Only
//! processes of one user share a file: a file that other users can open is refused.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use ofi_xdp_core::PeerAddress;
use ofi_xdp_datapath::fork::Uninherited;

use super::table::Table;
use crate::sys::errno::Error;
use crate::sys::memory;

/// Most records of a file.
const RECORDS_MAX: u64 = 1 << 22;
/// Most addresses: each insertion takes a record.
pub(super) const ADDRESSES_MAX: usize = RECORDS_MAX as usize;
/// Length of a record in bytes: kind (1), padding (1), port (2), index (4), IPv6 address (16).
const RECORD_LEN: usize = 24;
type ChangeRecord = [u8; RECORD_LEN];
const INSERTED: u8 = 1;
const REMOVED: u8 = 2;
/// Records read at a time.
const BATCH: usize = 1024;
/// Attempts to open while other processes close the vector.
const TRIES: usize = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct SharedFile {
    /// In front of the descriptors, as the fields are dropped in this order.
    _uninherited: [Uninherited; 2],
    path: PathBuf,
    /// The records. A shared lock on the file marks the vector as in use.
    records: File,
    /// The file with the lock of writers, and of processes that open or close the vector.
    writers: File,
    played: u64,
    read_only: bool,
}

/// The lock of writers, held until it is dropped.
struct Turn<'a>(&'a File);

impl<'a> Turn<'a> {
    fn new(writers: &'a File) -> Result<Self, Error> {
        uninterrupted(|| writers.lock())?;
        Ok(Self(writers))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // A lock that is held can be released (flock(2)).
        let _ = self.0.unlock();
    }
}

impl SharedFile {
    /// Opens or creates the vector `name` of the domain `domain`.
    ///
    /// # Errors
    /// [`Error::Os`]: `ENOENT` for a read-only vector that no process has open; `EACCES` if a file
    /// of this name is open to other users.
    pub(super) fn open(domain: &str, name: &str, read_only: bool) -> Result<Self, Error> {
        let path = path(domain, name);
        for _ in 0..TRIES {
            let records = opened(&path, !read_only)?;
            let writers = opened(&path.with_extension("lock"), !read_only)?;
            let turn = Turn::new(&writers)?;
            // Their last user may have removed the files meanwhile.
            if records.metadata()?.nlink() == 0 || writers.metadata()?.nlink() == 0 {
                continue;
            }
            match records.try_lock() {
                Ok(()) => begin(&records, read_only)?,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            uninterrupted(|| records.lock_shared())?;
            drop(turn);
            let _uninherited = [Uninherited::new(&records), Uninherited::new(&writers)];
            return Ok(Self { _uninherited, path, records, writers, played: 0, read_only });
        }
        Err(Error::Again)
    }

    /// Plays new records of other processes into `table`; returns whether there were any.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::NoMemory`].
    pub(super) fn catch_up(&mut self, table: &mut Table) -> Result<bool, Error> {
        let before = self.played;
        let mut batch = memory::zeroed(RECORD_LEN * BATCH)?;
        // bound: RECORDS_MAX
        loop {
            let read = self.records.read_at(&mut batch, self.end())?;
            // A partial record does not count: it is being written, or its writer has failed.
            let (whole, _) = batch.get(..read).unwrap_or_default().as_chunks::<RECORD_LEN>();
            if whole.is_empty() {
                return Ok(self.played > before);
            }
            for record in whole {
                // A record that is not played would give later ones other indices.
                table.reserve().ok_or(Error::NoMemory)?;
                play(record, table);
                self.played += 1;
            }
        }
    }

    /// Inserts `address` for every process; returns its index.
    ///
    /// # Errors
    /// [`Error::Os`] (`EACCES`: opened for reading only; `EFBIG`: beyond the size of files that the
    /// process may write), [`Error::NoMemory`]. After an error the address is in no table, but
    /// records of other processes may have been played.
    pub(super) fn insert(&mut self, table: &mut Table, address: PeerAddress) -> Result<u32, Error> {
        self.add(table, |table| {
            let fits = table.has_room_for(&address);
            fits.then(|| record(INSERTED, 0, Some(address))).ok_or(Error::NoMemory)
        })?;
        table.find(&address).ok_or(Error::NoMemory)
    }

    /// Removes the address at `index` for every process.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none; as [`Self::insert`].
    pub(super) fn remove(&mut self, table: &mut Table, index: u64) -> Result<(), Error> {
        self.add(table, |table| {
            table.get(index).ok_or(Error::Invalid)?;
            let index = u32::try_from(index).map_err(|_| Error::Invalid)?;
            Ok(record(REMOVED, index, None))
        })
    }

    /// Adds the record that `decide` makes from the current table.
    fn add(
        &mut self,
        table: &mut Table,
        decide: impl FnOnce(&Table) -> Result<ChangeRecord, Error>,
    ) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::Os(libc::EACCES));
        }
        uninterrupted(|| self.writers.lock())?;
        let added = self.add_locked(table, decide);
        self.writers.unlock()?;
        added
    }

    fn add_locked(
        &mut self,
        table: &mut Table,
        decide: impl FnOnce(&Table) -> Result<ChangeRecord, Error>,
    ) -> Result<(), Error> {
        self.catch_up(table)?;
        if self.played >= RECORDS_MAX {
            return Err(Error::NoMemory);
        }
        let record = decide(table)?;
        table.reserve().ok_or(Error::NoMemory)?;
        let end = self.end();
        // Beyond the limit the kernel sends SIGXFSZ, which ends the process (setrlimit(2)).
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        if end + RECORD_LEN as u64 > limit {
            return Err(Error::Os(libc::EFBIG));
        }
        if self.records.metadata()?.len() != end {
            // A killed writer has left a partial record.
            self.records.set_len(end)?;
        }
        if let Err(error) = (&self.records).write_all(&record) {
            // The partial record is cut off; if that fails too, the next writer does it.
            let _ = self.records.set_len(end);
            return Err(error.into());
        }
        // Played after the write, as in other processes: only records in the file change tables.
        play(&record, table);
        self.played += 1;
        Ok(())
    }

    /// End of the played records in the file.
    const fn end(&self) -> u64 {
        self.played * RECORD_LEN as u64
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // A process that waits for its turn sees that the files are removed. If this process is
        // killed here, or has no turn, the next user removes the records.
        let turn = Turn::new(&self.writers);
        if turn.is_ok() && self.records.try_lock().is_ok() {
            // The lock is last: a process that opens meanwhile waits for it, and then tries again.
            let _ = std::fs::remove_file(&self.path);
            let _ = std::fs::remove_file(self.path.with_extension("lock"));
        }
    }
}

/// Begins a vector that no process has open, with the exclusive lock on `records`. If that fails
/// the lock ends while the turn lasts.
fn begin(records: &File, read_only: bool) -> Result<(), Error> {
    let begun = if read_only {
        Err(Error::Os(libc::ENOENT))
    } else {
        records.set_len(0).map_err(Error::from)
    };
    if begun.is_err() {
        records.unlock()?;
    }
    begun
}

/// Repeats a lock that a signal has interrupted (flock(2), `EINTR`).
fn uninterrupted(mut lock: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    // bound: the signals
    loop {
        match lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// One file for each user, domain and name.
fn path(domain: &str, name: &str) -> PathBuf {
    use std::fmt::Write as _;
    let user = nix::unistd::geteuid();
    let mut file = format!("/dev/shm/ofi-xdp-av.{user}.{domain}.");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            file.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(file, "-{byte:02x}");
        }
    }
    file.push_str(".av");
    file.into()
}

/// Opens a file of a vector. Its name is predictable, and every user may create files there. So a
/// file that other users can read or write is refused.
fn opened(path: &Path, create: bool) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(create).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path);
    let found = match &file {
        Ok(file) => Some(file.metadata()?),
        // The kernel may refuse to open the file first (`fs.protected_regular`).
        Err(_) => path.symlink_metadata().ok(),
    };
    match found {
        Some(found) if !is_private(&found) => {
            let (owner, mode) = (found.uid(), found.mode() & 0o7777);
            log::warn!(
                target: "av",
                "{} is in the way: it belongs to user {owner}, with mode {mode:o}; have it \
                 removed, or open the vector by another name",
                path.display()
            );
            Err(Error::Os(libc::EACCES))
        }
        _ => Ok(file?),
    }
}

/// A file that only this user can open.
fn is_private(file: &Metadata) -> bool {
    let user = nix::unistd::geteuid().as_raw();
    file.is_file() && file.uid() == user && file.mode() & 0o077 == 0
}

fn record(what: u8, index: u32, address: Option<PeerAddress>) -> ChangeRecord {
    let mut record = [0; RECORD_LEN];
    record[0] = what;
    record[4..8].copy_from_slice(&index.to_ne_bytes());
    if let Some(address) = address {
        record[2..4].copy_from_slice(&address.port().to_ne_bytes());
        record[8..].copy_from_slice(&address.octets());
    }
    record
}

fn play(record: &ChangeRecord, table: &mut Table) {
    let [what, _, p0, p1, i0, i1, i2, i3, ip @ ..] = *record;
    match what {
        INSERTED => {
            table.insert(PeerAddress::from_v6(ip, u16::from_ne_bytes([p0, p1])));
        }
        REMOVED => {
            table.remove(u32::from_ne_bytes([i0, i1, i2, i3]).into());
        }
        // An unknown kind: no provider of this user writes one.
        _ => {}
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A named address vector, shared by the processes of a machine that open it (`FI_SHARED_AV`).
//!
//! Every insertion and removal is a record at the end of a file in memory (`/dev/shm`), written
//! under its lock by whoever makes it; every process plays the records into a table of its own, in
//! order, and so gives every address the same index. A process looks for new records before it
//! changes anything, when it is asked for an index that it does not know, and for `fi_av_lookup`.
//! Data calls look at no file for an index that is known.
//!
//! A record counts when all of it is in the file, for its writer, too. What a writer that failed or
//! was killed has left of one is cut off before the next.
//!
//! The file lives as long as a process has the vector open: each holds a shared lock on it, and who
//! gets the exclusive one is alone with it. So what a killed process leaves is swept away by the
//! next one. Only processes of the same user can open it; a file of its name that others can open,
//! too, is refused.
//!
//! Bounds: [`RECORDS_MAX`] insertions and removals in the life of the file.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ofi_xdp_core::PeerAddress;

use super::table::Table;
use crate::errno::Error;

/// Most records of a file.
const RECORDS_MAX: u64 = 1 << 22;
/// Bytes of a record: what (1), nothing (1), port (2), index (4), IPv6 address (16).
const RECORD_LEN: usize = 24;
type Record = [u8; RECORD_LEN];
const INSERTED: u8 = 1;
const REMOVED: u8 = 2;
/// Records read at a time.
const BATCH: usize = 1024;
/// How often opening is tried while others close the vector.
const TRIES: usize = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    path: PathBuf,
    /// Also the lock that says that somebody uses the vector.
    records: File,
    /// The lock of who adds a record.
    turn: File,
    played: u64,
    read_only: bool,
}

impl Shared {
    /// Opens the vector `name` of the domain `domain`, or makes it.
    ///
    /// # Errors
    /// [`Error::Os`]: `ENOENT` if it is to be read only and nobody has it open; `EACCES` if a file
    /// that others can use is in the way.
    pub(super) fn open(domain: &str, name: &str, read_only: bool) -> Result<Self, Error> {
        let path = path(domain, name);
        for _ in 0..TRIES {
            let records = opened(&path, !read_only)?;
            match records.try_lock() {
                Ok(()) if read_only => return Err(Error::Os(libc::ENOENT)),
                Ok(()) => records.set_len(0)?,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            records.lock_shared()?;
            // The last one of before may have removed it in the meantime.
            if records.metadata()?.nlink() == 0 {
                continue;
            }
            let turn = opened(&path.with_extension("lock"), true)?;
            return Ok(Self { path, records, turn, played: 0, read_only });
        }
        Err(Error::Again)
    }

    /// Plays the records of others into `table`; whether there were any.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(super) fn catch_up(&mut self, table: &mut Table) -> Result<bool, Error> {
        let before = self.played;
        let mut batch = vec![0; RECORD_LEN * BATCH];
        // bound: RECORDS_MAX
        loop {
            let read = self.records.read_at(&mut batch, self.end())?;
            // A part of a record is none: it is still being written, or its writer has failed.
            let (whole, _) = batch.get(..read).unwrap_or_default().as_chunks::<RECORD_LEN>();
            if whole.is_empty() {
                return Ok(self.played > before);
            }
            whole.iter().for_each(|record| play(record, table));
            self.played += whole.len() as u64;
        }
    }

    /// Inserts `address` for everybody: its index.
    ///
    /// # Errors
    /// [`Error::Os`] (`EACCES`: opened for reading only), [`Error::NoMemory`]. The address is
    /// inserted for nobody then, but records of others may have been played.
    pub(super) fn insert(&mut self, table: &mut Table, address: PeerAddress) -> Result<u32, Error> {
        self.add(table, |table| {
            let fits = table.has_room_for(&address);
            fits.then(|| record(INSERTED, 0, Some(address))).ok_or(Error::NoMemory)
        })?;
        table.find(&address).ok_or(Error::NoMemory)
    }

    /// Removes what is at `index` for everybody.
    ///
    /// # Errors
    /// [`Error::Invalid`] if nothing is; as [`Self::insert`].
    pub(super) fn remove(&mut self, table: &mut Table, index: u64) -> Result<(), Error> {
        self.add(table, |table| {
            table.get(index).ok_or(Error::Invalid)?;
            let index = u32::try_from(index).map_err(|_| Error::Invalid)?;
            Ok(record(REMOVED, index, None))
        })
    }

    /// Adds the record that `decide` makes of the table as it is for everybody.
    fn add(
        &mut self,
        table: &mut Table,
        decide: impl FnOnce(&Table) -> Result<Record, Error>,
    ) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::Os(libc::EACCES));
        }
        self.turn.lock()?;
        let added = self.add_in_turn(table, decide);
        self.turn.unlock()?;
        added
    }

    fn add_in_turn(
        &mut self,
        table: &mut Table,
        decide: impl FnOnce(&Table) -> Result<Record, Error>,
    ) -> Result<(), Error> {
        self.catch_up(table)?;
        if self.played >= RECORDS_MAX {
            return Err(Error::NoMemory);
        }
        let record = decide(table)?;
        let end = self.end();
        if self.records.metadata()?.len() != end {
            // Who was killed amid a record has left a part of it.
            self.records.set_len(end)?;
        }
        if let Err(error) = (&self.records).write_all(&record) {
            // What is there of it goes; should that fail, too, then before the next record.
            let _ = self.records.set_len(end);
            return Err(error.into());
        }
        // Only now, as for everybody else: a record that is not in the file changes no table.
        play(&record, table);
        self.played += 1;
        Ok(())
    }

    /// Where the records end that were played.
    const fn end(&self) -> u64 {
        self.played * RECORD_LEN as u64
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Alone with it: nobody else will find it. A process that is killed here leaves it to the
        // next one.
        if self.records.try_lock().is_ok() {
            // The lock first: whoever finds the other file waits for our lock on it, and then sees
            // that it is gone.
            let _ = std::fs::remove_file(self.path.with_extension("lock"));
            let _ = std::fs::remove_file(&self.path);
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

/// Opens a file of a vector. Everybody can guess its name, and everybody may make files there: only
/// one that nobody else can read or write is taken.
fn opened(path: &Path, create: bool) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(create).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path);
    let found = match &file {
        Ok(file) => Some(file.metadata()?),
        // The kernel may refuse it before we can (`fs.protected_regular`).
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

fn record(what: u8, index: u32, address: Option<PeerAddress>) -> Record {
    let mut record = [0; RECORD_LEN];
    record[0] = what;
    record[4..8].copy_from_slice(&index.to_ne_bytes());
    if let Some(address) = address {
        record[2..4].copy_from_slice(&address.port().to_ne_bytes());
        record[8..].copy_from_slice(&address.octets());
    }
    record
}

fn play(record: &Record, table: &mut Table) {
    let [what, _, p0, p1, i0, i1, i2, i3, ip @ ..] = *record;
    match what {
        INSERTED => {
            table.insert(PeerAddress::from_v6(ip, u16::from_ne_bytes([p0, p1])));
        }
        REMOVED => {
            table.remove(u32::from_ne_bytes([i0, i1, i2, i3]).into());
        }
        // Not ours: nobody of this user writes anything else here.
        _ => {}
    }
}

#[cfg(test)]
mod tests;

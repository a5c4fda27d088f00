// SPDX-License-Identifier: MIT OR Apache-2.0
//! A named address vector, shared by the processes of a machine that open it (`FI_SHARED_AV`).
//!
//! Every insertion and removal is a record at the end of a file in memory (`/dev/shm`), written
//! under its lock by whoever makes it; every process plays the records into a table of its own, in
//! order, and so gives every address the same index. A process looks for new records before it
//! changes anything, when it is asked for an index that it does not know, and for `fi_av_lookup`.
//! Data calls look at no file for an index that is known.
//!
//! The file lives as long as a process has the vector open: each holds a shared lock on it, and who
//! gets the exclusive one is alone with it. So what a killed process leaves is swept away by the
//! next one. Only processes of the same user can open it.
//!
//! Bounds: [`RECORDS_MAX`] insertions and removals in the life of the file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use ofi_xdp_core::PeerAddress;

use super::table::Table;
use crate::errno::Error;

/// Most records of a file.
const RECORDS_MAX: u64 = 1 << 22;
/// Bytes of a record: what (1), nothing (1), port (2), index (4), IPv6 address (16).
const RECORD_LEN: usize = 24;
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
    /// [`Error::Os`]: `ENOENT` if it is to be read only and nobody has it open.
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
            let read = self.records.read_at(&mut batch, self.played * RECORD_LEN as u64)?;
            let (whole, _) = batch.get(..read).unwrap_or_default().as_chunks::<RECORD_LEN>();
            whole.iter().for_each(|record| play(record, table));
            self.played += whole.len() as u64;
            if whole.len() < BATCH {
                return Ok(self.played > before);
            }
        }
    }

    /// Inserts `address` for everybody.
    ///
    /// # Errors
    /// [`Error::Os`] (`EACCES`: opened for reading only), [`Error::NoMemory`].
    pub(super) fn insert(&mut self, table: &mut Table, address: PeerAddress) -> Result<u32, Error> {
        self.change(table, |table| {
            let index = table.insert(address).ok_or(Error::NoMemory)?;
            Ok((index, record(INSERTED, 0, Some(address))))
        })
    }

    /// Removes what is at `index` for everybody.
    ///
    /// # Errors
    /// [`Error::Invalid`] if nothing is; as [`Self::insert`].
    pub(super) fn remove(&mut self, table: &mut Table, index: u64) -> Result<(), Error> {
        self.change(table, |table| {
            table.remove(index).ok_or(Error::Invalid)?;
            let index = u32::try_from(index).map_err(|_| Error::Invalid)?;
            Ok(((), record(REMOVED, index, None)))
        })
    }

    fn change<T>(
        &mut self,
        table: &mut Table,
        apply: impl FnOnce(&mut Table) -> Result<(T, [u8; RECORD_LEN]), Error>,
    ) -> Result<T, Error> {
        if self.read_only {
            return Err(Error::Os(libc::EACCES));
        }
        self.turn.lock()?;
        let changed = self.catch_up(table).and_then(|_| {
            if self.played >= RECORDS_MAX {
                return Err(Error::NoMemory);
            }
            let (change, record) = apply(table)?;
            (&self.records).write_all(&record)?;
            self.played += 1;
            Ok(change)
        });
        self.turn.unlock()?;
        changed
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

fn opened(path: &PathBuf, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(create).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

fn record(what: u8, index: u32, address: Option<PeerAddress>) -> [u8; RECORD_LEN] {
    let mut record = [0; RECORD_LEN];
    record[0] = what;
    record[4..8].copy_from_slice(&index.to_ne_bytes());
    if let Some(address) = address {
        record[2..4].copy_from_slice(&address.port().to_ne_bytes());
        record[8..].copy_from_slice(&address.octets());
    }
    record
}

fn play(record: &[u8; RECORD_LEN], table: &mut Table) {
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
mod tests {
    use super::*;

    fn address(port: u16) -> PeerAddress {
        PeerAddress::from_v4([198, 18, 0, 1], port)
    }

    #[test]
    fn two_openers_agree_on_every_index() {
        let name = format!("agree/{}", std::process::id());
        let open = |read_only| Shared::open("test", &name, read_only);
        assert_eq!(open(true).err(), Some(Error::Os(libc::ENOENT)));
        let (mut a, mut b) = (open(false).unwrap(), open(false).unwrap());
        let (mut ours, mut theirs) = (Table::default(), Table::default());
        assert_eq!(a.insert(&mut ours, address(1)), Ok(0));
        assert_eq!(b.insert(&mut theirs, address(2)), Ok(1));
        assert_eq!(a.remove(&mut ours, 0), Ok(()));
        assert_eq!(b.insert(&mut theirs, address(3)), Ok(0));
        assert_eq!(a.remove(&mut ours, 7), Err(Error::Invalid));
        let mut reader = open(true).unwrap();
        let mut seen = Table::default();
        assert_eq!(reader.catch_up(&mut seen), Ok(true));
        assert_eq!(reader.catch_up(&mut seen), Ok(false));
        assert_eq!(seen.get(0).map(|entry| entry.address), Some(address(3)));
        assert_eq!(seen.get(1).map(|entry| entry.address), Some(address(2)));
        let refused = reader.insert(&mut seen, address(4));
        assert_eq!(refused, Err(Error::Os(libc::EACCES)));
        drop((a, b));
        assert!(path("test", &name).exists(), "the reader has it open");
        drop(reader);
        assert!(!path("test", &name).exists());
    }

    #[test]
    fn what_a_killed_process_leaves_is_swept_away() {
        let name = format!("left/{}", std::process::id());
        std::fs::write(path("test", &name), record(INSERTED, 0, Some(address(9)))).unwrap();
        let mut new = Shared::open("test", &name, false).unwrap();
        let mut table = Table::default();
        assert_eq!(new.catch_up(&mut table), Ok(false));
        assert_eq!(new.insert(&mut table, address(1)), Ok(0));
    }

    #[test]
    fn names_are_files_of_their_own() {
        assert_ne!(path("lo", "a/b"), path("lo", "a-b"));
        assert_eq!(path("lo", "../etc").parent(), path("lo", "x").parent());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! All openers have equal tables, even after one of them was killed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::Command;

use nix::errno::Errno;

use super::*;

fn address(port: u16) -> PeerAddress {
    PeerAddress::from_v4([198, 18, 0, 1], port)
}

#[test]
fn two_openers_agree_on_every_index() {
    let name = format!("agree/{}", std::process::id());
    let open = |read_only| SharedFile::open("test", &name, read_only);
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
fn files_of_a_killed_process_are_removed() {
    let name = format!("left/{}", std::process::id());
    let mut left = opened(&path("test", &name), true).unwrap();
    left.write_all(&record(INSERTED, 0, Some(address(9)))).unwrap();
    drop(left);
    let mut new = SharedFile::open("test", &name, false).unwrap();
    let mut table = Table::default();
    assert_eq!(new.catch_up(&mut table), Ok(false));
    assert_eq!(new.insert(&mut table, address(1)), Ok(0));
}

/// As a reader does that finds the vector closed: it has the exclusive lock for a moment.
#[test]
fn a_reader_beside_another_one_keeps_no_records_of_a_killed_process() {
    let name = format!("beside/{}", std::process::id());
    let mut left = opened(&path("test", &name), true).unwrap();
    left.write_all(&record(INSERTED, 0, Some(address(9)))).unwrap();
    let turn = opened(&path("test", &name).with_extension("lock"), true).unwrap();
    turn.lock().unwrap();
    left.lock().unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| SharedFile::open("test", &name, true).err());
        // The outcome is the same if the reader is later than this.
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(left);
        drop(turn);
        assert_eq!(reader.join().unwrap(), Some(Error::Os(libc::ENOENT)));
    });
    let (mut new, mut table) = opener(&name);
    assert_eq!(new.insert(&mut table, address(1)), Ok(0));
}

/// As a process that waits for the turn and opens the vector then.
#[test]
fn a_reader_of_a_closed_vector_has_no_lock_when_its_turn_ends() {
    let name = format!("refused/{}", std::process::id());
    let [reader, next] = [(); 2].map(|()| opened(&path("test", &name), true).unwrap());
    reader.try_lock().unwrap();
    assert_eq!(begin(&reader, true), Err(Error::Os(libc::ENOENT)));
    next.try_lock().unwrap();
    begin(&next, false).unwrap();
    assert!(reader.try_lock().is_err());
    fs::remove_file(path("test", &name)).unwrap();
}

#[test]
fn signals_do_not_end_the_wait_for_a_lock() {
    let mut answers = vec![Ok(()), Err(Errno::EINTR), Err(Errno::EINTR)];
    let result = uninterrupted(|| answers.pop().unwrap().map_err(io::Error::from));
    assert_eq!((result.is_ok(), answers.len()), (true, 0));
    let refused = uninterrupted(|| Err(Errno::ENOLCK.into()));
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOLCK));
}

/// The child of a fork has a copy of each descriptor, and the locks with it.
#[test]
fn a_close_ends_its_turn_also_where_a_fork_has_its_descriptors() {
    let name = format!("forked/{}", std::process::id());
    let (a, b) = (opener(&name).0, opener(&name).0);
    let _copy = a.writers.try_clone().unwrap();
    drop(a);
    b.writers.try_lock().unwrap();
}

/// The last user removes both files, one after the other.
#[test]
fn a_process_that_opens_between_the_two_removals_shares_with_later_ones() {
    let name = format!("between/{}", std::process::id());
    let (last, _) = opener(&name);
    last.writers.lock().unwrap();
    last.records.try_lock().unwrap();
    fs::remove_file(&last.path).unwrap();
    std::thread::scope(|scope| {
        let between = scope.spawn(|| opener(&name));
        // The outcome is the same if the opener is later than this.
        std::thread::sleep(std::time::Duration::from_millis(100));
        fs::remove_file(last.path.with_extension("lock")).unwrap();
        last.writers.unlock().unwrap();
        let ((mut a, mut ours), (mut b, mut theirs)) = (between.join().unwrap(), opener(&name));
        assert_eq!(a.insert(&mut ours, address(1)), Ok(0));
        assert_eq!(b.insert(&mut theirs, address(2)), Ok(1));
        drop((a, b));
    });
}

/// Number of records that fill a page of the file but for 16 bytes.
const PAGE: u16 = 170;

/// An opener, and its table.
fn opener(name: &str) -> (SharedFile, Table) {
    (SharedFile::open("test", name, false).unwrap(), Table::default())
}

#[test]
fn a_part_of_a_record_is_none() {
    let name = format!("torn/{}", std::process::id());
    let ((mut a, mut ours), (mut b, mut theirs)) = (opener(&name), opener(&name));
    assert_eq!(a.insert(&mut ours, address(1)), Ok(0));
    for port in [2, 3] {
        // A writer is killed within a record.
        let torn = record(INSERTED, 0, Some(address(9)));
        (&a.records).write_all(&torn[..usize::from(port) * 6]).unwrap();
        assert_eq!(b.catch_up(&mut theirs), Ok(port == 2));
        assert_eq!(b.insert(&mut theirs, address(port)), Ok(u32::from(port) - 1));
        assert_eq!(a.catch_up(&mut ours), Ok(true));
    }
    let (mut c, mut seen) = opener(&name);
    assert_eq!(c.catch_up(&mut seen), Ok(true));
    for table in [&ours, &theirs, &seen] {
        for port in 1..=3 {
            assert_eq!(table.find(&address(port)), Some(u32::from(port) - 1));
        }
        assert_eq!(table.find(&address(9)), None);
    }
}

#[test]
fn a_failed_write_changes_no_table() {
    let name = format!("refused/{}", std::process::id());
    let ((mut a, mut ours), (mut b, mut theirs)) = (opener(&name), opener(&name));
    assert_eq!(a.insert(&mut ours, address(1)), Ok(0));
    // Its writes fail, as the file is open for reading only.
    b.records = File::open(&b.path).unwrap();
    assert_eq!(b.insert(&mut theirs, address(2)), Err(Error::Os(libc::EBADF)));
    assert_eq!(b.remove(&mut theirs, 0), Err(Error::Os(libc::EBADF)));
    assert_eq!(a.insert(&mut ours, address(3)), Ok(1));
    assert_eq!(b.catch_up(&mut theirs), Ok(true));
    for (port, index) in [(1, Some(0)), (2, None), (3, Some(1))] {
        assert_eq!((ours.find(&address(port)), theirs.find(&address(port))), (index, index));
    }
}

/// The file grows to a page, which has no room for the last record: the partial record is cut off.
/// The test needs a limit of file sizes, so it runs in a process of its own.
#[test]
fn a_record_that_finds_no_room_leaves_nothing() {
    const LIMITED: &str = "OFI_XDP_TEST_LIMITED";
    if std::env::var_os(LIMITED).is_none() {
        let test = "runtime::addresses::shared::tests::a_record_that_finds_no_room_leaves_nothing";
        // The limit is in blocks of 512 bytes; its signal is ignored.
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\"";
        let mut limited = Command::new("/bin/sh");
        limited.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(test);
        let output = limited.env(LIMITED, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let name = format!("room/{}", std::process::id());
    let ((mut a, mut ours), (mut b, mut theirs)) = (opener(&name), opener(&name));
    for port in 0..PAGE {
        assert_eq!(a.insert(&mut ours, address(port)), Ok(port.into()));
    }
    assert_eq!(a.insert(&mut ours, address(PAGE)), Err(Error::Os(libc::EFBIG)));
    assert_eq!(ours.find(&address(PAGE)), None);
    assert_eq!(a.remove(&mut ours, 0), Err(Error::Os(libc::EFBIG)));
    assert_eq!(ours.find(&address(0)), Some(0));
    let len = a.records.metadata().unwrap().len();
    assert_eq!(len, u64::from(PAGE) * RECORD_LEN as u64, "a part of a record is there");
    assert_eq!(b.catch_up(&mut theirs), Ok(true));
    assert_eq!((theirs.insertions(), theirs.removals()), (PAGE.into(), 0));
}

#[test]
fn a_file_that_others_can_use_is_refused() {
    const NOBODY: u32 = 65534;
    let name = format!("foreign/{}", std::process::id());
    let file = path("test", &name);
    let lock = file.with_extension("lock");
    let refused = Some(Error::Os(libc::EACCES));
    let open = || SharedFile::open("test", &name, false).err();
    for foreign in [&file, &lock] {
        for mode in [0o666, 0o640, 0o602] {
            drop(File::create(foreign).unwrap());
            fs::set_permissions(foreign, Permissions::from_mode(mode)).unwrap();
            assert_eq!(open(), refused, "{} with mode {mode:o}", foreign.display());
            fs::remove_file(foreign).unwrap();
        }
        symlink("/dev/null", foreign).unwrap();
        assert_eq!(open(), refused, "a link, {}", foreign.display());
        fs::remove_file(foreign).unwrap();
        fs::create_dir(foreign).unwrap();
        assert_eq!(open(), refused, "a folder, {}", foreign.display());
        fs::remove_dir(foreign).unwrap();
        drop(opened(foreign, true).unwrap());
        // Only root can give a file away.
        if chown(foreign, Some(NOBODY), None).is_ok() {
            assert_eq!(open(), refused, "{} of another user", foreign.display());
        }
        fs::remove_file(foreign).unwrap();
    }
    assert_eq!(open(), None);
}

#[test]
fn names_are_files_of_their_own() {
    assert_ne!(path("lo", "a/b"), path("lo", "a-b"));
    assert_eq!(path("lo", "../etc").parent(), path("lo", "x").parent());
}

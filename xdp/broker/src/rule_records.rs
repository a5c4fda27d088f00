// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the rules that this broker has asked devices for. A rule belongs to the device and
//! outlives its process, so the next broker removes the rules of one that was killed.
//!
//! In: a rule that is about to be made, and its holder. Out: a [`RuleRecord`], a file as long as it
//! lives; a [`Recorded`], in which the rule goes before the record. The folder is beside the
//! broker's socket, in a file system that ends with the machine's run, as rules do. Callers:
//! `main.rs` once, `grants.rs` for each grant with a rule. Bounds: a file each grant;
//! [`RECORDS_MAX`] records are read.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ofi_xdp_datapath::SteeringRule;

/// Maximum number of records of a former broker that are read.
const RECORDS_MAX: usize = 4096;

/// The folder of the records.
#[derive(Debug)]
pub(crate) struct RuleRecords {
    /// Or the reason why there is none.
    folder: Result<PathBuf, String>,
}

/// The record of a rule. Drop it after the rule.
#[derive(Debug)]
pub(crate) struct RuleRecord {
    path: PathBuf,
}

/// The holder of a rule, with the rule's record.
#[derive(Debug)]
pub(crate) struct Recorded<H> {
    /// In front of the record, as the fields are dropped in this order.
    holder: H,
    record: Option<RuleRecord>,
}

impl<H> Recorded<H> {
    /// `holder`, which may make the rule of `record`.
    pub(crate) const fn new(holder: H, record: Option<RuleRecord>) -> Self {
        Self { holder, record }
    }

    /// The holder.
    pub(crate) const fn holder(&self) -> &H {
        &self.holder
    }

    /// The holder.
    pub(crate) const fn holder_mut(&mut self) -> &mut H {
        &mut self.holder
    }

    /// Drops the record: the holder has made no rule.
    pub(crate) fn forget_rule(&mut self) {
        self.record = None;
    }

    /// What `change` makes of the holder, with the record.
    pub(crate) fn map<T>(self, change: impl FnOnce(H) -> Option<T>) -> Option<Recorded<T>> {
        let Self { holder, record } = self;
        let holder = change(holder)?;
        Some(Recorded { holder, record })
    }
}

impl RuleRecords {
    /// The records beside `socket`, the path of the listening socket, if it has one. The rules that
    /// a former broker has left there are removed by `remove`, which returns whether their records
    /// may go.
    pub(crate) fn open(socket: Option<&Path>, remove: impl FnMut(SteeringRule) -> bool) -> Self {
        let Some(socket) = socket else {
            let reason = "no record of it can be kept: the broker's socket has no path";
            return Self { folder: Err(reason.to_owned()) };
        };
        let folder = socket.with_extension("rules");
        let opened = private_folder(&folder).and_then(|()| forget_former(&folder, remove));
        let failed =
            |error| format!("no record of it can be kept in {}: {error}", folder.display());
        Self { folder: opened.map_err(failed).map(|()| folder) }
    }

    /// A record of `rule`.
    ///
    /// # Errors
    /// The reason, for the client.
    pub(crate) fn add(&self, rule: SteeringRule) -> Result<RuleRecord, String> {
        let folder = self.folder.as_ref().map_err(Clone::clone)?;
        let path = folder.join(file_name(rule));
        let failed = |error| format!("no record of it can be kept: {}: {error}", path.display());
        File::create(&path).map_err(failed)?;
        Ok(RuleRecord { path })
    }
}

impl Drop for RuleRecord {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            log::warn!("{} stays: {error}", self.path.display());
        }
    }
}

/// Makes a folder for this user alone, if it is not there.
fn private_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    let found = fs::symlink_metadata(folder)?;
    let is_ours = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if !is_ours || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("it is there and is not this user's alone"));
    }
    Ok(())
}

/// Offers the recorded rules to `remove`.
fn forget_former(folder: &Path, mut remove: impl FnMut(SteeringRule) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.take(RECORDS_MAX) {
        let path = entry?.path();
        let rule = path.file_name().and_then(|name| rule_of(name.to_str()?));
        // A file with another name is no record.
        if rule.is_none_or(&mut remove) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn file_name(rule: SteeringRule) -> String {
    let SteeringRule { interface, queue, address } = rule;
    format!("{interface} {queue} {address}")
}

fn rule_of(name: &str) -> Option<SteeringRule> {
    let mut parts = name.splitn(3, ' ');
    let (interface, queue) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(SteeringRule { interface, queue, address: parts.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt as _;

    /// An empty folder, which is removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ofi-{name}-{}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn rule(address: &str, queue: u32) -> SteeringRule {
        SteeringRule { interface: 3, queue, address: address.parse().unwrap() }
    }

    /// The former rules that are offered beside the socket in `folder`.
    fn open(folder: &Folder, removes: bool) -> (RuleRecords, Vec<SteeringRule>) {
        let mut former = Vec::new();
        let records = RuleRecords::open(Some(&folder.0.join("socket")), |rule| {
            former.push(rule);
            removes
        });
        former.sort_by_key(|rule| rule.queue);
        (records, former)
    }

    #[test]
    fn the_rules_of_a_killed_broker_are_offered_until_they_are_removed() {
        let folder = Folder::new("rules");
        let (records, former) = open(&folder, true);
        assert_eq!(former, []);
        let rules =
            [rule("198.18.0.1:7000", 0), rule("[fd00::1]:7000", 1), rule("[fe80::1%3]:1", 2)];
        let kept = rules.map(|rule| records.add(rule).unwrap());
        let ended = records.add(rule("198.18.0.1:7001", 3)).unwrap();
        drop(ended);
        // A killed process drops nothing.
        std::mem::forget((kept, records));
        fs::write(folder.0.join("socket.rules/note"), "").unwrap();
        assert_eq!(open(&folder, false).1, rules);
        assert_eq!(open(&folder, true).1, rules);
        assert_eq!(open(&folder, true).1, []);
        assert_eq!(fs::read_dir(folder.0.join("socket.rules")).unwrap().count(), 0);
    }

    /// The holder of a rule, which looks for the record when the rule goes.
    struct Holder<'a>(&'a Path, &'a Cell<u32>);

    impl Drop for Holder<'_> {
        fn drop(&mut self) {
            assert!(self.0.exists(), "a broker that is killed now leaves no unrecorded rule");
            self.1.set(self.1.get() + 1);
        }
    }

    #[test]
    fn a_record_lasts_longer_than_its_rule() {
        let folder = Folder::new("order");
        let (records, _) = open(&folder, true);
        let rule = rule("198.18.0.1:7000", 0);
        let path = folder.0.join("socket.rules").join(file_name(rule));
        let dropped = Cell::new(0);
        let recorded = || {
            let record = Some(records.add(rule).unwrap());
            Recorded::new(Holder(&path, &dropped), record)
        };
        drop(recorded());
        assert!(!path.exists());
        assert!(recorded().map(|_| None::<()>).is_none());
        assert!(!path.exists());
        let moved = recorded().map(Some).unwrap();
        assert!(path.exists());
        drop(moved);
        assert_eq!((path.exists(), dropped.get()), (false, 3));
    }

    #[test]
    fn a_socket_without_a_path_has_no_records() {
        let records = RuleRecords::open(None, |_| panic!("there is no record"));
        let error = records.add(rule("198.18.0.1:7000", 0)).unwrap_err();
        assert!(error.ends_with("the broker's socket has no path"), "{error}");
    }

    #[test]
    fn the_folder_of_others_is_refused() {
        let folder = Folder::new("foreign-rules");
        let records = folder.0.join("socket.rules");
        fs::create_dir(&records).unwrap();
        fs::set_permissions(&records, fs::Permissions::from_mode(0o777)).unwrap();
        let error = open(&folder, true).0.add(rule("198.18.0.1:7000", 0)).unwrap_err();
        assert!(error.ends_with("it is there and is not this user's alone"), "{error}");
        fs::remove_dir(&records).unwrap();
        std::os::unix::fs::symlink("/", &records).unwrap();
        assert!(open(&folder, true).0.folder.is_err());
    }
}

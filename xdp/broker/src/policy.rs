// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policy file: which users may have which sockets.
//!
//! In: TOML. Out: a [`Policy`], which answers for one user and one interface. A request without a
//! matching rule is refused; the first rule that matches user and interface decides. Names are
//! resolved once, when the file is read. The file belongs to root or to the broker's user, and no
//! other user may write it. Caller: `grants.rs`. Bound: the size of the file,
//! [`FILE_BYTES_MAX`].

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};
use nix::unistd::{Group, User};
use ofi_xdp_datapath::{QueueRange, XskMode};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::geteuid;
use serde::Deserialize;

use crate::credentials::Credentials;

/// Maximum size of a policy file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Permission bits of group and others to write.
const OTHERS_WRITE: u32 = 0o022;
/// Sockets of one user at a time, unless the rule has a number.
const SOCKETS_DEFAULT: usize = 16;

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
}

/// One `[[allow]]` table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    who: Who,
    interfaces: Vec<String>,
    /// The allowed queues.
    pub(crate) queues: QueueRange,
    /// The allowed UDP ports, first and last.
    pub(crate) ports: (u16, u16),
    /// Maximum number of sockets of one user at a time.
    pub(crate) sockets: usize,
    /// Whether the device may get rules that steer packets to their queues.
    pub(crate) steering: bool,
    /// Whether sockets may be in zero-copy mode, in which their memory holds all packets of a
    /// queue.
    zerocopy: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Who {
    everybody: bool,
    users: Vec<u32>,
    groups: Vec<u32>,
}

impl Policy {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let read = || {
            // Does not wait for the writer of a FIFO.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(open(path, flags, Mode::empty())?);
            let metadata = file.metadata()?;
            check(&metadata, geteuid().as_raw())?;
            let mut text = String::new();
            file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
            text.parse()
        };
        read().with_context(|| format!("policy {} (xdp-broker(8), FILES)", path.display()))
    }

    /// Whether any rule matches `user`.
    pub(crate) fn knows(&self, user: &Credentials) -> bool {
        self.rules.iter().any(|rule| rule.who.is(user))
    }

    /// The rule for `user` on `interface`.
    pub(crate) fn rule(&self, user: &Credentials, interface: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            rule.who.is(user) && rule.interfaces.iter().any(|name| matches(name, interface))
        })
    }

    /// Number of rules.
    pub(crate) const fn len(&self) -> usize {
        self.rules.len()
    }
}

impl Rule {
    /// Whether the rule allows `port`.
    pub(crate) const fn allows_port(&self, port: u16) -> bool {
        self.ports.0 <= port && port <= self.ports.1
    }

    /// Whether the rule allows a socket in `mode`.
    pub(crate) const fn allows_mode(&self, mode: XskMode) -> bool {
        self.zerocopy || !matches!(mode, XskMode::Zerocopy)
    }
}

impl Who {
    fn is(&self, user: &Credentials) -> bool {
        self.everybody
            || self.users.contains(&user.uid)
            || self.groups.iter().any(|group| user.groups.contains(group))
    }
}

/// Checks that no user but root and `own` decides about the file's content.
fn check(metadata: &Metadata, own: u32) -> Result<()> {
    ensure!(metadata.is_file(), "it is no plain file");
    ensure!(metadata.len() <= FILE_BYTES_MAX, "more than {FILE_BYTES_MAX} bytes");
    let owner = metadata.uid();
    ensure!(owner == 0 || owner == own, "it belongs to user {owner}: `chown root`");
    ensure!(metadata.mode() & OTHERS_WRITE == 0, "other users may write it: `chmod go-w`");
    Ok(())
}

/// Whether `name` matches `pattern`: a name, or a prefix and `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    allow: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    #[serde(default)]
    users: Vec<NameOrId>,
    #[serde(default)]
    groups: Vec<NameOrId>,
    interfaces: Vec<String>,
    queues: Option<Range>,
    ports: Option<Range>,
    sockets: Option<usize>,
    #[serde(default)]
    steering: bool,
    #[serde(default)]
    zerocopy: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NameOrId {
    Number(u32),
    Text(String),
}

impl fmt::Display for NameOrId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Range {
    One(u32),
    Text(String),
}

impl Range {
    /// The first and the last number.
    fn bounds(&self) -> Result<(u32, u32)> {
        let text = match self {
            Self::One(one) => return Ok((*one, *one)),
            Self::Text(text) => text,
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| {
            text.trim().parse::<u32>().with_context(|| format!("`{text}` is no number"))
        };
        let (first, last) = (number(first)?, number(last)?);
        ensure!(first <= last, "`{text}` ends before it begins");
        Ok((first, last))
    }
}

impl FromStr for Policy {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let file: Written = toml::from_str(text)?;
        let rules = file.allow.iter().zip(1..).map(|(written, number)| {
            rule(written).with_context(|| format!("rule {number} ([[allow]])"))
        });
        Ok(Self { rules: rules.collect::<Result<_>>()? })
    }
}

fn rule(written: &WrittenRule) -> Result<Rule> {
    ensure!(!written.interfaces.is_empty(), "`interfaces` is empty: name one, or \"*\"");
    let mut who = Who { everybody: false, users: Vec::new(), groups: Vec::new() };
    for user in &written.users {
        match user {
            NameOrId::Number(uid) => who.users.push(*uid),
            NameOrId::Text(name) if name == "*" => who.everybody = true,
            NameOrId::Text(name) => match User::from_name(name)? {
                Some(user) => who.users.push(user.uid.as_raw()),
                None => bail!("there is no user `{name}`"),
            },
        }
    }
    for group in &written.groups {
        match group {
            NameOrId::Number(gid) => who.groups.push(*gid),
            NameOrId::Text(name) => match Group::from_name(name)? {
                Some(group) => who.groups.push(group.gid.as_raw()),
                None => bail!("there is no group `{name}`"),
            },
        }
    }
    let nobody = !who.everybody && who.users.is_empty() && who.groups.is_empty();
    ensure!(!nobody, "neither `users` nor `groups`: name some, or users = [\"*\"]");
    let QueueRange { first, last } = QueueRange::ALL;
    let (first, last) = written.queues.as_ref().map_or(Ok((first, last)), Range::bounds)?;
    ensure!(last <= QueueRange::LAST, "`queues` end at {}", QueueRange::LAST);
    let ports = written.ports.as_ref().map_or(Ok((1024, 65_535)), Range::bounds)?;
    let port = |number| u16::try_from(number).context("`ports` end at 65535");
    Ok(Rule {
        who,
        interfaces: written.interfaces.clone(),
        queues: QueueRange { first, last },
        ports: (port(ports.0)?, port(ports.1)?),
        sockets: written.sockets.unwrap_or(SOCKETS_DEFAULT),
        steering: written.steering,
        zerocopy: written.zerocopy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, groups: &[u32]) -> Credentials {
        Credentials { uid, groups: groups.to_vec(), pid: 1 }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy: Policy = r#"
            [[allow]]
            users = [1000, "root"]
            interfaces = ["eth0"]
            queues = "2-5"
            ports = 7471
            sockets = 2
            steering = true
            zerocopy = true

            [[allow]]
            groups = [500]
            interfaces = ["eth0", "ens*"]
        "#
        .parse()
        .unwrap();
        assert_eq!(policy.len(), 2);
        let narrow = policy.rule(&user(1000, &[500]), "eth0").unwrap();
        assert_eq!((narrow.queues, narrow.sockets), (QueueRange { first: 2, last: 5 }, 2));
        assert!(narrow.steering && narrow.allows_mode(XskMode::Zerocopy), "said");
        assert!(narrow.allows_port(7471) && !narrow.allows_port(7470) && !narrow.allows_port(7472));
        assert_eq!(policy.rule(&user(0, &[]), "eth0"), Some(narrow));
        let wide = policy.rule(&user(1000, &[500]), "ens5").unwrap();
        assert_eq!((wide.queues, wide.sockets), (QueueRange::ALL, SOCKETS_DEFAULT));
        assert!(!wide.steering && !wide.allows_mode(XskMode::Zerocopy), "not unasked");
        assert!(wide.allows_mode(XskMode::Copy) && wide.allows_mode(XskMode::Skb));
        assert!(wide.allows_port(1024) && wide.allows_port(65_535) && !wide.allows_port(1023));
        assert!(policy.rule(&user(1000, &[501]), "ens5").is_none());
        assert!(policy.rule(&user(1000, &[500]), "eth1").is_none());
        assert!(policy.knows(&user(1, &[4, 500])) && !policy.knows(&user(1, &[4])));
    }

    #[test]
    fn a_star_permits_all_users_and_an_empty_policy_none() {
        let policy: Policy = "[[allow]]\nusers = [\"*\"]\ninterfaces = [\"*\"]".parse().unwrap();
        assert!(policy.rule(&user(4711, &[]), "anything").is_some());
        let empty: Policy = "".parse().unwrap();
        assert!(!empty.knows(&user(0, &[0])));
    }

    /// Whatever the names of the machine's groups are.
    #[test]
    fn the_installed_policy_is_read_and_its_rule_is_an_example() {
        let installed = include_str!("../xdp-broker.toml");
        assert_eq!(installed.parse::<Policy>().unwrap().len(), 0);
        let is_line = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
        let lines = installed.lines().filter_map(|line| line.strip_prefix('#')).filter(is_line);
        let rule: Vec<&str> = lines.collect();
        assert_eq!(rule.len(), 7, "every key of a rule");
        let rule = rule.join("\n").replace("[\"xdp\"]", "[500]");
        let policy: Policy = format!("[[allow]]\n{rule}").parse().unwrap();
        let rule = policy.rule(&user(4711, &[500]), "eth0").unwrap();
        assert!(!rule.zerocopy && !rule.steering, "the example gives no more than the default");
        assert!(policy.rule(&user(4711, &[501]), "eth0").is_none());
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |text: &str| format!("{:#}", text.parse::<Policy>().unwrap_err());
        for (text, what) in [
            ("[[allow]]\nusers = [\"no-such-user\"]\ninterfaces = [\"*\"]", "there is no user"),
            ("[[allow]]\ngroups = [\"no-such-group\"]\ninterfaces = [\"*\"]", "no group"),
            ("[[allow]]\ninterfaces = [\"*\"]", "rule 1 ([[allow]]): neither `users`"),
            ("[[allow]]\nusers = [1]\ninterfaces = []", "`interfaces` is empty"),
            ("[[allow]]\nusers = [1]\ninterfaces = [\"*\"]\nqueues = \"5-2\"", "ends before"),
            ("[[allow]]\nusers = [1]\ninterfaces = [\"*\"]\nports = \"x\"", "`x` is no number"),
            ("[[allow]]\nusers = [1]\ninterfaces = [\"*\"]\nports = 65536", "end at 65535"),
            ("[[allow]]\nusers = [1]\ninterfaces = [\"*\"]\nqueues = 65536", "end at 65535"),
            ("[[allow]]\nusers = [1]\ninterfaces = [\"*\"]\nprots = 1", "prots"),
            ("[[deny]]", "deny"),
        ] {
            let said = refusal(text);
            assert!(said.contains(what), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_that_others_decide_about_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("xdp-policy-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let refusal = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Policy::read(&path).err().map(|error| format!("{error:#}"))
        };
        for mode in [0o644, 0o640, 0o600, 0o444] {
            assert_eq!(refusal(mode), None, "{mode:o}");
        }
        for mode in [0o664, 0o646, 0o666, 0o620, 0o602] {
            let said = refusal(mode).unwrap();
            assert!(said.contains("other users may write it"), "{mode:o}: {said}");
        }
        let metadata = std::fs::metadata(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        if metadata.uid() != 0 {
            assert!(check(&metadata, metadata.uid() + 1).is_err());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            format!("{:#}", Policy::read(Path::new("/dev/null")).unwrap_err()).contains("plain")
        );
    }
}

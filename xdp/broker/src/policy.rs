// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may have which sockets: the policy file.
//!
//! TOML comes in, a [`Policy`] goes out that answers for one user and one interface. What no rule
//! allows is refused; the first rule that speaks of user and interface decides. Names are resolved
//! once, when the file is read. Bounds: the file's size, [`FILE_BYTES_MAX`].

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};
use nix::unistd::{Group, User};
use ofi_xdp_datapath::Queues;
use serde::Deserialize;

use crate::peer::Peer;

/// The largest policy file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Sockets that a user may have at a time where the rule does not say.
const SOCKETS_DEFAULT: usize = 16;

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
}

/// One `[[allow]]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    who: Who,
    interfaces: Vec<String>,
    /// The queues that may be bound.
    pub(crate) queues: Queues,
    /// The UDP ports that may be redirected, first and last.
    pub(crate) ports: (u16, u16),
    /// Most sockets that one user has at a time.
    pub(crate) sockets: usize,
    /// Whether the device may be given rules that steer packets to their queues.
    pub(crate) steering: bool,
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
        let size = fs::metadata(path).with_context(|| path.display().to_string())?.len();
        ensure!(size <= FILE_BYTES_MAX, "{}: more than {FILE_BYTES_MAX} bytes", path.display());
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        text.parse().with_context(|| path.display().to_string())
    }

    /// Whether any rule speaks of `peer`.
    pub(crate) fn knows(&self, peer: &Peer) -> bool {
        self.rules.iter().any(|rule| rule.who.is(peer))
    }

    /// The rule for `peer` on `interface`.
    pub(crate) fn rule(&self, peer: &Peer, interface: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            rule.who.is(peer) && rule.interfaces.iter().any(|name| matches(name, interface))
        })
    }

    /// How many rules there are.
    pub(crate) const fn len(&self) -> usize {
        self.rules.len()
    }
}

impl Rule {
    /// Whether `port` may be redirected.
    pub(crate) const fn allows_port(&self, port: u16) -> bool {
        self.ports.0 <= port && port <= self.ports.1
    }
}

impl Who {
    fn is(&self, peer: &Peer) -> bool {
        self.everybody
            || self.users.contains(&peer.uid)
            || self.groups.iter().any(|group| peer.groups.contains(group))
    }
}

/// A name, or the beginning of one and `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    allow: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    users: Vec<Name>,
    #[serde(default)]
    groups: Vec<Name>,
    interfaces: Vec<String>,
    queues: Option<Range>,
    ports: Option<Range>,
    sockets: Option<usize>,
    #[serde(default)]
    steering: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u32),
    Text(String),
}

impl fmt::Display for Name {
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
    /// First and last.
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
        let file: File = toml::from_str(text)?;
        let rules = file.allow.iter().zip(1..).map(|(written, number)| {
            rule(written).with_context(|| format!("rule {number} ([[allow]])"))
        });
        Ok(Self { rules: rules.collect::<Result<_>>()? })
    }
}

fn rule(written: &Written) -> Result<Rule> {
    ensure!(!written.interfaces.is_empty(), "`interfaces` is empty: name one, or \"*\"");
    let mut who = Who { everybody: false, users: Vec::new(), groups: Vec::new() };
    for user in &written.users {
        match user {
            Name::Number(uid) => who.users.push(*uid),
            Name::Text(name) if name == "*" => who.everybody = true,
            Name::Text(name) => match User::from_name(name)? {
                Some(user) => who.users.push(user.uid.as_raw()),
                None => bail!("there is no user `{name}`"),
            },
        }
    }
    for group in &written.groups {
        match group {
            Name::Number(gid) => who.groups.push(*gid),
            Name::Text(name) => match Group::from_name(name)? {
                Some(group) => who.groups.push(group.gid.as_raw()),
                None => bail!("there is no group `{name}`"),
            },
        }
    }
    let nobody = !who.everybody && who.users.is_empty() && who.groups.is_empty();
    ensure!(!nobody, "neither `users` nor `groups`: name some, or users = [\"*\"]");
    let (first, last) = written.queues.as_ref().map_or(Ok((0, u32::MAX)), Range::bounds)?;
    let ports = written.ports.as_ref().map_or(Ok((1024, 65_535)), Range::bounds)?;
    let port = |number| u16::try_from(number).context("`ports` end at 65535");
    Ok(Rule {
        who,
        interfaces: written.interfaces.clone(),
        queues: Queues { first, last },
        ports: (port(ports.0)?, port(ports.1)?),
        sockets: written.sockets.unwrap_or(SOCKETS_DEFAULT),
        steering: written.steering,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer { uid, groups: groups.to_vec(), pid: 1 }
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

            [[allow]]
            groups = [500]
            interfaces = ["eth0", "ens*"]
        "#
        .parse()
        .unwrap();
        assert_eq!(policy.len(), 2);
        let narrow = policy.rule(&peer(1000, &[500]), "eth0").unwrap();
        assert_eq!((narrow.queues, narrow.sockets), (Queues { first: 2, last: 5 }, 2));
        assert!(narrow.steering, "said");
        assert!(narrow.allows_port(7471) && !narrow.allows_port(7470) && !narrow.allows_port(7472));
        assert_eq!(policy.rule(&peer(0, &[]), "eth0"), Some(narrow));
        let wide = policy.rule(&peer(1000, &[500]), "ens5").unwrap();
        assert_eq!((wide.queues, wide.sockets), (Queues::ALL, SOCKETS_DEFAULT));
        assert!(!wide.steering, "not unasked");
        assert!(wide.allows_port(1024) && wide.allows_port(65_535) && !wide.allows_port(1023));
        assert!(policy.rule(&peer(1000, &[501]), "ens5").is_none());
        assert!(policy.rule(&peer(1000, &[500]), "eth1").is_none());
        assert!(policy.knows(&peer(1, &[4, 500])) && !policy.knows(&peer(1, &[4])));
    }

    #[test]
    fn everybody_is_a_star_and_nobody_is_nothing() {
        let policy: Policy = "[[allow]]\nusers = [\"*\"]\ninterfaces = [\"*\"]".parse().unwrap();
        assert!(policy.rule(&peer(4711, &[]), "anything").is_some());
        let empty: Policy = "".parse().unwrap();
        assert!(!empty.knows(&peer(0, &[0])));
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
            ("[[allow]]\nusers = [1]\ninterfaces = [\"*\"]\nprots = 1", "prots"),
            ("[[deny]]", "deny"),
        ] {
            let said = refusal(text);
            assert!(said.contains(what), "{text}: {said}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests that a release of fabtests has, read from its script `runfabtests.sh`.
//!
//! In: the script, and names of its sets. Out: command lines. The script has an array of bash for
//! each set, with a quoted command line in each line.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// The script.
pub(super) const SCRIPT: &str = "runfabtests.sh";

/// The processes of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestKind {
    /// One process.
    Alone,
    /// One process that must find no provider.
    Negative,
    /// A server and a client.
    Pair,
    /// A server and two clients.
    Three,
}

/// One test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Test {
    /// The command line without addresses and provider.
    pub(super) command: String,
    /// Its processes.
    pub(super) kind: TestKind,
}

impl Test {
    /// The command line, with the server's address in place of the script's variables.
    pub(super) fn words(&self, server: &str) -> Vec<String> {
        let word = |word: &str| match word {
            "SERVER_ADDR" | "GOOD_ADDR" => server.to_owned(),
            other => other.to_owned(),
        };
        self.command.split_whitespace().map(word).collect()
    }
}

/// Reads the tests of sets such as `quick`, `standard` or `threaded`.
///
/// # Errors
/// When the script cannot be read, or has no such set.
pub(super) fn read(script: &Path, sets: &[String]) -> anyhow::Result<Vec<Test>> {
    let text = fs::read_to_string(script)
        .with_context(|| format!("no fabtests: {} is needed", script.display()))?;
    let mut tests = Vec::new();
    for set in sets {
        match set.as_str() {
            "quick" => {
                for part in ["unit", "functional", "short"] {
                    tests.extend(set_of(&text, part)?);
                }
            }
            part => tests.extend(set_of(&text, part)?),
        }
    }
    Ok(tests)
}

/// The tests of one array, and of its negative ones.
fn set_of(text: &str, set: &str) -> anyhow::Result<Vec<Test>> {
    let kind = match set {
        "unit" => TestKind::Alone,
        "multinode" => TestKind::Three,
        _ => TestKind::Pair,
    };
    let mut tests = array(text, &format!("{set}_tests"), kind);
    ensure!(!tests.is_empty(), "runfabtests.sh has no set {set:?}");
    tests.extend(array(text, &format!("neg_{set}_tests"), TestKind::Negative));
    Ok(tests)
}

/// The quoted command lines of an array.
fn array(text: &str, name: &str, kind: TestKind) -> Vec<Test> {
    let begin = format!("{name}=(");
    let lines = text.lines().skip_while(|line| !line.starts_with(&begin)).skip(1);
    let lines = lines.take_while(|line| !line.starts_with(')'));
    let quoted = lines.filter_map(|line| line.split('"').nth(1));
    quoted.map(|command| Test { command: command.to_owned(), kind }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "neg_unit_tests=(\n\t\"fi_rdm nobody\"\n)\n\n\
                        short_tests=(\n\t\"fi_rdm -U\"\n)\n\
                        unit_tests=(\n\t\"fi_av_test -s SERVER_ADDR\"\n)\n\
                        multinode_tests=(\n\t\"fi_multinode -x msg\"\n)\n";

    #[test]
    fn sets_are_read_with_their_negative_tests() {
        let unit = set_of(TEXT, "unit").unwrap();
        let kinds: Vec<_> = unit.iter().map(|test| test.kind).collect();
        assert_eq!(kinds, [TestKind::Alone, TestKind::Negative]);
        assert_eq!(unit[0].words("198.18.0.1"), ["fi_av_test", "-s", "198.18.0.1"]);
        assert_eq!(set_of(TEXT, "short").unwrap()[0].kind, TestKind::Pair);
        assert_eq!(set_of(TEXT, "multinode").unwrap()[0].kind, TestKind::Three);
        assert!(set_of(TEXT, "standard").is_err());
    }
}

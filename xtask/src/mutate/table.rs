// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of mutations, `tests/engine/mutations.toml`.
//!
//! An entry has a `name` and a `file`. The text `from` must be in the file exactly once, and is
//! replaced by `to`. `why` is the harm. Called by `cargo xtask mutate` and, so that no entry goes
//! stale, by tidy.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// Where the table is.
pub(crate) const FILE: &str = "tests/engine/mutations.toml";

/// Something that may notice a mutation, quickest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The unit tests of core.
    Unit,
    /// The integration tests of core.
    Tests,
    /// The simulator's named scenarios.
    Corpus,
    /// Random seeds in the simulator.
    Swarm,
}

impl Check {
    /// As in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Tests => "tests",
            Self::Corpus => "corpus",
            Self::Swarm => "swarm",
        }
    }

    /// The arguments of its program, the simulator or `cargo test`. `seeds` is the number of random
    /// seeds.
    pub(crate) fn arguments(self, seeds: &str) -> Vec<&str> {
        match self {
            Self::Unit => vec!["--lib"],
            Self::Tests => vec!["--test", "*"],
            Self::Corpus => vec!["corpus"],
            Self::Swarm => vec!["swarm", "--seeds", seeds],
        }
    }
}

/// A way to break the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutation {
    pub(crate) name: String,
    pub(crate) file: String,
    from: String,
    to: String,
    pub(crate) why: String,
}

impl Mutation {
    /// Whether it can be applied to the `text` of its file.
    pub(crate) fn check(&self, text: &str) -> Result<()> {
        match text.matches(&self.from).count() {
            1 => Ok(()),
            count => bail!("{}: its `from` is in {} {count} times, not once", self.name, self.file),
        }
    }

    /// The broken text.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        self.check(text)?;
        Ok(text.replacen(&self.from, &self.to, 1))
    }
}

/// The table of the project at `root`.
pub(crate) fn read(root: &Path) -> Result<Vec<Mutation>> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("no {FILE}"))?;
    parse(&text)
}

/// The entries of a table's text.
pub(crate) fn parse(text: &str) -> Result<Vec<Mutation>> {
    let table: toml::Table = text.parse().with_context(|| format!("{FILE} is not TOML"))?;
    let list = table.get("mutation").and_then(|list| list.as_array());
    let list = list.with_context(|| format!("{FILE} has no [[mutation]]"))?;
    let mut mutations: Vec<Mutation> = Vec::with_capacity(list.len());
    for entry in list {
        let one = read_entry(entry)?;
        ensure!(
            mutations.iter().all(|other| other.name != one.name),
            "{} is there twice",
            one.name
        );
        ensure!(one.from != one.to, "{} changes nothing", one.name);
        mutations.push(one);
    }
    Ok(mutations)
}

fn read_entry(entry: &toml::Value) -> Result<Mutation> {
    let field = |name: &str| {
        let value = entry.get(name).and_then(|value| value.as_str()).map(str::to_owned);
        value.with_context(|| format!("{FILE}: an entry has no {name}: {entry:?}"))
    };
    Ok(Mutation {
        name: field("name")?,
        file: field("file")?,
        from: field("from")?,
        to: field("to")?,
        why: field("why")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "[[mutation]]\nname = 'a'\nfile = 'b.rs'\nfrom = 'x == 1'\nto = 'true'\n\
                         why = 'c'\n";

    #[test]
    fn an_entry_is_read_and_applied_once() {
        let mutations = parse(ENTRY).unwrap();
        let [one] = &mutations[..] else { panic!("{mutations:?}") };
        assert_eq!(one.name, "a");
        assert_eq!(one.apply("if x == 1 {}").unwrap(), "if true {}");
        assert!(one.apply("if x == 2 {}").is_err());
        assert!(one.apply("x == 1 && x == 1").unwrap_err().to_string().contains("2 times"));
    }

    #[test]
    fn a_bad_table_is_refused() {
        assert!(parse("").is_err());
        assert!(parse(&format!("{ENTRY}{ENTRY}")).unwrap_err().to_string().contains("twice"));
        assert!(parse(&ENTRY.replace("'true'", "'x == 1'")).is_err());
        assert!(parse(&ENTRY.replace("why", "because")).is_err());
    }
}

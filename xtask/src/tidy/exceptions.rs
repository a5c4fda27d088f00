// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exceptions from the rules: `exceptions.toml`, a list that only shrinks.
//!
//! In: the file. Out: per rule, the number of faults that are excused, by crate.

use std::collections::BTreeMap;

/// The list, from the top of the project.
pub(super) const FILE: &str = "xtask/src/tidy/exceptions.toml";

/// The excused faults and figures.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    /// By crate.
    pub(super) prose: BTreeMap<String, Prose>,
    /// By rule, then by crate: how many faults.
    pub(super) counts: BTreeMap<String, BTreeMap<String, usize>>,
}

/// Figures of a crate's comments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prose {
    /// Per 1,000 words.
    pub(super) what: f64,
    /// Per 1,000 words.
    pub(super) who: f64,
    pub(super) continuations: usize,
}

impl Exceptions {
    /// Reads the text of [`FILE`]. A table `[prose.CRATE]` has figures, each other table is a rule.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{FILE}: {error}"))?;
        let mut exceptions = Self::default();
        for (rule, crates) in &table {
            let crates = crates.as_table().ok_or_else(|| format!("{FILE}: {rule} is no table"))?;
            for (name, value) in crates {
                if rule == "prose" {
                    exceptions.prose.insert(name.clone(), prose(value));
                } else {
                    let count = value.as_integer().and_then(|count| usize::try_from(count).ok());
                    let count =
                        count.ok_or_else(|| format!("{FILE}: {rule}.{name} is no number"))?;
                    exceptions.counts.entry(rule.clone()).or_default().insert(name.clone(), count);
                }
            }
        }
        Ok(exceptions)
    }

    pub(super) fn count(&self, rule: &str, unit: &str) -> usize {
        let crates = self.counts.get(rule);
        crates.and_then(|crates| of_crate(crates, unit)).unwrap_or_default()
    }

    /// The figures that a crate's comments are excused to have.
    pub(super) fn prose(&self, unit: &str) -> Prose {
        of_crate(&self.prose, unit).unwrap_or_default()
    }
}

/// The entry of a crate, or of `*`, which is each crate that is not listed.
fn of_crate<T: Copy>(crates: &BTreeMap<String, T>, name: &str) -> Option<T> {
    crates.get(name).or_else(|| crates.get("*")).copied()
}

fn prose(value: &toml::Value) -> Prose {
    let rate = |key: &str| {
        let value = value.get(key);
        let whole = || value?.as_integer().map(|whole| whole as f64);
        value.and_then(toml::Value::as_float).or_else(whole)
    };
    let continuations = value.get("continuations").and_then(toml::Value::as_integer);
    Prose {
        what: rate("what").unwrap_or_default(),
        who: rate("who").unwrap_or_default(),
        continuations: continuations.and_then(|count| count.try_into().ok()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_prose_are_read() {
        let exceptions = Exceptions::read("[prose]\na = { what = 2, who = 0.5 }\n").unwrap();
        assert!((exceptions.prose["a"].what - 2.0).abs() < f64::EPSILON);
        assert!(Exceptions::read("x = 1").is_err() && Exceptions::read("[").is_err());
        assert!(Exceptions::read("[words]\na = \"b\"").is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of one check. One that is not good has the command that mends it.
//!
//! Made by `host`, `nic` and `peer`, printed by `table`, and as JSON. Its fields are the JSON's.

use serde::Serialize;

/// The subject of findings about the path to another host.
pub(crate) const PEER: &str = "peer";

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    /// The interface, `host`, or [`PEER`].
    pub(crate) subject: String,
    /// The name of the check.
    pub(crate) check: &'static str,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    /// The property as it is.
    pub(crate) value: String,
}

/// Whether the finding needs a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Nothing to do.
    Good,
    /// It works, slower or for fewer programs than possible.
    Warning {
        /// A command.
        remedy: String,
    },
    /// It keeps the provider from work.
    Failure {
        /// A command.
        remedy: String,
    },
}

impl Finding {
    pub(crate) fn good(subject: &str, check: &'static str, value: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), check, verdict: Verdict::Good, value: value.into() }
    }

    /// Makes it a warning.
    pub(crate) fn warning(self, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning { remedy: remedy.into() }, ..self }
    }

    /// Makes it a failure.
    pub(crate) fn failure(self, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failure { remedy: remedy.into() }, ..self }
    }

    /// Whether it keeps the provider from work.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Failure { .. })
    }

    /// The command, unless it is good.
    pub(crate) fn remedy(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Good => None,
            Verdict::Warning { remedy } | Verdict::Failure { remedy } => Some(remedy),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log lines that clients cause, with a limit, so that no client fills the disk.
//!
//! In: a line and its user. Out: the line in the log, or nothing. Caller: `server.rs`. Bounds: in
//! each interval [`EVENTS_MAX`] lines about grants and one warning of a user, one warning of the
//! broker itself, and [`LINES_MAX`] lines of all.

use std::collections::HashMap;

use log::Level;

use crate::credentials::Credentials;

/// Lines about grants of one user in an interval: two for each socket of a rule's default.
const EVENTS_MAX: u32 = 32;
/// Warnings of one user in an interval.
const WARNINGS_MAX: u32 = 1;
/// Lines in an interval: a person with subordinate ids is many users.
const LINES_MAX: u32 = 256;

/// The lines of the present interval.
#[derive(Debug, Default)]
pub(crate) struct LimitedLog {
    /// Lines by user, `None` for the broker itself, and level.
    lines: HashMap<(Option<u32>, Level), u32>,
    all: u32,
}

impl LimitedLog {
    /// Starts the next interval.
    pub(crate) fn next_interval(&mut self) {
        *self = Self::default();
    }

    /// Logs a warning about `user`, or about the broker itself.
    pub(crate) fn warn(&mut self, user: Option<&Credentials>, what: &str) {
        self.line(Level::Warn, user, what);
    }

    /// Logs the begin or the end of a grant of `user`.
    pub(crate) fn grant(&mut self, user: &Credentials, what: &str) {
        self.line(Level::Info, Some(user), what);
    }

    fn line(&mut self, level: Level, user: Option<&Credentials>, what: &str) {
        let Some(last) = self.admit(level, user.map(|user| user.uid)) else { return };
        let more = if last { "; further lines of this second are left out" } else { "" };
        match user {
            Some(user) => log::log!(level, "{user}: {what}{more}"),
            None => log::log!(level, "{what}{more}"),
        }
    }

    /// Counts a line. `None`: it exceeds a limit; else whether it is the last of a user's several.
    fn admit(&mut self, level: Level, user: Option<u32>) -> Option<bool> {
        let most = if level == Level::Info { EVENTS_MAX } else { WARNINGS_MAX };
        if self.all >= LINES_MAX {
            return None;
        }
        let lines = self.lines.entry((user, level)).or_default();
        if *lines >= most {
            return None;
        }
        *lines += 1;
        self.all += 1;
        Some(*lines == most && most > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_some_lines_in_an_interval() {
        let mut log = LimitedLog::default();
        for _ in 1..EVENTS_MAX {
            assert_eq!(log.admit(Level::Info, Some(7)), Some(false));
        }
        assert_eq!(log.admit(Level::Info, Some(7)), Some(true), "the last line says so");
        assert_eq!(log.admit(Level::Info, Some(7)), None);
        assert_eq!(log.admit(Level::Warn, Some(7)), Some(false));
        assert_eq!(log.admit(Level::Warn, Some(7)), None);
        assert_eq!(log.admit(Level::Info, Some(8)), Some(false), "another user's");
        assert_eq!(log.admit(Level::Warn, None), Some(false));
        log.next_interval();
        assert_eq!(log.admit(Level::Info, Some(7)), Some(false));
    }

    #[test]
    fn all_users_have_some_lines_together() {
        let mut log = LimitedLog::default();
        let admitted = (0..10_000).filter(|uid| log.admit(Level::Warn, Some(*uid)).is_some());
        assert_eq!(admitted.count(), 256);
    }
}

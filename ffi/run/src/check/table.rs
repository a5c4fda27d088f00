// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings as a table: a sign, the check, its value, and below it the command that mends it.
//!
//! In: findings, those of one subject together. Out: text for a terminal. Called by `check`. Bound:
//! two lines a finding, and one a subject.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::finding::{Finding, Verdict};

/// Columns of the name of a check.
const NAME_WIDTH: usize = 13;

/// The table, with the signs in colours or not.
pub(super) fn text(findings: &[Finding], has_colours: bool) -> String {
    let mut text = String::new();
    let mut subject = None;
    for finding in findings {
        if subject != Some(&finding.subject) {
            let _ = writeln!(text, "{}", finding.subject);
            subject = Some(&finding.subject);
        }
        let (sign, colour) = sign(&finding.verdict);
        let style = if has_colours { colour.on_default() } else { Style::new() };
        let (check, value) = (finding.check, &finding.value);
        let _ = writeln!(text, "  {style}{sign}{style:#} {check:NAME_WIDTH$} {value}");
        if let Some(remedy) = finding.remedy() {
            let _ = writeln!(text, "    {:NAME_WIDTH$} $ {remedy}", "");
        }
    }
    text
}

fn sign(verdict: &Verdict) -> (char, AnsiColor) {
    match verdict {
        Verdict::Good => ('✓', AnsiColor::Green),
        Verdict::Warning { .. } => ('!', AnsiColor::Yellow),
        Verdict::Failure { .. } => ('✗', AnsiColor::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::good("eth0", "driver", "ice"),
            Finding::good("eth0", "MTU", "576").failure("ip link"),
            Finding::good("host", "broker", "none").warning("systemctl"),
        ]
    }

    #[test]
    fn commands_stand_below_their_findings() {
        let wanted = [
            "eth0",
            "  ✓ driver        ice",
            "  ✗ MTU           576",
            "                  $ ip link",
            "host",
            "  ! broker        none",
            "                  $ systemctl",
        ];
        assert_eq!(text(&findings(), false).lines().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn colours_change_nothing_but_the_signs() {
        let coloured = text(&findings(), true);
        for sign in ["\u{1b}[32m✓\u{1b}[0m", "\u{1b}[31m✗\u{1b}[0m", "\u{1b}[33m!\u{1b}[0m"] {
            assert!(coloured.contains(sign), "{sign:?} is missing from {coloured:?}");
        }
        let mut plain = coloured;
        for code in ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[33m", "\u{1b}[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, text(&findings(), false));
    }
}

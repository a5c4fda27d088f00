// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of the guest.
//!
//! In: its console, and the file that its second serial line wrote: a JSON object `{name, text}` a
//! line. Out: the counts of its closing line, and the files.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::suite::Counts;

/// The file behind the second serial line.
pub(crate) const LINE: &str = "results.jsonl";
/// How the guest's closing line begins.
const RESULT_PREFIX: &str = "guest: ";

/// Writes each file that came over the line into `folder`.
pub(crate) fn unpack(folder: &Path) -> Result<()> {
    let line = folder.join(LINE);
    let text = fs::read(&line).with_context(|| line.display().to_string())?;
    for object in String::from_utf8_lossy(&text).lines().map(str::trim).filter(|l| !l.is_empty()) {
        // A guest that was ended leaves half a line.
        let Ok(object) = serde_json::from_str::<Value>(object) else { continue };
        let (Some(name), Some(text)) = (object["name"].as_str(), object["text"].as_str()) else {
            continue;
        };
        let plain = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
        ensure!(plain, "the guest names a file {name:?}");
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// The counts of `guest: 5 passed, 0 failed`; `None` if it did not get so far.
pub(crate) fn counts(console: &str) -> Option<Counts> {
    let line = console.lines().rev().find_map(|line| line.trim().strip_prefix(RESULT_PREFIX))?;
    let (passed, failed) = line.split_once(" passed, ")?;
    let counts = Counts {
        passed: passed.parse().ok()?,
        failed: failed.strip_suffix(" failed")?.parse().ok()?,
        skipped: 0,
    };
    (counts != Counts::default()).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_the_last_line_of_its_kind() {
        let console = "boot\r\nguest: 1 passed, 1 failed\r\nguest: 3 passed, 0 failed\r\nreboot: x";
        assert_eq!(counts(console), Some(Counts { passed: 3, failed: 0, skipped: 0 }));
        assert_eq!(counts("Kernel panic"), None);
        assert_eq!(counts("guest: 0 passed, 0 failed"), None, "nothing ran");
    }

    #[test]
    fn files_come_out_and_nowhere_else() {
        let folder = std::env::temp_dir().join(format!("xtask-results-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |text: &str| fs::write(folder.join(LINE), text).unwrap();
        write("{\"name\":\"a.txt\",\"text\":\"x\\ny\"}\r\n{\"name\":\"b");
        unpack(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "x\ny");
        write("{\"name\":\"../a\",\"text\":\"x\"}\n");
        assert!(unpack(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}

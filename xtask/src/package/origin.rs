// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the packages come from, and the tools that all their makers use.
//!
//! In: the last commit. Out: [`Origin`]; outputs of commands; compressed files. Called by the other
//! files of `package`. Bound: none of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// The name of the package.
pub(super) const NAME: &str = "ofi-xdp";

/// Where the packages come from: the last commit.
#[derive(Debug)]
pub(super) struct Origin {
    /// Seconds since 1970.
    pub(super) seconds: String,
    /// As in a mail (RFC 5322).
    pub(super) date: String,
    /// Its author, who answers for a package that is made from it.
    pub(super) maintainer: String,
}

impl Origin {
    pub(super) fn of(workspace: &Workspace) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(workspace.root()).args(["log", "-1", "--format=%ct%n%an <%ae>"]);
        let text = output(&mut git).context("the date of a package is that of the last commit")?;
        let (seconds, maintainer) = text.trim().split_once('\n').context("git names no author")?;
        let date = output(Command::new("date").args(["-u", "-R", "-d", &format!("@{seconds}")]))?;
        let [seconds, date, maintainer] = [seconds, date.trim(), maintainer].map(str::to_owned);
        Ok(Self { seconds, date, maintainer })
    }

    /// Debian's changelog (deb-changelog(5)).
    pub(super) fn changelog(&self) -> String {
        let (version, Self { maintainer, date, .. }) = (env!("CARGO_PKG_VERSION"), self);
        let first = format!("{NAME} ({version}-1) unstable; urgency=medium");
        format!("{first}\n\n  * CHANGELOG.md has the changes.\n\n -- {maintainer}  {date}\n")
    }
}

/// Replaces a file by its compressed form, which has neither name nor time.
pub(super) fn compress(file: &Path) -> Result<()> {
    output(Command::new("gzip").args(["-9nf"]).arg(file)).map(drop)
}

/// The output of a command that succeeds.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} did not start"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn debians_changelog_has_its_form() {
        let origin = Origin {
            seconds: "0".to_owned(),
            date: "Thu, 01 Jan 1970 00:00:00 +0000".to_owned(),
            maintainer: "A B <a@b.example>".to_owned(),
        };
        let text = origin.changelog();
        assert!(text.starts_with("ofi-xdp (") && text.contains("-1) unstable; urgency="), "{text}");
        let last = "\n -- A B <a@b.example>  Thu, 01 Jan 1970 00:00:00 +0000\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn a_compressed_file_does_not_tell_its_time() {
        let file = std::env::temp_dir().join(format!("xtask-gzip-{}", std::process::id()));
        let packed = file.with_added_extension("gz");
        let mut made = Vec::new();
        for time in [1_000_000, 2_000_000] {
            fs::write(&file, "text").unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time);
            fs::File::options().append(true).open(&file).unwrap().set_modified(time).unwrap();
            compress(&file).unwrap();
            made.push(fs::read(&packed).unwrap());
        }
        fs::remove_file(packed).unwrap();
        assert_eq!(made[0], made[1]);
    }
}

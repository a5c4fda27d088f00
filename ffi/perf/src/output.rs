// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output and standard error: their readers may leave (`xdp-perf … | head -1`).
//!
//! In: text. Out: the text on the stream, or [`OutputClosed`]. Callers: the command lines of all
//! measuring programs. Bound: one write.

use std::fmt;
use std::io::{self, ErrorKind, Write};

/// The reader of standard output is gone, and the program has nothing left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for OutputClosed {}

/// Prints `text` at once. The macro `print` panics where the reader is gone.
///
/// # Errors
/// [`OutputClosed`] where the reader is gone, or the failure of the write.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(&mut io::stdout().lock(), text)
}

/// Prints a line on standard error. A failure has no other place to be told.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(line));
}

/// `text` with `?` for what is not printable ASCII. Text of the other host is among it, and on a
/// terminal it must not be a command.
fn printable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect()
}

fn write(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        Err(error) => Err(anyhow::Error::new(error).context("standard output")),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_message_is_no_command_of_a_terminal() {
        let hostile = "the server failed: x\nerror: y\u{1b}[1A\u{9b}2K\u{202e}";
        assert_eq!(printable(hostile), "the server failed: x?error: y?[1A?2K?");
    }

    #[test]
    fn a_reader_that_is_gone_differs_from_a_full_disk() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let closed = write(&mut writer, "text").context("round 1").unwrap_err();
        assert!(closed.is::<OutputClosed>(), "{closed:#}");
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = write(&mut full, "text").unwrap_err();
        assert!(!full.is::<OutputClosed>(), "{full:#}");
    }
}

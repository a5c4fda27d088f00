// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal: whether there is one, and that it is as before after the end.
//!
//! In: the environment, signals. Out: a screen to draw on. Caller: `mod.rs`. The end of a value
//! restores the terminal, a panic does so before its message. Bound: one terminal.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ratatui::DefaultTerminal;

/// Whether standard output is a terminal that knows commands.
pub(crate) fn is_interactive() -> bool {
    let is_known = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    is_known && std::io::stdout().is_terminal()
}

/// The time from a signal to the end without the consent of the main thread.
const GRACE: Duration = Duration::from_secs(1);
/// The exit status of a program that SIGHUP ended, as shells report it.
const SIGNALLED: i32 = 129;

/// A terminal in the state for pages.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) screen: DefaultTerminal,
    /// Set by SIGINT, SIGTERM and SIGHUP.
    pub(super) ends: Arc<AtomicBool>,
}

impl Terminal {
    /// Takes the terminal of standard output.
    ///
    /// # Errors
    /// There is no terminal to read keys from.
    pub(super) fn open() -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ends);
        ctrlc::set_handler(move || {
            flag.store(true, Ordering::Relaxed);
            // On a terminal that is gone, the read of keys never returns.
            std::thread::sleep(GRACE);
            ratatui::restore();
            std::process::exit(SIGNALLED);
        })?;
        let screen = ratatui::try_init().inspect_err(|_| ratatui::restore());
        let screen = screen.context("no terminal for keys: `xdp-top --plain` needs none")?;
        Ok(Self { screen, ends })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The screen shows the cursor again when it is dropped itself.
        ratatui::restore();
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT, SIGTERM and SIGHUP as an error that unwinds through the guards, instead of a sudden end
//! that leaves namespaces behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Starts to listen for the signals. Once a process.
///
/// # Errors
/// When it was called before.
pub fn install() -> anyhow::Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("signal handler")
}

/// Fails after one of the signals.
///
/// # Errors
/// After one of the signals.
pub fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Asks `ready` again and again, for `patience` at most; `what` names it in the error.
///
/// # Errors
/// When it did not become ready in time, or after one of the signals.
pub fn wait_until<T>(
    what: &str,
    patience: Duration,
    mut ready: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    wait_regardless(what, patience, || {
        check()?;
        ready()
    })
}

/// The same, signals or not: for what cleans up after them.
///
/// # Errors
/// When it did not become ready in time.
pub fn wait_regardless<T>(
    what: &str,
    patience: Duration,
    mut ready: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    // bound: patience
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("{what}: not within {:.1} s", patience.as_secs_f32());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

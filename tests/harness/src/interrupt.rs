// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT, SIGTERM and SIGHUP as an error that unwinds through the guards, instead of a sudden end
//! that leaves namespaces behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs the signal handlers, once in a process.
///
/// # Errors
/// When the handlers are installed already.
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

/// Calls `ready` repeatedly, for `timeout` at most; `what` names the event in the error.
///
/// # Errors
/// When the event did not happen in time, or after one of the signals.
pub fn wait_until<T>(
    what: &str,
    timeout: Duration,
    mut ready: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    wait_regardless(what, timeout, || {
        check()?;
        ready()
    })
}

/// [`wait_until`] for clean-up code: signals do not end it.
///
/// # Errors
/// When the event did not happen in time.
pub fn wait_regardless<T>(
    what: &str,
    timeout: Duration,
    mut ready: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    // bound: timeout
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("{what}: not within {:.1} s", timeout.as_secs_f32());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

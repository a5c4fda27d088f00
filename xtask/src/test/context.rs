// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that the stages of a test run share: the workspace, the filter, the privilege.
//!
//! Made by `test` from the command line and the machine. Read by each stage.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::stage;
use crate::suite::Counts;
use crate::workspace::{Privilege, Workspace};

/// Values that all stages share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) workspace: Workspace,
    /// The whole set of checks runs.
    pub(super) all: bool,
    /// An automatic build: a stage that cannot run counts as failed.
    pub(super) strict: bool,
    pub(super) filter: Vec<String>,
    /// cargo-nextest is installed: it runs each test in a process of its own and ends one that
    /// hangs.
    pub(super) nextest: bool,
    pub(super) privilege: Privilege,
    /// The folder of the built programs, known once the build stage has passed.
    pub(super) programs: OnceLock<PathBuf>,
}

impl Context {
    /// The reason why stages that need root cannot run here. In an automatic build it is an error.
    pub(super) fn lacks_privilege(&self) -> Result<Option<String>> {
        if matches!(self.privilege, Privilege::Own | Privilege::Sudo) {
            return Ok(None);
        }
        let reason = "needs CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_BPF: run as root, \
                      or allow `sudo -n` (e.g. call `sudo -v` first)";
        if self.strict {
            bail!("{reason}");
        }
        Ok(Some(reason.to_owned()))
    }

    /// Prints that a part was left out, and counts it as skipped. An automatic build counts it as
    /// failed, unless it is not available: the packages of libfabric 2 are for `x86_64`.
    pub(super) fn left_out(&self, reason: &str) -> Counts {
        println!("{}", stage::skipped_block("a part", reason));
        let mut counts = Counts::default();
        let failed = self.strict && cfg!(target_arch = "x86_64");
        *if failed { &mut counts.failed } else { &mut counts.skipped } += 1;
        counts
    }
}

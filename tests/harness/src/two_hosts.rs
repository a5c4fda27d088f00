// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fixture of end-to-end tests: two hosts, the provider, and transfers between them.
//!
//! A process has one [`TwoHostFixture`] at a time: its tests keep both cores busy. Every wait is
//! bounded, and its error names the event that did not happen.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_perf::report::PerfReport;

use crate::kernel::Host;
use crate::process::{Output, Program, RunningProgram};
use crate::topology::{LinkOptions, Side, TwoHosts};
use crate::{interrupt, netns, paths};

/// The variable with the value `skip` for skipping tests that lack privilege.
const UNPRIVILEGED: &str = "OFI_XDP_UNPRIVILEGED";
/// The control port of the transfers' servers.
const CONTROL_PORT: u16 = 7471;
/// Time limit of anything but a transfer.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit of a transfer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

/// Two hosts with one link, and the built provider.
#[derive(Debug)]
pub struct TwoHostFixture {
    // Dropped first: the hosts are removed before the next test makes its own.
    hosts: TwoHosts,
    provider: String,
    _alone: Option<MutexGuard<'static, ()>>,
}

/// A `perf` session over the provider.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// Arguments of `perf client`.
    pub arguments: &'a [&'a str],
    /// The server's parameters.
    pub server: &'a [(&'a str, &'a str)],
    /// The client's parameters.
    pub client: &'a [(&'a str, &'a str)],
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Programs that start the client, such as `setpriv` with its options; empty for none.
    pub through: &'a [&'a str],
}

/// Every byte checked, over all sizes: empty, one packet, several, many. Then streams of small and
/// of large messages.
pub const THOROUGH: &[&str] = &[
    "--verify",
    "--time",
    "150",
    "--latency",
    "0,1,7,8,63,64,1023,1408,1409,4096,65536,1048576",
    "--stream",
    "8x64,64x64,1500x64,65536x16,1048576x4",
];

/// A transfer of a second, for tests of other properties.
pub const BRIEF: &[&str] =
    &["--verify", "--time", "200", "--latency", "0,8,1500,70000", "--stream", "8x64,20000x16"];

impl Default for Transfer<'_> {
    fn default() -> Self {
        Self { arguments: BRIEF, server: &[], client: &[], v6: false, through: &[] }
    }
}

/// The outcome of a transfer.
#[derive(Clone, Debug)]
pub struct Transferred {
    /// The client's report.
    pub report: PerfReport,
    /// The client's output.
    pub client: Output,
    /// The server's output.
    pub server: Output,
}

impl TwoHostFixture {
    /// Two hosts with a plain link. `None`, with a message, if privilege is missing and
    /// `OFI_XDP_UNPRIVILEGED=skip` is set.
    ///
    /// # Errors
    /// Without privilege, or without the provider built.
    pub fn new() -> anyhow::Result<Option<Self>> {
        Self::with(LinkOptions::default())
    }

    /// Two hosts with a link as `options` say.
    ///
    /// # Errors
    /// As [`TwoHostFixture::new`].
    pub fn with(options: LinkOptions) -> anyhow::Result<Option<Self>> {
        Self::with_links(&[options])
    }

    /// Two hosts with several links.
    ///
    /// # Errors
    /// As [`TwoHostFixture::new`].
    pub fn with_links(links: &[LinkOptions]) -> anyhow::Result<Option<Self>> {
        static ALONE: Mutex<()> = Mutex::new(());
        static SIGNALS: Once = Once::new();
        if !nix::unistd::geteuid().is_root()
            && std::env::var_os(UNPRIVILEGED).is_some_and(|value| value == "skip")
        {
            eprintln!("SKIPPED: needs CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF: run it as root");
            return Ok(None);
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut installed = Ok(());
        SIGNALS.call_once(|| installed = interrupt::install());
        installed?;
        netns::sweep()?;
        let provider = paths::provider()?.to_string_lossy().into_owned();
        let hosts = TwoHosts::new(links)?;
        Ok(Some(Self { hosts, provider, _alone: Some(alone) }))
    }

    /// A fixture on existing hosts; a process may have several.
    ///
    /// # Errors
    /// Without the provider built.
    pub fn on(hosts: TwoHosts) -> anyhow::Result<Self> {
        let provider = paths::provider()?.to_string_lossy().into_owned();
        Ok(Self { hosts, provider, _alone: None })
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &TwoHosts {
        &self.hosts
    }

    /// The kernel's view of one host.
    #[must_use]
    pub fn kernel(&self, side: Side) -> Host<'_> {
        Host(Some(self.hosts.host(side)))
    }

    /// The first link's interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.hosts.link(0).interface
    }

    /// A program on one host that finds no provider but `xdp`.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn program(&self, side: Side, program: Program) -> anyhow::Result<Program> {
        let variables = [("FI_PROVIDER_PATH", self.provider.as_str()), ("FI_PROVIDER", "xdp")];
        program.envs(variables).inside(self.hosts.host(side))
    }

    /// Starts the server of a transfer on host A.
    ///
    /// # Errors
    /// When it does not listen in time.
    pub fn server(&self, transfer: &Transfer<'_>) -> anyhow::Result<RunningProgram> {
        let listen = self.control(transfer).to_string();
        let server = Program::new(paths::program("xdp-perf")?).args(["--sessions", "1"]);
        let server = server.args(["--listen", &listen]).envs(transfer.server.iter().copied());
        let mut server = self.program(Side::A, server)?.start()?;
        server.wait_for("listening at", TIMEOUT)?;
        Ok(server)
    }

    /// Starts the client of a transfer on host B.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn client(&self, transfer: &Transfer<'_>) -> anyhow::Result<RunningProgram> {
        let path = paths::program("xdp-perf")?;
        let client = match transfer.through {
            [] => Program::new(path),
            [first, rest @ ..] => Program::new(first).args(rest).arg(path),
        };
        let control = self.control(transfer).to_string();
        let client = client.args([&control, "--json"]).args(transfer.arguments);
        self.program(Side::B, client.envs(transfer.client.iter().copied()))?.start()
    }

    /// Runs a transfer to its end.
    ///
    /// # Errors
    /// When a side fails, or exceeds its time limit.
    pub fn transfer(&self, transfer: &Transfer<'_>) -> anyhow::Result<Transferred> {
        let server = self.server(transfer)?;
        let client = self.client(transfer)?;
        Self::complete(server, client)
    }

    /// Waits for both sides of a transfer.
    ///
    /// # Errors
    /// When a side fails, or exceeds its time limit.
    pub fn complete(server: RunningProgram, client: RunningProgram) -> anyhow::Result<Transferred> {
        Self::complete_within(server, client, TRANSFER_TIMEOUT)
    }

    /// Waits for both sides of a transfer, with a time limit for the client.
    ///
    /// # Errors
    /// As [`TwoHostFixture::complete`].
    pub fn complete_within(
        server: RunningProgram,
        client: RunningProgram,
        timeout: Duration,
    ) -> anyhow::Result<Transferred> {
        let client = client.finish(timeout)?.success();
        let server = server.finish(TIMEOUT).and_then(Output::success);
        // The client's failure often repeats the server's.
        let (client, server) = match (client, server) {
            (Ok(client), Ok(server)) => (client, server),
            (Err(client), Err(server)) => {
                return Err(client.context(format!("the server: {server:#}")));
            }
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error),
        };
        let report: PerfReport =
            serde_json::from_str(&client.stdout).context("the report is not understood")?;
        ensure!(report.with.provider == "xdp", "it ran over {:?}", report.with.provider);
        Ok(Transferred { report, client, server })
    }

    /// Frames that the XDP program of `side` has redirected so far; `None` if there is no program.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn redirected(&self, side: Side) -> anyhow::Result<Option<u64>> {
        let kernel = self.kernel(side);
        match kernel.attachment(self.interface())? {
            Some(attachment) => kernel.redirected(&attachment).map(Some),
            None => Ok(None),
        }
    }

    /// Waits until no XDP program is attached on either host.
    ///
    /// # Errors
    /// When a program stays attached.
    pub fn wait_detached(&self) -> anyhow::Result<()> {
        for side in [Side::A, Side::B] {
            let what = format!("detaching the XDP program on host {side:?}");
            interrupt::wait_until(&what, Duration::from_secs(3), || {
                Ok(self.kernel(side).attachment(self.interface())?.is_none().then_some(()))
            })?;
        }
        Ok(())
    }

    fn control(&self, transfer: &Transfer<'_>) -> SocketAddr {
        let link = self.hosts.link(0);
        let ip = if transfer.v6 { link.v6(Side::A) } else { link.v4(Side::A) };
        SocketAddr::new(ip, CONTROL_PORT)
    }
}

/// The provider's warnings in the standard error of a process.
#[must_use]
pub fn warnings(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.contains(":xdp:") && line.contains("<warn>")).collect()
}

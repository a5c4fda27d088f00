// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP without root: the provider gets its sockets from `xdp-broker`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_harness::{interrupt, paths};

/// Options of setpriv(1) for a user without any capability.
const NOBODY: &[&str] = &[
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
];
/// Options of setpriv(1) for the capabilities that the broker's unit grants.
const UNIT: &[&str] =
    &["--inh-caps=-all", "--bounding-set=-all,+net_raw,+ipc_lock,+bpf,+net_admin"];

/// A folder that every user may read; removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("ofi-e2e-broker-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        Ok(Self(folder))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A broker on one host, for user 65534.
fn broker(
    fixture: &TwoHostFixture,
    side: Side,
    policy: &Path,
    socket: &Path,
) -> anyhow::Result<RunningProgram> {
    let broker = Program::new("setpriv")
        .args(UNIT)
        .arg(paths::program("xdp-broker")?)
        .arg("--policy")
        .arg(policy)
        .arg("--socket")
        .arg(socket)
        .inside(fixture.hosts().host(side))?
        .start()?;
    interrupt::wait_until("the broker listens", TIMEOUT, || {
        Ok(UnixStream::connect(socket).ok().map(drop))
    })?;
    Ok(broker)
}

/// Users without capabilities on two hosts run libfabric's own ping-pong over AF_XDP, with its data
/// checked.
#[test]
fn root_fi_pingpong_without_capabilities_over_af_xdp() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let folder = Folder::new()?;
    let policy = folder.file("policy.toml");
    fs::write(&policy, "[[allow]]\nusers = [65534]\ninterfaces = [\"*\"]\n")?;
    // The build folder may be unreadable for other users.
    let provider = folder.file("provider");
    fs::create_dir(&provider)?;
    fs::set_permissions(&provider, fs::Permissions::from_mode(0o755))?;
    fs::copy(paths::provider()?.join("libxdp-fi.so"), provider.join("libxdp-fi.so"))?;
    let sockets = ["a", "b"].map(|name| folder.file(name));
    let _brokers = [
        broker(&fixture, Side::A, &policy, &sockets[0])?,
        broker(&fixture, Side::B, &policy, &sockets[1])?,
    ];
    let tool = |side, socket: &Path, address: Option<String>| -> anyhow::Result<RunningProgram> {
        let tool = Program::new("setpriv")
            .args(NOBODY)
            .args([
                "fi_pingpong",
                "-p",
                "xdp",
                "-e",
                "rdm",
                "-c",
                "-m",
                "tagged",
                "-I",
                "400",
                "-S",
                "4096",
            ])
            .args(address);
        let tool = fixture.program(side, tool)?.envs([
            ("FI_PROVIDER_PATH", provider.as_os_str()),
            ("FI_XDP_BROKER", socket.as_os_str()),
            ("FI_LOG_LEVEL", "info".as_ref()),
            ("FI_LOG_PROV", "xdp".as_ref()),
        ]);
        tool.start()
    };
    let server = tool(Side::A, &sockets[0], None)?;
    // The server prints nothing when it listens.
    std::thread::sleep(Duration::from_millis(700));
    let address = fixture.hosts().link(0).v4(Side::A).to_string();
    let client = tool(Side::B, &sockets[1], Some(address))?;
    let client = client.finish(Duration::from_secs(30))?.success().context("client")?;
    let server = server.finish(TIMEOUT)?.success().context("server")?;
    ensure!(client.stdout.contains("4k"), "no figures:\n{}", client.stdout);
    for output in [&client, &server] {
        ensure!(output.stderr.contains(": AF_XDP skb on link0"), "not so:\n{}", output.stderr);
    }
    fixture.wait_detached()
}

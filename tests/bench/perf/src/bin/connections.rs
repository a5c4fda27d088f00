// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of many connections: `connections --provider xdp --local 127.0.0.1`.
//!
//! A server process accepts the requests of this process, a window of them at a time. All endpoints
//! of a process have one completion queue. The program prints the rate, the processor time and the
//! resident memory of a connection at rest as one JSON object. No message is sent.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use nix::sys::resource::{UsageWho, getrusage};
use ofi_xdp_bench::report::Connections;
use ofi_xdp_libfabric::raw::{
    Context, Cq, Domain, Ep, Eq, Errno, Fabric, Fid as _, Info, Pep, abi, getinfo,
};

/// The longest time without an event, in ms.
const PATIENCE_MS: i32 = 20_000;

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The provider, by its full name
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The local address of both processes
    #[arg(long, value_name = "IP")]
    local: IpAddr,
    /// Number of connections
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    count: usize,
    /// Requests that are under way at once
    #[arg(long, default_value_t = 64, value_name = "N")]
    window: usize,
    /// Operations of an endpoint, of each side
    #[arg(long, default_value_t = 16, value_name = "N")]
    slots: usize,
    /// This process accepts; started by the other one
    #[arg(long, hide = true)]
    serve: bool,
}

/// The objects that all endpoints of a process share.
struct Host {
    info: Info,
    fabric: Fabric,
    eq: Eq,
    shared: Option<(Domain, Cq)>,
    endpoints: HashMap<usize, Ep>,
}

impl Host {
    fn open(cli: &Cli) -> anyhow::Result<Self> {
        let hints = Info::empty();
        hints.set_provider_name(&cli.provider);
        hints.set(|info| (info.caps, info.mode) = (abi::FI_MSG, abi::FI_CONTEXT));
        hints.set_ep(|ep| ep.type_ = abi::FI_EP_MSG);
        hints.set_tx(|tx| tx.size = cli.slots);
        hints.set_rx(|rx| rx.size = cli.slots);
        let local = cli.local.to_string();
        let found = getinfo(abi::VERSION, Some(&local), None, abi::FI_SOURCE, Some(&hints));
        let info = found.context("fi_getinfo")?.into_iter().next().context("no offer")?;
        let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
        let mut attributes = abi::fi_eq_attr {
            size: cli.count,
            flags: 0,
            wait_obj: abi::FI_WAIT_FD,
            signaling_vector: 0,
            wait_set: std::ptr::null_mut(),
        };
        let eq = fabric.eq(&mut attributes, Context::null()).context("fi_eq_open")?;
        Ok(Self { info, fabric, eq, shared: None, endpoints: HashMap::new() })
    }

    /// An endpoint for `info`, enabled, not connected.
    fn endpoint(&mut self, info: &Info) -> anyhow::Result<&Ep> {
        if self.shared.is_none() {
            let domain = self.fabric.domain(info, Context::null()).context("fi_domain")?;
            let mut attributes = abi::fi_cq_attr {
                size: 1024,
                flags: 0,
                format: abi::FI_CQ_FORMAT_MSG,
                wait_obj: abi::FI_WAIT_NONE,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: std::ptr::null_mut(),
            };
            let cq = domain.cq(&mut attributes, Context::null()).context("fi_cq_open")?;
            self.shared = Some((domain, cq));
        }
        let (domain, cq) = self.shared.as_ref().context("it was opened")?;
        let ep = domain.endpoint(info, Context::null()).context("fi_endpoint")?;
        ep.bind(cq, abi::FI_TRANSMIT | abi::FI_RECV).context("fi_ep_bind")?;
        ep.bind(&self.eq, 0).context("fi_ep_bind")?;
        ep.enable().context("fi_enable")?;
        let fid = ep.fid().addr();
        Ok(self.endpoints.entry(fid).or_insert(ep))
    }

    /// The next event of connections. The process sleeps until it is there.
    fn event(&self) -> anyhow::Result<(u32, Option<Info>)> {
        match self.eq.sread_cm(PATIENCE_MS) {
            Err(Errno(abi::FI_EAVAIL)) => bail!("{:?}", self.eq.readerr()),
            found => found.context("fi_eq_sread"),
        }
    }

    fn close(self) -> anyhow::Result<()> {
        for ep in self.endpoints.values() {
            ep.close().context("fi_close of an endpoint")?;
        }
        if let Some((domain, cq)) = &self.shared {
            cq.close().context("fi_close of a queue")?;
            domain.close().context("fi_close of a domain")?;
        }
        self.eq.close().context("fi_close of an event queue")?;
        self.fabric.close().context("fi_close of a fabric")
    }
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if cli.serve { serve(&cli) } else { measure(&cli) }
}

/// The process that accepts. Prints its name, then the cost of its connections.
fn serve(cli: &Cli) -> anyhow::Result<()> {
    let mut host = Host::open(cli)?;
    let pep: Pep = host.fabric.passive_ep(&host.info).context("fi_passive_ep")?;
    pep.bind(&host.eq, 0).context("fi_pep_bind")?;
    pep.listen().context("fi_listen")?;
    let name = pep.getname(64).context("fi_getname")?;
    println!("{}", serde_json::to_string(&name)?);
    let before = Usage::now()?;
    let mut connected = 0;
    while connected < cli.count {
        match host.event()? {
            (abi::FI_CONNREQ, Some(info)) => host.endpoint(&info)?.accept().context("fi_accept")?,
            (abi::FI_CONNECTED, _) => connected += 1,
            (other, _) => bail!("event {other}"),
        }
    }
    println!("{}", serde_json::to_string(&before.until(Usage::now()?))?);
    // The other side closes first.
    std::io::stdin().lock().read_line(&mut String::new())?;
    pep.close().context("fi_close of the passive endpoint")?;
    host.close()
}

/// The server process.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--serve");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, input, output })
    }

    fn line<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

fn measure(cli: &Cli) -> anyhow::Result<()> {
    let mut server = Server::start()?;
    let name: Vec<u8> = server.line()?;
    let mut host = Host::open(cli)?;
    let info = host.info.dup();
    let (start, before) = (Instant::now(), Usage::now()?);
    let (mut asked, mut connected) = (0, 0);
    // Queues are allocated for many endpoints together: for the last of these long before.
    let (early, mut at_early) = (cli.count * 6 / 10, before);
    while connected < cli.count {
        while asked < cli.count && asked - connected < cli.window {
            host.endpoint(&info)?.connect(&name).context("fi_connect")?;
            asked += 1;
        }
        let (event, _) = host.event()?;
        ensure!(event == abi::FI_CONNECTED, "event {event}");
        connected += 1;
        if connected == early {
            at_early = Usage::now()?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let (ours, late) = (before.until(Usage::now()?), at_early.until(Usage::now()?));
    let theirs: Usage = server.line()?;
    let start = Instant::now();
    host.close()?;
    let close_seconds = start.elapsed().as_secs_f64();
    writeln!(server.input, "close")?;
    ensure!(server.child.wait()?.success(), "the server has failed");
    let connections = Connections {
        provider: cli.provider.clone(),
        count: cli.count as u64,
        seconds,
        close_seconds,
        cpu_seconds: ours.cpu_seconds + theirs.cpu_seconds,
        resident_bytes: ours.resident_bytes.max(theirs.resident_bytes),
        growth_bytes: late.resident_bytes as f64 / (cli.count - early).max(1) as f64,
        left_bytes: Usage::now()?.resident_bytes.saturating_sub(before.resident_bytes),
    };
    println!("{}", serde_json::to_string(&connections)?);
    Ok(())
}

/// The use of processor and memory by a process.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Usage {
    cpu_seconds: f64,
    resident_bytes: u64,
}

impl Usage {
    fn now() -> anyhow::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let seconds = |time: nix::sys::time::TimeVal| {
            time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0
        };
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        Ok(Self {
            cpu_seconds: seconds(usage.user_time()) + seconds(usage.system_time()),
            resident_bytes: kib.context("/proc/self/status has no VmRSS")? * 1024,
        })
    }

    fn until(self, later: Self) -> Self {
        Self {
            cpu_seconds: later.cpu_seconds - self.cpu_seconds,
            resident_bytes: later.resident_bytes.saturating_sub(self.resident_bytes),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run: hosts, residents, visitors that come and go, faults, samples, and the verdict.
//!
//! In: length and seed. Out: lines on standard output; an error for a damaged message, a process
//! that failed, or a violated rule. Caller: `main.rs`. Bounds: one visitor a host; the length.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::cluster::{Cluster, INTERFACE};
use ofi_xdp_harness::interrupt::{self, wait_until};
use ofi_xdp_harness::kernel::Host;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_test_kit::rng::Rng;

use crate::doors::{self, Door};
use crate::faults::{self, PEER_TIMEOUT};
use crate::hosts::{HOSTS, UDP_HOST, VISITOR_PORT, VISITOR_PORTS};
use crate::sample::{self, Sample};
use crate::verdict;

/// Receive queues of each host: one for the resident, one for the visitor.
const QUEUES: u32 = 2;
/// Time limit of a start, and of the end: the longest life of a visitor, and some more.
const TIMEOUT: Duration = Duration::from_secs(150);
/// Pause of the loop.
const TURN: Duration = Duration::from_millis(5);
/// Samples of a run, and the longest pause between two.
const SAMPLES: u32 = 120;
const SAMPLE_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Most milliseconds before a visitor is killed, and before the next one starts.
const KILL_MAX: u64 = 600;
const PAUSE_MAX: u64 = 100;

/// The visitors of one host.
#[derive(Debug)]
struct Visitors {
    running: Option<RunningProgram>,
    /// The number of its port.
    port: u16,
    /// When the present one is killed, or the next one starts; `None`: it ends by itself, or was
    /// killed.
    due: Option<Instant>,
    /// Whether the present one was killed. The kernel may take seconds for its end.
    was_killed: bool,
    ended: u64,
    killed: u64,
}

/// The programs of a run.
#[derive(Debug)]
struct Run<'c> {
    program: PathBuf,
    provider: String,
    residents: Vec<RunningProgram>,
    /// The residents' regions.
    regions: Vec<String>,
    doors: Vec<Door>,
    visitors: Vec<Visitors>,
    random: Rng,
    cluster: &'c Cluster,
}

/// A run of so many minutes.
///
/// # Errors
/// See [the module](self).
pub(crate) fn run(minutes: u64, seed: u64) -> anyhow::Result<()> {
    interrupt::install()?;
    let length = Duration::from_secs(60 * minutes);
    // Dropped last: it waits for the end of all processes on the hosts.
    let cluster = Cluster::with_queues(HOSTS, QUEUES)?;
    let mut run = Run::start(seed, &cluster)?;
    let (mut samples, begun) = (Vec::new(), Instant::now());
    let pause = (length / SAMPLES).min(SAMPLE_PAUSE_MAX);
    let mut sample_at = pause;
    println!("{minutes} minutes of {HOSTS} hosts, seed {seed}");
    let ((), faults) = faults::beside(seed, &cluster, || {
        while begun.elapsed() < length {
            interrupt::check()?;
            run.turn().with_context(|| format!("after {:?}", begun.elapsed()))?;
            if begun.elapsed() >= sample_at {
                samples.extend(run.sample(begun.elapsed())?);
                sample_at += pause;
            }
            std::thread::sleep(TURN);
        }
        Ok(())
    })?;
    let lines = run.finish()?;
    lines.iter().for_each(|line| println!("{line}"));
    println!("{faults:?}");
    let verdict = verdict::judge(&samples);
    print!("{}", verdict.table);
    ensure!(verdict.faults.is_empty(), "{}", verdict.faults.join("\n"));
    Ok(())
}

impl<'c> Run<'c> {
    /// Starts the residents and doors of all hosts.
    fn start(seed: u64, cluster: &'c Cluster) -> anyhow::Result<Self> {
        let provider = paths::provider()?.to_str().context("a path in UTF-8")?.to_owned();
        let mut run = Self {
            program: std::env::current_exe()?,
            provider,
            residents: Vec::new(),
            regions: Vec::new(),
            doors: Vec::new(),
            visitors: Vec::new(),
            random: Rng::new(seed, "visitors"),
            cluster,
        };
        for host in 0..usize::from(HOSTS) {
            let mut resident = run.program(host, &["resident", &host.to_string()])?.start()?;
            let line = resident.wait_for("resident ", TIMEOUT)?;
            let region = line.strip_prefix("resident ").context("no region")?;
            run.regions.push(region.to_owned());
            run.residents.push(resident);
            let mut door = run.program(host, &["door", &host.to_string()])?.start()?;
            door.wait_for("door", TIMEOUT)?;
            run.doors.push(Door::new(door)?);
            let due = Some(Instant::now());
            run.visitors.push(Visitors {
                running: None,
                port: 0,
                due,
                was_killed: false,
                ended: 0,
                killed: 0,
            });
        }
        Ok(run)
    }

    /// A program on a host.
    fn program(&self, host: usize, arguments: &[&str]) -> anyhow::Result<Program> {
        // The queues are for residents and visitors.
        let is_door = arguments.first() == Some(&"door");
        let tier = if host == UDP_HOST || is_door { "udp" } else { "auto" };
        let variables = [
            ("FI_PROVIDER_PATH", self.provider.as_str()),
            ("FI_PROVIDER", "xdp"),
            ("FI_XDP_TIER", tier),
            ("FI_XDP_QUIET", "1"),
            ("FI_XDP_PEER_TIMEOUT", PEER_TIMEOUT),
            ("FI_XDP_CONNECT_TIMEOUT", PEER_TIMEOUT),
        ];
        let program = Program::new(&self.program).args(arguments).envs(variables);
        let program = if is_door { program.envs([doors::ALLOCATOR]) } else { program };
        program.inside(self.cluster.hosts().get(host).context("no such host")?)
    }

    /// Fails if a resident or a door has ended.
    fn check_residents(&mut self) -> anyhow::Result<()> {
        for (host, resident) in self.residents.iter_mut().enumerate() {
            let runs = resident.is_running()?;
            ensure!(runs, "the resident of host {host} has ended: {}", resident.stderr());
        }
        self.doors.iter_mut().try_for_each(Door::check)
    }

    /// Starts, kills and reaps visitors.
    fn turn(&mut self) -> anyhow::Result<()> {
        self.check_residents()?;
        (0..self.visitors.len()).try_for_each(|host| {
            self.turn_of(host).with_context(|| format!("the visitor of host {host}"))
        })
    }

    fn turn_of(&mut self, host: usize) -> anyhow::Result<()> {
        let now = Instant::now();
        let is_due = self.visitors[host].due.is_some_and(|due| now >= due);
        match self.visitors[host].running.take() {
            None if is_due => {
                let seed = self.random.next().to_string();
                let visitors = &mut self.visitors[host];
                visitors.port = (visitors.port + self.random.below(2) as u16) % VISITOR_PORTS;
                let port = VISITOR_PORT + visitors.port;
                let mut arguments =
                    vec!["visitor".to_owned(), host.to_string(), port.to_string(), seed];
                arguments.extend(self.regions.iter().cloned());
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let visitor = self.program(host, &arguments)?.start()?;
                let kill = self.random.percent(50.0).then(|| self.random.within(1, KILL_MAX));
                let visitors = &mut self.visitors[host];
                visitors.due = kill.map(|after| now + Duration::from_millis(after));
                visitors.running = Some(visitor);
            }
            None => {}
            Some(mut visitor) => {
                let visitors = &mut self.visitors[host];
                if visitor.is_running()? {
                    if is_due {
                        visitor.signal(Signal::SIGKILL)?;
                        (visitors.due, visitors.was_killed) = (None, true);
                    }
                    visitors.running = Some(visitor);
                    return Ok(());
                }
                if std::mem::take(&mut visitors.was_killed) {
                    visitors.killed += 1;
                } else {
                    visitor.finish(TIMEOUT)?.success()?;
                    visitors.ended += 1;
                }
                let pause = self.random.within(0, PAUSE_MAX);
                self.visitors[host].due = Some(now + Duration::from_millis(pause));
            }
        }
        Ok(())
    }

    fn sample(&self, at: Duration) -> anyhow::Result<Option<Sample>> {
        let pid = |resident: &RunningProgram| resident.pid().as_raw().cast_unsigned();
        sample::take(at, &self.residents.iter().map(pid).collect::<Vec<_>>())
    }

    /// Waits for the last visitors and for the residents' last answers; then no XDP program may be
    /// left. Returns a line for each host.
    fn finish(mut self) -> anyhow::Result<Vec<String>> {
        for (host, visitors) in self.visitors.iter_mut().enumerate() {
            if visitors.was_killed {
                visitors.running = None;
                visitors.killed += 1;
            } else if let Some(visitor) = visitors.running.take() {
                let ended = visitor.finish(TIMEOUT).and_then(|output| output.success());
                ended.with_context(|| format!("the last visitor of host {host}"))?;
                visitors.ended += 1;
            }
        }
        self.residents.iter().try_for_each(|resident| resident.signal(Signal::SIGTERM))?;
        let mut lines = Vec::new();
        for host in 0..self.residents.len() {
            let line = wait_until("the residents' last answers", TIMEOUT, || {
                self.check_residents()?;
                let line = self.residents[host].stdout();
                Ok(line.lines().find(|line| line.starts_with("verified ")).map(str::to_owned))
            })?;
            let Visitors { ended, killed, .. } = self.visitors[host];
            ensure!(
                ended > 0 && killed > 0,
                "host {host}: {ended} visitors ended, {killed} killed"
            );
            lines.push(format!("host {host}: {line}; {ended} visitors ended, {killed} killed"));
        }
        for (host, door) in std::mem::take(&mut self.doors).into_iter().enumerate() {
            let line = door.finish().with_context(|| format!("the door of host {host}"))?;
            lines.push(format!("host {host}: {line}"));
        }
        self.residents.clear();
        for host in self.cluster.hosts() {
            wait_until("the end of the XDP program", TIMEOUT, || {
                Ok(Host(Some(host)).attachment(INTERFACE)?.is_none().then_some(()))
            })?;
        }
        Ok(lines)
    }
}

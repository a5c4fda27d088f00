// SPDX-License-Identifier: MIT OR Apache-2.0
//! Child processes that cannot outlive us, in whatever namespace, with all that they print.
//!
//! A child is killed and reaped when its [`Running`] is dropped, and by the kernel when this
//! process dies (`PR_SET_PDEATHSIG`). Its output is kept, up to [`OUTPUT_MAX`] bytes of each
//! stream.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::interrupt;
use crate::netns::Namespace;

/// How much of each stream is kept.
pub const OUTPUT_MAX: usize = 4 << 20;

/// A program that is to be started.
#[derive(Debug)]
pub struct Program {
    label: String,
    command: Command,
    namespace: Option<OwnedFd>,
}

impl Program {
    /// The program at `path`, or of this name in `PATH`. It inherits our environment, but no choice
    /// of a libfabric provider.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let label = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut command = Command::new(path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("FI_PROVIDER").env_remove("FI_PROVIDER_PATH");
        Self { label, command, namespace: None }
    }

    /// Runs it in `namespace`. Only its network is another: the file systems are ours, as they are
    /// for two containers that share them.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn inside(mut self, namespace: &Namespace) -> anyhow::Result<Self> {
        self.namespace = Some(namespace.open()?.into());
        Ok(self)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets environment variables.
    #[must_use]
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.command.envs(variables);
        self
    }

    /// What it prints is seen as it comes, and not kept.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut self) -> anyhow::Result<Running> {
        let parent = nix::unistd::getpid();
        let namespace = self.namespace.take();
        let prepare = move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the line above.
            if nix::unistd::getppid() != parent {
                return Err(std::io::Error::from_raw_os_error(nix::libc::ESRCH));
            }
            if let Some(namespace) = &namespace {
                setns(namespace, CloneFlags::CLONE_NEWNET)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec, `prepare` makes only system calls: no allocation, no lock.
        unsafe { self.command.pre_exec(prepare) };
        let label = self.label;
        let mut child = self
            .command
            .spawn()
            .with_context(|| format!("cannot start {}", describe(&self.command)))?;
        let stdout = Stream::follow(child.stdout.take());
        let stderr = Stream::follow(child.stderr.take());
        Ok(Running { label, child, stdout, stderr })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// As [`Running::finish`].
    pub fn run(self, patience: Duration) -> anyhow::Result<Output> {
        self.start()?.finish(patience)
    }

    /// Runs it to its end, signals or not: for what cleans up after them.
    ///
    /// # Errors
    /// As [`Running::finish`].
    pub fn run_regardless(self, patience: Duration) -> anyhow::Result<Output> {
        let mut running = self.start()?;
        let what = running.what();
        let status =
            interrupt::wait_regardless(&what, patience, || Ok(running.child.try_wait()?));
        running.output(status)
    }
}

/// What a program is, for an error.
fn describe(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A started program; killed and reaped on drop.
#[derive(Debug)]
pub struct Running {
    label: String,
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

/// How a program ended, and what it printed.
#[derive(Clone, Debug)]
pub struct Output {
    /// The program's name.
    pub label: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Fails, with what it printed, unless it ended well.
    ///
    /// # Errors
    /// When it ended with another status than 0.
    pub fn success(self) -> anyhow::Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        bail!("{} ended with {}{}", self.label, self.status, tail(&self.stdout, &self.stderr))
    }
}

/// The last lines of both streams, for an error.
fn tail(stdout: &str, stderr: &str) -> String {
    let last = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n  ")
    };
    let mut tail = String::new();
    for (name, text) in [("stdout", last(stdout)), ("stderr", last(stderr))] {
        if !text.is_empty() {
            tail.push_str(&format!("\n  --- {name}\n  {text}"));
        }
    }
    tail
}

impl Running {
    /// Waits until it prints a line that contains `text` (on either stream), and gives that line.
    ///
    /// # Errors
    /// When it did not in time, or ended before.
    pub fn wait_for(&mut self, text: &str, patience: Duration) -> anyhow::Result<String> {
        let what = format!("{} saying {text:?}", self.label);
        let seen = interrupt::wait_until(&what, patience, || {
            let ended = self.child.try_wait()?.is_some();
            for stream in [&self.stdout, &self.stderr] {
                if let Some(line) = stream.text().lines().find(|line| line.contains(text)) {
                    return Ok(Some(line.to_owned()));
                }
            }
            if ended {
                bail!("{} ended instead", self.label);
            }
            Ok(None)
        });
        seen.with_context(|| format!("{}{}", self.label, self.tail()))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it did not end in time; it is killed then.
    pub fn finish(mut self, patience: Duration) -> anyhow::Result<Output> {
        let what = self.what();
        let status = interrupt::wait_until(&what, patience, || Ok(self.child.try_wait()?));
        self.output(status)
    }

    fn what(&self) -> String {
        format!("the end of {}", self.label)
    }

    fn output(mut self, status: anyhow::Result<ExitStatus>) -> anyhow::Result<Output> {
        let status = status.map_err(|error| error.context(format!("killed{}", self.tail())))?;
        Ok(Output {
            label: self.label.clone(),
            status,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
        })
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill(self.pid(), signal).with_context(|| format!("{signal} to {}", self.label))
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// What it has printed to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    fn tail(&self) -> String {
        tail(&self.stdout.text(), &self.stderr.text())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it has ended; reaped in either case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of a child's, read by a thread as it comes.
#[derive(Debug)]
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn follow(source: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let reader = source.map(|mut source| {
            std::thread::spawn(move || {
                let mut part = [0; 4096];
                // bound: the child's life
                while let Ok(count @ 1..) = source.read(&mut part) {
                    let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = OUTPUT_MAX.saturating_sub(sink.len());
                    sink.extend_from_slice(&part[..count.min(room)]);
                }
            })
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The whole text, of a child that has ended. A grandchild may hold the pipe open: not waited
    /// for.
    fn finish(&mut self) -> String {
        for _ in 0..50 {
            if self.reader.as_ref().is_none_or(JoinHandle::is_finished) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.text()
    }
}

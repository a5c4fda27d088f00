// SPDX-License-Identifier: MIT OR Apache-2.0
//! Child processes in any namespace, with their output; they never outlive this process.
//!
//! A child is killed and reaped when its [`RunningProgram`] is dropped, and by the kernel when this
//! process dies (`PR_SET_PDEATHSIG`). Its output is kept, up to [`OUTPUT_MAX`] bytes of each
//! stream.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::interrupt;

/// Bytes of each stream that are kept.
pub const OUTPUT_MAX: usize = 4 << 20;

/// Longest time from the end of a child to the last byte of its output. On a machine with other
/// work the thread that reads it may have to wait for a core.
const REST_OF_OUTPUT: Duration = Duration::from_secs(2);

/// A program that has not been started.
#[derive(Debug)]
pub struct Program {
    label: String,
    command: Command,
    namespace: Option<OwnedFd>,
}

impl Program {
    /// The program at `path`, or of this name in `PATH`. It inherits the environment, except the
    /// choice of a libfabric provider.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let label = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut command = Command::new(path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("FI_PROVIDER").env_remove("FI_PROVIDER_PATH");
        Self { label, command, namespace: None }
    }

    /// Runs the program in the network of `namespace`, an open file of `/run/netns`.
    pub(crate) fn in_network(mut self, namespace: OwnedFd) -> Self {
        self.namespace = Some(namespace);
        self
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

    /// Shows the output as it comes, and keeps none.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut self) -> anyhow::Result<RunningProgram> {
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
        Ok(RunningProgram { label, child, stdout, stderr })
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// As [`RunningProgram::finish`].
    pub fn run(self, timeout: Duration) -> anyhow::Result<Output> {
        self.start()?.finish(timeout)
    }

    /// Runs the program to its end, for clean-up code: signals do not end the wait.
    ///
    /// # Errors
    /// As [`RunningProgram::finish`].
    pub fn run_regardless(self, timeout: Duration) -> anyhow::Result<Output> {
        let mut running = self.start()?;
        let what = running.what();
        let status = interrupt::wait_regardless(&what, timeout, || Ok(running.child.try_wait()?));
        running.output(status)
    }
}

/// The command line, for an error.
fn describe(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A started program; killed and reaped on drop.
#[derive(Debug)]
pub struct RunningProgram {
    label: String,
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

/// The status and the output of a program that has ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// The program's name.
    pub label: String,
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl Output {
    /// Fails, with the output, unless the status is 0.
    ///
    /// # Errors
    /// When the status is another than 0.
    pub fn success(self) -> anyhow::Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        bail!("{} ended with {}{}", self.label, self.status, tail(&self.stdout, &self.stderr))
    }
}

/// The last lines of both streams, for an error. Those of a backtrace are left out: they would be
/// all.
fn tail(stdout: &str, stderr: &str) -> String {
    let is_frame = |line: &str| {
        let line = line.trim_start();
        let number = line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        number || line.starts_with("at ")
    };
    let last = |text: &str| {
        let lines: Vec<&str> = text.lines().filter(|line| !is_frame(line)).collect();
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

impl RunningProgram {
    /// Waits for a line that contains `text` (on either stream), and returns that line.
    ///
    /// # Errors
    /// When the line did not come in time, or the program ended before.
    pub fn wait_for(&mut self, text: &str, timeout: Duration) -> anyhow::Result<String> {
        let what = format!("{} saying {text:?}", self.label);
        let seen = interrupt::wait_until(&what, timeout, || {
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

    /// Waits for the end of the program.
    ///
    /// # Errors
    /// When it did not end in time; it is killed then.
    pub fn finish(mut self, timeout: Duration) -> anyhow::Result<Output> {
        let what = self.what();
        let status = interrupt::wait_until(&what, timeout, || Ok(self.child.try_wait()?));
        self.output(status)
    }

    /// Waits for the end of a program that prints as it goes on, for `timeout` at most.
    ///
    /// # Errors
    /// When it printed nothing for `silence`, or did not end in time; it is killed then.
    pub fn finish_while_printing(
        mut self,
        silence: Duration,
        timeout: Duration,
    ) -> anyhow::Result<Output> {
        let what = self.what();
        let mut printed = 0;
        let mut since = Instant::now();
        let status = interrupt::wait_until(&what, timeout, || {
            let so_far = self.stdout.printed() + self.stderr.printed();
            if so_far != printed {
                (printed, since) = (so_far, Instant::now());
            } else if since.elapsed() >= silence {
                bail!("{what}: no output for {:.1} s", silence.as_secs_f32());
            }
            Ok(self.child.try_wait()?)
        });
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

    /// Sends a signal to the program.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill(self.pid(), signal).with_context(|| format!("{signal} to {}", self.label))
    }

    /// Whether the program still runs.
    ///
    /// # Errors
    /// When the kernel refuses the question.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// The standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    fn tail(&self) -> String {
        tail(&self.stdout.text(), &self.stderr.text())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Fails only after the end of the child, which is reaped in either case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An output stream of a child, read by a thread as it comes.
#[derive(Debug)]
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    /// Bytes that were read, also those that are not kept.
    printed: Arc<AtomicUsize>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn follow(source: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let printed = Arc::new(AtomicUsize::new(0));
        let (sink, read) = (Arc::clone(&text), Arc::clone(&printed));
        let reader = source.map(|mut source| {
            std::thread::spawn(move || {
                let mut part = [0; 4096];
                // bound: the child's life
                while let Ok(count @ 1..) = source.read(&mut part) {
                    read.fetch_add(count, Ordering::Relaxed);
                    let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = OUTPUT_MAX.saturating_sub(sink.len());
                    sink.extend_from_slice(&part[..count.min(room)]);
                }
            })
        });
        Self { text, printed, reader }
    }

    fn printed(&self) -> usize {
        self.printed.load(Ordering::Relaxed)
    }

    fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The whole text of a child that has ended. Waits [`REST_OF_OUTPUT`] at most for a grandchild
    /// that keeps the pipe open.
    fn finish(&mut self) -> String {
        let end = Instant::now() + REST_OF_OUTPUT;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished())
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.text()
    }
}

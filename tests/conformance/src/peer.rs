// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer in a process of its own, which can be killed, exit and start again.
//!
//! In: the peer's behaviour. Out: its address. Both addresses are exchanged as lines of hexadecimal
//! digits.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::connected::Pair;
use crate::fi::{Context, Mem, getinfo};
use crate::group::Group;
use crate::world::{Setup, World};

/// The environment variable that makes this program a peer.
pub(crate) const BEHAVIOUR: &str = "CONFORMANCE_PEER";
/// The variable with the peer's port.
const PORT: &str = "CONFORMANCE_PEER_PORT";

/// The variables with this program's path, if `/proc/self/exe` is the loader, and with the
/// libraries of a run.
const PROGRAM: &str = "CONFORMANCE_PROGRAM";
const LIBRARIES: &str = "CONFORMANCE_LIBRARIES";

/// A command that starts this program on the installed libraries, or on those in the folder
/// `CONFORMANCE_LIBRARIES`. The latter have their loader in that folder: another libfabric may need
/// another C library.
pub(crate) fn relaunch() -> Result<Command> {
    let program = match std::env::var_os(PROGRAM) {
        Some(program) => PathBuf::from(program),
        None => std::env::current_exe().context("this program's path")?,
    };
    let Some(libraries) = std::env::var_os(LIBRARIES).map(PathBuf::from) else {
        return Ok(Command::new(program));
    };
    let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(&libraries).arg(&program).env(PROGRAM, &program);
    Ok(command)
}

/// Bytes of a message that waits for its receive.
pub(crate) const GREETING: usize = 8 << 20;

/// The task of the peer after the exchange of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    /// Sends every message of 8 bytes back, until it is killed.
    Echo,
    /// Sends messages of 8 and of [`GREETING`] bytes, receives one of 8, and exits.
    Greet,
    /// Receives one message, and exits without closing anything.
    Leave,
    /// Connects to the passive endpoint with the name that it is told, until it is killed.
    Connect,
}

/// The process of a peer, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    stdin: ChildStdin,
    /// Its address.
    pub(crate) name: Vec<u8>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a peer, at `port` or at any port.
    pub(crate) fn start(world: &World, what: Behaviour, port: Option<u16>) -> Result<Self> {
        let mut command = relaunch()?;
        command.args(["--provider", &world.provider]);
        command.args(["--node", world.other_node().unwrap_or_default()]);
        command.env(BEHAVIOUR, format!("{what:?}"));
        if let Some(port) = port {
            command.env(PORT, port.to_string());
        }
        if let Some(host) = &world.other {
            command = host.command(&command);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().context("no pipe")?;
        let stdout = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut peer = Self { child, stdin, name: Vec::new(), stdout };
        peer.name = peer.line()?;
        Ok(peer)
    }

    /// Sends this side's address to the peer, which can answer from then on.
    pub(crate) fn exchange_names(&mut self, name: &[u8]) -> Result<()> {
        writeln!(self.stdin, "{}", hexadecimal(name))?;
        self.stdin.flush()?;
        ensure!(self.line()?.is_empty(), "the peer says something else");
        Ok(())
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the peer ended");
        bytes(line.trim())
    }

    /// Kills the peer, as a crash would.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until the peer has ended by itself.
    pub(crate) fn ended(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the peer: {status}");
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Result<Vec<u8>> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).context("not hexadecimal");
    (0..text.len() / 2).map(|index| pair(2 * index)).collect()
}

/// The peer's main function.
pub(crate) fn run(world: &World, behaviour: &str) -> Result<()> {
    if behaviour == "Connect" {
        return connect(world);
    }
    let setup = Setup { nodes: 1, introduced: false, ..Setup::default() };
    let info = match std::env::var(PORT) {
        Ok(port) => {
            let (node, hints) = (world.node.as_deref(), world.hints(&setup));
            let flags = abi::FI_SOURCE;
            getinfo(abi::VERSION, node, Some(&port), flags, Some(&hints))?.remove(0)
        }
        Err(_) => world.offer(&setup)?,
    };
    let group = Group::open(world, info, &setup)?;
    group.enable()?;
    println!("{}", hexadecimal(&group.a().name()?));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let other = group.a().av.insert(&bytes(line.trim())?)?;
    println!();
    match behaviour {
        "Echo" => echo(&group, other),
        "Greet" => greet(&group, other),
        "Leave" => leave(&group),
        _ => bail!("no behaviour {behaviour}"),
    }
}

fn echo(group: &Group, other: u64) -> Result<()> {
    let node = group.a();
    loop {
        let (mem, context) = (Mem::zeroed(8), Context::new());
        node.ep.recv(mem, FI_ADDR_UNSPEC, context)?;
        // The test ends the peer: there is no time limit for a message.
        while node.cq.read(1).is_err() {
            std::thread::yield_now();
        }
        let context = Context::new();
        group.post(|| node.ep.send(mem, other, context))?;
        group.done(node, context)?;
    }
}

fn greet(group: &Group, other: u64) -> Result<()> {
    let node = group.a();
    node.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new())?;
    for len in [8, GREETING] {
        group.post(|| node.ep.send(Mem::zeroed(len), other, Context::new()))?;
    }
    (0..3).try_for_each(|_| group.next(node).map(drop))
}

fn leave(group: &Group) -> Result<()> {
    let (node, context) = (group.a(), Context::new());
    node.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, context)?;
    group.done(node, context)?;
    std::process::exit(0);
}

fn connect(world: &World) -> Result<()> {
    println!();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let _asking = Pair::ask(world, &bytes(line.trim())?, 0, &[])?;
    println!();
    // The test ends the peer.
    loop {
        std::thread::park();
    }
}

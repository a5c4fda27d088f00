// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network changes during a conversation over the unmodified libfabric. Every message arrives
//! once and intact, each side logs each change of tier once, and AF_XDP comes back.
//!
//! One endpoint on each host lives through all changes, one after the other.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;
use ofi_xdp_datapath::{Layout, QueueRange, RingSizes, XskMode, XskSocket, interfaces};
use ofi_xdp_harness::interrupt::wait_until;
use ofi_xdp_harness::netns::ip;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::topology::{LinkOptions, Side};
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_statistics::{FOLDER, Page, read_all};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");
/// Text that marks a log line about a change; warnings count too.
const SAID: [&str; 2] = ["<warn>", "the route to "];
const LOST: &str = "is lost";
const BACK: &str = "AF_XDP is back: AF_XDP skb on link0";

/// The process of one side.
struct End {
    process: RunningProgram,
    /// Number of lines that were looked at.
    seen: usize,
}

impl End {
    fn start(fixture: &TwoHostFixture, side: Side, arguments: &[&str]) -> anyhow::Result<Self> {
        let misbehave = Program::new(MISBEHAVE).args(arguments).envs([("FI_LOG_LEVEL", "info")]);
        Ok(Self { process: fixture.program(side, misbehave)?.start()?, seen: 0 })
    }

    /// The provider's log lines about changes so far.
    fn said(&self) -> Vec<String> {
        let log = self.process.stderr();
        let of_changes =
            |line: &&str| line.contains(":xdp:") && SAID.iter().any(|said| line.contains(said));
        log.lines().filter(of_changes).map(str::to_owned).collect()
    }

    fn page(&self) -> anyhow::Result<Page> {
        let pid = self.process.pid().as_raw().cast_unsigned();
        let page = read_all(Path::new(FOLDER))?.into_iter().find(|page| page.pid == pid);
        page.context("no statistics page")
    }
}

/// The echo on host A, and its name. `more`: arguments of both programs.
fn start_echo(fixture: &TwoHostFixture, more: &[&str]) -> anyhow::Result<(End, String)> {
    let local = fixture.hosts().link(0).v4(Side::A).to_string();
    let mut echo = End::start(fixture, Side::A, &[&["echo", local.as_str()], more].concat())?;
    let line = echo.process.wait_for("name ", TIMEOUT)?;
    Ok((echo, line.strip_prefix("name ").context("no name")?.to_owned()))
}

/// A conversation under way: an echo on host A, its client on host B.
struct Conversation<'a> {
    fixture: &'a TwoHostFixture,
    ends: [End; 2],
}

impl<'a> Conversation<'a> {
    fn begin(fixture: &'a TwoHostFixture, more: &[&str]) -> anyhow::Result<Self> {
        let (echo, name) = start_echo(fixture, more)?;
        Self::begin_with(fixture, echo, &name, more)
    }

    /// A conversation with a running echo of this `name`.
    fn begin_with(
        fixture: &'a TwoHostFixture,
        echo: End,
        name: &str,
        more: &[&str],
    ) -> anyhow::Result<Self> {
        let local = fixture.hosts().link(0).v4(Side::B).to_string();
        let arguments = [&["converse", local.as_str(), name], more].concat();
        let client = End::start(fixture, Side::B, &arguments)?;
        let conversation = Self { fixture, ends: [echo, client] };
        conversation.goes_on_by("AF_XDP skb")?;
        Ok(conversation)
    }

    fn end(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    /// Waits until both sides have published two hundred more messages on their pages.
    fn goes_on(&self) -> anyhow::Result<()> {
        let count = |side| -> anyhow::Result<u64> {
            let page = self.end(side).page()?;
            Ok(page.counters.get("messages_accepted").copied().unwrap_or(0))
        };
        for side in [Side::A, Side::B] {
            let before = wait_until("a page", TIMEOUT, || Ok(count(side).ok()))?;
            wait_until("two hundred messages more", TIMEOUT, || {
                Ok((count(side)? > before + 200).then_some(()))
            })?;
        }
        Ok(())
    }

    /// Waits for messages as [`Talk::goes_on`] does, and for `tier` on the statistics page of host
    /// A.
    fn goes_on_by(&self, tier: &str) -> anyhow::Result<()> {
        self.goes_on()?;
        let page = self.end(Side::A).page()?;
        ensure!(page.tier == tier, "{} instead of {tier}: {}", page.tier, page.why_not_better);
        Ok(())
    }

    /// Packets that the client gave to its AF_XDP socket and to its kernel socket during some
    /// messages.
    fn packets_by_tier(&self) -> anyhow::Result<[u64; 2]> {
        let count = || -> anyhow::Result<[u64; 2]> {
            let page = self.end(Side::B).page()?;
            let count = |name: &str| page.counters.get(name).copied().unwrap_or(0);
            Ok([count("xsk_transmitted"), count("udp_transmitted")])
        };
        let before = count()?;
        self.goes_on()?;
        let after = count()?;
        Ok([after[0] - before[0], after[1] - before[1]])
    }

    /// Waits until the endpoints of host A and host B have logged the listed texts, line by line,
    /// and nothing else.
    fn have_said(&mut self, a: &[&str], b: &[&str]) -> anyhow::Result<()> {
        for (end, wanted) in self.ends.iter_mut().zip([a, b]) {
            let what = format!("{wanted:?}");
            let lines = wait_until(&what, TIMEOUT, || {
                let said = end.said();
                Ok((said.len() >= end.seen + wanted.len()).then_some(said))
            });
            let lines = lines.with_context(|| format!("instead: {:#?}", end.said()))?;
            let new = &lines[end.seen..];
            let same = new.len() == wanted.len()
                && new.iter().zip(wanted).all(|(line, wanted)| line.contains(wanted));
            ensure!(same, "said {new:#?} instead of {wanted:#?}");
            end.seen = lines.len();
        }
        Ok(())
    }

    /// Ends the conversation: all messages in flight have come back.
    fn finish(mut self) -> anyhow::Result<String> {
        self.have_said(&[], &[])?;
        let [echo, client] = self.ends;
        client.process.signal(Signal::SIGTERM)?;
        let client = client.process.finish(TIMEOUT)?.success()?;
        echo.process.signal(Signal::SIGKILL)?;
        let line = client.stdout.lines().find(|line| line.starts_with("verified "));
        Ok(line.context("the client said nothing")?.to_owned())
    }

    /// Runs `ip` with `arguments` on a host.
    fn ip(&self, side: Side, arguments: &str) -> anyhow::Result<()> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        self.fixture.hosts().host(side).ip(&words).map(drop)
    }
}

/// A conversation lives through all changes. `more`: arguments of its programs.
fn through_every_change(more: &[&str]) -> anyhow::Result<()> {
    let hosts = [LinkOptions::default(); 2];
    let Some(fixture) = TwoHostFixture::with_links(&hosts)? else { return Ok(()) };
    let mut talk = Conversation::begin(&fixture, more)?;
    type Change = fn(&mut Conversation<'_>) -> anyhow::Result<()>;
    let changes: [(&str, Change); 7] = [
        ("the program is detached", detached),
        ("the interface goes down and up", down_and_up),
        ("the MTU becomes smaller and larger", mtu),
        ("each neighbour gets another address", neighbour),
        ("the route moves and comes back", route),
        ("the device is replaced", replaced),
        ("another socket takes the queue", taken),
    ];
    for (what, change) in changes {
        let begun = std::time::Instant::now();
        change(&mut talk).with_context(|| what.to_owned())?;
        talk.goes_on_by("AF_XDP skb").with_context(|| format!("after: {what}"))?;
        println!("{what}: {} ms", begun.elapsed().as_millis());
    }
    println!("{}", talk.finish()?);
    fixture.wait_detached()
}

#[test]
fn root_a_conversation_outlives_every_change() -> anyhow::Result<()> {
    through_every_change(&[])
}

#[test]
fn root_a_connection_outlives_every_change() -> anyhow::Result<()> {
    through_every_change(&["--connected"])
}

/// The endpoint has no peer yet and its owner sleeps in `fi_cq_sread`: only the change itself can
/// wake it.
#[test]
fn root_a_sleeper_through_a_change_receives_the_first_message() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::with_links(&[LinkOptions::default()])? else {
        return Ok(());
    };
    let (echo, name) = start_echo(&fixture, &[])?;
    let link = |state| fixture.hosts().host(Side::A).ip(&["link", "set", "link0", state]);
    link("down")?;
    wait_until("the loss is noticed", TIMEOUT, || {
        Ok(echo.said().iter().any(|line| line.contains(LOST)).then_some(()))
    })?;
    link("up")?;
    wait_until("the program is back", TIMEOUT, || {
        fixture.kernel(Side::A).attachment(fixture.interface())
    })?;
    // Packets before the claim of the port go to the kernel's socket.
    thread::sleep(Duration::from_millis(300));
    let mut talk = Conversation::begin_with(&fixture, echo, &name, &[])?;
    talk.have_said(&["is lost (the interface is down)", BACK], &[])?;
    println!("{}", talk.finish()?);
    fixture.wait_detached()
}

/// The change that an administrator would make.
fn detached(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.fixture.kernel(Side::A).detach(talk.fixture.interface())?;
    talk.have_said(&["is lost (the XDP program was detached)", BACK], &[])
}

fn down_and_up(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.ip(Side::A, "link set link0 down")?;
    talk.have_said(&["is lost (the interface is down)"], &[])?;
    talk.ip(Side::A, "link set link0 up")?;
    talk.have_said(&[BACK], &[])
}

fn mtu(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    for (mtu, state) in [(800, "in fragments"), (1500, "all packets fit again")] {
        for side in [Side::A, Side::B] {
            talk.ip(side, &format!("link set link0 mtu {mtu}"))?;
        }
        talk.have_said(&[state], &[state])?;
        // Short packets go on unchanged.
        talk.goes_on_by("AF_XDP skb")?;
    }
    Ok(())
}

/// The other host learns of the change from the network alone. Host A only answers, and host B only
/// asks.
fn neighbour(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    let lost: &[&str] = &["is lost (its link-layer address has changed)", BACK];
    for (side, said) in [(Side::A, [lost, &[]]), (Side::B, [&[], lost])] {
        talk.ip(side, &format!("link set link0 address 02:00:00:00:00:9{}", side as usize))?;
        talk.have_said(said[0], said[1])?;
        talk.goes_on_by("AF_XDP skb")?;
        let [xdp, _] = talk.packets_by_tier()?;
        ensure!(xdp > 0, "host B does not send through AF_XDP any more");
    }
    Ok(())
}

fn route(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    let hosts = talk.fixture.hosts();
    let (to, from) = (hosts.link(0).v4(Side::A), hosts.link(0).v4(Side::B));
    let gateway = hosts.link(1).v4(Side::A);
    talk.ip(Side::B, &format!("route add {to}/32 via {gateway} dev link1 src {from}"))?;
    talk.have_said(&[], &["has moved: its packets go through the kernel"])?;
    // A page may be older than the change.
    talk.goes_on()?;
    let [xdp, udp] = talk.packets_by_tier()?;
    ensure!(xdp == 0 && udp > 0, "{xdp} packets through AF_XDP, {udp} through the kernel");
    talk.ip(Side::B, &format!("route del {to}/32"))?;
    talk.have_said(&[], &["has moved: its packets go through this interface again"])?;
    let [xdp, _] = talk.packets_by_tier()?;
    ensure!(xdp > 0, "nothing goes through AF_XDP");
    Ok(())
}

/// The sockets are lost for good (`ENXIO`): their device is gone.
fn replaced(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    let hosts = talk.fixture.hosts();
    talk.ip(Side::A, "link del link0")?;
    talk.have_said(&[LOST], &[LOST])?;
    let [a, b] = [Side::A, Side::B].map(|side| hosts.host(side).name());
    ip(&["link", "add", "link0", "netns", a, "type", "veth", "peer", "link0", "netns", b])?;
    for side in [Side::A, Side::B] {
        let address = hosts.link(0).v4(side);
        talk.ip(side, &format!("address add {address}/24 dev link0"))?;
        talk.ip(side, "link set link0 up")?;
    }
    talk.have_said(&[BACK], &[BACK])
}

/// While the endpoint has no socket, another one binds the queue.
fn taken(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.ip(Side::A, "link set link0 down")?;
    talk.have_said(&["is lost (the interface is down)"], &[])?;
    let namespace = talk.fixture.hosts().host(Side::A).open()?;
    let (bound, is_bound) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let holder = scope.spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            let socket = bind_queue_0();
            bound.send(socket.is_ok())?;
            // Until the test asks for the end, or has failed.
            let _ = gone.recv();
            socket.map(drop)
        });
        let held = (|| {
            ensure!(is_bound.recv().unwrap_or(false), "the queue cannot be taken");
            talk.ip(Side::A, "link set link0 up")?;
            talk.goes_on_by("kernel UDP")?;
            // Longer than the interval between two attempts.
            thread::sleep(Duration::from_millis(600));
            talk.goes_on_by("kernel UDP")?;
            talk.have_said(&[], &[])
        })();
        drop(go);
        match holder.join() {
            Ok(holder) => held.and(holder),
            Err(_) => bail!("the holder panicked"),
        }
    })?;
    talk.have_said(&[BACK], &[])
}

/// A socket on queue 0 of the calling thread's `link0`.
fn bind_queue_0() -> anyhow::Result<XskSocket> {
    let all = interfaces()?;
    let link = all.iter().find(|interface| interface.name == "link0").context("no link0")?;
    let layout = Layout::new(RingSizes::default(), 42);
    let queues = QueueRange::one_or_any(Some(0));
    Ok(XskSocket::bind(link.index, queues, XskMode::Skb, layout, false, 25)?)
}

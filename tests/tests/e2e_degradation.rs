// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network changes under a conversation over the unmodified libfabric: every message arrives,
//! once and unharmed, each change of tier is said once each way, and AF_XDP comes back.
//!
//! One endpoint on each host lives through all of it, one change after the other.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;
use ofi_xdp_datapath::{Layout, Queues, RingSizes, XskMode, XskSocket, interfaces};
use ofi_xdp_statistics::{FOLDER, Page, read_all};
use ofi_xdp_tests::bed::{Bed, PATIENCE};
use ofi_xdp_tests::interrupt::wait_until;
use ofi_xdp_tests::netns::ip;
use ofi_xdp_tests::process::{Program, Running};
use ofi_xdp_tests::topology::{LinkOptions, Side};

const DRILL: &str = env!("CARGO_BIN_EXE_drill");
/// What the provider says of a change is a warning, or has this in it.
const SAID: [&str; 2] = ["<warn>", "the route to "];
const LOST: &str = "is lost";
const BACK: &str = "AF_XDP is back: AF_XDP skb on link0";

/// One side's process.
struct End {
    process: Running,
    /// Lines that were looked at.
    seen: usize,
}

impl End {
    fn start(bed: &Bed, side: Side, arguments: &[&str]) -> anyhow::Result<Self> {
        let drill = Program::new(DRILL).args(arguments).envs([("FI_LOG_LEVEL", "info")]);
        Ok(Self { process: bed.program(side, drill)?.start()?, seen: 0 })
    }

    /// What the provider has said of changes so far.
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

/// The echo on host A, and its name.
fn start_echo(bed: &Bed) -> anyhow::Result<(End, String)> {
    let local = bed.hosts().link(0).v4(Side::A).to_string();
    let mut echo = End::start(bed, Side::A, &["echo", &local])?;
    let line = echo.process.wait_for("name ", PATIENCE)?;
    Ok((echo, line.strip_prefix("name ").context("no name")?.to_owned()))
}

/// A conversation under way: an echo on host A, its client on host B.
struct Conversation<'a> {
    bed: &'a Bed,
    ends: [End; 2],
}

impl<'a> Conversation<'a> {
    fn begin(bed: &'a Bed) -> anyhow::Result<Self> {
        let (echo, name) = start_echo(bed)?;
        Self::begin_with(bed, echo, &name)
    }

    /// The same, with an echo of this `name` that is there already.
    fn begin_with(bed: &'a Bed, echo: End, name: &str) -> anyhow::Result<Self> {
        let local = bed.hosts().link(0).v4(Side::B).to_string();
        let client = End::start(bed, Side::B, &["converse", &local, name])?;
        let conversation = Self { bed, ends: [echo, client] };
        conversation.goes_on_by("AF_XDP skb")?;
        Ok(conversation)
    }

    fn end(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    /// Waits until both sides have written a page by which so many more messages have come.
    fn goes_on(&self) -> anyhow::Result<()> {
        let count = |side| -> anyhow::Result<u64> {
            let page = self.end(side).page()?;
            Ok(page.counters.get("messages_accepted").copied().unwrap_or(0))
        };
        for side in [Side::A, Side::B] {
            let before = wait_until("a page", PATIENCE, || Ok(count(side).ok()))?;
            wait_until("two hundred messages more", PATIENCE, || {
                Ok((count(side)? > before + 200).then_some(()))
            })?;
        }
        Ok(())
    }

    /// The same, and that host A's endpoint says that it is on `tier`.
    fn goes_on_by(&self, tier: &str) -> anyhow::Result<()> {
        self.goes_on()?;
        let page = self.end(Side::A).page()?;
        ensure!(page.tier == tier, "{} instead of {tier}: {}", page.tier, page.why_not_better);
        Ok(())
    }

    /// Packets that the client gave to its AF_XDP socket and to its kernel socket, while some
    /// messages went.
    fn ways(&self) -> anyhow::Result<[u64; 2]> {
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

    /// Waits until host A's and host B's endpoints have said what is listed, line by line, and
    /// nothing else.
    fn have_said(&mut self, a: &[&str], b: &[&str]) -> anyhow::Result<()> {
        for (end, wanted) in self.ends.iter_mut().zip([a, b]) {
            let what = format!("{wanted:?}");
            let lines = wait_until(&what, PATIENCE, || {
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

    /// Ends it: all that was under way has come back.
    fn finish(mut self) -> anyhow::Result<String> {
        self.have_said(&[], &[])?;
        let [echo, client] = self.ends;
        client.process.signal(Signal::SIGTERM)?;
        let client = client.process.finish(PATIENCE)?.success()?;
        echo.process.signal(Signal::SIGKILL)?;
        let line = client.stdout.lines().find(|line| line.starts_with("verified "));
        Ok(line.context("the client said nothing")?.to_owned())
    }

    /// Runs `ip` with `arguments` on a host.
    fn ip(&self, side: Side, arguments: &str) -> anyhow::Result<()> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        self.bed.hosts().host(side).ip(&words).map(drop)
    }
}

#[test]
fn root_a_conversation_outlives_every_change() -> anyhow::Result<()> {
    let hosts = [LinkOptions::default(); 2];
    let Some(bed) = Bed::with_links(&hosts)? else { return Ok(()) };
    let mut talk = Conversation::begin(&bed)?;
    type Change = fn(&mut Conversation<'_>) -> anyhow::Result<()>;
    let changes: [(&str, Change); 7] = [
        ("the program is detached", detached),
        ("the interface goes down and up", down_and_up),
        ("the MTU becomes smaller and larger", mtu),
        ("the neighbour gets another address", neighbour),
        ("the route moves and comes back", route),
        ("the device is replaced", replaced),
        ("somebody takes the queue", taken),
    ];
    for (what, change) in changes {
        let begun = std::time::Instant::now();
        change(&mut talk).with_context(|| what.to_owned())?;
        talk.goes_on_by("AF_XDP skb").with_context(|| format!("after: {what}"))?;
        println!("{what}: {} ms", begun.elapsed().as_millis());
    }
    println!("{}", talk.finish()?);
    bed.wait_detached()
}

/// Nobody knows the endpoint yet and its owner sleeps in `fi_cq_sread`: there is nothing but the
/// change itself to wake it.
#[test]
fn root_who_sleeps_through_a_change_hears_the_first_message() -> anyhow::Result<()> {
    let Some(bed) = Bed::with_links(&[LinkOptions::default()])? else { return Ok(()) };
    let (echo, name) = start_echo(&bed)?;
    let link = |state| bed.hosts().host(Side::A).ip(&["link", "set", "link0", state]);
    link("down")?;
    wait_until("the loss is noticed", PATIENCE, || {
        Ok(echo.said().iter().any(|line| line.contains(LOST)).then_some(()))
    })?;
    link("up")?;
    wait_until("the program is back", PATIENCE, || {
        bed.kernel(Side::A).attachment(bed.interface())
    })?;
    // What comes before the port is claimed goes to the kernel's socket.
    thread::sleep(Duration::from_millis(300));
    let mut talk = Conversation::begin_with(&bed, echo, &name)?;
    talk.have_said(&["is lost (the interface is down)", BACK], &[])?;
    println!("{}", talk.finish()?);
    bed.wait_detached()
}

/// As an administrator would.
fn detached(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.bed.kernel(Side::A).detach(talk.bed.interface())?;
    talk.have_said(&["is lost (the XDP program was detached)", BACK], &[])
}

fn down_and_up(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.ip(Side::A, "link set link0 down")?;
    talk.have_said(&["is lost (the interface is down)"], &[])?;
    talk.ip(Side::A, "link set link0 up")?;
    talk.have_said(&[BACK], &[])
}

fn mtu(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    for (mtu, way) in [(800, "in fragments"), (1500, "all packets fit again")] {
        for side in [Side::A, Side::B] {
            talk.ip(side, &format!("link set link0 mtu {mtu}"))?;
        }
        talk.have_said(&[way], &[way])?;
        // What is short goes as before.
        talk.goes_on_by("AF_XDP skb")?;
    }
    Ok(())
}

/// Host B is told by nobody but the network.
fn neighbour(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.ip(Side::A, "link set link0 address 02:00:00:00:00:99")?;
    talk.have_said(&["is lost (its link-layer address has changed)", BACK], &[])?;
    let [xdp, _] = talk.ways()?;
    ensure!(xdp > 0, "host B does not send through AF_XDP any more");
    Ok(())
}

fn route(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    let hosts = talk.bed.hosts();
    let (to, from) = (hosts.link(0).v4(Side::A), hosts.link(0).v4(Side::B));
    let gateway = hosts.link(1).v4(Side::A);
    talk.ip(Side::B, &format!("route add {to}/32 via {gateway} dev link1 src {from}"))?;
    talk.have_said(&[], &["has moved: its packets go through the kernel"])?;
    // A page may be of the moment before.
    talk.goes_on()?;
    let [xdp, udp] = talk.ways()?;
    ensure!(xdp == 0 && udp > 0, "{xdp} packets through AF_XDP, {udp} through the kernel");
    talk.ip(Side::B, &format!("route del {to}/32"))?;
    talk.have_said(&[], &["has moved: its packets go through this interface again"])?;
    let [xdp, _] = talk.ways()?;
    ensure!(xdp > 0, "nothing goes through AF_XDP");
    Ok(())
}

/// The sockets are dead for good (`ENXIO`): their device is gone.
fn replaced(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    let hosts = talk.bed.hosts();
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

/// While the endpoint is without its socket, another one binds the queue.
fn taken(talk: &mut Conversation<'_>) -> anyhow::Result<()> {
    talk.ip(Side::A, "link set link0 down")?;
    talk.have_said(&["is lost (the interface is down)"], &[])?;
    let namespace = talk.bed.hosts().host(Side::A).open()?;
    let (bound, is_bound) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let holder = scope.spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            let socket = bind_queue_0();
            bound.send(socket.is_ok())?;
            // Until told, or the test has failed.
            let _ = gone.recv();
            socket.map(drop)
        });
        let held = (|| {
            ensure!(is_bound.recv().unwrap_or(false), "the queue cannot be taken");
            talk.ip(Side::A, "link set link0 up")?;
            talk.goes_on_by("kernel UDP")?;
            // Longer than from one attempt to the next.
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
    let queues = Queues::one_or_any(Some(0));
    Ok(XskSocket::bind(link.index, queues, XskMode::Skb, layout, false, 25)?)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that a call leaves in the port are due at once. Polls without a packet count as
//! unproductive. A connection that was accepted opens in time, or ends. A cancel is about one send.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::process::Command;

use nix::poll::PollTimeout;
use nix::sched::{CloneFlags, unshare};
use ofi_xdp_core::{CompletionGroup, Context, Destination, OpError, PeerId, Transmit, Transmitted};
use ofi_xdp_datapath::{Mode, PortConfig};

use super::*;
use crate::runtime::memory::Buffer;
use crate::runtime::peer_link::Observer;
use crate::sys::abi::{ADDR_NONE, fi_addr_t};
use crate::sys::param;
use crate::wait::alarm::Alarm;
use crate::wait::wait_fd::Wait;
use crate::wait::waker::Waker;

/// Packets of a GSO batch. Two batches exceed the budget of a call.
const BATCH: u64 = 40;
/// Batches that exceed all budgets of a poll after a pause: on a slow machine, sending is one.
const BATCHES: u64 = 2 * CATCH_UP_BUDGETS as u64;

pub(crate) fn port() -> HybridPort {
    HybridPort::open(&PortConfig::new("127.0.0.1:0".parse().unwrap(), 4)).unwrap()
}

/// A runtime without a progress thread, and the waker of its receives' reader.
pub(crate) fn endpoint() -> (Arc<Runtime>, Arc<Waker>) {
    endpoint_of(&Arc::new(Wait::new().unwrap()))
}

/// A runtime as [`endpoint`] makes it; `thread`: the descriptor that its thread would sleep on.
pub(crate) fn endpoint_of(thread: &Arc<Wait>) -> (Arc<Runtime>, Arc<Waker>) {
    runtime(Config { peers: 4, ..Config::new(ofi_xdp_checksum::crc32c) }, false, thread)
}

/// A runtime without a progress thread, perhaps for connected endpoints.
fn runtime(config: Config, is_connected: bool, thread: &Arc<Wait>) -> (Arc<Runtime>, Arc<Waker>) {
    runtime_on(port(), config, is_connected, thread)
}

/// A runtime as [`runtime`] makes it, on `port`.
pub(crate) fn runtime_on(
    port: HybridPort,
    config: Config,
    is_connected: bool,
    thread: &Arc<Wait>,
) -> (Arc<Runtime>, Arc<Waker>) {
    let waker = || Arc::new(Waker::new().unwrap());
    let reader = waker();
    let wakers = Wakers::new(Alarm::new(thread).unwrap());
    let runtime = Runtime::start(RuntimeConfig {
        config,
        port: &mut Some(Box::new(port)),
        av: Arc::new(AddressTable::new(0)),
        endpoint: Attachment { is_connected, ..Attachment::default() },
        wakers,
        shared: None,
    });
    let runtime = runtime.unwrap();
    let queues = GroupQueues { receive: Some(Arc::clone(&reader)), ..GroupQueues::default() };
    runtime.add_group(queues).unwrap();
    (runtime, reader)
}

/// Sends a GSO batch of packets that the engine ignores.
pub(crate) fn send_batch(from: &mut HybridPort, to: &Runtime) {
    let address = to.lock().port.local_addr().into();
    let to = Destination { peer: PeerId::new(0, 0), address };
    for _ in 0..BATCH {
        let sent = from.transmit(|packet| {
            packet[..1400].fill(0);
            Some(Transmit { len: 1400, to, receive_max: 1472 })
        });
        assert_eq!(sent, Ok(Transmitted::Sent));
    }
    from.flush().unwrap();
}

fn is_readable(waker: &Waker) -> bool {
    let mut descriptors = [PollFd::new(waker.descriptor(), PollFlags::POLLIN)];
    nix::poll::poll(&mut descriptors, PollTimeout::ZERO).unwrap() > 0
}

#[test]
fn packets_left_by_a_call_are_due_at_once() {
    let ((endpoint, reader), mut sender) = (endpoint(), port());
    let mut sent = 0;
    // Batches that arrive one by one fit the budget: then the attempt is repeated.
    let left = (0..1000).any(|_| {
        for _ in 0..BATCHES {
            send_batch(&mut sender, &endpoint);
            sent += BATCH;
        }
        // One thread sleeps until a packet arrives, while others poll.
        reader.arm();
        for _ in 0..100 {
            endpoint.poll_sources(&[], None);
            let state = endpoint.lock();
            if state.port.has_more() || state.port.stats().udp_received == sent {
                break;
            }
        }
        let left = endpoint.lock().port.has_more();
        assert_eq!(is_readable(&reader), left);
        reader.disarm();
        assert_eq!(endpoint.due(), left.then_some(Instant::ZERO));
        left
    });
    assert!(left, "{BATCH} packets in a batch never exceed the budget");
    // bound: the packets that were sent
    while endpoint.due() == Some(Instant::ZERO) {
        endpoint.poll_sources(&[], None);
    }
    assert_eq!(endpoint.due(), None);
}

#[test]
fn frames_left_in_a_ring_are_due_until_a_call_finds_none() {
    let (endpoint, _) = endpoint();
    let time = now();
    endpoint.lock().tx_retry.record(time, true);
    let due = endpoint.due().unwrap();
    assert!(due > time && due <= time.after(Duration::from_millis(1)));
    // This port has no ring.
    endpoint.poll_sources(&[], None);
    assert_eq!(endpoint.due(), None);
}

/// The host at the other end of the link of [`port_on_link`].
pub(crate) const NEIGHBOUR: &str = "198.18.0.2:7000";

/// A port over a link, in a network namespace of the calling thread. The host at the other end
/// takes no packet.
pub(crate) fn port_on_link() -> HybridPort {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    for command in [
        "link add veth0 type veth peer name veth1",
        "addr add 198.18.0.1/24 dev veth0",
        "link set veth0 up",
        "link set veth1 up",
        "neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev veth0 nud permanent",
    ] {
        assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success());
    }
    let mut config = PortConfig::new("198.18.0.1:0".parse().unwrap(), 4);
    config.mode = Mode::Skb;
    HybridPort::open(&config).unwrap()
}

/// Sends `count` packets with one flush, which leaves those in the ring that its wake-ups do not
/// send.
pub(crate) fn send_burst(port: &mut HybridPort, count: usize) {
    let address: SocketAddr = NEIGHBOUR.parse().unwrap();
    let to = Destination { peer: PeerId::new(0, 0), address: address.into() };
    for _ in 0..count {
        let packet = |packet: &mut [u8]| {
            packet[..64].fill(0);
            Some(Transmit { len: 64, to, receive_max: 1472 })
        };
        assert_eq!(port.transmit(packet), Ok(Transmitted::Sent));
    }
    port.flush().unwrap();
}

/// More packets than the wake-ups of a flush send where the kernel copies frames.
pub(crate) const BURST: usize = 8 * 32 + 1;

fn frames_left_in_a_ring_are_due() {
    let mut port = port_on_link();
    // The route is known after the first packets, once a thread has the neighbour.
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        send_burst(&mut port, 1);
        port.receive(now(), 1, &mut |_| {}).unwrap();
        port.stats().xsk_transmitted > 0
    }));
    let config = Config { peers: 4, datagrams: true, ..Config::new(ofi_xdp_checksum::crc32c) };
    let (endpoint, _) = runtime_on(port, config, false, &Arc::new(Wait::new().unwrap()));
    assert_eq!(endpoint.due(), None);
    send_burst(&mut endpoint.lock().port, BURST);
    let time = now();
    endpoint.drive(&mut endpoint.lock(), time, Budget::POST);
    let due = endpoint.due().expect("the rest has to be sent");
    assert!(due > time && due <= time.after(Duration::from_millis(1)));
    endpoint.poll_sources(&[], None);
    assert!(!endpoint.lock().port.has_untaken());
    assert_eq!(endpoint.due(), None);
    // More than one poll sends.
    send_burst(&mut endpoint.lock().port, 3 * BURST);
    endpoint.close();
    assert!(!endpoint.lock().port.has_untaken(), "none is left at the end");
}

#[test]
fn root_frames_left_in_a_ring_are_due_soon() {
    in_own_namespace(frames_left_in_a_ring_are_due);
}

/// Runs `test` in a thread, which may enter a network namespace of its own.
pub(crate) fn in_own_namespace(test: fn()) {
    let unprivileged = !nix::unistd::geteuid().is_root();
    if std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|it| it == "skip") && unprivileged {
        println!("SKIPPED: needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
        return;
    }
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn a_counter_that_is_bound_late_lets_packets_wake_its_exported_descriptor() {
    let ((endpoint, _), mut sender) = (endpoint(), port());
    send_batch(&mut sender, &endpoint);
    endpoint.lock().port.disarm();
    assert!(!endpoint.lock().is_readable());
    let counter = Arc::new(Waker::new().unwrap());
    counter.export_fd();
    endpoint.add_counter(Some(&counter)).unwrap();
    assert!((0..1000).any(|_| endpoint.lock().is_readable()));
}

#[test]
fn polls_without_a_packet_are_unproductive_until_one_arrives() {
    let ((endpoint, _), mut sender) = (endpoint(), port());
    endpoint.poll_sources(&[], None);
    endpoint.poll_sources(&[], None);
    let idle = spin_yield::unproductive();
    assert!(idle > Duration::ZERO);
    // A post polls no socket.
    endpoint.drive(&mut endpoint.lock(), now(), Budget::POST);
    assert_eq!(spin_yield::unproductive(), idle);
    send_batch(&mut sender, &endpoint);
    while endpoint.lock().port.stats().udp_received == 0 {
        endpoint.poll_sources(&[], None);
    }
    assert_eq!(spin_yield::unproductive(), Duration::ZERO);
}

/// A runtime of datagrams, and its own address in its vector.
pub(crate) fn datagram_runtime(thread: &Arc<Wait>) -> (Arc<Runtime>, fi_addr_t) {
    let config = Config { peers: 4, datagrams: true, ..Config::new(ofi_xdp_checksum::crc32c) };
    let (runtime, _) = runtime(config, false, thread);
    let at = runtime.lock().port.local_addr();
    let peer = runtime.av.insert(at).unwrap();
    (runtime, peer)
}

/// The address of `port` in the runtime's vector.
pub(crate) fn peer_of(runtime: &Runtime, port: &HybridPort) -> fi_addr_t {
    runtime.av.insert(port.local_addr()).unwrap()
}

/// Posts an empty datagram.
pub(crate) fn post_datagram(runtime: &Runtime, peer: fi_addr_t, more: bool) {
    post_empty(runtime, peer, SendForm::Datagram, more);
}

/// Posts an empty message or datagram to an address.
pub(crate) fn post_empty(runtime: &Runtime, peer: fi_addr_t, form: SendForm, more: bool) {
    let request = Request {
        buffer: Buffer::EMPTY,
        peer,
        context: Context(1),
        flags: OpFlags::Default,
        kind: RequestKind::Send { tag: None, data: None },
    };
    let options = OpOptions {
        inject: false,
        signal: true,
        more,
        fence: false,
        deferred: false,
        form,
        connected: None,
    };
    runtime.post(&request, &options).unwrap();
}

fn packets_sent(runtime: &Runtime) -> u64 {
    packets_sent_by(&runtime.lock())
}

pub(super) fn packets_sent_by(state: &State) -> u64 {
    state.engine.with(|engine| engine.stats().packets_sent)
}

/// A post of datagrams that others followed sends them all: the application has not paused.
#[test]
fn a_long_burst_is_no_pause_of_the_application() {
    let (runtime, peer) = datagram_runtime(&Arc::new(Wait::new().unwrap()));
    let burst = 32;
    (1..burst).for_each(|_| post_datagram(&runtime, peer, true));
    let before = runtime.lock().polls;
    let unsent = packets_sent(&runtime);
    post_datagram(&runtime, peer, false);
    let after = runtime.lock().polls;
    assert_eq!(packets_sent(&runtime) - unsent, burst);
    assert!(after.last > before.last);
    assert_eq!(after.series, 0, "a post is no poll");
}

/// The first datagram leaves at once. Those behind it wait for a poll, or for a batch.
#[test]
fn datagrams_wait_while_a_completion_is_unread() {
    let (runtime, peer) = datagram_runtime(&Arc::new(Wait::new().unwrap()));
    for expected in [1, 1, 1] {
        post_datagram(&runtime, peer, false);
        assert_eq!(packets_sent(&runtime), expected);
    }
    runtime.poll_sources(&[], None);
    assert_eq!(packets_sent(&runtime), 3);
    let batch = u64::from(Budget::POST.tx_packets);
    (0..=batch).for_each(|_| post_datagram(&runtime, peer, true));
    assert_eq!(packets_sent(&runtime), 3 + batch);
    runtime.close();
    assert_eq!(packets_sent(&runtime), 3 + batch + 1, "none is left at the end");
}

#[test]
fn each_peer_learns_that_an_endpoint_closes() {
    // A port of kernel sockets takes packets to 64 destinations between two flushes.
    const PEERS: usize = 80;
    let thread = Arc::new(Wait::new().unwrap());
    let config = Config { peers: 2 * PEERS as u32, ..Config::new(ofi_xdp_checksum::crc32c) };
    let closing = runtime(config.clone(), false, &thread).0;
    let small = Config { connections: 4, responders: 4, recvs: 64, sends: 64, ..config };
    let small = Config { unexpected: [64, 8, 2, 1], port_packets: 64, ..small };
    let peers = [(); PEERS].map(|()| runtime(small.clone(), false, &thread).0);
    for peer in &peers {
        let address = closing.av.insert(peer.lock().port.local_addr()).unwrap();
        post_empty(&closing, address, SendForm::Message, false);
    }
    let ended = |peer: &Runtime| peer.lock().engine.with(|engine| engine.stats().connections_ended);
    let poll_until = |polled: &[Arc<Runtime>], is_over: &dyn Fn() -> bool| {
        let start = now();
        // bound: the time
        while !is_over() && now().since(start) < Duration::from_secs(5) {
            for runtime in peers.iter().chain(polled) {
                runtime.poll_sources(&[], None);
            }
        }
        assert!(is_over(), "{:?}", peers.each_ref().map(|peer| ended(peer)));
    };
    let is_acknowledged = || !closing.lock().engine.with(|engine| engine.has_work());
    poll_until(std::slice::from_ref(&closing), &is_acknowledged);
    closing.close();
    poll_until(&[], &|| peers.iter().all(|peer| ended(peer) == 1));
}

/// A sleeper may be the thread that polls.
#[test]
fn a_datagram_does_not_wait_while_a_thread_sleeps() {
    let (runtime, peer) = datagram_runtime(&Arc::new(Wait::new().unwrap()));
    let sleeper = Arc::new(Waker::new().unwrap());
    runtime.add_counter(Some(&sleeper)).unwrap();
    post_datagram(&runtime, peer, false);
    sleeper.arm();
    post_datagram(&runtime, peer, false);
    assert_eq!(packets_sent(&runtime), 2);
    sleeper.disarm();
    post_datagram(&runtime, peer, false);
    assert_eq!(packets_sent(&runtime), 2);
    sleeper.announce_wait();
    post_datagram(&runtime, peer, false);
    assert_eq!(packets_sent(&runtime), 4);
}

#[test]
fn datagrams_that_a_call_leaves_are_due_at_once() {
    let (runtime, peer) = datagram_runtime(&Arc::new(Wait::new().unwrap()));
    (1..Budget::POST.tx_packets).for_each(|_| post_datagram(&runtime, peer, true));
    let time = now();
    let few = Budget { rx_packets: 0, tx_packets: 1 };
    runtime.drive(&mut runtime.lock(), time, few);
    assert_eq!(runtime.due(), Some(time));
    runtime.poll_sources(&[], None);
    assert_eq!(runtime.due(), None);
}

#[test]
fn packets_that_a_call_leaves_in_the_engine_are_due_at_once() {
    let (runtime, _) = endpoint();
    let silent = [port(), port(), port()];
    for one in &silent {
        post_empty(&runtime, peer_of(&runtime, one), SendForm::Message, false);
    }
    // No peer has answered, so a packet to each is due again.
    let time = now().after(Duration::from_secs(1));
    let few = Budget { rx_packets: 1, tx_packets: 1 };
    for left in [2, 1] {
        Runtime::move_packets(&mut runtime.lock(), time, few);
        assert_eq!(runtime.due(), Some(time), "{left} are left");
    }
    Runtime::move_packets(&mut runtime.lock(), time, few);
    assert!(runtime.due() > Some(time));
}

#[test]
fn a_call_that_lingers_wakes_sleepers_for_what_it_receives() {
    let (runtime, peer) = datagram_runtime(&Arc::new(Wait::new().unwrap()));
    let sleeper = Arc::new(Waker::new().unwrap());
    runtime.add_counter(Some(&sleeper)).unwrap();
    post_receive(&runtime, None);
    post_datagram(&runtime, peer, false);
    let received = |state: &State| state.engine.with(|engine| engine.has_recv_completion());
    sleeper.arm();
    drop(runtime.linger_while(now().after(Duration::from_secs(5)), |state| !received(state)));
    assert!(is_readable(&sleeper));
}

/// It is woken by packets alone, and another thread may have taken them.
#[test]
fn a_call_that_lingers_sees_what_another_thread_has_done() {
    let (runtime, _) = endpoint();
    let (start, done) = (now(), Instant::from_nanos(now().as_nanos() + 20_000_000));
    drop(runtime.linger_while(start.after(Duration::from_secs(20)), |_| now() < done));
    assert!(now().since(start) < Duration::from_secs(5));
}

/// What a connected endpoint learned: that its connection has opened, and that it has ended.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    connected: AtomicU32,
    disconnected: AtomicU32,
}

impl Observer for Learned {
    fn connected(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    fn disconnected(&self) {
        self.disconnected.fetch_add(1, Ordering::Relaxed);
    }
}

/// A runtime, a silent port, and connected endpoints with peers at that port.
pub(crate) type SilentLinks<const N: usize> =
    (Arc<Runtime>, HybridPort, [(PeerId, Arc<Learned>); N]);

pub(crate) fn silent_links<const N: usize>() -> SilentLinks<N> {
    let silent = port();
    let config = Config::new(ofi_xdp_checksum::crc32c);
    let thread = Arc::new(Wait::new().unwrap());
    let endpoint = runtime(Config { named_peers_only: true, ..config }, true, &thread).0;
    let links = std::array::from_fn(|_| {
        let learned = Arc::new(Learned::default());
        let group = CompletionGroup::default();
        let peer = endpoint.add_link(Arc::clone(&learned) as _, group).unwrap();
        let to = (silent.local_addr().into(), PeerId::new(7, 1));
        endpoint.open_connection(peer, to, true).unwrap();
        (peer, learned)
    });
    (endpoint, silent, links)
}

#[test]
fn an_abandoned_connection_ends_at_once() {
    let (endpoint, _silent, [(peer, learned)]) = silent_links();
    let start = now();
    endpoint.abandon_connection(peer);
    assert_eq!(learned.disconnected.load(Ordering::Relaxed), 1);
    endpoint.abandon_connection(peer);
    assert_eq!(learned.disconnected.load(Ordering::Relaxed), 1, "once");
    endpoint.remove_link(peer);
    assert!(now().since(start) < LINGER / 2);
}

#[test]
fn an_ended_connection_keeps_its_peer_until_its_endpoint_is_closed() {
    let (endpoint, _silent, [(peer, _), _]) = silent_links::<2>();
    let is_known = || endpoint.lock().engine.with(|engine| engine.peer_address(peer).is_some());
    endpoint.abandon_connection(peer);
    assert!(is_known(), "no other endpoint gets its identifier");
    endpoint.remove_link(peer);
    assert!(!is_known());
}

/// Posts an empty message of [`CONTEXT`].
fn post_message(runtime: &Runtime, connected: PeerId) {
    let request = Request {
        buffer: Buffer::EMPTY,
        peer: ADDR_NONE,
        context: CONTEXT,
        flags: OpFlags::Default,
        kind: RequestKind::Send { tag: None, data: None },
    };
    let options = OpOptions {
        inject: false,
        signal: true,
        more: false,
        fence: false,
        deferred: false,
        form: SendForm::Message,
        connected: Some(connected),
    };
    runtime.post(&request, &options).unwrap();
}

/// Posts a receive for an empty message.
pub(crate) fn post_receive(runtime: &Runtime, connected: Option<PeerId>) {
    let recv = Recv {
        buffer: Buffer::EMPTY,
        from: ADDR_NONE,
        tag: None,
        context: CONTEXT,
        flags: OpFlags::Default,
    };
    let mode = RecvMode::Single;
    let options = RecvOptions { mode, signal: true, directed: false, connected };
    runtime.receive(&recv, options).unwrap();
}

/// A message and a receive of a connected endpoint end in error.
pub(crate) fn fail_operations(runtime: &Runtime, peer: PeerId) {
    post_message(runtime, peer);
    post_receive(runtime, Some(peer));
    runtime.abandon_connection(peer);
}

pub(crate) const CONTEXT: Context = Context(5);

/// The outcome of the one message with `peer`, which ends in error.
fn failure(runtime: &Runtime, peer: PeerId) -> Option<OpError> {
    runtime.abandon_connection(peer);
    let mut outcomes = Vec::new();
    let source = CompletionSource { side: Side::Transmit, group: CompletionGroup::default() };
    runtime.collect(&[source], None, |completion, _| {
        outcomes.push(completion.outcome);
        ControlFlow::Continue(())
    });
    assert_eq!(outcomes.len(), 1);
    outcomes[0].err()
}

/// Other sends with its context, of other endpoints or later ones, end as they do.
#[test]
fn a_cancel_is_about_the_send_that_is_under_way() {
    let (endpoint, _silent, links) = silent_links();
    let [early, other, cancelled] = links.map(|(peer, _)| peer);
    endpoint.cancel(CONTEXT, Some(early));
    post_message(&endpoint, early);
    assert_eq!(failure(&endpoint, early), Some(OpError::Closed));
    post_message(&endpoint, other);
    endpoint.cancel(CONTEXT, Some(cancelled));
    post_message(&endpoint, cancelled);
    endpoint.cancel(CONTEXT, Some(cancelled));
    assert_eq!(failure(&endpoint, other), Some(OpError::Closed));
    assert_eq!(failure(&endpoint, cancelled), Some(OpError::Cancelled));
}

/// A side that has accepted waits for the first packet of the other side.
#[test]
fn an_accepted_connection_that_never_opens_ends() {
    let learned = Arc::new(Learned::default());
    let silent = port();
    let config = Config::new(ofi_xdp_checksum::crc32c);
    let thread = Arc::new(Wait::new().unwrap());
    let endpoint = runtime(Config { named_peers_only: true, ..config }, true, &thread).0;
    let peer = endpoint.add_link(Arc::clone(&learned) as _, CompletionGroup::default()).unwrap();
    let to = (silent.local_addr().into(), PeerId::new(7, 1));
    endpoint.open_connection(peer, to, false).unwrap();
    assert_eq!(endpoint.open_connection(peer, to, false), Err(Error::BadState));
    let until = endpoint.due().unwrap();
    let timeout = param::values().unwrap().connect_timeout;
    assert!(until <= now().after(timeout));
    let counts =
        || [&learned.connected, &learned.disconnected].map(|it| it.load(Ordering::Relaxed));
    endpoint.make_progress(&mut endpoint.lock(), now(), Budget::PROGRESS);
    assert_eq!(counts(), [0, 0]);
    // The first packet has the time-out from the confirmation on.
    let confirmed = now();
    endpoint.confirm_connection(peer).unwrap();
    endpoint.make_progress(&mut endpoint.lock(), until, Budget::PROGRESS);
    assert_eq!(counts(), [0, 0]);
    let until = endpoint.due().unwrap();
    assert!(until >= confirmed.after(timeout) && until <= now().after(timeout));
    for _ in 0..2 {
        endpoint.make_progress(&mut endpoint.lock(), until, Budget::PROGRESS);
        assert_eq!(counts(), [0, 1], "once");
    }
    assert_eq!(endpoint.due(), None, "no timer is left");
}

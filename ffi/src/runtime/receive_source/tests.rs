// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue without an engine: the receive for each message, and the release of buffers. With one:
//! messages that find no slot.

use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};

use super::*;
use crate::runtime::addresses::AddressTable;
use crate::runtime::memory::AppMemory;
use crate::runtime::{
    Attachment, CompletionSource, GroupQueues, OpFlags, Recv, Runtime, RuntimeConfig, Side, Wakers,
};
use crate::sys::errno::Error;
use crate::wait::alarm::Alarm;
use crate::wait::wait_fd::Wait;
use crate::wait::waker::{Waker, sleep};
use ofi_xdp_core::{
    ChecksumCoverage, CompletionGroup, Config, Context, EngineBox, Identity, Instant, PeerAddress,
    PortLimits, RecvId, TagMatch,
};
use ofi_xdp_datapath::{HybridPort, PortConfig};

/// The receive that the first slot has first.
const FIRST: SharedRecvId = SharedRecvId::new(0, 0);

fn peer(port: u16) -> PeerAddress {
    PeerAddress::from(SocketAddr::from(([10, 0, 0, 1], port)))
}

fn recv(context: u64, tag: Option<u64>, len: usize) -> Recv {
    let base = std::ptr::without_provenance_mut(0x1000);
    Recv {
        buffer: Buffer::contiguous(base, len).unwrap(),
        from: u64::MAX,
        tag: tag.map(|tag| TagMatch { tag, ignore: 0 }),
        context: Context(context),
        flags: OpFlags::Default,
    }
}

fn arrival(tag: Option<u64>, len: u64) -> UnmatchedMessage {
    UnmatchedMessage { source: peer(1), tag, len, overtakes: false, room: true }
}

fn source(queue: &Arc<RecvQueue>) -> SharedSource {
    SharedSource::new(Arc::clone(queue), CompletionPolicy::All)
}

/// The context and length of the receive that a source claims.
fn claimed(source: &mut SharedSource, arrival: &UnmatchedMessage) -> Option<(u64, u64)> {
    source.claim_shared_receive(arrival).map(|(request, _)| (request.context.0, request.len))
}

/// The contexts of the buffers whose release a source reports, each a multi-receive buffer's.
fn reported(source: &SharedSource) -> Vec<Context> {
    let config = Config::new(ofi_xdp_checksum::crc32c);
    let limits = PortLimits {
        payload_max: 1472,
        receive_max: 1472,
        port_packets: 64,
        coverage: ChecksumCoverage::Whole,
    };
    let engine = EngineBox::new(&config, Identity { key: 1 }, limits);
    engine.unwrap().with_mut(|engine| {
        source.report(engine);
        let ends = std::iter::from_fn(|| engine.poll_recv_completion());
        ends.inspect(|end| assert!(end.ends_buffer)).map(|end| end.context).collect()
    })
}

#[test]
fn receives_are_claimed_in_posting_order() {
    let queue = Arc::new(RecvQueue::new(4, [1, 2]).unwrap());
    let (mut one, mut other) = (source(&queue), source(&queue));
    for context in 1..=3 {
        queue.push(&recv(context, None, 8), None, None, false).unwrap();
    }
    assert_eq!(claimed(&mut other, &arrival(None, 8)), Some((1, 8)));
    assert_eq!(claimed(&mut one, &arrival(None, 8)), Some((2, 8)));
    assert_eq!(claimed(&mut one, &arrival(Some(1), 8)), None);
    assert_eq!(claimed(&mut other, &arrival(None, 8)), Some((3, 8)));
    assert_eq!(claimed(&mut other, &arrival(None, 8)), None);
    assert_eq!(queue.room(), 4);
}

#[test]
fn the_size_is_a_bound() {
    let queue = RecvQueue::new(2, [1, 2]).unwrap();
    for context in 1..=2 {
        queue.push(&recv(context, Some(5), 8), None, None, false).unwrap();
    }
    let full = queue.push(&recv(3, None, 8), None, None, false);
    assert_eq!(full, Err(Error::Again));
}

#[test]
fn a_directed_receive_is_for_its_source() {
    let queue = Arc::new(RecvQueue::new(4, [1, 2]).unwrap());
    let mut source = source(&queue);
    queue.push(&recv(1, None, 8), Some(peer(2)), None, false).unwrap();
    queue.push(&recv(2, None, 8), None, None, false).unwrap();
    assert_eq!(claimed(&mut source, &arrival(None, 8)), Some((2, 8)));
    let from_it = UnmatchedMessage { source: peer(2), ..arrival(None, 8) };
    assert_eq!(claimed(&mut source, &from_it), Some((1, 8)));
}

#[test]
fn a_message_does_not_overtake_those_that_wait() {
    let queue = Arc::new(RecvQueue::new(4, [1, 2]).unwrap());
    let mut source = source(&queue);
    // It is stored without a receive; then a receive is posted that was not offered to it yet.
    assert_eq!(claimed(&mut source, &arrival(None, 8)), None);
    queue.push(&recv(1, None, 8), None, None, false).unwrap();
    let second = UnmatchedMessage { overtakes: true, ..arrival(None, 8) };
    assert_eq!(claimed(&mut source, &second), None);
    // A source that is not behind claims it.
    assert_eq!(claimed(&mut source, &arrival(None, 8)), Some((1, 8)));
}

#[test]
fn without_a_slot_no_receive_is_claimed_and_all_are_new_again() {
    let queue = Arc::new(RecvQueue::new(4, [1, 2]).unwrap());
    let mut source = source(&queue);
    queue.push(&recv(1, None, 8), None, None, false).unwrap();
    let full = UnmatchedMessage { room: false, ..arrival(None, 8) };
    assert_eq!(claimed(&mut source, &full), None);
    let next = UnmatchedMessage { overtakes: true, ..arrival(None, 8) };
    assert_eq!(claimed(&mut source, &next), None);
    assert_eq!(source.cursor, Cursor::START);
}

#[test]
fn a_multi_receive_buffer_is_released_with_its_last_slice() {
    let queue = Arc::new(RecvQueue::new(1, [1, 2]).unwrap());
    let (mut one, mut other) = (source(&queue), source(&queue));
    queue.push(&recv(7, None, 100), None, Some(20), false).unwrap();
    assert_eq!(claimed(&mut one, &arrival(None, 50)), Some((7, 50)));
    assert_eq!(claimed(&mut other, &arrival(None, 25)), Some((7, 25)));
    // 25 bytes are free, not fewer than 20; the next message is cut to them.
    assert_eq!(claimed(&mut one, &arrival(None, 60)), Some((7, 25)));
    assert_eq!(claimed(&mut other, &arrival(None, 1)), None);
    assert_eq!(queue.room(), 0);
    let kept = SliceCompletion { released: false, signal: true };
    assert_eq!(other.finish(FIRST), kept);
    assert_eq!(one.finish(FIRST), kept);
    assert_eq!(one.finish(FIRST), SliceCompletion { released: true, signal: true });
    assert_eq!(queue.room(), 1);
}

#[test]
fn a_cancelled_receive_is_completed_or_stays() {
    let queue = Arc::new(RecvQueue::new(4, [1, 2]).unwrap());
    let mut source = source(&queue);
    for context in 1..=3 {
        queue.push(&recv(context, None, 8), None, None, false).unwrap();
    }
    let refused = queue.cancel(Context(2), |_, _| Err(Error::Again));
    assert_eq!(refused, Err(Error::Again));
    let mut seen = None;
    let done = queue.cancel(Context(1), |request, multi| {
        seen = Some((request.context, multi));
        Ok(())
    });
    assert_eq!((done, seen), (Ok(()), Some((Context(1), false))));
    assert_eq!(queue.cancel(Context(9), |_, _| Err(Error::Again)), Ok(()));
    assert_eq!(claimed(&mut source, &arrival(None, 8)), Some((2, 8)));
    assert_eq!(claimed(&mut source, &arrival(None, 8)), Some((3, 8)));
}

#[test]
fn a_cancelled_multi_receive_buffer_ends_with_its_slices() {
    let queue = Arc::new(RecvQueue::new(1, [1, 2]).unwrap());
    let mut source = source(&queue);
    queue.push(&recv(1, None, 100), None, Some(1), false).unwrap();
    assert!(source.claim_shared_receive(&arrival(None, 10)).is_some());
    assert_eq!(queue.cancel(Context(1), |_, _| Err(Error::Again)), Ok(()));
    assert!(source.claim_shared_receive(&arrival(None, 10)).is_none());
    assert!(source.finish(FIRST).released);
    assert_eq!(queue.room(), 1);
}

#[test]
fn a_closing_endpoint_keeps_its_slice_until_it_writes_no_more() {
    let queue = Arc::new(RecvQueue::new(1, [1, 2]).unwrap());
    let mut other = source(&queue);
    let config = Config { recvs: 2, ..Config::new(ofi_xdp_checksum::crc32c) };
    let mut memory = AppMemory::new(&config, Some(source(&queue))).unwrap();
    queue.push(&recv(1, None, 20), None, Some(1), false).unwrap();
    let (_, part) = memory.claim_shared_receive(&arrival(None, 10)).unwrap();
    memory.attach_recv(RecvId::new(1, 1), part);
    assert!(other.claim_shared_receive(&arrival(None, 10)).is_some());
    let left = memory.leave_shared().unwrap();
    assert!(memory.claim_shared_receive(&arrival(None, 10)).is_none());
    assert!(!other.finish(FIRST).released, "it is still written to");
    memory.end_shared(&left);
    assert!(queue.has_unreported(), "somebody else tells");
    assert_eq!(reported(&other), [Context(1)]);
    assert_eq!(queue.room(), 1);
}

#[test]
fn a_notifier_is_woken_for_an_unreported_release() {
    let queue = Arc::new(RecvQueue::new(1, [1, 2]).unwrap());
    let mut source = source(&queue);
    let wakers = [(); 2].map(|()| Arc::new(Waker::new().unwrap()));
    queue.set_notifiers(vec![Some(Arc::clone(&wakers[0])), None]);
    queue.push(&recv(1, None, 10), None, Some(1), false).unwrap();
    assert!(source.claim_shared_receive(&arrival(None, 10)).is_some());
    let is_readable = |waker: &Waker| {
        let mut descriptors = [PollFd::new(waker.descriptor(), PollFlags::POLLIN)];
        sleep(&mut descriptors, Some(Duration::ZERO)).unwrap();
        descriptors[0].any().unwrap()
    };
    assert!(!is_readable(&wakers[0]));
    source.abandon(FIRST);
    assert!(is_readable(&wakers[0]));
    // It keeps its slot until then, and a later notifier is woken too.
    assert_eq!(queue.room(), 0);
    queue.set_notifiers(vec![Some(Arc::clone(&wakers[1]))]);
    assert!(is_readable(&wakers[1]));
}

#[test]
fn a_buffer_is_released_once_if_its_last_slice_ends_during_a_cancel() {
    // The two must meet within some ten nanoseconds: one side waits longer with each attempt.
    const ROUNDS: u32 = 5_000;
    let queue = Arc::new(RecvQueue::new(1, [1, 2]).unwrap());
    let (mut taker, reader) = (source(&queue), source(&queue));
    let (turn, ends) = (&AtomicU32::new(0), &AtomicU32::new(0));
    let meet = |round: u32, at: &AtomicU32| {
        while at.load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        let reads = scope.spawn(move || {
            let finish = |round: u32| {
                meet(round, turn);
                (0..round % 256).for_each(|_| std::hint::spin_loop());
                let released = reader.finish(SharedRecvId::new(0, round - 1)).released;
                ends.store(round, Ordering::Release);
                released
            };
            (1..=ROUNDS).map(finish).collect::<Vec<_>>()
        });
        // No panic here: the other thread would wait forever.
        let cancel = |round: u32| {
            let posted = queue.push(&recv(1, None, 100), None, Some(1), false);
            let taken = taker.claim_shared_receive(&arrival(None, 10)).is_some();
            turn.store(round, Ordering::Release);
            let mut seen = false;
            let cancelled = queue.cancel(Context(1), |_, _| {
                seen = true;
                Ok(())
            });
            meet(round, ends);
            (posted, taken, cancelled, queue.room(), seen)
        };
        let cancels: Vec<_> = (1..=ROUNDS).map(cancel).collect();
        for (released, cancel) in reads.join().unwrap().into_iter().zip(cancels) {
            assert_eq!(cancel, (Ok(()), true, Ok(()), 1, !released), "{released}");
        }
    });
}

#[test]
fn a_slice_without_a_queue_is_open_until_it_ends() {
    let queue = Arc::new(RecvQueue::new(1, [1, 2]).unwrap());
    let mut reader = source(&queue);
    let mut counter = SharedSource::new(Arc::clone(&queue), CompletionPolicy::None);
    for (round, readers) in [(0, 1), (1, 0)] {
        let id = SharedRecvId::new(0, round);
        queue.set_notifiers((0..readers).map(|_| None).collect());
        queue.push(&recv(1, None, 20), None, Some(1), false).unwrap();
        assert!(
            counter.claim_shared_receive(&arrival(None, 10)).is_some_and(|(part, _)| part.signal)
        );
        assert!(reader.claim_shared_receive(&arrival(None, 10)).is_some());
        assert!(!reader.finish(id).released, "it is still written to");
        // Without a notifier, the application has counters only.
        let end = SliceCompletion { released: readers == 0, signal: false };
        assert_eq!(counter.finish(id), end);
        assert_eq!(queue.has_unreported(), !end.released);
        assert_eq!(reported(&reader).is_empty(), end.released);
        assert_eq!(queue.room(), 1);
    }
}

/// A runtime of datagrams with one slot for receives, which it takes from `queue`, and the waker of
/// a thread that reads its transmit queue.
fn datagram_runtime(queue: &Arc<RecvQueue>) -> (Arc<Runtime>, Arc<Waker>) {
    let config =
        Config { peers: 4, recvs: 1, datagrams: true, ..Config::new(ofi_xdp_checksum::crc32c) };
    let thread = Arc::new(Wait::new().unwrap());
    let port = PortConfig::new("127.0.0.1:0".parse().unwrap(), 4);
    let port = PortConfig { any_payload: true, ..port };
    let runtime = Runtime::start(RuntimeConfig {
        config,
        port: &mut Some(Box::new(HybridPort::open(&port).unwrap())),
        av: Arc::new(AddressTable::new(0)),
        endpoint: Attachment::default(),
        wakers: Wakers::new(Alarm::new(&thread).unwrap()),
        shared: Some(source(queue)),
    });
    let (runtime, sleeper) = (runtime.unwrap(), Arc::new(Waker::new().unwrap()));
    let queues = GroupQueues { transmit: Some(Arc::clone(&sleeper)), ..GroupQueues::default() };
    runtime.add_group(queues).unwrap();
    (runtime, sleeper)
}

#[test]
fn a_message_that_found_no_slot_is_due_once_a_completion_is_read() {
    let queue = Arc::new(RecvQueue::new(4, [1, 2]).unwrap());
    for context in 1..=2 {
        queue.push(&recv(context, None, 8), None, None, false).unwrap();
    }
    let (runtime, sleeper) = datagram_runtime(&queue);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = runtime.lock().port.local_addr();
    for _ in 0..2 {
        sender.send_to(&[], to).unwrap();
    }
    // bound: the datagrams of a loopback interface arrive
    while runtime.lock().engine.with(|engine| engine.stats().packets_received) < 2 {
        runtime.poll_sources(&[], None);
    }
    assert_eq!(runtime.due(), None, "no slot is free");
    sleeper.arm();
    let source = CompletionSource { side: Side::Receive, group: CompletionGroup::default() };
    let mut contexts = Vec::new();
    let mut read = || {
        runtime.collect(&[source], None, |completion, _| {
            contexts.push(completion.context.0);
            ControlFlow::Continue(())
        });
    };
    read();
    assert_eq!(runtime.due(), Some(Instant::ZERO));
    assert!(sleeper.disarm(), "a thread that sleeps moves the message");
    read();
    assert_eq!(contexts, [1, 2]);
    assert_eq!(runtime.due(), None);
}

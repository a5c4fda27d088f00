// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue of shared receives against a model: a list of receives in posting order.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]

use ofi_xdp_core::shared_queue::{ClaimedRecv, Cursor, Release, SharedStorageBox, SliceEnd};
use ofi_xdp_core::{
    ChecksumCoverage, Config, Context, EngineBox, Identity, PeerAddress, PortLimits, PostError,
    RecvRequest, SharedQueue, SharedRecvId, TagMatch, UnmatchedMessage,
};
use proptest::prelude::*;

const SIZE: usize = 6;
/// Bytes of each buffer.
const LEN: u64 = 40;

#[derive(Clone, Copy, Debug)]
enum Step {
    Post { source: Option<u8>, tag: Option<TagMatch>, least: Option<u64>, context: u64 },
    Claim { source: u8, tag: Option<u64>, len: u64 },
    Cancel { context: u64, completes: bool },
    EndSlice { index: usize, reports: bool },
    Report,
}

fn step() -> impl Strategy<Value = Step> {
    let source = prop::option::weighted(0.3, 0u8..3);
    let rule = prop_oneof![(0u64..3, Just(0)), (0u64..3, Just(!0))];
    let rule = prop::option::of(rule.prop_map(|(tag, ignore)| TagMatch { tag, ignore }));
    let least = prop::option::weighted(0.4, 0..LEN);
    prop_oneof![
        4 => (source, rule, least, 0u64..4)
            .prop_map(|(source, tag, least, context)| Step::Post { source, tag, least, context }),
        5 => (0u8..3, prop::option::of(0u64..3), 0..LEN)
            .prop_map(|(source, tag, len)| Step::Claim { source, tag, len }),
        1 => (0u64..4, any::<bool>())
            .prop_map(|(context, completes)| Step::Cancel { context, completes }),
        3 => (0usize..8, any::<bool>())
            .prop_map(|(index, reports)| Step::EndSlice { index, reports }),
        1 => Just(Step::Report),
    ]
}

fn peer(number: u8) -> PeerAddress {
    PeerAddress::from_v4([10, 0, 0, number], 7000)
}

fn arrival(source: u8, tag: Option<u64>, len: u64) -> UnmatchedMessage {
    UnmatchedMessage { source: peer(source), tag, len, overtakes: false, room: true }
}

fn request(context: u64, tag: Option<TagMatch>) -> RecvRequest {
    RecvRequest { from: None, len: LEN, context: Context(context), tag, signal: false }
}

/// A receive of the model. It stays until its slot is free.
#[derive(Clone, Debug)]
struct Receive {
    id: SharedRecvId,
    source: Option<u8>,
    tag: Option<TagMatch>,
    least: Option<u64>,
    context: u64,
    used: u64,
    open: usize,
    closed: bool,
}

impl Receive {
    fn takes(&self, source: u8, tag: Option<u64>) -> bool {
        !self.closed
            && self.source.is_none_or(|from| from == source)
            && match (self.tag, tag) {
                (None, None) => true,
                (Some(rule), Some(tag)) => (rule.tag ^ tag) & !rule.ignore == 0,
                _ => false,
            }
    }
}

/// The receives in posting order, the open slices, and the unreported releases.
#[derive(Default)]
struct Model {
    receives: Vec<Receive>,
    slices: Vec<SharedRecvId>,
    unreported: Vec<Receive>,
}

impl Model {
    /// The claim for a message: the first receive that takes it.
    fn claim(&mut self, source: u8, tag: Option<u64>, len: u64) -> Option<ClaimedRecv> {
        let at = self.receives.iter().position(|receive| receive.takes(source, tag))?;
        let receive = &mut self.receives[at];
        let request = request(receive.context, receive.tag);
        let id = receive.id;
        let Some(least) = receive.least else {
            self.receives.remove(at);
            return Some(ClaimedRecv { request, id, slice: None });
        };
        let offset = receive.used;
        let len = len.min(LEN - offset);
        receive.used += len;
        receive.open += 1;
        receive.closed = LEN - receive.used < least.max(1);
        self.slices.push(id);
        Some(ClaimedRecv { request: RecvRequest { len, ..request }, id, slice: Some(offset) })
    }

    /// The receive that a cancel takes; one with open slices is closed instead.
    fn cancel(&mut self, context: u64) -> Option<usize> {
        let named = |receive: &Receive| receive.context == context && !receive.closed;
        let at = self.receives.iter().position(named)?;
        self.receives[at].closed = self.receives[at].open > 0;
        (!self.receives[at].closed).then_some(at)
    }

    fn end_slice(&mut self, index: usize, reports: bool) -> Release {
        let id = self.slices.remove(index);
        let at = self.receives.iter().position(|receive| receive.id == id).unwrap();
        let receive = &mut self.receives[at];
        receive.open -= 1;
        if receive.open > 0 || !receive.closed {
            return Release::None;
        }
        let receive = self.receives.remove(at);
        if reports {
            return Release::Reported;
        }
        self.unreported.push(receive);
        Release::Unreported
    }
}

fn engine() -> EngineBox {
    let config = Config {
        peers: 2,
        connections: 2,
        recvs: SIZE as u32,
        unexpected: [1; 4],
        regions: 1,
        responders: 2,
        ..Config::new(crc32c::crc32c_append)
    };
    let limits = PortLimits {
        payload_max: 1472,
        receive_max: 1472,
        port_packets: 64,
        coverage: ChecksumCoverage::Whole,
    };
    EngineBox::new(&config, Identity { key: 1 }, limits).unwrap()
}

/// The contexts of the releases that the queue reports.
fn reported(queue: &mut SharedQueue<'_>) -> Vec<Context> {
    engine().with_mut(|engine| {
        queue.report(engine);
        let ends = std::iter::from_fn(|| engine.poll_recv_completion());
        ends.inspect(|end| assert!(end.ends_buffer)).map(|end| end.context).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_queue_is_a_list_in_posting_order(steps in prop::collection::vec(step(), 0..60)) {
        let mut storage = SharedStorageBox::new(SIZE as u32).unwrap();
        let mut queue = SharedQueue::new(storage.lend(), [1, 2]);
        let mut cursor = Cursor::START;
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Post { source, tag, least, context } => {
                    let posted = queue.post(request(context, tag), source.map(peer), least);
                    if model.receives.len() + model.unreported.len() == SIZE {
                        prop_assert_eq!(posted, Err(PostError::Again));
                        continue;
                    }
                    let id = posted.unwrap();
                    let (used, open, closed) = (0, 0, false);
                    let posted = Receive { id, source, tag, least, context, used, open, closed };
                    model.receives.push(posted);
                }
                Step::Claim { source, tag, len } => {
                    let claim = queue.claim(&mut cursor, &arrival(source, tag, len));
                    prop_assert_eq!(claim, model.claim(source, tag, len));
                }
                Step::Cancel { context, completes } => {
                    let (cancelled, at) = (queue.cancel(Context(context)), model.cancel(context));
                    prop_assert_eq!(cancelled.is_some(), at.is_some());
                    let (Some(cancelled), Some(at)) = (cancelled, at) else { continue };
                    let receive = &model.receives[at];
                    let wanted = request(context, receive.tag);
                    let without = RecvRequest { len: 0, signal: true, ..wanted };
                    prop_assert_eq!(cancelled.request(), without);
                    prop_assert_eq!(cancelled.is_multi(), receive.least.is_some());
                    if completes {
                        queue.release(cancelled);
                        model.receives.remove(at);
                    } else {
                        queue.restore(cancelled);
                    }
                }
                Step::EndSlice { index, reports } => {
                    if let Some(&id) = model.slices.get(index) {
                        let release = model.end_slice(index, reports);
                        let end = SliceEnd { release, signal: false };
                        prop_assert_eq!(queue.end_slice(id, reports), Some(end));
                    }
                }
                Step::Report => {
                    let ends = model.unreported.drain(..).map(|receive| Context(receive.context));
                    prop_assert_eq!(reported(&mut queue), ends.collect::<Vec<_>>());
                }
            }
            let used = model.receives.len() + model.unreported.len();
            prop_assert_eq!(queue.room() as usize, SIZE - used);
            prop_assert_eq!(queue.has_unreported(), !model.unreported.is_empty());
        }
    }
}

#[test]
fn a_message_that_would_overtake_gets_no_receive_from_a_cursor_behind() {
    let mut storage = SharedStorageBox::new(2).unwrap();
    let mut queue = SharedQueue::new(storage.lend(), [1, 2]);
    let mut cursor = Cursor::START;
    let late = UnmatchedMessage { overtakes: true, ..arrival(1, None, 8) };
    assert_eq!(queue.claim(&mut cursor, &arrival(1, None, 8)), None);
    assert!(!cursor.is_behind(queue.serial()));
    queue.post(request(1, None), None, None).unwrap();
    assert!(cursor.is_behind(queue.serial()));
    assert_eq!(queue.claim(&mut cursor, &late), None);
    assert!(queue.claim(&mut cursor, &arrival(1, None, 8)).is_some());
}

#[test]
fn without_room_all_receives_stand_behind_the_cursor() {
    let mut storage = SharedStorageBox::new(2).unwrap();
    let mut queue = SharedQueue::new(storage.lend(), [1, 2]);
    let mut cursor = Cursor::START;
    assert_eq!(queue.claim(&mut cursor, &arrival(1, None, 8)), None);
    let full = UnmatchedMessage { room: false, ..arrival(1, None, 8) };
    assert_eq!(queue.claim(&mut cursor, &full), None);
    assert_eq!(cursor, Cursor::START);
}

#[test]
fn the_end_of_a_slice_names_an_open_slice() {
    let mut storage = SharedStorageBox::new(1).unwrap();
    let mut queue = SharedQueue::new(storage.lend(), [1, 2]);
    let mut cursor = Cursor::START;
    let whole = queue.post(request(1, None), None, None).unwrap();
    assert_eq!(queue.end_slice(whole, true), None, "it is no multi-receive buffer");
    queue.claim(&mut cursor, &arrival(1, None, 8)).unwrap();
    let multi = queue.post(request(2, None), None, Some(LEN)).unwrap();
    assert_eq!(queue.end_slice(multi, true), None, "no slice is open");
    queue.claim(&mut cursor, &arrival(1, None, 8)).unwrap();
    assert_eq!(queue.end_slice(whole, true), None, "the slot has another receive");
    assert_eq!(queue.end_slice(SharedRecvId::NONE, true), None);
    let end = SliceEnd { release: Release::Reported, signal: false };
    assert_eq!(queue.end_slice(multi, true), Some(end));
    assert_eq!(queue.end_slice(multi, true), None, "it is released");
}

#[test]
fn a_report_continues_when_the_engine_has_a_slot() {
    let mut storage = SharedStorageBox::new(SIZE as u32 + 1).unwrap();
    let mut queue = SharedQueue::new(storage.lend(), [1, 2]);
    let mut cursor = Cursor::START;
    for context in 0..=SIZE as u64 {
        let id = queue.post(request(context, None), None, Some(LEN)).unwrap();
        queue.claim(&mut cursor, &arrival(1, None, 1)).unwrap();
        assert_eq!(queue.end_slice(id, false).unwrap().release, Release::Unreported);
    }
    assert_eq!(reported(&mut queue).len(), SIZE, "each receive of the engine");
    assert!(queue.has_unreported());
    assert_eq!(reported(&mut queue), [Context(SIZE as u64)]);
    assert_eq!(queue.room() as usize, SIZE + 1);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a connection with many messages takes several progress calls (`docs/PROTOCOL.md`
//! §6.3), and none of its messages is taken for one of the next connection.

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{self, PacketKind};
use ofi_xdp_core::*;

/// Messages of a connection: several calls end them.
const MANY: u32 = 200;
/// The messages of a packet.
const PACKED: u32 = 50;

fn connected() -> Puppet {
    let config = Config { unexpected: [1024, 8, 8, 2], recvs: 512, ..small() };
    Puppet::connected(&Config { sends: 512, assemblies: 512, ..config })
}

/// Sends [`MANY`] messages from number `first` on.
fn send_many(puppet: &mut Puppet, record: fn(u32) -> Vec<u8>) {
    for first in (0..MANY).step_by(PACKED as usize) {
        let records: Vec<u8> = (first..first + PACKED).flat_map(record).collect();
        let packet = puppet.data(&records);
        puppet.deliver(packet);
    }
    puppet.pass(MILLI);
}

/// Ends the connection, without a progress call.
fn close(puppet: &mut Puppet) {
    let close = puppet.now(PacketKind::Close).packet(&[]);
    puppet.ingest(&close);
    assert_eq!(puppet.engine().connections(), 0);
}

/// The next connection; progress calls have not ended all messages yet.
fn come_back(puppet: &mut Puppet) {
    puppet.head.psn = BASE;
    puppet.sent();
    let hello = puppet.hello(INCARNATION, 2, 0);
    puppet.ingest(&hello);
    puppet.drive();
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
}

/// How many messages, sent and received, have ended in error.
fn failed(puppet: &mut Puppet) -> u32 {
    let counters = puppet.engine().op_counters();
    (counters.sends.failed + counters.receives.failed) as u32
}

/// The occupancy that the engine reports, in eighths.
fn occupancy(puppet: &mut Puppet) -> u8 {
    puppet.sent();
    let ping = puppet.now(PacketKind::Ping).packet(&[]);
    puppet.deliver(ping);
    puppet.sent().pop().unwrap().parsed().header.receiver_status().occupancy()
}

/// How many receives of any message end, posted one by one, and how.
fn receive_all(puppet: &mut Puppet) -> Vec<Result<(), OpError>> {
    for context in 0..u64::from(MANY) {
        puppet.world.recv(0, context, 8);
    }
    puppet.pass(MILLI);
    puppet.ends().into_iter().map(|(_, end)| end).collect()
}

#[test]
fn announced_messages_of_an_ended_connection_leave_in_several_calls() {
    let mut puppet = connected();
    send_many(&mut puppet, |msn| announcement(msn, 100_000, 3));
    close(&mut puppet);
    let left = puppet.engine().stored_messages();
    assert!((MANY / 2..MANY).contains(&left), "{left} are left");
    let now = puppet.world.time();
    assert_eq!(puppet.engine().poll_at(), Some(now), "they are due");
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stored_messages(), 0);
    assert_ne!(puppet.engine().poll_at(), Some(puppet.world.time()));
}

#[test]
fn a_receive_of_an_announced_message_that_has_not_left_yet_ends_in_error() {
    let mut puppet = connected();
    send_many(&mut puppet, |msn| announcement(msn, 100_000, 3));
    close(&mut puppet);
    let left = puppet.engine().stored_messages() as usize;
    let ends = receive_all(&mut puppet);
    assert_eq!(ends, vec![Err(OpError::Closed); left]);
}

#[test]
fn messages_of_the_next_connection_stay_while_those_before_leave() {
    let mut puppet = connected();
    send_many(&mut puppet, |msn| announcement(msn, 100_000, 3));
    close(&mut puppet);
    come_back(&mut puppet);
    let next = puppet.data(&announcement(0, 100_000, 3));
    puppet.deliver(next);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stored_messages(), 1);
    puppet.sent();
    puppet.world.recv(0, 1, 100_000);
    puppet.pass(MILLI);
    assert_eq!(puppet.sent_data().iter().flat_map(Seen::reads).count(), 1, "it is read");
}

#[test]
fn whole_messages_of_an_ended_connection_become_orphans_in_several_calls() {
    let mut puppet = connected();
    send_many(&mut puppet, |msn| message(msn, b"x"));
    close(&mut puppet);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stored_messages(), MANY, "they can be received");
    come_back(&mut puppet);
    assert_eq!(occupancy(&mut puppet), 0, "orphans do not count");
}

#[test]
fn messages_of_the_next_connection_become_no_orphans() {
    let mut puppet = connected();
    send_many(&mut puppet, |msn| message(msn, b"x"));
    close(&mut puppet);
    come_back(&mut puppet);
    // They take the slots between those of the former connection, and behind.
    for msn in 0..128 {
        let packet = puppet.data(&message(msn, b"y"));
        puppet.ingest(&packet);
    }
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stored_messages(), MANY + 128);
    assert_eq!(occupancy(&mut puppet), 1, "128 of 1024");
}

#[test]
fn receives_that_wait_for_their_turn_end_in_several_calls() {
    let mut puppet = connected();
    for context in 0..u64::from(MANY) {
        puppet.world.recv(0, context, 100_000);
    }
    send_many(&mut puppet, |msn| announcement(msn, 100_000, 3));
    close(&mut puppet);
    assert!(puppet.ends().len() < MANY as usize / 2);
    let before = puppet.engine().posted_receives();
    puppet.pass(MILLI);
    assert_eq!(puppet.ends().len() as u32, before);
    assert_eq!(puppet.engine().posted_receives(), 0);
}

#[test]
fn operations_of_an_ended_connection_end_in_several_calls() {
    let mut puppet = connected();
    (0..MANY.into()).for_each(|context| puppet.send(context, b"x".to_vec()));
    close(&mut puppet);
    let now = puppet.world.time();
    assert!((1..MANY / 2).contains(&failed(&mut puppet)));
    assert_eq!(puppet.engine().poll_at(), Some(now), "others are due");
    puppet.pass(MILLI);
    let all: Vec<_> = (0..MANY.into()).map(|context| (context, Err(OpError::Closed))).collect();
    assert_eq!(puppet.ends(), all);
    assert_ne!(puppet.engine().poll_at(), Some(puppet.world.time()));
}

#[test]
fn the_removal_of_a_peer_ends_all_its_operations_at_once() {
    let mut puppet = connected();
    (0..MANY.into()).for_each(|context| puppet.send(context, b"x".to_vec()));
    let peer = puppet.world.peer(0, PUPPET);
    puppet.engine().remove_peer(peer).unwrap();
    assert_eq!(failed(&mut puppet), MANY);
}

#[test]
fn a_peer_comes_back_when_its_operations_have_ended() {
    let mut puppet = connected();
    (0..MANY.into()).for_each(|context| puppet.send(context, b"x".to_vec()));
    close(&mut puppet);
    let hello = puppet.hello(INCARNATION, 2, 0);
    puppet.refused(&hello, DropReason::NoRoom);
    puppet.pass(MILLI);
    assert_eq!(puppet.ends().len() as u32, MANY);
    come_back(&mut puppet);
}

#[test]
fn an_operation_after_the_end_waits_for_those_before() {
    let mut puppet = connected();
    (0..MANY.into()).for_each(|context| puppet.send(context, b"x".to_vec()));
    close(&mut puppet);
    puppet.send(MANY.into(), b"next".to_vec());
    assert_eq!(failed(&mut puppet), MANY);
    puppet.pass(MILLI);
    assert_eq!(puppet.ends().len() as u32, MANY);
    assert_eq!(puppet.engine().posted_operations(), 1);
}

/// Sends the first bytes of [`MANY`] messages.
fn begin_many(puppet: &mut Puppet) {
    for msn in 0..MANY {
        let packet = puppet.data(&segment(msn, 2, 0, b"x"));
        puppet.ingest(&packet);
    }
}

#[test]
fn messages_that_were_arriving_leave_in_several_calls() {
    let mut puppet = connected();
    begin_many(&mut puppet);
    assert_eq!(puppet.engine().stored_messages(), MANY);
    close(&mut puppet);
    assert!((MANY / 2..MANY).contains(&puppet.engine().stored_messages()));
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stored_messages(), 0);
}

#[test]
fn receives_of_messages_that_were_arriving_end_in_several_calls() {
    let mut puppet = connected();
    (0..MANY.into()).for_each(|context| puppet.world.recv(0, context, 8));
    begin_many(&mut puppet);
    close(&mut puppet);
    assert!((1..MANY / 2).contains(&failed(&mut puppet)));
    puppet.pass(MILLI);
    let all: Vec<_> = (0..MANY.into()).map(|context| (context, Err(OpError::Closed))).collect();
    assert_eq!(puppet.ends(), all);
}

#[test]
fn a_receive_of_a_message_that_was_arriving_and_has_not_left_yet_ends_in_error() {
    let mut puppet = connected();
    begin_many(&mut puppet);
    close(&mut puppet);
    let left = puppet.engine().stored_messages() as usize;
    let ends = receive_all(&mut puppet);
    assert_eq!(ends, vec![Err(OpError::Closed); left]);
}

#[test]
fn messages_out_of_order_that_were_arriving_leave_once() {
    let mut puppet = connected();
    for msn in 1..MANY {
        let packet = puppet.data(&segment(msn, 2, 0, b"x"));
        puppet.ingest(&packet);
    }
    close(&mut puppet);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stored_messages(), 0);
    // Their slots are free once: the audit of each step counts them.
    come_back(&mut puppet);
    begin_many(&mut puppet);
    assert_eq!(puppet.engine().stored_messages(), MANY);
}

#[test]
fn claims_of_announced_messages_end_after_the_end() {
    let mut puppet = connected();
    send_many(&mut puppet, |msn| announcement(msn, 100_000, 3));
    let claims = [7, 8].map(|context| RecvRequest { tag: None, ..any(context, 0) });
    for request in claims {
        let node = &mut puppet.world.nodes[0];
        node.engine.peek(request, Peek::Claim, &mut node.memory).unwrap();
        puppet.pass(MILLI);
        assert_eq!(puppet.ends(), [(request.context.0, Ok(()))]);
    }
    close(&mut puppet);
    puppet.pass(MILLI);
    let node = &mut puppet.world.nodes[0];
    node.engine.discard_claimed(claims[0]).unwrap();
    puppet.pass(MILLI);
    assert_eq!(puppet.ends(), [(7, Ok(()))], "it is dropped");
    let node = &mut puppet.world.nodes[0];
    let whole = RecvRequest { len: 100_000, ..claims[1] };
    node.engine.post_claimed(whole, vec![0; 100_000].into(), &mut node.memory).unwrap();
    puppet.pass(MILLI);
    assert_eq!(puppet.ends(), [(8, Err(OpError::Closed))]);
    assert_eq!(puppet.engine().stored_messages(), 0);
}

/// The handle of the announcement among packets of the engine, and the bytes of responses.
fn announced_and_answered(packets: &[Seen]) -> (Option<u64>, usize) {
    let (mut handle, mut bytes) = (None, 0);
    for packet in packets {
        packet.records(|record| match record {
            wire::Record::Rts(announced) => handle = Some(announced.handle),
            wire::Record::Response(response) => bytes += response.payload.len(),
            _ => {}
        });
    }
    (handle, bytes)
}

/// The application learns of the end from a counter, and may use its memory again.
#[test]
fn a_message_that_has_ended_is_read_no_more_though_its_completion_is_not_polled() {
    const LEN: u32 = 100_000;
    let mut puppet = Puppet::connected(&small());
    puppet.world.set_unpolled(0, true);
    puppet.send(1, pattern(1, LEN as usize));
    let (handle, _) = announced_and_answered(&puppet.sent_data());
    let handle = handle.unwrap();
    puppet.head.ack = puppet.head.ack.plus(1);
    let request = puppet.data(&rendezvous_request(7, handle, 0, LEN));
    puppet.deliver(request);
    let first = puppet.sent_data();
    assert!(announced_and_answered(&first).1 > 0, "a window of bytes");
    let end = puppet.data(&fin(handle, LEN.into()));
    puppet.deliver(end);
    assert_eq!(puppet.engine().op_counters().sends.done, 1);
    puppet.sent();
    for packets in 1..20 {
        puppet.head.ack = puppet.head.ack.plus(1);
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
        puppet.pass(10 * MILLI);
        let sent = puppet.sent_data();
        assert_eq!(announced_and_answered(&sent).1, 0, "after {packets} acknowledgments");
    }
}

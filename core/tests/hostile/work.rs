// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work that one packet causes has a bound (`docs/PROTOCOL.md` §6.3, §9).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::RECORDS_MAX;
use ofi_xdp_core::*;

/// Messages in a packet.
const MANY: u32 = RECORDS_MAX as u32;
/// Receives, so many that a search of all of them is long.
const RECEIVES: u64 = 600;

/// A connection, and [`RECEIVES`] receives with tags of their own.
fn with_receives() -> Puppet {
    let config = Config { unexpected: [512, 0, 0, 0], recvs: 1024, ..small() };
    let mut puppet = Puppet::connected(&config);
    for tag in 0..RECEIVES {
        let wanted = Some(TagMatch { tag, ignore: 0 });
        let receive = |r: &mut RecvRequest| (r.context, r.tag) = (Context(tag), wanted);
        puppet.world.recv_with(0, 8, receive).unwrap();
    }
    puppet
}

/// A packet of messages from number `first` on, with tags from `tag` on.
fn many(puppet: &mut Puppet, first: u32, tag: u64) -> Vec<u8> {
    let records: Vec<u8> = (0..MANY).flat_map(|n| tagged(first + n, tag + u64::from(n))).collect();
    puppet.data(&records)
}

#[test]
fn a_packet_searches_a_bounded_number_of_receives() {
    let mut puppet = with_receives();
    let packets = [0, 1].map(|n| many(&mut puppet, n * MANY, RECEIVES));
    puppet.ingest(&packets[0]);
    let stats = *puppet.engine().stats();
    assert!((1..4).contains(&stats.messages_accepted), "{stats:?}");
    assert_eq!(stats.messages_accepted + stats.messages_out_of_order, u64::from(MANY));
    assert_eq!(puppet.engine().stored_messages(), MANY, "none is lost");
    let now = puppet.world.time();
    assert_eq!(puppet.engine().poll_at(), Some(now), "the others are due");
    puppet.ingest(&packets[1]);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stats().messages_accepted, 2 * u64::from(MANY));
    assert_eq!(puppet.engine().stats().receiver_not_ready, 0);
}

#[test]
fn messages_keep_their_order_while_they_wait_for_a_search() {
    let mut puppet = with_receives();
    let packet = many(&mut puppet, 0, RECEIVES);
    puppet.ingest(&packet);
    // A message that comes again is here.
    let again = puppet.data(&tagged(5, RECEIVES + 5));
    puppet.ingest(&again);
    for context in 0..u64::from(MANY) {
        let wanted = Some(TagMatch { tag: 0, ignore: u64::MAX });
        let receive = |r: &mut RecvRequest| (r.context, r.tag) = (Context(1000 + context), wanted);
        puppet.world.recv_with(0, 8, receive).unwrap();
    }
    puppet.pass(MILLI);
    let tags: Vec<_> = puppet.world.completions(0).iter().map(|c| c.tag).collect();
    let expected: Vec<_> = (0..u64::from(MANY)).map(|n| RECEIVES + n).collect();
    assert_eq!(tags, expected);
    assert_eq!(puppet.engine().stored_messages(), 0);
}

#[test]
fn messages_that_wait_for_a_search_find_their_receives() {
    let mut puppet = with_receives();
    let packet = many(&mut puppet, 0, RECEIVES - u64::from(MANY));
    puppet.deliver(packet);
    puppet.pass(MILLI);
    let contexts: Vec<_> = puppet.ends();
    let expected: Vec<_> =
        (RECEIVES - u64::from(MANY)..RECEIVES).map(|context| (context, Ok(()))).collect();
    assert_eq!(contexts, expected);
}

#[test]
fn a_packet_of_too_many_records_is_malformed() {
    let mut puppet = Puppet::connected(&small());
    let records: Vec<u8> = (0..=MANY).flat_map(|msn| message(msn, b"")).collect();
    let packet = puppet.data(&records);
    puppet.refused(&packet, DropReason::Malformed);
}

#[test]
fn no_packet_has_too_many_records() {
    let config = Config { sends: 256, ..small() };
    let mut puppet = Puppet::connected(&config);
    for context in 0..200 {
        puppet.world.send(0, PUPPET, context, Vec::new());
    }
    puppet.drive();
    let counts: Vec<usize> = puppet
        .sent_data()
        .iter()
        .map(|packet| {
            let mut count = 0;
            packet.records(|_| count += 1);
            count
        })
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 200);
    assert_eq!(counts.iter().max(), Some(&RECORDS_MAX), "{counts:?}");
}

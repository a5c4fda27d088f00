// SPDX-License-Identifier: MIT OR Apache-2.0
//! The most expensive packets that a peer can send, and the most expensive receives that an
//! application can post. Only run by `ofi-xdp-engine-bench`, under callgrind, once for each case.
//!
//! In: the name of a case. Out: its set-up, then one call in a function that callgrind shows. A
//! case fails if the call does not have its expected effect. Bound: [`DEPTH`] messages or receives.

mod mark {
    //! Functions for callgrind to show. The numbers keep them apart.

    #[inline(never)]
    pub(crate) fn worst_packet<R>(call: impl FnOnce() -> R) -> R {
        std::hint::black_box(1);
        call()
    }

    #[inline(never)]
    pub(crate) fn worst_receive<R>(call: impl FnOnce() -> R) -> R {
        std::hint::black_box(2);
        call()
    }
}
mod puppet;
#[allow(dead_code, reason = "`ledger.rs` needs more of it")]
mod worst_case;

use anyhow::{Context as _, Result, bail, ensure};
use ofi_xdp_core::wire::{ErrorCode, PacketKind, put_error};
use ofi_xdp_core::{Config, OpId, PeerId, TagMatch};
use ofi_xdp_test_kit::records::{
    announcement, message, record, segment, tagged, write as write_record,
};

use crate::puppet::{Puppet, ROUND_TRIP};
use crate::worst_case::Case;

/// Stored messages, or posted receives.
const DEPTH: u32 = 10_000;
/// Messages in a packet: the most that one may have.
const PACKED: u32 = 60;
/// Announcements in a packet.
const ANNOUNCED: u32 = 40;
/// Messages that are arriving, or operations of the application: the slots of the usual
/// configuration.
const UNDER_WAY: u32 = 1024;
/// Searches that give the last receives their bins.
const SEARCHES: u32 = 32;
/// Packets under way: the most.
const WINDOW: u32 = 49_152;
/// Completions of remote writes that a packet brings: the most. Those that wait for a missing one.
const EVENTS_MAX: usize = 8;
const EVENTS_BEHIND: usize = 1000;
/// Kinds of receives.
const KINDS: u32 = 12;

/// The call that is measured.
#[derive(Debug)]
enum Call {
    Packet(Vec<u8>),
    Receive(Option<PeerId>, Option<TagMatch>),
}

/// The effect of the call: messages accepted, stored messages, receives.
type Change = (i64, i64, i64);

fn main() -> Result<()> {
    let name = std::env::args().nth(1).context("usage: ofi-xdp-engine-worst CASE")?;
    let case = Case::ALL.into_iter().find(|case| case.name() == name).context("no such case")?;
    let mut config = Config {
        peers: 4,
        connections: 4,
        sends: UNDER_WAY,
        assemblies: UNDER_WAY,
        recvs: DEPTH + 8,
        slices: 4,
        unexpected: [DEPTH + 2 * PACKED, 0, 0, 0],
        responders: 4,
        ..Config::new(ofi_xdp_checksum::crc32c)
    };
    if case == Case::Refused {
        // The storage has no room for the message, which is refused.
        config.unexpected[0] = DEPTH;
    }
    let is_named = case != Case::CloseStored;
    if !is_named {
        // The host of an unnamed peer has a share of the storage.
        config.unexpected[0] = 2 * DEPTH;
    }
    let mut puppet = Puppet::new(&config, is_named)?;
    let (call, expected) = set_up(case, &mut puppet)?;
    let (before, dropped) = (puppet.counts(), puppet.dropped());
    match call {
        Call::Packet(bytes) => mark::worst_packet(|| puppet.ingest(&bytes)),
        Call::Receive(from, tag) => mark::worst_receive(|| puppet.recv(from, tag))?,
    }
    let after = puppet.counts();
    let change: Change = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    ensure!(change == expected, "{name}: {change:?}, not {expected:?}");
    ensure!(puppet.dropped() == dropped, "{name}: a packet without an effect");
    println!("1 1 1");
    Ok(())
}

/// Brings the engine into the state before the measured call.
fn set_up(case: Case, puppet: &mut Puppet) -> Result<(Call, Change)> {
    let exact = |tag: u32| Some(TagMatch { tag: tag.into(), ignore: 0 });
    Ok(match case {
        Case::Packet => {
            puppet.recv(None, None)?;
            (Call::Packet(puppet.data(&message(0, &[7; 8]))), (1, 0, 0))
        }
        Case::Hole => {
            let missing = puppet.data(&tagged(0, 0));
            store(puppet, 1);
            (Call::Packet(missing), (1, 1, 0))
        }
        Case::Behind => {
            let missing = puppet.data(&tagged(0, 0));
            store(puppet, 1);
            post(puppet, 1)?;
            puppet.ingest(&missing);
            (Call::Packet(unwanted(puppet, DEPTH + 1)), (0, PACKED.into(), 0))
        }
        Case::Unwanted => {
            post(puppet, 1)?;
            (Call::Packet(unwanted(puppet, 0)), (1, PACKED.into(), 0))
        }
        Case::UnwantedInBins => {
            post(puppet, 1)?;
            fill_bins(puppet);
            (Call::Packet(unwanted(puppet, SEARCHES)), (35, PACKED.into(), 0))
        }
        Case::UnwantedKinds => {
            post(puppet, KINDS)?;
            fill_bins(puppet);
            (Call::Packet(unwanted(puppet, SEARCHES)), (3, PACKED.into(), 0))
        }
        Case::Kinds => {
            post(puppet, KINDS)?;
            (Call::Packet(puppet.data(&tagged(0, DEPTH.into()))), (1, 1, 0))
        }
        Case::LastReceive => {
            for tag in 0..DEPTH {
                puppet.recv(None, exact(tag))?;
            }
            (Call::Packet(puppet.data(&tagged(0, (DEPTH - 1).into()))), (1, 0, 0))
        }
        Case::Refused => {
            let missing = puppet.data(&tagged(0, 0));
            store(puppet, 1);
            // The stored messages leave later.
            (Call::Packet(missing), (0, 0, 0))
        }
        Case::Close => {
            puppet.psn = puppet.psn.plus(1);
            store(puppet, 1);
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, 0, 0))
        }
        Case::CloseStored => {
            store(puppet, 0);
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, 0, 0))
        }
        Case::CloseAnnounced => {
            announce(puppet);
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, -64, 0))
        }
        Case::CloseMatched => {
            for _ in 0..DEPTH {
                puppet.recv(None, None)?;
            }
            announce(puppet);
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, 0, 0))
        }
        Case::CloseClaimed => {
            announce(puppet);
            for number in 0..DEPTH {
                puppet.claim(number.into())?;
            }
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, 0, 0))
        }
        Case::CloseArriving => {
            begin_messages(puppet);
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, -16, 0))
        }
        Case::ClosePosted => {
            for _ in 0..UNDER_WAY {
                puppet.send()?;
            }
            (Call::Packet(puppet.sealed(PacketKind::Close, &[])), (0, 0, 0))
        }
        Case::SackedLast => {
            write(puppet)?;
            (Call::Packet(puppet.sack(WINDOW - 1)), (0, 0, 0))
        }
        Case::SackedAgain => {
            write(puppet)?;
            send_again(puppet)?;
            (Call::Packet(puppet.sealed(PacketKind::Ping, &[])), (0, 0, 0))
        }
        Case::Errors => {
            for _ in 0..UNDER_WAY {
                puppet.write(8)?;
            }
            puppet.transmit(UNDER_WAY);
            puppet.errors = PACKED as u8;
            let error = record(|into| put_error(into, OpId::NONE, ErrorCode::Key, 0));
            (Call::Packet(puppet.data(&error.repeat(PACKED as usize))), (0, 0, 0))
        }
        Case::EventsBehind => {
            let remote = puppet.region()?;
            let events = |count| write_record(1, remote, Some(6), &[]).repeat(count);
            puppet.psn = puppet.psn.plus(1);
            let first = puppet.data(&events(EVENTS_MAX));
            for _ in 0..EVENTS_BEHIND / EVENTS_MAX {
                let packet = puppet.data(&events(EVENTS_MAX));
                puppet.ingest(&packet);
            }
            (Call::Packet(first), (0, 0, 0))
        }
        Case::LastPart => {
            begin_messages(puppet);
            (Call::Packet(puppet.data(&segment(UNDER_WAY - 1, 2, 1, &[7]))), (0, 0, 0))
        }
        Case::Receive => {
            store(puppet, 0);
            begin_receives(puppet)?;
            (Call::Receive(None, exact(0)), (0, -1, 1))
        }
        Case::NewKind => {
            store(puppet, 0);
            begin_receives(puppet)?;
            (Call::Receive(None, exact(DEPTH)), (0, 0, 1))
        }
        Case::LastMessage => {
            store(puppet, 0);
            puppet.recv(None, exact(DEPTH))?;
            puppet.end_searches();
            (Call::Receive(None, exact(DEPTH - 1)), (0, -1, 1))
        }
        Case::SixthKind => {
            store(puppet, 0);
            let kind = |bit: u32| Some(TagMatch { tag: DEPTH.into(), ignore: 1 << (40 + bit) });
            for bit in 0..5 {
                puppet.recv(None, kind(bit))?;
                puppet.end_searches();
            }
            (Call::Receive(Some(puppet.peer), kind(5)), (0, 0, 1))
        }
    })
}

/// Sends [`WINDOW`] packets of a write.
fn write(puppet: &mut Puppet) -> Result<()> {
    // An acknowledgment of the set-up, which is no packet of the write.
    puppet.transmit(1);
    puppet.write(1 << 30)?;
    // The window doubles in each round trip.
    for _ in 0..16 {
        let sent = puppet.transmit(2 * WINDOW);
        if sent == WINDOW {
            return Ok(());
        }
        puppet.pass(ROUND_TRIP);
        puppet.acknowledge(sent);
    }
    bail!("a short window")
}

/// Sends the packets of [`write()`] again, all of them overtaken by the last of them.
fn send_again(puppet: &mut Puppet) -> Result<()> {
    puppet.pass(ROUND_TRIP);
    for number in [WINDOW - 1, WINDOW - 2] {
        let ack = puppet.sack(number);
        puppet.ingest(&ack);
        puppet.pass(2 * ROUND_TRIP);
    }
    for packets in [WINDOW - 3, 1] {
        let sent = puppet.transmit(packets);
        ensure!(sent == packets, "{sent} packets again");
        puppet.pass(ROUND_TRIP / 4);
    }
    // They are checked once.
    let ack = puppet.sack(WINDOW - 3);
    puppet.ingest(&ack);
    Ok(())
}

/// Posts [`DEPTH`] receives with a tag each, of some kinds.
fn post(puppet: &mut Puppet, kinds: u32) -> Result<()> {
    for number in 0..DEPTH {
        // Each kind ignores one bit above those of the tags.
        let ignore = 1 << (40 + number % kinds);
        puppet.recv(None, Some(TagMatch { tag: number.into(), ignore }))?;
    }
    Ok(())
}

/// A packet of messages from number `first` on, as many as it may have, that no receive of
/// [`post`] takes.
fn unwanted(puppet: &mut Puppet, first: u32) -> Vec<u8> {
    let records: Vec<u8> =
        (first..first + PACKED).flat_map(|n| tagged(n, (DEPTH + n).into())).collect();
    puppet.data(&records)
}

/// Sends [`SEARCHES`] messages that no receive of [`post`] takes: then all receives have bins.
fn fill_bins(puppet: &mut Puppet) {
    for number in 0..SEARCHES {
        let packet = puppet.data(&tagged(number, DEPTH.into()));
        puppet.ingest(&packet);
    }
}

/// Posts an untagged receive, which takes none of the messages. The first receive of an engine
/// includes the cost of the slots that begin with it.
fn begin_receives(puppet: &mut Puppet) -> Result<()> {
    puppet.recv(None, None).map(drop)
}

/// Sends [`DEPTH`] messages with a tag each, from number `first` on.
fn store(puppet: &mut Puppet, first: u32) {
    let numbers: Vec<u32> = (0..DEPTH).collect();
    for chunk in numbers.chunks(PACKED as usize) {
        let records: Vec<u8> = chunk.iter().flat_map(|&n| tagged(first + n, n.into())).collect();
        let packet = puppet.data(&records);
        puppet.ingest(&packet);
    }
}

/// Sends the first part of [`UNDER_WAY`] messages.
fn begin_messages(puppet: &mut Puppet) {
    for number in 0..UNDER_WAY {
        let packet = puppet.data(&segment(number, 2, 0, &[7]));
        puppet.ingest(&packet);
    }
}

/// Announces [`DEPTH`] long messages.
fn announce(puppet: &mut Puppet) {
    let numbers: Vec<u32> = (0..DEPTH).collect();
    for chunk in numbers.chunks(ANNOUNCED as usize) {
        let records: Vec<u8> = chunk.iter().flat_map(|&n| announcement(n, 1 << 20, 3)).collect();
        let packet = puppet.data(&records);
        puppet.ingest(&packet);
    }
}

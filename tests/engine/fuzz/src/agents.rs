// SPDX-License-Identifier: MIT OR Apache-2.0
//! Target `agents`: connection management, with calls of both applications, faults of the link, and
//! packets of an attacker that knows the numbers of the exchange.
//!
//! Two agents, one of which listens. Some packets of the fuzzer have numbers that were seen on the
//! link, and anything in the other fields. Some are recorded packets with changed bytes, some are
//! garbage. Rules: no panic. A packet has one answer at the most; before its sender has shown a
//! cookie, the answer is not longer than the packet. Not more requests wait than the backlog
//! allows. An exchange is reported once, and ends once. In the end nothing is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use ofi_xdp_core::cm::{CONNECT_DATA_MAX, CONNECT_PACKET_MAX, ConnectEvent, RequestId};
use ofi_xdp_core::wire::{self, CONNECT_LEN, ConnectKind, ConnectPacket, RejectReason};
use ofi_xdp_core::{AgentConfig, PeerAddress};
use ofi_xdp_test_kit::agents::{Agents, Flight, LinkFaults};

use crate::input::Input;

/// Steps that one input may make.
const STEPS_MAX: usize = 200;
/// The backlog: short, so that it is filled.
const BACKLOG: u32 = 3;
const INITIATOR: usize = 0;
const LISTENER: usize = 1;
const MS: u64 = 1_000_000;
/// Longer than any exchange is remembered.
const FORGOTTEN_NANOS: u64 = 60_000 * MS;

const CONFIG: AgentConfig = AgentConfig {
    connect_timeout: Duration::from_secs(10),
    connects: 4,
    backlog: BACKLOG,
    checksum: crc32c::crc32c_append,
};

const KINDS: [ConnectKind; 8] = [
    ConnectKind::Connect,
    ConnectKind::Cookie,
    ConnectKind::Pending,
    ConnectKind::Accept,
    ConnectKind::Confirm,
    ConnectKind::Reject,
    ConnectKind::RejectAck,
    ConnectKind::Cancel,
];
const REASONS: [Option<RejectReason>; 5] = [
    None,
    Some(RejectReason::Refused),
    Some(RejectReason::Rejected),
    Some(RejectReason::Busy),
    Some(RejectReason::Gone),
];

/// An exchange as its application knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// Asked for, reported or answered.
    Open,
    /// Its last event has come, or its application has ended it.
    Ended,
}

/// Plays `bytes` against two agents.
///
/// # Panics
/// When a rule does not hold.
pub fn run(bytes: &[u8]) {
    let mut agents = Agents::new(2, CONFIG, 1);
    agents.call(LISTENER, |agent, _| agent.set_listening(BACKLOG));
    let mut attack = Attack { agents, known: BTreeMap::new() };
    let mut input = Input::new(bytes);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        attack.step(&mut input);
        attack.check();
    }
    attack.finish();
}

#[derive(Debug)]
struct Attack {
    agents: Agents,
    /// The exchanges of both agents.
    known: BTreeMap<(usize, RequestId), Known>,
}

impl Attack {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 8 {
            0 => self.connect(input),
            1 => self.answer(input),
            2 => self.give_up(input),
            3 => self.agents.play(MS << (input.byte() % 16)),
            4 => {
                let [loss, repeats, jitter] = input.array().map(|byte: u8| byte % 4);
                self.agents.faults = LinkFaults {
                    loss: f64::from(loss) * 30.0,
                    repeats: f64::from(repeats) * 30.0,
                    jitter: u64::from(jitter) * 100 * MS,
                };
            }
            5 => self.forge(input),
            6 => self.change(input),
            _ => {
                let mut garbage = input.slice(CONNECT_PACKET_MAX + 8).to_vec();
                if garbage.len() >= CONNECT_LEN {
                    garbage[0] = wire::VERSION << 4;
                    wire::seal(&mut garbage, crc32c::crc32c_append);
                }
                self.deliver(input, &garbage);
            }
        }
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        let data = input.byte().into();
        let data = input.slice(data);
        let to = self.agents.address(LISTENER);
        let asked = self.agents.call(INITIATOR, |agent, now| agent.connect(now, to, 4001, data));
        if let Ok(id) = asked {
            let known = self.known.insert((INITIATOR, id), Known::Open);
            assert_eq!(known, None, "an identifier came again");
        }
    }

    /// One of the open exchanges of an agent.
    fn one_open(&self, node: usize, input: &mut Input<'_>) -> Option<RequestId> {
        let open = self.known.iter().filter(|(key, known)| key.0 == node && **known == Known::Open);
        let open: Vec<RequestId> = open.map(|(key, _)| key.1).collect();
        (!open.is_empty()).then(|| open[input.below(open.len())])
    }

    fn answer(&mut self, input: &mut Input<'_>) {
        let Some(id) = self.one_open(LISTENER, input) else { return };
        let accepts = input.byte().is_multiple_of(2);
        let data = input.byte().into();
        let data = input.slice(data);
        let local = PeerAddress::from_v6([0; 16], 5001);
        let rejected = self.agents.call(LISTENER, |agent, now| {
            if accepts {
                // It may have been answered before.
                let _ = agent.accept(now, id, local, data);
                return false;
            }
            agent.reject(now, id, data).is_ok()
        });
        if rejected {
            self.known.insert((LISTENER, id), Known::Ended);
        }
    }

    fn give_up(&mut self, input: &mut Input<'_>) {
        let node = usize::from(input.byte() % 2);
        if let Some(id) = self.one_open(node, input) {
            self.agents.call(node, |agent, now| agent.cancel(now, id));
            self.known.insert((node, id), Known::Ended);
        }
    }

    /// A packet. The input chooses which of its numbers are some that were seen.
    fn forge(&mut self, input: &mut Input<'_>) {
        let mut seen = |choice: u8| {
            let flights = self.agents.sent.iter().rev().take(16).map(|flight| &flight.bytes);
            let packets: Vec<_> = flights
                .filter_map(|it| ConnectPacket::parse(it, crc32c::crc32c_append).ok())
                .collect();
            let of = |packet: &ConnectPacket<'_>| {
                [packet.nonce, packet.proof.into()][usize::from(choice)]
            };
            match packets.len() {
                0 => 0,
                count => of(&packets[input.below(count)]),
            }
        };
        let (nonce, proof) = (seen(0), seen(1) as u64);
        let [kind, reason, has_port, has_proof] = input.array();
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        let data_len = input.below(CONNECT_DATA_MAX + 2);
        let packet = ConnectPacket {
            reason: REASONS[usize::from(reason) % REASONS.len()],
            address: PeerAddress::from_v6([0; 16], u16::from(has_port % 4)),
            data: input.slice(data_len),
            ..ConnectPacket::new(kind, nonce, if has_proof % 4 == 0 { 0 } else { proof })
        };
        let mut bytes = [0; CONNECT_PACKET_MAX + 1];
        if let Some(len) = packet.put(&mut bytes, crc32c::crc32c_append) {
            self.deliver(input, &bytes[..len]);
        }
    }

    /// A recorded packet with a changed byte.
    fn change(&mut self, input: &mut Input<'_>) {
        let count = self.agents.sent.len().min(16);
        if count == 0 {
            return;
        }
        let index = self.agents.sent.len() - 1 - input.below(count);
        let mut bytes = self.agents.sent[index].bytes.clone();
        let at = input.below(bytes.len());
        bytes[at] = input.byte();
        wire::seal(&mut bytes, crc32c::crc32c_append);
        self.deliver(input, &bytes);
    }

    /// Gives a packet to an agent, from the other one's address or another.
    fn deliver(&mut self, input: &mut Input<'_>, bytes: &[u8]) {
        let to = usize::from(input.byte() % 2);
        let from = match input.byte() % 4 {
            0 => PeerAddress::from_v4([198, 18, 7, 7], 7000),
            _ => self.agents.address(1 - to),
        };
        self.agents.play(0);
        let _ = self.agents.call(to, |agent, now| agent.ingest(now, from, bytes));
        let answers = self.transmitted(to);
        assert!(answers.len() <= 1, "{} answers to one packet", answers.len());
        for answer in answers {
            let shown = ConnectPacket::parse(bytes, crc32c::crc32c_append);
            let has_shown = shown.is_ok_and(|it| it.kind == ConnectKind::Cookie || it.proof != 0);
            let is_longer = answer.bytes.len() > bytes.len();
            assert!(!is_longer || has_shown, "{answer:?} to {} bytes", bytes.len());
            self.agents.send(answer.from, answer.to, &answer.bytes);
        }
        self.agents.play(0);
    }

    /// The packets that an agent sends now.
    fn transmitted(&mut self, node: usize) -> Vec<Flight> {
        let (at, from) = (self.agents.now, self.agents.address(node));
        let mut bytes = [0; CONNECT_PACKET_MAX];
        let mut flights = Vec::new();
        while let Some((to, len)) =
            self.agents.call(node, |agent, now| agent.poll_transmit(now, &mut bytes))
        {
            flights.push(Flight { at, from, to, bytes: bytes[..len].to_vec() });
        }
        flights
    }

    /// Takes the events of both agents, and checks what they may be.
    fn check(&mut self) {
        for node in [INITIATOR, LISTENER] {
            for (event, data) in self.agents.take_events(node) {
                assert!(data.len() <= CONNECT_DATA_MAX);
                let id = event.id();
                if matches!(event, ConnectEvent::Requested { .. }) {
                    assert_eq!(node, LISTENER);
                    let known = self.known.insert((node, id), Known::Open);
                    assert_eq!(known, None, "reported twice");
                    continue;
                }
                let known = self.known.insert((node, id), Known::Ended);
                assert_eq!(known, Some(Known::Open), "{event:?}");
                self.agents.call(node, |agent, now| agent.release(now, id));
            }
            let (waiting, kept) = self.agents.call(node, |agent, _| agent.requests());
            assert!(waiting <= BACKLOG && kept <= 2 * BACKLOG, "{waiting} and {kept}");
        }
    }

    /// Gives everything up: then nothing is kept.
    fn finish(&mut self) {
        self.agents.faults = LinkFaults::default();
        let open = self.known.iter().filter(|(_, known)| **known == Known::Open);
        let open: Vec<(usize, RequestId)> = open.map(|(key, _)| *key).collect();
        for (node, id) in open {
            self.agents.call(node, |agent, now| agent.cancel(now, id));
            self.known.insert((node, id), Known::Ended);
        }
        self.agents.play(FORGOTTEN_NANOS);
        self.check();
        for node in [INITIATOR, LISTENER] {
            let (kept, due) =
                self.agents.call(node, |agent, _| (agent.requests(), agent.poll_at()));
            assert_eq!((kept, due), ((0, 0), None), "agent {node}");
        }
    }
}

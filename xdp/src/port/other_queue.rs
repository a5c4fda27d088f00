// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that arrive by a queue without an `AF_XDP` socket of the port: which packets of the
//! kernel socket they are, and the source port that is wanted for them (`docs/PROTOCOL.md` §13).
//!
//! In: the XDP program's count of such packets, packets of the kernel socket, and the rule of the
//! card. Out: the wanted source port of each. Caller: the hybrid port. Bounds: [`EXPECTED_MAX`]
//! packets expected; one question to the driver each [`ASK_PAUSE_NANOS`], by a thread.
//!
//! The kernel socket does not tell the queue of a packet. The program counts a packet before the
//! socket has it, so as many of the next packets are taken for packets of another queue. Packets
//! that take the kernel's path for another reason may be taken for one of them. Their sender would
//! leave a queue that may be the right one, so a packet that comes by our queues as far as the rule
//! of the card is known is passed over. Without a rule the request moves its sender for no
//! gain, and the queue that it arrives by decides about the next request.

use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;

use ofi_xdp_core::rss::HashFields;
use ofi_xdp_core::{Instant, PeerAddress, WantedPort};

use crate::af_xdp::kernel_hint::KernelRxHint;
use crate::host::card_hash::{CardHash, HashReader, hash_ports_command};
use crate::host::features;
use crate::host::question::Question;
use crate::stats::PortStats;
use crate::tier::queue_list::QueueList;
use crate::tier::status::PortStatus;

/// Packets that may be counted and not yet received. The rest of them is lost.
const EXPECTED_MAX: u64 = 1 << 10;

/// Packets of other queues after which the port says so, if they are the most.
const SAID_FROM: u64 = 1 << 12;

/// Rounds that contradict the rule of the card, without a packet that follows it, until it counts
/// as wrong. A round ends when the kernel socket is empty. One alone may do so by chance: a packet
/// of another queue is counted, and is not in the socket yet.
const CONTRADICTIONS_MAX: u8 = 8;

/// Pause between two questions to the driver (10 s).
const ASK_PAUSE_NANOS: u64 = 10_000_000_000;

/// The card of an interface with several queues.
#[derive(Debug)]
pub(super) struct Card {
    rule: KnownRule,
    /// The number of queues.
    queues: u16,
    /// Whether it has n-tuple filters on.
    filters: bool,
}

impl Card {
    /// The card of the interface with index `interface` for the endpoint at `local`; asks the
    /// driver for its rule.
    pub(super) fn new(local: SocketAddr, interface: u32, queues: u32) -> Self {
        let queues = u16::try_from(queues).unwrap_or(u16::MAX);
        let rule = KnownRule::new(HashReader::open(interface, local.is_ipv4()).ok());
        Self { rule, queues, filters: features::filters_by_rules(interface) }
    }
}

/// The rule of a card, as far as it is known.
#[derive(Debug)]
struct KnownRule {
    /// `None`: the interface is gone.
    reader: Option<Arc<HashReader>>,
    hash: Option<CardHash>,
    /// The question for it.
    question: Option<Question<Option<CardHash>>>,
    /// The rule may lead packets to other queues than it says, and is to be asked for again.
    is_outdated: bool,
    /// Since the kernel socket was empty, a packet was passed over that comes by one of our queues
    /// according to the rule.
    has_passed: bool,
    /// Rounds that contradicted the rule since a packet followed it.
    contradictions: u8,
    /// Time from which the driver may be asked again.
    ask_at: Instant,
}

/// Packets of other queues.
#[derive(Debug)]
pub(super) struct OtherQueue {
    local: SocketAddr,
    /// The queues of the sockets.
    ours: QueueList,
    card: Card,
    /// The port has said that most packets come by other queues.
    said: bool,
    /// Packets that the program has counted and the kernel socket has not delivered.
    expected: u64,
}

impl OtherQueue {
    /// For the endpoint at `local` with sockets on the queues `ours` of `card`.
    pub(super) fn new(local: SocketAddr, card: Card, ours: QueueList) -> Self {
        if card.rule.hash.is_none() {
            log::info!("{local}: senders try source ports until one leads to {}", ours.noun());
        }
        Self { local, ours, card, said: false, expected: 0 }
    }

    /// Asks for the rule of the card again, if a packet has contradicted it.
    #[inline]
    pub(super) fn refresh(&mut self, now: Instant) {
        let rule = &mut self.card.rule;
        if rule.question.is_some() {
            rule.take_answer();
        } else if rule.is_outdated && now >= rule.ask_at {
            rule.ask(now);
        }
    }

    /// Reads the program's count, before the kernel socket is polled.
    pub(super) fn count(&mut self, hint: &mut KernelRxHint) {
        let counted = hint.take_other_queue();
        self.expected = self.expected.saturating_add(counted).min(EXPECTED_MAX);
    }

    /// The source port that is wanted for the sender `from` of the next packet of the kernel
    /// socket. Counts the packet in `taken` if it came by another queue.
    pub(super) fn wanted(&mut self, from: PeerAddress, taken: &mut u64) -> WantedPort {
        let Self { card, ours, .. } = self;
        let local = self.local.into();
        if self.expected == 0 || card.rule.passes(from, local, ours) {
            return WantedPort::KEEP;
        }
        self.expected -= 1;
        *taken += 1;
        let other = WantedPort::other(card.queues);
        card.rule.wanted(from, local, ours).unwrap_or(other)
    }

    /// Says once that most packets come by other queues, and what would help. Returns whether it
    /// has said so now and the card has n-tuple filters on.
    pub(super) fn complain(&mut self, stats: &PortStats, status: &mut PortStatus) -> bool {
        let PortStats { xsk_received, other_queue, .. } = *stats;
        if self.said || other_queue < SAID_FROM || other_queue < xsk_received {
            return false;
        }
        self.said = true;
        let Self { local, ours, .. } = self;
        let interface = &status.interface;
        let fields = self.card.rule.hash.as_ref().map(|hash| hash.rss().fields);
        let first = if fields == Some(HashFields::Ports) {
            "the senders keep to their source ports (FI_XDP_ENTROPY)".to_owned()
        } else {
            hash_ports_command(interface, local.is_ipv4())
        };
        status.advice = format!(
            "{first}; FI_XDP_QUEUES=all gives the endpoint a socket on each queue, `ethtool \
             --set-channels {interface} combined 1` the card one queue (docs/TUNING.md)"
        );
        let share = 100 * xsk_received / (xsk_received + other_queue);
        log::warn!(
            "{local}: {share} % of packets come by AF_XDP, on {} of {interface}; the others come \
             by other queues and the kernel. {}",
            ours.noun(),
            status.advice
        );
        self.card.filters
    }

    /// The kernel socket is empty: what is expected still was dropped there, or was among the
    /// packets that were passed over.
    pub(super) fn emptied(&mut self) {
        let is_left = mem::take(&mut self.expected) > 0;
        self.card.rule.end_round(is_left);
    }
}

impl KnownRule {
    /// The rule that the driver tells now.
    fn new(reader: Option<HashReader>) -> Self {
        let reader = reader.map(Arc::new);
        let hash = reader.as_deref().and_then(read);
        let ask_at = Instant::ZERO.after_nanos(ASK_PAUSE_NANOS);
        Self {
            reader,
            hash,
            question: None,
            is_outdated: false,
            has_passed: false,
            contradictions: 0,
            ask_at,
        }
    }

    /// Asks the driver. Without memory for the thread the next attempt follows after the pause.
    #[cold]
    fn ask(&mut self, now: Instant) {
        self.ask_at = now.after_nanos(ASK_PAUSE_NANOS);
        let Some(reader) = self.reader.clone() else { return };
        self.question = Question::ask(move || read(&reader)).ok();
        self.is_outdated = self.question.is_none();
    }

    /// Takes the driver's answer, if it has come.
    #[cold]
    fn take_answer(&mut self) {
        if let Some(question) = self.question.take_if(|question| question.is_answered()) {
            self.hash = question.answer().flatten();
        }
    }

    /// Whether packets of `from` arrive by one of our queues, as far as the rule is known. Then the
    /// kernel most likely has this one for another reason.
    fn passes(&mut self, from: PeerAddress, local: PeerAddress, ours: &QueueList) -> bool {
        let Some(hash) = &self.hash else { return false };
        let passes = ours.contains(hash.rss().queue(from, local));
        if passes {
            self.has_passed = true;
        } else {
            self.contradictions = 0;
        }
        passes
    }

    /// The kernel socket is empty. `is_left`: a packet of another queue was not found. It may be
    /// one that was passed over: the card follows another rule. That is asked for, and unknown once
    /// it has happened often.
    fn end_round(&mut self, is_left: bool) {
        if !mem::take(&mut self.has_passed) || !is_left {
            return;
        }
        self.is_outdated = true;
        self.contradictions += 1;
        if self.contradictions >= CONTRADICTIONS_MAX {
            self.contradictions = 0;
            self.hash = None;
        }
    }

    /// The source port by which packets of `from` arrive at the first one of our queues; the
    /// present one where the card hashes no ports. `None` where that is unknown.
    fn wanted(
        &self,
        from: PeerAddress,
        local: PeerAddress,
        ours: &QueueList,
    ) -> Option<WantedPort> {
        let rss = self.hash.as_ref()?.rss();
        match rss.fields {
            HashFields::Addresses => Some(WantedPort::KEEP),
            HashFields::Ports => {
                let queue = *ours.as_slice().first()?;
                WantedPort::named(rss.source_for(from, local, queue)?)
            }
        }
    }
}

fn read(reader: &HashReader) -> Option<CardHash> {
    let unknown = |reason: &_| log::debug!("the hash of the card is unknown: {reason}");
    reader.hash().inspect_err(unknown).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::rss::SOURCE_FIRST;

    const QUEUE: u32 = 2;

    fn from(port: u16) -> PeerAddress {
        PeerAddress::from_v4([198, 18, 0, 2], port)
    }

    /// A port on a card with this rule, with one packet of another queue expected.
    fn with(hash: Option<CardHash>) -> OtherQueue {
        let local = SocketAddr::from(([198, 18, 0, 1], 7000));
        // The loopback interface does not tell a rule.
        let card = Card::new(local, 1, 4);
        let mut other_queue = OtherQueue::new(local, card, QueueList::from_iter([QUEUE]));
        other_queue.card.rule.hash = hash;
        other_queue.expected = 1;
        other_queue
    }

    /// A source port whose packets arrive at `queue`, or at another one.
    fn port(hash: &CardHash, is_ours: bool) -> u16 {
        let to = PeerAddress::from_v4([198, 18, 0, 1], 7000);
        (8000..).find(|&port| (hash.rss().queue(from(port), to) == QUEUE) == is_ours).unwrap()
    }

    #[test]
    fn a_known_rule_names_a_port_that_leads_to_the_socket() {
        let hash = CardHash::known(HashFields::Ports, &[0, 1, 2, 3]);
        let mut other_queue = with(Some(hash.clone()));
        let sender = from(port(&hash, false));
        let mut taken = 0;
        let wanted = other_queue.wanted(sender, &mut taken);
        assert!(wanted.bits() >= SOURCE_FIRST, "{wanted:?}");
        let to = other_queue.local.into();
        assert_eq!(hash.rss().queue(from(wanted.bits()), to), QUEUE);
        assert_eq!(other_queue.wanted(sender, &mut taken), WantedPort::KEEP, "not expected");
        assert_eq!(taken, 1);
    }

    #[test]
    fn without_a_rule_another_port_is_wanted() {
        let no_such_queue = CardHash::known(HashFields::Ports, &[0, 1]);
        for hash in [None, Some(no_such_queue)] {
            assert_eq!(with(hash).wanted(from(8000), &mut 0), WantedPort::other(4));
        }
    }

    #[test]
    fn the_advice_comes_once_most_packets_come_by_other_queues() {
        let mut other_queue = with(Some(CardHash::known(HashFields::Addresses, &[0])));
        let mut advice = |xsk_received, by_others| {
            let stats = PortStats { xsk_received, other_queue: by_others, ..PortStats::default() };
            let mut status = PortStatus::sample();
            other_queue.card.filters = true;
            let asks = other_queue.complain(&stats, &mut status);
            assert_eq!(asks, !status.advice.is_empty());
            status.advice
        };
        assert_eq!(advice(0, SAID_FROM - 1), "");
        assert_eq!(advice(SAID_FROM + 1, SAID_FROM), "");
        let said = advice(SAID_FROM, SAID_FROM);
        assert!(said.starts_with("`ethtool -N eth0 rx-flow-hash udp4 sdfn`"), "{said}");
        assert_eq!(advice(0, SAID_FROM), "", "once");
    }

    #[test]
    fn nothing_is_wanted_of_the_senders_to_a_card_that_hashes_no_ports() {
        let hash = CardHash::known(HashFields::Addresses, &[0]);
        assert_eq!(with(Some(hash)).wanted(from(8000), &mut 0), WantedPort::KEEP);
    }

    #[test]
    fn a_packet_on_the_right_queue_is_passed_over_and_the_next_one_decides() {
        let hash = CardHash::known(HashFields::Ports, &[0, 1, 2, 3]);
        let mut other_queue = with(Some(hash.clone()));
        let (right, wrong) = (from(port(&hash, true)), from(port(&hash, false)));
        for _ in 0..3 * CONTRADICTIONS_MAX {
            let mut taken = 0;
            other_queue.expected = 1;
            assert_eq!(other_queue.wanted(right, &mut taken), WantedPort::KEEP);
            assert_eq!(taken, 0);
            assert!(other_queue.wanted(wrong, &mut taken).bits() >= SOURCE_FIRST);
            assert_eq!(taken, 1);
            other_queue.emptied();
        }
        assert!(other_queue.card.rule.hash.is_some());
    }

    #[test]
    fn a_round_that_contradicts_the_rule_by_chance_leaves_it() {
        let hash = CardHash::known(HashFields::Ports, &[0, 1, 2, 3]);
        let mut other_queue = with(Some(hash.clone()));
        let (right, wrong) = (from(port(&hash, true)), from(port(&hash, false)));
        for _ in 0..3 * CONTRADICTIONS_MAX {
            // The packet of another queue is late.
            for sender in [right, wrong] {
                other_queue.expected = 1;
                other_queue.wanted(sender, &mut 0);
                other_queue.emptied();
            }
            assert!(other_queue.card.rule.is_outdated, "it is asked for again");
        }
        assert!(other_queue.card.rule.hash.is_some());
    }

    #[test]
    fn a_rule_that_packets_contradict_is_asked_for_again_and_not_at_once() {
        let hash = CardHash::known(HashFields::Ports, &[0, 1, 2, 3]);
        let mut other_queue = with(Some(hash.clone()));
        let sender = from(port(&hash, true));
        let mut contradict = |now: u64, rule: Option<CardHash>| {
            other_queue.card.rule.hash = rule;
            for _ in 0..CONTRADICTIONS_MAX {
                other_queue.expected = 1;
                other_queue.wanted(sender, &mut 0);
                other_queue.emptied();
            }
            other_queue.expected = 1;
            assert_eq!(other_queue.wanted(sender, &mut 0), WantedPort::other(4));
            assert!(other_queue.card.rule.hash.is_none() && other_queue.card.rule.is_outdated);
            other_queue.refresh(Instant::from_nanos(now));
            let is_outdated = other_queue.card.rule.is_outdated;
            while other_queue.card.rule.question.is_some() {
                other_queue.refresh(Instant::from_nanos(now));
                std::thread::yield_now();
            }
            is_outdated
        };
        assert!(contradict(ASK_PAUSE_NANOS - 1, Some(hash.clone())));
        assert!(!contradict(ASK_PAUSE_NANOS, None), "it was asked for");
        assert!(contradict(2 * ASK_PAUSE_NANOS - 1, Some(hash.clone())));
        assert!(!contradict(2 * ASK_PAUSE_NANOS, None));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections come about and end (`docs/PROTOCOL.md` §5): hello, its answer, cookie, reset.
//!
//! In: handshake packets from anybody. Out: connections, and answers in a bounded queue. What was
//! agreed on with one incarnation is given up for another only against a cookie, or for its answer
//! to a hello of ours, so that replayed or forged hellos neither end a connection nor prevent one.

use super::Engine;
use super::answer::Answer;
use super::reclaim::RECLAIM_STEPS;
use crate::peer::{AckDue, Errors, State, token};
use crate::serial::{Msn, Psn};
use crate::slab::{NIL, Slab};
use crate::time::Tick;
use crate::window::{ReceiveWindow, WINDOW_PACKETS};
use crate::wire::{Handshake, Header, PACKET_LEN_MIN, PacketKind};
use crate::{DropReason, Instant, OpError, PeerAddress};

/// First repetition of a handshake; doubles each time.
const HELLO_REPEAT_NANOS: u64 = 5_000_000;
/// The interval doubles this many times at the most (320 ms).
const HELLO_REPEAT_DOUBLINGS: u8 = 6;

impl Engine<'_> {
    /// Begins a connection to a peer that has none.
    pub(super) fn open(&mut self, number: u32, active: u32) {
        let now = self.tick();
        self.epochs = self.next_epoch(number);
        let peer = &mut self.peers[number];
        peer.state = State::HelloSent;
        peer.epoch = self.epochs;
        self.restart_numbers(active);
        let state = &mut self.actives[active];
        state.proposed = self.epochs;
        state.silent_since = now;
        state.timer_from = now;
        state.hello_count = 0;
        state.cookie = 0;
        state.hello_at = Some(now.plus_nanos(HELLO_REPEAT_NANOS));
        self.answer(Answer::Hello(self.peer_id(number)));
    }

    /// The number of a new connection to a peer: newer than that of any before, of this peer or of
    /// one that had its address. A peer that is new in the table has none to begin from, which its
    /// 0 says: compared with the others' it would be the newer one after half a turn of the
    /// numbers.
    fn next_epoch(&self, number: u32) -> u16 {
        let own = self.peers[number].epoch;
        let last = if own == 0 { self.epochs } else { newest(own, self.epochs) };
        last.wrapping_add(1).max(1)
    }

    /// The sender's numbers of a new connection.
    fn restart_numbers(&mut self, active: u32) {
        let base = Psn(self.rng.next() as u32);
        let state = &mut self.actives[active];
        state.first_psn = base;
        state.next_psn = base;
        state.lost_from = base;
        state.writes_end = base;
        state.next_msn = Msn(0);
        state.sent_msn = Msn(0);
        state.accepted_msn = Msn(0);
        state.tx_rnr_epoch = 0;
    }

    /// Operations were posted to a peer whose hello was agreed to: if nothing comes of that in time
    /// this side asks, too. The hello may have been an old one, and nobody waits for the answer.
    pub(super) fn ask_accepted(&mut self, number: u32, active: u32) {
        let now = self.tick();
        let state = &mut self.actives[active];
        if state.hello_at.is_some() {
            return;
        }
        if state.proposed == 0 {
            state.proposed = self.peers[number].epoch;
        }
        state.silent_since = now;
        state.hello_at = Some(now.plus_nanos(HELLO_REPEAT_NANOS));
        self.arm(active, self.now);
    }

    /// The handshake was not answered in time.
    pub(super) fn repeat_handshake(&mut self, active: u32) {
        let now = self.tick();
        let state = &mut self.actives[active];
        state.hello_count = state.hello_count.saturating_add(1);
        let pause = HELLO_REPEAT_NANOS << state.hello_count.min(HELLO_REPEAT_DOUBLINGS);
        state.hello_at = Some(now.plus_nanos(pause));
        let number = state.peer;
        let id = self.peer_id(number);
        match self.peers[number].state {
            State::HelloSent => self.answer(Answer::Hello(id)),
            State::Accepted => {
                self.answer(Answer::HelloAck(id));
                self.answer(Answer::Hello(id));
            }
            State::Closed | State::Established | State::Removed => {
                self.actives[active].hello_at = None;
            }
        }
    }

    pub(super) fn take_in_handshake(
        &mut self,
        now: Instant,
        header: &Header,
        handshake: &Handshake,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let sane = handshake.src_incarnation.get() != 0
            && usize::from(handshake.receive_max.get()) >= PACKET_LEN_MIN
            && handshake.window.get() > 0;
        if !sane {
            return Err(DropReason::Malformed);
        }
        match header.kind() {
            Some(PacketKind::Hello) => self.take_in_hello(now, handshake, from),
            Some(PacketKind::HelloAck) => self.take_in_hello_ack(now, header, handshake, from),
            _ => self.take_in_retry(header, handshake, from),
        }
    }

    fn take_in_hello(
        &mut self,
        now: Instant,
        hello: &Handshake,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let number = match self.find_peer(&from) {
            Some(number) => number,
            None if self.is_crowded() && !self.is_cookie(hello, &from, now) => {
                self.ask_again(now, hello, from);
                return Ok(());
            }
            None => {
                if is_crowded(&self.peers) {
                    self.reclaim_peer(RECLAIM_STEPS);
                }
                self.add_peer(from).map_err(|_| DropReason::NoRoom)?
            }
        };
        let peer = &self.peers[number];
        let same = peer.remote_incarnation == hello.src_incarnation.get();
        let epoch = hello.epoch.get();
        let old = same && !is_newer(epoch, peer.hello_epoch);
        let proven = self.is_cookie(hello, &from, now);
        match peer.state {
            State::Accepted | State::Established if same && epoch == peer.hello_epoch => {
                // The answer was lost, or this is an old copy: either way nothing changes.
                self.answer(Answer::HelloAck(self.peer_id(number)));
                return Ok(());
            }
            // Whatever this side is waiting for.
            State::HelloSent | State::Established if old => {
                return Err(DropReason::UnexpectedHandshake);
            }
            // Old; or new, of a peer that has made so many connections to others since that the
            // numbers came round.
            State::Closed | State::Accepted if old && !proven => {
                self.ask_again(now, hello, from);
                return Ok(());
            }
            State::Accepted | State::Established if !same && !proven => {
                self.ask_again(now, hello, from);
                return Ok(());
            }
            State::Established => self.end_connection(number, OpError::Reset),
            // Nothing was sent yet: what was posted goes by the connection that comes about.
            State::Accepted | State::Closed | State::HelloSent | State::Removed => {}
        }
        self.accept_hello(now, number, hello)
    }

    /// Whether strangers must show that they receive at their address before they get a slot: three
    /// quarters of those for peers, or for active ones, are taken. A flood of forged hellos cannot
    /// take the rest.
    fn is_crowded(&self) -> bool {
        is_crowded(&self.peers) || is_crowded(&self.actives)
    }

    /// Agrees to a peer's hello, whether or not this side sent one of its own.
    fn accept_hello(
        &mut self,
        now: Instant,
        number: u32,
        hello: &Handshake,
    ) -> Result<(), DropReason> {
        let active = self.activate(number, now, false).ok_or(DropReason::NoRoom)?;
        let crossed = self.peers[number].state == State::HelloSent;
        self.stats.crossed_hellos += u64::from(crossed);
        if self.peers[number].state == State::Closed {
            self.restart_numbers(active);
        }
        // Crossed hellos meet in the higher number; both sides come to the same.
        let proposed = self.actives[active].proposed;
        let own = if proposed == 0 { self.next_epoch(number) } else { proposed };
        let theirs = hello.epoch.get();
        let epoch = newest(own, theirs);
        let peer = &mut self.peers[number];
        peer.hello_epoch = theirs;
        peer.state = State::Accepted;
        self.connect(number, active, hello, epoch);
        let state = &mut self.actives[active];
        // Where hellos crossed, this tells the round trip if its own went out once.
        state.hello_count = u8::from(crossed && state.hello_count > 0);
        if !crossed {
            state.timer_from = Tick::of(now);
        }
        let repeat = Tick::of(now).plus_nanos(HELLO_REPEAT_NANOS);
        state.hello_at = (!state.sends.list.is_empty()).then_some(repeat);
        self.answer(Answer::HelloAck(self.peer_id(number)));
        self.arm(active, now);
        Ok(())
    }

    /// Notes what both sides now know of the connection.
    fn connect(&mut self, number: u32, active: u32, handshake: &Handshake, epoch: u16) {
        let peer = &mut self.peers[number];
        peer.remote_incarnation = handshake.src_incarnation.get();
        peer.remote_cid = handshake.src_cid.get();
        peer.epoch = epoch;
        self.epochs = newest(self.epochs, epoch);
        peer.token = token(self.identity.incarnation, peer.remote_incarnation, epoch);
        peer.receive_max = handshake.receive_max.get();
        let window = u32::from(handshake.window.get()).clamp(1, WINDOW_PACKETS);
        peer.window_less_one = (window - 1) as u8;
        let state = &mut self.actives[active];
        state.window = ReceiveWindow::new(Psn(handshake.psn_base.get()));
        state.expected_msn = Msn(0);
        state.rx_rnr_epoch = 0;
        state.not_ready = false;
        state.received = 0;
        state.errors = Errors { last: u32::MAX, ..Errors::default() };
    }

    fn take_in_hello_ack(
        &mut self,
        now: Instant,
        header: &Header,
        ack: &Handshake,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let number = self.own_handshake(header, ack, from)?;
        let (incarnation, epoch) = (ack.src_incarnation.get(), ack.epoch.get());
        let peer = &self.peers[number];
        let same = peer.remote_incarnation == incarnation && peer.epoch == epoch;
        let active = peer.active;
        match peer.state {
            State::Accepted if same => {
                // Nothing was received yet; and the hello that was accepted may have been an old
                // one, of an attempt that the peer has given up.
                let base = Psn(ack.psn_base.get());
                let active = self.activate(number, now, false).ok_or(DropReason::NoRoom)?;
                self.actives[active].window = ReceiveWindow::new(base);
                if self.is_echoed(active, ack) {
                    self.establish(active);
                } else {
                    self.answer(Answer::HelloAck(self.peer_id(number)));
                    self.arm(active, now);
                }
            }
            // The hello that was accepted may have been an old one, of somebody who is gone: who
            // agrees to ours is there.
            State::HelloSent | State::Accepted if self.is_agreed(active, ack) => {
                let peer = &mut self.peers[number];
                peer.hello_epoch = epoch;
                self.connect(number, active, ack, epoch);
                self.establish(active);
            }
            // The peer repeats it because nothing of ours has reached it yet.
            State::Established if same => {
                let active = self.activate(number, now, false).ok_or(DropReason::NoRoom)?;
                self.actives[active].ack_due = AckDue::Now;
                self.make_ready(active);
                self.arm(active, now);
            }
            _ => return Err(DropReason::UnexpectedHandshake),
        }
        Ok(())
    }

    /// Whether the peer agrees to the hello that this side has sent last.
    fn is_agreed(&self, active: u32, ack: &Handshake) -> bool {
        if active == NIL {
            return false;
        }
        let proposed = self.actives[active].proposed;
        proposed != 0 && !is_newer(proposed, ack.epoch.get()) && self.is_echoed(active, ack)
    }

    /// Whether the peer counts from the number that this side will send from. It may have agreed to
    /// an old hello.
    fn is_echoed(&self, active: u32, ack: &Handshake) -> bool {
        u64::from(self.actives[active].first_psn.0) == ack.cookie.get()
    }

    fn take_in_retry(
        &mut self,
        header: &Header,
        retry: &Handshake,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let number = self.own_handshake(header, retry, from)?;
        let peer = &self.peers[number];
        let asked = peer.active != NIL && self.actives[peer.active].proposed != 0;
        if !asked || !matches!(peer.state, State::HelloSent | State::Accepted) {
            return Err(DropReason::UnexpectedHandshake);
        }
        self.actives[peer.active].cookie = retry.cookie.get();
        self.answer(Answer::Hello(self.peer_id(number)));
        Ok(())
    }

    /// The peer of ours that an answer to our hello belongs to.
    fn own_handshake(
        &self,
        header: &Header,
        answer: &Handshake,
        from: PeerAddress,
    ) -> Result<u32, DropReason> {
        let number = self.peer_number(header.dst_cid()).ok_or(DropReason::UnknownConnection)?;
        if self.peers[number].address != from {
            return Err(DropReason::WrongSource);
        }
        if answer.dst_incarnation.get() != self.identity.incarnation {
            return Err(DropReason::UnexpectedHandshake);
        }
        Ok(number)
    }

    /// A packet of the connection arrived: the peer knows that there is one.
    pub(super) fn confirm(&mut self, active: u32) {
        if self.peers[self.actives[active].peer].state == State::Accepted {
            self.establish(active);
        }
    }

    fn establish(&mut self, active: u32) {
        if active == NIL {
            return;
        }
        let now = self.tick();
        let state = &mut self.actives[active];
        if state.hello_count == 0 {
            // An answer to what this side sent once: the first measurement. Without one the first
            // loss would wait for the longest time-out.
            state.rtt.sample(now.since(state.timer_from));
        }
        state.hello_at = None;
        state.silent_since = now;
        state.timer_from = now;
        // The peer learns from it that this side knows, unless data tells it first.
        state.ack_due = AckDue::Now;
        let peer = &mut self.peers[state.peer];
        peer.state = State::Established;
        log::debug!("peer {}: connected, epoch {}", peer.address, peer.epoch);
        self.stats.handshakes += 1;
        self.make_ready(active);
        self.arm(active, self.now);
    }

    /// A reset counts if it repeats the token, and the number of a packet that is under way.
    pub(super) fn take_in_reset(
        &mut self,
        header: &Header,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let number = self.find_peer(&from).ok_or(DropReason::UnknownConnection)?;
        let peer = &self.peers[number];
        if !peer.is_established() || peer.active == NIL || peer.token != header.token() {
            return Err(DropReason::UnprovenReset);
        }
        let state = &self.actives[peer.active];
        let distance = header.psn().since(state.first_psn);
        if distance >= state.next_psn.since(state.first_psn) {
            return Err(DropReason::UnprovenReset);
        }
        log::info!("peer {}: {}", peer.address, OpError::Reset);
        self.end_connection(number, OpError::Reset);
        Ok(())
    }
}

/// Whether three quarters of the slots are taken.
fn is_crowded<T>(slots: &Slab<'_, T>) -> bool {
    slots.used() >= slots.capacity() - slots.capacity() / 4
}

/// The later of two epochs.
fn newest(one: u16, other: u16) -> u16 {
    if is_newer(one, other) { one } else { other }
}

/// Whether epoch `one` comes after epoch `other`; epochs wrap.
fn is_newer(one: u16, other: u16) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead != 0 && ahead < 1 << 15
}

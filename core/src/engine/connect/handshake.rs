// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handshake: connections are opened, agreed on and reset (`docs/PROTOCOL.md` §5).
//!
//! In: handshake packets from anywhere. Out: connections, and replies in a bounded queue, none of
//! them longer than its cause. A connection is given up for another one only against a cookie, or
//! for a reply to a hello of ours. Therefore replayed or forged hellos neither end a connection nor
//! prevent one. Bound: one reply a packet, and the steps of [`evict_peer`].

use crate::collections::secret::Use;
use crate::collections::serial::Psn;
use crate::collections::slab::{Slab, SlotIndex};
use crate::collections::time::TICK_NANOS;
use crate::engine::connect::evict::{EVICT_STEPS, evict_connection, evict_peer};
use crate::engine::connect::packet::StatelessPacket;
use crate::engine::connect::teardown::end_connection;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::{Errors, Standing, State};
use crate::wire::{Handshake, Header, PACKET_LEN_MIN, PacketKind, Token};
use crate::{DropReason, LinkState, OpError, PeerAddress, PeerId, PeersFull};

/// A peer that was heard within this time (20 ms, in ticks) is taken to have its connection.
const PRESENT_TICKS: u32 = (20_000_000 / TICK_NANOS) as u32;

/// Whether three quarters of the slots are taken.
fn is_crowded<T: Default, I: SlotIndex>(slots: &Slab<'_, T, I>) -> bool {
    slots.used() >= slots.capacity() - slots.capacity() / 4
}

/// The later of two epochs.
fn later_epoch(one: u16, other: u16) -> u16 {
    if is_newer(one, other) { one } else { other }
}

/// Whether epoch `one` comes after epoch `other`; epochs wrap.
fn is_newer(one: u16, other: u16) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead != 0 && ahead < 1 << 15
}

impl Ctx<'_> {
    /// Adds a peer to the table.
    pub(crate) fn add_peer(&mut self, address: PeerAddress) -> Result<PeerSlot, PeersFull> {
        let now = self.timers.tick();
        if self.table.lacks_slots(now) {
            self.table.begin_slots(&mut self.secret);
        }
        if self.table.is_quarantined(now) {
            self.stats.quarantined += 1;
            return Err(PeersFull::Quarantined);
        }
        self.table.insert(address).ok_or(PeersFull::Full)
    }

    /// Opens a connection to a peer that has none.
    pub(crate) fn start_handshake(&mut self, slot: PeerSlot, conn: ConnSlot) {
        let now = self.timers.tick();
        self.table.epochs = self.next_epoch(slot);
        let peer = &mut self.table.peers[slot];
        peer.propose(self.table.epochs);
        self.restart_numbers(conn);
        let state = &mut self.table.connections[conn];
        state.rx_mut().count_silence_from(now);
        state.path_mut().restart_timer(now);
        state.hello_mut().sent(self.table.epochs, now);
        self.table.queue_stateless(StatelessPacket::Hello(self.table.peer_id(slot)));
    }

    /// The epoch of a new connection to a peer. It is newer than that of any earlier connection
    /// with its address. A peer that is new in the table has epoch 0, which stands for no epoch.
    fn next_epoch(&self, slot: PeerSlot) -> u16 {
        let own = self.table.peers[slot].epoch();
        let last = if own == 0 { self.table.epochs } else { later_epoch(own, self.table.epochs) };
        last.wrapping_add(1).max(1)
    }

    /// Sets the sender's sequence numbers for a new connection.
    fn restart_numbers(&mut self, conn: ConnSlot) {
        #[cfg(not(feature = "test-util"))]
        let base = Psn(self.secret.draw(Use::PacketNumber) as u32);
        #[cfg(feature = "test-util")]
        let base =
            self.first_psn.unwrap_or_else(|| Psn(self.secret.draw(Use::PacketNumber) as u32));
        self.table.connections[conn].tx_mut().restart(base);
    }

    /// Schedules a hello of this side to a peer with an accepted hello, because of an older one.
    fn ask_whether_accepted(&mut self, slot: PeerSlot) -> Result<(), DropReason> {
        let now = self.timers.tick();
        let conn = self.table.allocate_connection(slot, now, false).ok_or(DropReason::NoRoom)?;
        self.ask_accepted(slot, conn);
        Ok(())
    }

    /// Whether a packet of an established connection has arrived a moment ago.
    fn is_present(&self, slot: PeerSlot) -> bool {
        let conn = self.table.peers[slot].connection();
        let since = |conn: ConnSlot| self.timers.tick().since(self.table[conn].rx().last_heard());
        conn.is_some() && since(conn) < PRESENT_TICKS
    }

    /// Asks the peer of an established connection whether it still has it, because of an old hello
    /// with its cookie.
    fn ask_whether_connected(&mut self, slot: PeerSlot) -> Result<(), DropReason> {
        let now = self.timers.tick();
        let conn = self.table.allocate_connection(slot, now, false).ok_or(DropReason::NoRoom)?;
        let asked = self.challenge(conn);
        self.arm(conn);
        asked
    }

    /// Agrees once more to the hello that was accepted last.
    fn repeat_agreement(&mut self, slot: PeerSlot) {
        let peer = &self.table.peers[slot];
        if peer.state() == State::Accepted && peer.connection().is_some() {
            // The next packet may answer the first agreement or this one.
            self.table.connections[peer.connection()].hello_mut().answered_again();
        }
        self.table.queue_stateless(StatelessPacket::HelloAck(self.table.peer_id(slot)));
    }

    /// Schedules a hello of this side, after operations were posted to a peer with an accepted
    /// hello. That hello may have been an old one, and its sender may not expect the reply any
    /// more.
    pub(crate) fn ask_accepted(&mut self, slot: PeerSlot, conn: ConnSlot) {
        let now = self.timers.tick();
        let state = &mut self.table.connections[conn];
        if state.hello().repeat_at().is_some() {
            return;
        }
        state.rx_mut().count_silence_from(now);
        let hello = state.hello_mut();
        hello.propose(self.table.peers[slot].epoch());
        hello.expect_reply(now);
        self.arm(conn);
    }

    /// Repeats a handshake that was not answered in time.
    pub(crate) fn repeat_handshake(&mut self, conn: ConnSlot) {
        let now = self.timers.tick();
        let state = &mut self.table.connections[conn];
        state.hello_mut().repeated(now);
        let slot = state.peer();
        let id = self.table.peer_id(slot);
        match self.table.peers[slot].state() {
            State::HelloSent => self.table.queue_stateless(StatelessPacket::Hello(id)),
            State::Accepted => {
                self.table.queue_stateless(StatelessPacket::HelloAck(id));
                self.table.queue_stateless(StatelessPacket::Hello(id));
            }
            State::Closed | State::Established | State::Removed => {
                self.table.connections[conn].hello_mut().stop();
            }
        }
    }
}

pub(crate) fn process_handshake(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    header: &Header,
    handshake: &Handshake,
    from: PeerAddress,
) -> Result<(), DropReason> {
    let has_epoch = handshake.epoch.get() != 0 || header.kind() == Some(PacketKind::Retry);
    let sane = handshake.src_incarnation.get() != 0
        && has_epoch
        && usize::from(handshake.receive_max.get()) >= PACKET_LEN_MIN
        && handshake.port_packets.get() > 0;
    if !sane {
        return Err(DropReason::Malformed);
    }
    match header.kind() {
        Some(PacketKind::Hello) => {
            // The hello of a connected endpoint names the connection (§12).
            let is_named = cx.config.named_peers_only || !header.dst_cid().is_none();
            let slot = if is_named {
                Some(cx.own_handshake(header, handshake, from)?)
            } else {
                cx.table.find_peer(from, PeerId::NONE)
            };
            process_hello(cx, sender, matcher, slot, handshake, from)
        }
        Some(PacketKind::HelloAck) => cx.process_hello_ack(header, handshake, from),
        _ => cx.process_retry(header, handshake, from),
    }
}

/// Processes a hello. Nothing changes at an address with a connection, in any state, before the
/// sender has shown with a cookie that it receives there.
fn process_hello(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    slot: Option<PeerSlot>,
    hello: &Handshake,
    from: PeerAddress,
) -> Result<(), DropReason> {
    let Some(slot) = slot else {
        return process_first_hello(cx, sender, matcher, hello, from);
    };
    let peer = &cx.table.peers[slot];
    let same = peer.is_of(cx.incarnation(&from), hello.src_incarnation.get());
    let epoch = hello.epoch.get();
    let old = same && !is_newer(epoch, peer.hello_epoch());
    let proven = cx.is_cookie(hello, &from);
    match peer.state() {
        State::Accepted | State::Established if same && epoch == peer.hello_epoch() => {
            // The reply was lost, or this is an old copy: the connection is the same either way.
            cx.repeat_agreement(slot);
            return Ok(());
        }
        // The peer may have removed this side, and other hellos may have moved its epochs by half
        // of their range since. Without an answer it could make no connection, as long as this side
        // sends nothing.
        State::Established if old && !cx.is_present(slot) => {
            if proven {
                evict_connection(cx, sender, matcher, slot);
                return cx.ask_whether_connected(slot);
            }
            cx.send_retry(hello, from);
            return Ok(());
        }
        // An old hello, while this side waits for its own, or hears the peer on its connection.
        State::HelloSent | State::Established if old => {
            return Err(DropReason::UnexpectedHandshake);
        }
        State::Closed if !old => {}
        // A hello that changes a connection; or an old one, or that of a peer with epochs that have
        // wrapped since.
        _ if !proven => {
            cx.send_retry(hello, from);
            return Ok(());
        }
        // Its cookie does not tell an old copy from the hello of a peer whose epochs have wrapped.
        // The copy would change the numbers of a connection that the peer uses already. A hello of
        // this side makes the peer tell.
        State::Accepted if old => return cx.ask_whether_accepted(slot),
        State::Established => end_connection(cx, sender, matcher, slot, OpError::Reset),
        // Nothing was sent yet: posted operations use the new connection.
        State::Accepted | State::Closed | State::HelloSent | State::Removed => {}
    }
    if proven {
        cx.table.set_standing(slot, Standing::Proven);
    }
    evict_connection(cx, sender, matcher, slot);
    cx.accept_hello(slot, hello)
}

/// Processes the hello of a peer that is not in the table.
fn process_first_hello(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    hello: &Handshake,
    from: PeerAddress,
) -> Result<(), DropReason> {
    let proven = cx.is_cookie(hello, &from);
    let many_unproven = cx.table.has_many_unproven();
    if !proven && (many_unproven || cx.is_crowded()) {
        cx.send_retry(hello, from);
        return Ok(());
    }
    cx.table.newcomers.push(from);
    if !cx.table.has_peer_share(&from) {
        let now = cx.timers.now();
        if !cx.table.may_evict(now) {
            return Err(DropReason::NoRoom);
        }
        let host = cx.table.host_of(&from);
        evict_peer(cx, sender, matcher, Some(host), EVICT_STEPS);
        // A search that finds no peer to evict costs as much, and is repeated as late.
        cx.table.pace_evictions(now);
        if !cx.table.has_peer_share(&from) {
            return Err(DropReason::NoRoom);
        }
    } else if many_unproven || is_crowded(&cx.table.peers) {
        evict_peer(cx, sender, matcher, None, EVICT_STEPS);
    }
    let slot = cx.add_peer(from).map_err(|_| DropReason::NoRoom)?;
    let standing = if proven { Standing::Proven } else { Standing::Unproven };
    cx.table.set_standing(slot, standing);
    evict_connection(cx, sender, matcher, slot);
    cx.accept_hello(slot, hello)
}

impl Ctx<'_> {
    /// Whether three quarters of the slots for peers or connections are taken: unknown peers must
    /// prove then that they receive at their address.
    fn is_crowded(&self) -> bool {
        is_crowded(&self.table.peers) || is_crowded(&self.table.connections)
    }

    /// Agrees to a peer's hello, whether or not this side has sent one.
    fn accept_hello(&mut self, slot: PeerSlot, hello: &Handshake) -> Result<(), DropReason> {
        if self.ending.has_ops() {
            // The next progress calls end them; the peer says hello again.
            return Err(DropReason::NoRoom);
        }
        let conn = self
            .table
            .allocate_connection(slot, self.timers.tick(), false)
            .ok_or(DropReason::NoRoom)?;
        let crossed = self.table.peers[slot].state() == State::HelloSent;
        self.stats.crossed_hellos += u64::from(crossed);
        if self.table.peers[slot].state() == State::Closed {
            self.restart_numbers(conn);
        }
        // Crossed hellos agree on the later epoch; both sides find the same.
        let proposed = self.table.connections[conn].hello().proposed();
        let own = if proposed == 0 { self.next_epoch(slot) } else { proposed };
        let theirs = hello.epoch.get();
        let epoch = later_epoch(own, theirs);
        let peer = &mut self.table.peers[slot];
        peer.accept(theirs);
        self.connect(slot, conn, hello, epoch);
        let state = &mut self.table.connections[conn];
        let now = self.timers.tick();
        state.hello_mut().agreed(crossed);
        if !crossed {
            state.path_mut().restart_timer(now);
        }
        // The application of a connected endpoint learns when both sides know of the connection.
        let is_unneeded = state.sends().list().is_empty() && !self.config.named_peers_only;
        if is_unneeded {
            state.hello_mut().stop();
        } else {
            state.hello_mut().expect_reply(now);
        }
        self.table.queue_stateless(StatelessPacket::HelloAck(self.table.peer_id(slot)));
        self.arm(conn);
        Ok(())
    }

    /// Records the parameters that both sides now know of the connection.
    fn connect(&mut self, slot: PeerSlot, conn: ConnSlot, handshake: &Handshake, epoch: u16) {
        let own = self.incarnation(&self.table.peers[slot].address());
        let peer = &mut self.table.peers[slot];
        peer.connect(own, handshake, epoch);
        self.table.set_name_port(slot, handshake.name_port.get());
        self.table.epochs = later_epoch(self.table.epochs, epoch);
        let state = &mut self.table.connections[conn];
        state.rx_mut().restart(Psn(handshake.psn_base.get()));
        *state.errors_mut() = Errors::default();
    }

    fn process_hello_ack(
        &mut self,
        header: &Header,
        ack: &Handshake,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let slot = self.own_handshake(header, ack, from)?;
        let (incarnation, epoch) = (ack.src_incarnation.get(), ack.epoch.get());
        let token = Token::new(self.incarnation(&from), incarnation, epoch);
        if !header.proves(token) {
            return Err(DropReason::UnexpectedHandshake);
        }
        let peer = &self.table.peers[slot];
        let same = peer.token() == token;
        let conn = peer.connection();
        match peer.state() {
            State::Accepted if same => {
                // Nothing was received yet; the accepted hello may have been an old one, of an
                // attempt that the peer has given up.
                let base = Psn(ack.psn_base.get());
                let conn = self
                    .table
                    .allocate_connection(slot, self.timers.tick(), false)
                    .ok_or(DropReason::NoRoom)?;
                self.table.connections[conn].rx_mut().rebase(base);
                if self.is_echoed(conn, ack) {
                    self.establish(conn);
                } else {
                    self.repeat_agreement(slot);
                    self.arm(conn);
                }
            }
            // The accepted hello may have been an old one, of a former process. A peer that agrees
            // to our hello exists.
            State::HelloSent | State::Accepted if self.is_agreed(conn, ack) => {
                let peer = &mut self.table.peers[slot];
                peer.set_hello_epoch(epoch);
                self.connect(slot, conn, ack, epoch);
                self.establish(conn);
            }
            // The peer repeats it because no packet of ours has reached it yet.
            State::Established if same => {
                let conn = self
                    .table
                    .allocate_connection(slot, self.timers.tick(), false)
                    .ok_or(DropReason::NoRoom)?;
                self.table.connections[conn].rx_mut().owe_ack_now();
                self.table.make_ready(conn);
                self.arm(conn);
            }
            _ => return Err(DropReason::UnexpectedHandshake),
        }
        Ok(())
    }

    /// Whether the peer agrees to the last hello of this side.
    fn is_agreed(&self, conn: ConnSlot, ack: &Handshake) -> bool {
        if conn.is_none() {
            return false;
        }
        let proposed = self.table.connections[conn].hello().proposed();
        proposed != 0 && !is_newer(proposed, ack.epoch.get()) && self.is_echoed(conn, ack)
    }

    /// Whether the peer counts from the number that this side sends from. It may have agreed to an
    /// old hello.
    fn is_echoed(&self, conn: ConnSlot, ack: &Handshake) -> bool {
        u64::from(self.table.connections[conn].tx().first_psn().0) == ack.cookie.get()
    }

    fn process_retry(
        &mut self,
        header: &Header,
        retry: &Handshake,
        from: PeerAddress,
    ) -> Result<(), DropReason> {
        let slot = self.own_handshake(header, retry, from)?;
        if retry.dst_incarnation.get() != self.incarnation(&from) {
            return Err(DropReason::UnexpectedHandshake);
        }
        let now = self.timers.tick();
        let peer = &self.table.peers[slot];
        let asked = peer.connection().is_some()
            && self.table.connections[peer.connection()].hello().proposed() != 0;
        if !asked || !matches!(peer.state(), State::HelloSent | State::Accepted) {
            return Err(DropReason::UnexpectedHandshake);
        }
        let state = &mut self.table.connections[peer.connection()];
        state.hello_mut().show(retry.cookie.get());
        // The reply to the next hello gives a measurement of the round trip.
        state.path_mut().restart_timer(now);
        self.table.queue_stateless(StatelessPacket::Hello(self.table.peer_id(slot)));
        Ok(())
    }

    /// The peer that a handshake packet names. A connected endpoint knows before by which name the
    /// peer has the connection.
    fn own_handshake(
        &self,
        header: &Header,
        handshake: &Handshake,
        from: PeerAddress,
    ) -> Result<PeerSlot, DropReason> {
        let slot = self.table.peer_slot(header.dst_cid()).ok_or(DropReason::UnknownConnection)?;
        let peer = &self.table.peers[slot];
        if peer.address() != from {
            return Err(DropReason::WrongSource);
        }
        let names = header.kind() != Some(PacketKind::Retry) && self.config.named_peers_only;
        if names && peer.remote_cid().bits() != handshake.src_cid.get() {
            return Err(DropReason::UnexpectedHandshake);
        }
        Ok(slot)
    }

    /// Establishes a connection: both sides know of it.
    pub(crate) fn establish(&mut self, conn: ConnSlot) {
        if conn.is_none() {
            return;
        }
        let now = self.timers.tick();
        let state = &mut self.table.connections[conn];
        if state.hello().is_measured() {
            // The first measurement of the round trip, from a packet that this side sent once.
            // Without it the first loss would wait for the longest time-out.
            let round_trip = now.since(state.path().timer_from());
            state.path_mut().sample(round_trip);
        }
        state.hello_mut().stop();
        state.rx_mut().count_silence_from(now);
        state.path_mut().restart_timer(now);
        // The acknowledgment shows the peer that this side knows of the connection, unless data
        // does so first.
        state.rx_mut().owe_ack_now();
        let slot = state.peer();
        self.table.set_standing(slot, Standing::Proven);
        let peer = &mut self.table.peers[slot];
        peer.establish();
        log::debug!("peer {}: connected, epoch {}", peer.address(), peer.epoch());
        self.stats.handshakes += 1;
        if self.config.named_peers_only {
            self.table.note_link(slot, LinkState::Open);
        }
        self.table.make_ready(conn);
        self.arm(conn);
    }
}

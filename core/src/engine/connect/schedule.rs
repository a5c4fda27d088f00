// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which connections send: round robin over the ready ones, and the corked ones apart.
//!
//! In: a connection that has something to send. Out: the connection that sends next. Bound: one
//! place for each connection.

use crate::collections::slab::SlotIndex;
use crate::engine::connect::ConnectionTable;
use crate::peer::Schedule;
use crate::peer::slots::ConnSlot;

/// A connection yields to the next one after this many packets: enough for GSO batches, fair enough
/// for latency.
const QUANTUM_PACKETS: u32 = 16;

impl ConnectionTable<'_> {
    /// Makes a connection ready to send.
    #[inline]
    pub(crate) fn make_ready(&mut self, conn: ConnSlot) {
        self.enqueue(conn, Schedule::Uncorked);
    }

    /// Moves a connection to the list of `schedule`; a ready one stays ready.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, conn: ConnSlot, schedule: Schedule) {
        let state = &mut self.connections[conn];
        let current = state.schedule();
        if current >= schedule {
            return;
        }
        state.scheduled(schedule);
        if current == Schedule::Ready {
            return;
        }
        if current == Schedule::Corked {
            self.corked.remove(&mut self.connections, conn);
        }
        let list = match schedule {
            Schedule::Idle => return,
            Schedule::Corked => &mut self.corked,
            Schedule::Ready | Schedule::Uncorked => &mut self.ready,
        };
        list.push_back(&mut self.connections, conn);
    }

    /// Whether a connection is ready to send.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a connection is corked.
    #[inline]
    pub(crate) fn has_corked(&self) -> bool {
        !self.corked.is_empty()
    }

    /// The first ready connection; it is the only one that [`Self::rotate`] moves.
    #[inline]
    pub(crate) fn first_ready(&self) -> Option<ConnSlot> {
        let conn = self.ready.head();
        conn.is_some().then_some(conn)
    }

    /// Moves the first ready connection on after it sent a packet. It stays first until its quantum
    /// is used up, goes to the end, or leaves the list. `sends`: it has a packet to send now;
    /// `more`: it has records to send, now or later.
    #[inline(always)]
    pub(crate) fn rotate(&mut self, conn: ConnSlot, sends: bool, more: bool) {
        self.quantum_left = self.quantum_left.saturating_sub(1);
        if !sends {
            self.ready.remove(&mut self.connections, conn);
            self.connections[conn].left_ready_queue();
            self.quantum_left = QUANTUM_PACKETS;
            if more {
                self.enqueue(conn, Schedule::Corked);
            }
        } else if self.quantum_left == 0 {
            self.ready.remove(&mut self.connections, conn);
            self.ready.push_back(&mut self.connections, conn);
            self.quantum_left = QUANTUM_PACKETS;
        }
    }

    /// Makes every corked connection ready: its records are sent without waiting for more. Bound:
    /// those connections.
    pub(crate) fn uncork(&mut self) {
        while !self.corked.is_empty() {
            self.make_ready(self.corked.head());
        }
    }

    /// Takes a connection out of every list.
    #[inline]
    pub(super) fn unschedule(&mut self, conn: ConnSlot) {
        let state = &mut self.connections[conn];
        let schedule = state.schedule();
        state.scheduled(Schedule::Idle);
        match schedule {
            Schedule::Idle => {}
            Schedule::Corked => self.corked.remove(&mut self.connections, conn),
            Schedule::Ready | Schedule::Uncorked => self.ready.remove(&mut self.connections, conn),
        }
    }
}

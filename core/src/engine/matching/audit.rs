// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the matcher's state, for tests.

use crate::engine::completions::Completions;
use crate::engine::ending::Ending;
use crate::engine::matching::Matcher;
use crate::engine::violation::{Violation, length, sound};
use crate::peer::Connection;
use crate::peer::operation::RecvKind;
use core::hash::{Hash, Hasher};

impl Matcher<'_> {
    /// Checks that free and used slots of the pools add up.
    pub(crate) fn audit_pools(&self) -> Result<(), Violation> {
        sound("assemblies", &self.assemblies)?;
        sound("recvs", &self.recvs)?;
        sound("unexpected", self.unexpected.slots())
    }

    /// How many messages of several packets are arriving.
    pub(crate) fn assemblies(&self) -> u32 {
        self.assemblies.used()
    }

    /// How many slots are in lists of a connection: receives, stored messages, assemblies.
    pub(crate) fn queued(&mut self, state: &Connection) -> [u32; 3] {
        [
            length(*state.pending_events(), &mut self.recvs),
            length(*state.out_of_order(), &mut self.unexpected),
            length(*state.assemblies(), &mut self.assemblies),
        ]
    }

    /// As [`Self::queued`], of ended connections.
    pub(crate) fn queued_to_end(&mut self, ending: &Ending) -> [u32; 3] {
        let (_, assemblies, events) = ending.lists();
        [length(events, &mut self.recvs), 0, length(assemblies, &mut self.assemblies)]
    }

    /// Checks that all slots are in lists, `queued` of them with their connections. Slots that wait
    /// for a message that is arriving or being read are in none.
    pub(crate) fn audit_lists(
        &mut self,
        completions: &Completions<'_>,
        [mut recvs, mut stored, assemblies]: [u32; 3],
        rendezvous_reads: u32,
    ) -> Result<(), Violation> {
        let posted = [false, true].map(|tagged| self.posted.list(tagged));
        for list in posted.into_iter().chain([self.rendezvous_queue, self.waiting]) {
            recvs += length(list, &mut self.recvs);
        }
        recvs += completions.finished_recvs(&mut self.recvs);
        let queued = [false, true].map(|tagged| self.stored.list(tagged));
        for list in queued.into_iter().chain([self.claimed, self.unexpected.discarded()]) {
            stored += length(list, &mut self.unexpected);
        }
        if !completions.link_slots().recvs_add_up(&self.recvs) {
            return Err(Violation::Pool("links"));
        }
        if !self.unexpected.hosts_add_up() {
            return Err(Violation::Pool("hosts"));
        }
        if assemblies != self.assemblies.used() {
            return Err(Violation::Pool("assemblies"));
        }
        // A receive that a message in several parts has matched is in no list, nor is a stored
        // message that is matched and still arriving.
        let loose = self.assemblies.used() + rendezvous_reads + self.audit_multi_recv()?;
        let recvs_used = self.recvs.used_in_all();
        if recvs > recvs_used || recvs_used > recvs + loose {
            return Err(Violation::Pool("recvs"));
        }
        let stored_used = self.unexpected.used();
        if stored > stored_used || stored_used > stored + self.assemblies.used() {
            return Err(Violation::Pool("unexpected"));
        }
        Ok(())
    }

    /// Checks multi-receive buffers. Each is as full as it says, is in its queue while it takes
    /// more, and counts its slices that have not ended. Returns how many are in no list, because
    /// they wait for those.
    fn audit_multi_recv(&self) -> Result<u32, Violation> {
        let mut waiting = 0;
        for slot in self.recvs.used_slots() {
            let op = &self.recvs[slot];
            let RecvKind::MultiRecv(buffer) = op.kind else { continue };
            let is_slice =
                |kind: RecvKind| matches!(kind, RecvKind::Slice { of, .. } if of == slot);
            let slices = self.recvs.used_slots().filter(|&other| is_slice(self.recvs[other].kind));
            let sound = buffer.is_sound(op.request.len, op.outcome.is_err());
            if slices.count() != buffer.open() as usize || !sound {
                return Err(Violation::MultiRecv);
            }
            waiting += u32::from(buffer.is_closed() && buffer.open() > 0);
        }
        Ok(waiting)
    }

    /// Hashes the state.
    pub(crate) fn digest(&self, hasher: &mut impl Hasher) {
        self.recvs.hash(hasher);
        self.assemblies.hash(hasher);
        self.unexpected.slots().hash(hasher);
        self.unexpected.next_messages().hash(hasher);
        self.unexpected.discarded().hash(hasher);
        self.slices_exhausted.hash(hasher);
        self.rendezvous_queue.hash(hasher);
        self.claimed.hash(hasher);
        self.waiting.hash(hasher);
    }
}

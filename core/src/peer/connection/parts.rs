// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to the parts of a connection, each of which keeps its own fields private.

use super::Connection;
use crate::collections::list::List;
use crate::peer::Path;
use crate::peer::credit::Credits;
use crate::peer::errors::Errors;
use crate::peer::hello::Hello;
use crate::peer::queue::Queue;
use crate::peer::receive_state::ReceiveState;
use crate::peer::send_state::SendState;
use crate::peer::slots::{AssemblySlot, RecvSlot, StoredSlot};

impl Connection {
    /// The sender's half.
    #[inline(always)]
    pub(crate) const fn tx(&self) -> &SendState {
        &self.tx
    }

    /// The sender's half, to record transmissions and acknowledgments.
    #[inline(always)]
    pub(crate) const fn tx_mut(&mut self) -> &mut SendState {
        &mut self.tx
    }

    /// The receiver's half.
    #[inline(always)]
    pub(crate) const fn rx(&self) -> &ReceiveState {
        &self.rx
    }

    /// The receiver's half, to record arrivals.
    #[inline(always)]
    pub(crate) const fn rx_mut(&mut self) -> &mut ReceiveState {
        &mut self.rx
    }

    /// The path to the peer.
    #[inline(always)]
    pub(crate) const fn path(&self) -> &Path {
        &self.path
    }

    /// The path to the peer, to record measurements and timers.
    #[inline(always)]
    pub(crate) const fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// The handshake.
    #[inline(always)]
    pub(crate) const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The handshake, to record hellos and replies.
    #[inline(always)]
    pub(crate) const fn hello_mut(&mut self) -> &mut Hello {
        &mut self.hello
    }

    /// Credit for requests.
    #[inline(always)]
    pub(crate) const fn credits(&self) -> &Credits {
        &self.credits
    }

    /// Credit for requests, to count them.
    #[inline(always)]
    pub(crate) const fn credits_mut(&mut self) -> &mut Credits {
        &mut self.credits
    }

    /// Counts of errors.
    #[inline(always)]
    pub(crate) const fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Counts of errors, to record others.
    #[inline(always)]
    pub(crate) const fn errors_mut(&mut self) -> &mut Errors {
        &mut self.errors
    }

    /// Operations of the application.
    #[inline(always)]
    pub(crate) const fn sends(&self) -> &Queue {
        &self.sends
    }

    /// Operations of the application, to queue and end them.
    #[inline(always)]
    pub(crate) const fn sends_mut(&mut self) -> &mut Queue {
        &mut self.sends
    }

    /// Internal operations.
    #[inline(always)]
    pub(crate) const fn responses(&self) -> &Queue {
        &self.responses
    }

    /// Internal operations, to queue and end them.
    #[inline(always)]
    pub(crate) const fn responses_mut(&mut self) -> &mut Queue {
        &mut self.responses
    }

    /// Messages of several packets that are arriving.
    #[inline(always)]
    pub(crate) const fn assemblies(&self) -> &List<AssemblySlot> {
        &self.assemblies
    }

    /// Messages of several packets that are arriving, to add and remove them.
    #[inline(always)]
    pub(crate) const fn assemblies_mut(&mut self) -> &mut List<AssemblySlot> {
        &mut self.assemblies
    }

    /// Stored messages that arrived before an earlier one, in message order.
    #[inline(always)]
    pub(crate) const fn out_of_order(&self) -> &List<StoredSlot> {
        &self.out_of_order
    }

    /// Stored messages that arrived before an earlier one, to add and remove them.
    #[inline(always)]
    pub(crate) const fn out_of_order_mut(&mut self) -> &mut List<StoredSlot> {
        &mut self.out_of_order
    }

    /// Events of remote writes behind a missing packet, in the order of packets.
    #[inline(always)]
    pub(crate) const fn pending_events(&self) -> &List<RecvSlot> {
        &self.pending_events
    }

    /// Events of remote writes behind a missing packet, to add and remove them.
    #[inline(always)]
    pub(crate) const fn pending_events_mut(&mut self) -> &mut List<RecvSlot> {
        &mut self.pending_events
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams (`FI_EP_DGRAM`): messages that leave as they are, once, without a connection.
//!
//! In: messages of the application, each of at most one packet. Out: packets without a header of
//! the engine. A datagram ends when it is handed to the port (`fi_endpoint(3)`: delivery is not
//! guaranteed). Bound: the slots of operations.

use crate::engine::ctx::Ctx;
use crate::engine::send::Sender;
use crate::peer::operation::{POSTED, TxKind, TxOp};
use crate::wire::Envelope;
use crate::{Destination, Gather, Memory, OpError, OpId, PostError, SendRequest, Source, Transmit};

/// The longest datagram that a receiver of this kind takes for one packet, in bytes, where a batch
/// may reach it in one piece: that of Ethernet's MTU of 1,500. A batch must be longer. The kernel
/// of the receiver takes longer datagrams, and cuts batches apart.
const DATAGRAM_MAX: u16 = 1472;

impl Sender<'_> {
    /// See [`Engine::post_datagram`](crate::Engine::post_datagram).
    pub(crate) fn post_datagram<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let SendRequest { common, len, tag, data } = request;
        if tag.is_some() || data.is_some() {
            return Err(PostError::Unsupported);
        }
        if len > cx.limits.payload_max as u64 {
            return Err(PostError::TooLong);
        }
        cx.table.peer_slot(common.peer).ok_or(PostError::UnknownPeer)?;
        let envelope = Envelope { total: len, ..Envelope::default() };
        let op = TxOp::posted(&common, TxKind::Message(envelope), len);
        let (slot, generation) = self.ops.alloc_entry(POSTED, op).ok_or(PostError::Again)?;
        self.datagrams.push_back(&mut self.ops, slot);
        self.datagrams_waiting += 1;
        let id = slot.id(generation);
        memory.attach_op(id, buffer);
        Ok(id)
    }

    /// Datagrams that wait to be sent.
    #[inline]
    pub(crate) const fn datagrams_waiting(&self) -> u32 {
        self.datagrams_waiting
    }

    /// Writes the oldest datagram into `packet`, and ends it. One whose peer was removed ends in
    /// error.
    pub(crate) fn transmit_datagram<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        // bound: the posted datagrams
        while let Some(slot) = self.datagrams.pop_front(&mut self.ops) {
            self.datagrams_waiting -= 1;
            let (peer, len) = (self.ops[slot].peer, self.ops[slot].total as usize);
            let address = cx.table.find(peer).map(|(_, peer)| peer.address());
            let (Some(address), Some(into)) = (address, packet.get_mut(..len)) else {
                self.ops[slot].outcome = Err(OpError::Closed);
                self.finish(cx, slot);
                continue;
            };
            let source = Source::Op(self.op_id(slot));
            memory.gather(Gather { source, offset: 0, more: false }, into);
            self.finish(cx, slot);
            cx.stats.packets_sent += 1;
            cx.stats.data_packets_sent += 1;
            let to = Destination { peer, address };
            return Some(Transmit { len, to, receive_max: DATAGRAM_MAX });
        }
        None
    }
}

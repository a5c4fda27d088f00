// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions of all nodes, each compared with the oracle.
//!
//! In: the completions that an engine has. Out: the oracle's record of ended operations, or a
//! broken invariant. Bound: the operations that were posted.

use crate::invariants::delivery::Identified;
use crate::invariants::{Checked, broken, delivery, rma};
use crate::net::node_of;
use crate::world::World;
use ofi_xdp_core::{Completion, OpError, OpKind, Order};

impl World {
    /// Polls every completion of a node and compares it with the oracle.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn collect(&mut self, node: u32) -> Checked {
        // bound: operations that were posted
        loop {
            let state = &mut self.nodes[node as usize];
            let done = state.engine.with_mut(|engine| {
                engine.poll_send_completion().or_else(|| engine.poll_recv_completion())
            });
            let Some(done) = done else { return Ok(()) };
            let peer = state.engine.with(|engine| engine.peer_address(done.peer));
            self.complete(node, &done, peer.map(|address| node_of(&address)))?;
            if let Some(log) = &mut self.log {
                log.push((node, done));
            }
        }
    }

    /// One completion.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn complete(&mut self, node: u32, done: &Completion, source: Option<u32>) -> Checked {
        let life = self.nodes[node as usize].life;
        self.coverage.outcome(done.outcome);
        if done.kind == OpKind::RemoteWrite {
            return rma::remote_data(self, node, done, source);
        }
        delivery::ends_once(&self.oracle, node, life, done)?;
        match done.kind {
            OpKind::Send { .. } => {
                let to = self.oracle.send(done.context.0).map_or(node, |(_, send)| send.to);
                delivery::failure_is_excused(&self.oracle, node, to, done)?;
                self.take_op(node, done.context.0);
            }
            OpKind::Write | OpKind::Read | OpKind::Atomic | OpKind::RemoteWrite => {
                let bytes = self.take_op(node, done.context.0);
                rma::remote_ended(self, node, done, &bytes.unwrap_or_default())?;
            }
            OpKind::Recv { tagged } => self.received(node, life, done, source, tagged)?,
        }
        self.oracle.end(done.context.0, done.outcome);
        Ok(())
    }

    /// The memory of a completed operation is the application's again.
    fn take_op(&mut self, node: u32, number: u64) -> Option<Vec<u8>> {
        let memory = &mut self.nodes[node as usize].memory;
        memory.op(number).and_then(|id| memory.take_op(id))
    }

    fn received(
        &mut self,
        node: u32,
        life: u32,
        done: &Completion,
        source: Option<u32>,
        tagged: bool,
    ) -> Checked {
        let recv = done.context.0;
        let memory = &mut self.nodes[node as usize].memory;
        let Some(bytes) = memory.recv(recv).and_then(|id| memory.take_recv(id)) else {
            return broken(4, format!("node {node}: receive {recv} has no buffer"));
        };
        if self.oracle.anything_goes || done.outcome == Err(OpError::Cancelled) {
            return Ok(());
        }
        if !matches!(done.outcome, Ok(()) | Err(OpError::Truncated)) {
            let from = source.unwrap_or(node);
            // It failed with its sender, whatever the receive's own age.
            return if self.oracle.is_excused(from, node, u64::MAX) || source.is_none() {
                Ok(())
            } else {
                broken(9, format!("node {node}: receive {recv} from {from}: {:?}", done.outcome))
            };
        }
        let found = delivery::identify(&self.oracle, (node, life), source, done, &bytes, tagged);
        let Some(Identified { send, is_certain }) = found else {
            return broken(1, format!("node {node}: receive {recv} got nothing known: {done:?}"));
        };
        delivery::once(&self.oracle, node, recv, send, source)?;
        delivery::contents(&self.oracle, done, send, &bytes)?;
        if is_certain {
            delivery::order(&self.oracle, node, life, recv, send)?;
        }
        rma::writes_before(self, node, send, Order::SAW)?;
        self.oracle.deliver((node, life), (recv, send), is_certain);
        Ok(())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions of a runtime: the hand-over of finished operations to the queues that read them.
//!
//! In: reads of completion queues. Out: each completion, with the part of it that the engine does
//! not know. Called by `objects::cq`. Bound: the operations of a runtime.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use ofi_xdp_core::{Budget, Completion, DropReason, Engine, Instant, OpError, PeerAddress, PeerId};

use super::receive_queue::SliceCompletion;
use super::side::{CompletionSource, Side};
use super::wakers::GroupQueues;
use super::{Runtime, State};
use crate::sys::abi::{ADDR_NONE, fi_addr_t};
use crate::sys::clock::now;
use crate::sys::peer_check;
use crate::wait::waker::Waker;

/// The part of a receive's completion that the engine does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The source, as an index of the address vector.
    pub(crate) source: fi_addr_t,
    /// With `FI_SOURCE_ERR`, the address of a source that is not in the vector.
    pub(crate) unknown_source: Option<PeerAddress>,
    /// The address of the message in a multi-receive buffer; else 0.
    pub(crate) buffer_address: usize,
    /// A datagram to a multicast group.
    pub(crate) multicast: bool,
}

impl Default for Origin {
    fn default() -> Self {
        Self { source: ADDR_NONE, unknown_source: None, buffer_address: 0, multicast: false }
    }
}

impl Runtime {
    /// Makes progress, and hands completions of `sources` to `take` until it breaks.
    ///
    /// `awake` is the reader's own waker.
    pub(crate) fn collect(
        &self,
        sources: &[CompletionSource],
        awake: Option<&Arc<Waker>>,
        mut take: impl FnMut(&Completion, Origin) -> ControlFlow<()>,
    ) {
        let (mut silent, mut finds) = (None, false);
        let (mut state, now) = (self.lock_to_read(), now());
        if state.is_quiet(now) {
            return self.read_nothing(&mut state, now);
        }
        self.drive(&mut state, now, Budget::PROGRESS);
        state.sort_completions();
        let State { engine, peers, memory, cancelled, wakers, .. } = &mut *state;
        let sorted = wakers.sorted;
        engine.with_mut(|engine| {
            peers.sync(engine, &self.av);
            cancelled.keep(|send| engine.has_operation(send));
            let mut flow = ControlFlow::Continue(());
            for &source in sources {
                // bound: the operation slots
                while flow.is_continue()
                    && let Some(mut completion) = source.poll(engine, sorted)
                {
                    finds = true;
                    let mut origin = Origin::default();
                    if let Err(error) = completion.outcome {
                        silent = silent.or_else(|| silent_peer(engine, completion.peer, error));
                    }
                    let is_receive = source.side == Side::Receive;
                    if engine.carries_datagrams() {
                        // A received datagram to a group has data as the sign of it.
                        origin.multicast = if is_receive {
                            completion.data.take().is_some()
                        } else {
                            goes_to_group(engine, completion.peer)
                        };
                    }
                    cancelled.adapt(&mut completion, |send| engine.has_operation(send));
                    if is_receive {
                        if !self.endpoint.is_connected {
                            origin.source = peers.source(engine, &self.av, completion.peer);
                        }
                        if let Some(part) = completion.slice {
                            origin.buffer_address = memory.address_of(part);
                            if is_suppressed(&mut completion, memory.finish_shared(part)) {
                                continue;
                            }
                        }
                        if self.endpoint.source_err && origin.source == ADDR_NONE {
                            origin.unknown_source = engine.peer_name(completion.peer);
                        }
                    }
                    flow = take(&completion, origin);
                }
            }
        });
        self.wake(&mut state, awake);
        state.quiet_until = if finds { Instant::ZERO } else { state.next_find() };
        drop(state);
        // A check takes long.
        if let Some((peer, versions)) = silent {
            peer_check::report_silence(peer, versions);
        }
    }

    /// Frees the slots of finished operations of sides without a queue. Their ends were counted.
    #[cold]
    pub(super) fn discard_unbound(state: &mut State) {
        state.sort_completions();
        let State { engine, memory, wakers, .. } = state;
        engine.with_mut(|engine| {
            for GroupQueues { group, unbound, .. } in wakers.groups() {
                for &side in unbound {
                    let source = CompletionSource { side, group: *group };
                    // bound: the operation slots
                    while let Some(completion) = source.poll(engine, wakers.sorted) {
                        completion.slice.map(|part| memory.finish_shared(part));
                    }
                }
            }
        });
    }
}

/// Whether the peer is a multicast group.
#[inline]
fn goes_to_group(engine: &Engine<'_>, peer: PeerId) -> bool {
    engine.peer_address(peer).is_some_and(|peer| peer.ip().is_multicast())
}

/// The address of a peer that was given up, for a report to the user, and the number of packets of
/// another version of the protocol. The first one of a call is reported: each kind of message is
/// said once.
#[cold]
fn silent_peer(engine: &Engine<'_>, peer: PeerId, error: OpError) -> Option<(SocketAddr, u64)> {
    let versions = engine.stats().dropped(DropReason::Version);
    // The peer of an ended connection has no address.
    matches!(error, OpError::TimedOut | OpError::Unreachable)
        .then(|| engine.peer_address(peer).filter(|&address| address != PeerAddress::NONE))?
        .map(|peer| (peer.socket_addr(), versions))
}

/// Whether the end of a slice of a shared buffer writes no completion. If it releases the buffer,
/// that is noted in the completion.
fn is_suppressed(completion: &mut Completion, end: Option<SliceCompletion>) -> bool {
    let Some(SliceCompletion { released, signal }) = end else { return false };
    completion.ends_buffer |= released;
    !(signal || released || completion.outcome.is_err())
}

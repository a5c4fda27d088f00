// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of a quiet runtime, which find nothing.
//!
//! An application that waits reads without pause, and the next packet is found the sooner the less
//! an empty read takes. A read that finds nothing, after which nothing is left to do, makes the
//! runtime *quiet* until the next timer, and until the port has more to do than to look into its
//! rings. The reads before that time look there alone. Any other call that takes the lock ends it.
//!
//! In: the state after a read. Out: whether the next read finds nothing. Callers: reads of queues
//! (`completions.rs`) and of counters (`regions.rs`), under the lock. Bound: a runtime is quiet for
//! the pause between two polls of the kernel socket, at most.

use ofi_xdp_core::Instant;

use super::{Runtime, State};
use crate::wait::spin_yield;

impl Runtime {
    /// A read of a quiet runtime at `now`.
    #[inline]
    pub(super) fn read_nothing(&self, state: &mut State, now: Instant) {
        self.record_poll(state, now);
        // Packets that are found later arrived after this read.
        state.engine.with_mut(|engine| engine.end_poll(now));
        spin_yield::polled(now, false);
    }
}

impl State {
    /// Whether a read at `now` finds nothing and leaves nothing to do.
    #[inline]
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        now < self.quiet_until && !self.port.has_arrivals()
    }

    /// Until when reads find nothing, after a read that found nothing; [`Instant::ZERO`] if the
    /// next one may.
    #[inline]
    pub(super) fn next_find(&self) -> Instant {
        let has_work = self.engine.with(|engine| {
            let has_completion = engine.has_send_completion() || engine.has_recv_completion();
            has_completion || engine.wants_transmit() || engine.has_corked()
        });
        // A group of endpoints has completions of its own. Sleepers and receives of a shared
        // context concern each read.
        if has_work
            || self.wakers.sorted
            || self.memory.is_shared()
            || self.failed
            || self.wakers.has_possible_sleepers()
        {
            return Instant::ZERO;
        }
        let until = self.port.quiet_until();
        self.due().map_or(until, |due| due.min(until))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::time::Duration;

    use ofi_xdp_core::{Budget, CompletionGroup, Config};

    use super::*;
    use crate::runtime::side::{CompletionSource, Side};
    use crate::runtime::tests::{
        BURST, CONTEXT, NEIGHBOUR, in_own_namespace, port_on_link, post_empty, post_receive,
        runtime_on, send_burst,
    };
    use crate::runtime::{SendForm, tests};
    use crate::sys::clock::now;
    use crate::wait::wait_fd::Wait;

    /// A runtime with `AF_XDP` that no packet comes to.
    fn runtime() -> Arc<Runtime> {
        let config = Config { peers: 4, ..Config::new(ofi_xdp_checksum::crc32c) };
        runtime_on(port_on_link(), config, false, &Arc::new(Wait::new().unwrap())).0
    }

    /// The number of completions that a read of one side returns.
    fn read(runtime: &Runtime, side: Side) -> usize {
        let sources = [CompletionSource { side, group: CompletionGroup::default() }];
        let mut count = 0;
        runtime.collect(&sources, None, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    /// Whether the runtime is quiet now. A test takes the lock in another way than the calls do.
    fn is_quiet(runtime: &Runtime) -> bool {
        runtime.state.lock().unwrap().is_quiet(now())
    }

    /// Reads until the runtime is quiet.
    fn quieten(runtime: &Runtime) {
        quieten_by(runtime, || assert_eq!(read(runtime, Side::Transmit), 0));
    }

    fn quieten_by(runtime: &Runtime, read: impl Fn()) {
        let is_over = (0..100_000).any(|_| {
            read();
            is_quiet(runtime)
        });
        assert!(is_over, "{:?}", runtime.lock().port.status());
    }

    #[test]
    fn root_other_calls_end_quiet() {
        in_own_namespace(|| {
            let runtime = runtime();
            quieten(&runtime);
            post_receive(&runtime, None);
            assert!(!is_quiet(&runtime));
            quieten(&runtime);
            runtime.drive_from_thread(false);
            assert!(!is_quiet(&runtime));
            quieten(&runtime);
            // The kernel takes a part of these; the rest is offered by the next read.
            let state = &mut *runtime.lock();
            send_burst(&mut state.port, 1);
            send_burst(&mut state.port, BURST);
            assert!(state.port.has_untaken());
            assert_eq!(state.next_find(), Instant::ZERO);
        });
    }

    #[test]
    fn root_counters_are_read_of_a_quiet_runtime() {
        in_own_namespace(|| {
            let runtime = runtime();
            post_receive(&runtime, None);
            runtime.cancel(CONTEXT, None);
            let before = runtime.count(None);
            assert_eq!(read(&runtime, Side::Receive), 1);
            quieten_by(&runtime, || assert_eq!(runtime.count(None), before));
            assert_eq!(runtime.op_counters(), before);
        });
    }

    #[test]
    fn root_completions_of_the_other_side_are_found() {
        in_own_namespace(|| {
            let runtime = runtime();
            for _ in 0..100 {
                quieten(&runtime);
                post_receive(&runtime, None);
                runtime.cancel(CONTEXT, None);
                (0..3).for_each(|_| assert_eq!(read(&runtime, Side::Transmit), 0));
                assert_eq!(read(&runtime, Side::Receive), 1);
            }
        });
    }

    #[test]
    fn root_quiet_ends_by_the_next_timer() {
        in_own_namespace(|| {
            let runtime = runtime();
            let neighbour: SocketAddr = NEIGHBOUR.parse().unwrap();
            let peer = runtime.av.insert(neighbour).unwrap();
            post_empty(&runtime, peer, SendForm::Message, false);
            quieten(&runtime);
            let due = runtime.due().unwrap();
            let state = &mut *runtime.lock();
            assert!(state.next_find() <= due);
            // No packet comes from the neighbour: the message is sent again.
            let sent = tests::packets_sent_by(state);
            runtime.drive(state, due, Budget::PROGRESS);
            assert!(tests::packets_sent_by(state) > sent);
        });
    }

    /// The time in which a packet may have waited begins with the last read.
    #[test]
    fn root_a_quiet_read_is_a_poll() {
        in_own_namespace(|| {
            let runtime = runtime();
            quieten(&runtime);
            spin_yield::found();
            let polls = runtime.state.lock().unwrap().polls;
            let time = polls.last.after_nanos(1_000);
            runtime.read_nothing(&mut runtime.state.lock().unwrap(), time);
            assert!(spin_yield::unproductive() > Duration::ZERO);
            let after = runtime.state.lock().unwrap().polls;
            assert_eq!((after.last, after.series), (time, polls.series + 1));
        });
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quota: the number of sockets of each user.
//!
//! In: grants, and ends of connections. Out: whether a user may have another socket, and whether a
//! queue may be granted again. A client that hangs up may keep its socket or the socket's memory,
//! or pass them on, and the broker cannot revoke them. Therefore the socket counts until its queue
//! is found free and no client holds the memory, or until nothing uses the memory. The latter can
//! be asked without an interface, too. The broker closes the memory then: the kernel charges it to
//! the broker as long as that has it open. Caller: `grants.rs`. Bounds: one entry for each queue,
//! and for each user as many as the policy allows sockets; a check is one attempt to bind. A
//! question about memory that the kernel uses takes 0.2 s; there is one a second.

use std::time::{Duration, Instant};

use crate::lent_memory::LentMemory;

/// Time in which a client closes its socket after the end of its grant.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// Time between two checks of a former socket that a client keeps.
const CHECK_PAUSE: Duration = Duration::from_secs(3);
/// Pause between two requests that ask for memory that is used.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// One socket of a user.
#[derive(Debug)]
struct Entry {
    uid: u32,
    queue_id: QueueId,
    /// User, process and queue, for the log.
    name: String,
    memory: LentMemory,
    /// Whether the card gives all packets of the queue to the socket.
    zerocopy: bool,
    former: Option<Former>,
}

/// A socket after the end of its connection.
#[derive(Debug)]
struct Former {
    check_at: Instant,
    /// Whether the log has that the client keeps it.
    reported: bool,
}

impl Entry {
    /// Whether the socket is a former one, and no client holds its memory.
    fn is_unheld(&self) -> bool {
        self.former.is_some() && !self.memory.is_held()
    }

    /// Logs once that the client keeps its socket.
    fn report(&mut self) {
        let Some(former) = &mut self.former else { return };
        if std::mem::replace(&mut former.reported, true) {
            return;
        }
        if self.zerocopy {
            log::warn!("{} stays in zero-copy mode until the socket is closed", self.name);
        } else {
            log::info!("{}: the former socket counts until it is closed", self.name);
        }
    }
}

/// A queue of an interface, which at most one socket has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueId {
    /// The interface's index.
    pub(crate) interface: u32,
    /// The queue.
    pub(crate) queue: u32,
}

/// The state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueState {
    /// No socket has it, or it does not exist any more.
    Free,
    /// A socket has it, or the kernel does not tell.
    Busy,
    /// Its interface does not exist: a former socket of it may.
    NoInterface,
}

/// Whether a user may have another socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// It may.
    Free,
    /// It may, once the kernel has torn down former ones. That takes milliseconds after their
    /// close (`xdp_put_umem` defers to a work queue), and looks as if the client kept them.
    Soon,
    /// It may not, while it has the others or their memory.
    Full,
}

/// The sockets of all users.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    entries: Vec<Entry>,
    /// When a request asked last for memory that is used.
    asked_at: Option<Instant>,
}

impl Quota {
    /// Whether `uid` may have another socket of `most`. If not, checks by `state` the queues of
    /// sockets without a connection, and their memory.
    pub(crate) fn room(
        &mut self,
        (uid, most): (u32, usize),
        time: Instant,
        mut state: impl FnMut(QueueId) -> QueueState,
    ) -> Room {
        let mut closing = 0;
        // A question for memory that is used takes long.
        let may_ask = self.asked_at.is_none_or(|at| time.duration_since(at) >= ROOM_PAUSE);
        let mut asks = may_ask;
        if self.count(uid) >= most {
            self.entries.retain_mut(|entry| {
                if entry.uid != uid || !entry.is_unheld() {
                    return true;
                }
                let stays = match state(entry.queue_id) {
                    QueueState::Free => false,
                    QueueState::Busy => true,
                    QueueState::NoInterface if asks => {
                        asks = entry.memory.is_unused();
                        !asks
                    }
                    QueueState::NoInterface => true,
                };
                closing += usize::from(stays);
                stays
            });
        }
        if may_ask && !asks {
            self.asked_at = Some(time);
        }
        match self.count(uid) {
            count if count < most => Room::Free,
            count if count.saturating_sub(closing) < most => Room::Soon,
            _ => Room::Full,
        }
    }

    fn count(&self, uid: u32) -> usize {
        self.entries.iter().filter(|entry| entry.uid == uid).count()
    }

    /// Whether a client holds the memory of a former socket of `queue_id`, which was bound anew.
    /// The queue is not granted meanwhile, so that there is at most one memory for each queue.
    pub(crate) fn is_held(&self, queue_id: QueueId) -> bool {
        self.entries.iter().any(|entry| entry.queue_id == queue_id && entry.memory.is_held())
    }

    /// Whether the client that got the socket of `queue_id` is connected.
    pub(crate) fn is_connected(&self, queue_id: QueueId) -> bool {
        self.entries.iter().any(|entry| entry.queue_id == queue_id && entry.former.is_none())
    }

    /// Whether a former client keeps a queue of `interface` in zero-copy mode.
    pub(crate) fn keeps_zerocopy(&self, interface: u32) -> bool {
        self.entries.iter().any(|entry| {
            let is_kept = entry.former.as_ref().is_some_and(|former| former.reported);
            entry.queue_id.interface == interface && entry.zerocopy && is_kept
        })
    }

    /// Records that `uid` got the socket of `queue_id` with `memory`, which the log calls `name`.
    /// The queue's former owner has no socket there any more.
    pub(crate) fn granted(
        &mut self,
        uid: u32,
        queue_id: QueueId,
        memory: LentMemory,
        (zerocopy, name): (bool, String),
    ) {
        self.entries.retain(|entry| entry.queue_id != queue_id);
        self.entries.push(Entry { uid, queue_id, name, memory, zerocopy, former: None });
    }

    /// Forgets former sockets once their memory is unused, and logs which ones clients keep.
    pub(crate) fn tidy(&mut self, time: Instant, mut state: impl FnMut(QueueId) -> QueueState) {
        let mut any_used = false;
        self.entries.retain_mut(|entry| {
            let Some(former) = &mut entry.former else { return true };
            if any_used || time < former.check_at {
                return true;
            }
            former.check_at = time + CHECK_PAUSE;
            let is_held = entry.memory.is_held();
            if !is_held && entry.memory.is_unused() {
                return false;
            }
            any_used = !is_held;
            if entry.zerocopy && state(entry.queue_id) == QueueState::Free {
                entry.zerocopy = false;
            } else if entry.zerocopy || !is_held {
                entry.report();
            }
            true
        });
        // Another one is asked about first in the next second.
        if any_used {
            self.entries.rotate_left(1);
        }
    }

    /// Records the end of the connection over which `uid` got the socket of `queue_id`.
    pub(crate) fn disconnected(&mut self, uid: u32, queue_id: QueueId, time: Instant) {
        for entry in &mut self.entries {
            if entry.uid == uid && entry.queue_id == queue_id {
                entry.former = Some(Former { check_at: time + CLOSE_MAX, reported: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lent_memory::tests::{new_memory, pages_of};
    use QueueState::{Busy, Free, NoInterface};

    const fn at(queue: u32) -> QueueId {
        QueueId { interface: 3, queue }
    }

    /// Memory that no client holds.
    fn unheld() -> LentMemory {
        new_memory().0
    }

    fn name() -> (bool, String) {
        (false, String::new())
    }

    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_kept_socket_counts_after_the_connection_ends() {
        let mut quota = Quota::default();
        for queue in 0..2 {
            assert_eq!(quota.room((7, 2), now(), |_| panic!("there is room")), Room::Free);
            quota.granted(7, at(queue), unheld(), name());
        }
        assert_eq!(quota.room((7, 2), now(), |_| panic!("both are connected")), Room::Full);
        quota.disconnected(7, at(0), now());
        assert_eq!(quota.room((7, 2), now(), |_| Busy), Room::Soon, "kept, or closing");
        assert_eq!(quota.room((7, 2), now(), |_| Free), Room::Free, "given back");
        assert_eq!(quota.room((8, 1), now(), |_| panic!("another user's business")), Room::Free);
    }

    #[test]
    fn closing_sockets_make_no_room_below_a_smaller_quota() {
        let mut quota = Quota::default();
        for queue in 0..3 {
            quota.granted(7, at(queue), unheld(), name());
        }
        quota.disconnected(7, at(0), now());
        assert_eq!(quota.room((7, 2), now(), |_| Busy), Room::Full, "two are connected");
        quota.disconnected(7, at(1), now());
        assert_eq!(quota.room((7, 2), now(), |_| Busy), Room::Soon);
    }

    #[test]
    fn kept_memory_counts_and_holds_its_queue() {
        let mut quota = Quota::default();
        let (memory, client) = new_memory();
        quota.granted(7, at(0), memory, name());
        quota.disconnected(7, at(0), now());
        assert_eq!(
            quota.room((7, 1), now(), |_| Free),
            Room::Full,
            "the queue is free, the memory is not"
        );
        assert!(quota.is_held(at(0)) && !quota.is_held(at(1)));
        drop(client);
        assert!(!quota.is_held(at(0)));
        assert_eq!(quota.room((7, 1), now(), |_| Free), Room::Free);
    }

    #[test]
    fn a_former_socket_is_forgotten_once_no_client_uses_its_memory() {
        let mut quota = Quota::default();
        let (memory, client) = new_memory();
        quota.granted(7, at(0), memory, name());
        let count_at = |quota: &mut Quota, time| {
            quota.tidy(time, |_| panic!("its memory tells"));
            quota.count(7)
        };
        let mut time = now();
        assert_eq!(count_at(&mut quota, time), 1, "connected");
        quota.disconnected(7, at(0), time);
        time += CLOSE_MAX;
        assert_eq!(count_at(&mut quota, time), 1, "a client holds the memory");
        drop(client);
        assert_eq!(count_at(&mut quota, time), 1, "it was asked about");
        assert_eq!(count_at(&mut quota, time + CHECK_PAUSE), 0);
    }

    /// Pages in a pipe stand for those that an AF_XDP socket uses.
    #[test]
    fn a_former_socket_of_an_interface_that_is_gone_makes_room_unless_its_memory_is_used() {
        let mut quota = Quota::default();
        let time = now();
        let (memory, client) = new_memory();
        let pages = pages_of(&client);
        drop(client);
        quota.granted(7, at(0), memory, name());
        quota.disconnected(7, at(0), time);
        assert_eq!(quota.room((7, 1), time, |_| NoInterface), Room::Soon, "used");
        drop(pages);
        assert_eq!(quota.room((7, 1), time, |_| NoInterface), Room::Soon, "asked just now");
        let later = time + ROOM_PAUSE;
        assert_eq!(quota.room((7, 1), later, |_| NoInterface), Room::Free);
    }

    /// Pages in a pipe stand for those that an AF_XDP socket uses, wherever its interface is.
    #[test]
    fn a_former_socket_counts_while_the_kernel_uses_its_memory() {
        let mut quota = Quota::default();
        let mut time = now();
        let [first, second] = [0, 1].map(|queue| {
            let (memory, client) = new_memory();
            quota.granted(7, at(queue), memory, name());
            quota.disconnected(7, at(queue), time);
            pages_of(&client)
        });
        let mut next_count = || {
            time += CHECK_PAUSE;
            quota.tidy(time, |_| NoInterface);
            quota.count(7)
        };
        assert_eq!(next_count(), 2);
        drop(second);
        assert_eq!((0..2).map(|_| next_count()).last(), Some(1), "each has its turn");
        assert_eq!(next_count(), 1);
        drop(first);
        assert_eq!(next_count(), 0);
    }

    #[test]
    fn a_queue_that_is_kept_in_zero_copy_mode_is_known_from_a_second_after_its_grant() {
        let mut quota = Quota::default();
        let (memory, _client) = new_memory();
        quota.granted(7, at(0), memory, (true, "queue 0".to_owned()));
        let (memory, _client) = new_memory();
        quota.granted(7, at(1), memory, name());
        let end = now();
        quota.disconnected(7, at(0), end);
        quota.disconnected(7, at(1), end);
        let mut is_kept_at = |time, state| {
            quota.tidy(time, |queue_id| {
                assert_eq!(queue_id, at(0), "the other takes no packets of others");
                state
            });
            quota.keeps_zerocopy(3)
        };
        assert!(!is_kept_at(end, Busy), "the client may be closing it");
        assert!(is_kept_at(end + CLOSE_MAX, Busy));
        assert!(!is_kept_at(end + CLOSE_MAX + CHECK_PAUSE, Free), "the memory alone is kept");
    }

    #[test]
    fn a_queue_has_one_owner() {
        let mut quota = Quota::default();
        quota.granted(7, at(0), unheld(), name());
        quota.disconnected(7, at(0), now());
        quota.granted(8, at(0), unheld(), name());
        assert_eq!(quota.room((7, 1), now(), |_| panic!("nothing is left of it")), Room::Free);
        quota.disconnected(7, at(0), now());
        assert_eq!(quota.room((8, 1), now(), |_| Free), Room::Full, "still connected");
    }
}

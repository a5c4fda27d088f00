// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quota: the number of sockets of each user.
//!
//! In: grants, and ends of connections. Out: whether a user may have another socket, and whether a
//! queue may be granted again. A client that hangs up may keep its socket or the socket's memory,
//! or pass them on, and the broker cannot revoke them. Therefore the socket counts until its queue
//! is found free and its memory has no other holder. The broker closes memory that no client holds
//! once a second: the kernel charges it to the broker as long as that has it open. Caller:
//! `grants.rs`. Bounds: one entry for each queue, and for each user as many as the policy allows
//! sockets; a check is one attempt to bind.

use crate::lent_memory::LentMemory;

/// One socket of a user.
#[derive(Debug)]
struct Entry {
    uid: u32,
    queue_id: QueueId,
    /// `None`: no client holds it, and none can open it again.
    memory: Option<LentMemory>,
    /// Whether the connection of its grant is open.
    connected: bool,
}

impl Entry {
    /// Whether a client holds the memory.
    fn is_held(&self) -> bool {
        self.memory.as_ref().is_some_and(LentMemory::is_held)
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
pub(crate) struct Quota(Vec<Entry>);

impl Quota {
    /// Whether `uid` may have another socket of `most`. If not, checks by `is_free` the queues of
    /// sockets without a connection, and their memory.
    pub(crate) fn room(
        &mut self,
        uid: u32,
        most: usize,
        mut is_free: impl FnMut(QueueId) -> bool,
    ) -> Room {
        let mut closing = 0;
        if self.count(uid) >= most {
            self.0.retain(|entry| {
                if entry.uid != uid || entry.connected || entry.is_held() {
                    return true;
                }
                let is_busy = !is_free(entry.queue_id);
                closing += usize::from(is_busy);
                is_busy
            });
        }
        match self.count(uid) {
            count if count < most => Room::Free,
            count if count.saturating_sub(closing) < most => Room::Soon,
            _ => Room::Full,
        }
    }

    fn count(&self, uid: u32) -> usize {
        self.0.iter().filter(|entry| entry.uid == uid).count()
    }

    /// Whether a client holds the memory of a former socket of `queue_id`, which was bound anew.
    /// The queue is not granted meanwhile, so that there is at most one memory for each queue.
    pub(crate) fn is_held(&self, queue_id: QueueId) -> bool {
        self.0.iter().any(|entry| entry.queue_id == queue_id && entry.is_held())
    }

    /// Whether the client that got the socket of `queue_id` is connected.
    pub(crate) fn is_connected(&self, queue_id: QueueId) -> bool {
        self.0.iter().any(|entry| entry.queue_id == queue_id && entry.connected)
    }

    /// Records that `uid` got the socket of `queue_id` with `memory`. The queue's former owner has
    /// no socket there any more.
    pub(crate) fn granted(&mut self, uid: u32, queue_id: QueueId, memory: LentMemory) {
        self.0.retain(|entry| entry.queue_id != queue_id);
        self.0.push(Entry { uid, queue_id, memory: Some(memory), connected: true });
    }

    /// Closes the memory of former sockets that no client holds, and forgets those sockets if their
    /// interface does not exist.
    pub(crate) fn tidy(&mut self, exists: impl Fn(u32) -> bool) {
        self.0.retain_mut(|entry| {
            if entry.connected || entry.is_held() {
                return true;
            }
            entry.memory = None;
            exists(entry.queue_id.interface)
        });
    }

    /// Records the end of the connection over which `uid` got the socket of `queue_id`.
    pub(crate) fn disconnected(&mut self, uid: u32, queue_id: QueueId) {
        for entry in &mut self.0 {
            if entry.uid == uid && entry.queue_id == queue_id {
                entry.connected = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lent_memory::tests::new_memory;

    const fn at(queue: u32) -> QueueId {
        QueueId { interface: 3, queue }
    }

    /// Memory that no client holds.
    fn unheld() -> LentMemory {
        new_memory().0
    }

    #[test]
    fn a_kept_socket_counts_after_the_connection_ends() {
        let mut quota = Quota::default();
        for queue in 0..2 {
            assert_eq!(quota.room(7, 2, |_| panic!("there is room")), Room::Free);
            quota.granted(7, at(queue), unheld());
        }
        assert_eq!(quota.room(7, 2, |_| panic!("both are connected")), Room::Full);
        quota.disconnected(7, at(0));
        assert_eq!(quota.room(7, 2, |queue_id| queue_id != at(0)), Room::Soon, "kept, or closing");
        assert_eq!(quota.room(7, 2, |queue_id| queue_id == at(0)), Room::Free, "given back");
        assert_eq!(quota.room(8, 1, |_| panic!("another user's business")), Room::Free);
    }

    #[test]
    fn closing_sockets_make_no_room_below_a_smaller_quota() {
        let mut quota = Quota::default();
        for queue in 0..3 {
            quota.granted(7, at(queue), unheld());
        }
        quota.disconnected(7, at(0));
        assert_eq!(quota.room(7, 2, |_| false), Room::Full, "two are connected");
        quota.disconnected(7, at(1));
        assert_eq!(quota.room(7, 2, |_| false), Room::Soon);
    }

    #[test]
    fn kept_memory_counts_and_holds_its_queue() {
        let mut quota = Quota::default();
        let (memory, client) = new_memory();
        quota.granted(7, at(0), memory);
        quota.disconnected(7, at(0));
        assert_eq!(quota.room(7, 1, |_| true), Room::Full, "the queue is free, the memory is not");
        assert!(quota.is_held(at(0)) && !quota.is_held(at(1)));
        drop(client);
        assert!(!quota.is_held(at(0)));
        assert_eq!(quota.room(7, 1, |_| true), Room::Free);
    }

    #[test]
    fn memory_of_a_former_socket_is_closed_once_no_client_holds_it() {
        let mut quota = Quota::default();
        let (memory, client) = new_memory();
        quota.granted(7, at(0), memory);
        let left_after = |quota: &mut Quota, exists| {
            quota.tidy(|interface| exists && interface == 3);
            (quota.0.iter().any(|entry| entry.memory.is_some()), quota.count(7))
        };
        assert_eq!(left_after(&mut quota, true), (true, 1), "connected");
        quota.disconnected(7, at(0));
        assert_eq!(left_after(&mut quota, false), (true, 1), "a client holds it");
        drop(client);
        assert_eq!(left_after(&mut quota, true), (false, 1), "the socket may be kept");
        assert_eq!(quota.room(7, 1, |_| false), Room::Soon);
        assert_eq!(left_after(&mut quota, false), (false, 0), "its interface is gone");
    }

    #[test]
    fn a_queue_has_one_owner() {
        let mut quota = Quota::default();
        quota.granted(7, at(0), unheld());
        quota.disconnected(7, at(0));
        quota.granted(8, at(0), unheld());
        assert_eq!(quota.room(7, 1, |_| panic!("nothing is left of it")), Room::Free);
        quota.disconnected(7, at(0));
        assert_eq!(quota.room(8, 1, |_| true), Room::Full, "still connected");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which user has how many sockets.
//!
//! Grants come in, and that connections end; out goes whether a user may have another. A client
//! that hangs up may have kept its socket, or given it away, and a socket cannot be taken back: it
//! counts until its queue is found free. Bounds: a user has at most as many entries as the policy
//! allows sockets; a look at a queue is one attempt to bind.

/// One socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    uid: u32,
    place: Place,
    /// Whether the connection is open that it was granted over.
    connected: bool,
}

/// A queue of an interface: at most one socket has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The interface's index.
    pub(crate) interface: u32,
    /// The queue.
    pub(crate) queue: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Vec<Entry>);

impl Ledger {
    /// Whether `uid` may have another socket, when `most` are allowed. Sockets whose connections
    /// are gone are looked for by `is_free` if it matters.
    pub(crate) fn has_room(
        &mut self,
        uid: u32,
        most: usize,
        mut is_free: impl FnMut(Place) -> bool,
    ) -> bool {
        if self.count(uid) >= most {
            self.0.retain(|entry| entry.uid != uid || entry.connected || !is_free(entry.place));
        }
        self.count(uid) < most
    }

    fn count(&self, uid: u32) -> usize {
        self.0.iter().filter(|entry| entry.uid == uid).count()
    }

    /// `uid` got the socket at `place`: whoever had one there before has not any more.
    pub(crate) fn granted(&mut self, uid: u32, place: Place) {
        self.0.retain(|entry| entry.place != place);
        self.0.push(Entry { uid, place, connected: true });
    }

    /// The connection is gone over which the socket at `place` was granted to `uid`.
    pub(crate) fn disconnected(&mut self, uid: u32, place: Place) {
        for entry in &mut self.0 {
            if entry.uid == uid && entry.place == place {
                entry.connected = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(queue: u32) -> Place {
        Place { interface: 3, queue }
    }

    #[test]
    fn who_hangs_up_and_keeps_the_socket_has_not_gained_one() {
        let mut ledger = Ledger::default();
        for queue in 0..2 {
            assert!(ledger.has_room(7, 2, |_| panic!("there is room")));
            ledger.granted(7, at(queue));
        }
        assert!(!ledger.has_room(7, 2, |_| panic!("both are connected")));
        ledger.disconnected(7, at(0));
        assert!(!ledger.has_room(7, 2, |place| place != at(0)), "kept");
        assert!(ledger.has_room(7, 2, |place| place == at(0)), "given back");
        assert!(ledger.has_room(8, 1, |_| panic!("another user's business")));
    }

    #[test]
    fn a_queue_has_one_owner() {
        let mut ledger = Ledger::default();
        ledger.granted(7, at(0));
        ledger.disconnected(7, at(0));
        ledger.granted(8, at(0));
        assert!(ledger.has_room(7, 1, |_| panic!("nothing is left of it")));
        ledger.disconnected(7, at(0));
        assert!(!ledger.has_room(8, 1, |_| true), "still connected");
    }
}

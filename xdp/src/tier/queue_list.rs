// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive queues that have an `AF_XDP` socket of a port.
//!
//! In: queue numbers. Out: text for the log and the statistics page: `3`, or `0-3,7`. Callers: the
//! status of a port, `port/other_queue.rs`. Bound: the sockets of a port.

use std::fmt;

/// Queue numbers, in the order of their sockets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueList(Vec<u32>);

impl QueueList {
    /// The queues; the first one is that of the socket with the claim.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether there is no socket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `queue` is one of them.
    #[must_use]
    pub fn contains(&self, queue: u32) -> bool {
        self.0.contains(&queue)
    }

    /// The numbers behind their noun: `queue 3`, `queues 0-3,7`.
    #[must_use]
    pub fn noun(&self) -> String {
        let plural = if self.0.len() == 1 { "" } else { "s" };
        format!("queue{plural} {self}")
    }
}

impl FromIterator<u32> for QueueList {
    fn from_iter<T: IntoIterator<Item = u32>>(queues: T) -> Self {
        Self(queues.into_iter().collect())
    }
}

impl fmt::Display for QueueList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|queue, next| queue.checked_add(1) == Some(*next));
        for (number, run) in runs.enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match run {
                [queue] => write!(f, "{comma}{queue}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_queues_are_ranges() {
        for (queues, text) in [
            (&[][..], ""),
            (&[3], "3"),
            (&[0, 1], "0-1"),
            (&[4, 5, 6, 9, 11, 12], "4-6,9,11-12"),
            (&[1, 0, u32::MAX], "1,0,4294967295"),
        ] {
            let list: QueueList = queues.iter().copied().collect();
            assert_eq!(list.to_string(), text);
            let plural = if queues.len() == 1 { "" } else { "s" };
            assert_eq!(list.noun(), format!("queue{plural} {text}"));
        }
    }
}

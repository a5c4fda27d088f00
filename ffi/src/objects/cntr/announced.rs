// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that have announced a sleep on a counter's descriptor (`fi_trywait`).
//!
//! In: calls of `fi_trywait`, and reads. Out: the values that a thread has read; whether a thread
//! is away, that is, has not called since it announced its sleep. A value is for every thread, so
//! the signal of the descriptor stays on until each of them is back. Bound: the application's
//! threads.

use super::CounterValues;
use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::wait::waker::this_thread;

/// A thread that has called `fi_trywait`.
#[derive(Debug)]
struct Announcer {
    thread: usize,
    /// The values that it has read.
    seen: CounterValues,
    is_away: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Announcers(Vec<Announcer>);

impl Announcers {
    /// The calling thread announces a sleep, and is away.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn announce(&mut self) -> Result<(), Error> {
        if let Some(own) = self.own() {
            own.is_away = true;
            return Ok(());
        }
        let seen = CounterValues::default();
        push(&mut self.0, Announcer { thread: this_thread(), seen, is_away: true })
    }

    /// The calling thread is back. Returns whether it was the only one that was away.
    pub(super) fn come_back(&mut self) -> bool {
        let was_away = self.own().is_some_and(|own| std::mem::take(&mut own.is_away));
        was_away && !self.others_are_away()
    }

    /// Whether another thread than the calling one is away.
    pub(super) fn others_are_away(&self) -> bool {
        self.0.iter().any(|it| it.is_away && it.thread != this_thread())
    }

    /// The values that the calling thread has read, if it has called `fi_trywait`.
    #[inline]
    pub(super) fn seen(&mut self) -> Option<&mut CounterValues> {
        self.own().map(|own| &mut own.seen)
    }

    #[inline]
    fn own(&mut self) -> Option<&mut Announcer> {
        self.0.iter_mut().find(|it| it.thread == this_thread())
    }
}

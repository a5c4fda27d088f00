// SPDX-License-Identifier: MIT OR Apache-2.0
//! A question to the kernel that may take long, asked by a thread beside the data path.
//!
//! The kernel has one lock for changes of all interfaces (RTNL). Questions about programs, cards
//! and neighbours wait for it, and others hold it for seconds at times: while an interface goes
//! down, or while a process with an XDP program ends on a busy machine. Packets do not wait.
//!
//! In: a question. Out: its answer, once. Callers: `port/attachment_check.rs`,
//! `port/other_queue.rs`, `route/neighbours.rs`. Bound: a thread for each question. Dropping the
//! value waits for the answer.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::thread::Thread;

/// A question that was asked.
pub(crate) struct Question<T> {
    answer: Arc<Mutex<Option<T>>>,
    /// `None` after the answer.
    thread: Option<Thread>,
}

impl<T> fmt::Debug for Question<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Question<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn ask(question: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let answer = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&answer);
        let thread = Thread::without_signals(c"xdp-question", move || {
            let found = question();
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        })?;
        Ok(Self { answer, thread: Some(thread) })
    }
}

impl<T> Question<T> {
    /// Whether the thread has ended.
    pub(crate) fn is_answered(&self) -> bool {
        self.thread.as_ref().is_none_or(Thread::is_finished)
    }

    /// The answer, once the thread has ended; `None` if the question has panicked.
    pub(crate) fn answer(mut self) -> Option<T> {
        self.end();
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

impl<T> Drop for Question<T> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_answer_comes_after_its_thread() {
        let (go, wait) = mpsc::channel();
        let question = Question::ask(move || wait.recv().unwrap_or(0)).unwrap();
        assert!(!question.is_answered());
        go.send(7).unwrap();
        while !question.is_answered() {
            std::thread::yield_now();
        }
        assert_eq!(question.answer(), Some(7));
    }

    #[test]
    fn a_dropped_question_is_waited_for() {
        let (sender, receiver) = mpsc::channel();
        drop(Question::ask(move || sender.send(7).unwrap()).unwrap());
        assert_eq!(receiver.try_recv(), Ok(7));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeping: wake-ups between threads, file descriptors to wait on, and the polling before a sleep.

pub(crate) mod alarm;
pub(crate) mod spin_yield;
pub(crate) mod wait_fd;
pub(crate) mod waker;

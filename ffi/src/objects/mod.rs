// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's objects other than endpoints.

pub(crate) mod av;
pub(crate) mod cntr;
pub(crate) mod connection_manager;
mod contention;
pub(crate) mod cq;
pub(crate) mod domain;
pub(crate) mod eq;
pub(crate) mod fabric;
pub(crate) mod monitored;
pub(crate) mod mr;
pub(crate) mod object_ops;
pub(crate) mod poll_set;
pub(crate) mod progress_thread;
pub(crate) mod region_table;
pub(crate) mod shared_runtimes;
pub(crate) mod takeover;
pub(crate) mod wait_set;

#[cfg(test)]
mod tests;

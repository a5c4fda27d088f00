// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test harness: hosts made of network namespaces, and programs that run on them.
//!
//! [`two_hosts`] is the fixture of end-to-end tests. Below it, [`netns`] makes network namespaces,
//! [`topology`] joins two of them into two hosts, [`cluster`] several by a switch, [`process`] runs
//! programs in them. [`relay`] gives a link delay, loss and a bottleneck; [`flood`] measures its
//! limit. [`kernel`] asks the kernel for attached XDP programs, [`carried`] reads packet counters
//! from the provider's log. [`tier`] has the provider's variables for a tier; [`paths`] finds built
//! files. Everything made is removed on drop, on a panic, and after SIGINT, SIGTERM or SIGHUP
//! ([`interrupt`]).
//!
//! `unsafe` is in `process`, and in two files of `relay`.
#![deny(unsafe_code)]

pub mod carried;
pub mod cluster;
pub mod flood;
pub mod interrupt;
pub mod kernel;
pub mod netns;
pub mod paths;
pub mod process;
pub mod relay;
pub mod tier;
pub mod topology;
pub mod two_hosts;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test harness, and the lab that measures.
//!
//! Harness: [`bed`] is what an end-to-end test starts with; below it, [`netns`] makes network
//! namespaces, [`topology`] joins two of them into two hosts, [`cluster`] several by a switch,
//! [`process`] runs programs in them, [`kernel`] asks the kernel what is really attached there.
//! Everything made is removed again on drop, on a panic, and after SIGINT, SIGTERM or SIGHUP
//! ([`interrupt`]).
//!
//! MPI: [`mpi`] runs real MPI jobs over the provider; the binary `ofi-xdp-mpi` is its command line.
//!
//! [`exchange`] is the verified traffic under which networks change.
//!
//! [`conformance`] runs the conformance suite between two hosts, for `ofi-xdp-lab conformance`.
//!
//! Lab: [`lab`] runs the same measurements over several peers in turn; [`report`], [`table`] and
//! [`plot`] tell of them, and [`bench`](mod@bench) has the suites of benchmarks. The binary
//! `ofi-xdp-lab` is its command line.
//!
//! `unsafe` is in `process` alone.
#![deny(unsafe_code)]

pub mod bed;
pub mod bench;
pub mod cluster;
pub mod conformance;
pub mod exchange;
pub mod interrupt;
pub mod kernel;
pub mod lab;
pub mod mpi;
pub mod netns;
pub mod paths;
pub mod plot;
pub mod process;
pub mod report;
pub mod table;
pub mod topology;
pub mod way;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real MPI jobs over the provider, between hosts made of namespaces.
//!
//! [`implementation`] has the MPIs and their command lines; [`program`] is the list of programs.
//! [`job`] runs one of them on a [`Cluster`](ofi_xdp_harness::cluster::Cluster) and judges it.
//! [`carried`](ofi_xdp_harness::carried) proves from the provider's counters that it carried the
//! job. [`suite`] is the whole test run and [`latency`] the measurement. The program `ofi-xdp-mpi`
//! is the command line.
//!
//! Each job has a time limit, and so has the whole run.
#![deny(unsafe_code)]

pub mod implementation;
pub mod job;
pub mod latency;
pub mod program;
pub mod suite;
pub mod transport;

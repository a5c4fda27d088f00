// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real MPI jobs over the provider, between hosts made of namespaces.
//!
//! [`implementation`] knows the MPIs and how each starts a job; [`program`] is the list of what
//! runs; [`job`] runs one of them on a [`Cluster`](crate::cluster::Cluster) and judges it;
//! [`proof`] reads from the provider's own counters that it carried the job; [`suite`] is the whole
//! test run and [`latency`] the measurement. The binary `ofi-xdp-mpi` is the command line.
//!
//! Everything is bounded by a time limit for each job and one for all.

pub mod implementation;
pub mod job;
pub mod latency;
pub mod program;
pub mod proof;
pub mod suite;

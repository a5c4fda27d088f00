// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab: the same measurements of the provider and of others, in turn, and their results.
//!
//! [`measure`] runs sessions of several candidates round by round, and [`suites`] has the suites of
//! benchmarks and their targets. [`report`], [`table`] and [`plot`] present the results.
//! [`conformance`] runs the conformance suite between two hosts, [`fabtests`] libfabric's own
//! tests. [`Made`] describes the build. The program `ofi-xdp-lab` is the command line.
#![deny(unsafe_code)]

pub mod conformance;
pub mod fabtests;
mod made;
pub mod measure;
pub mod plot;
pub mod report;
pub mod suites;
pub mod table;

pub use made::Made;

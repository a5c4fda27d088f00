// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz targets, as functions of bytes.
//!
//! In: arbitrary bytes. Out: nothing; a rule that does not hold is a panic, which libFuzzer reports
//! as a finding. Each target is a function here and a few lines in `targets/`, so
//! that the tests of this package replay the corpus without libFuzzer.

pub mod agents;
pub mod connections;
pub mod decode;
pub mod ingest;
pub mod input;
pub mod node;
pub mod operations;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz targets do with their bytes.
//!
//! In: bytes of anybody's choice. Out: nothing; a rule that does not hold is a panic, which
//! libFuzzer takes for a finding. Each target is a function here and a few lines in `targets/`, so
//! that the tests of this package replay the corpus without libFuzzer.

pub mod decode;
pub mod ingest;
pub mod input;
pub mod memory;
pub mod node;
pub mod operations;
pub mod port;
pub mod store;

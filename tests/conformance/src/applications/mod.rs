// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles of applications: their hints, the properties that they compare, the order of their
//! objects, their option calls, sizes and flags.
//!
//! In: the provider under its name, `xdp` or `tcp`. Out: a test for each application, which fails
//! if the application would turn the provider away or get a wrong result. An application that looks
//! for a name gets the name under test. [`profile`] is what they share. Called by the runner.
//! Bound: the time-out of an event.

mod mercury;
mod mpich;
mod mxl;
mod nccl;
mod nixl;
mod open_mpi;
mod openshmem;
mod profile;

use crate::runner::Test;

/// The tests, application by application.
pub(crate) fn all() -> impl Iterator<Item = &'static Test> {
    let applications: [&'static [Test]; 7] = [
        mpich::TESTS,
        open_mpi::TESTS,
        openshmem::TESTS,
        nixl::TESTS,
        mxl::TESTS,
        nccl::TESTS,
        mercury::TESTS,
    ];
    applications.into_iter().flatten()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs: the C programs of `tests/interop/mpi/programs`, and mpi4py's own test-suite.

use std::time::Duration;

/// A program of the suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpiProgram {
    /// The name: its source is `tests/interop/mpi/programs/NAME.c`, except for [`MPI4PY`].
    pub name: &'static str,
    /// Number of ranks.
    pub ranks: usize,
    /// Time limit: several times the duration on a busy machine with two cores.
    pub limit: Duration,
    /// Longest time without output: that of the longest part of the program that reports its end.
    /// For programs that report once, the time limit.
    pub silence: Duration,
    /// Whether a quick run has it.
    pub quick: bool,
}

/// The program that needs a parameter of Open MPI, see [`job`](crate::job).
pub const OPERATORS: &str = "operators";
/// mpi4py's suite without its tests of files.
pub const MPI4PY: &str = "mpi4py";
/// mpi4py's tests of files. They take as long as all others, and test disks more than networks.
pub const MPI4PY_IO: &str = "mpi4py-io";

const fn program(name: &'static str, ranks: usize, seconds: u64, quick: bool) -> MpiProgram {
    let limit = Duration::from_secs(seconds);
    MpiProgram { name, ranks, limit, silence: limit, quick }
}

/// A part of mpi4py's suite. The duration of some thousand tests depends on the machine: limited is
/// each test.
const fn mpi4py(name: &'static str) -> MpiProgram {
    let (limit, silence) = (Duration::from_secs(900), Duration::from_secs(100));
    MpiProgram { name, ranks: 4, limit, silence, quick: false }
}

impl MpiProgram {
    /// Whether the program puts, gets or accumulates.
    #[must_use]
    pub fn one_sided(&self) -> bool {
        matches!(self.name, "onesided" | "atomics" | OPERATORS | MPI4PY | MPI4PY_IO)
    }

    /// The arguments of mpi4py's `main.py`, for a part of its suite: with a line for each test.
    ///
    /// `test_mpiabi` is left out: it asks for the Fortran types of the MPI. MPICH's wheel has none,
    /// so it fails without any peer or network.
    #[must_use]
    pub fn mpi4py(&self) -> Option<&'static [&'static str]> {
        match self.name {
            MPI4PY => Some(&["-v", "-e", "test_io", "-e", "test_mpiabi"]),
            MPI4PY_IO => Some(&["-v", "-i", "test_io"]),
            _ => None,
        }
    }
}

/// All programs, in the order in which they run.
pub const PROGRAMS: [MpiProgram; 14] = [
    program("modes", 4, 120, true),
    program("probe", 4, 30, true),
    program("cancel", 4, 30, true),
    program("wildcard", 4, 30, true),
    program("collectives", 4, 30, true),
    program("derived", 4, 30, false),
    program("onesided", 4, 40, true),
    program("atomics", 4, 40, true),
    program(OPERATORS, 4, 40, false),
    program("threads", 4, 30, false),
    program("large", 4, 60, false),
    program("many", 32, 60, false),
    mpi4py(MPI4PY),
    mpi4py(MPI4PY_IO),
];

/// The program of the measurement, which is no test.
pub const PINGPONG: MpiProgram = program("pingpong", 2, 60, false);

/// The line by which a program reports that it has verified everything.
#[must_use]
pub fn verified(program: &MpiProgram, output: &str) -> bool {
    let line = format!("verified: {} on {} ranks", program.name, program.ranks);
    output.lines().any(|one| one.trim_end() == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_its_source_and_every_source_its_program() {
        let folder = ofi_xdp_harness::paths::workspace().join("tests/interop/mpi/programs");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut sources: Vec<String> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        sources.sort();
        let listed = PROGRAMS.iter().chain([&PINGPONG]).filter(|one| one.mpi4py().is_none());
        let mut listed: Vec<&str> = listed.map(|program| program.name).collect();
        listed.sort_unstable();
        assert_eq!(sources, listed);
    }

    #[test]
    fn only_the_whole_line_counts() {
        let program = &PROGRAMS[0];
        assert!(verified(program, "noise\nverified: modes on 4 ranks\n"));
        assert!(!verified(program, "verified: modes on 2 ranks"));
        assert!(!verified(program, ""));
    }
}

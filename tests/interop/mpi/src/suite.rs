// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test run: every MPI, over AF_XDP and over kernel sockets, every program.

use std::time::{Duration, Instant};

use crate::implementation::Mpi;
use crate::job::{Done, Stand};
use crate::program::{MPI4PY_IO, MpiProgram, PROGRAMS};
use crate::transport::Transport;
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::tier::XdpMode;

/// A selection of jobs.
#[derive(Clone, Debug)]
pub struct Selection {
    /// These MPIs.
    pub mpis: Vec<Mpi>,
    /// These transports.
    pub transports: Vec<Transport>,
    /// Only this program.
    pub program: Option<String>,
    /// Only programs of a quick run.
    pub quick: bool,
    /// Intel MPI runs [`SAMPLE`] alone: it shares its device with MPICH, and the whole run is long.
    pub sampled: bool,
    /// No job starts after this time.
    pub limit: Duration,
}

impl Selection {
    /// The default transports: the best AF_XDP mode of the link, and kernel sockets.
    pub const TRANSPORTS: [Transport; 2] =
        [Transport::Xdp(XdpMode::Auto), Transport::Xdp(XdpMode::Udp)];

    /// All jobs of the selection, in the order in which they run.
    fn jobs(&self) -> Vec<(Mpi, Transport, &'static MpiProgram)> {
        let mut jobs = Vec::new();
        for &transport in &self.transports {
            for &mpi in &self.mpis {
                let held = PROGRAMS.iter().filter(|one| self.holds(mpi, transport, one));
                jobs.extend(held.map(|program| (mpi, transport, program)));
            }
        }
        jobs.sort_by_key(|(_, _, program)| (program.mpi4py().is_some(), program.name != MPI4PY_IO));
        jobs
    }

    fn holds(&self, mpi: Mpi, transport: Transport, program: &MpiProgram) -> bool {
        if let Some(name) = &self.program {
            return program.name == name && (program.mpi4py().is_none() || mpi != Mpi::Openmpi4);
        }
        if self.quick && !program.quick {
            return false;
        }
        if self.sampled && mpi == Mpi::Impi {
            return SAMPLE.contains(&(transport, program.name));
        }
        // mpi4py's suite takes minutes. It runs once over each transport: by MPICH over one and by
        // Open MPI over the other. Intel MPI runs it where it is asked for.
        program.mpi4py().is_none()
            || matches!(
                (mpi, transport),
                (Mpi::Mpich, Transport::Xdp(XdpMode::Auto))
                    | (Mpi::Openmpi5, Transport::Xdp(XdpMode::Udp))
                    | (Mpi::Impi, _)
            )
    }
}

/// The jobs of Intel MPI in a run that names no MPI: each kind of operation, and 32 ranks.
const SAMPLE: [(Transport, &str); 4] = [
    (Transport::Xdp(XdpMode::Auto), "modes"),
    (Transport::Xdp(XdpMode::Auto), "onesided"),
    (Transport::Xdp(XdpMode::Auto), "many"),
    (Transport::Xdp(XdpMode::Udp), "collectives"),
];

/// Counts of jobs by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    /// Verified, and proved to be carried by the provider.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Did not run, because the time for all jobs was over: a slow machine is no fault.
    pub not_run: u64,
}

/// Runs the selection, with a line for each job. mpi4py's long suite comes last.
///
/// # Errors
/// When interrupted.
pub fn run(stand: &Stand, selection: &Selection) -> anyhow::Result<Outcomes> {
    let start = Instant::now();
    let mut outcomes = Outcomes::default();
    for (mpi, transport, program) in selection.jobs() {
        let label = format!("{} {} {}", mpi.name(), transport.label(), program.name);
        if start.elapsed() > selection.limit {
            println!("NOT RUN {label}: the time for all jobs is over");
            outcomes.not_run += 1;
            continue;
        }
        let began = Instant::now();
        let done = stand.run(mpi, transport, program);
        interrupt::check()?;
        match done {
            Ok(done) => {
                outcomes.passed += 1;
                println!("ok     {label:<34} {}", summary(&done, program, began.elapsed()));
            }
            Err(error) => {
                outcomes.failed += 1;
                println!("FAILED {label}: {error:#}");
            }
        }
    }
    Ok(outcomes)
}

fn summary(done: &Done, program: &MpiProgram, took: Duration) -> String {
    let carried = &done.carried;
    format!(
        "{:2} ranks {:5.1} s  {:8} packets (AF_XDP {}, kernel {}, again {})",
        program.ranks,
        took.as_secs_f32(),
        carried.packets,
        carried.through_xdp,
        carried.through_udp,
        carried.retransmissions,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::MPI4PY;

    fn everything() -> Selection {
        Selection {
            mpis: Mpi::ALL.to_vec(),
            transports: Selection::TRANSPORTS.to_vec(),
            program: None,
            quick: false,
            sampled: true,
            limit: Duration::from_secs(1),
        }
    }

    fn count(selection: &Selection, name: &str) -> usize {
        selection.jobs().iter().filter(|(_, _, program)| program.name == name).count()
    }

    #[test]
    fn every_program_runs_on_every_mpi_both_ways_and_mpi4py_once_each_way() {
        let selection = Selection { sampled: false, ..everything() };
        for program in PROGRAMS.iter().filter(|program| program.mpi4py().is_none()) {
            assert_eq!(count(&selection, program.name), 8, "{}", program.name);
        }
        assert_eq!(count(&selection, MPI4PY), 4);
    }

    #[test]
    fn intel_mpi_runs_its_sample_unless_it_is_asked_for() {
        let jobs = |sampled, quick| {
            let selection = Selection { sampled, quick, mpis: vec![Mpi::Impi], ..everything() };
            selection.jobs().len()
        };
        assert_eq!((jobs(true, false), jobs(true, true)), (SAMPLE.len(), SAMPLE.len() - 1));
        assert_eq!(jobs(false, false), 2 * PROGRAMS.len());
        assert_eq!(count(&everything(), MPI4PY), 2);
    }

    #[test]
    fn a_quick_run_is_a_part_and_a_named_program_runs_wherever_it_can() {
        let quick = Selection { quick: true, ..everything() };
        assert_eq!(count(&quick, "modes"), 7);
        assert_eq!(count(&quick, MPI4PY), 0);
        let named = Selection { program: Some(MPI4PY.to_owned()), ..everything() };
        assert_eq!(count(&named, MPI4PY), 6);
        assert_eq!(count(&named, "modes"), 0);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask`: every command of the project, one task a file.
//!
//! In: the command line. Out: the result of the task (a provider, a report, an error) and the
//! exit code, 0 for success. Called by people and by `.ci/run`. Builds on a bare machine: a
//! task that needs more than Rust calls [`setup::ensure`] first.

mod aarch64;
mod age;
mod artifacts;
mod bench;
mod bindings;
mod build;
mod checks;
mod clean_lab;
mod conformance;
mod engine;
mod fabtests;
mod freestanding;
mod fuzz;
mod install;
mod lab;
mod licences;
mod mpi;
mod mutate;
mod package;
mod pgo;
mod process;
mod results;
mod setup;
mod simulator;
mod stage;
mod suite;
mod test;
mod tidy;
mod top;
mod vm;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

use crate::build::Profile;
use crate::conformance::{Libfabric, Tier};
use crate::workspace::Workspace;

/// Builds, tests and runs the xdp provider.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the packages that the build and the tests need
    Setup {
        /// Also the packages for the checks of `test --all` and for `bindings`
        #[arg(long)]
        all: bool,
    },
    /// Build the provider (target/provider/libxdp-fi.so), the examples and the lab
    Build {
        /// The library alone, without programs: a third of the time
        #[arg(long, conflicts_with_all = ["debug", "pgo"])]
        provider: bool,
        /// Without optimisation: quicker to build, slower to run
        #[arg(long, conflicts_with = "pgo")]
        debug: bool,
        /// With a profile of itself under load (PGO), as `bench` and `install` do:
        /// faster, and takes twice as long to build, and root
        #[arg(long)]
        pgo: bool,
    },
    /// Put the provider where libfabric looks for providers
    Install {
        /// Install under PREFIX/lib/libfabric instead of the system's libfabric
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<PathBuf>,
    },
    /// Make the .deb, the .rpm and the .tar.gz in target/package
    Package {
        /// Of the PGO build, for publication: takes longer, and root
        #[arg(long)]
        pgo: bool,
    },
    /// Two hosts, one job over the provider: set up, build, measure, report (`run -- --help`)
    Run {
        /// --pgo measures the PGO build, as installed, which takes minutes more to make. The rest
        /// is passed to the lab, e.g. --quick, --mode zerocopy|copy|skb|udp|auto, --nic IF --peer
        /// ADDR
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Measure the provider against raw AF_XDP, kernel UDP and libfabric's own providers
    /// (`bench -- --help` lists the suites)
    Bench {
        /// One suite, else all; --quick; --markdown for tables in Markdown. `report` prints the
        /// figures of earlier runs; `engine --record` updates the instruction ledger that CI
        /// compares the engine with
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Two runs of `bench` or `run` beside each other: each figure before and after, and a page
    Report {
        /// The earlier run, the later run: files of records, or folders of them (a copy of
        /// target/bench); --page FILE
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Where the time of a client goes: flame graphs of the ping-pong, of small messages, of bulk
    Profile {
        /// Passed to the lab, e.g. --mode skb
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Run every test; with --all (the default when CI=true) every check that .ci/run makes
    Test {
        /// Also format, lints, tidy, spelling, licences, documentation and generated files
        #[arg(long, conflicts_with = "filter")]
        all: bool,
        /// Only this stage (any of those that --all lists); may be given several times
        #[arg(long, conflicts_with = "all", value_name = "NAME", value_parser = stages())]
        stage: Vec<String>,
        /// Only tests with one of these in their names
        #[arg(value_name = "FILTER")]
        filter: Vec<String>,
    },
    /// MPICH, Open MPI and Intel MPI over the provider, between four hosts: all is installed,
    /// compiled, run and verified
    Mpi {
        /// Passed to the runner: --mpi mpich|openmpi5|openmpi4|impi, --mode auto|copy|skb|udp|tcp,
        /// --program NAME, --quick, --latency (`mpi -- --help`)
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Four hosts with verified traffic, and faults: what grows, and what stops?
    Age {
        /// Length of the run
        #[arg(long, default_value_t = age::STAGE_MINUTES)]
        minutes: u64,
        /// Order of faults and kills
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// A virtual machine with network cards for zero-copy: tests, measurements or a prompt in it
    Vm {
        #[command(subcommand)]
        task: vm::Task,
    },
    /// Live statistics of the endpoints on this machine: --json, --prometheus (`top -- --help`)
    Top {
        /// Passed to xdp-top
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// The simulator: --seed S, --swarm MINUTES, or its own subcommands (`sim -- --help`)
    Sim {
        /// Passed to the simulator, which is built in release
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// The promises of libfabric's man pages, a test each, on this or another provider
    Conformance {
        /// On Debian 13's libfabric 2 instead of the installed one
        #[arg(long)]
        libfabric2: bool,
        /// Between two hosts made of network namespaces, over AF_XDP; takes root
        #[arg(long)]
        af_xdp: bool,
        /// Each test on this provider (tcp, sockets), and through passthrough to it: no worse?
        #[arg(long, value_name = "PROVIDER", conflicts_with = "af_xdp")]
        passthrough: Option<String>,
        /// Passed to the suite, e.g. --provider tcp, --filter cq, --list, --slow, --json
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// libfabric's own tests between two hosts, over AF_XDP and kernel UDP; takes root
    Fabtests {
        /// The folder with the programs and runfabtests.sh, then e.g. --provider tcp,
        /// --set standard, --filter dgram, --mode udp
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Run the fuzz targets, each for some time, from the corpus in the tree
    Fuzz {
        /// Only this one
        #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(fuzz::TARGETS))]
        target: Option<String>,
        /// How long each runs
        #[arg(long, default_value_t = fuzz::SECONDS)]
        seconds: u64,
        /// Play this input again instead
        #[arg(long, value_name = "FILE", requires = "target")]
        replay: Option<PathBuf>,
    },
    /// Break the engine in known ways, one at a time, and show which check notices
    Mutate {
        /// Only this mutation; may be given more than once
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Print the table and do nothing
        #[arg(long)]
        list: bool,
    },
    /// Check the rules of this code base: unsafe list, sizes, layering, licence lines, citations
    Tidy {
        /// Figures of the comments' language by crate; with FOLDER, each doubtful word below it
        #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "FOLDER")]
        prose: Option<String>,
        /// List the faults that xtask/src/tidy/exceptions.toml excuses
        #[arg(long, conflicts_with = "prose")]
        excused: bool,
    },
    /// Write the tables of figures in README.md and docs/ from the data in docs/results
    Results {
        /// First enter the last run of this suite (target/bench/SUITE.json) into docs/results
        #[arg(long, value_name = "SUITE", requires = "conditions")]
        enter: Option<String>,
        /// Link, rounds and load of the machine in that run
        #[arg(long, value_name = "TEXT", requires = "enter")]
        conditions: Option<String>,
        /// The build that was measured
        #[arg(long, value_name = "NAME", default_value = "PGO")]
        build: String,
    },
    /// Generate ffi/libfabric-sys/src/bindings.rs from the libfabric headers
    Bindings {
        /// Write nothing; fail if the committed file differs from the generated one
        #[arg(long)]
        check: bool,
    },
    /// Remove network namespaces that a lab run left behind when the machine crashed
    CleanLab,
}

fn stages() -> PossibleValuesParser {
    PossibleValuesParser::new(test::stage_names())
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let workspace = Workspace::open()?;
    match cli.task {
        Task::Setup { all } => {
            setup::ensure(if all { setup::EVERYTHING } else { setup::BUILD_AND_RUN })?;
            println!("set-up: nothing is missing");
        }
        Task::Build { provider, debug, pgo } => {
            let profile = match (provider, debug, pgo) {
                (true, ..) => Profile::Provider,
                (_, true, _) => Profile::Debug,
                (.., true) => Profile::Pgo,
                _ => Profile::Release,
            };
            let built = build::build(&workspace, profile)?;
            println!("provider  {}", built.provider.display());
            for program in built.programs.values() {
                println!("program   {}", program.display());
            }
        }
        Task::Install { prefix } => install::install(&workspace, prefix)?,
        Task::Package { pgo } => package::package(&workspace, pgo)?,
        Task::Run { arguments } => return lab::run(&workspace, &arguments),
        Task::Bench { arguments } => return bench::bench(&workspace, &arguments),
        Task::Profile { arguments } => {
            setup::ensure(&[setup::Purpose::Count])?;
            return lab::exec(&workspace, "profile", &arguments);
        }
        Task::Report { arguments } => return lab::report(&workspace, &arguments),
        Task::Test { all, stage, filter } => {
            return test::test(workspace, all, &stage, filter);
        }
        Task::Mpi { arguments } => {
            let counts = mpi::mpi(&workspace, &arguments)?;
            return Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Task::Age { minutes, seed } => age::age(&workspace, minutes, seed)?,
        Task::Vm { task } => return vm::vm(&workspace, &task),
        Task::Top { arguments } => return top::exec(&workspace, &arguments),
        Task::Sim { arguments } => return simulator::exec(&workspace, arguments),
        Task::Conformance { libfabric2, af_xdp, passthrough, arguments } => {
            let libfabric = if libfabric2 { Libfabric::Two } else { Libfabric::Installed };
            let tier = match &passthrough {
                Some(stand_in) => Tier::Passthrough(stand_in),
                None if af_xdp => Tier::AfXdp,
                None => Tier::KernelUdp,
            };
            return conformance::exec(&workspace, libfabric, tier, &arguments);
        }
        Task::Fabtests { arguments } => return fabtests::exec(&workspace, &arguments),
        Task::Fuzz { target: Some(target), replay: Some(input), .. } => {
            fuzz::replay(&workspace, &target, &input)?;
        }
        Task::Fuzz { target, seconds, .. } => {
            fuzz::fuzz(&workspace, target.as_deref(), seconds, None)?;
        }
        Task::Mutate { list: true, .. } => mutate::list(&workspace)?,
        Task::Mutate { only, .. } => mutate::mutate(&workspace, &only)?,
        Task::Tidy { prose: Some(folder), .. } => tidy::prose(workspace.root(), &folder)?,
        Task::Tidy { excused: true, .. } => tidy::excused(workspace.root())?,
        Task::Tidy { .. } => tidy::tidy(workspace.root())?,
        Task::Results { enter, conditions, build } => {
            if let (Some(suite), Some(conditions)) = (enter, conditions) {
                results::enter(workspace.root(), &suite, &build, &conditions)?;
            }
            results::write(workspace.root())?;
        }
        Task::Bindings { check } => bindings::bindings(&workspace, check)?,
        Task::CleanLab => clean_lab::clean_lab()?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn run_passes_every_argument_through() {
        let cli = Cli::try_parse_from(["xtask", "run", "--nic", "eth0", "--mode", "copy"]).unwrap();
        let Task::Run { arguments } = cli.task else { panic!("{cli:?}") };
        assert_eq!(arguments, ["--nic", "eth0", "--mode", "copy"]);
    }

    #[test]
    fn a_wrong_stage_is_answered_with_the_list() {
        let error = Cli::try_parse_from(["xtask", "test", "--stage", "x"]).unwrap_err().to_string();
        assert!(error.contains("clippy") && error.contains("root-tests"), "{error}");
    }

    #[test]
    fn a_wrong_task_is_answered_with_the_near_one() {
        let error = Cli::try_parse_from(["xtask", "tset"]).unwrap_err().to_string();
        assert!(error.contains("'test'"), "{error}");
    }
}

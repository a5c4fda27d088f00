// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-lab`: two hosts, the provider beside its peers, one report. `cargo xtask run` and
//! `cargo xtask bench` build everything and call it.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::topology::{LinkOptions, TwoHosts};
use ofi_xdp_harness::{interrupt, netns, paths};
use ofi_xdp_lab::measure::{
    Candidate, Environment, LinkUse, Results, Suite, TAGGED, candidates, describe_path, profile,
    run, run_with, serve,
};
use ofi_xdp_lab::report::{self, Record};
use ofi_xdp_lab::suites::{self, Plan, Programs};
use ofi_xdp_lab::{Made, conformance, fabtests, plot, table};

/// Latency and message rate of the provider `xdp`, beside those of its peers.
#[derive(Debug, Parser)]
#[command(name = "ofi-xdp-lab", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Ping-pong and stream between two hosts, a table, a report and pictures (target/run)
    Run(RunArguments),
    /// One suite of benchmarks, or all (target/bench)
    Bench(BenchArguments),
    /// The client's processor time as flame graphs (target/profile)
    Profile {
        /// The tier or mode of the provider
        #[arg(long, value_enum, default_value = "auto")]
        mode: XdpMode,
    },
    /// Two runs beside each other: each figure before and after
    Report {
        /// The earlier run: a file of records, or a folder of them (target/bench)
        before: PathBuf,
        /// The later run
        after: PathBuf,
        /// The page
        #[arg(long, default_value = "comparison.html", value_name = "FILE")]
        page: PathBuf,
    },
    /// A workload of every kind for a build with counters (`cargo xtask build --pgo`)
    PgoWorkload,
    /// The conformance suite between two hosts, over AF_XDP
    Conformance {
        /// The suite
        program: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// libfabric's own tests between two hosts, over AF_XDP and kernel UDP
    Fabtests(fabtests::Arguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Fewer sizes and rounds: a quarter of a minute
    #[arg(long)]
    quick: bool,
    /// The tier or mode of the provider
    #[arg(long, value_enum, default_value = "auto")]
    mode: XdpMode,
    /// Use this interface and another machine, in place of two hosts made of namespaces
    #[arg(long, value_name = "INTERFACE")]
    nic: Option<String>,
    /// The address of the other machine, on which `run --serve` runs
    #[arg(long, value_name = "IP", requires = "nic", conflicts_with = "serve")]
    peer: Option<IpAddr>,
    /// Serve the other machine
    #[arg(long, requires = "nic")]
    serve: bool,
}

/// Arguments that name what `bench` measures or presents.
fn suite_names() -> PossibleValuesParser {
    suites::SUITES.into_iter().chain(["report"]).into()
}

#[derive(Debug, Args)]
struct BenchArguments {
    /// One suite; all of them but `path` and `lazy` if none is named. `engine` and `report` measure
    /// nothing here: they present earlier results
    #[arg(value_parser = suite_names())]
    suite: Option<String>,
    /// Fewer rounds, shorter measurements, fewer sizes
    #[arg(long)]
    quick: bool,
    /// At the end print the tables of the run, in Markdown
    #[arg(long)]
    markdown: bool,
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    let outcome = interrupt::install().and_then(|()| match &task {
        Task::Run(arguments) => main_job(arguments),
        Task::Bench(arguments) => bench(arguments),
        Task::Profile { mode } => profiles(*mode),
        Task::Report { before, after, page } => compare([before, after], page),
        Task::PgoWorkload => pgo_workload(),
        Task::Conformance { program, arguments } => {
            let status = conformance::run(program, arguments)?;
            Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Task::Fabtests(arguments) => {
            Ok(if fabtests::run(arguments)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    });
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ofi-xdp-lab: {error:#}");
            // The exit code of a program that SIGINT ended, as shells report it.
            if interrupt::check().is_err() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn main_job(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let made = Made::from_environment();
    let environment = match (&arguments.nic, arguments.peer) {
        (Some(nic), None) if arguments.serve => {
            serve(nic, arguments.mode)?;
            return Ok(ExitCode::SUCCESS);
        }
        (Some(_), None) => anyhow::bail!("--nic needs --peer IP, or --serve on the other machine"),
        (Some(nic), Some(peer)) => Environment::Machine { nic: nic.clone(), peer },
        (None, _) => two_hosts()?,
    };
    let suite = Suite::run(arguments.quick);
    let results = measure(&suite, &environment, arguments.mode)?;
    let setting = format!("{}, {}", environment.setting(), made.build());
    drop(environment);

    println!(
        "\nhalf round trip of 8 bytes, and 8-byte messages in windows of 64; {}, medians of {} \
         rounds:\n",
        made.build(),
        suite.rounds
    );
    println!("{}\n", table::summary(&results, 8, 8));
    let folder = paths::workspace().join("target/run");
    let report = folder.join("report.json");
    let records = results.records();
    report::write(&report, &records)?;
    let mut written = vec![report];
    written.extend(plot::distribution(&results, 8, &folder.join("latency"))?);
    written.extend(plot::by_size(&results, &folder.join("latency-by-size"))?);
    written.push(write_page(&folder, &records, &setting)?);
    say_where(&written);
    println!("time       {}", made.times());
    Ok(exit_code(&results))
}

fn bench(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let folder = paths::workspace().join("target/bench");
    let mut code = ExitCode::SUCCESS;
    let suites: Vec<&str> = match arguments.suite.as_deref() {
        Some("report" | "engine") => Vec::new(),
        Some(one) => vec![one],
        None => {
            let is_short = |suite: &&str| !suites::LONG_SUITES.contains(suite);
            suites::SUITES.into_iter().filter(is_short).collect()
        }
    };
    for suite in suites {
        let measured = match suites::plan(suite, arguments.quick) {
            Some(plan) => measure_suite(plan, arguments.quick, &folder)?,
            None if suite == suites::PATH => measure_path(arguments.quick, &folder)?,
            None if suite == suites::DATAGRAMS => measure_datagrams(arguments.quick, &folder)?,
            None if suite == suites::MATCHING => {
                keep(suite, &suites::matching(arguments.quick)?, &folder)?
            }
            None if suite == suites::THREADS => {
                keep(suite, &suites::threads(arguments.quick)?, &folder)?
            }
            None if suite == suites::QUEUES => measure_queues(arguments.quick, &folder)?,
            None => continue,
        };
        if measured != ExitCode::SUCCESS {
            code = ExitCode::FAILURE;
        }
    }
    let records = suites::all_records(&folder)?;
    let about = arguments.suite.as_deref().filter(|suite| *suite != "report");
    print_targets(&records, about);
    say_where(&[write_page(&folder, &records, SETTING)?]);
    if arguments.markdown {
        println!("\n{}", suites::markdown(&records));
    }
    Ok(code)
}

/// Writes the page of a folder with records and plots.
fn write_page(folder: &Path, records: &[Record], setting: &str) -> anyhow::Result<PathBuf> {
    let pictures =
        [("Latency distribution", "latency.svg"), ("Latency by size", "latency-by-size.svg")];
    let drawn = pictures.into_iter().filter_map(|(title, file)| {
        Some((title.to_owned(), std::fs::read_to_string(folder.join(file)).ok()?))
    });
    let page = folder.join("report.html");
    let setting = format!("{setting}. {}", suites::facts());
    report::replace(&page, &suites::page(records, &setting, &drawn.collect::<Vec<_>>()))?;
    Ok(page)
}

/// Compares two runs, on the terminal and as a page.
fn compare(runs: [&PathBuf; 2], page: &Path) -> anyhow::Result<ExitCode> {
    let read = |run: &Path| match run.is_dir() {
        true => suites::all_records(run),
        false => report::read(run),
    };
    let [before, after] = [read(runs[0])?, read(runs[1])?];
    let comparison = suites::Comparison::new(&before, &after);
    anyhow::ensure!(
        !comparison.is_empty(),
        "no figure is in both runs: are they files or folders of records, of the same suites?"
    );
    let names = runs.map(|run| run.display().to_string());
    report::replace(page, &comparison.page([&names[0], &names[1]]))?;
    let (table, summary) = (comparison.table(), comparison.summary());
    let text = format!("{table}\n\n{summary}\n\nwrote {}\n", page.display());
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the workload; keeps no results.
fn pgo_workload() -> anyhow::Result<ExitCode> {
    let plan = suites::plan(suites::PGO_WORKLOAD, false).context("no work to count")?;
    netns::sweep()?;
    let Plan { suite, rounds, mut entries } = plan;
    let environment = Environment::own_links(&mut entries)?;
    let results = run((suite, rounds), &environment, entries)?;
    drop(environment);
    suites::exercise_datagrams()?;
    Ok(exit_code(&results))
}

const SETTING: &str = "network namespaces of one machine, joined by veth, a link for each peer";

/// Measures one suite, and writes its records.
fn measure_suite(plan: Plan, quick: bool, folder: &Path) -> anyhow::Result<ExitCode> {
    let Plan { suite, rounds, mut entries } = plan;
    // Before the first measurement, so that a missing program is reported at once.
    let programs = (suite == "scale").then(Programs::find).transpose()?;
    netns::sweep()?;
    let reads = match suite {
        "cpu" => suites::empty_reads(&TwoHosts::new(&[LinkOptions::default(); 2])?, rounds)?,
        _ => Vec::new(),
    };
    let environment = match suite {
        "lazy" => Environment::links_by_mode(&mut entries)?,
        _ => Environment::own_links(&mut entries)?,
    };
    let results = run((suite, rounds), &environment, entries)?;
    let mut records = results.records();
    records.extend(reads);
    if let Some(programs) = programs {
        records.extend(suites::insertions(&programs, &environment, rounds)?);
        records.extend(suites::connections(&programs, &environment, quick)?);
        records.extend(suites::many_peers(&programs, quick)?);
    }
    drop(environment);
    let table = match suite {
        "lazy" => suites::lazy_table(&records, quick),
        _ => suites::table(&records),
    };
    println!("{suite}:\n{table}\n");
    let path = suites::records_of(folder, suite);
    report::write(&path, &records)?;
    let mut written = vec![path];
    if suite == "latency" {
        let spinning = results.only(|who| who.operation == TAGGED && who.link != LinkUse::Loopback);
        written.extend(plot::distribution(&spinning, 8, &folder.join("latency"))?);
        written.extend(plot::by_size(&spinning, &folder.join("latency-by-size"))?);
    }
    say_where(&written);
    println!();
    Ok(exit_code(&results))
}

/// Measures the suite `path`, and writes its records.
fn measure_path(quick: bool, folder: &Path) -> anyhow::Result<ExitCode> {
    netns::sweep()?;
    let suite = suites::PathSuite::new(quick)?;
    let mut records = suite.limit()?;
    records.extend(suite.transfers()?);
    records.extend(suite.beside()?);
    drop(suite);
    println!("\n{}:\n{}\n", suites::PATH, suites::path_tables(&records));
    let path = suites::records_of(folder, suites::PATH);
    report::write(&path, &records)?;
    say_where(&[path]);
    println!();
    // A transfer that exceeds its time limit is a figure.
    Ok(ExitCode::SUCCESS)
}

/// Prints the records of a suite that is no plan, and writes them.
fn keep(suite: &str, records: &[Record], folder: &Path) -> anyhow::Result<ExitCode> {
    println!("{suite}:\n{}\n", suites::table(records));
    let path = suites::records_of(folder, suite);
    report::write(&path, records)?;
    say_where(&[path]);
    println!();
    Ok(ExitCode::SUCCESS)
}

/// Measures the suite `datagrams`, and writes its records.
fn measure_datagrams(quick: bool, folder: &Path) -> anyhow::Result<ExitCode> {
    netns::sweep()?;
    keep(suites::DATAGRAMS, &suites::datagrams(quick)?, folder)
}

/// Measures the suite `queues`, and writes its records.
fn measure_queues(quick: bool, folder: &Path) -> anyhow::Result<ExitCode> {
    netns::sweep()?;
    let records = suites::queues(quick)?;
    println!("\n{}:\n{}\n", suites::QUEUES, suites::queues_table(&records));
    let path = suites::records_of(folder, suites::QUEUES);
    report::write(&path, &records)?;
    say_where(&[path]);
    println!();
    Ok(ExitCode::SUCCESS)
}

/// Prints the targets, for information.
fn print_targets(records: &[Record], suite: Option<&str>) {
    let rows = suites::targets(records);
    let rows = rows.iter().filter(|row| suite.is_none_or(|suite| row.suite == suite));
    println!("targets:");
    for row in rows {
        println!("  {:<7} {:<74} {:>16}  {:>16}", row.outcome(), row.what, row.target, row.shown());
    }
    println!();
}

/// A flame graph of the ping-pong, of small messages in windows, and of large ones.
fn profiles(mode: XdpMode) -> anyhow::Result<ExitCode> {
    let folder = paths::workspace().join("target/profile");
    std::fs::create_dir_all(&folder)?;
    let environment = two_hosts()?;
    let mut written = Vec::new();
    for (name, what) in [
        ("ping-pong", ["--latency", "8"]),
        ("messages", ["--stream", "8x64"]),
        ("bulk", ["--stream", "65536x16"]),
    ] {
        interrupt::check()?;
        let rest = ["--time", "4000", "--count", "1000000000"];
        let arguments: Vec<String> = what.iter().chain(&rest).map(ToString::to_string).collect();
        let picture = folder.join(format!("{name}.svg"));
        let title = format!("xdp, {}: {name}, the client", mode.as_str());
        let shares = profile(&environment, &Candidate::xdp(mode), &arguments, &title, &picture)?;
        println!("{name}:");
        for shares in [shares.objects, shares.functions] {
            for (name, share) in shares.iter().filter(|(_, share)| *share >= 0.01) {
                println!("  {:>5.1} %  {name}", 100.0 * share);
            }
            println!();
        }
        written.push(picture);
    }
    say_where(&written);
    Ok(ExitCode::SUCCESS)
}

/// Two hosts, after the removal of the remains of killed runs.
fn two_hosts() -> anyhow::Result<Environment> {
    netns::sweep()?;
    Environment::two_hosts()
}

/// Describes the path of the provider, then measures all candidates.
fn measure(suite: &Suite, environment: &Environment, mode: XdpMode) -> anyhow::Result<Results> {
    let mut all: Vec<Candidate> = candidates(mode);
    let seen = describe_path(environment, &all[0]);
    interrupt::check()?;
    match seen {
        Ok(tier) => all[0].mode = tier,
        Err(error) => eprintln!("xdp: {error:#}\n"),
    }
    println!("first of {} rounds: half round trip of 8 bytes, messages of 8 bytes", suite.rounds);
    let rounds = (suite.name, suite.rounds);
    run_with(rounds, environment, suite.entries(all), |one| table::first_round(one, 8, 8))
}

fn say_where(files: &[PathBuf]) {
    for file in files {
        println!("wrote {}", file.display());
    }
}

/// Prints failed sessions; the exit code is a failure if `xdp` had one.
fn exit_code(results: &Results) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for series in results.series.iter().filter(|series| !series.failures.is_empty()) {
        let Candidate { operation, polling, .. } = &series.candidate;
        let cell = polling.as_ref().map(|polling| format!(", {operation}, {polling}"));
        let label = format!("{}{}", series.candidate.label(), cell.unwrap_or_default());
        let count = series.failures.len();
        eprintln!("{label}: {count} of {} rounds failed; the last:", results.rounds);
        eprintln!("  {}", series.failures[count - 1]);
        if series.candidate.peer == "xdp" {
            code = ExitCode::FAILURE;
        }
    }
    code
}

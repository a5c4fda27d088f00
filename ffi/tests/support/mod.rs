// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers of the tests of the built library: its path, programs that use it, and a libfabric 2.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several test programs")]

mod skip;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub use skip::{left_out, skipped};

/// The folder of build products (`target/debug/deps`), which contains this program.
fn build_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a program has a path");
    program.parent().expect("a program is in a folder").to_owned()
}

/// A scratch folder that outlives the test run, so that fetched and compiled files are used again.
/// Root has another one, as other users could not write to its files.
pub fn scratch(name: &str) -> PathBuf {
    let folder = match std::env::var("SUDO_UID") {
        Ok(user) if nix::unistd::geteuid().is_root() && user != "0" => std::env::temp_dir(),
        _ => build_folder(),
    };
    let folder = folder.join("libfabric-tests").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The provider as cargo built it.
pub fn library() -> PathBuf {
    let path = build_folder().join("libxdp_fi.so");
    assert!(path.exists(), "cargo builds the cdylib before the tests: {}", path.display());
    path
}

/// A folder for `FI_PROVIDER_PATH`, with only the provider, under the name that libfabric expects.
pub fn provider_path() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("provider");
        let own = folder.join(format!("libxdp-fi.so.{}", std::process::id()));
        std::fs::copy(library(), &own).unwrap();
        // Renaming is atomic: another test program may be loading the old one.
        std::fs::rename(&own, folder.join("libxdp-fi.so")).unwrap();
        folder
    })
}

/// The libfabric that runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Libfabric {
    /// The installed one.
    Installed,
    /// Debian 13's, 2.1.
    Two,
}

impl Libfabric {
    /// A command that runs `program` with this libfabric and this provider; `None` if it is not
    /// available.
    pub fn command(self, program: &Path) -> Option<Command> {
        let mut command = match self {
            Self::Installed => Command::new(program),
            Self::Two => {
                let libraries = debian_13()?.join("usr/lib/x86_64-linux-gnu");
                // Its C library is newer than Debian 12's, so its own loader starts the program.
                let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
                command.arg("--library-path").arg(libraries).arg(program);
                command
            }
        };
        command.env("FI_PROVIDER_PATH", provider_path()).env("FI_LOG_LEVEL", "warn");
        Some(command)
    }

    /// libfabric's own tools of this version.
    pub fn tool(self, name: &str) -> Option<PathBuf> {
        match self {
            Self::Installed => Some(PathBuf::from(name)),
            Self::Two => Some(debian_13()?.join("usr/bin").join(name)),
        }
    }
}

/// Compiles `tests/c/<name>.c` with the installed headers. Each call makes a file of its own, as
/// tests may be threads of one process.
pub fn compiled(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = scratch("c").join(format!("{name}.{}.{number}", std::process::id()));
    let status = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(sources.join(format!("{name}.c")))
        .args(["-lfabric", "-lm"])
        .status()
        .expect("cc: install gcc and libfabric-dev");
    assert!(status.success(), "{name}.c does not compile");
    program
}

/// Fails with everything that the program printed, unless it succeeded.
#[track_caller]
pub fn assert_success(what: &str, output: &Output) {
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{stdout}\n{stderr}", output.status);
    println!("{stdout}{stderr}");
}

/// Whether valgrind is installed.
#[track_caller]
pub fn has_valgrind() -> bool {
    let there = Command::new("valgrind").arg("--version").output().is_ok();
    if !there {
        skipped("no valgrind: `cargo xtask setup --all` installs it");
    }
    there
}

/// The folder into which Debian 13's libfabric 2 and its dependencies are unpacked.
fn folder_of_debian_13() -> PathBuf {
    build_folder().join("libfabric-tests/debian-13")
}

/// The root of that file system, if it has been fetched.
pub fn fetched() -> Option<PathBuf> {
    let folder = folder_of_debian_13();
    folder.join("complete").exists().then(|| folder.join("root"))
}

/// The root of that file system, fetched if need be. `None`, with a message, if that fails.
#[track_caller]
pub fn debian_13() -> Option<&'static Path> {
    static ROOT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if !cfg!(target_arch = "x86_64") {
        left_out("no libfabric 2 to test with: the packages here are for x86_64");
        return None;
    }
    let root = ROOT.get_or_init(|| {
        let folder = folder_of_debian_13();
        std::fs::create_dir_all(&folder).expect("a folder for it");
        // Tests are processes of their own: the first one fetches, the others wait for it.
        let lock = std::fs::File::create(folder.join("lock")).expect("a lock file");
        lock.lock().expect("flock(2)");
        fetched().map_or_else(|| fetch(&folder), Ok)
    });
    let missing = |why: &String| skipped(&format!("no libfabric 2 to test with: {why}"));
    root.as_deref().map_err(missing).ok()
}

const PACKAGES: [&str; 15] = [
    "libfabric1",
    "libfabric-bin",
    "libc6",
    "libgcc-s1",
    "librdmacm1t64",
    "ibverbs-providers",
    "libibverbs1",
    "libpsm2-2",
    "libnl-3-200",
    "libnl-route-3-200",
    "libnuma1",
    "libuuid1",
    "libelf1t64",
    "zlib1g",
    "libzstd1",
];

/// Runs apt with its own lists and caches, so that those of the machine stay untouched.
fn fetch(folder: &Path) -> Result<PathBuf, String> {
    let state = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial", "state"] {
        std::fs::create_dir_all(state.join(part)).map_err(|error| error.to_string())?;
    }
    let sources = state.join("sources.list");
    let source = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                  http://deb.debian.org/debian trixie main\n";
    std::fs::write(&sources, source).map_err(|error| error.to_string())?;
    let options = [
        format!("Dir::Etc::SourceList={}", sources.display()),
        "Dir::Etc::SourceParts=/dev/null".into(),
        format!("Dir::State={}", state.join("state").display()),
        format!("Dir::State::Lists={}", state.join("lists").display()),
        format!("Dir::Cache={}", state.join("cache").display()),
        "APT::Sandbox::User=root".into(),
    ];
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(folder).arg("--quiet=2");
        for option in &options {
            command.args(["-o", option]);
        }
        run(command.args(arguments))
    };
    apt(&["update"])?;
    apt(&[["download"].as_slice(), &PACKAGES].concat())?;
    let packages = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    for package in packages.filter_map(Result::ok).map(|entry| entry.path()) {
        if package.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg").arg("-x").arg(&package).arg(folder.join("root")))?;
        }
    }
    std::fs::write(folder.join("complete"), "").map_err(|error| error.to_string())?;
    Ok(folder.join("root"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

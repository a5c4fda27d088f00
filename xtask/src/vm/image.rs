// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of the guest: the project's programs, libfabric, its tools, and their libraries.
//!
//! In: the built programs, and the kernel's modules. Out: one file that the kernel unpacks.
//! Programs of this machine keep their paths, so that they find their libraries; the project's are
//! in [`PROGRAMS`].

use std::path::Path;

use anyhow::{Context as _, Result};

use super::archive::Archive;
use super::kernel::Kernel;
use super::modules;
use crate::build::Built;
use crate::workspace::{Workspace, find_command};

/// The first process.
const GUEST: &str = "ofi-xdp-vm-guest";
/// Where the project's programs are in the guest.
const PROGRAMS: &str = "/ofi";
/// The environment of programs in the guest.
pub(crate) const ENVIRONMENT: &str =
    "PATH=/usr/bin FI_PROVIDER_PATH=/ofi/provider OFI_XDP_PROGRAMS=/ofi";
/// Programs of the project.
const OWN: [&str; 6] =
    ["xdp-perf", "misbehave", "raw-af_xdp", "kernel-udp", "kernel-udp-gso", "pingpong"];
/// Programs of this machine; busybox is for people.
const SYSTEM: [&str; 7] = ["busybox", "ip", "ss", "ethtool", "bpftool", "fi_info", "fi_pingpong"];
/// Aliases for the prompt's shell, which prefers its own commands to the system's.
const ALIASES: &str = "alias ip=/usr/bin/ip\nalias mount=/usr/bin/mount\n";
/// MPI jobs that run there: the first in the stage, the second takes minutes.
const MPI_PROGRAMS: [&str; 2] = ["collectives", "modes"];
/// The cards' drivers, VLANs, and the listing of AF_XDP sockets (`ss --xdp`).
const MODULES: [&str; 5] = ["virtio_net", "e1000e", "igb", "8021q", "xsk_diag"];

/// Packs the file system of the guest into `to`.
pub(crate) fn pack(workspace: &Workspace, built: &Built, kernel: &Kernel, to: &Path) -> Result<()> {
    let mut archive = Archive::default();
    for folder in ["/dev", "/proc", "/sys", "/run", "/tmp"] {
        archive.folder(folder);
    }
    let own = |name: &str| {
        built.programs.get(name).with_context(|| format!("the build made no program {name}"))
    };
    archive.program(own(GUEST)?, "/init")?;
    for name in OWN {
        archive.program(own(name)?, Path::new(PROGRAMS).join(name))?;
    }
    archive.program(&built.provider, Path::new(PROGRAMS).join("provider/libxdp-fi.so"))?;
    let conformance = crate::conformance::suite(workspace)?;
    archive.program(&conformance, Path::new(PROGRAMS).join("conformance"))?;
    for name in SYSTEM {
        let path = find_command(name).with_context(|| format!("{name} is not installed"))?;
        archive.program(&path, Path::new("/usr/bin").join(name))?;
    }
    mpi(workspace, &mut archive)?;
    // Their order is that of their names.
    for (number, module) in modules::closure(&kernel.modules, &MODULES)?.into_iter().enumerate() {
        archive.bytes(format!("/modules/{number:02}-{}.ko", module.name), module.bytes);
    }
    archive.write(to)
}

/// MPICH's launcher, two programs, and the script that starts commands on the other host.
fn mpi(workspace: &Workspace, archive: &mut Archive) -> Result<()> {
    let mpich = crate::mpi::mpich(workspace)?;
    let folder = Path::new(PROGRAMS).join("mpi");
    for name in ["mpiexec.hydra", "hydra_pmi_proxy"] {
        archive.program(&mpich.launcher.join(name), folder.join("bin").join(name))?;
    }
    for name in MPI_PROGRAMS {
        archive.program(&mpich.programs.join(name), folder.join(name))?;
    }
    let script = workspace.root().join("tests/interop/mpi/programs/host.sh");
    archive.bytes(folder.join("host.sh"), std::fs::read(script)?);
    archive.bytes("/etc/profile", ALIASES.as_bytes().to_vec());
    archive.bytes("/etc/hosts", b"127.0.0.1 localhost\n".to_vec());
    // The shell of that script: busybox's own has an `ip` without namespaces.
    let shell = find_command("sh").context("there is no shell")?;
    for path in ["/bin/sh", "/usr/bin/sh"] {
        archive.program(&shell, path)?;
    }
    for name in ["unshare", "mount"] {
        let path = find_command(name).with_context(|| format!("{name} is not installed"))?;
        archive.program(&path, Path::new("/usr/bin").join(name))?;
    }
    Ok(())
}

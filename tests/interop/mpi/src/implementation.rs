// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MPIs under test, and the command line with which each starts a job.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ValueEnum;

use crate::transport::Transport;

/// An MPI from a package registry, as users install it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Mpi {
    /// MPICH 5 from `PyPI`, device ch4, netmod ofi, with its own libfabric 2.5.
    Mpich,
    /// Open MPI 5 from `PyPI`, with its own libfabric 2.5.
    Openmpi5,
    /// Open MPI 4.1 from Debian, on the installed libfabric 1.17.
    Openmpi4,
    /// Intel MPI 2021.18 from `PyPI`, with its own libfabric 2.4.
    Impi,
}

/// The properties of a job.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The hosts' addresses.
    pub hosts: &'a [Ipv4Addr],
    /// Number of ranks, spread evenly in blocks.
    pub ranks: usize,
    /// The transport of the messages.
    pub transport: Transport,
    /// Whether the job puts, gets or accumulates.
    pub one_sided: bool,
    /// The replacement of ssh.
    pub remote_shell: &'a Path,
    /// Variables that every rank must see.
    pub variables: &'a [(String, String)],
    /// Program and arguments of a rank.
    pub command: &'a [String],
}

impl Mpi {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mpich, Self::Openmpi5, Self::Openmpi4, Self::Impi];

    /// The MPI's folder in `target/mpi`, and its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Openmpi5 => "openmpi5",
            Self::Openmpi4 => "openmpi4",
            Self::Impi => "impi",
        }
    }

    /// The launcher, in its virtual environment below `folder` or in the system.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn launcher(self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = match self {
            Self::Mpich => folder.join("mpich/bin/mpiexec.hydra"),
            Self::Openmpi5 => folder.join("openmpi5/bin/mpirun"),
            Self::Openmpi4 => PathBuf::from("/usr/bin/mpirun.openmpi"),
            Self::Impi => folder.join("impi/bin/mpiexec.hydra"),
        };
        if !path.is_file() {
            bail!("no {}: run `cargo xtask mpi`, which installs it", path.display());
        }
        Ok(path)
    }

    /// The Python with mpi4py for this MPI, if it is installed.
    #[must_use]
    pub fn python(self, folder: &Path) -> Option<PathBuf> {
        let path = folder.join(self.name()).join("bin/python");
        (self != Self::Openmpi4 && path.is_file()).then_some(path)
    }

    /// The words of the command that starts a job.
    #[must_use]
    pub fn command(self, launcher: &Path, request: &Request<'_>) -> Vec<String> {
        let mut words = vec![launcher.to_string_lossy().into_owned()];
        match self {
            Self::Mpich => hydra(&mut words, request, MPICH),
            Self::Impi => hydra(&mut words, request, INTEL_MPI),
            Self::Openmpi5 | Self::Openmpi4 => open_mpi(&mut words, request, self),
        }
        words.extend(request.command.iter().cloned());
        words
    }
}

fn per_host(request: &Request<'_>) -> String {
    request.ranks.div_ceil(request.hosts.len()).max(1).to_string()
}

fn add(words: &mut Vec<String>, more: &[&str]) {
    words.extend(more.iter().map(|word| (*word).to_owned()));
}

/// MPICH: the wheel's device has two netmods, and may take UCX.
const MPICH: &[(&str, &str)] = &[("MPIR_CVAR_CH4_NETMOD", "ofi")];
/// Intel MPI: each host has all cores of the machine, so its ranks are not bound to one.
const INTEL_MPI: &[(&str, &str)] = &[("I_MPI_PIN", "off")];

/// Hydra, the process manager of MPICH and of Intel MPI. It passes its environment to all ranks.
fn hydra(words: &mut Vec<String>, request: &Request<'_>, settings: &[(&str, &str)]) {
    let hosts: Vec<String> = request.hosts.iter().map(Ipv4Addr::to_string).collect();
    let shell = request.remote_shell.to_string_lossy();
    add(words, &["-launcher", "rsh", "-launcher-exec", &shell, "-hosts", &hosts.join(",")]);
    add(words, &["-ppn", &per_host(request), "-n", &request.ranks.to_string()]);
    for (name, value) in settings {
        add(words, &["-genv", name, value]);
    }
    for (name, value) in request.variables {
        add(words, &["-genv", name, value]);
    }
}

/// Open MPI's mpirun: version 5 starts its hosts with PRRTE, version 4 with ORTE.
fn open_mpi(words: &mut Vec<String>, request: &Request<'_>, mpi: Mpi) {
    let slots = per_host(request);
    let hosts: Vec<String> = request.hosts.iter().map(|ip| format!("{ip}:{slots}")).collect();
    let shell = request.remote_shell.to_string_lossy();
    let agent = match mpi {
        Mpi::Openmpi4 => ["--mca", "plm_rsh_agent", &shell],
        _ => ["--prtemca", "plm_ssh_agent", &shell],
    };
    add(words, &["--allow-run-as-root", "--host", &hosts.join(","), "-n"]);
    add(words, &[&request.ranks.to_string(), "--bind-to", "none"]);
    // There are more ranks than cores: a waiting rank yields its core.
    add(words, &["--mca", "mpi_yield_when_idle", "1"]);
    add(words, &agent);
    // Every message goes through libfabric, one-sided operations too: `cm` is the layer above the
    // MTL, and without other BTLs there is no fall-back. The BTL has an endpoint of its own, which
    // would take the queue's one AF_XDP socket from the MTL: only one-sided jobs get it.
    add(words, &["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "osc", "rdma"]);
    if matches!(request.transport, Transport::Xdp(_)) {
        add(words, &["--mca", "btl", if request.one_sided { "ofi,self" } else { "self" }]);
    }
    let include = ["--mca", "opal_common_ofi_provider_include", request.transport.provider()];
    add(words, &include);
    for (name, value) in request.variables {
        add(words, &["-x", &format!("{name}={value}")]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_harness::tier::XdpMode;

    fn words(mpi: Mpi, transport: Transport) -> String {
        let request = Request {
            hosts: &[Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)],
            ranks: 4,
            transport,
            one_sided: true,
            remote_shell: Path::new("/shell"),
            variables: &[("A".to_owned(), "b".to_owned())],
            command: &["/program".to_owned()],
        };
        mpi.command(Path::new("/launcher"), &request).join(" ")
    }

    #[test]
    fn each_launcher_gets_hosts_ranks_shell_and_variables() {
        let hydra = words(Mpi::Mpich, Transport::Xdp(XdpMode::Auto));
        assert!(hydra.contains("-hosts 198.18.0.1,198.18.0.2 -ppn 2 -n 4"), "{hydra}");
        assert!(hydra.contains("-launcher-exec /shell") && hydra.contains("-genv A b"), "{hydra}");
        let five = words(Mpi::Openmpi5, Transport::Xdp(XdpMode::Udp));
        assert!(five.contains("--host 198.18.0.1:2,198.18.0.2:2 -n 4"), "{five}");
        assert!(five.contains("plm_ssh_agent /shell") && five.ends_with("-x A=b /program"));
        assert!(words(Mpi::Openmpi4, Transport::Tcp).contains("plm_rsh_agent /shell"));
    }

    #[test]
    fn over_the_provider_open_mpi_has_nothing_to_fall_back_to() {
        let xdp = words(Mpi::Openmpi5, Transport::Xdp(XdpMode::Auto));
        assert!(xdp.contains("btl ofi,self") && xdp.contains("provider_include xdp"), "{xdp}");
        assert!(words(Mpi::Openmpi5, Transport::Tcp).contains("provider_include tcp"));
    }
}

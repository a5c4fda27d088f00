// SPDX-License-Identifier: MIT OR Apache-2.0
//! One job: started by its MPI's launcher on the hosts, bounded in time; its outcome.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::implementation::{Mpi, Request};
use crate::program::{MpiProgram, OPERATORS, verified};
use crate::transport::Transport;
use ofi_xdp_harness::carried::{Carried, LOGGING};
use ofi_xdp_harness::cluster::Cluster;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Output, Program};
use ofi_xdp_harness::tier::tier_variable;

/// The hosts' `/etc/hosts`.
const HOSTS_FILE: &str = "hosts";

/// The hosts and files of jobs.
#[derive(Debug)]
pub struct Stand {
    cluster: Cluster,
    addresses: Vec<Ipv4Addr>,
    /// Installations and compiled programs: `target/mpi`.
    folder: PathBuf,
    provider: PathBuf,
}

/// The outcome of a successful job.
#[derive(Clone, Debug)]
pub struct Done {
    /// The provider's counters; zero for another provider.
    pub carried: Carried,
    /// The job's output.
    pub output: Output,
}

impl Stand {
    /// Makes `hosts` hosts.
    ///
    /// # Errors
    /// Without privilege, or without the provider built.
    pub fn new(hosts: u8) -> anyhow::Result<Self> {
        let provider = paths::provider()?;
        let cluster = Cluster::new(hosts)?;
        let addresses: Vec<Ipv4Addr> = cluster.addresses().map(|(address, _)| address).collect();
        let folder = paths::workspace().join("target/mpi");
        let mut names = String::from("127.0.0.1 localhost\n");
        for address in &addresses {
            // The names of `host.sh`.
            names.push_str(&format!("{address} host{}\n", address.octets()[3]));
        }
        std::fs::write(folder.join(HOSTS_FILE), names)?;
        Ok(Self { cluster, addresses, folder, provider })
    }

    /// The folder with installations and programs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `program` and judges it. It must end well and in time, and print that it has verified
    /// everything. By its counters, the provider must have carried it.
    ///
    /// # Errors
    /// When one of these does not hold, with the end of the output.
    pub fn run(
        &self,
        mpi: Mpi,
        transport: Transport,
        program: &MpiProgram,
    ) -> anyhow::Result<Done> {
        let (script, variables) = (self.remote_shell(), self.variables(transport, program));
        let command = self.command(mpi, program)?;
        // A job with fewer ranks than hosts takes the first hosts.
        let hosts = &self.addresses[..self.addresses.len().min(program.ranks)];
        let request = Request {
            hosts,
            ranks: program.ranks,
            transport,
            one_sided: program.one_sided(),
            remote_shell: &script,
            variables: &variables,
            command: &command,
        };
        let words = mpi.command(&mpi.launcher(&self.folder)?, &request);
        let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        let listed: Vec<String> =
            self.cluster.addresses().map(|(address, name)| format!("{address}={name}")).collect();
        let launcher = Program::new(&script)
            .arg(self.addresses[0].to_string())
            .arg(quoted.join(" "))
            .envs([("OFI_XDP_HOSTS", listed.join(" "))])
            .envs([("OFI_XDP_HOSTS_FILE", self.folder.join(HOSTS_FILE))]);
        let output = launcher
            .start()
            .and_then(|running| running.finish_while_printing(program.silence, program.limit));
        // Daemons of a failed job may survive, and keep its port and its XDP program.
        self.cluster.end_processes()?;
        judge(transport, program, output?)
    }

    fn command(&self, mpi: Mpi, program: &MpiProgram) -> anyhow::Result<Vec<String>> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if let Some(arguments) = program.mpi4py() {
            let python = mpi.python(&self.folder).context("mpi4py is not installed for it")?;
            let main = self.folder.join("mpi4py/test/main.py");
            ensure!(main.is_file(), "no {}: run `cargo xtask mpi`", main.display());
            // Spawning further processes is left to the launcher. Open MPI's launcher (PRRTE) has
            // no room for them and ends the job or aborts. It cannot connect processes of several
            // hosts either: the same line of its pmix_server_dyn.c fails without libfabric, and
            // here it corrupts memory and aborts. Open MPI's PML for libfabric (cm) cannot revoke a
            // communicator, even in a single process.
            //
            // The mutex of mpi4py's `test_util_sync` deadlocks with MPICH, over `tcp` too. It
            // clears its own link without a flush, and MPICH may apply that after the link of the
            // next rank. Over `tcp` a delay of 200 us after a quarter of the sends suffices.
            //
            // Intel MPI's dynamic windows have a size of -1 where it uses the provider's RMA: over
            // `shm`, and over `tcp` with MPIR_CVAR_CH4_OFI_ENABLE_RMA=1, too. Eight tests of
            // `test_win` fail then.
            let lacks: &[&str] = match mpi {
                Mpi::Impi => &["-e", "test_win"],
                Mpi::Openmpi5 => &["-e", "test_spawn", "-e", "test_dynproc", "-e", "test_ulfm"],
                Mpi::Mpich => &["-e", "test_util_sync"],
                _ => &[],
            };
            let arguments = arguments.iter().chain(lacks).copied();
            let arguments: Vec<String> = arguments.map(String::from).collect();
            return Ok([&[text(&python), text(&main)][..], &arguments].concat());
        }
        let path = self.folder.join("programs").join(mpi.name()).join(program.name);
        ensure!(path.is_file(), "no {}: run `cargo xtask mpi`", path.display());
        Ok(vec![text(&path)])
    }

    fn remote_shell(&self) -> PathBuf {
        paths::workspace().join("tests/interop/mpi/programs/host.sh")
    }

    fn variables(&self, transport: Transport, program: &MpiProgram) -> Vec<(String, String)> {
        let mut variables = vec![(String::from("FI_PROVIDER"), transport.provider().to_owned())];
        let mut add = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
        if program.name == OPERATORS {
            // Open MPI 4.1 and 5.0 pass operators that the BTL lacks (all but sum) to it over any
            // transport. Here they are done under locks.
            add("OMPI_MCA_osc_rdma_acc_use_amo", "0");
        }
        if let Transport::Xdp(mode) = transport {
            add("FI_PROVIDER_PATH", &self.provider.to_string_lossy());
            let (name, value) = tier_variable(mode.as_str());
            add(name, value);
            LOGGING.iter().for_each(|(name, value)| add(name, value));
        }
        variables
    }
}

fn judge(transport: Transport, program: &MpiProgram, output: Output) -> anyhow::Result<Done> {
    let wrong = unittest_failures(&output);
    let output = output.success().with_context(|| wrong)?;
    let said_so = match program.mpi4py() {
        Some(_) => unittest_ran(&output.stderr) || unittest_ran(&output.stdout),
        None => verified(program, &output.stdout),
    };
    ensure!(said_so, "it ended well, but did not say that it verified anything");
    let carried = Carried::from_log(&format!("{}{}", output.stdout, output.stderr));
    if let Transport::Xdp(mode) = transport {
        carried.prove(program.ranks, mode)?;
    }
    Ok(Done { carried, output })
}

/// The tests that Python's unittest names as failed. They stand far above the end of the output,
/// which a failed job shows.
fn unittest_failures(output: &Output) -> String {
    let lines = output.stdout.lines().chain(output.stderr.lines());
    let named = lines.filter(|line| line.starts_with("FAIL: ") || line.starts_with("ERROR: "));
    let named: std::collections::BTreeSet<_> = named.collect();
    named.into_iter().map(|line| format!("{line}\n")).collect()
}

/// Whether tests ran and all of them passed, according to Python's unittest.
fn unittest_ran(text: &str) -> bool {
    let ran = text.lines().any(|line| {
        let count = line.strip_prefix("Ran ").and_then(|rest| rest.split(' ').next());
        count.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 0)
    });
    ran && text.lines().any(|line| line == "OK" || line.starts_with("OK ("))
}

/// `word` quoted as one word of a shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }

    #[test]
    fn unittest_must_have_run_tests_and_passed_them() {
        assert!(unittest_ran("Ran 12 tests in 3s\n\nOK (skipped=2)\n"));
        assert!(!unittest_ran("Ran 0 tests in 0s\n\nOK\n"));
        assert!(!unittest_ran("Ran 12 tests in 3s\n\nFAILED (errors=1)\n"));
    }
}

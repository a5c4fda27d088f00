// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that QEMU emulates.
//!
//! In: kernel, file system, and the guest's task. Out: its console, shown and kept. Each pair of
//! cards is on a hub of its own; the guest knows a pair by its link-layer addresses ([`mac`],
//! `tests/vm/src/cards.rs`). Bounded in time; the emulator ends with this process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use super::emulator::{Emulator, QEMU};
use super::kernel::Kernel;
use super::{image, results};
use crate::process::{Ended, run_bounded};

/// Memory of the guest in MiB: the file system lies in it.
const MEMORY: &str = "1024";
/// How long a guest with KVM may take to report its start: a good one takes two seconds.
const PROBE_LIMIT: Duration = Duration::from_secs(12);
/// More processors have no use: there are two hosts in the guest, a process each.
const PROCESSORS_MAX: usize = 4;

/// The device of each pair. With `iommu_platform` virtio-net lets the kernel map its buffers,
/// without which it has no zero-copy (`virtnet_xsk_pool_enable`, `drivers/net/virtio_net.c`).
const PAIRS: [&str; 3] = [
    "virtio-net-pci,iommu_platform=on,disable-legacy=on,rx_queue_size=1024,romfile=",
    "virtio-net-pci,disable-legacy=on,rx_queue_size=1024,romfile=",
    "e1000e,romfile=",
];
/// The device of a pair more, where the emulator has it; a PCI Express card, which wants a port of
/// its own.
const IGB: &str = "igb,romfile=";

/// How the guest's processors work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accelerator {
    /// KVM where it boots this guest, else emulation.
    Auto,
    /// The processor's own virtualisation.
    Kvm,
    /// Emulation: works everywhere, ten times slower.
    Tcg,
    /// Emulation in which each instruction takes a nanosecond of the guest's time, one processor
    /// after the other. It is the slowest, and the same on a busy machine.
    Count,
}

/// All that a boot needs.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) emulator: Emulator,
    pub(crate) kernel: Kernel,
    pub(crate) image: PathBuf,
    pub(crate) accelerator: Accelerator,
    pub(crate) processors: usize,
}

/// How many processors the guest has: two at least, since both ends of a link are at work.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(2, usize::from).clamp(2, PROCESSORS_MAX)
}

/// Where the console goes.
enum Console<'a> {
    /// To our output and to `console.log` in the folder; the second serial line beside it.
    Kept(&'a Path),
    /// To and from a person.
    Person,
}

impl Machine {
    /// The accelerator to use. That `/dev/kvm` can be opened proves nothing: it may belong to a
    /// hypervisor that boots only its own guests. So this guest is booted with it, for a limited
    /// time.
    pub(crate) fn choose(&self, asked: Accelerator) -> Result<Accelerator> {
        if asked != Accelerator::Auto {
            return Ok(asked);
        }
        if File::options().read(true).write(true).open("/dev/kvm").is_err() {
            println!("vm: no /dev/kvm that can be opened: emulation");
            return Ok(Accelerator::Tcg);
        }
        let folder = self.image.with_file_name("probe");
        fs::create_dir_all(&folder)?;
        let kept = Console::Kept(&folder);
        let mut command = self.command(Accelerator::Kvm, &["probe".to_owned()], &kept);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let ended = run_bounded(command, PROBE_LIMIT)?;
        let console = fs::read(folder.join("console.log")).unwrap_or_default();
        let said = results::counts(&String::from_utf8_lossy(&console)).is_some();
        if ended.is_success() && said {
            return Ok(Accelerator::Kvm);
        }
        println!("vm: /dev/kvm is there and does not boot a guest: emulation");
        Ok(Accelerator::Tcg)
    }

    /// Boots with `arguments` for the guest's program; whether it ended by itself within `limit`.
    pub(crate) fn run(&self, arguments: &[String], folder: &Path, limit: Duration) -> Result<bool> {
        let command = self.command(self.accelerator, arguments, &Console::Kept(folder));
        match run_bounded(command, limit)? {
            Ended::Exit(status) if status.success() => Ok(true),
            Ended::Exit(status) => bail!("{QEMU} ended with {status}: see above"),
            Ended::Overdue => Ok(false),
        }
    }

    /// Becomes QEMU with a prompt of the guest. Returns only on failure.
    pub(crate) fn shell(&self) -> Result<ExitCode> {
        let arguments = ["shell".to_owned()];
        let error = self.command(self.accelerator, &arguments, &Console::Person).exec();
        Err(error).with_context(|| format!("cannot start {QEMU}"))
    }

    fn command(
        &self,
        accelerator: Accelerator,
        arguments: &[String],
        console: &Console<'_>,
    ) -> Command {
        let mut command = self.emulator.command();
        // Emulated processors as the emulator has them; the machine's own ones otherwise.
        command.args(["-nodefaults", "-display", "none", "-no-reboot", "-M", "q35", "-cpu", "max"]);
        command.args(["-accel", accelerator.option(), "-m", MEMORY]).args(accelerator.clock());
        command.args(["-smp", &self.processors.to_string()]);
        command.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(&self.image);
        command.args(["-append", &kernel_line(arguments)]);
        command.args(cards(self.emulator.has_igb()));
        let mut line = OsString::from("stdio,id=console,signal=off");
        match console {
            Console::Kept(folder) => {
                command.stdin(Stdio::null());
                line.push(",logfile=");
                line.push(folder.join("console.log"));
                let mut second = OsString::from("file:");
                second.push(folder.join(results::LINE));
                command.arg("-chardev").arg(line).args(["-serial", "chardev:console"]);
                command.arg("-serial").arg(second);
            }
            Console::Person => {
                command.arg("-chardev").arg(line).args(["-serial", "chardev:console"]);
            }
        }
        command
    }
}

impl Accelerator {
    fn option(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg | Self::Auto => "tcg,thread=multi",
            Self::Count => "tcg,thread=single",
        }
    }

    /// Arguments for the clock, so that it goes on while all processors wait.
    fn clock(self) -> &'static [&'static str] {
        if self == Self::Count { &["-icount", "shift=0,sleep=off"] } else { &[] }
    }
}

/// The kernel's command line. Parameters that the kernel does not know become the environment of
/// the first process; the words behind `--` are its arguments.
fn kernel_line(arguments: &[String]) -> String {
    let own = "console=ttyS0 quiet loglevel=3 panic=-1 net.ifnames=0 mitigations=off";
    format!("{own} {} -- {}", image::ENVIRONMENT, arguments.join(" "))
}

/// The link-layer address of a card: the guest tells pairs and ends by it.
fn mac(pair: usize, end: usize) -> String {
    format!("02:fd:00:00:{pair:02x}:{end:02x}")
}

fn cards(igb: bool) -> Vec<String> {
    let devices = PAIRS.iter().chain(igb.then_some(&IGB));
    let mut arguments = Vec::new();
    for (pair, device) in devices.enumerate() {
        for end in 0..2 {
            let id = format!("n{pair}{end}");
            arguments.extend(["-netdev".to_owned(), format!("hubport,id={id},hubid={pair}")]);
            let mut device = format!("{device},netdev={id},mac={}", mac(pair, end));
            if device.starts_with(IGB) {
                let port = format!("pcie-root-port,id=p{end},chassis={},slot={end}", end + 1);
                arguments.extend(["-device".to_owned(), port]);
                device.push_str(&format!(",bus=p{end}"));
            }
            arguments.extend(["-device".to_owned(), device]);
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_on_one_hub() {
        let text = cards(false).join(" ");
        assert_eq!(text.matches("hubid=0").count(), 2);
        assert!(text.contains("netdev=n21,mac=02:fd:00:00:02:01"), "{text}");
        assert_eq!(text.matches("iommu_platform").count(), 2, "the others are the control");
        assert!(!text.contains("igb"));
    }

    #[test]
    fn igb_has_a_port_of_its_own_where_there_is_one() {
        let text = cards(true).join(" ");
        assert!(text.contains("pcie-root-port,id=p1,chassis=2,slot=1"), "{text}");
        assert!(text.ends_with("igb,romfile=,netdev=n31,mac=02:fd:00:00:03:01,bus=p1"), "{text}");
    }

    #[test]
    fn the_guests_arguments_come_last() {
        let line = kernel_line(&["test".to_owned(), "zero".to_owned()]);
        assert!(line.ends_with(" -- test zero"), "{line}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finding about the cores of an interface's interrupts.
//!
//! One core that serves every queue limits the packets a second. A process that spins on the core
//! of an interrupt starves its softirq (docs/TUNING.md, "Settings of the host").
//!
//! In: /proc/interrupts, /proc/irq, the cores that this process may use, which are the
//! application's. Out: a finding. Called by `nic`. Bound: the interrupts of a device.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::cores;
use super::finding::Finding;

/// Parts of names of interrupts that no packet raises.
const CONTROL: [&str; 6] = ["config", "async", "misc", "mgmnt", "ctrl", "event"];

/// The number of an interrupt, and the cores that it is delivered to.
type Interrupt = (u32, BTreeSet<u32>);

/// The finding about interface `name`, which has so many receive `queues` and this `folder` in
/// sysfs. `program` stands in commands.
pub(super) fn finding(name: &str, folder: &Path, queues: u32, program: &str) -> Finding {
    let device = fs::read_link(folder.join("device")).ok();
    let device = device.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let numbers = numbers(&read("/proc/interrupts"), name, device);
    let interrupts: Vec<Interrupt> =
        numbers.into_iter().map(|number| (number, affinity(number))).collect();
    let cores = Cores {
        queues,
        online: cores::parse(&read("/sys/devices/system/cpu/online")),
        allowed: allowed(&read("/proc/self/status")),
    };
    placement(name, program, &interrupts, &cores)
}

/// The cores of this host, and the queues that they serve.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Cores {
    queues: u32,
    online: BTreeSet<u32>,
    /// Those that the application may use.
    allowed: BTreeSet<u32>,
}

/// The numbers of the device's interrupts in the text of /proc/interrupts. Drivers name them after
/// the interface (`eth0-TxRx-0`), or after the `device` (`virtio2-input.0`,
/// `mlx5_comp0@pci:0000:3b:00.0`).
fn numbers(interrupts: &str, name: &str, device: Option<&str>) -> Vec<u32> {
    let is_ours = |word: &str| has_name(word, name) || device.is_some_and(|it| has_name(word, it));
    let mut numbers = Vec::new();
    for line in interrupts.lines() {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        let words = rest.split_whitespace().skip_while(|word| word.parse::<u64>().is_ok());
        let words: Vec<&str> = words.map(|word| word.trim_matches(',')).collect();
        let action = words.last().copied().unwrap_or_default();
        let is_control = CONTROL.iter().any(|part| action.contains(part));
        if !is_control && words.iter().any(|word| is_ours(word)) {
            numbers.push(number);
        }
    }
    numbers
}

/// Whether `word` has `name` between its ends, or signs that are neither letters nor digits.
fn has_name(word: &str, name: &str) -> bool {
    word.match_indices(name).any(|(at, _)| {
        let before = word[..at].chars().next_back();
        let after = word[at + name.len()..].chars().next();
        [before, after].into_iter().flatten().all(|sign| !sign.is_alphanumeric())
    })
}

/// The cores that an interrupt is delivered to; those that it may have on a kernel that does not
/// tell.
fn affinity(number: u32) -> BTreeSet<u32> {
    let file = |name: &str| cores::parse(&read(&format!("/proc/irq/{number}/{name}")));
    let effective = file("effective_affinity_list");
    if effective.is_empty() { file("smp_affinity_list") } else { effective }
}

/// The cores in `/proc/self/status` (proc(5)).
fn allowed(status: &str) -> BTreeSet<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cores::parse(line.unwrap_or_default())
}

fn placement(name: &str, program: &str, interrupts: &[Interrupt], cores: &Cores) -> Finding {
    let finding = |value: String| Finding::good(name, "interrupts", value);
    let used: BTreeSet<u32> = interrupts.iter().flat_map(|(_, cores)| cores).copied().collect();
    if interrupts.is_empty() || used.is_empty() {
        return finding("none known".to_owned());
    }
    let (count, on) = (interrupts.len(), cores::text(&used));
    let idle: BTreeSet<u32> = cores.online.difference(&used).copied().collect();
    // A device with one queue may have an interrupt for each direction.
    if used.len() == 1 && count.min(cores.queues as usize) > 1 && !idle.is_empty() {
        let numbers: Vec<String> =
            interrupts.iter().map(|(number, _)| number.to_string()).collect();
        return finding(format!("{count}, all on core {on}")).warning(format!(
            "c=0; for n in {}; do echo $c | sudo tee /proc/irq/$n/smp_affinity_list; \
             c=$(((c+1)%{})); done",
            numbers.join(" "),
            cores.online.len()
        ));
    }
    let value = format!("{count} on {} {on}", if used.len() == 1 { "core" } else { "cores" });
    let shares = !cores.allowed.is_empty() && cores.allowed.is_subset(&used);
    if shares && !idle.is_empty() {
        return finding(format!("{value}, where the application runs too"))
            .warning(format!("taskset --cpu-list {} {program}", cores::text(&idle)));
    }
    finding(value)
}

/// The text of a file of the kernel, empty if it cannot be read.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0       2265 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:       1463          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
 40:       1463          0 PCI-MSIX-0000:00:04.0   2-edge      virtio21-input.0
 50:          7          0  IR-PCI-MSI 524288-edge      eth0-TxRx-0
 51:          7          0  IR-PCI-MSI 524289-edge      ice-eth0-TxRx-1
 52:          7          0  IR-PCI-MSI 524290-edge      eth01-TxRx-0, i915
 53:          7          0  IR-PCI-MSI 524291-edge      i915, eth0
 60:          7          0  IR-PCI-MSI 1-edge      mlx5_async0@pci:0000:3b:00.0
 61:          7          0  IR-PCI-MSI 2-edge      mlx5_comp0@pci:0000:3b:00.0
NMI:          0          0   Non-maskable interrupts
";

    fn cores(online: &str, allowed: &str) -> Cores {
        Cores { queues: 2, online: cores::parse(online), allowed: cores::parse(allowed) }
    }

    fn on(list: &[(u32, &str)]) -> Vec<Interrupt> {
        list.iter().map(|(number, on)| (*number, cores::parse(on))).collect()
    }

    #[test]
    fn interrupts_are_named_after_the_interface_or_its_device() {
        assert_eq!(numbers(INTERRUPTS, "ens3", Some("virtio2")), [38, 39]);
        assert_eq!(numbers(INTERRUPTS, "eth0", Some("0000:5e:00.0")), [50, 51, 53]);
        assert_eq!(numbers(INTERRUPTS, "ens9", Some("0000:3b:00.0")), [61]);
        assert_eq!(numbers(INTERRUPTS, "veth0", None), [0; 0]);
        assert_eq!(numbers("", "eth0", None), [0; 0]);
    }

    #[test]
    fn interrupts_on_one_core_are_spread() {
        let found = placement("eth0", "./app", &on(&[(50, "2"), (51, "2")]), &cores("0-3", "0-3"));
        assert_eq!(found.value, "2, all on core 2");
        let command = "c=0; for n in 50 51; do echo $c | sudo tee \
                       /proc/irq/$n/smp_affinity_list; c=$(((c+1)%4)); done";
        assert_eq!(found.remedy(), Some(command));
        let alone = placement("eth0", "./app", &on(&[(50, "0"), (51, "0")]), &cores("0", "0"));
        assert_eq!((alone.value.as_str(), alone.remedy()), ("2 on core 0", None), "no other core");
        let one_queue = Cores { queues: 1, ..cores("0-3", "0-3") };
        let one = placement("eth0", "./app", &on(&[(50, "2"), (51, "2")]), &one_queue);
        assert_eq!((one.value.as_str(), one.remedy()), ("2 on core 2", None));
    }

    #[test]
    fn the_application_has_a_core_without_interrupts() {
        let spread = on(&[(50, "0"), (51, "1")]);
        let found = placement("eth0", "./app", &spread, &cores("0-3", "1"));
        assert_eq!(found.value, "2 on cores 0-1, where the application runs too");
        assert_eq!(found.remedy(), Some("taskset --cpu-list 2-3 ./app"));
        for allowed in ["0-3", "3", ""] {
            let found = placement("eth0", "./app", &spread, &cores("0-3", allowed));
            assert_eq!((found.value.as_str(), found.remedy()), ("2 on cores 0-1", None));
        }
        let everywhere = placement("eth0", "./app", &spread, &cores("0-1", "1"));
        assert_eq!(everywhere.remedy(), None, "there is no other core");
    }

    #[test]
    fn a_device_without_interrupts_needs_nothing() {
        assert_eq!(placement("eth0", "./app", &[], &cores("0-3", "0")).value, "none known");
        assert_eq!(allowed("Name:\tx\nCpus_allowed_list:\t0-1\n"), cores::parse("0-1"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about this machine, for a report.
//!
//! In: files of `/proc`. Out: one line. Caller: `cargo xtask bench`. Bound: one line.

/// Processor, cores, memory and kernel.
#[must_use]
pub fn facts() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    described(&read("/proc/cpuinfo"), &read("/proc/meminfo"), cores, kernel.trim())
}

fn described(cpuinfo: &str, meminfo: &str, cores: usize, kernel: &str) -> String {
    let value_of = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor =
        value_of(cpuinfo, "model name").unwrap_or_else(|| String::from("processor not known"));
    let kibibytes = value_of(meminfo, "MemTotal").unwrap_or_default();
    let kibibytes: u64 = kibibytes.trim_end_matches(" kB").parse().unwrap_or(0);
    format!("{processor}, {cores} cores, {} GiB, Linux {kernel}", kibibytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_in_a_line() {
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC\n";
        let text = described(cpuinfo, "MemTotal:       24604020 kB\n", 2, "6.18.5");
        assert_eq!(text, "AMD EPYC, 2 cores, 24 GiB, Linux 6.18.5");
        assert_eq!(described("", "", 1, ""), "processor not known, 1 cores, 0 GiB, Linux ");
        assert!(facts().contains("Linux "));
    }
}

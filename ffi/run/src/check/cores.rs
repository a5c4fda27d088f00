// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of cores as the kernel writes them: `0-3,8`.
//!
//! In: text of /proc and /sys. Out: the cores, or the text for some. Called by `interrupts`.
//! Bound: [`CORES_MAX`] cores.

use std::collections::BTreeSet;

/// Cores in a set, at most: more than any kernel has (`NR_CPUS`).
const CORES_MAX: u32 = 1 << 16;

/// The cores of a list (cpuset(7), "List format"). Parts that are no numbers are left out.
pub(super) fn parse(list: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.trim().parse().ok().filter(|core: &u32| *core < CORES_MAX);
    let mut cores = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Some(first), Some(last)) = (number(first), number(last)) {
            cores.extend(first..=last);
        }
    }
    cores
}

/// The list of `cores`.
pub(super) fn text(cores: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for core in cores.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_ranges() {
        assert_eq!(parse("0-3,8\n"), BTreeSet::from([0, 1, 2, 3, 8]));
        assert_eq!(parse(""), BTreeSet::new());
        assert_eq!(parse("5-3,x,7,99999999999,0-4000000000"), BTreeSet::from([7]));
        for list in ["0-3,8", "0", "1,3,5-6"] {
            assert_eq!(text(&parse(list)), list);
        }
    }
}

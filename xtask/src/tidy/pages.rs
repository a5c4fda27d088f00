// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long documents may be, how wide their lines, and which of them have measured figures.

use std::ops::RangeInclusive;

use super::tree::{Fault, SourceFile, Tree};

/// Words of a document, at most, as `wc -w` counts them.
const WORDS: &[(&str, usize)] = &[
    ("README.md", 700),
    ("docs/ARCHITECTURE.md", 1500),
    ("docs/PERFORMANCE.md", 1500),
    (DECISIONS, 150),
];
/// A number and a title each; beside them stands the list of them.
const DECISIONS: &str = "docs/decisions/0";
/// Characters of a line of text or of a row of a table.
const LINE_MAX: usize = 100;
/// A longer word may stand on a longer line. It leaves room for an indent.
const WORD_MAX: usize = LINE_MAX - 4;
/// Units of things that are measured. Time-outs and sizes have others.
const UNITS: &[&str] = &[
    "ns",
    "µs",
    "us",
    "GB/s",
    "GiB/s",
    "Gbit/s",
    "Gb/s",
    "MB/s",
    "MiB/s",
    "Mbit/s",
    "M/s",
    "Mpps",
    "packets/s",
    "messages/s",
    "cycles",
    "instructions",
];
/// Documents in which figures of measurements age: `README.md` has one table for them.
const WITHOUT_FIGURES: &[&str] =
    &["README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md", DECISIONS];
/// The tick of the wire protocol: a definition.
const DEFINED: &str = "64 ns";

/// Documents with too many words.
pub(super) fn length(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["md"]) {
        let Some((_, max)) = WORDS.iter().find(|(name, _)| file.path.starts_with(name)) else {
            continue;
        };
        let count = file.text.split_whitespace().count();
        if count > *max {
            let what = format!("{count} words, {max} at most: leave out, or move to another page");
            faults.push(Fault::new(file, 0, what));
        }
    }
    faults
}

/// Lines of text that are too wide.
pub(super) fn width(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["md"]) {
        for (number, line) in text_lines(file) {
            let width = line.chars().count();
            // A link that is longer cannot be broken.
            let whole = line.split_whitespace().any(|word| word.chars().count() > WORD_MAX);
            if width > LINE_MAX && !whole {
                let what = format!("{width} characters, {LINE_MAX} at most: break the line");
                faults.push(Fault::new(file, number, what));
            }
        }
    }
    faults
}

/// Measured figures outside of the pages that have the machine and the day beside them.
pub(super) fn figures(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["md"]) {
        if !WITHOUT_FIGURES.iter().any(|name| file.path.starts_with(name)) {
            continue;
        }
        let in_table = |line: &str| file.path == "README.md" && is_row(line);
        for (number, line) in text_lines(file).filter(|(_, line)| !in_table(line)) {
            if let Some(figure) = figure(line).filter(|figure| figure != DEFINED) {
                let what = format!(
                    "{figure:?} is a measured figure: it belongs to docs/PERFORMANCE.md or \
                     docs/results"
                );
                faults.push(Fault::new(file, number, what));
            }
        }
    }
    faults
}

/// A number and its unit, if `line` has them.
fn figure(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let trim = |word: &str| {
        word.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '%').to_owned()
    };
    let digits: RangeInclusive<char> = '0'..='9';
    for (at, word) in words.iter().map(|word| trim(word)).enumerate() {
        if !word.starts_with(|sign| digits.contains(&sign)) {
            continue;
        }
        let unit = word.trim_start_matches(|sign| digits.contains(&sign) || ".,–-".contains(sign));
        let next = words.get(at + 1).map(|word| trim(word)).unwrap_or_default();
        if UNITS.contains(&unit) {
            return Some(word);
        }
        if unit.is_empty() && UNITS.contains(&&*next) {
            return Some(format!("{word} {next}"));
        }
    }
    None
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// The lines outside of blocks of code, from 1.
fn text_lines(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = file.text.lines().enumerate();
    lines.filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        (!is_code && !fence).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_a_length() {
        let long = "word | ".repeat(350) + "word";
        let code = format!("```\n{}\n```\n", "word ".repeat(148));
        let tree = Tree::of(&[("README.md", &long), ("docs/decisions/0001-a.md", &code)]);
        let faults = length(&tree);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().starts_with("README.md: 701 words, 700"), "{}", faults[0]);
        let tree = Tree::of(&[("docs/decisions/0001-a.md", &long), ("docs/PROTOCOL.md", &long)]);
        assert_eq!(length(&tree).len(), 1);
    }

    #[test]
    fn lines_of_text_have_a_width() {
        let (long, full) = ("é ".repeat(51), "é".repeat(100));
        let text =
            format!("{long}\n| {long}\n[a](b) {long}\n```\n{long}\n```\n{full}\n[a]({full})\n");
        let lines: Vec<usize> =
            width(&Tree::of(&[("a.md", &text)])).iter().map(|one| one.line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn figures_stand_on_their_pages_only() {
        let text = "It takes 12 µs.\n| a | 3.5 GB/s |\nA 20 ms time-out of 64 ns ticks.\n(1.5ns)\n";
        let lines = |path| -> Vec<usize> {
            figures(&Tree::of(&[(path, text)])).iter().map(|one| one.line).collect()
        };
        assert_eq!(lines("README.md"), [1, 4]);
        assert_eq!(lines("docs/decisions/0001-a.md"), [1, 2, 4]);
        assert!(lines("docs/PERFORMANCE.md").is_empty());
    }
}

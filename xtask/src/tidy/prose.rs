// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain language in comments and documents, counted per crate.
//!
//! Three signs of sentences that are hard to read: "what" and "who" as subjects (free relative
//! clauses), and comments that continue another comment. The figures are a smoke detector: a low
//! figure proves nothing, a high one shows where to read. `cargo xtask tidy --prose` prints them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::exceptions;
use super::tree::{Fault, SourceFile, Tree};

/// Signs of the first kind per 1,000 words, at most. Comparable projects have 0.2 to 0.9.
const WHAT_MAX: f64 = 1.0;
/// Words of [`PERSONS`] per 1,000 words, at most. Comparable projects have 0.1.
const PERSONS_MAX: f64 = 0.3;
/// Pronouns that stand where a noun belongs.
const PERSONS: &[&str] =
    &["who", "whom", "whose", "whoever", "nobody", "somebody", "anybody", "everybody", "who's"];
/// Beginnings of comments that cannot be read without the comment before them.
const CONTINUATIONS: &[&str] = &["The same", "Of a", "Of an", "Of what", "As above"];
/// Files that `tidy --prose` shows.
const WORST: usize = 25;
/// The unit that all documents belong to.
const DOCUMENTS: &str = "docs";
/// Each line of a list of changes has the words of its time.
const HISTORY: &str = "CHANGELOG.md";

/// A sign of a sentence that is hard to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    What,
    Person,
    Continuation,
}

/// The words of a file and the signs in it, each with its line.
#[derive(Debug, Default)]
struct Reading {
    words: usize,
    signs: Vec<(usize, Sign, String)>,
}

impl Reading {
    fn of(file: &SourceFile) -> Self {
        let mut reading = Self::default();
        if file.is(&["md"]) {
            reading.read_document(&file.text);
        } else if file.is(&["rs", "c", "h"]) && !file.is_generated() {
            reading.read_comments(file);
        }
        reading
    }

    fn read_document(&mut self, text: &str) {
        let mut is_code = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if !is_code {
                self.read_line(index + 1, line);
            }
        }
    }

    fn read_comments(&mut self, file: &SourceFile) {
        let mut is_code = false;
        // The line on which the next part of the same comment would stand.
        let mut next = 0;
        for comment in &file.source().comments {
            for (index, line) in comment.text.lines().enumerate() {
                let number = comment.line + index;
                let begins = index == 0 && (number != next || comment.trailing);
                let text = line.trim();
                if begins {
                    is_code = false;
                    self.read_beginning(number, text);
                }
                if text.starts_with("```") {
                    is_code = !is_code;
                } else if !is_code && !text.starts_with("SPDX-") {
                    self.read_line(number, text);
                }
                next = number + 1;
            }
        }
    }

    fn read_beginning(&mut self, line: usize, text: &str) {
        let begins = |one: &&str| {
            text.strip_prefix(*one).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        if let Some(found) = CONTINUATIONS.iter().copied().find(begins) {
            self.signs.push((line, Sign::Continuation, found.to_owned()));
        }
    }

    fn read_line(&mut self, number: usize, line: &str) {
        // Every second part of a line stands between signs of code.
        for part in line.split('`').step_by(2) {
            for word in words(part) {
                self.words += 1;
                let lower = word.to_lowercase();
                let sign = match &*lower {
                    "what" | "what's" => Sign::What,
                    one if PERSONS.contains(&one) => Sign::Person,
                    _ => continue,
                };
                self.signs.push((number, sign, lower));
            }
        }
    }

    fn count(&self, sign: Sign) -> usize {
        self.signs.iter().filter(|(_, one, _)| *one == sign).count()
    }

    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.signs.extend(other.signs);
    }
}

/// Runs of letters; an apostrophe inside belongs to its word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|sign: char| !sign.is_alphabetic() && sign != '\'' && sign != '’');
    parts.map(|part| part.trim_matches('\'')).filter(|part| !part.is_empty())
}

/// The unit that a file is counted in: its crate, or the documents.
fn unit<'a>(tree: &'a Tree, file: &'a SourceFile) -> &'a str {
    if file.is(&["md"]) { DOCUMENTS } else { tree.crate_of(&file.path) }
}

fn readings(tree: &Tree) -> impl Iterator<Item = (&SourceFile, Reading)> {
    let files = tree.files.iter().filter(|file| file.path != HISTORY);
    files.map(|file| (file, Reading::of(file))).filter(|(_, reading)| reading.words > 0)
}

fn by_unit(tree: &Tree) -> BTreeMap<&str, Reading> {
    let mut units: BTreeMap<&str, Reading> = BTreeMap::new();
    for (file, reading) in readings(tree) {
        units.entry(unit(tree, file)).or_default().add(reading);
    }
    units
}

/// Thousandths, with one digit behind the point.
fn rate(count: usize, words: usize) -> f64 {
    let rate = count as f64 * 1000.0 / words.max(1) as f64;
    (rate * 10.0).round() / 10.0
}

/// Crates with more than their share. One sign is free: a small crate has few words.
pub(super) fn figures(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (unit, reading) in by_unit(tree) {
        let excused = tree.exceptions.prose(unit);
        let rules = [
            (Sign::What, "\"what\"", WHAT_MAX.max(excused.what)),
            (Sign::Person, "\"who\", \"whose\", \"nobody\"", PERSONS_MAX.max(excused.who)),
        ];
        for (sign, name, max) in rules {
            let count = reading.count(sign);
            let rate = rate(count, reading.words);
            if count > 1 && rate > max {
                faults.push(in_unit(
                    unit,
                    format!(
                        "{rate} × {name} per 1,000 words of comments, {max} at most: begin \
                         sentences with a noun; `cargo xtask tidy --prose {unit}` lists them"
                    ),
                ));
            }
        }
        let within = |sign, max| rate(reading.count(sign), reading.words) <= max;
        let continuations = reading.count(Sign::Continuation);
        let fine = within(Sign::What, WHAT_MAX) && within(Sign::Person, PERSONS_MAX);
        if fine && continuations == 0 && tree.exceptions.prose.contains_key(unit) {
            let what = format!("[prose] \"{unit}\" needs no exception any more: remove it");
            faults.push(in_unit(exceptions::FILE, what));
        }
        let count = continuations;
        if count > excused.continuations {
            faults.push(in_unit(
                unit,
                format!(
                    "{count} comments begin with {CONTINUATIONS:?}, {} at most: say it in full; \
                     `cargo xtask tidy --prose {unit}` lists them",
                    excused.continuations
                ),
            ));
        }
    }
    faults
}

fn in_unit(unit: &str, what: String) -> Fault {
    Fault { path: unit.to_owned(), line: 0, what }
}

/// Figures of each crate and the worst files; with a `folder`, each sign below it.
pub(super) fn report(tree: &Tree, folder: &str) -> String {
    let mut text = String::from("  words   what    who  continued  (per 1,000 words; count)\n");
    for (unit, reading) in by_unit(tree) {
        let _ = writeln!(text, "{}  {unit}", row(&reading));
    }
    let below = |path: &str| path.starts_with(folder);
    let mut files: Vec<(&SourceFile, Reading)> =
        readings(tree).filter(|(file, _)| below(&file.path)).collect();
    if folder.is_empty() {
        files.sort_by_key(|(_, reading)| std::cmp::Reverse(reading.signs.len()));
        let _ = writeln!(text, "files with most of them:");
        for (file, reading) in files.iter().take(WORST) {
            let _ = writeln!(text, "{}  {}", row(reading), file.path);
        }
        let _ = writeln!(text, "each of them: cargo xtask tidy --prose FOLDER");
        return text;
    }
    for (file, reading) in &files {
        for (line, _, found) in &reading.signs {
            let shown = file.text.lines().nth(line - 1).unwrap_or_default().trim();
            let _ = writeln!(text, "{}:{line}: {found}: {shown}", file.path);
        }
    }
    text
}

fn row(reading: &Reading) -> String {
    let [what, person] = [Sign::What, Sign::Person].map(|sign| {
        let rate = rate(reading.count(sign), reading.words);
        format!("{rate:>6.1}")
    });
    format!("{:>7} {what} {person} {:>10}", reading.words, reading.count(Sign::Continuation))
}

#[cfg(test)]
mod tests {
    use super::super::exceptions::{Exceptions, Prose};
    use super::*;

    const MANIFEST: (&str, &str) = ("a/Cargo.toml", "");

    fn signs(path: &str, text: &str) -> Vec<(usize, Sign)> {
        let reading = Reading::of(&SourceFile::new(path, text));
        reading.signs.into_iter().map(|(line, sign, _)| (line, sign)).collect()
    }

    #[test]
    fn signs_are_found_in_comments_only() {
        let text = "//! What is lost.\nlet what = \"what\"; // Who polls, `whose` and\n\n\
                    /// ```\n/// what\n/// ```\n/// Nobody somewhat.\n";
        let expected = [(1, Sign::What), (2, Sign::Person), (7, Sign::Person)];
        assert_eq!(signs("a.rs", text), expected);
        assert_eq!(signs("a.c", "/* a\n * what */"), [(2, Sign::What)]);
        assert!(signs("a.toml", "# what").is_empty());
    }

    #[test]
    fn a_comment_may_not_continue_another() {
        let text = "/// The same, of a peer.\n/// Of a line.\n\n// Of an operation\nx();\n\
                    // Of all, the same\n\n/* As above */ y(); // Of another\n";
        let lines: Vec<usize> = signs("a.rs", text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 4, 8]);
    }

    #[test]
    fn documents_are_read_without_their_code() {
        let text = "# What\n```\nwhat\n```\n`what` and whom\n";
        assert_eq!(signs("a.md", text), [(1, Sign::What), (5, Sign::Person)]);
    }

    #[test]
    fn a_crate_with_too_many_fails() {
        let text = format!("// What is it, and what for?\n// {}\n", "word ".repeat(94));
        let mut tree = Tree::of(&[MANIFEST, ("a/b.rs", &text), ("CHANGELOG.md", "what what")]);
        let faults = figures(&tree);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().starts_with("a: 20 × \"what\" per 1,000"), "{}", faults[0]);
        let prose = Prose { what: 20.0, who: 0.0, continuations: 0 };
        tree.exceptions = Exceptions { prose: [("a".into(), prose)].into(), ..Default::default() };
        assert!(figures(&tree).is_empty());
        tree.files.retain(|file| file.path != "a/b.rs");
        tree.files.push(SourceFile::new("a/b.rs", "// Plain."));
        assert!(figures(&tree)[0].what.starts_with("[prose] \"a\" needs no exception"));
    }

    #[test]
    fn one_sign_is_free_and_a_continuation_is_not() {
        let fine = "// What is it?";
        assert!(figures(&Tree::of(&[MANIFEST, ("a/b.rs", fine)])).is_empty());
        let faults = figures(&Tree::of(&[MANIFEST, ("a/b.rs", "// The same.")]));
        assert!(faults[0].what.contains("1 comments begin"), "{faults:?}");
    }

    #[test]
    fn the_report_has_figures_and_lines() {
        let tree = Tree::of(&[MANIFEST, ("a/b.rs", "fn f() {}\n// Who is it?\n")]);
        assert!(report(&tree, "").contains("a/b.rs"));
        assert!(report(&tree, "a/").contains("a/b.rs:2: who: // Who is it?"));
    }
}

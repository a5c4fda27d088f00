// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that the project does not use: `words.toml`, the left side of `docs/GLOSSARY.md`.
//!
//! In: identifiers, file names, comments, strings and documents. Scripts, settings, unit files and
//! the names of the fuzz targets' inputs are read as well. Out: each use of a listed name, with the
//! term to use instead.

use std::collections::HashMap;
use std::path::Path;

use super::tree::{Fault, SourceFile, Tree};
use crate::tidy::tokens::Token;

/// The list, from the top of the project.
const FILE: &str = "xtask/src/tidy/words.toml";
/// A list of changes tells of names as they were.
const HISTORY: &str = "CHANGELOG.md";
/// Files with `#` before a comment. The list itself has the forbidden names.
const SETTINGS: &[&str] = &["toml", "sh", "py", "service", "socket"];
/// Folder of inputs: only their names are read.
const INPUTS: &str = "/corpus/";

/// Names that one term replaces.
#[derive(Debug)]
struct Entry {
    names: Vec<String>,
    parts: Vec<String>,
    /// Phrases, as their words.
    prose: Vec<Vec<String>>,
    folders: Vec<String>,
    say: String,
}

impl Entry {
    fn read(value: &toml::Value) -> Option<Self> {
        let strings = |key: &str| -> Vec<String> {
            let array = value.get(key).and_then(toml::Value::as_array);
            let strings = array.into_iter().flatten().filter_map(toml::Value::as_str);
            strings.map(str::to_owned).collect()
        };
        let prose = strings("prose");
        let phrases = prose.iter().map(|phrase| words(phrase).map(|(_, word)| word).collect());
        Some(Self {
            names: strings("names"),
            parts: strings("parts"),
            prose: phrases.collect(),
            folders: strings("in"),
            say: value.get("say")?.as_str()?.to_owned(),
        })
    }

    fn applies(&self, path: &str) -> bool {
        let inside = |folder: &String| {
            path.strip_prefix(&**folder).is_some_and(|rest| rest.starts_with('/'))
        };
        self.folders.is_empty() || self.folders.iter().any(inside)
    }

    fn forbids(&self, name: &str, parts: &[String]) -> bool {
        let is_name = |one: &String| match one.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => one == name,
        };
        self.names.iter().any(is_name) || self.parts.iter().any(|part| parts.contains(part))
    }
}

/// Every use of a listed name.
pub(super) fn forbidden(tree: &Tree) -> Vec<Fault> {
    let Some(list) = tree.file(FILE) else { return Vec::new() };
    let entries = match entries(&list.text) {
        Ok(entries) => entries,
        Err(error) => return vec![Fault::new(list, 0, error)],
    };
    let mut search = Search::new(&entries);
    let files = tree.files.iter().filter(|file| file.path != HISTORY && !file.is_generated());
    for file in files {
        if file.is(&["rs", "c", "h"]) {
            search.code(file);
        } else if file.is(&["md"]) {
            search.document(file);
        } else if file.is(&["lua"]) {
            search.script(file, "--");
        } else if file.is(SETTINGS) && file.path != FILE {
            search.script(file, "#");
        } else if file.path.contains(INPUTS) {
            let name = Path::new(&file.path).file_name().unwrap_or_default().to_string_lossy();
            search.name(file, 0, &name.replace('-', "_"));
        }
    }
    search.faults
}

fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
    let words = table.get("word").and_then(toml::Value::as_array);
    let read = |value| Entry::read(value).ok_or_else(|| format!("no `say` in {value:?}"));
    words.into_iter().flatten().map(read).collect()
}

struct Search<'a> {
    entries: &'a [Entry],
    /// The entries that forbid an identifier in some folder.
    names: HashMap<String, Vec<&'a Entry>>,
    /// Phrases and their entries, by the first word.
    phrases: HashMap<&'a str, Vec<(&'a [String], &'a Entry)>>,
    faults: Vec<Fault>,
}

impl<'a> Search<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        let mut phrases: HashMap<&str, Vec<(&[String], &Entry)>> = HashMap::new();
        for entry in entries {
            for phrase in &entry.prose {
                if let Some(first) = phrase.first() {
                    phrases.entry(first).or_default().push((phrase, entry));
                }
            }
        }
        Self { entries, names: HashMap::new(), phrases, faults: Vec::new() }
    }

    fn code(&mut self, file: &SourceFile) {
        let stem = Path::new(&file.path).file_stem().unwrap_or_default().to_string_lossy();
        self.name(file, 0, &stem);
        let source = file.source();
        for (token, line) in source.tokens.iter().zip(&source.lines) {
            if let Token::Word(word) = token {
                self.name(file, *line, word);
            }
        }
        for text in source.comments.iter().chain(&source.strings) {
            self.prose(file, text.line, &text.text);
        }
    }

    fn document(&mut self, file: &SourceFile) {
        for (index, line) in file.text.lines().enumerate() {
            for (at, part) in line.split('`').enumerate() {
                // Every second part of a line stands between signs of code.
                if at % 2 == 0 {
                    self.prose(file, index + 1, part);
                    continue;
                }
                for name in part.split(|sign: char| !sign.is_alphanumeric() && sign != '_') {
                    self.name(file, index + 1, name);
                }
            }
        }
    }

    /// Identifiers, strings and comments; a comment goes from `mark` to the end of its line.
    fn script(&mut self, file: &SourceFile, mark: &str) {
        for (index, line) in file.text.lines().enumerate() {
            let mut code = String::new();
            let mut text = String::new();
            let mut quote = None;
            for (at, sign) in line.char_indices() {
                match quote {
                    None if line[at..].starts_with(mark) => {
                        text.push_str(&line[at + mark.len()..]);
                        break;
                    }
                    None if ['"', '\''].contains(&sign) => quote = Some(sign),
                    None => code.push(sign),
                    Some(open) if open == sign => {
                        quote = None;
                        text.push('\n');
                    }
                    Some(_) => text.push(sign),
                }
            }
            for name in code.split(|sign: char| !sign.is_alphanumeric() && sign != '_') {
                self.name(file, index + 1, name);
            }
            for part in text.lines() {
                self.prose(file, index + 1, part);
            }
        }
    }

    fn name(&mut self, file: &SourceFile, line: usize, name: &str) {
        if !self.names.contains_key(name) {
            let parts = parts(name);
            let forbidding = self.entries.iter().filter(|entry| entry.forbids(name, &parts));
            self.names.insert(name.to_owned(), forbidding.collect());
        }
        for entry in &self.names[name] {
            if entry.applies(&file.path) {
                self.faults.push(fault(file, line, name, entry));
            }
        }
    }

    fn prose(&mut self, file: &SourceFile, first: usize, text: &str) {
        let found: Vec<(usize, String)> = words(text).collect();
        for (at, (line, word)) in found.iter().enumerate() {
            let Some(candidates) = self.phrases.get(&**word) else { continue };
            for (phrase, entry) in candidates {
                let rest = found[at..].iter().map(|(_, word)| word);
                let begins =
                    phrase.len() <= rest.len() && phrase.iter().zip(rest).all(|(a, b)| a == b);
                if begins && entry.applies(&file.path) {
                    self.faults.push(fault(file, first + line, &phrase.join(" "), entry));
                }
            }
        }
    }
}

fn fault(file: &SourceFile, line: usize, name: &str, entry: &Entry) -> Fault {
    Fault::new(file, line, format!("\"{name}\" is not a term of docs/GLOSSARY.md: {}", entry.say))
}

/// The words of an identifier, in small letters: `has_zork` and `HasZork` are `has` and `zork`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for sign in name.chars() {
        let begins = sign == '_' || (sign.is_uppercase() && !before.is_uppercase());
        if begins {
            parts.push(String::new());
        }
        if let (Some(part), true) = (parts.last_mut(), sign != '_') {
            part.extend(sign.to_lowercase());
        }
        before = sign;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The words of a text in small letters, without a possessive "'s", each with its line from 0; code
/// between backticks is left out.
fn words(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().flat_map(|(line, text)| {
        let plain = text.split('`').step_by(2);
        let words = plain.flat_map(|part| {
            part.split(|sign: char| !sign.is_alphanumeric() && sign != '\'' && sign != '_')
        });
        let words = words.map(|word| word.strip_suffix("'s").unwrap_or(word));
        let words = words.filter(|word| !word.is_empty());
        words.map(move |word| (line, word.to_lowercase()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "
        [[word]]
        parts = ['zork']
        prose = ['zork', 'in zeal']
        say = 'changed'
        [[word]]
        names = ['turn', 'put_*']
        in = ['core']
        say = 'quantum'
    ";

    fn found(path: &str, text: &str) -> Vec<String> {
        let faults = forbidden(&Tree::of(&[(FILE, LIST), (path, text)]));
        let shown = faults.iter().map(|fault| {
            let name = fault.what.split('"').nth(1).unwrap_or_default();
            format!("{}:{name}", fault.line)
        });
        shown.collect()
    }

    #[test]
    fn parts_of_identifiers_are_forbidden() {
        let text = "fn has_zork() {}\nstruct HasZork;\nconst ZORK: u8 = 0;\nfn zorky() {}\n";
        assert_eq!(found("a.rs", text), ["1:has_zork", "2:HasZork", "3:ZORK"]);
        assert_eq!(found("a/zork.rs", ""), ["0:zork"]);
    }

    #[test]
    fn names_are_whole_and_of_their_folder() {
        let text = "fn turn() {}\nfn turned() {}\nfn put_whole() {}\nfn output_it() {}\n";
        assert_eq!(found("core/a.rs", text), ["1:turn", "3:put_whole"]);
        assert!(found("core2/a.rs", text).is_empty());
    }

    #[test]
    fn phrases_are_forbidden_in_comments_strings_and_documents() {
        let text = "// It polls In\n// `zork`\n/* polls in\n * zeal\n */\nf(\"no zork\");\n";
        assert_eq!(found("a.rs", text), ["3:in zeal", "6:zork"]);
        assert_eq!(found("a.md", "in zeal, `has_zork`\n"), ["1:in zeal", "1:has_zork"]);
        assert!(found("CHANGELOG.md", "in zeal").is_empty());
    }

    #[test]
    fn scripts_settings_and_inputs_are_read() {
        let text = "local f_zork = \"in zeal\" -- no zork\n";
        assert_eq!(found("a.lua", text), ["1:f_zork", "1:in zeal", "1:zork"]);
        let text = "zork = 'zeal'\n# in zeal\nwhy = 'in'\nb = 1 -- x\n";
        assert_eq!(found("a.toml", text), ["1:zork", "2:in zeal"]);
        assert_eq!(found("a.service", "# zork"), ["1:zork"]);
        assert_eq!(found("fuzz/corpus/b/has-zork", ""), ["0:has_zork"]);
        assert!(found("fuzz/corpus/b/zorky", "zork").is_empty());
    }

    #[test]
    fn an_entry_without_its_term_is_a_fault() {
        let faults = forbidden(&Tree::of(&[(FILE, "[[word]]\nnames = ['a']\n")]));
        assert_eq!(faults.len(), 1);
        assert!(forbidden(&Tree::of(&[("a.rs", "fn zork() {}")])).is_empty());
    }
}

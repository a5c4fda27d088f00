// SPDX-License-Identifier: MIT OR Apache-2.0
//! Documents and code that describe each other must agree.

use std::collections::BTreeSet;

use super::tree::{Fault, Tree};
use crate::results::{self, Results};

const PROTOCOL: &str = "docs/PROTOCOL.md";
const PARAMETERS: &str = "ffi/src/sys/param.rs";
const MANUAL: &str = "docs/fi_xdp.7.md";
const PREFIX: &str = "FI_XDP_";

/// Each section of the protocol that code cites (`PROTOCOL.md` and then `§4.2`) must exist.
pub(super) fn protocol_sections(tree: &Tree) -> Vec<Fault> {
    let sections = tree.file(PROTOCOL).map(|file| headings(&file.text)).unwrap_or_default();
    let mut faults = Vec::new();
    for file in tree.with_extension(&["rs", "c", "h"]) {
        for (line, section) in citations(&file.text) {
            if !sections.contains(&section) {
                let what = format!("cites §{section} of {PROTOCOL}, which has no such section");
                faults.push(Fault::new(file, line, what));
            }
        }
    }
    faults
}

/// The numbers of the headings of a Markdown text: `## 4.2 Title` and `## §4.2. Title` are 4.2.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles
        .filter_map(|line| {
            let title = line.trim_start_matches('#').trim_start().trim_start_matches('§');
            let number = number(title);
            (!number.is_empty()).then(|| number.to_owned())
        })
        .collect()
}

/// Line and number of each section cited after the name of the document, lists included
/// (`§4.1, §4.2 and §5`).
fn citations(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (start, name) in text.match_indices("PROTOCOL.md") {
        let mut rest = &text[start + name.len()..];
        loop {
            // Signs between the name, or a number, and the next section; line ends too.
            let gap = ['`', ' ', '\n', '/', '!', '*', '(', ',', '-', '–'];
            rest = rest.trim_start_matches(gap);
            rest = rest.strip_prefix("and ").unwrap_or(rest);
            let Some(after) = rest.trim_start_matches(gap).strip_prefix('§') else { break };
            let number = number(after);
            if number.is_empty() {
                break;
            }
            let line = text[..text.len() - after.len()].matches('\n').count() + 1;
            found.push((line, number.to_owned()));
            rest = &after[number.len()..];
        }
    }
    found
}

/// The section number that `text` begins with: `4.2` of `4.2. Title`.
fn number(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// The provider's variables and its man page must name the same ones, with the same defaults.
pub(super) fn parameters(tree: &Tree) -> Vec<Fault> {
    let (Some(code), Some(manual)) = (tree.file(PARAMETERS), tree.file(MANUAL)) else {
        return Vec::new();
    };
    let defined = defined(&code.text);
    let described = described(&manual.text);
    let undescribed = defined
        .difference(&described)
        .map(|name| Fault::new(manual, 0, format!("does not describe {PREFIX}{name}")));
    let undefined = described.difference(&defined).map(|name| {
        Fault::new(manual, 0, format!("describes {PREFIX}{name}, which does not exist"))
    });
    let differing = helped_defaults(&code.text).into_iter().filter_map(|(name, default)| {
        let stated = manual_default(&manual.text, &name)?;
        let what = format!("{PREFIX}{name} has default {stated:?}, in {PARAMETERS} {default:?}");
        (stated != default).then(|| Fault::new(manual, 0, what))
    });
    undescribed.chain(undefined).chain(differing).collect()
}

/// Names, in capitals, and the defaults that their help tells: `help: c"... (default: auto)"`.
fn helped_defaults(code: &str) -> Vec<(String, String)> {
    let params = code.split("name: c\"").skip(1);
    let found = params.filter_map(|rest| {
        let name = rest.split_once('"')?.0.to_uppercase();
        let (_, help) = rest.split_once("help: c\"")?;
        let (_, default) = help.split_once('"')?.0.split_once("(default: ")?;
        // A string goes on behind a backslash and blanks.
        let default = default.split_whitespace().filter(|word| *word != "\\");
        let default = default.collect::<Vec<_>>().join(" ");
        Some((name, default.strip_suffix(')')?.to_owned()))
    });
    found.collect()
}

/// The default that the man page tells of a variable, at the end of its paragraph; empty if it
/// tells none. `None` for one that it does not describe.
fn manual_default(manual: &str, name: &str) -> Option<String> {
    let (_, rest) = manual.split_once(&format!("\n*{PREFIX}{name}*\n"))?;
    let paragraph = rest.split("\n\n").next().unwrap_or_default();
    let default = paragraph.split_once("Default: ").map_or("", |(_, default)| default);
    Some(default.trim_end().trim_end_matches('.').replace('*', ""))
}

/// The names given to `fi_param_define`, as `name: c"iface"`, in capitals.
fn defined(code: &str) -> BTreeSet<String> {
    let names = code.split("name: c\"").skip(1);
    names.filter_map(|rest| Some(rest.split_once('"')?.0.to_uppercase())).collect()
}

/// Every `FI_XDP_NAME` of a text, without the prefix.
fn described(text: &str) -> BTreeSet<String> {
    let rests = text.match_indices(PREFIX).map(|(at, _)| &text[at + PREFIX.len()..]);
    let names = rests.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// Each Rust file that a document or a comment names (`ffi/src/lib.rs`, or the end of its path)
/// must exist; `x` stands for any name.
pub(super) fn named_files(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.with_extension(&["md", "rs"]) {
        for (index, line) in file.text.lines().enumerate() {
            let prose = file.is(&["md"]) || line.trim_start().starts_with("//");
            let names = line.split('`').skip(1).step_by(2).filter(|_| prose);
            for name in names.filter(|name| is_rust_file(name) && !exists(tree, name)) {
                faults.push(Fault::new(
                    file,
                    index + 1,
                    format!("names {name}, which is not there"),
                ));
            }
        }
    }
    faults
}

/// Whether it is a path, and nothing else.
fn is_rust_file(name: &str) -> bool {
    let of_path = |c: char| c.is_ascii_alphanumeric() || ['/', '_', '-', '.'].contains(&c);
    name.ends_with(".rs") && name.chars().all(of_path) && !name.starts_with("x/")
}

fn exists(tree: &Tree, name: &str) -> bool {
    let inside = |path: &str| path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
    tree.files.iter().any(|file| file.path == name || inside(&file.path))
}

/// Each table of figures in a document must be the one that the data in `docs/results` gives.
pub(super) fn tables(tree: &Tree) -> Vec<Fault> {
    let documents = tree.with_extension(&["md"]).filter(|file| results::has_table(&file.text));
    let data = tree.files.iter().map(|file| (&*file.path, &*file.text));
    let data = Results::parse(data);
    let faults = documents.filter_map(|file| {
        let filled = data.as_ref().map_err(|error| format!("{error:#}")).and_then(|data| {
            data.fill(&file.path, &file.text).map_err(|error| format!("{error:#}"))
        });
        match filled {
            Ok(filled) if filled == file.text => None,
            Ok(_) => {
                let what = "its tables are not those of the data: `cargo xtask results`";
                Some(Fault::new(file, 0, what))
            }
            Err(error) => Some(Fault::new(file, 0, error)),
        }
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: (&str, &str) =
        (PROTOCOL, "# Protocol\n## 4 Packets\n### 4.1 Header\n## §5. End\n");

    #[test]
    fn a_citation_without_its_section_fails() {
        let code =
            format!("//! See `{PROTOCOL}` §4.1, §4.2 and §5.\n// RFC 9293 §3.8\nfn f() {{}}\n");
        let faults = protocol_sections(&Tree::of(&[DOCUMENT, ("a.rs", &code)]));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].what.contains("§4.2"), "{}", faults[0]);
        assert_eq!(faults[0].line, 1);
    }

    #[test]
    fn a_citation_goes_on_over_a_line_end() {
        let code = format!("/// Ends here ({PROTOCOL}\n/// §9.9).\n");
        let faults = protocol_sections(&Tree::of(&[DOCUMENT, ("a.rs", &code)]));
        assert_eq!((faults.len(), faults[0].line), (1, 2));
    }

    #[test]
    fn without_the_document_every_citation_fails() {
        let code = format!("// {PROTOCOL} §4\n");
        assert_eq!(protocol_sections(&Tree::of(&[("a.c", &code)])).len(), 1);
    }

    #[test]
    fn parameters_and_manual_must_agree() {
        let code = (PARAMETERS, "P { name: c\"iface\" } P { name: c\"peer_timeout\" }");
        let manual = (MANUAL, "*FI_XDP_IFACE*: the interface. `FI_XDP_SPEED`: none.");
        let faults: Vec<String> =
            parameters(&Tree::of(&[code, manual])).into_iter().map(|fault| fault.what).collect();
        assert_eq!(
            faults,
            [
                "does not describe FI_XDP_PEER_TIMEOUT",
                "describes FI_XDP_SPEED, which does not exist"
            ]
        );
        assert!(parameters(&Tree::of(&[code])).is_empty());
    }

    #[test]
    fn parameters_and_manual_must_tell_the_same_defaults() {
        let param =
            |name: &str, default: &str| format!("name: c\"{name}\",\nhelp: c\"It ({default})\",\n");
        let code = [
            param("mode", "default: auto"),
            param("queue", "default: the first \\\n   that is free"),
            param("spin", "default: 20"),
        ];
        let manual = "# P\n\n*FI_XDP_MODE*\n: It. Default: *auto*.\n\n*FI_XDP_QUEUE*\n: It. \
                      Default: the first that is free.\n\n*FI_XDP_SPIN*\n: It. Default: 30.\n";
        let tree = Tree::of(&[(PARAMETERS, &code.concat()), (MANUAL, manual)]);
        let faults: Vec<String> = parameters(&tree).into_iter().map(|fault| fault.what).collect();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("FI_XDP_SPIN has default \"30\""), "{faults:?}");
    }

    #[test]
    fn files_that_are_named_must_exist() {
        let tree = Tree::of(&[
            (
                "docs/A.md",
                "`ffi/src/ep.rs`, `ep.rs`, `x/tests.rs`, `sep.rs`\n`gone.rs` `ep.rs a`\n",
            ),
            ("ffi/src/ep.rs", "//! As `cq.rs`.\nlet text = \"`cq.rs`\";\n"),
        ]);
        let faults: Vec<String> = named_files(&tree).iter().map(Fault::to_string).collect();
        assert_eq!(
            faults,
            [
                "docs/A.md:1: names sep.rs, which is not there",
                "docs/A.md:2: names gone.rs, which is not there",
                "ffi/src/ep.rs:1: names cq.rs, which is not there",
            ]
        );
    }
    #[test]
    fn tables_must_be_those_of_the_data() {
        let list = "[[table]]\nname = 'a'\nrun = 'r'\ncolumns = [{ label = 'p50' }]\n\
                    rows = [{ label = 'xdp' }]\n";
        let run = r#"{"suite": "", "date": "", "commit": "", "processor": "P", "kernel": "",
            "build": "", "conditions": "", "records": [{"unit": "ns", "median": 2}]}"#;
        let faults = |figure: &str| {
            let text = format!(
                "\n<!-- table a -->\n|  | p50 |\n|---|---|\n| xdp | {figure} |\n\n\
                 [r](results/r.json):\nP.\n<!-- end -->\n"
            );
            tables(&Tree::of(&[
                ("docs/results/r.json", run),
                ("docs/results/tables.toml", list),
                ("docs/A.md", &text),
            ]))
        };
        assert_eq!(faults("2"), []);
        assert!(faults("3")[0].what.contains("cargo xtask results"));
        let undefined = Tree::of(&[("docs/A.md", "\n<!-- table a -->\n<!-- end -->\n")]);
        assert!(tables(&undefined)[0].what.contains("no table a"));
    }
}

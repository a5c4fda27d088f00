// SPDX-License-Identifier: MIT OR Apache-2.0
//! Documents and code that speak of each other must agree.

use std::collections::BTreeSet;

use super::{Fault, Tree};

const PROTOCOL: &str = "docs/PROTOCOL.md";
const PARAMETERS: &str = "ffi/src/param.rs";
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
            // What may stand between the name, or a number, and the next sign, also across lines.
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

/// The provider's variables and its man page must name the same ones.
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
    undescribed.chain(undefined).collect()
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
}

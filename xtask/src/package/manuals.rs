// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manual pages, from the pages in `docs/`.
//!
//! In: `docs/NAME.SECTION.md`, in the form of libfabric's own pages. Out: `NAME.SECTION.gz`.
//! `go-md2man` converts; the lines for a web site become its title line. Called by `package`.
//! Bound: [`PAGES`].

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::origin::{Origin, compress, output};

/// Name and section of each page.
pub(super) const PAGES: [(&str, &str); 5] =
    [("fi_xdp", "7"), ("xdp-broker", "8"), ("xdp-perf", "1"), ("xdp-run", "1"), ("xdp-top", "8")];

/// Converts all pages into `folder`.
pub(super) fn write(root: &Path, origin: &Origin, folder: &Path) -> Result<()> {
    for (name, section) in PAGES {
        let page = root.join(format!("docs/{name}.{section}.md"));
        let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let (source, manual) =
            (folder.join(format!("{name}.md")), folder.join(format!("{name}.{section}")));
        let text = with_title(&text, name, section, &origin.date)
            .with_context(|| format!("{}: no front matter", page.display()))?;
        fs::write(&source, text)?;
        output(Command::new("go-md2man").arg("-in").arg(&source).arg("-out").arg(&manual))?;
        fs::remove_file(source)?;
        compress(&manual)?;
    }
    Ok(())
}

/// The page with a title line in place of the front matter.
fn with_title(page: &str, name: &str, section: &str, date: &str) -> Option<String> {
    let body = page.strip_prefix("---\n")?.split_once("\n---\n")?.1;
    let title = format!("% \"{name}\" \"{section}\" \"{date}\" \"ofi-xdp\"\n");
    Some(title + &without_links(body))
}

/// The text of each link alone: in a manual page `fabric(7)` is a reference by itself.
fn without_links(page: &str) -> String {
    let (mut text, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once("](") {
        if let (Some(open), Some(close)) = (before.rfind('['), after.find(')')) {
            text += &before[..open];
            text += &before[open + 1..];
            rest = &after[close + 1..];
        } else {
            text += before;
            text += "](";
            rest = after;
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_matter_becomes_a_title_line() {
        let page = "---\nlayout: page\n---\n\n# NAME\n";
        let text = with_title(page, "xdp-top", "8", "now").unwrap();
        assert_eq!(text, "% \"xdp-top\" \"8\" \"now\" \"ofi-xdp\"\n\n# NAME\n");
        assert_eq!(with_title("# NAME\n", "xdp-top", "8", "now"), None);
    }

    #[test]
    fn a_reference_is_no_link() {
        let page = "*[[allow]]* see [`fabric`(7)](fabric.7.html), [a](b).";
        assert_eq!(without_links(page), "*[[allow]]* see `fabric`(7), a.");
        assert_eq!(without_links("f](x) a](b"), "f](x) a](b");
    }

    #[test]
    fn every_page_of_the_table_is_in_the_tree() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        for (name, section) in PAGES {
            let text = fs::read_to_string(docs.join(format!("{name}.{section}.md"))).unwrap();
            assert!(with_title(&text, name, section, "now").unwrap().contains("\n# NAME\n"));
        }
    }
}

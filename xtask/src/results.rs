// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of figures in the documents, generated from the data in `docs/results`.
//!
//! In: one JSON file for each measured run, and the list of tables `docs/results/tables.toml`.
//! Documents have a pair of marks for each table (`docs/results/README.md` has the forms). Out: the
//! documents with the tables filled in, or a description of the first error. Called by
//! `cargo xtask results`, which writes the documents, and by tidy, which compares them. Bound: the
//! files in the tree.

mod enter;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

pub(crate) use enter::enter;

/// The folder of the data.
const FOLDER: &str = "docs/results/";
/// The list of tables.
const TABLES: &str = "docs/results/tables.toml";
/// Marks around a table, each at the start of a line; name and ` -->` follow the first.
const BEGIN: &str = "\n<!-- table ";
const END: &str = "\n<!-- end -->";
/// A cell without a record.
const NO_FIGURE: &str = "–";
/// Fields that each run has, besides `records`.
const CONDITIONS: [&str; 7] =
    ["suite", "date", "commit", "processor", "kernel", "build", "conditions"];
/// Fields of tables, columns and rows that describe the table; all others select records.
const LAYOUT: [&str; 10] =
    ["name", "corner", "columns", "rows", "label", "run", "shown", "limit", "most", "least"];

/// Record unit, shown unit, and the number of record units in one shown unit.
const UNITS: [(&str, &str, f64); 9] = [
    ("ns", "µs", 1e3),
    ("ns", "ms", 1e6),
    ("ns", "s", 1e9),
    ("1/s", "thousand/s", 1e3),
    ("1/s", "million/s", 1e6),
    ("B/s", "GB/s", 1e9),
    ("b/s", "Gb/s", 1e9),
    ("B", "MB", 1e6),
    ("1", "%", 0.01),
];

/// All measured runs and all tables.
#[derive(Debug)]
pub(crate) struct Results {
    runs: BTreeMap<String, Value>,
    tables: Vec<Value>,
}

impl Results {
    /// Reads the data from `files`, pairs of a path from the top of the project and a text; files
    /// outside `docs/results` are ignored.
    ///
    /// # Errors
    /// A file that is not understood, or a run without its conditions.
    pub(crate) fn parse<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut results = Self { runs: BTreeMap::new(), tables: Vec::new() };
        for (path, text) in files {
            let Some(name) = path.strip_prefix(FOLDER) else { continue };
            if path == TABLES {
                let list: Value = toml::from_str(text).context(TABLES)?;
                results.tables = list["table"].as_array().cloned().context("no [[table]]")?;
            } else if let Some(name) = name.strip_suffix(".json") {
                let run: Value = serde_json::from_str(text).with_context(|| path.to_owned())?;
                for field in CONDITIONS {
                    ensure!(run[field].is_string(), "{path}: no text \"{field}\"");
                }
                ensure!(run["records"].is_array(), "{path}: no list \"records\"");
                results.runs.insert(name.to_owned(), run);
            }
        }
        Ok(results)
    }

    /// The document `text`, which stands at `path`, with every table filled in.
    ///
    /// # Errors
    /// A mark without its end, an unknown table, or a table that does not fit its data.
    pub(crate) fn fill(&self, path: &str, text: &str) -> Result<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(BEGIN) {
            let (name, after) = after.split_once(" -->").context("a mark has no end")?;
            let (_, after) =
                after.split_once(END).with_context(|| format!("table {name} has no end"))?;
            let table = self.tables.iter().find(|table| table["name"] == name);
            let table = table.with_context(|| format!("{TABLES} has no table {name}"))?;
            let table = self.table(table, path).with_context(|| format!("table {name}"))?;
            let _ = write!(filled, "{before}{BEGIN}{name} -->\n{table}{END}");
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// A table and, below it, the runs that its figures are of.
    fn table(&self, table: &Value, path: &str) -> Result<String> {
        let list = |name: &str| table[name].as_array().with_context(|| format!("no {name}"));
        let (columns, rows) = (list("columns")?, list("rows")?);
        let mut text = format!("| {} |", table["corner"].as_str().unwrap_or_default());
        for column in columns {
            let shown = column["shown"].as_str().filter(|shown| *shown != "×");
            let unit = shown.map(|shown| format!(", {shown}")).unwrap_or_default();
            let _ = write!(text, " {}{unit} |", label(column)?);
        }
        let _ = write!(text, "\n|---|{}", "---|".repeat(columns.len()));
        let mut used: Vec<&str> = Vec::new();
        for row in rows {
            let _ = write!(text, "\n| {} |", label(row)?);
            let mut has_figure = false;
            for column in columns {
                let parts = [table, column, row];
                let cell = if column["limit"] == true { limit(row) } else { self.cell(parts)? };
                has_figure |= column["limit"] != true && cell != NO_FIGURE;
                let _ = write!(text, " {cell} |");
                let run = layout(parts, "run").and_then(Value::as_str);
                used.extend(run.filter(|run| !used.contains(run) && column["limit"] != true));
            }
            ensure!(has_figure, "no record for the row {}", label(row)?);
        }
        let folder = match path {
            _ if path.starts_with(FOLDER) => "",
            _ if path.starts_with("docs/") => "results/",
            _ => FOLDER,
        };
        for run in used {
            let processor = self.run(run)?["processor"].as_str().unwrap_or_default();
            let _ = write!(text, "\n\n[{run}]({folder}{run}.json):\n{processor}.");
        }
        Ok(text)
    }

    fn run(&self, name: &str) -> Result<&Value> {
        self.runs.get(name).with_context(|| format!("{FOLDER} has no {name}.json"))
    }

    /// The figure of the one record that table, column and row select; a dash if there is none.
    fn cell(&self, parts: [&Value; 3]) -> Result<String> {
        let run = layout(parts, "run").and_then(Value::as_str).context("a cell has no run")?;
        let keys = parts.into_iter().filter_map(Value::as_object).flatten();
        let keys: Vec<_> = keys.filter(|(key, _)| !LAYOUT.contains(&key.as_str())).collect();
        let records = self.run(run)?["records"].as_array().context("no records")?;
        let selected = |record: &&Value| {
            keys.iter().all(|(key, value)| {
                // An empty text selects records without the field.
                record.get(key.as_str()).unwrap_or(&Value::Null) == *value
                    || (*value == "" && record.get(key.as_str()).is_none())
            })
        };
        let mut found = records.iter().filter(selected);
        let Some(record) = found.next() else { return Ok(String::from(NO_FIGURE)) };
        ensure!(found.next().is_none(), "{run}: several records for {keys:?}");
        let shown = layout(parts, "shown").and_then(Value::as_str);
        let [.., row] = parts;
        shown_figure(record, shown, row).with_context(|| format!("{run}: {record}"))
    }
}

/// A field of the layout: that of the row, else of the column, else of the table.
fn layout<'a>(parts: [&'a Value; 3], name: &str) -> Option<&'a Value> {
    parts.into_iter().rev().find_map(|part| part.get(name))
}

fn label(part: &Value) -> Result<&str> {
    part["label"].as_str().with_context(|| format!("no label: {part}"))
}

/// The limit that a row is held to.
fn limit(row: &Value) -> String {
    match (row["most"].as_f64(), row["least"].as_f64()) {
        (Some(most), _) => format!("≤ {most}"),
        (_, Some(least)) => format!("≥ {least}"),
        _ => String::from(NO_FIGURE),
    }
}

/// The median of a record, or its lowest and highest value where it has no median; bold if it
/// misses the row's limit.
fn shown_figure(record: &Value, shown: Option<&str>, row: &Value) -> Result<String> {
    let unit = record["unit"].as_str().context("no unit")?;
    let shown = shown.filter(|shown| *shown != "×" && *shown != unit);
    let factor = match shown {
        None => 1.0,
        Some(shown) => {
            let known = UNITS.iter().find(|(of, to, _)| (*of, *to) == (unit, shown));
            known.with_context(|| format!("{unit} cannot be shown in {shown}"))?.2
        }
    };
    let number = |name: &str| record[name].as_f64().map(|value| value / factor);
    let (text, worst, best) = match (number("median"), number("low"), number("high")) {
        (Some(median), ..) => (figure(median), median, median),
        (None, Some(low), Some(high)) => {
            (format!("{} to {}", figure(low), figure(high)), high, low)
        }
        _ => anyhow::bail!("neither a median nor low and high"),
    };
    let missed = row["most"].as_f64().is_some_and(|most| worst > most)
        || row["least"].as_f64().is_some_and(|least| best < least);
    Ok(if missed { format!("**{text}**") } else { text })
}

/// Three significant digits, without zeros at the end of a fraction.
fn figure(value: f64) -> String {
    let text = match value.abs() {
        ..0.0995 => format!("{value:.4}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => return format!("{value:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whether a document has a table.
pub(crate) fn has_table(text: &str) -> bool {
    text.contains(BEGIN)
}

/// Fills the tables of README and of the documents in the project at `root`.
///
/// # Errors
/// As [`Results::parse`] and [`Results::fill`], or a file that cannot be read or written.
pub(crate) fn write(root: &Path) -> Result<()> {
    let texts = |folder: &str| -> Result<Vec<(String, String)>> {
        let mut texts = Vec::new();
        for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if [".md", ".json", ".toml"].iter().any(|extension| name.ends_with(extension)) {
                let path = format!("{folder}{name}");
                let text = fs::read_to_string(root.join(&path)).context(path.clone())?;
                texts.push((path, text));
            }
        }
        Ok(texts)
    };
    let data = texts(FOLDER)?;
    let results = Results::parse(data.iter().map(|(path, text)| (&**path, &**text)))?;
    let documents = texts("")?.into_iter().chain(texts("docs/")?).chain(data.clone());
    for (path, text) in documents.filter(|(path, text)| path.ends_with(".md") && has_table(text)) {
        let filled = results.fill(&path, &text).with_context(|| path.clone())?;
        if filled != text {
            fs::write(root.join(&path), filled).with_context(|| path.clone())?;
            println!("{path}: tables written");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{"suite": "latency", "date": "2026-01-02", "commit": "abc",
        "processor": "A processor", "kernel": "6.1", "build": "plain", "conditions": "none",
        "records": [
            {"peer": "xdp", "metric": "half_rtt_p50", "unit": "ns", "median": 1910},
            {"peer": "tcp", "metric": "half_rtt_p50", "unit": "ns", "low": 5000, "high": 5130}
        ]}"#;
    const LIST: &str = r#"
        [[table]]
        name = "small"
        corner = "8 B"
        run = "a-run"
        columns = [
            { label = "target", limit = true },
            { label = "p50", metric = "half_rtt_p50", shown = "µs" },
            { label = "p99", metric = "half_rtt_p99", shown = "µs" },
        ]
        rows = [{ label = "xdp", peer = "xdp", most = 1.5 }, { label = "`tcp`", peer = "tcp" }]
        "#;
    const DOCUMENT: &str = "Before.\n<!-- table small -->\nold\n<!-- end -->\nAfter.\n";

    fn results(run: &str) -> Result<Results> {
        Results::parse([("docs/results/a-run.json", run), (TABLES, LIST)].into_iter())
    }

    #[test]
    fn a_table_is_filled_from_the_data() {
        let filled = results(RUN).unwrap().fill("docs/A.md", DOCUMENT).unwrap();
        assert_eq!(
            filled,
            "Before.\n<!-- table small -->\n\
             | 8 B | target | p50, µs | p99, µs |\n|---|---|---|---|\n\
             | xdp | ≤ 1.5 | **1.91** | – |\n| `tcp` | – | 5 to 5.13 | – |\n\
             \n[a-run](results/a-run.json):\nA processor.\n<!-- end -->\nAfter.\n"
        );
        let again = results(RUN).unwrap().fill("docs/A.md", &filled).unwrap();
        assert_eq!(again, filled, "a filled document does not change");
    }

    #[test]
    fn errors_name_their_cause() {
        let broken = |run: &str| format!("{:#}", results(run).unwrap_err());
        assert!(broken(&RUN.replace("kernel", "colonel")).contains("no text \"kernel\""));
        let fill = |run: &str, text: &str| results(run).unwrap().fill("A.md", text).unwrap_err();
        assert!(format!("{:#}", fill(&RUN.replace("tcp", "xdp"), DOCUMENT)).contains("several"));
        assert!(format!("{:#}", fill(&RUN.replace("tcp", "udp"), DOCUMENT)).contains("row `tcp`"));
        assert!(
            format!("{:#}", fill(&RUN.replace("\"ns\"", "\"B\""), DOCUMENT))
                .contains("shown in µs")
        );
        assert!(fill(RUN, "\n<!-- table small -->").to_string().contains("has no end"));
        assert!(fill(RUN, &DOCUMENT.replace("small", "big")).to_string().contains("no table big"));
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let texts = [0.069, 0.4, 1.0, 1.91, 68.0, 66.44, 218.6].map(figure);
        assert_eq!(texts, ["0.069", "0.4", "1", "1.91", "68", "66.4", "219"]);
    }
}

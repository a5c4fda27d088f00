// SPDX-License-Identifier: MIT OR Apache-2.0
//! The targets that are measured in the simulator: its numbers, as records and as a table.
//!
//! In: the program `ofi-xdp-sim`. Out: the output of its `targets` subcommand, an object in JSON: a
//! number for each quantity, and the list `missed`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use crate::record::Record;

/// The simulator's answer.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) records: Vec<Record>,
    pub(crate) table: String,
    /// Whether all targets are met, by its exit code.
    pub(crate) met: bool,
}

/// Runs `program targets`.
///
/// # Errors
/// When it does not start or prints no JSON object.
pub(crate) fn of(program: &Path) -> Result<Targets> {
    let output = Command::new(program)
        .arg("targets")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} did not start", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find('{').context("the simulator printed no JSON object")?;
    let value: Value = serde_json::from_str(text[start..].trim_end())?;
    let records = records(&value);
    let table = table(&records, &value);
    Ok(Targets { records, table, met: output.status.success() })
}

/// A record for each number.
fn records(value: &Value) -> Vec<Record> {
    let fields = value.as_object().into_iter().flatten();
    let numbers = fields.filter_map(|(name, value)| Some((name, value.as_f64()?)));
    numbers.map(|(name, number)| Record::simulated(name, number)).collect()
}

/// A row for each record, and a line for each target that was missed.
fn table(records: &[Record], value: &Value) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["metric", "value", "unit"]);
    for record in records {
        table.add_row([record.metric.clone(), record.median.to_string(), record.unit.to_owned()]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let missed = value.get("missed").and_then(Value::as_array).into_iter().flatten();
    let missed = missed.filter_map(Value::as_str).map(|what| format!("\nMISSED: {what}"));
    format!("{table}{}", missed.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_becomes_a_record_and_a_row() {
        let value = serde_json::json!({"goodput": 0.9, "extra_ns": 200, "missed": ["too slow"]});
        let records = records(&value);
        let mut found: Vec<_> =
            records.iter().map(|r| (r.metric.as_str(), r.median, r.unit)).collect();
        found.sort_by(|one, other| one.0.cmp(other.0));
        assert_eq!(found, [("extra", 200.0, "ns"), ("goodput", 0.9, "1")]);
        let table = table(&records, &value);
        assert!(table.contains("goodput") && table.ends_with("MISSED: too slow"), "{table}");
    }

    #[test]
    fn a_program_that_prints_no_json_is_an_error() {
        assert!(of(Path::new("true")).is_err());
        assert!(of(Path::new("no-such-program")).is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The targets that are measured in the simulator: its verdicts, as rows of a table.
//!
//! In: the program `ofi-xdp-sim`. Out: what its `targets` subcommand prints, made readable. It is
//! JSON: a list, or an object with a list in it, of objects with simple fields.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use comfy_table::{Table, presets};
use serde_json::Value;

/// What the simulator said.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) table: String,
    /// Whether it says that all are met: its exit code.
    pub(crate) met: bool,
}

/// Runs `program targets`.
///
/// # Errors
/// When it does not start or prints no JSON.
pub(crate) fn of(program: &Path) -> Result<Targets> {
    let output = Command::new(program)
        .arg("targets")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} did not start", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find(['[', '{']).context("the simulator printed no JSON")?;
    let value: Value = serde_json::from_str(text[start..].trim_end())?;
    Ok(Targets { table: table(&value), met: output.status.success() })
}

/// A row for each object of the list; anything else as it is.
fn table(value: &Value) -> String {
    let list = match value {
        Value::Array(list) => Some(list),
        Value::Object(fields) => fields.values().find_map(Value::as_array),
        _ => None,
    };
    let rows: Option<Vec<_>> = list.map(|list| list.iter().filter_map(Value::as_object).collect());
    let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
        return serde_json::to_string_pretty(value).unwrap_or_default();
    };
    let names: Vec<&String> = rows.iter().take(1).flat_map(|row| row.keys()).collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(&names);
    for row in &rows {
        table.add_row(names.iter().map(|name| match row.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_rows_and_the_rest_stays_json() {
        let list = serde_json::json!({"targets": [{"name": "goodput", "value": 0.9}]});
        assert!(table(&list).contains("goodput"), "{}", table(&list));
        assert!(table(&serde_json::json!({"a": 1})).contains("\"a\": 1"));
        assert!(table(&serde_json::json!([])).contains("[]"));
    }

    #[test]
    fn a_program_that_prints_no_json_is_an_error() {
        assert!(of(Path::new("true")).is_err());
        assert!(of(Path::new("no-such-program")).is_err());
    }
}

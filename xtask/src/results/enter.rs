// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry of a measured suite into `docs/results`.
//!
//! In: the suite's records in `target/bench`, written by the last run, and a sentence about its
//! conditions. Out: `docs/results/DATE-SUITE.json`, with date, commit, processor and kernel of this
//! machine. Called by `cargo xtask results --enter`. Bound: one file.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use super::FOLDER;

/// Enters the last run of `suite` and prints the name of the file.
///
/// # Errors
/// A suite that was not measured, a file that exists already, or a command that fails.
pub(crate) fn enter(root: &Path, suite: &str, build: &str, conditions: &str) -> Result<()> {
    let measured = format!("target/bench/{suite}.json");
    let text = fs::read_to_string(root.join(&measured)).with_context(|| measured.clone())?;
    let records: Value = serde_json::from_str(&text).with_context(|| measured.clone())?;
    let date = output(root, "date", &["-u", "+%F"])?;
    let name = format!("{FOLDER}{date}-{suite}.json");
    let path = root.join(&name);
    ensure!(!path.exists(), "{name} exists: rename or remove it first");
    let head = json!({
        "suite": suite,
        "date": date,
        "commit": output(root, "git", &["rev-parse", "--short", "HEAD"])?,
        "processor": processor(&fs::read_to_string("/proc/cpuinfo")?),
        "kernel": output(root, "uname", &["-r"])?,
        "build": build,
        "conditions": conditions,
    });
    fs::write(&path, file(head.as_object().context("no object")?, &records)?)?;
    println!("{name}: entered; name it in {}", super::TABLES);
    Ok(())
}

/// The text of a run, with one record a line.
fn file(head: &Map<String, Value>, records: &Value) -> Result<String> {
    let records = records.as_array().context("the suite has no list of records")?;
    let lines: Vec<String> = records.iter().map(|record| format!("    {record}")).collect();
    let fields: Vec<String> = super::CONDITIONS
        .iter()
        .map(|name| format!("  \"{name}\": {},\n", head.get(*name).unwrap_or(&Value::Null)))
        .collect();
    Ok(format!("{{\n{}  \"records\": [\n{}\n  ]\n}}\n", fields.concat(), lines.join(",\n")))
}

/// Model and number of the processors in the text of `/proc/cpuinfo` (proc(5)).
fn processor(cpuinfo: &str) -> String {
    let value = |name: &str| {
        let mut found = cpuinfo.lines().filter_map(|line| line.strip_prefix(name));
        found.next().and_then(|rest| rest.split_once(':')).map(|(_, value)| value.trim())
    };
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    format!("{}, {count} processors", value("model name").unwrap_or("not recorded"))
}

/// The first line that a command prints.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} fails: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Results;

    #[test]
    fn an_entered_run_is_understood() {
        let text = |name| (name, Value::from("x"));
        let head = super::super::CONDITIONS.map(text).map(|(name, x)| (name.to_owned(), x));
        let records = json!([{"peer": "xdp", "unit": "ns", "median": 1.5}]);
        let text = file(&head.into_iter().collect(), &records).unwrap();
        assert!(
            text.contains("\n    {\"median\":1.5,\"peer\":\"xdp\",\"unit\":\"ns\"}\n"),
            "{text}"
        );
        Results::parse([("docs/results/a.json", text.as_str())].into_iter()).unwrap();
        assert!(file(&Map::new(), &json!({})).is_err());
    }

    #[test]
    fn processors_are_counted() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\nmodel name\t: A CPU\n";
        assert_eq!(processor(cpuinfo), "A CPU, 2 processors");
        assert_eq!(processor(""), "not recorded, 0 processors");
    }

    #[test]
    fn a_suite_that_was_not_measured_is_named() {
        let error = enter(Path::new("/nonexistent"), "rate", "PGO", "").unwrap_err();
        assert_eq!(error.to_string(), "target/bench/rate.json");
    }
}

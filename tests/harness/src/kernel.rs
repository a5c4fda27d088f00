// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's view: attached XDP programs, and the counters of ours. This evidence is independent
//! of the provider.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::netns::Namespace;
use crate::process::Program;

/// How long a tool may take.
const TOOL_TIMEOUT: Duration = Duration::from_secs(5);
/// Key of the program's `counters` map for redirected frames.
const REDIRECTED: u64 = 0;

/// The kernel's view of a namespace, or of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a>(pub Option<&'a Namespace>);

/// An XDP program on an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Position in the receive path: `native`, `generic` or `offload`.
    pub mode: String,
    /// The program's id.
    pub program: u64,
    /// Its name.
    pub name: String,
}

impl Host<'_> {
    /// Runs a tool and returns its output.
    fn tool(&self, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let mut program = Program::new(name).args(arguments);
        if let Some(namespace) = self.0 {
            program = program.inside(namespace)?;
        }
        Ok(program.run(TOOL_TIMEOUT)?.success()?.stdout)
    }

    fn tool_json(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = self.tool(name, arguments)?;
        serde_json::from_str(&text).with_context(|| format!("{name} printed no JSON"))
    }

    /// The XDP program attached to `interface`.
    ///
    /// # Errors
    /// When `ip` fails: the interface does not exist.
    pub fn attachment(&self, interface: &str) -> anyhow::Result<Option<Attachment>> {
        let arguments = ["-json", "-details", "link", "show", "dev", interface];
        let links = self.tool_json("ip", &arguments)?;
        let Some(xdp) = links.pointer("/0/xdp") else { return Ok(None) };
        // The kernel's XDP_ATTACHED_*: 1 driver, 2 skb, 3 hardware.
        let mode = match xdp.get("mode").and_then(Value::as_u64) {
            Some(1) => "native",
            Some(2) => "generic",
            Some(3) => "offload",
            _ => return Ok(None),
        };
        let program = xdp.pointer("/prog/id").and_then(Value::as_u64).unwrap_or(0);
        let name = xdp.pointer("/prog/name").and_then(Value::as_str).unwrap_or("?");
        Ok(Some(Attachment { mode: mode.to_owned(), program, name: name.to_owned() }))
    }

    /// Detaches the XDP program of `interface`, as an administrator would.
    ///
    /// # Errors
    /// When there is none, or `bpftool` fails.
    pub fn detach(&self, interface: &str) -> anyhow::Result<()> {
        let program = self.attachment(interface)?.context("no program is attached")?.program;
        let links = self.tool_json("bpftool", &["--json", "link", "show"])?;
        let is_its = |link: &&Value| link.get("prog_id").and_then(Value::as_u64) == Some(program);
        let link = links.as_array().and_then(|links| links.iter().find(is_its));
        let id = link.and_then(|link| link.get("id")?.as_u64()).context("no link holds it")?;
        self.tool("bpftool", &["link", "detach", "id", &id.to_string()]).map(drop)
    }

    /// Frames that the program has redirected to AF_XDP sockets since it was loaded.
    ///
    /// # Errors
    /// Without `bpftool` or the privilege to use it, or when the program is not ours.
    pub fn redirected(&self, attachment: &Attachment) -> anyhow::Result<u64> {
        let id = attachment.program.to_string();
        let program = self.tool_json("bpftool", &["--json", "prog", "show", "id", &id])?;
        let maps = program.get("map_ids").and_then(Value::as_array).cloned().unwrap_or_default();
        for map in maps.iter().filter_map(Value::as_u64) {
            let map = map.to_string();
            let shown = self.tool_json("bpftool", &["--json", "map", "show", "id", &map])?;
            if shown.get("name").and_then(Value::as_str) == Some("counters") {
                let entries = self.tool_json("bpftool", &["--json", "map", "dump", "id", &map])?;
                return sum_over_cores(&entries, REDIRECTED).context("counters of another form");
            }
        }
        anyhow::bail!("program {id} has no map `counters`")
    }

    /// The driver of `interface`.
    ///
    /// # Errors
    /// Without `ethtool`.
    pub fn driver(&self, interface: &str) -> anyhow::Result<String> {
        let text = self.tool("ethtool", &["-i", interface])?;
        let driver = text.lines().find_map(|line| line.strip_prefix("driver: "));
        Ok(driver.unwrap_or("unknown").to_owned())
    }
}

/// The sum over all cores of one entry of a per-CPU array map, in bpftool's JSON.
fn sum_over_cores(entries: &Value, key: u64) -> Option<u64> {
    let entry = entries.as_array()?.iter().find_map(|entry| {
        let formatted = entry.get("formatted")?;
        (formatted.get("key")?.as_u64()? == key).then_some(formatted)
    })?;
    let values = entry.get("values")?.as_array()?;
    Some(values.iter().filter_map(|value| value.get("value")?.as_u64()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_core_counters_are_summed() {
        let entries = serde_json::json!([
            { "formatted": { "key": 1, "values": [{ "cpu": 0, "value": 100 }] } },
            { "formatted": { "key": 0, "values": [
                { "cpu": 0, "value": 3 }, { "cpu": 1, "value": 4 },
            ] } },
        ]);
        assert_eq!(sum_over_cores(&entries, 0), Some(7));
        assert_eq!(sum_over_cores(&entries, 9), None);
    }
}

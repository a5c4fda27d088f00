// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: the common form of all measurements of the project.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::measure::{Candidate, LinkUse, TAGGED};
use ofi_xdp_harness::topology::LinkOptions;

/// A measured quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Half a round trip, median.
    HalfRttP50,
    /// Half a round trip, 99th percentile.
    HalfRttP99,
    /// Half a round trip, 99.9th percentile.
    HalfRttP999,
    /// Messages that arrived, per second.
    MessageRate,
    /// Payload that arrived, per second.
    Bandwidth,
    /// Time from opening the fabric to the first answer.
    StartUp,
    /// Processors that the process of an idle endpoint takes: 1 is one core.
    IdleCpu,
    /// Processor time of the measuring process for a round trip.
    RoundTripCpu,
    /// Processor time of the measuring process for a message of a stream.
    MessageCpu,
}

impl Metric {
    /// The name in a record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HalfRttP50 => "half_rtt_p50",
            Self::HalfRttP99 => "half_rtt_p99",
            Self::HalfRttP999 => "half_rtt_p999",
            Self::MessageRate => "message_rate",
            Self::Bandwidth => "bandwidth",
            Self::StartUp => "start_up",
            Self::IdleCpu => "idle_cpu",
            Self::RoundTripCpu => "round_trip_cpu",
            Self::MessageCpu => "message_cpu",
        }
    }

    /// The unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::HalfRttP50 | Self::HalfRttP99 | Self::HalfRttP999 => "ns",
            Self::StartUp | Self::RoundTripCpu | Self::MessageCpu => "ns",
            Self::MessageRate => "1/s",
            Self::Bandwidth => "B/s",
            Self::IdleCpu => "1",
        }
    }
}

/// One quantity over several rounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The run: `run`, or a suite of benchmarks.
    pub suite: String,
    /// `xdp`, `tcp`, `tcp;ofi_rxm`, `udp;ofi_rxd`, `shm`, `kernel-udp`, `raw-af_xdp`; `engine-pair`
    /// and `simulator` for measurements without a network, `machine` for properties of the machine.
    pub peer: String,
    /// The configuration of that peer. For `xdp` the tier of its packets (`zerocopy`, `copy`,
    /// `skb`, `udp`; `auto` for the provider's choice), with the way of waiting if it slept (`udp
    /// sread`). Otherwise the way of waiting (`spin`, `blocking`, `sread`, `fd`).
    pub mode: String,
    /// Bytes in a message.
    pub size_bytes: usize,
    /// The quantity: the name of a [`Metric`], or a quantity of the engine.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The median over the rounds.
    pub median: f64,
    /// The lowest value of a round.
    pub low: f64,
    /// The highest value of a round.
    pub high: f64,
    /// The operation, if it is not tagged messages: `write`, `read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The link, if it is not a plain one with packets of 1500 bytes: `mtu 9000`, `one host`, `loss
    /// 10 ‰`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Outstanding operations and poll intervals, if the queue is read at intervals: `4
    /// outstanding, both 100 µs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling: Option<String>,
}

impl Record {
    /// The record of the rounds' values; `None` if there are none.
    #[must_use]
    pub fn new(
        suite: &str,
        who: &Candidate,
        size_bytes: usize,
        metric: Metric,
        rounds: &[f64],
    ) -> Option<Self> {
        Some(
            Self {
                operation: (who.operation != TAGGED).then(|| who.operation.to_owned()),
                link: link(who),
                polling: who.polling.clone(),
                ..Self::plain(suite, (who.peer, &who.mode), size_bytes, metric.name(), rounds)?
            }
            .in_unit(metric.unit()),
        )
    }

    /// A record of a quantity that no session measured.
    #[must_use]
    pub fn plain(
        suite: &str,
        (peer, mode): (&str, &str),
        size_bytes: usize,
        metric: &str,
        rounds: &[f64],
    ) -> Option<Self> {
        Some(Self {
            suite: suite.to_owned(),
            peer: peer.to_owned(),
            mode: mode.to_owned(),
            size_bytes,
            metric: metric.to_owned(),
            unit: String::from("1"),
            median: median(rounds)?,
            low: rounds.iter().copied().reduce(f64::min)?,
            high: rounds.iter().copied().reduce(f64::max)?,
            operation: None,
            link: None,
            polling: None,
        })
    }

    /// The record with another unit.
    #[must_use]
    pub fn in_unit(self, unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..self }
    }

    /// Operation, link and polling, as far as they are special, in words.
    #[must_use]
    pub fn conditions(&self) -> String {
        let all = [&self.operation, &self.link, &self.polling].into_iter().flatten();
        all.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Peer, mode and [`Self::conditions`], in words.
    #[must_use]
    pub fn subject(&self) -> String {
        let all = [self.peer.clone(), self.mode.clone(), self.conditions()];
        all.into_iter().filter(|one| !one.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Link and polling together.
    #[must_use]
    pub fn context(&self) -> (Option<String>, Option<String>) {
        (self.link.clone(), self.polling.clone())
    }

    /// Whether the record is of this metric.
    #[must_use]
    pub fn is(&self, metric: Metric) -> bool {
        self.metric == metric.name()
    }
}

/// The special property of a candidate's link.
fn link(who: &Candidate) -> Option<String> {
    let plain = LinkOptions::default();
    match (who.link, who.options) {
        (LinkUse::Loopback, _) => Some(String::from("one host")),
        (_, LinkOptions { relay: Some(path), .. }) => Some(path.to_string()),
        (_, LinkOptions { loss_per_mille: Some(loss), .. }) => Some(format!("loss {loss} ‰")),
        (_, options) if options.mtu != plain.mtu => Some(format!("mtu {}", options.mtu)),
        _ => None,
    }
}

/// The median; the mean of the two middle values if their number is even.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// Writes `records` to the file `path`, and makes its folder.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, records: &[Record]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string_pretty(records)?;
    text.push('\n');
    replace(path, &text)
}

/// Replaces the file `path` by one with `text`. The old file may belong to root from an earlier
/// run, while the folder belongs to the user.
///
/// # Errors
/// When it cannot be written.
pub fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let part = path.with_extension(format!("part-{}", std::process::id()));
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The records in the file `path`; none if it does not exist.
///
/// # Errors
/// When the file is not understood.
pub fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is not understood", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_record_has_the_agreed_form() {
        let who = Candidate::provider("tcp;ofi_rxm");
        let record = Record::new("run", &who, 8, Metric::HalfRttP999, &[3.0, 1.0, 2.0]).unwrap();
        let json = serde_json::to_value(&record).unwrap();
        let wanted = serde_json::json!({
            "suite": "run", "peer": "tcp;ofi_rxm", "mode": "spin", "size_bytes": 8,
            "metric": "half_rtt_p999", "unit": "ns", "median": 2.0, "low": 1.0, "high": 3.0,
        });
        assert_eq!(json, wanted);
        let who = who.one_sided("write").mtu(9000);
        let record = Record::new("run", &who, 8, Metric::Bandwidth, &[1.0]).unwrap();
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!((&json["operation"], &json["link"]), (&"write".into(), &"mtu 9000".into()));
        assert_eq!(serde_json::from_value::<Record>(json).unwrap(), record);
        assert_eq!(record.subject(), "tcp;ofi_rxm, spin, write, mtu 9000");
        assert_eq!(Record { mode: String::new(), ..record }.conditions(), "write, mtu 9000");
    }

    /// A process that may not write into the old file may replace it.
    #[test]
    fn a_file_is_replaced_not_written_into() {
        let folder = std::env::temp_dir().join(format!("ofi-xdp-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (page, old) = (folder.join("page.html"), folder.join("old"));
        replace(&page, "one").unwrap();
        std::fs::hard_link(&page, &old).unwrap();
        replace(&page, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "two");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "one");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

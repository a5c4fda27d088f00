// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one page in HTML, which asks for nothing else. Plots are SVG in the page.
//!
//! In: records, the setting, finished plots. Out: a document. Callers: `cargo xtask run`,
//! `cargo xtask bench`. Bound: the records.

use std::fmt::Write as _;

use crate::report::{Metric, Record};
use crate::suites::html::{TABLE_END, document, escape, meanings, metric, number, table, title};
use crate::suites::table::{figure, scale};
use crate::suites::{SUITES, targets};

/// The suite of `cargo xtask run`, which has no targets.
const RUN: &str = "run";

/// The page. `pictures` are finished plots: a title and an SVG document each.
#[must_use]
pub fn page(records: &[Record], setting: &str, pictures: &[(String, String)]) -> String {
    let mut text = format!(
        "<p>Setting: {}. Medians of the rounds; whiskers, low and high are the lowest and \
         the highest round. Compare within one run only.</p>\n",
        escape(setting)
    );
    if records.iter().any(|one| one.suite != RUN) {
        target_table(&mut text, records);
    }
    for (title, svg) in pictures {
        let svg = without_prologue(svg).replacen("<svg", "<svg class=\"picture\"", 1);
        let _ = write!(text, "<section><h2>{}</h2>\n{svg}</section>\n", escape(title));
    }
    for suite in [RUN].into_iter().chain(SUITES) {
        let of_suite: Vec<&Record> = records.iter().filter(|one| one.suite == suite).collect();
        if !of_suite.is_empty() {
            let _ = writeln!(text, "<h2>{suite}</h2>");
            suite_plots(&mut text, &of_suite);
            record_table(&mut text, &of_suite);
        }
    }
    text.push_str(&meanings(records.iter().map(|one| one.metric.as_str())));
    document("xdp: benchmarks", &text)
}

fn target_table(text: &mut String, records: &[Record]) {
    text.push_str("<h2>Targets</h2>\n");
    text.push_str(&table(&["figure", "target", "measured", "outcome"]));
    for row in targets(records) {
        let class = match row.outcome() {
            "met" => "met",
            "MISSED" => "missed",
            _ => "none",
        };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&row.what),
            escape(&row.target),
            escape(&row.shown()),
            row.outcome()
        );
    }
    text.push_str(TABLE_END);
}

/// The bar charts: one for each metric, size, operation and link.
fn suite_plots(text: &mut String, records: &[&Record]) {
    let hidden = [Metric::HalfRttP99, Metric::RoundTripCpu, Metric::MessageCpu].map(Metric::name);
    let key =
        |one: &Record| (one.metric.clone(), one.size_bytes, one.operation.clone(), one.context());
    let mut keys = Vec::new();
    for one in records.iter().filter(|one| !hidden.contains(&one.metric.as_str())) {
        if !keys.contains(&key(one)) {
            keys.push(key(one));
        }
    }
    for wanted in keys {
        let group: Vec<&Record> =
            records.iter().copied().filter(|one| key(one) == wanted).collect();
        if group.len() > 1 {
            bars(text, &group);
        }
    }
}

/// Rows of a bar chart, in SVG units.
const ROW: f64 = 24.0;
const NAME_WIDTH: f64 = 240.0;
const BAR_WIDTH: f64 = 600.0;

/// A bar for each record, from zero, with a whisker from the lowest to the highest round.
fn bars(text: &mut String, group: &[&Record]) {
    let Some(first) = group.first() else { return };
    let most = group.iter().map(|one| one.high).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let height = ROW * group.len() as f64;
    let more = first.conditions();
    let size =
        if first.size_bytes == 0 { String::new() } else { format!(", {} B", first.size_bytes) };
    let of = if more.is_empty() { String::new() } else { format!(" ({more})") };
    let _ = write!(
        text,
        "<section><h3>{}{size}{}</h3>\n\
         <svg viewBox=\"0 0 1000 {height}\" width=\"1000\" role=\"img\">\n",
        title(&first.metric),
        escape(&of)
    );
    for (row, one) in group.iter().enumerate() {
        let (top, middle) = (ROW * row as f64, ROW * (row as f64 + 0.5));
        let x = |value: f64| NAME_WIDTH + BAR_WIDTH * value / most;
        let (factor, unit) = scale(one);
        let fill = colour(&one.peer, &one.mode);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAME_WIDTH}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{fill}\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\" class=\"whisker\"/>\
             <text class=\"faint\" x=\"{:.1}\" y=\"{}\">{} {}</text>",
            NAME_WIDTH - 8.0,
            middle + 4.0,
            escape(&format!("{} {}", one.peer, one.mode)),
            top + 4.0,
            x(one.median) - NAME_WIDTH,
            ROW - 8.0,
            x(one.low),
            x(one.high),
            x(one.high) + 8.0,
            middle + 4.0,
            figure(one.median / factor),
            escape(unit)
        );
    }
    text.push_str("</svg></section>\n");
}

/// Colours that colour-blind readers can distinguish (Okabe and Ito), the provider's the strongest.
fn colour(peer: &str, mode: &str) -> &'static str {
    match peer {
        "xdp" if mode.starts_with("udp") => "#e69f00",
        "xdp" | "engine-pair" => "#d55e00",
        "raw-af_xdp" => "#555555",
        "kernel-udp" => "#3a9bd9",
        "tcp" => "#009e73",
        "tcp;ofi_rxm" => "#cc79a7",
        _ => "#005599",
    }
}

fn record_table(text: &mut String, records: &[&Record]) {
    text.push_str("<details><summary>all figures</summary>");
    let headers = ["metric", "bytes", "peer", "mode", "with", "median", "low", "high", "unit"];
    text.push_str(&table(&headers));
    for one in records {
        let (factor, unit) = scale(one);
        let _ = write!(text, "<tr><td>{}</td>", metric(&one.metric));
        text.push_str(&number(one.size_bytes as f64, &one.size_bytes.to_string()));
        for word in [&one.peer, &one.mode, &one.conditions()] {
            let _ = write!(text, "<td>{}</td>", escape(word));
        }
        for value in [one.median, one.low, one.high] {
            text.push_str(&number(value, &figure(value / factor)));
        }
        let _ = writeln!(text, "<td>{}</td></tr>", escape(unit));
    }
    let _ = writeln!(text, "{TABLE_END}</details>");
}

/// An SVG document as an element of the page.
fn without_prologue(svg: &str) -> &str {
    svg.find("<svg").map_or("", |start| &svg[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Candidate;
    use ofi_xdp_harness::tier::XdpMode;

    #[test]
    fn a_page_is_whole_and_asks_for_nothing_else() {
        let record = |who: &Candidate, ns| {
            Record::new("latency", who, 8, Metric::HalfRttP50, &[ns, ns + 10.0]).unwrap()
        };
        let records = [
            record(&Candidate::xdp(XdpMode::Skb), 2000.0),
            record(&Candidate::provider("tcp"), 4000.0),
        ];
        let pictures = [(String::from("a < b"), String::from("<?xml?><svg></svg>"))];
        let text = page(&records, "here & now", &pictures);
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
        let picture = "<svg class=\"picture\"></svg>";
        for wanted in ["here &amp; now", "a &lt; b", picture, "<rect", "AF_XDP skb / tcp"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        for foreign in ["http:", "https:", "<?xml", " src="] {
            assert!(!text.contains(foreign), "{foreign}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of pages in HTML: a page is one file that asks for nothing else.
//!
//! In: a title, a body. Out: a document for the screen, light or dark, and for print. Headers of
//! tables of the class `sorted` sort their rows. Callers: `page.rs`, `comparison.rs`.

use std::collections::BTreeMap;

/// Colours are variables, so that plots in the page follow the reader's scheme. On paper, headings
/// stay with what follows them, letters in plots are larger, and folded tables are open.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#222b36;--paper:#fff;--faint:#5b6572;--line:#e0e5ea;\
--met:#00795a;--missed:#b3261e}\
@media (prefers-color-scheme:dark){:root{--ink:#dfe5ec;--paper:#14181d;--faint:#95a1ae;\
--line:#323b45;--met:#4fc79f;--missed:#ff8a80}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;\
color:var(--ink);background:var(--paper)}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.15em .8em;text-align:left;\
border-bottom:1px solid var(--line)}td.n{text-align:right;font-variant-numeric:tabular-nums}\
.sorted th{cursor:pointer}th[aria-sort=ascending]::after{content:' \u{25b2}'}\
th[aria-sort=descending]::after{content:' \u{25bc}'}\
[title]{text-decoration:underline dotted var(--faint)}\
.met{color:var(--met);font-weight:600}.missed{color:var(--missed);font-weight:600}\
.none,.faint{color:var(--faint)}dt{font-weight:600;margin-top:.5em}dd{margin:0 0 0 2em}\
svg{display:block;margin:1em 0;max-width:100%;height:auto}h2{margin-top:2em}\
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}svg .faint{fill:var(--faint)}\
svg .whisker{stroke:var(--ink)}svg.picture{background:#fff}svg.picture text{fill:#222b36}\
@media print{:root{color-scheme:light;--ink:#000;--paper:#fff;--faint:#444;--line:#bbb;\
--met:#005c43;--missed:#8c1d17}body{margin:0;padding:0;max-width:none;font-size:11px}\
h1,h2,h3,summary{break-after:avoid}section,svg,tr,dt{break-inside:avoid}thead{display:\
table-header-group}td,th{padding:.1em .5em}summary{list-style:none}\
details::details-content{content-visibility:visible;block-size:auto}\
[title]{text-decoration:none}svg text{font-size:15px}}";

/// Sorts the rows of a table by the column of a header, by the pointer or the keyboard, and the
/// second time in reverse. A cell's `data-n` counts in place of its text. Folded tables are open
/// while the page is printed.
const SCRIPT: &str = "\
document.querySelectorAll('table.sorted').forEach(t=>{const all=[...t.tHead.rows[0].cells];\
all.forEach((h,i)=>{h.tabIndex=0;const by=()=>{const up=h.getAttribute('aria-sort')!=='ascending';\
all.forEach(o=>o.removeAttribute('aria-sort'));\
h.setAttribute('aria-sort',up?'ascending':'descending');\
const key=r=>{const c=r.cells[i];return c.dataset.n??c.textContent};const body=t.tBodies[0];\
const rows=[...body.rows];rows.sort((a,b)=>{const x=key(a),y=key(b),n=x-y;\
return (up?1:-1)*(Number.isNaN(n)?x.localeCompare(y):n)});body.append(...rows)};\
h.addEventListener('click',by);\
h.addEventListener('keydown',e=>{if(e.key==='Enter')by()})})});\
let folded=[];addEventListener('beforeprint',()=>{\
folded=[...document.querySelectorAll('details:not([open])')];folded.forEach(d=>d.open=true)});\
addEventListener('afterprint',()=>folded.forEach(d=>d.open=false))";

/// The document with this title, which is its heading, too.
pub(super) fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n{body}\
         <script>{SCRIPT}</script></body></html>\n"
    )
}

/// The beginning of a table that sorts, with its headers. [`TABLE_END`] ends it.
pub(super) fn table(headers: &[&str]) -> String {
    let header = |one: &&str| {
        let title = column(one).map(|meaning| format!(" title=\"{}\"", escape(meaning)));
        format!("<th{}>{}</th>", title.unwrap_or_default(), escape(one))
    };
    let headers: String = headers.iter().map(header).collect();
    format!("<table class=\"sorted\"><thead><tr>{headers}</tr></thead><tbody>\n")
}

/// The end of a table.
pub(super) const TABLE_END: &str = "</tbody></table>\n";

/// The meaning of a column.
fn column(header: &str) -> Option<&'static str> {
    Some(match header {
        "bytes" => "The size of a message",
        "peer" => "The provider or the transport that was measured",
        "mode" => "The tier of xdp; of the others, how they wait: spinning, or blocking",
        "with" => "The operation, the link and the polling, where they are not the usual ones",
        "median" => "Half of the rounds are above, half below",
        "low" => "The lowest round",
        "high" => "The highest round",
        "ratio" => "After, divided by before",
        "verdict" => "Better or worse where no round of one run is within those of the other",
        "outcome" => "Whether the target is met",
        _ => return None,
    })
}

/// A cell with a figure, which sorts by its value.
pub(super) fn number(value: f64, shown: &str) -> String {
    format!("<td class=\"n\" data-n=\"{value}\">{}</td>", escape(shown))
}

/// The name of a metric, with its meaning where the pointer rests.
pub(super) fn metric(name: &str) -> String {
    match meaning(name) {
        Some((_, meaning)) => {
            format!("<span title=\"{}\">{}</span>", escape(meaning), escape(name))
        }
        None => escape(name),
    }
}

/// The title of a metric's plots.
pub(super) fn title(name: &str) -> String {
    match meaning(name) {
        Some((title, meaning)) => {
            format!("<span title=\"{}\">{}</span>", escape(meaning), escape(title))
        }
        None => escape(name),
    }
}

/// The meanings of these metrics, for a reader without a pointer.
pub(super) fn meanings<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let known: BTreeMap<&str, &str> =
        names.filter_map(|name| Some((name, meaning(name)?.1))).collect();
    let list = known
        .iter()
        .map(|(name, meaning)| format!("<dt>{}</dt><dd>{}.</dd>\n", escape(name), escape(meaning)));
    format!("<h2>Meaning of the figures</h2>\n<dl>\n{}</dl>\n", list.collect::<String>())
}

/// The title and the meaning of a metric.
fn meaning(metric: &str) -> Option<(&'static str, &'static str)> {
    Some(match metric {
        "half_rtt_p50" => (
            "Half round trip, median",
            "Half of a round trip of one message, median of all round trips",
        ),
        "half_rtt_p99" => ("Half round trip, p99", "Half of a round trip; one of 100 takes longer"),
        "half_rtt_p999" => {
            ("Half round trip, p99.9", "Half of a round trip; one of 1,000 takes longer")
        }
        "message_rate" => {
            ("Message rate", "Messages that arrived in a second, with a window of them under way")
        }
        "bandwidth" => ("Bandwidth", "Bytes of messages that arrived in a second, without headers"),
        "start_up" => ("Start-up", "Time from opening the fabric to the first answer of the peer"),
        "idle_cpu" => ("Processors, idle", "Cores that the process of an idle endpoint takes"),
        "round_trip_cpu" => {
            ("Processor time of a round trip", "Processor time of the client for a round trip")
        }
        "message_cpu" => (
            "Processor time of a message",
            "Processor time of the client for a message of a stream",
        ),
        "share" => {
            ("Share", "Rate of a stream, divided by an equal part of all through the bottleneck")
        }
        "xdp_share" => {
            ("Share of AF_XDP", "Part of the packets that came by AF_XDP, the kernel past")
        }
        "handover" => ("Distance of cores", "Time for a cache line from one core to the other"),
        "frame_rate" => ("Frame rate", "Frames in a second through the relay in a flood"),
        "late_p99" => {
            ("Lateness, p99", "Lateness of frames that left the relay; one of 100 is later")
        }
        _ => return None,
    })
}

/// Text between tags, or in an attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Metric;

    #[test]
    fn a_document_asks_for_nothing_else() {
        let text = document("a < b", "<p>here</p>\n");
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
        assert!(text.contains("<h1>a &lt; b</h1>") && text.contains("<p>here</p>"));
        for foreign in ["http:", "https:", " src=", "@import", "url("] {
            assert!(!text.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn each_metric_of_a_session_has_a_meaning() {
        let all = [
            Metric::HalfRttP50,
            Metric::HalfRttP99,
            Metric::HalfRttP999,
            Metric::MessageRate,
            Metric::Bandwidth,
            Metric::StartUp,
            Metric::IdleCpu,
            Metric::RoundTripCpu,
            Metric::MessageCpu,
        ];
        for one in all {
            assert!(metric(one.name()).contains("title="), "{}", one.name());
        }
        assert_eq!(metric("a<b"), "a&lt;b");
        assert_eq!(title("a<b"), "a&lt;b");
        assert!(title("bandwidth").ends_with(">Bandwidth</span>"));
    }

    #[test]
    fn paper_has_the_meanings_and_what_is_folded_on_the_screen() {
        let text = meanings(["bandwidth", "unknown", "bandwidth"].into_iter());
        assert_eq!(text.matches("<dt>").count(), 1, "{text}");
        let (_, print) = STYLE.split_once("@media print").unwrap();
        for rule in ["details-content", "break-after:avoid", "color-scheme:light"] {
            assert!(print.contains(rule), "{rule}");
        }
        assert!(SCRIPT.contains("beforeprint"));
    }

    #[test]
    fn a_header_repeats_on_each_sheet_and_tells_what_its_column_is() {
        let text = table(&["median", "a<b"]);
        assert!(text.contains("<thead><tr><th title=\"Half of the rounds"), "{text}");
        assert!(text.contains("<th>a&lt;b</th></tr></thead><tbody>"), "{text}");
    }
}

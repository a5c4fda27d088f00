// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of pages in HTML: a page is one file that asks for nothing else.
//!
//! In: a title, a body. Out: a document for the screen, light or dark, and for print. Headers of
//! tables of the class `sorted` sort their rows. Callers: `page.rs`, `comparison.rs`.

/// Colours are variables, so that plots in the page follow the reader's scheme.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#222b36;--paper:#fff;--faint:#5b6572;--line:#e0e5ea;\
--met:#00795a;--missed:#b3261e}\
@media (prefers-color-scheme:dark){:root{--ink:#dfe5ec;--paper:#14181d;--faint:#95a1ae;\
--line:#323b45;--met:#4fc79f;--missed:#ff8a80}}\
@media print{:root{--ink:#000;--paper:#fff;--faint:#444;--line:#bbb;--met:#005c43;\
--missed:#8c1d17}details>*{display:block}svg,tr{break-inside:avoid}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;\
color:var(--ink);background:var(--paper)}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.15em .8em;text-align:left;\
border-bottom:1px solid var(--line)}td.n{text-align:right;font-variant-numeric:tabular-nums}\
.sorted th{cursor:pointer}[title]{text-decoration:underline dotted var(--faint)}\
.met{color:var(--met);font-weight:600}.missed{color:var(--missed);font-weight:600}\
.none,.faint{color:var(--faint)}\
svg{display:block;margin:1em 0;max-width:100%;height:auto}h2{margin-top:2em}\
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}svg .faint{fill:var(--faint)}\
svg .whisker{stroke:var(--ink)}svg.picture{background:#fff}svg.picture text{fill:#222b36}";

/// Sorts the rows of a table by the column of a header, and at a second click in reverse. A cell's
/// `data-n` counts in place of its text.
const SCRIPT: &str = "\
document.querySelectorAll('table.sorted').forEach(t=>{let by=-1,up=1;\
t.querySelectorAll('th').forEach((h,i)=>h.addEventListener('click',()=>{\
up=by===i?-up:1;by=i;const key=r=>{const c=r.cells[i];return c.dataset.n??c.textContent};\
const rows=[...t.rows].slice(1);rows.sort((a,b)=>{const x=key(a),y=key(b),n=x-y;\
return up*(Number.isNaN(n)?x.localeCompare(y):n)});rows.forEach(r=>r.parentNode.append(r))}))})";

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

/// The beginning of a table that sorts, with its headers.
pub(super) fn table(headers: &[&str]) -> String {
    let headers: String = headers.iter().map(|one| format!("<th>{}</th>", escape(one))).collect();
    format!("<table class=\"sorted\"><tr>{headers}</tr>\n")
}

/// A cell with a figure, which sorts by its value.
pub(super) fn number(value: f64, shown: &str) -> String {
    format!("<td class=\"n\" data-n=\"{value}\">{}</td>", escape(shown))
}

/// The name of a metric, with its meaning where the pointer rests.
pub(super) fn metric(name: &str) -> String {
    match meaning(name) {
        Some(meaning) => format!("<span title=\"{}\">{}</span>", escape(meaning), escape(name)),
        None => escape(name),
    }
}

/// The meaning of a metric.
fn meaning(metric: &str) -> Option<&'static str> {
    Some(match metric {
        "half_rtt_p50" => "Half of a round trip of one message, median of all round trips",
        "half_rtt_p99" => "Half of a round trip; one of 100 takes longer",
        "half_rtt_p999" => "Half of a round trip; one of 1,000 takes longer",
        "message_rate" => "Messages that arrived in a second, with a window of them under way",
        "bandwidth" => "Bytes of messages that arrived in a second, without headers",
        "start_up" => "Time from opening the fabric to the first answer of the peer",
        "idle_cpu" => "Cores that the process of an idle endpoint takes",
        "round_trip_cpu" => "Processor time of the client for a round trip",
        "message_cpu" => "Processor time of the client for a message of a stream",
        "share" => "Rate of a stream, divided by an equal part of all through the bottleneck",
        "xdp_share" => "Part of the packets that came by AF_XDP, the kernel past",
        "frame_rate" => "Frames in a second through the relay in a flood",
        "late_p99" => "Lateness of frames that left the relay; one of 100 is later",
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
    }
}

//! How to read the board: what a number, an interval, a shared place, a quarantine and a claim are.
//!
//! Invariant: every constant that is named comes from the code that applies it.

use crate::board::Board;
use crate::html::{Frame, page};
use crate::links::{Links, Mode, Target};
use crate::rank::SIGNIFICANCE;
use crate::window::MAX_FAILED;
use std::fmt::Write as _;
use tokrate_charts::{Axis, Bar, BarChart, Chart, Size, escape, format};
use tokrate_stats::Level;

/// The page.
pub(crate) fn render(board: &Board, target: &Target, mode: Mode) -> String {
    let links = Links::from(board, target, mode);
    let mut out = String::from("<h1>How to read this board</h1>\n<div class=\"prose\">\n");
    for (title, paragraphs) in sections() {
        let _ = write!(out, "<section><h2>{}</h2>", escape(title));
        for paragraph in paragraphs {
            let _ = write!(out, "<p>{}</p>", escape(&paragraph));
        }
        if title == SHARED {
            example(&mut out);
        }
        out.push_str("</section>\n");
    }
    out.push_str("</div>\n");
    let description = "What an interval, a shared place, a quarantine and a claim are.".to_owned();
    page(&links, &Frame { title: "Methodology".to_owned(), description, target }, &out)
}

const SHARED: &str = "A shared place";

fn example(out: &mut String) {
    let bar = |label: &str, value: f64, low: f64, high: f64, note: &str| Bar {
        label: label.to_owned(),
        value: Some(value),
        low: Some(low),
        high: Some(high),
        note: note.to_owned(),
    };
    let chart = BarChart {
        title: "An example: three endpoints, two places".to_owned(),
        description: "Invented numbers. A and B overlap and share 1–2; C is behind both for sure.".to_owned(),
        axis: Axis::linear("Output speed of one request", "tok/s"),
        bars: vec![
            bar("A", 104.0, 98.0, 110.0, "place 1–2"),
            bar("B", 101.0, 96.0, 107.0, "place 1–2"),
            bar("C", 81.0, 78.0, 85.0, "place 3"),
        ],
    };
    let _ = write!(
        out,
        "<figure><h3>{}</h3><p class=\"lead\">{}</p><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
        escape(chart.title()),
        escape(chart.description()),
        chart.panel(Size::Half),
        chart.panel(Size::Narrow)
    );
}

fn sections() -> Vec<(&'static str, Vec<String>)> {
    let floor = |level: Level| format::count(level.floor());
    vec![
        ("What is measured", vec![
            "A probe is one request of a workload (a prompt of a given length, an answer of a given length) to an endpoint (a provider's address and a model) from a place. Probes are sent at random times within slots of the day, so that nobody can warm up for them, and never two at once to one endpoint unless the workload is about load.".to_owned(),
            "Output speed is that of one request after its first chunk: tokens after the first chunk over the time from first to last text. TTFT runs from the request's last byte sent to the first output text, reasoning included. Total time runs to the end of the answer. Tokens are counted with one tokenizer for all.".to_owned(),
            "A number that cannot be trusted is missing and says why: an answer that came in one piece has no output speed, hidden reasoning has no visible speed. Missing is never zero.".to_owned(),
        ]),
        ("An interval", vec![
            format!("Each number of a window is a median with its 95 % interval: if the same window could be lived many times, 95 of 100 such intervals would hold the true median. It is made of order statistics and the exact binomial distribution, so it assumes no form of distribution, only that probes are independent. It needs {} requests; below that there is no number, but how many are missing.", floor(Level::P50)),
            format!("Tails need more: {} requests for p95, {} for p99. A percentile below its floor is not shown.", floor(Level::P95), floor(Level::P99)),
            "Where a suspicion made the prober look again, the further probes are shown as dots and used by the detector, but one slot counts one sample: its first. Looking where it hurts would make everything look worse.".to_owned(),
            "An interval is about the window. It does not say what next week will be like.".to_owned(),
        ]),
        (SHARED, vec![
            format!("Every two endpoints of a ranking are compared by the rank sum test (Wilcoxon 1945) on all samples of the window; shares of failures by Fisher's exact test. All comparisons of one ranking are corrected together (Holm 1979): the chance that any two identical endpoints are given different places is at most {}.", format::percent(SIGNIFICANCE)),
            "An endpoint that is surely worse than b others and surely better than w of m has a place from b + 1 to m − w. So “1–3” means: it may be the first, the second or the third; nobody can tell from this window. A longer window, or more probes, makes ranges shorter.".to_owned(),
            "Within shared places rows are sorted by the worse end of their interval: the lower end of a speed, the upper end of a time. Few samples make a wide interval, so luck does not lead the list.".to_owned(),
            format!("An endpoint that fails for sure in more than {} of requests keeps its place, but is not recommended: the answer above the table is the best of the others.", format::percent(MAX_FAILED)),
        ]),
        ("What is ranked together", vec![
            "Only the same model, workload, place, load, source and conditions. Where conditions of one model differ (another tokenizer, other options), there are two rankings, each with its own fingerprint. Probes of the monitor, runs of bench and traffic of a gateway are never in one number.".to_owned(),
        ]),
        ("A change", vec![
            "A regression is a change for the worse that two tests see: one of ranks against the same hours of earlier days, and one that also finds the moment. One alone is a suspect: it is in the list of changes, not on the first page. Each change says since when, how much with its interval, and from how many requests.".to_owned(),
            "Something slow every evening is a change of the daily cycle, not a new regression each day.".to_owned(),
        ]),
        ("A quarantine", vec![
            "In each cycle the prober also measures itself, against an engine of known speed next to it. When that is off, or when half of all unrelated providers move at once, the prober or its network is at fault. What it measured then is kept and shown in grey; it is in no number and no rank.".to_owned(),
        ]),
        ("A claim", vec![
            "What a vendor or an article says of a speed is a hollow mark with its source and date. It is never ranked.".to_owned(),
            "So is an estimate of tokrate, computed from facts of devices and models: it stands at its own workload and load, with its interval of 80 %.".to_owned(),
        ]),
        ("Prices", vec![
            "Prices are those of the date next to them. One number blends three parts of input with one of output. Only the endpoint's page shows both.".to_owned(),
        ]),
    ]
}

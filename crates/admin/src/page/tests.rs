//! The page as text: what is on it, and that it contains no markup from outside.

use super::*;
use tokrate_core::FailureKind;
use tokrate_gateway::sample::{NOON_UNIX_MS, SampleGateway, failed, lane_config, lost, row};
use tokrate_gateway::telemetry::KeyStatus;
use tokrate_gateway::{KeyLimits, Spending};
use tokrate_record::{Attempt as Row, Sample};
use tokrate_route::Expectation;

/// The overview without a log, as it is shown by default.
fn page(snapshot: &Snapshot) -> String {
    overview(&Input { snapshot, view: &View::default_at(snapshot.now_unix_ms), report: None })
}

/// The part of it that changes.
fn fragment(snapshot: &Snapshot) -> String {
    overview::content(&Input { snapshot, view: &View::default_at(snapshot.now_unix_ms), report: None })
}

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// The page's markup without the charts.
fn outline(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find("<svg class=\"tk\"") {
        out.push_str(&rest[..start]);
        out.push_str("[chart]");
        let end = rest[start..].find("</svg>").expect("a chart ends") + "</svg>".len();
        rest = &rest[start + end..];
    }
    out.push_str(rest);
    out.replace("><", ">\n<")
}

#[test]
fn the_page_is_unchanged() {
    let lanes = [("a", Some(4)), ("b", None)].map(|(name, cap)| lane_config(name, "example", "model-1", cap));
    let sample = SampleGateway::new(lanes.into());
    for row in [row(1, "a"), lost(2, "a", 1), row(2, "b"), failed(3, "a", FailureKind::RateLimited)] {
        sample.record(&row);
    }
    insta::assert_snapshot!(outline(&page(&sample.snapshot(NOON_UNIX_MS + 90_000))));
}

#[test]
fn a_gateway_that_has_done_nothing_says_so() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let html = page(&sample.snapshot(NOON_UNIX_MS));
    for message in ["Its speed is not known yet", "No answer started", "No call has ended", "No attempt has failed"] {
        assert!(html.contains(message), "{message}");
    }
    assert!(html.contains("No log is kept"));
    assert!(!html.contains("NaN") && !html.contains(">0 %"), "a share of nothing is no share");
}

#[test]
fn configured_names_and_texts_of_providers_are_escaped() {
    let sample = SampleGateway::new(vec![lane_config(HOSTILE, HOSTILE, HOSTILE, Some(3))]);
    let hostile = |row: Row| {
        let [lane, provider, model, alias] = [(); 4].map(|()| HOSTILE.to_owned());
        let model_answered = Some(format!("{HOSTILE}!"));
        Row { lane, alias, sample: Sample { provider, model, model_answered, ..row.sample }, ..row }
    };
    for row in [row(1, ""), lost(2, "", 1), row(2, ""), failed(3, "", FailureKind::Dns)] {
        sample.record(&hostile(row));
    }
    let mut snapshot = sample.snapshot(NOON_UNIX_MS + 1_000);
    snapshot.log = Some(tokrate_gateway::telemetry::LogStatus {
        path: HOSTILE.to_owned(),
        counts: tokrate_store::LogCounts::default(),
        error: Some(HOSTILE.to_owned()),
        is_healthy: false,
    });
    let html = page(&snapshot);
    assert!(!html.contains("<script>") && !html.contains("alert(1)</"), "{html}");
    assert!(html.matches("&lt;script&gt;alert(1)").count() >= 8);
    assert_eq!(html.matches("<script").count(), 1, "the page's own");
}

#[test]
fn refused_requests_that_the_log_could_not_keep_are_shown() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let shown = |lost_refusals| {
        let mut snapshot = sample.snapshot(NOON_UNIX_MS);
        let counts = tokrate_store::LogCounts { lost_refusals, ..tokrate_store::LogCounts::default() };
        let path = "log.db".to_owned();
        snapshot.log = Some(tokrate_gateway::telemetry::LogStatus { path, counts, error: None, is_healthy: true });
        page(&snapshot)
    };
    assert!(shown(0).contains("every row is kept") && !shown(0).contains("refused requests lost"));
    let some = shown(3);
    assert!(some.contains("rows were lost") && some.contains("<dt>refused requests lost</dt><dd>3</dd>"), "{some}");
}

#[test]
fn nothing_on_the_page_needs_what_its_policy_forbids() {
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    let html = page(&sample.snapshot(NOON_UNIX_MS));
    for forbidden in
        [" style=", "<style", "<script>", " onload", " onclick", "javascript:", "http://", "https://", "//"]
    {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    for outside in ["http:", "https:", "@import", "url("] {
        assert!(!style().contains(outside) && !SCRIPT.contains(outside), "{outside}");
    }
    assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("eval"));
}

#[test]
fn parts_that_are_swapped_have_unique_ids() {
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    let html = fragment(&sample.snapshot(NOON_UNIX_MS));
    let mut ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id twice");
    for part in ["asof", "problems", "headline", "aliases", "lanes", "hour", "calls", "racing", "errors", "log"] {
        assert!(ids.contains(&part), "{part}");
    }
    assert_eq!(html.matches("<details").count(), html.matches("<details id=").count());
}

#[test]
fn the_page_keeps_within_a_size_that_can_be_sent_every_two_seconds() {
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    let html = fragment(&sample.snapshot(NOON_UNIX_MS));
    assert!(html.len() < 256 * 1024, "{} bytes", html.len());
}

#[test]
fn amounts_of_money_are_never_rounded_to_nothing() {
    let shown = [0.0, 1e-9, 1e-6, 0.000_42, 0.0312, 0.149_6, 1.5, 12.345, 1234.5, f64::NAN].map(usd);
    let shown = shown.map(|text| text.replace('\u{a0}', " "));
    let expected = ["0", "< 0.000001", "0.000001", "0.00042", "0.0312", "0.15", "1.50", "12.35", "1,235"];
    let expected: Vec<String> =
        expected.iter().map(|digits| format!("{digits} USD")).chain(["n/a".to_owned()]).collect();
    assert_eq!(shown.to_vec(), expected);
}

/// Figures, not bars. `cargo nextest run --release -p tokrate-admin --run-ignored only drawing --no-capture`
#[test]
#[ignore = "prints figures, which only a quiet machine and an optimised build make true"]
#[allow(clippy::print_stdout)]
fn what_drawing_a_page_costs() {
    let clock = tokrate_net::Clock::monotonic();
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    for round in 0..3 {
        let started = clock.now();
        let snapshot = std::hint::black_box(sample.snapshot(NOON_UNIX_MS));
        let copied = clock.now();
        let page = fragment(&snapshot);
        let drawn = clock.now();
        let metrics = crate::openmetrics::text(snapshot);
        let written = clock.now();
        println!(
            "round {round}: a snapshot takes {}, its page {} ({} bytes), its metrics {} ({} bytes)",
            copied - started,
            drawn - copied,
            page.len(),
            written - drawn,
            metrics.len()
        );
    }
}

#[test]
fn changes_of_lanes_are_on_the_page_with_their_interval_and_escaped() {
    use tokrate_gateway::telemetry::LaneChange;
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    assert!(!page(&sample.snapshot(NOON_UNIX_MS)).contains("What changed"), "nobody watches");
    sample.observer().report_changes(Vec::new());
    assert!(page(&sample.snapshot(NOON_UNIX_MS)).contains("No lane has changed"));
    let slower = LaneChange {
        at_unix_ms: NOON_UNIX_MS,
        since_unix_ms: NOON_UNIX_MS - 7_200_000,
        lane: "a".to_owned(),
        alias: HOSTILE.to_owned(),
        metric: "output_speed",
        kind: "regression",
        change: -0.25,
        low: -0.31,
        high: -0.19,
        n: 9,
    };
    let elsewhere = LaneChange { lane: HOSTILE.to_owned(), at_unix_ms: 0, ..slower.clone() };
    let at_once = LaneChange { lane: "*".to_owned(), kind: "quarantine", ..slower.clone() };
    sample.observer().report_changes(vec![elsewhere, at_once, slower]);
    let snapshot = sample.snapshot(NOON_UNIX_MS);
    let html = page(&snapshot);
    assert!(!html.contains("<script>alert"), "{html}");
    let section = html.split("<section id=\"changes\">").nth(1).and_then(|rest| rest.split("</section>").next());
    insta::assert_snapshot!("changes", section.unwrap_or_default().replace("><", ">\n<"));
    let metrics = crate::openmetrics::text(snapshot.clone());
    let lines: Vec<&str> = metrics.lines().filter(|line| line.starts_with("tokrate_lane_changes")).collect();
    assert_eq!(lines, ["tokrate_lane_changes{lane=\"a\",kind=\"regression\",metric=\"output_speed\"} 1.0"]);
    let api = crate::api::changes(&snapshot, None).expect("no parameters");
    assert_eq!(
        (api["changes"].as_array().map(Vec::len), &api["changes"][0]["low"]),
        (Some(3), &serde_json::json!(-0.31))
    );
}

#[test]
fn a_card_shows_what_streams_measured_and_marks_what_is_few_or_inferred() {
    let card = |rows: u32, whole: bool, is_expected: bool| {
        let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
        for _ in 0..rows {
            let mut row = row(1, "a");
            if whole {
                row.sample.clear_streaming_figures();
                row.sample.answer_ns = Some(1_000_000);
            }
            sample.record(&row);
        }
        let mut snapshot = sample.snapshot(NOON_UNIX_MS + 90_000);
        let span = tokrate_core::Span::from_millis(777);
        let expected = Expectation { ttft: span, ttft_p50: span, ttft_p90: span, speed: 50.0, weight: 3.0 };
        snapshot.lanes[0].expected = Some(expected).filter(|_| is_expected);
        let html = page(&snapshot);
        let from = html.find("<dt>TTFT p50</dt>").expect("a card");
        html[from..].split("<dt>").nth(1).expect("a figure").to_owned()
    };
    let few = card(3, false, true);
    assert!(few.contains("<dd>~") && !few.contains("inferred"), "{few}");
    let many = card(30, false, true);
    assert!(!many.contains('~') && !many.contains("inferred") && !many.contains("777"), "{many}");
    let whole = card(30, true, true);
    assert!(whole.contains("777") && whole.contains("(inferred)"), "whole answers are no first tokens: {whole}");
    assert!(!card(30, true, false).contains("ms"), "nothing is known of first tokens");
}

#[test]
fn two_points_are_not_joined_by_a_line() {
    let series = |known: usize| {
        let points = (0..4).map(|x| Point { x: x as f64, y: (x < known).then_some(1.0), ..Point::default() });
        course(Series { points: points.collect(), ..Series::default() })
    };
    let neighbours = |series: &Series| series.points.windows(2).any(|two| two[0].y.is_some() && two[1].y.is_some());
    assert!(!neighbours(&series(2)) && neighbours(&series(3)));
    assert_eq!(series(2).points.iter().filter(|point| point.y.is_some()).count(), 2);
}

#[test]
fn keys_are_shown_with_what_they_spent() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let mut snapshot = sample.snapshot(NOON_UNIX_MS);
    let page = |snapshot: &Snapshot| {
        keys(&Input { snapshot, view: &View::default_at(snapshot.now_unix_ms), report: None }, &[])
    };
    assert!(page(&snapshot).contains("No key is configured"));
    let money = |usd: f64| tokrate_core::Money::from_usd(usd).expect("a sum");
    let limits = KeyLimits { usd_per_month: Some(money(20.0)), streams: Some(4), ..KeyLimits::default() };
    let spending = Spending { spent: money(3.5), reserved: money(0.25) };
    snapshot.keys = vec![KeyStatus { name: HOSTILE.to_owned(), limits, spending, open_calls: 2 }];
    let html = page(&snapshot);
    for shown in ["3.50", "0.25", "16.25\u{a0}USD of 20.00", "4 calls at once", "&lt;script&gt;"] {
        assert!(html.contains(shown), "{shown}");
    }
}

/// Rows of a log: two lanes, streams and whole answers, failures of two kinds, a hedge, three keys.
fn mixed_rows() -> Vec<Row> {
    let at = |minutes_ago: u64, key: Option<&str>, row: Row| Row {
        key: key.map(str::to_owned),
        sample: Sample { started_unix_ms: NOON_UNIX_MS - minutes_ago * 60_000, ..row.sample },
        ..row
    };
    let mut rows: Vec<Row> = (0..30).map(|number| at(2 * number, Some("ada"), row(number, "a"))).collect();
    let mut whole = row(40, "b");
    whole.sample.clear_streaming_figures();
    whole.sample.stream = false;
    whole.sample.answer_ns = Some(1_500_000_000);
    rows.push(at(5, None, whole));
    rows.push(at(7, Some("bob"), failed(41, "b", FailureKind::RateLimited)));
    rows.push(at(6, Some("bob"), failed(42, "b", FailureKind::RateLimited)));
    rows.push(at(6, Some("bob"), Row { attempt: 1, role: tokrate_record::AttemptRole::Failover, ..row(42, "a") }));
    rows.push(at(4, Some("ada"), failed(43, "b", FailureKind::Stalled)));
    rows.push(at(3, Some("ada"), lost(44, "b", 1)));
    rows.push(at(3, Some("ada"), row(44, "a")));
    rows
}

/// A log with these rows, in a folder of its own.
pub(crate) fn log_of(name: &str, rows: &[Row]) -> (std::path::PathBuf, tokrate_store::Sqlite) {
    let folder = std::env::temp_dir().join(format!("tokrate-admin-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let path = folder.join("log.db");
    drop(std::fs::remove_file(&path));
    let mut store = tokrate_store::Sqlite::open(&path).expect("a new log");
    store.append(rows).expect("room");
    (path, store)
}

#[test]
fn the_overview_of_a_log_is_unchanged() {
    use tokrate_store::Store as _;
    let lanes = [("a", Some(4)), ("b", None)].map(|(name, cap)| lane_config(name, "example", "model-1", cap));
    let sample = SampleGateway::new(lanes.into());
    let snapshot = sample.snapshot(NOON_UNIX_MS);
    let (_, store) = log_of("overview", &mixed_rows());
    let view = View::of(Some("since=1h&sort=attempts"), NOON_UNIX_MS, &LANE_SORTS).expect("readable");
    let report = store.report(&view.query, NOON_UNIX_MS, 1_000).expect("readable");
    let html = overview(&Input { snapshot: &snapshot, view: &view, report: Some(Ok(report.into())) });
    insta::assert_snapshot!(outline(&html));
}

#[test]
fn a_lane_says_how_much_of_its_prompts_came_from_the_cache_beside_what_was_expected() {
    use tokrate_store::Store as _;
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let snapshot = sample.snapshot(NOON_UNIX_MS);
    let shown = |name: &str, expected: Option<u64>| {
        let mut one = row(1, "a");
        one.expected_cached_tokens = expected;
        one.sample.started_unix_ms = NOON_UNIX_MS - 60_000;
        (one.sample.input_tokens, one.sample.cached_tokens) = (Some(1_000), Some(750));
        let (_, store) = log_of(name, &[one]);
        let view = View::default_at(NOON_UNIX_MS);
        let report = store.report(&view.query, NOON_UNIX_MS, 1_000).expect("readable");
        lane::lane(&Input { snapshot: &snapshot, view: &view, report: Some(Ok(report.into())) }, "a", &[])
    };
    let html = shown("cache-sight", Some(800));
    assert!(html.contains("Prompt from the cache</dt><dd class=\"value\">75 <small>%</small></dd>"), "{html}");
    assert!(html.contains("80 % expected, n = 1 attempts"), "{html}");
    assert!(!shown("no-cache-sight", None).contains("Prompt from the cache"));
}

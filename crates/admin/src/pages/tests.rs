//! Every page and path of the log over a real log: whatever an address says, and the numbers against the rows.

use crate::reports::Reports;
use crate::{AdminResponse, Endpoint};
use http::StatusCode;
use proptest::prelude::*;
use std::sync::LazyLock;
use tokrate_core::FailureKind;
use tokrate_gateway::sample::{SampleGateway, failed, lane_config, row};
use tokrate_gateway::telemetry::Setting;
use tokrate_net::Clock;
use tokrate_record::{Attempt as Row, AttemptEnd, AttemptRole, Sample};

const ENDPOINTS: [Endpoint; 12] = [
    Endpoint::Overview,
    Endpoint::Lane,
    Endpoint::CallList,
    Endpoint::Call,
    Endpoint::Keys,
    Endpoint::Settings,
    Endpoint::Report,
    Endpoint::Load,
    Endpoint::LoggedCalls,
    Endpoint::SettingsInForce,
    Endpoint::Summary,
    Endpoint::Attempts,
];

/// What would be markup if it were not escaped.
const HOSTILE: &str = "<x7 onload=\"y\">'&";

struct World {
    sample: SampleGateway,
    rows: Vec<Row>,
    reports: Reports,
}

/// A log of an hour of four lanes, and of one whose every name is hostile.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let now_unix_ms = Clock::monotonic().wall_nanos() / 1_000_000;
    let mut rows = SampleGateway::hour(now_unix_ms - 60_000);
    for number in 0..8 {
        let failed = failed(7_000_000 + number, HOSTILE, FailureKind::Stalled);
        rows.push(Row {
            call: format!("{HOSTILE}{number}"),
            key: Some(HOSTILE.to_owned()),
            alias: HOSTILE.to_owned(),
            session: Some(HOSTILE.to_owned()),
            sample: Sample {
                started_unix_ms: now_unix_ms - 100_000,
                model_answered: Some(HOSTILE.to_owned()),
                ..failed.sample
            },
            ..failed
        });
    }
    let path = folder("world").join("log.db");
    let lanes = [("openai", Some(4)), (HOSTILE, None)].map(|(name, cap)| lane_config(name, "example", "model-1", cap));
    let sample = SampleGateway::new(lanes.into()).with_log(&path, &rows);
    let setting = |key: &str| Setting { key: key.to_owned(), value: HOSTILE.to_owned(), origin: HOSTILE.to_owned() };
    sample.observer().report_settings(vec![setting("gateway.listen"), setting("gateway.limits.total")]);
    World { sample, rows, reports: Reports::default() }
});

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("tokrate-admin-pages-{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

fn ask(endpoint: Endpoint, query: &str) -> (StatusCode, String) {
    let AdminResponse { status, body, .. } =
        endpoint.respond(&WORLD.sample.observer(), &WORLD.reports, Some(query).filter(|query| !query.is_empty()));
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

fn page(endpoint: Endpoint, query: &str) -> String {
    let (status, body) = ask(endpoint, query);
    assert_eq!(status, StatusCode::OK, "{endpoint:?} {query}: {body}");
    body
}

fn json(endpoint: Endpoint, query: &str) -> serde_json::Value {
    serde_json::from_str(&page(endpoint, query)).expect("JSON")
}

/// The cells of the row that begins with a name, without markup.
fn cells(html: &str, section: &str, name: &str) -> Vec<String> {
    let section = html.split(&format!("<section id=\"{section}\"")).nth(1).expect("the section");
    let section = section.split("</section>").next().expect("its end");
    let row = section.split("<tr>").find(|row| plain(row.split("</th>").next().unwrap_or_default()) == name);
    let row = row.unwrap_or_else(|| panic!("no row of {name}: {section}"));
    row.split("</th>").nth(1).expect("cells").split("</td>").map(plain).collect()
}

fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for character in html.chars() {
        match character {
            '<' => is_tag = true,
            '>' => is_tag = false,
            _ if !is_tag => text.push(if character == '\u{a0}' { ' ' } else { character }),
            _ => {}
        }
    }
    text.trim().to_owned()
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(HOSTILE.to_owned()),
        Just("' OR 1=1 --".to_owned()),
        Just("openai".to_owned()),
        Just("all".to_owned()),
        "[0-9]{0,24}[smhd]?",
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]",
        "\\PC{0,12}",
        Just("18a3f0c2d4e5f607-1".to_owned()),
        prop_oneof![Just("failed"), Just("rate_limited"), Just("longest"), Just("newest"), Just("lane"), Just("ttft")]
            .prop_map(str::to_owned),
    ]
}

fn query_string() -> impl Strategy<Value = String> {
    let names = [
        "since", "until", "key", "alias", "lane", "end", "failure", "sort", "after", "call", "limit", "by", "provider",
    ];
    let encoded = |text: &String| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pair =
        (proptest::sample::select(names.to_vec()), value(), any::<bool>()).prop_map(move |(name, value, encode)| {
            format!("{name}={}", if encode { encoded(&value) } else { value.replace(['&', '%', '+'], "") })
        });
    prop_oneof![
        9 => proptest::collection::vec(pair, 0..4).prop_map(|pairs| pairs.join("&")),
        1 => "[a-z=&%+0-9é<>\"']{0,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_an_address_says_is_answered_and_nothing_in_it_is_markup(query in query_string()) {
        for endpoint in ENDPOINTS {
            let (status, body) = ask(endpoint, &query);
            let expected = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND];
            prop_assert!(expected.contains(&status), "{:?} {}: {} {}", endpoint, query, status, body);
            if body.starts_with("<!doctype") {
                prop_assert!(!body.contains("<x7"), "{:?} {}", endpoint, query);
                prop_assert!(body.ends_with("</html>\n"));
            }
        }
    }
}

#[test]
fn numbers_of_the_pages_are_those_of_the_rows_and_of_the_json() {
    let by_lane = json(Endpoint::Report, "since=2h");
    let overview = page(Endpoint::Overview, "since=2h");
    for lane in ["openai", "anthropic-eu", "groq", "local"] {
        let rows: Vec<&Row> = WORLD.rows.iter().filter(|row| row.lane == lane).collect();
        let failed = rows.iter().filter(|row| row.end == AttemptEnd::Failed).count();
        let of_json = by_lane["lanes"].as_array().and_then(|lanes| lanes.iter().find(|found| found["lane"] == lane));
        let of_json = of_json.expect("in the report");
        assert_eq!(
            (of_json["attempts"].as_u64(), of_json["failed"].as_u64()),
            (Some(rows.len() as u64), Some(failed as u64))
        );
        let cells = cells(&overview, "range-lanes", lane);
        assert_eq!(cells[1], tokrate_charts::format::count(rows.len() as u64), "{lane}");
        assert!(cells[2].starts_with(&tokrate_charts::format::count(failed as u64)), "{lane}: {}", cells[2]);
        let mut ttft: Vec<u64> = rows.iter().filter_map(|row| row.sample.ttft_ns).collect();
        ttft.sort_unstable();
        let median = ttft[ttft.len().div_ceil(2) - 1];
        assert_eq!(cells[3], tokrate_charts::format::seconds(median as f64 / 1e9).replace('\u{a0}', " "), "{lane}");
        assert_eq!(of_json["ttft_ms"]["p50"]["value"].as_f64(), Some(median as f64 / 1e6));
    }
    let keys = page(Endpoint::Keys, "since=2h");
    for key in ["ada", "bob"] {
        let rows: Vec<&Row> = WORLD.rows.iter().filter(|row| row.key.as_deref() == Some(key)).collect();
        let cost: f64 = rows.iter().filter_map(|row| row.sample.cost_usd).sum();
        let cells = cells(&keys, "spent", key);
        assert_eq!(cells[0], tokrate_charts::format::count(rows.len() as u64));
        assert_eq!(cells[2], crate::page::usd(cost).replace('\u{a0}', " "));
    }
}

#[test]
fn a_range_without_end_is_shown_like_any_other() {
    for query in
        ["since=all&until=18446744073709551615", "since=0&until=99999999999999999", "since=18446744073709551614"]
    {
        for endpoint in ENDPOINTS {
            let (status, _) = ask(endpoint, query);
            assert!(!status.is_server_error(), "{endpoint:?} {query}: {status}");
        }
    }
}

#[test]
fn a_filter_of_the_page_is_that_of_the_json() {
    let query = "since=2h&key=ada&alias=fast";
    let fits = |row: &&Row| row.key.as_deref() == Some("ada") && row.alias == "fast";
    let rows = WORLD.rows.iter().filter(fits).count() as u64;
    assert_eq!(json(Endpoint::Report, query)["total"]["attempts"].as_u64(), Some(rows));
    let overview = page(Endpoint::Overview, query);
    assert!(overview.contains(&format!("of {}", tokrate_charts::format::count(rows))), "{rows}");
    assert!(overview.contains("<option value=\"ada\" selected>") && overview.contains("key ada"));
    // Links keep what was chosen.
    assert!(overview.contains("/calls?since=2h&amp;key=ada&amp;alias=fast"));
}

#[test]
fn pages_of_the_list_are_linked_and_hold_what_fits() {
    let first = page(Endpoint::CallList, "since=2h&lane=groq&end=failed");
    let failed = WORLD.rows.iter().filter(|row| row.lane == "groq" && row.end == AttemptEnd::Failed).count();
    assert!(first.contains(&format!("{failed} (since 2h)")), "{failed}");
    let json = json(Endpoint::LoggedCalls, "since=2h&lane=groq&end=failed&limit=3");
    assert_eq!((json["found"].as_u64(), json["calls"].as_array().map(Vec::len)), (Some(failed as u64), Some(3)));
    let all = page(Endpoint::CallList, "since=2h&sort=longest");
    let next =
        all.split("<a href=\"").find_map(|rest| rest.strip_prefix("/calls?")?.split_once("\">Next 50")).expect("more");
    let second = page(Endpoint::CallList, &next.0.replace("&amp;", "&"));
    assert!(second.contains("First page") && second.contains("Next 50"));
}

#[test]
fn a_call_is_found_by_its_name_its_beginning_and_what_lanes_were_sent() {
    let call = &WORLD.rows[5].call;
    for text in [call.clone(), format!("{call}-0"), format!(" {call} ")] {
        let encoded = text.replace(' ', "%20");
        assert!(page(Endpoint::Call, &format!("call={encoded}")).contains(&format!("<code>{call}</code>")), "{text}");
    }
    let several = page(Endpoint::Call, "call=18a3f0c2");
    assert!(several.contains("Calls whose names begin with") && several.contains("write more of the name"));
    let (status, body) = ask(Endpoint::Call, "call=zzz");
    assert!(status == StatusCode::NOT_FOUND && body.contains("no call is called `zzz`"), "{body}");
    assert_eq!(ask(Endpoint::Call, "").0, StatusCode::BAD_REQUEST);
    assert_eq!(ask(Endpoint::Lane, "lane=nobody").0, StatusCode::NOT_FOUND);
}

/// A race with a hedge that failed over, as the log has it.
fn a_race() -> Vec<Row> {
    let at = |after_ms: u64, attempt: u32, role, row: Row| Row {
        attempt,
        role,
        sample: Sample { started_unix_ms: 1_795_262_400_000 + after_ms, ..row.sample },
        ..row
    };
    let mut first = failed(77, "a", FailureKind::ServerError);
    first.sample.status = Some(503);
    first.sample.total_ns = 300_000_000;
    first.sample.dns_ns = Some(2_000_000);
    first.sample.connect_ns = Some(12_000_000);
    first.sample.tls_ns = Some(20_000_000);
    first.sample.wait_ns = Some(40_000_000);
    let mut won = row(77, "b");
    won.sample.ttfb_ns = Some(120_000_000);
    vec![
        at(0, 0, AttemptRole::First, first),
        at(300, 1, AttemptRole::Failover, won),
        at(700, 2, AttemptRole::Hedge, tokrate_gateway::sample::lost(77, "c", 2)),
    ]
}

#[test]
fn the_page_of_a_call_is_unchanged() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let snapshot = sample.snapshot(1_795_262_500_000);
    let view = crate::page::View::of(None, 1_795_262_500_000, &[]).expect("defaults");
    let rows = a_race();
    let trace = tokrate_gateway::telemetry::CallTrace::of_rows(&rows).expect("rows");
    let html = crate::page::trail(&snapshot, &view, &trace, &rows);
    let main = html.split("<main").nth(1).and_then(|rest| rest.split("</main>").next()).expect("content");
    insta::assert_snapshot!(main.replace("><", ">\n<"));
}

#[test]
fn a_first_token_that_was_held_back_is_drawn_on_its_attempt_and_said_in_words() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let snapshot = sample.snapshot(1_795_262_500_000);
    let view = crate::page::View::of(None, 1_795_262_500_000, &[]).expect("defaults");
    let shown = |hold_ns: Option<u64>| {
        let mut early = tokrate_gateway::sample::lost(77, "early", 0);
        (early.sample.wait_ns, early.sample.ttft_ns) = (Some(1_000_000), Some(50_000_000));
        early.sample.total_ns = 400_000_000;
        let mut better = row(77, "better");
        (better.attempt, better.hold_ns) = (1, hold_ns);
        (better.sample.wait_ns, better.sample.ttft_ns) = (Some(1_000_000), Some(250_000_000));
        better.sample.started_unix_ms = early.sample.started_unix_ms;
        let rows = vec![early, better];
        let trace = tokrate_gateway::telemetry::CallTrace::of_rows(&rows).expect("rows");
        crate::page::trail(&snapshot, &view, &trace, &rows)
    };
    let held = shown(Some(200_000_000));
    assert_eq!(held.matches("<rect class=\"held\" x").count(), 2, "on one bar, wide and narrow: {held}");
    assert!(held.contains("200 ms of early, for a lane that was expected to complete earlier"), "{held}");
    assert!(held.contains("held back") && held.contains("with what a first token was held back"), "{held}");
    let none = shown(None);
    assert!(!none.contains("<rect class=\"held\" x") && !none.contains("with what a first token"), "{none}");
    // One that says more than there was does not leave the picture.
    assert!(!shown(Some(u64::MAX)).contains("NaN"));
}

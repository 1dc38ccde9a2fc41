//! `tokrate log` on logs made for it: tables, trails, regressions, and what is said when there is nothing.
//!
//! Invariant: the log is read, never changed.

use crate::folder::Folder;
use crate::tool::{Finished, run};
use serde_json::Value;
use tokrate_core::FailureKind;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Refusal, RefusalReason, Sample, SampleConditions};
use tokrate_store::Sqlite;

/// 2026-01-10 00:00 UTC.
const DAY: u64 = 1_768_003_200_000;
const WHOLE_DAY: [&str; 4] = ["--since", "2026-01-10", "--until", "2026-01-11"];

fn row(n: u64, lane: &str) -> Attempt {
    Attempt {
        call: format!("call-{n}"),
        won: true,
        alias: "chat".to_owned(),
        lane: lane.to_owned(),
        dialect_in: "openai-chat".into(),
        sample: Sample {
            started_unix_ms: DAY + n * 60_000,
            provider: lane.to_owned(),
            model: "large".to_owned(),
            dialect: "openai-chat".into(),
            stream: true,
            in_flight: 1,
            request_bytes: Some(700),
            status: Some(200),
            ttft_ns: Some(200_000_000 + n % 100 * 1_000_000),
            total_ns: 2_300_000_000,
            output_speed: Some(40.0 + (n % 100) as f64 / 10.0),
            input_tokens: Some(150),
            output_tokens_std: 100,
            output_tokens: Some(101),
            cost_usd: Some(0.0012),
            cost_basis: CostBasis::Reported,
            conditions: SampleConditions { version: "0.1.0".to_owned(), ..SampleConditions::default() }.into(),
            ..Sample::default()
        },
        ..Attempt::default()
    }
}

fn failed(row: Attempt, kind: FailureKind, status: Option<u16>) -> Attempt {
    Attempt {
        end: AttemptEnd::Failed,
        won: false,
        sample: Sample {
            failure: Some(kind),
            status,
            ttft_ns: None,
            output_speed: None,
            output_tokens_std: 0,
            output_tokens: None,
            total_ns: 12_000_000,
            cost_usd: None,
            cost_basis: CostBasis::Free,
            ..row.sample
        },
        ..row
    }
}

/// A race of two, a failover, a client that left.
fn trails() -> Vec<Attempt> {
    let lost = Attempt {
        attempt: 1,
        role: AttemptRole::Hedge,
        end: AttemptEnd::Lost,
        won: false,
        key: Some("ada".to_owned()),
        sample: Sample {
            started_unix_ms: DAY + 300 * 60_000 + 400,
            ttft_ns: None,
            output_speed: None,
            output_tokens_std: 0,
            cost_usd: Some(0.0003),
            cost_basis: CostBasis::Estimated,
            ..row(300, "south").sample
        },
        ..row(300, "south")
    };
    let second = Attempt {
        attempt: 1,
        role: AttemptRole::Failover,
        sample: Sample {
            started_unix_ms: DAY + 301 * 60_000 + 12,
            in_flight: 9,
            model_answered: Some("large-2026".to_owned()),
            ..row(301, "south").sample
        },
        ..row(301, "south")
    };
    let left = Attempt {
        end: AttemptEnd::Abandoned,
        sample: Sample {
            stream: false,
            ttft_ns: None,
            output_speed: None,
            cost_usd: None,
            cost_basis: CostBasis::Unknown,
            model: "small".to_owned(),
            ..row(302, "north").sample
        },
        ..row(302, "north")
    };
    let first = Attempt { key: Some("ada".to_owned()), ..row(300, "north") };
    vec![first, lost, failed(row(301, "north"), FailureKind::RateLimited, Some(429)), second, left]
}

fn log(name: &str, rows: &[Attempt]) -> Folder {
    let folder = Folder::new(name);
    let mut store = Sqlite::open(&folder.join("tokrate-log.db")).expect("a new log");
    store.append(rows).expect("room");
    folder
}

fn read(folder: &Folder, arguments: &[&str]) -> Finished {
    run(folder, &[&["log"], arguments].concat())
}

fn shown(folder: &Folder, arguments: &[&str]) -> String {
    let finished = read(folder, arguments);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{}", finished.stdout);
    finished.stdout
}

fn a_day() -> Folder {
    let rows = (0..200).map(|n| row(n, if n % 10 == 0 { "south" } else { "north" })).chain(trails());
    log("log-day", &rows.collect::<Vec<_>>())
}

#[test]
fn help_says_what_can_be_asked() {
    let finished = run(&Folder::new("log-help"), &["log", "--help"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    assert!(finished.stdout.lines().all(|line| line.chars().count() <= 120), "{}", finished.stdout);
    insta::assert_snapshot!("help", finished.stdout);
}

#[test]
fn groups_are_shown_with_what_was_mixed_and_left_out() {
    let folder = a_day();
    let by_lane = shown(&folder, &WHOLE_DAY);
    assert!(by_lane.lines().all(|line| line.chars().count() <= 120), "{by_lane}");
    insta::assert_snapshot!("by_lane", by_lane);
    insta::assert_snapshot!("by_hour", shown(&folder, &[&WHOLE_DAY[..], &["--by", "hour"]].concat()));
    let one = [&WHOLE_DAY[..], &["--by", "lane,hour", "--lane", "south"]].concat();
    insta::assert_snapshot!("by_lane_and_hour", shown(&folder, &one));
}

#[test]
fn calls_are_shown_with_the_trail_of_their_attempts() {
    let folder = a_day();
    insta::assert_snapshot!("calls", shown(&folder, &[&WHOLE_DAY[..], &["--calls", "4"]].concat()));
    let hers = shown(&folder, &["--since", "all", "--calls", "9", "--key", "ada"]);
    assert!(hers.contains("call-300") && !hers.contains("call-301"), "{hers}");
}

/// A day on which a key was at its limits twice, and somebody tried keys.
fn a_day_with_refusals(name: &str) -> Folder {
    let refusal = |minute: u64, key: Option<&str>, reason, status, count| Refusal {
        key: key.map(str::to_owned),
        alias: key.map(|_| "chat".to_owned()),
        last_unix_ms: DAY + minute * 60_000 + 41_000,
        count,
        ..Refusal::new(DAY + minute * 60_000 + 2_000, reason, status)
    };
    let folder = log(name, &[row(0, "north")]);
    let mut store = Sqlite::open(&folder.join("tokrate-log.db")).expect("a log");
    let rows = [
        refusal(5, Some("ada"), RefusalReason::TooManyRequests, 429, 12),
        refusal(700, Some("ada"), RefusalReason::TooManyRequests, 429, 3),
        refusal(701, Some("ada"), RefusalReason::BudgetSpent, 429, 1),
        refusal(702, Some("ada"), RefusalReason::Forbidden, 403, 1),
        refusal(800, None, RefusalReason::Unauthorized, 401, 20_000),
    ];
    store.append_refusals(&rows).expect("room");
    folder
}

#[test]
fn refusals_are_a_line_below_the_attempts_and_a_table_of_their_own() {
    let folder = a_day_with_refusals("log-refused");
    let summary = shown(&folder, &WHOLE_DAY);
    insta::assert_snapshot!(summary.lines().last().expect("a line"), @"refused: 20017 requests (unauthorized 20000, too_many_requests 15, budget_spent 1, others 1); --refused shows whose");
    let table = shown(&folder, &[&WHOLE_DAY[..], &["--refused"]].concat());
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    insta::assert_snapshot!("refused", table);
    let hers = shown(&folder, &["--since", "all", "--refused", "--key", "ada"]);
    assert!(hers.contains("budget_spent") && !hers.contains("unauthorized"), "{hers}");
    let of_a_lane = shown(&folder, &["--since", "all", "--lane", "north"]);
    assert!(!of_a_lane.contains("refused"), "{of_a_lane}");
    let none = shown(&folder, &["--since", "2026-02-01", "--refused"]);
    insta::assert_snapshot!(none, @"no refused requests in tokrate-log.db (since 2026-02-01 00:00:00 UTC); --since all looks at everything");
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&shown(&folder, arguments)).expect("JSON") };
    let summary = json(&["--since", "all", "--json"]);
    assert_eq!(
        (&summary["refused"]["unauthorized"], &summary["refused"]["too_many_requests"]),
        (&20_000.into(), &15.into())
    );
    let rows = json(&["--since", "all", "--refused", "--key", "ada", "--json"]);
    let rows: Vec<Refusal> = serde_json::from_value(rows["refusals"].clone()).expect("refusals as they are written");
    assert_eq!(
        rows.iter().map(|row| (row.reason, row.count)).collect::<Vec<_>>(),
        [
            (RefusalReason::TooManyRequests, 12),
            (RefusalReason::TooManyRequests, 3),
            (RefusalReason::BudgetSpent, 1),
            (RefusalReason::Forbidden, 1)
        ]
    );
}

#[test]
fn json_holds_what_the_tables_show() {
    let folder = a_day();
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&shown(&folder, arguments)).expect("JSON") };
    let all = json(&["--since", "all", "--by", "all", "--json"]);
    assert_eq!(all["schema"], "tokrate.log.v1");
    let group = &all["groups"][0];
    assert_eq!(
        (&group["attempts"], &group["lost"], &group["failed"]["rate_limited"]),
        (&205.into(), &1.into(), &1.into())
    );
    assert_eq!(group["lost_cost_usd"], 0.0003);
    assert_eq!(group["mixture"]["models"].as_array().map(Vec::len), Some(2));
    let calls = json(&["--since", "all", "--calls", "3", "--json"]);
    let call: Vec<Attempt> = serde_json::from_value(calls["calls"][2].clone()).expect("attempts as they are written");
    assert_eq!(call, trails()[..2]);
}

#[test]
fn what_was_expected_of_caches_stands_beside_what_was_read_from_them() {
    let with_caches = |n: u64| {
        let mut row = row(n, "north");
        (row.expected_cached_tokens, row.sample.cached_tokens) = (Some(120), Some(90));
        row
    };
    let folder = log("log-caches", &[with_caches(0), with_caches(1), row(2, "south")]);
    let text = shown(&folder, &["--since", "all", "--by", "lane"]);
    let line = |lane: &str| text.lines().find(|line| line.starts_with(lane)).unwrap_or_else(|| panic!("{text}"));
    assert!(text.contains("cached %") && text.contains("expected %"), "{text}");
    let of_north: Vec<&str> = line("north").split_whitespace().rev().take(2).collect();
    assert_eq!(of_north, ["80.0", "60.0"], "{text}");
    assert!(line("south").trim_end().ends_with('-'), "{text}");
    let all: Value = serde_json::from_str(&shown(&folder, &["--since", "all", "--by", "all", "--json"])).expect("JSON");
    let cache = &all["groups"][0]["cache"];
    assert_eq!(
        (&cache["attempts"], &cache["expected_tokens"], &cache["cached_tokens"]),
        (&2.into(), &240.into(), &180.into())
    );
}

/// Twelve hours of a lane, and twelve more in which its first token takes so many times as long.
fn two_halves(name: &str, slower: f64) -> Folder {
    let rows = (0..400_u64).map(|n| {
        let plain = row(n * 3 + n / 200 * 120, "north");
        let times = if n < 200 { 1.0 } else { slower };
        Attempt {
            sample: Sample { ttft_ns: plain.sample.ttft_ns.map(|ns| (ns as f64 * times) as u64), ..plain.sample },
            ..plain
        }
    });
    log(name, &rows.collect::<Vec<_>>())
}

#[test]
fn a_lane_that_became_slower_is_a_regression() {
    let halves = ["--since", "2026-01-10T12:00", "--until", "2026-01-11", "--regressions"];
    let finished = read(&two_halves("log-slower", 1.3), &halves);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), ""));
    insta::assert_snapshot!("regression", finished.stdout);
    let finished = read(&two_halves("log-same", 1.0), &halves);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("No regression beyond 5.0 %"), "{}", finished.stdout);
    let json = [&halves[..], &["--json", "--threshold", "50%"]].concat();
    let finished = read(&two_halves("log-threshold", 1.3), &json);
    let json: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!((finished.code, &json["comparison"]["outcome"]), (Some(0), &"no_regression".into()));
}

#[test]
fn attempts_under_other_conditions_are_not_compared() {
    let rows = (0..400)
        .map(|n| Attempt { sample: Sample { stream: n < 200, ..row(n * 3, "north").sample }, ..row(n * 3, "north") });
    let folder = log("log-unlike", &rows.collect::<Vec<_>>());
    let halves = ["--since", "2026-01-10T10:00", "--until", "2026-01-10T20:00", "--regressions"];
    let finished = read(&folder, &halves);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!("nothing_alike", finished.stderr);
}

#[test]
fn what_cannot_be_read_is_said_with_what_to_do() {
    let folder = Folder::new("log-none");
    folder.write("letter.db", "a letter");
    let lines: [&[&str]; 9] = [
        &[],
        &["--db", "other.db"],
        &["--db", "letter.db"],
        &["--since", "yesterday"],
        &["--since", "2026-02-30"],
        &["--until", "all"],
        &["--since", "2026-01-10", "--until", "2026-01-09"],
        &["--by", "day"],
        &["--regressions", "--since", "all"],
    ];
    let mut message = String::new();
    for line in lines {
        let finished = read(&folder, line);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{line:?}");
        message += &format!("$ tokrate log {}\n{}\n", line.join(" "), finished.stderr);
    }
    insta::assert_snapshot!("refusals", message);
    assert_eq!(folder.names(), ["letter.db"], "nothing was made");
}

#[test]
fn a_window_without_attempts_is_said_to_have_none() {
    let folder = a_day();
    let found = shown(&folder, &["--since", "2026-02-01", "--until", "2026-02-02", "--lane", "west"]);
    insta::assert_snapshot!(found, @"
    no attempts in tokrate-log.db (lane west, since 2026-02-01 00:00:00 UTC, before 2026-02-02 00:00:00 UTC); --since all looks at everything
    ");
    assert!(shown(&folder, &[]).contains("no attempts in tokrate-log.db (since "), "a day back from now");
}

#[test]
fn the_settings_file_says_where_the_log_is() {
    let folder = log("log-settings", &[row(0, "north")]);
    std::fs::rename(folder.join("tokrate-log.db"), folder.join("elsewhere.db")).expect("movable");
    let trusted = |text: &str| {
        folder.write("tokrate.toml", text);
        assert_eq!(run(&folder, &["trust"]).code, Some(0));
    };
    trusted("[gateway]\nlog = \"elsewhere.db\"\n");
    assert!(shown(&folder, &["--since", "all"]).contains("north"));
    trusted("[gateway]\nlog = \"off\"\n");
    let finished = read(&folder, &[]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("gateway.log in tokrate.toml is `off`"), "{}", finished.stderr);
}

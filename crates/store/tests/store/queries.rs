//! Which rows a query finds, and what they come to.
//!
//! Invariant: expectations are computed here from the rows, not by the store.

use crate::folder::Folder;
use crate::rows::{filled, row};
use rusqlite::Connection;
use tokrate_core::FailureKind;
use tokrate_record::RunSamples;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample, SampleConditions};
use tokrate_store::{Grouping, Order, Query, Store};

const HOUR: u64 = 3_600_000;

fn sample() -> Vec<Attempt> {
    let mut rows: Vec<Attempt> = (0..40).map(row).collect();
    for (n, row) in rows.iter_mut().enumerate() {
        row.sample.started_unix_ms = 500_000 * HOUR + n as u64 * HOUR / 10;
        row.lane = if n % 4 == 0 { "south" } else { "north" }.to_owned();
        row.key = (n % 5 == 0).then(|| "ada".to_owned());
        row.alias = if n % 2 == 0 { "chat" } else { "code" }.to_owned();
        row.sample.in_flight = n as u32 % 7 + 1;
    }
    rows[3] = Attempt {
        end: AttemptEnd::Failed,
        sample: Sample {
            failure: Some(FailureKind::RateLimited),
            ttft_ns: None,
            output_speed: None,
            cost_usd: None,
            cost_basis: CostBasis::Unknown,
            ..rows[3].sample.clone()
        },
        ..rows[3].clone()
    };
    rows[4] = Attempt {
        end: AttemptEnd::Lost,
        role: AttemptRole::Race,
        call: rows[3].call.clone(),
        attempt: 1,
        sample: Sample {
            ttft_ns: None,
            cost_usd: Some(0.5),
            cost_basis: CostBasis::Estimated,
            ..rows[4].sample.clone()
        },
        ..rows[4].clone()
    };
    rows
}

#[test]
fn a_query_finds_what_it_says_and_nothing_else() {
    let folder = Folder::new("queries");
    let rows = sample();
    let store = filled(&folder, &rows);
    let text = |text: &str| Some(text.to_owned());
    let check = |query: Query, flush_requested: &dyn Fn(&Attempt) -> bool| {
        let expected: Vec<&Attempt> = rows.iter().filter(|row| flush_requested(row)).collect();
        assert!(!expected.is_empty() && expected.len() < rows.len(), "{query:?} tells rows apart");
        let found = store.attempts(&query).expect("readable");
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query:?}");
    };
    let time = rows[7].sample.started_unix_ms;
    check(Query { lane: text("south"), ..Query::default() }, &|row| row.lane == "south");
    check(Query { alias: text("code"), ..Query::default() }, &|row| row.alias == "code");
    check(Query { key: text("ada"), ..Query::default() }, &|row| row.key.is_some());
    check(Query { call: text("call-3"), ..Query::default() }, &|row| row.call == "call-3");
    check(Query { from_unix_ms: Some(time), ..Query::default() }, &|row| row.sample.started_unix_ms >= time);
    check(Query { until_unix_ms: Some(time), ..Query::default() }, &|row| row.sample.started_unix_ms < time);
    check(Query { end: Some(AttemptEnd::Lost), ..Query::default() }, &|row| row.end == AttemptEnd::Lost);
    let limited = Query { failure: Some(FailureKind::RateLimited), ..Query::default() };
    check(limited, &|row| row.sample.failure.is_some());
    let both = Query { lane: text("south"), from_unix_ms: Some(time), key: text("ada"), ..Query::default() };
    check(both, &|row| row.lane == "south" && row.sample.started_unix_ms >= time && row.key.is_some());
    let nobody = Query { provider: text("' OR 1=1 --"), ..Query::default() };
    assert_eq!(store.attempts(&nobody).expect("readable"), []);
    let newest = Query { order: Order::Newest, limit: Some(2), ..Query::default() };
    let found = store.attempts(&newest).expect("readable");
    assert_eq!(found, [rows[39].clone(), rows[38].clone()]);
}

#[test]
fn a_summary_counts_every_row_once_and_takes_exact_percentiles() {
    let folder = Folder::new("summaries");
    let rows = sample();
    let store = filled(&folder, &rows);
    let groupings = [(false, false), (true, false), (false, true), (true, true)];
    for (lane, hour) in groupings {
        let groups =
            store.summarise(&Query::default(), Grouping { lane, hour, ..Grouping::default() }).expect("readable");
        assert_eq!(groups.iter().map(|group| group.attempts).sum::<u64>(), 40);
        for group in &groups {
            let mine = |row: &&Attempt| {
                group.lane.as_ref().is_none_or(|lane| *lane == row.lane)
                    && group.hour_unix_ms.is_none_or(|hour| (hour..hour + HOUR).contains(&row.sample.started_unix_ms))
            };
            let mine: Vec<&Attempt> = rows.iter().filter(mine).collect();
            assert_eq!(group.attempts, mine.len() as u64);
            let mut times: Vec<u64> = mine.iter().filter_map(|row| row.sample.ttft_ns).collect();
            times.sort_unstable();
            let nearest =
                |share: f64| times.get((share * times.len() as f64).ceil() as usize - 1).map(|ns| *ns as f64 / 1e6);
            assert_eq!(group.ttft.p50.nearest_rank(), nearest(0.5));
            assert_eq!(group.ttft.p90.nearest_rank(), nearest(0.9));
            assert_eq!(group.ttft.p99.nearest_rank(), nearest(0.99));
            assert_eq!(group.answered + group.failures() + group.lost + group.abandoned, group.attempts);
        }
        assert_eq!(groups.len(), if lane { 2 } else { 1 } * if hour { 4 } else { 1 });
        let order: Vec<_> = groups.iter().map(|group| (group.lane.clone(), group.hour_unix_ms)).collect();
        assert!(order.is_sorted());
    }
}

#[test]
fn a_summary_says_what_was_lost_paid_and_mixed() {
    let folder = Folder::new("mixed");
    let store = filled(&folder, &sample());
    let all = store.summarise(&Query::default(), Grouping::default()).expect("readable").remove(0);
    assert_eq!((all.answered, all.failures(), all.lost, all.given_up_early), (38, 1, 1, 1));
    assert_eq!(all.failed.get(&Some(FailureKind::RateLimited)), Some(&1));
    assert_eq!((all.cost_unknown, all.cost_estimated, all.lost_cost_usd), (1, 1, 0.5));
    assert!((all.cost_usd - 0.538).abs() < 1e-12);
    assert_eq!(all.mixture.lanes.iter().collect::<Vec<_>>(), ["north", "south"]);
    assert_eq!((all.mixture.in_flight, all.mixture.models.len()), (Some((1, 7)), 1));
    assert_eq!(
        store.summarise(&Query { limit: Some(0), ..Query::default() }, Grouping::default()).expect("readable"),
        []
    );
}

#[test]
fn a_summary_adds_up_tokens_as_reported_else_as_counted() {
    let folder = Folder::new("tokens");
    let counted = |n: u64, reported: Option<u64>, counted: Option<u64>, output: Option<u64>| Attempt {
        sample: Sample {
            input_tokens: reported,
            input_tokens_std: counted,
            output_tokens: output,
            output_tokens_std: 10 + n,
            ..row(n).sample
        },
        ..row(n)
    };
    let rows = [
        counted(0, Some(7), Some(1_000), Some(3)),
        counted(1, None, Some(30), None),
        counted(2, Some(5), None, Some(4)),
        counted(3, None, None, None),
    ];
    let all = filled(&folder, &rows).summarise(&Query::default(), Grouping::default()).expect("readable").remove(0);
    assert_eq!((all.input_tokens, all.output_tokens, all.output_tokens_std), (42, 7, 46));
    let json = all.json();
    assert_eq!((&json["input_tokens"], &json["attempts"], &json["cost_unknown"]), (&42.into(), &4.into(), &0.into()));
}

#[test]
fn a_summary_tells_what_cost_nothing_from_what_is_not_known_and_a_speed_of_zero_from_a_time() {
    let folder = Folder::new("zeros");
    let free = |n: u64, cost_usd: Option<f64>, speed: f64| Attempt {
        end: AttemptEnd::Lost,
        sample: Sample { cost_usd, cost_basis: CostBasis::Free, output_speed: Some(speed), ..row(n).sample },
        ..row(n)
    };
    let rows = [
        free(0, None, 0.0),
        free(1, Some(0.25), 20.0),
        Attempt { sample: Sample { cost_usd: Some(0.5), ..row(2).sample }, ..row(2) },
    ];
    let all = filled(&folder, &rows).summarise(&Query::default(), Grouping::default()).expect("readable").remove(0);
    assert_eq!((all.cost_unknown, all.cost_estimated, all.given_up_early), (0, 0, 0), "both had begun to answer");
    assert_eq!((all.lost_cost_usd, all.cost_usd), (0.25, 0.75));
    assert_eq!((all.tpot.n, all.tpot.p99.nearest_rank()), (2, Some(50.0)), "50 ms a token at 20 a second");
}

#[test]
fn a_mixture_names_models_that_answered_under_another_name_and_every_pair_of_dialects() {
    let folder = Folder::new("mixture");
    let pair = |n: u64, answered: &str, client: &'static str, lane: &'static str| Attempt {
        dialect_in: client.into(),
        sample: Sample { model_answered: Some(answered.to_owned()), dialect: lane.into(), ..row(n).sample },
        ..row(n)
    };
    let rows = [
        pair(0, "large", "openai-chat", "openai-chat"),
        pair(1, "large-2026", "openai-chat", "anthropic"),
        pair(2, "large", "anthropic", "openai-chat"),
        pair(3, "large", "anthropic", "anthropic"),
    ];
    let all = filled(&folder, &rows).summarise(&Query::default(), Grouping::default()).expect("readable").remove(0);
    assert_eq!(all.mixture.models_answered.iter().collect::<Vec<_>>(), ["large-2026"]);
    assert_eq!(all.mixture.dialects.len(), 4, "{:?}", all.mixture.dialects);
    assert_eq!(all.mixture.versions.len(), 1);
}

#[test]
fn calls_come_newest_first_with_all_their_attempts() {
    let folder = Folder::new("calls");
    let rows = sample();
    let store = filled(&folder, &rows);
    let calls = store.calls(&Query::default(), 39).expect("readable");
    assert_eq!(calls.len(), 39, "two of the forty attempts are one call");
    assert_eq!(calls[0], [rows[39].clone()]);
    assert_eq!(calls[35], [rows[3].clone(), rows[4].clone()]);
    let lost = Query { end: Some(AttemptEnd::Lost), ..Query::default() };
    assert_eq!(store.calls(&lost, 5).expect("readable"), [vec![rows[3].clone(), rows[4].clone()]]);
    assert_eq!(store.calls(&Query::default(), 2).expect("readable").len(), 2);
}

#[test]
fn calls_are_found_behind_one_with_many_attempts() {
    let folder = Folder::new("many-attempts");
    let many = (0..100).map(|n| Attempt { call: "many".to_owned(), attempt: n as u32, ..row(10 + n) });
    let store = filled(&folder, &(0..3).map(row).chain(many).collect::<Vec<_>>());
    let calls = store.calls(&Query::default(), 3).expect("readable");
    assert_eq!(calls.iter().map(Vec::len).collect::<Vec<_>>(), [100, 1, 1]);
    assert_eq!((&calls[1][0], &calls[2][0]), (&row(2), &row(1)));
}

#[test]
fn windows_are_compared_like_with_like() {
    let folder = Folder::new("sides");
    let rows = sample();
    let store = filled(&folder, &rows);
    let split = rows[20].sample.started_unix_ms;
    let (before, after) = store.sides(&Query::default(), split).expect("readable");
    let ended = |side: &RunSamples| side.levels.iter().map(|level| level.ended).sum::<u64>();
    assert_eq!((ended(&before), ended(&after)), (19, 20), "the attempt that lost neither answered nor failed");
    assert_eq!(before.levels.iter().map(|level| level.failed).sum::<u64>(), 1);
    let names: Vec<&str> = before.levels.iter().map(|level| level.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "north, large, openai-chat, stream, 1 open, < 1 KiB",
            "north, large, openai-chat, stream, 2-3 open, < 1 KiB",
            "north, large, openai-chat, stream, 4-7 open, < 1 KiB",
            "south, large, openai-chat, stream, 1 open, < 1 KiB",
            "south, large, openai-chat, stream, 2-3 open, < 1 KiB",
            "south, large, openai-chat, stream, 4-7 open, < 1 KiB",
        ]
    );
    for (earlier, later) in before.levels.iter().zip(&after.levels) {
        assert_eq!((&earlier.name, earlier.load), (&later.name, later.load));
    }
}

#[test]
fn a_window_holds_times_in_milliseconds_and_its_name_what_was_translated_and_how_large() {
    let folder = Folder::new("windows");
    let of = |n: u64, speed: f64| Attempt {
        sample: Sample {
            dialect: "anthropic".into(),
            stream: false,
            in_flight: 5,
            request_bytes: Some(5 * 1_024),
            output_speed: Some(speed),
            ..row(n).sample
        },
        ..row(n)
    };
    let silent = Attempt {
        end: AttemptEnd::Lost,
        lane: "south".to_owned(),
        sample: Sample { ttft_ns: None, ..row(1).sample },
        ..row(1)
    };
    let begun = Attempt { end: AttemptEnd::Lost, lane: "west".to_owned(), ..row(1) };
    let failed =
        Attempt { end: AttemptEnd::Failed, sample: Sample { ttft_ns: None, ..of(2, 0.0).sample }, ..of(2, 0.0) };
    let store = filled(&folder, &[of(0, 20.0), silent, begun, failed, of(3, 40.0)]);
    let (before, after) = store.sides(&Query::default(), row(3).sample.started_unix_ms).expect("readable");
    let names: Vec<&str> = before.levels.iter().map(|level| level.name.as_str()).collect();
    let of_window = "north, large, openai-chat to anthropic, whole, 4-7 open, 4-16 KiB";
    assert_eq!(names, [of_window, "west, large, openai-chat, stream, 1 open, < 1 KiB"], "of `south` there is nothing");
    let level = &before.levels[0];
    assert_eq!(
        (&level.times(tokrate_record::Metric::Ttft).sorted[..], &level.times(tokrate_record::Metric::Tpot).sorted[..]),
        (&[100.0][..], &[50.0][..])
    );
    assert_eq!((level.failed, level.ended, before.levels[1].ended), (1, 2, 0));
    assert_eq!((after.levels.len(), &after.levels[0].times(tokrate_record::Metric::Tpot).sorted[..]), (1, &[25.0][..]));
}

/// Attempt `n`, measured under these conditions.
fn under(n: u64, region: Option<&str>, tokenizer: Option<&str>) -> Attempt {
    let conditions = SampleConditions {
        region: region.map(str::to_owned),
        tokenizer: tokenizer.map(str::to_owned),
        version: "0.1.0".to_owned(),
        ..SampleConditions::default()
    };
    Attempt { sample: Sample { conditions: conditions.into(), ..row(n).sample }, ..row(n) }
}

#[test]
fn rows_of_another_region_or_tokenizer_are_another_level() {
    let folder = Folder::new("conditions");
    let (eu, us) = (Some("eu"), Some("us"));
    // Rows of earlier versions say neither; their tokens were o200k_base.
    let earlier = [under(0, None, None), under(1, eu, Some("o200k_base")), under(2, us, Some("o200k_base"))];
    let later =
        [under(10, None, Some("o200k_base")), under(11, eu, Some("o200k_base")), under(12, us, Some("cl100k_base"))];
    let store = filled(&folder, &[earlier, later].concat());
    let (before, after) = store.sides(&Query::default(), row(10).sample.started_unix_ms).expect("readable");
    let names = |side: &RunSamples| side.levels.iter().map(|level| level.name.clone()).collect::<Vec<_>>();
    let level = "north, large, openai-chat, stream, 1 open, < 1 KiB";
    assert_eq!(names(&before), [level.to_owned(), format!("{level}, from eu"), format!("{level}, from us")]);
    assert_eq!(
        names(&after),
        [level.to_owned(), format!("{level}, from eu"), format!("{level}, from us, cl100k_base")],
        "of the third nothing is compared"
    );
    let all = store.summarise(&Query::default(), Grouping::default()).expect("readable").remove(0);
    assert_eq!(all.mixture.regions.iter().collect::<Vec<_>>(), ["eu", "us"]);
    assert_eq!(all.mixture.tokenizers.iter().collect::<Vec<_>>(), ["cl100k_base", "o200k_base"]);
    assert_eq!(all.json()["mixture"]["regions"], serde_json::json!(["eu", "us"]));
}

#[test]
fn a_window_of_nothing_but_failures_is_compared_all_the_same() {
    let folder = Folder::new("failures");
    let failed = |n: u64| Attempt {
        end: AttemptEnd::Failed,
        sample: Sample { ttft_ns: None, output_speed: None, ..row(n).sample },
        ..row(n)
    };
    let store = filled(&folder, &[row(0), failed(1), failed(2)]);
    let (before, after) = store.sides(&Query::default(), row(1).sample.started_unix_ms).expect("readable");
    let counts = |side: &RunSamples| {
        side.levels.iter().map(|level| (level.name.clone(), level.failed, level.ended)).collect::<Vec<_>>()
    };
    let name = "north, large, openai-chat, stream, 1 open, < 1 KiB".to_owned();
    assert_eq!(counts(&before), [(name.clone(), 0, 1)]);
    assert_eq!(counts(&after), [(name, 2, 2)]);
}

#[test]
fn queries_go_by_an_index_and_never_sort() {
    let folder = Folder::new("plans");
    filled(&folder, &sample());
    let connection = Connection::open(folder.log()).expect("a log");
    let plan = |tail: &str| -> String {
        let sql = format!("EXPLAIN QUERY PLAN SELECT * FROM attempts WHERE {tail}");
        let mut statement = connection.prepare(&sql).expect("sound");
        let rows = statement.query_map([], |row| row.get::<_, String>(3)).expect("readable");
        rows.map(|row| row.expect("readable")).collect::<Vec<_>>().join("; ")
    };
    let order = "ORDER BY started_unix_ms DESC, id DESC LIMIT 9";
    insta::assert_snapshot!(plan(&format!("started_unix_ms >= 5 {order}")), @"SEARCH attempts USING INDEX attempts_by_time (started_unix_ms>?)");
    insta::assert_snapshot!(plan(&format!("lane = 'a' AND started_unix_ms >= 5 {order}")), @"SEARCH attempts USING INDEX attempts_by_lane (lane=? AND started_unix_ms>?)");
    insta::assert_snapshot!(plan(&format!("alias = 'a' AND key = 'b' AND started_unix_ms >= 5 {order}")), @"SEARCH attempts USING INDEX attempts_by_time (started_unix_ms>?)");
    insta::assert_snapshot!(plan("call = 'a'"), @"SEARCH attempts USING INDEX attempts_by_call (call=?)");
}

#[test]
fn pruning_takes_the_oldest_first_and_no_more_than_it_is_told() {
    let folder = Folder::new("pruned");
    // Written out of order, as a clock that jumps back does it.
    let rows: Vec<Attempt> = (0..30).rev().map(row).collect();
    let mut store = filled(&folder, &rows);
    let before = row(20).sample.started_unix_ms;
    assert_eq!(store.prune(before, 15).expect("writable"), 15);
    assert_eq!(store.attempts(&Query::default()).expect("readable")[0], row(15));
    assert_eq!(store.prune(before, 15).expect("writable"), 5);
    assert_eq!(store.prune(before, 15).expect("writable"), 0);
    let left: Vec<Attempt> = (20..30).map(row).collect();
    assert_eq!(store.attempts(&Query::default()).expect("readable"), left);
}

#[test]
fn pages_that_pruning_empties_are_given_back_to_the_disk() {
    let folder = Folder::new("given-back");
    let mut store = filled(&folder, &(0..200).map(row).collect::<Vec<_>>());
    let reader = Connection::open(folder.log()).expect("a log");
    let pages = |name: &str| -> i64 { reader.pragma_query_value(None, name, |row| row.get(0)).expect("readable") };
    let before = pages("page_count");
    assert_eq!(store.prune(row(200).sample.started_unix_ms, 200).expect("writable"), 200);
    assert!(pages("page_count") < before && pages("freelist_count") == 0, "{before} pages");
}

#[test]
fn the_documentation_names_every_column_and_its_queries_run() {
    let folder = Folder::new("documentation");
    filled(&folder, &sample());
    let connection = Connection::open(folder.log()).expect("a log");
    let text = include_str!("../../../../docs/throughput-log.md");
    for table in ["attempts", "refusals"] {
        let columns = connection.prepare(&format!("SELECT * FROM {table}")).expect("sound");
        let unnamed: Vec<&str> =
            columns.column_names().into_iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
        assert_eq!(unnamed, [] as [&str; 0], "{table}");
    }
    let blocks: Vec<&str> = text.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for statement in blocks.concat().split_inclusive(";\n").filter(|statement| !statement.trim().is_empty()) {
        let mut statement = connection.prepare(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        statement.query_map([], |_| Ok(())).expect("sound").for_each(|row| row.expect("readable"));
    }
}

//! What a range comes to, held against SQL on the same file.
//!
//! Invariant: expectations are computed by SQLite or from the rows here, not by the store.

use crate::folder::Folder;
use crate::rows::{filled, row};
use rusqlite::Connection;
use std::collections::BTreeMap;
use tokrate_core::{FailureKind, Rng};
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample};
use tokrate_store::{Query, Report, Store};

const NOW: u64 = 1_795_262_400_000;

/// Calls of every kind over two hours: streams and whole answers, failovers, hedges, races, clients that left.
pub fn mixed(count: u64, seed: u64) -> Vec<Attempt> {
    let mut rng = Rng::root(seed);
    let mut rows = Vec::new();
    for number in 0..count {
        let whole = rng.chance(0.3);
        let first = Attempt {
            call: format!("call-{number:06}"),
            key: [None, Some("ada"), Some("bob")][rng.below(3) as usize].map(str::to_owned),
            alias: ["chat", "code"][rng.below(2) as usize].to_owned(),
            lane: ["north", "south", "east"][rng.below(3) as usize].to_owned(),
            // One in three is of an alias that goes by caches; of some of them the provider says nothing.
            expected_cached_tokens: (number % 3 == 0).then_some(100 + number % 7),
            sample: Sample {
                input_tokens: Some(200 + number % 13),
                cached_tokens: (number % 5 != 0).then_some(90 + number % 11),
                started_unix_ms: NOW - rng.below(7_200_000),
                stream: !whole,
                ttft_ns: (!whole).then(|| 1_000_000 + rng.below(900_000_000)),
                answer_ns: whole.then(|| 1_000_000 + rng.below(9_000_000_000)),
                output_speed: (!whole).then(|| 20.0 + rng.below(1_000) as f64 / 8.0),
                // Sums are the same in any order.
                cost_usd: Some(0.125),
                ..row(number).sample
            },
            ..row(number)
        };
        let not = |end: AttemptEnd, failure: Option<FailureKind>| Attempt {
            end,
            won: false,
            sample: Sample { failure, ttft_ns: None, answer_ns: None, output_speed: None, ..first.sample.clone() },
            ..first.clone()
        };
        let kinds = [FailureKind::RateLimited, FailureKind::Stalled, FailureKind::ServerError];
        let kind = Some(kinds[rng.below(3) as usize]);
        let beside = |role, row: Attempt| Attempt { attempt: 1, role, lane: "spare".to_owned(), ..row };
        match rng.below(10) {
            0 => rows.push(not(AttemptEnd::Failed, kind)),
            1 => rows.extend([not(AttemptEnd::Failed, kind), beside(AttemptRole::Failover, first.clone())]),
            2 => rows.extend([not(AttemptEnd::Lost, None), beside(AttemptRole::Hedge, first.clone())]),
            3 => rows.extend([beside(AttemptRole::Race, not(AttemptEnd::Lost, None)), first.clone()]),
            4 => rows.push(not(AttemptEnd::Abandoned, None)),
            5 => rows.push(Attempt { won: true, ..not(AttemptEnd::Failed, kind) }),
            6 => {
                let unknown = Sample { cost_usd: None, cost_basis: CostBasis::Unknown, ..first.sample.clone() };
                rows.push(Attempt { sample: unknown, ..first.clone() });
            }
            _ => rows.push(first.clone()),
        }
    }
    rows
}

/// One number of the file, of the rows of the report's range that fit `and`.
fn sql(file: &Connection, report: &Report, what: &str, and: &str) -> f64 {
    let sql = format!(
        "SELECT CAST({what} AS REAL) FROM attempts WHERE started_unix_ms >= {} AND started_unix_ms < {} AND {and}",
        report.from_unix_ms, report.until_unix_ms
    );
    file.query_row(&sql, [], |row| row.get::<_, Option<f64>>(0)).expect("SQL").unwrap_or(0.0)
}

/// The nearest rank of a column of a lane, by SQL.
fn rank(file: &Connection, report: &Report, column: &str, lane: &str, share: f64) -> Option<f64> {
    let of = format!("lane = '{lane}' AND {column} IS NOT NULL");
    let n = sql(file, report, "count(*)", &of);
    let sql = format!(
        "SELECT CAST({column} AS REAL) FROM attempts WHERE started_unix_ms >= {} AND started_unix_ms < {} AND {of} \
         ORDER BY {column} LIMIT 1 OFFSET {}",
        report.from_unix_ms,
        report.until_unix_ms,
        (n * share).ceil() as u64 - u64::from(n > 0.0)
    );
    file.query_row(&sql, [], |row| row.get(0)).ok()
}

fn assert_is_what_sql_says(file: &Connection, report: &Report, and: &str) {
    let count = |what: &str| sql(file, report, what, and);
    let total = &report.total;
    assert_eq!(total.attempts as f64, count("count(*)"));
    for (counted, end) in
        [(total.answered, "answered"), (total.failed, "failed"), (total.lost, "lost"), (total.abandoned, "abandoned")]
    {
        assert_eq!(counted as f64, count(&format!("count(*) FILTER (WHERE end = '{end}')")), "{end}");
    }
    assert_eq!(total.hedges_won as f64, count("count(*) FILTER (WHERE role = 'hedge' AND won)"));
    assert_eq!(total.races as f64, count("count(*) FILTER (WHERE role = 'race')"));
    assert_eq!(total.cost_usd, count("sum(cost_usd)"));
    assert_eq!(total.cost_unknown as f64, count("count(*) FILTER (WHERE cost_usd IS NULL AND cost_basis <> 'free')"));
    for (key, tally) in &report.keys {
        let of = key.as_ref().map_or("key IS NULL".to_owned(), |key| format!("key = '{key}'"));
        assert_eq!(tally.cost_usd, sql(file, report, "sum(cost_usd)", &format!("{of} AND {and}")));
    }
    for ((lane, kind), found) in &report.failures {
        let kind = kind.expect("known").name();
        let of = format!("end = 'failed' AND lane = '{lane}' AND failure = '{kind}' AND {and}");
        assert_eq!(found.count as f64, sql(file, report, "count(*)", &of));
        assert_eq!(found.first_unix_ms as f64, sql(file, report, "min(started_unix_ms)", &of));
        assert_eq!(found.last_unix_ms as f64, sql(file, report, "max(started_unix_ms)", &of));
        assert_eq!(found.buckets.iter().map(|count| u64::from(*count)).sum::<u64>(), found.count);
        assert_eq!(found.keys.values().sum::<u64>(), found.count);
        for (index, count) in found.buckets.iter().enumerate() {
            let from = report.bucket_unix_ms(index);
            let until = from + report.bucket_ms;
            let part = format!("{of} AND started_unix_ms >= {from} AND started_unix_ms < {until}");
            assert_eq!(f64::from(*count), sql(file, report, "count(*)", &part));
        }
    }
}

#[test]
fn a_report_is_what_sql_says_of_the_same_rows() {
    let folder = Folder::new("report");
    let store = filled(&folder, &mixed(600, 7));
    let file = Connection::open(folder.log()).expect("the file");
    let hour = Query { from_unix_ms: Some(NOW - 3_600_000), ..Query::default() };
    let report = store.report(&hour, NOW, 10_000).expect("readable");
    assert!(!report.is_cut && report.total.attempts > 200);
    assert_is_what_sql_says(&file, &report, "true");
    for (name, lane) in &report.lanes {
        assert_eq!(lane.tally.attempts as f64, sql(&file, &report, "count(*)", &format!("lane = '{name}'")));
        for (quantile, share) in [(&lane.ttft.p50, 0.5), (&lane.ttft.p90, 0.9)] {
            let expected = rank(&file, &report, "ttft_ns", name, share).map(|ns| ns / 1e6);
            assert_eq!(quantile.nearest_rank(), expected, "{name}");
        }
        assert_eq!(lane.answer.p50.nearest_rank(), rank(&file, &report, "answer_ns", name, 0.5).map(|ns| ns / 1e6));
        let both = "expected_cached_tokens IS NOT NULL AND cached_tokens IS NOT NULL AND input_tokens IS NOT NULL";
        let cache = |what: &str| sql(&file, &report, what, &format!("lane = '{name}' AND {both}"));
        assert!(lane.cache.attempts > 0);
        assert_eq!(lane.cache.attempts as f64, cache("count(*)"));
        assert_eq!(lane.cache.expected_share(), Some(cache("1.0 * sum(expected_cached_tokens) / sum(input_tokens)")));
        assert_eq!(lane.cache.cached_share(), Some(cache("1.0 * sum(cached_tokens) / sum(input_tokens)")));
        let attempts: u64 = lane.buckets.iter().map(|bucket| bucket.attempts).sum();
        assert_eq!(attempts, lane.tally.attempts);
    }
    let ada = Query { key: Some("ada".to_owned()), alias: Some("chat".to_owned()), ..hour };
    let report = store.report(&ada, NOW, 10_000).expect("readable");
    assert!(report.total.attempts > 20);
    assert_is_what_sql_says(&file, &report, "key = 'ada' AND alias = 'chat'");
    // The log's own summary of the same rows.
    let all = store.summarise(&ada, tokrate_store::Grouping::default()).expect("readable").remove(0);
    assert_eq!(
        (all.attempts, all.failures(), all.lost),
        (report.total.attempts, report.total.failed, report.total.lost)
    );
    assert_eq!(all.cache.attempts, report.lanes.values().map(|lane| lane.cache.attempts).sum::<u64>());
    assert_eq!(all.cache.cached_tokens, report.lanes.values().map(|lane| lane.cache.cached_tokens).sum::<u64>());
}

#[test]
fn calls_are_counted_by_what_their_clients_saw() {
    let folder = Folder::new("report-calls");
    let rows = mixed(600, 11);
    let store = filled(&folder, &rows);
    let report = store.report(&Query::default(), NOW, 10_000).expect("readable");
    let mut calls: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
    rows.iter().for_each(|row| calls.entry(&row.call).or_default().push(row));
    let count = |fits: &dyn Fn(&[&Attempt]) -> bool| calls.values().filter(|rows| fits(rows)).count() as u64;
    let counted = report.calls.expect("no filter tells attempts of a call apart");
    assert_eq!(counted.all, 600);
    assert_eq!(counted.answered, count(&|rows| rows.iter().any(|row| row.end == AttemptEnd::Answered)));
    assert_eq!(counted.broken, count(&|rows| rows.iter().any(|row| row.end == AttemptEnd::Failed && row.won)));
    assert_eq!(counted.failed, count(&|rows| rows.iter().all(|row| row.end == AttemptEnd::Failed && !row.won)));
    assert_eq!(counted.abandoned, count(&|rows| rows.iter().any(|row| row.end == AttemptEnd::Abandoned)));
    assert_eq!(counted.open, 0);
    let of_lane = Query { lane: Some("north".to_owned()), ..Query::default() };
    assert_eq!(store.report(&of_lane, NOW, 10_000).expect("readable").calls, None);
}

#[test]
fn a_report_of_too_many_rows_is_of_the_newest_and_says_so() {
    let folder = Folder::new("report-cut");
    let rows = mixed(600, 13);
    let store = filled(&folder, &rows);
    let file = Connection::open(folder.log()).expect("the file");
    let report = store.report(&Query::default(), NOW, 100).expect("readable");
    assert!(report.is_cut);
    assert!((95..=100).contains(&report.total.attempts), "{}", report.total.attempts);
    assert_is_what_sql_says(&file, &report, "true");
    assert_eq!(
        sql(&file, &report, "max(started_unix_ms)", "true") as u64,
        rows.iter().map(|row| row.sample.started_unix_ms).max().expect("rows")
    );
    // A key that nobody has does not make it look at more.
    let nobody = Query { key: Some("nobody".to_owned()), ..Query::default() };
    let none = store.report(&nobody, NOW, 100).expect("readable");
    assert_eq!((none.from_unix_ms, none.is_cut, none.total.attempts), (report.from_unix_ms, true, 0));
    // Rows of one moment are in it together or not at all.
    let folder = Folder::new("report-at-once");
    let at_once: Vec<Attempt> = (0..50)
        .map(|number| Attempt { sample: Sample { started_unix_ms: NOW - 5, ..row(number).sample }, ..row(number) })
        .collect();
    let report = filled(&folder, &at_once).report(&Query::default(), NOW, 10).expect("readable");
    assert_eq!((report.total.attempts, report.is_cut), (0, true));
}

#[test]
fn calls_are_found_by_the_beginning_of_their_names() {
    let folder = Folder::new("report-prefix");
    let rows: Vec<Attempt> = ["1a-00000001", "1a-00000002", "1b-00000001", "1a%", "1a_"]
        .iter()
        .map(|call| Attempt { call: (*call).to_owned(), ..row(1) })
        .collect();
    let store = filled(&folder, &rows);
    let found = |prefix: &str| {
        let query = Query { call_prefix: Some(prefix.to_owned()), ..Query::default() };
        store.attempts(&query).expect("readable").len()
    };
    assert_eq!(
        ["1a", "1a-", "1a-00000002", "1", "1a%", "2", "%", "_a", "' OR 1=1 --"].map(found),
        [4, 2, 1, 5, 1, 0, 0, 0, 0]
    );
}

#[test]
fn pages_of_a_list_hold_every_call_once_in_its_order() {
    use tokrate_store::{CallOrder, ListPage};
    let folder = Folder::new("report-pages");
    let rows = mixed(230, 17);
    let store = filled(&folder, &rows);
    for order in CallOrder::ALL {
        // Of a list that is cut, only the newest first goes on to the end of the log.
        let most = if order == CallOrder::Newest { 60 } else { 10_000 };
        let (mut seen, mut after) = (Vec::new(), None);
        for _ in 0..100 {
            let page = ListPage { order, after: after.as_deref(), calls: 20, rows: most };
            let list = store.call_list(&Query::default(), NOW, &page).expect("readable");
            assert!(list.calls.len() <= 20);
            seen.extend(list.calls.iter().map(|call| call[0].call.clone()));
            after = list.next;
            if after.is_none() {
                break;
            }
        }
        let mut names = seen.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), seen.len()), (230, 230), "{order:?}");
        let start = |call: &String| rows.iter().find(|row| row.call == *call).expect("there").sample.started_unix_ms;
        if order == CallOrder::Newest {
            assert!(seen.is_sorted_by_key(|call| std::cmp::Reverse(start(call))), "{order:?}");
        }
    }
    let failed = Query { end: Some(AttemptEnd::Failed), lane: Some("north".to_owned()), ..Query::default() };
    let page = ListPage { order: CallOrder::Cost, after: Some("' OR 1=1 --"), calls: 1_000, rows: 10_000 };
    let list = store.call_list(&failed, NOW, &page).expect("readable");
    let fits = |row: &Attempt| row.end == AttemptEnd::Failed && row.lane == "north";
    assert!(list.calls.iter().all(|call| call.iter().any(fits)));
    assert_eq!(list.found as usize, rows.iter().filter(|row| fits(row)).count());
}

#[test]
fn a_load_has_the_times_that_were_measured_at_it() {
    let folder = Folder::new("report-load");
    let at = |number: u64, in_flight, ms: u64| Attempt {
        sample: Sample { in_flight, ttft_ns: Some(ms * 1_000_000), ..row(number).sample },
        ..row(number)
    };
    let store = filled(&folder, &[at(1, 1, 10), at(2, 1, 30), at(3, 1, 20), at(4, 40, 90), at(5, 63, 80)]);
    let points = store.by_load(&Query::default(), u64::MAX / 2, 100).expect("readable");
    let seen: Vec<_> =
        points.iter().map(|point| (point.in_flight, point.ttft.n, point.ttft.p50.nearest_rank())).collect();
    assert_eq!(seen, [((1, 1), 3, Some(20.0)), ((32, 63), 2, Some(80.0))]);
}

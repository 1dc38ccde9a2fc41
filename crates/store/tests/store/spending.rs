//! What keys have spent: the sum beside the rows is that of the rows, whoever adds them.

use crate::folder::Folder;
use crate::rows::row;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rusqlite::Connection;
use std::collections::BTreeMap;
use tokrate_record::Attempt;
use tokrate_store::{Query, Sqlite, Store};

const DAY_MS: u64 = 86_400_000;

/// A row of a key on a day (days since 1970).
fn paid(n: u64, day: u64, key: Option<&str>, usd: Option<f64>) -> Attempt {
    let mut paid = Attempt { key: key.map(str::to_owned), ..row(n) };
    paid.sample.started_unix_ms = day * DAY_MS + n % 1_000;
    paid.sample.cost_usd = usd;
    paid
}

/// The sum of the rows, read one by one.
fn of_rows(store: &Sqlite, day: u64) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for row in store.attempts(&Query { from_unix_ms: Some(day * DAY_MS), ..Query::default() }).expect("readable") {
        if let (Some(key), Some(usd)) = (row.key, row.sample.cost_usd) {
            *sums.entry(key).or_insert(0.0) += usd;
        }
    }
    sums
}

/// Moves the rows of one table to another as an earlier version would have added them: nothing says that they are new.
fn add_as_an_earlier_version(folder: &Folder, rows: &[Attempt]) {
    let other = Folder::new("spending-other");
    Sqlite::open(&other.log()).expect("a new log").append(rows).expect("room");
    let raw = Connection::open(folder.log()).expect("a database");
    raw.execute("ATTACH ? AS other", [other.log().to_str().expect("text")]).expect("it is there");
    let columns: Vec<String> = raw
        .prepare("SELECT name FROM pragma_table_info('attempts') WHERE name <> 'id'")
        .and_then(|mut names| names.query_map([], |row| row.get(0))?.collect())
        .expect("columns");
    let columns = columns.join(", ");
    raw.execute_batch(&format!("INSERT INTO attempts ({columns}) SELECT {columns} FROM other.attempts ORDER BY id"))
        .expect("room");
}

/// What is done to a log.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<(u64, Option<&'static str>, Option<u32>)>),
    AppendAsEarlier(Vec<(u64, Option<&'static str>, Option<u32>)>),
    Prune(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = prop_oneof![Just(None), Just(Some("ada")), Just(Some("bob"))];
    let rows = proptest::collection::vec((20_000..20_005_u64, key, proptest::option::of(0..1_000_u32)), 0..6);
    let step = prop_oneof![
        4 => rows.clone().prop_map(Step::Append),
        2 => rows.prop_map(Step::AppendAsEarlier),
        1 => (20_000..20_006_u64).prop_map(Step::Prune),
    ];
    proptest::collection::vec(step, 1..8)
}

#[test]
fn what_was_spent_is_the_sum_of_the_rows_whoever_added_them_and_whatever_was_removed() {
    let outcome = TestRunner::new(ProptestConfig::with_cases(64)).run(&steps(), |steps| {
        let folder = Folder::new("spending");
        let mut store = Sqlite::open(&folder.log()).expect("a new log");
        let mut n = 0;
        for step in steps {
            let mut made = |rows: Vec<(u64, Option<&str>, Option<u32>)>| -> Vec<Attempt> {
                // Powers of two, so that sums are exact in any order.
                let usd = |cents: Option<u32>| cents.map(|cents| f64::from(cents) / 128.0);
                rows.into_iter()
                    .map(|(day, key, cents)| {
                        paid(
                            {
                                n += 1;
                                n
                            },
                            day,
                            key,
                            usd(cents),
                        )
                    })
                    .collect()
            };
            match step {
                Step::Append(rows) => store.append(&made(rows)).expect("room"),
                Step::AppendAsEarlier(rows) => add_as_an_earlier_version(&folder, &made(rows)),
                Step::Prune(day) => {
                    store.prune(day * DAY_MS, 1_000).expect("writable");
                }
            }
            for day in [0, 20_001, 20_004, 20_009] {
                prop_assert_eq!(store.spent_since(day).expect("readable"), of_rows(&store, day), "since {}", day);
            }
        }
        Ok(())
    });
    outcome.expect("the property holds");
}

#[test]
fn a_sum_that_is_no_number_is_more_than_any_budget() {
    let folder = Folder::new("spending-endless");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    let of = |usd: f64| paid(1, 20_000, Some("ada"), Some(usd));
    store.append(&[of(f64::MAX), of(f64::MAX)]).expect("room");
    store.append(&[of(-f64::MAX), of(-f64::MAX)]).expect("room");
    assert_eq!(store.spent_since(0).expect("readable"), [("ada".to_owned(), f64::INFINITY)].into());
}

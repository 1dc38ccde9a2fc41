//! A monitor's probes read as a log. Invariant: what is expected is what a log answers that holds the same requests.

use crate::folder::Folder;
use crate::rows::{any_row, moderate};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, Probe, SampleSource};
use tokrate_store::{Grouping, MonitorStore, MonitorWrite, ProbeRow, Query, Sqlite, Store};

/// The probe of a request, and the row that a log would have of it.
fn both((number, row): (usize, Attempt)) -> (ProbeRow, Attempt) {
    let reason = (row.end == AttemptEnd::Failed).then(|| "it failed".to_owned());
    let probe = Probe {
        id: format!("one-{number}"),
        source: SampleSource::Monitor,
        // Few series, so that groups have several rows and some have several series.
        endpoint: format!("acme/{}", number % 2),
        workload: format!("w{}", number % 3),
        place: "fra".to_owned(),
        prober: "one".to_owned(),
        due_unix_ms: row.sample.started_unix_ms,
        quarantine: (number % 7 == 6).then(|| "it does not count".to_owned()),
        sample: row.sample.clone(),
    };
    let attempt = Attempt {
        call: probe.id.clone(),
        attempt: 0,
        role: AttemptRole::First,
        end: if reason.is_some() { AttemptEnd::Failed } else { AttemptEnd::Answered },
        won: true,
        key: None,
        alias: probe.workload.clone(),
        lane: probe.endpoint.clone(),
        dialect_in: row.sample.dialect.clone(),
        session: None,
        overhead_ns: None,
        responses: None,
        response_bytes: None,
        hold_ns: None,
        expected_cached_tokens: None,
        sample: row.sample,
    };
    (ProbeRow { probe, cycle: "c-1".to_owned(), reason, ..ProbeRow::default() }, attempt)
}

#[test]
fn probes_come_to_the_same_sums_and_percentiles_as_a_log_of_the_same_requests() {
    let number = std::cell::Cell::new(0);
    let rows = proptest::collection::vec(any_row(), 0..40);
    let outcome = TestRunner::new(ProptestConfig::with_cases(24)).run(&rows, |rows| {
        number.set(number.get() + 1);
        let folder = Folder::new(&format!("of-probes-{}", number.get()));
        let path = folder.log().with_file_name("tokrate-monitor.db");
        let (mut store, _) = MonitorStore::open(&path, 1).expect("a store");
        let rows: Vec<(ProbeRow, Attempt)> = rows.into_iter().map(moderate).enumerate().map(both).collect();
        let counted = rows.iter().filter(|(probe, _)| probe.probe.quarantine.is_none());
        let attempts: Vec<Attempt> = counted.map(|(_, attempt)| attempt.clone()).collect();
        let writes: Vec<MonitorWrite> =
            rows.iter().map(|(probe, _)| MonitorWrite::Probe(Box::new(probe.clone()))).collect();
        store.apply(&writes).expect("room");
        let mut log = Sqlite::open(&folder.log()).expect("a log");
        log.append(&attempts).expect("room");
        let probes = Sqlite::open_probes(&path, SampleSource::Monitor).expect("a database");
        let first = rows.first().map(|(_, row)| row.clone());
        let time = first.as_ref().map(|row| row.sample.started_unix_ms);
        for query in [
            Query::default(),
            Query { from_unix_ms: time, ..Query::default() },
            Query { until_unix_ms: time, lane: Some("acme/1".to_owned()), ..Query::default() },
            Query { alias: Some("w2".to_owned()), ..Query::default() },
            Query { provider: first.map(|row| row.sample.provider), ..Query::default() },
            Query { end: Some(AttemptEnd::Failed), ..Query::default() },
        ] {
            for (lane, alias, hour) in [(false, false, false), (true, true, false), (true, false, true)] {
                let by = Grouping { lane, alias, hour };
                let (found, wanted) = (probes.summarise(&query, by), log.summarise(&query, by));
                prop_assert_eq!(found.expect("readable"), wanted.expect("readable"), "{:?} {:?}", query, by);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

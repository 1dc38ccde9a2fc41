//! A recorder over days of rows that are made up.

use super::*;
use crate::alerting::{AlertRule, Watch};
use crate::testing::Folder;
use std::path::Path;
use tokrate_alert::Rule;
use tokrate_record::{Probe, Sample};
use tokrate_store::CYCLE_IS_OPEN;

const BEGIN: u64 = 1_780_272_000_000;
const SLOT_MS: u64 = 3 * 3_600_000;

fn recorder(database: &Path, now_unix_ms: u64) -> Recorder {
    recorder_with(AlertSettings::default(), database, now_unix_ms)
}

fn recorder_with(alerts: AlertSettings, database: &Path, now_unix_ms: u64) -> Recorder {
    let config = RecorderConfig {
        prober: "one".to_owned(),
        place: "here".to_owned(),
        false_alarms: FalseAlarms::default(),
        retention_ms: u64::MAX,
        alerts,
        pushes: false,
    };
    let (store, _) = MonitorStore::open(database, now_unix_ms).expect("a store");
    let mut recorder = Recorder::new(config, store, now_unix_ms).expect("readable");
    recorder.seen(now_unix_ms, 0);
    recorder
}

/// The only probe of a slot; from the 80th on four tokens come at once.
fn row(slot: u64) -> ProbeRow {
    let sample = Sample {
        started_unix_ms: BEGIN + slot * SLOT_MS,
        provider: "acme".to_owned(),
        model: "large".to_owned(),
        output_tokens_std: 300,
        chunks: if slot < 80 { 290 + slot % 7 } else { 75 },
        ttft_ns: Some(400_000_000 + slot % 5 * 10_000_000),
        output_speed: Some(80.0 + (slot % 6) as f64),
        total_ns: 4_000_000_000,
        ..Sample::default()
    };
    let probe = Probe {
        id: format!("one-{slot}-0"),
        endpoint: "acme/large".to_owned(),
        workload: "w".to_owned(),
        place: "here".to_owned(),
        prober: "one".to_owned(),
        quarantine: Some(CYCLE_IS_OPEN.to_owned()),
        sample,
        ..Probe::default()
    };
    ProbeRow { probe, cycle: format!("c{slot}"), slot_unix_ms: BEGIN + slot * SLOT_MS, ..ProbeRow::default() }
}

fn record(recorder: &mut Recorder, slot: u64) -> Vec<EventRow> {
    let (row, at) = (row(slot), BEGIN + slot * SLOT_MS);
    recorder.begin_cycle(row.cycle.clone(), at);
    recorder.keep(vec![row]);
    let closed = ClosedCycle { cycle: slot, quarantine: None, references: Vec::new(), probes: Vec::new() };
    recorder.end_cycle(format!("c{slot}"), &closed, at);
    recorder.take_findings().events
}

#[test]
fn another_form_of_the_stream_is_one_event_over_restarts() {
    let folder = Folder::new("recorder-stream");
    let database = folder.0.join("monitor.db");
    let mut found = Vec::new();
    // Restarted every ten slots, and the last time amid the change.
    for run in 0..14 {
        let first = run * 10;
        let mut recorder = recorder(&database, BEGIN + first * SLOT_MS);
        found.extend(recorder.take_findings().events);
        for slot in first..first + 10 {
            found.extend(record(&mut recorder, slot));
        }
        assert_eq!(recorder.take_failure(), None);
    }
    let [event] = &found[..] else { panic!("{found:?}") };
    assert_eq!((event.kind.as_str(), event.metric.as_str()), ("stream", "tokens_per_chunk"));
    assert_eq!(event.since_unix_ms as u64, BEGIN + 80 * SLOT_MS);
    assert!((2.5..3.5).contains(&event.change), "{event:?}");
    let store = MonitorStore::open_reader(&database).expect("it wrote one");
    assert_eq!(store.events(0).expect("readable"), found);
}

#[test]
fn answers_to_tasks_that_become_wrong_are_an_event_of_their_own_and_so_is_the_return() {
    let folder = Folder::new("recorder-canary");
    let mut recorder = recorder(&folder.0.join("monitor.db"), BEGIN);
    let mut found = Vec::new();
    for slot in 0..120 {
        // One answer is wrong early on, which is chance.
        let is_wrong = slot == 30 || (80..90).contains(&slot);
        let reason = is_wrong.then(|| "the answer calls no tool".to_owned());
        let ProbeRow { probe, .. } = row(slot);
        let probe = Probe {
            workload: "canary-tool".to_owned(),
            sample: Sample { ttft_ns: None, output_speed: None, chunks: 0, ..probe.sample },
            ..probe
        };
        let (cycle, at) = (format!("c{slot}"), BEGIN + slot * SLOT_MS);
        recorder.begin_cycle(cycle.clone(), at);
        recorder.keep(vec![ProbeRow { probe, reason, ..row(slot) }]);
        let closed = ClosedCycle { cycle: slot, quarantine: None, references: Vec::new(), probes: Vec::new() };
        recorder.end_cycle(cycle, &closed, at);
        found.extend(recorder.take_findings().events);
    }
    let shown: Vec<(&str, bool)> = found.iter().map(|event| (event.kind.as_str(), event.change > 0.0)).collect();
    assert_eq!(shown, [("fidelity", true), ("improvement", false)], "{found:?}");
    assert_eq!(found[0].since_unix_ms as u64, BEGIN + 80 * SLOT_MS);
}

#[test]
fn what_rules_remember_is_written_anew_when_some_of_it_was_lost_on_a_full_disk() {
    let folder = Folder::new("recorder-lost");
    let database = folder.0.join("monitor.db");
    let watch = Watch::Changes(vec!["stream".to_owned()]);
    let rule = Rule { name: "r".to_owned(), ..Rule::default() };
    let rules = vec![AlertRule { rule, watch, resolve_after_ms: u64::MAX }];
    let settings = AlertSettings { rules, ..AlertSettings::default() };
    let mut recorder = recorder_with(settings, &database, BEGIN);
    recorder.limit(1).expect("a limit");
    let event =
        |endpoint: &str| EventRow { endpoint: endpoint.to_owned(), kind: "stream".to_owned(), ..EventRow::default() };
    recorder.notice("more than fits".repeat(100_000), BEGIN);
    recorder.found(event("a/one"));
    recorder.write_held();
    for _ in 0..MAX_HELD {
        recorder.notice("one of many".to_owned(), BEGIN);
    }
    assert!(recorder.take_failure().is_some_and(|failure| failure.contains("were lost")));
    recorder.limit(u64::MAX).expect("no limit");
    recorder.write_held();
    let parts = recorder.store().alert_parts().expect("readable");
    let is_kept = |part: &str| parts.iter().any(|(key, _)| key.starts_with(part));
    assert!(is_kept(r#"["lasting","r","a/one""#) && is_kept(r#"["place","r","a/one""#), "{parts:?}");
    assert!(is_kept(r#"["incident""#) && is_kept(r#"["opened"]"#), "{parts:?}");
    // And only once.
    recorder.found(event("a/one"));
    let writes = recorder.alerting.poll(BEGIN);
    assert_eq!(writes, []);
}

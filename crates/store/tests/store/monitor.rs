//! A monitor's database as a monitor uses it: real files, a real kill, a disk that is full.

use crate::folder::Folder;
use rusqlite::Connection;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokrate_core::{FailureKind, Rng};
use tokrate_record::{Probe, Sample, SampleConditions, SampleSource};
use tokrate_store::{
    CYCLE_IS_OPEN, DeliveryRow, EstimateRow, EventRow, MonitorStore, MonitorWrite, ProbeQuery, ProbeRow, ProbeStore,
    Sqlite, StoreError,
};

const BEGIN: u64 = 1_795_478_400_000;

fn path(folder: &Folder) -> PathBuf {
    folder.log().with_file_name("tokrate-monitor.db")
}

fn open(path: &Path) -> MonitorStore {
    let (store, aside) = MonitorStore::open(path, BEGIN).expect("a store");
    assert_eq!(aside, None);
    store
}

/// The `number`-th of many probes.
pub fn probe(number: u64) -> ProbeRow {
    let sample = Sample {
        started_unix_ms: BEGIN + number * 1_000,
        provider: "acme".to_owned(),
        model: "large".to_owned(),
        model_answered: Some("large-1\u{202e}<script>".to_owned()),
        dialect: "openai-chat".into(),
        stream: true,
        in_flight: 1,
        connection_new: true,
        dns_ns: Some(3),
        connect_ns: Some(4),
        tls_ns: Some(5),
        request_bytes: Some(600),
        output_limit: Some(300),
        status: Some(200),
        failure: (number % 7 == 3).then_some(FailureKind::Stalled),
        ttft_ns: Some(400_000_000),
        ttfat_ns: Some(410_000_000),
        total_ns: 4_000_000_000,
        output_speed: (number % 7 != 3).then_some(80.5),
        output_speed_missing: (number % 7 == 3).then(|| "fewer than 16 tokens".into()),
        gaps: [10_000_000, 12_000_000].into_iter().collect(),
        output_tokens_std: 290,
        input_tokens: Some(100),
        output_tokens: Some(300),
        cost_usd: Some(0.001),
        conditions: SampleConditions {
            region: Some("fra".to_owned()),
            fingerprint: Some("0123456789abcdef".to_owned()),
            version: "0.1.0".to_owned(),
            ..SampleConditions::default()
        }
        .into(),
        ..Sample::default()
    };
    let probe = Probe {
        id: format!("one-{number}"),
        source: SampleSource::Monitor,
        endpoint: "acme/large".to_owned(),
        workload: "1k-1k".to_owned(),
        place: "fra".to_owned(),
        prober: "one".to_owned(),
        due_unix_ms: BEGIN + number * 1_000 - 5,
        quarantine: None,
        sample,
    };
    ProbeRow { probe, cycle: "c-1".to_owned(), slot_unix_ms: BEGIN, is_further: number % 2 == 1, ..ProbeRow::default() }
}

fn write(number: u64) -> MonitorWrite {
    MonitorWrite::Probe(Box::new(probe(number)))
}

fn seen(at_unix_ms: u64, missed: u64) -> MonitorWrite {
    MonitorWrite::Seen { prober: "one".to_owned(), place: "fra".to_owned(), at_unix_ms, missed }
}

#[test]
fn rows_are_read_as_they_were_written_and_only_once() {
    let folder = Folder::new("monitor-rows");
    let mut store = open(&path(&folder));
    let rows: Vec<ProbeRow> = (0..20).map(probe).collect();
    store.apply(&(0..20).map(write).collect::<Vec<_>>()).expect("room");
    store.apply(&(10..20).map(write).collect::<Vec<_>>()).expect("again");
    assert_eq!(store.probes(&ProbeQuery::default()).expect("readable"), rows);
    let later = ProbeQuery { from_unix_ms: Some(BEGIN + 15_000), ..ProbeQuery::default() };
    assert_eq!(store.probes(&later).expect("readable"), rows[15..]);
    let none = ProbeQuery { endpoint: Some("other".to_owned()), ..ProbeQuery::default() };
    assert_eq!(store.probes(&none).expect("readable"), []);
    let used = store.used("one", BEGIN, false).expect("readable");
    assert!((used.usd - 0.02).abs() < 1e-12 && used.tokens == 20 * 400, "{used:?}");
    assert_eq!(store.used("one", BEGIN, true).expect("readable").tokens, 10 * 400);
    let reader = MonitorStore::open_reader(&path(&folder)).expect("beside the writer");
    assert_eq!(reader.probes(&ProbeQuery::default()).expect("readable").len(), 20);
}

#[test]
fn sums_that_do_not_fit_keep_no_monitor_from_starting_and_no_hub_from_taking_more() {
    let folder = Folder::new("monitor-absurd");
    let mut store = open(&path(&folder));
    let absurd = |number: u64| {
        let mut row = probe(number);
        (row.probe.sample.input_tokens, row.probe.sample.output_tokens) = (Some(u64::MAX), Some(u64::MAX));
        MonitorWrite::Probe(Box::new(row))
    };
    store.apply(&[absurd(1), absurd(2), seen(BEGIN, u64::MAX), seen(BEGIN, u64::MAX)]).expect("room");
    let used = store.used("one", BEGIN, false).expect("readable");
    assert!(used.tokens > u64::MAX / 2, "{used:?}");
    assert_eq!(store.probers().expect("readable")[0].missed, i64::MAX as u64);
}

#[test]
fn rows_of_a_cycle_count_from_its_end_on_unless_it_is_in_quarantine() {
    let folder = Folder::new("monitor-cycles");
    let mut store = open(&path(&folder));
    let of_cycle = |number: u64, cycle: &str| {
        let mut row = probe(number);
        row.cycle = cycle.to_owned();
        row.probe.quarantine = Some(CYCLE_IS_OPEN.to_owned());
        MonitorWrite::Probe(Box::new(row))
    };
    let begun = |cycle: &str| MonitorWrite::CycleBegun {
        cycle: cycle.to_owned(),
        prober: "one".to_owned(),
        place: "fra".to_owned(),
        at_unix_ms: BEGIN,
    };
    let ended = |cycle: &str, quarantine: Option<&str>| MonitorWrite::CycleEnded {
        cycle: cycle.to_owned(),
        at_unix_ms: BEGIN + 9,
        reference: "[]".to_owned(),
        quarantine: quarantine.map(str::to_owned),
    };
    store.apply(&[seen(BEGIN, 3), begun("a"), begun("b"), begun("c")]).expect("room");
    store.apply(&[of_cycle(1, "a"), of_cycle(2, "b"), of_cycle(3, "c")]).expect("room");
    let counted = |store: &MonitorStore| {
        let query = ProbeQuery { counted_only: true, ..ProbeQuery::default() };
        store.probes(&query).expect("readable").into_iter().map(|row| row.cycle).collect::<Vec<String>>()
    };
    assert_eq!(counted(&store), [] as [&str; 0]);
    store.apply(&[ended("a", None), ended("b", Some("offline")), seen(BEGIN + 9, 2)]).expect("room");
    assert_eq!(counted(&store), ["a"]);
    let open: Vec<String> = store.open_cycles("one").expect("readable").into_iter().map(|open| open.cycle).collect();
    assert_eq!(open, ["c"]);
    let probers = store.probers().expect("readable");
    assert_eq!((probers[0].missed, probers[0].requests, probers[0].quarantined), (5, 3, 1));
    let span = MonitorWrite::Quarantine {
        prober: "one".to_owned(),
        place: "fra".to_owned(),
        from_unix_ms: BEGIN,
        until_unix_ms: BEGIN + 1_000,
        reason: "together".to_owned(),
    };
    store.apply(&[span]).expect("room");
    assert_eq!(counted(&store), [] as [&str; 0]);
}

#[test]
fn an_event_is_kept_once_and_old_rows_are_removed() {
    let folder = Folder::new("monitor-events");
    let mut store = open(&path(&folder));
    let event = EventRow {
        at_unix_ms: BEGIN as i64,
        endpoint: "acme/large".to_owned(),
        kind: "regression".to_owned(),
        change: f64::NAN,
        n: 9,
        remark: Some("together with tokens per chunk".to_owned()),
        ..EventRow::default()
    };
    let kept = || MonitorWrite::Event(Box::new(event.clone()));
    let detected = |until| MonitorWrite::Detected { prober: "one".to_owned(), until_unix_ms: until };
    store.apply(&[seen(BEGIN, 0), kept(), kept(), detected(7), detected(5)]).expect("room");
    assert_eq!(store.events(0).expect("readable"), [EventRow { change: 0.0, ..event.clone() }]);
    assert_eq!(store.probers().expect("readable")[0].detected_unix_ms, 7);
    let notice = MonitorWrite::Notice { at_unix_ms: BEGIN, prober: "one".to_owned(), text: "asleep".to_owned() };
    store.apply(&[notice]).expect("room");
    assert_eq!(store.notices(BEGIN).expect("readable").len(), 1);
    store.apply(&(0..20).map(write).collect::<Vec<_>>()).expect("room");
    assert_eq!(store.prune(BEGIN + 10_000, 4).expect("writable"), 4 + 2, "four probes, the event and the notice");
    assert_eq!(store.prune(BEGIN + 10_000, 100).expect("writable"), 6);
    assert_eq!(store.probes(&ProbeQuery::default()).expect("readable").len(), 10);
}

#[test]
fn an_estimate_takes_the_place_of_an_earlier_one_and_is_no_probe() {
    let folder = Folder::new("monitor-estimates");
    let mut store = open(&path(&folder));
    let row = |in_flight, output_speed| EstimateRow {
        endpoint: "estimate/4 x H100".to_owned(),
        model: "m".to_owned(),
        workload: "1000-300".to_owned(),
        in_flight,
        output_speed,
        low: output_speed / 2.0,
        high: output_speed * 2.0,
        made_unix_ms: BEGIN,
    };
    let write = |row: EstimateRow| MonitorWrite::Estimate(Box::new(row));
    store.apply(&[write(row(8, 40.0)), write(row(1, 60.0)), write(row(1, 70.0))]).expect("room");
    assert_eq!(store.estimates().expect("readable"), [row(1, 70.0), row(8, 40.0)]);
    assert_eq!(store.probes(&ProbeQuery::default()).expect("readable"), []);
}

#[test]
fn a_damaged_file_is_set_aside_and_a_new_one_begun() {
    let folder = Folder::new("monitor-damaged");
    let path = path(&folder);
    let mut store = open(&path);
    store.apply(&(0..500).map(write).collect::<Vec<_>>()).expect("room");
    drop(store);
    let mut bytes = std::fs::read(&path).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0x5a);
    for damaged in [bytes.clone(), b"garbage".repeat(1_000)] {
        std::fs::write(&path, &damaged).expect("writable");
        let (mut store, aside) = MonitorStore::open(&path, BEGIN).expect("a new one");
        let aside = aside.expect("it was damaged");
        assert_eq!(std::fs::read(&aside.to).expect("kept"), damaged);
        assert!(!aside.reason.is_empty());
        store.apply(&[write(1)]).expect("room");
        assert_eq!(store.probes(&ProbeQuery::default()).expect("readable").len(), 1);
    }
}

#[test]
fn other_files_and_newer_ones_are_refused_and_there_is_one_writer() {
    let folder = Folder::new("monitor-refused");
    let path = path(&folder);
    drop(Sqlite::open(&path).expect("a log"));
    let refused = |path: &Path| {
        let error = MonitorStore::open(path, BEGIN).expect_err("refused");
        error.to_string().replace(&path.display().to_string(), "FILE")
    };
    insta::assert_snapshot!(refused(&path), @"open the database FILE: it is not a monitor's database of tokrate; name another file");
    std::fs::remove_file(&path).expect("there");
    let store = open(&path);
    insta::assert_snapshot!(refused(&path), @"use the database FILE: another process has locked it; it is free again when that one ends");
    drop(store);
    Connection::open(&path).expect("a file").pragma_update(None, "user_version", 99).expect("writable");
    insta::assert_snapshot!(refused(&path), @"open the database FILE: its schema is version 99 and this tokrate supports versions up to 5; use the tokrate that wrote it");
    let text = path.with_extension("toml");
    std::fs::write(&text, "[monitor]\n").expect("writable");
    assert!(matches!(MonitorStore::open(&text, BEGIN), Err(StoreError::NotADatabase { .. })));
    assert_eq!(std::fs::read_to_string(&text).expect("kept"), "[monitor]\n");
}

#[test]
fn a_full_disk_keeps_all_of_a_write_or_nothing() {
    let folder = Folder::new("monitor-full");
    let mut store = open(&path(&folder));
    store.limit(200_000).expect("a limit");
    let mut kept = 0;
    let mut number = 0;
    loop {
        let batch: Vec<MonitorWrite> = (number..number + 50).map(write).collect();
        number += 50;
        match store.apply(&batch) {
            Ok(()) => kept += 50,
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{error}");
                break;
            }
        }
    }
    assert!(kept > 0);
    assert_eq!(store.probes(&ProbeQuery::default()).expect("readable").len(), kept);
}

#[test]
fn a_backup_is_made_while_rows_are_written() {
    let folder = Folder::new("monitor-backup");
    let path = path(&folder);
    let mut store = open(&path);
    store.apply(&(0..2_000).map(write).collect::<Vec<_>>()).expect("room");
    let to = path.with_file_name("copy.db");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let copied = to.clone();
    let reader = std::thread::spawn(move || {
        let reader = MonitorStore::open_reader(&path).expect("beside the writer");
        reader.backup(&copied).expect("room");
        drop(stop);
    });
    let mut number = 2_000;
    while matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
        store.apply(&[write(number)]).expect("room");
        number += 1;
    }
    reader.join().expect("no panic");
    let copy = MonitorStore::open_reader(&to).expect("a database of its own");
    assert!(copy.probes(&ProbeQuery::default()).expect("readable").len() >= 2_000);
    assert!(copy.backup(&to).is_err(), "nothing is overwritten");
}

const NAME: &str = "monitor::rows_that_were_confirmed_outlive_a_kill";
const WRITER: &str = "TOKRATE_MONITOR_WRITER";

#[test]
fn rows_that_were_confirmed_outlive_a_kill() {
    if let Some(path) = std::env::var_os(WRITER) {
        let mut store = MonitorStore::open(Path::new(&path), BEGIN).expect("a store").0;
        let first = store.probes(&ProbeQuery::default()).expect("readable").len() as u64;
        for number in first.. {
            store.apply(&[write(number)]).expect("room");
            writeln!(std::io::stdout(), "\nkept {}", number + 1).expect("a reader");
        }
    }
    let folder = Folder::new("monitor-killed");
    let path = path(&folder);
    let mut draws = Rng::root(11);
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", NAME, "--nocapture"])
            .env(WRITER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let kept = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        let confirmed = kept.take(1 + draws.below(60) as usize).last().expect("it writes");
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let store = open(&path);
        let ids: Vec<String> =
            store.probes(&ProbeQuery::default()).expect("readable").into_iter().map(|row| row.probe.id).collect();
        let whole: Vec<String> = (0..ids.len()).map(|number| format!("one-{number}")).collect();
        assert!(ids.len() as u64 >= confirmed && ids == whole, "round {round}: {} of {confirmed}", ids.len());
    }
}

#[test]
fn what_waits_is_there_until_it_was_delivered_or_pushed() {
    let folder = Folder::new("monitor-queues");
    let delivery = |message: &str, state: &str, given_up_unix_ms: Option<u64>| {
        MonitorWrite::Delivery(Box::new(DeliveryRow {
            message: message.to_owned(),
            receiver: "ops".to_owned(),
            made_unix_ms: BEGIN,
            delivery: state.to_owned(),
            given_up_unix_ms,
        }))
    };
    let spooled = |entry: &str| MonitorWrite::Spooled(entry.to_owned());
    let part = |key: &str, value: Option<&str>| MonitorWrite::AlertPart {
        key: key.to_owned(),
        value: value.map(str::to_owned),
    };
    let mut store = open(&path(&folder));
    assert_eq!((store.alert_parts().expect("readable"), store.spool_len().expect("readable")), (vec![], 0));
    let name = store.spool_name("first").expect("writable");
    let writes = [
        part("a", Some("1")),
        part("b", Some("1")),
        part("a", Some("2")),
        part("b", None),
        delivery("a", "new", None),
        delivery("b", "new", None),
        delivery("a", "failed once", None),
        spooled("x"),
        spooled("y"),
    ];
    store.apply(&writes).expect("room");
    drop(store);
    let mut store = open(&path(&folder));
    assert_eq!((name.as_str(), store.spool_name("second").expect("writable")), ("first", name.clone()));
    assert_eq!(store.alert_parts().expect("readable"), [("a".to_owned(), "2".to_owned())]);
    store.apply(&[MonitorWrite::AlertPartsGone, part("c", Some("3"))]).expect("room");
    assert_eq!(store.alert_parts().expect("readable"), [("c".to_owned(), "3".to_owned())]);
    let states = |store: &MonitorStore| -> Vec<String> {
        store.deliveries().expect("readable").into_iter().map(|row| row.delivery).collect()
    };
    assert_eq!(states(&store), ["failed once", "new"]);
    assert_eq!(store.spool(9).expect("readable").iter().map(|one| one.id).collect::<Vec<_>>(), [1, 2]);
    let delivered = MonitorWrite::Delivered { message: "a".to_owned(), receiver: "ops".to_owned() };
    store.apply(&[delivered, MonitorWrite::SpoolSent { last: 2 }, spooled("z")]).expect("room");
    assert_eq!(states(&store), ["new"]);
    let left = store.spool(9).expect("readable");
    assert_eq!((left.len(), left[0].id, left[0].entry.as_str()), (1, 3, "z"), "no number twice");
    store.apply(&[delivery("b", "given up", Some(BEGIN))]).expect("room");
    store.prune(BEGIN + 1, 10).expect("writable");
    assert_eq!(states(&store), [""; 0]);
}

#[test]
fn a_hub_knows_how_far_it_has_the_spool_of_each_prober() {
    let folder = Folder::new("monitor-pushed");
    let mut store = open(&path(&folder));
    let pushed = |prober: &str, last: u64, skew_ms: i64| MonitorWrite::Pushed {
        prober: prober.to_owned(),
        spool: "s".to_owned(),
        last,
        skew_ms,
    };
    store.apply(&[seen(BEGIN, 0), pushed("one", 7, -40), pushed("one", 5, 30)]).expect("room");
    assert_eq!(store.pushed("one", "s").expect("readable"), Some(7), "it never goes back");
    assert_eq!(store.pushed("one", "other").expect("readable"), None);
    assert_eq!(store.probers().expect("readable")[0].skew_ms, Some(30));
}

#[test]
fn a_database_of_the_first_version_is_migrated_with_all_it_holds() {
    let folder = Folder::new("monitor-migrated");
    let mut store = open(&path(&folder));
    store.apply(&[seen(BEGIN, 3), write(1)]).expect("room");
    drop(store);
    let connection = Connection::open(path(&folder)).expect("a file");
    let undone = "DROP TABLE estimates; DROP TABLE alert_parts; DROP TABLE deliveries; DROP TABLE spool; DROP TABLE spool_name; DROP TABLE pushed; \
                  ALTER TABLE probers DROP COLUMN skew_ms; \
                  DROP TABLE outgoing; DROP TABLE outgoing_batch; PRAGMA user_version = 1;";
    connection.execute_batch(undone).expect("the first version");
    drop(connection);
    let store = open(&path(&folder));
    assert_eq!(store.probes(&ProbeQuery::default()).expect("readable"), [probe(1)]);
    assert_eq!((store.probers().expect("readable")[0].missed, store.alert_parts().expect("readable")), (3, vec![]));
}

#[test]
fn what_rules_remembered_in_one_text_is_there_in_parts_after_the_migration() {
    let folder = Folder::new("monitor-parts");
    drop(open(&path(&folder)));
    let state = r#"{"alerts":{"findings":[[["r","a/one","w","fra"],18446744073709551615,64],[["r","b/\"two\"","w","nyc"],0,3]],
        "bad":[["r","a/one","w","fra"]],"incidents":[{"id":7,"rule":"r","members":[]}],"opened":7},
        "lasting":[[["r","a/one","w","fra","ttft_ms"],1780272000000]]}"#;
    let undone = "DROP TABLE alert_parts; PRAGMA user_version = 4; \
                  CREATE TABLE alerts (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL) STRICT";
    for (state, expected) in [
        (
            state,
            vec![
                (r#"["incident","7"]"#, r#"{"id":7,"rule":"r","members":[]}"#),
                (r#"["lasting","r","a/one","w","fra","ttft_ms"]"#, "1780272000000"),
                (r#"["opened"]"#, "7"),
                (r#"["place","r","a/one","w","fra"]"#, "[18446744073709551615,64,true]"),
                (r#"["place","r","b/\"two\"","w","nyc"]"#, "[0,3,false]"),
            ],
        ),
        ("no JSON", vec![]),
    ] {
        let connection = Connection::open(path(&folder)).expect("a file");
        connection.execute_batch(undone).expect("an older version");
        connection.execute("INSERT INTO alerts VALUES (1, ?)", [state]).expect("writable");
        drop(connection);
        let found = open(&path(&folder)).alert_parts().expect("readable");
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
    }
}

//! Batches that are forged, cut, replayed and lost; probers and hubs that are killed.

use super::batch::{Batch, Refusal, write_batch};
use super::entry::entry_of;
use super::gate::{Gate, KnownProber};
use super::{MAX_BATCH_BYTES, PublicKey, PushKey};
use crate::alerting::AlertSettings;
use crate::recorder::{Recorder, RecorderConfig};
use crate::testing::Folder;
use proptest::prelude::*;
use std::path::Path;
use tokrate_core::{Rng, Span, Tick};
use tokrate_detect::FalseAlarms;
use tokrate_prober::ClosedCycle;
use tokrate_record::{Probe, Sample};
use tokrate_store::{CYCLE_IS_OPEN, MonitorStore, MonitorWrite, ProbeQuery, ProbeRow, ProbeStore, SpoolEntry};

const NOW: u64 = 1_780_272_000_000;

pub(super) fn key(number: u8) -> PushKey {
    use base64::Engine;
    PushKey::parse(&base64::engine::general_purpose::STANDARD.encode([number; 32])).expect("a key")
}

pub(super) fn row(prober: &str, number: u64) -> ProbeRow {
    let run = format!("{prober}-00000000000000ff");
    let sample = Sample {
        started_unix_ms: NOW - 1_000_000 + number,
        provider: "acme".to_owned(),
        model: "large".to_owned(),
        ttft_ns: Some(400_000_000 + number),
        output_speed: Some(81.25),
        gaps: [10_000_000, 12_000_000].into_iter().collect(),
        total_ns: 4_000_000_000,
        ..Sample::default()
    };
    let probe = Probe {
        id: format!("{run}-{number}-0"),
        endpoint: "acme/large".to_owned(),
        workload: "w".to_owned(),
        place: "fra".to_owned(),
        prober: prober.to_owned(),
        quarantine: Some(CYCLE_IS_OPEN.to_owned()),
        sample,
        ..Probe::default()
    };
    ProbeRow { probe, cycle: format!("{run}-c{}", number / 3), slot_unix_ms: NOW - 1_000_000, ..ProbeRow::default() }
}

fn spooled(id: u64, write: &MonitorWrite) -> SpoolEntry {
    let entry = entry_of(write).expect("it goes to a hub");
    SpoolEntry { id, entry: serde_json::to_string(&entry).expect("plain data") }
}

fn entries(prober: &str) -> Vec<SpoolEntry> {
    let cycle = row(prober, 4).cycle;
    let write = [
        MonitorWrite::CycleBegun { cycle: cycle.clone(), prober: String::new(), place: String::new(), at_unix_ms: 5 },
        MonitorWrite::Probe(Box::new(row(prober, 4))),
        MonitorWrite::CycleEnded { cycle, at_unix_ms: NOW, reference: "[]".to_owned(), quarantine: None },
        MonitorWrite::Notice { at_unix_ms: NOW, prober: String::new(), text: "hello".to_owned() },
    ];
    (1..).zip(&write).map(|(id, write)| spooled(id, write)).collect()
}

fn read(body: &str, signer: &PushKey, now_unix_ms: u64) -> Result<Batch, Refusal> {
    Batch::read(body.as_bytes(), &signer.sign(body.as_bytes()), "fra-1", &key(1).public(), now_unix_ms)
}

#[test]
fn a_batch_is_read_as_it_was_written_under_its_probers_name_and_place() {
    let body = write_batch("fra-1", "fra", "s", NOW - 250, &entries("fra-1"));
    let batch = read(&body, &key(1), NOW).expect("good");
    assert_eq!((batch.skew_ms, batch.last(), batch.writes.len()), (-250, 4, 4));
    assert_eq!(batch.writes[1].1, MonitorWrite::Probe(Box::new(row("fra-1", 4))));
    let MonitorWrite::Notice { prober, text, .. } = &batch.writes[3].1 else { panic!("a notice") };
    assert_eq!((prober.as_str(), text.as_str()), ("fra-1", "hello"));
}

#[test]
fn what_is_wrong_with_a_batch_is_said() {
    let good = || write_batch("fra-1", "fra", "s", NOW, &entries("fra-1"));
    let refused = |body: &str, signer: &PushKey, now: u64| {
        let refusal = read(body, signer, now).expect_err("refused");
        format!("{} {}: {refusal}", refusal.status(), refusal.code())
    };
    let future = vec![spooled(
        1,
        &MonitorWrite::Seen { prober: String::new(), place: String::new(), at_unix_ms: NOW + 600_000, missed: 0 },
    )];
    let mut twice = entries("fra-1");
    twice[1].id = 1;
    let text = [
        refused(&good(), &key(2), NOW),
        refused(&good().replace("hello", "help!"), &key(1), NOW + 86_500_000),
        refused(&write_batch("fra-1", "fra", "s", NOW + 301_000, &entries("fra-1")), &key(1), NOW),
        refused(&write_batch("fra-1", "fra", "s", NOW, &future), &key(1), NOW),
        refused(&write_batch("other", "fra", "s", NOW, &entries("fra-1")), &key(1), NOW),
        refused(&write_batch("fra-1", "fra", "s", NOW, &entries("fra-1-00000000000000ff")), &key(1), NOW),
        refused(&write_batch("fra-1", "fra", "s", NOW, &entries("nyc")), &key(1), NOW),
        refused(&write_batch("fra-1", "f\nra", "s", NOW, &entries("fra-1")), &key(1), NOW),
        refused(&write_batch("fra-1", "fra", "s", NOW, &[]), &key(1), NOW),
        refused(&write_batch("fra-1", "fra", "s", NOW, &twice), &key(1), NOW),
        refused(&good().replace("\"version\":1", "\"version\":2"), &key(1), NOW),
        refused(&good().replace("\"notice\"", "\"command\""), &key(1), NOW),
        refused("{}", &key(1), NOW),
        refused(&" ".repeat(MAX_BATCH_BYTES + 1), &key(1), NOW),
        Refusal::Replayed(8).to_string(),
    ];
    insta::assert_snapshot!("refusals", text.join("\n"));
}

#[test]
fn a_prober_cannot_end_the_cycles_of_one_whose_name_begins_with_its_own() {
    let ended = |cycle: &str| {
        let reference = "[]".to_owned();
        let write = MonitorWrite::CycleEnded { cycle: cycle.to_owned(), at_unix_ms: NOW, reference, quarantine: None };
        read(&write_batch("fra-1", "fra", "s", NOW, &[spooled(1, &write)]), &key(1), NOW).map(|_| ())
    };
    assert_eq!(ended("fra-1-00000000000000ff-c7"), Ok(()));
    for other in ["fra-1-00000000000000ff-1111111111111111-c7", "fra-1-00000000000000ff-c", "fra-1-00000000000000ff-7"]
    {
        assert!(matches!(ended(other), Err(Refusal::Malformed(_))), "{other}");
    }
}

#[test]
fn numbers_at_the_end_of_their_range_are_kept_or_refused_and_the_board_is_shown() {
    let folder = Folder::new("push-extremes");
    let mut hub = recorder(&folder.0.join("hub.db"), "hub", false);
    let take = |hub: &mut Recorder, spool: &str, made: u64, writes: &[MonitorWrite]| {
        let entries: Vec<SpoolEntry> = (1..).zip(writes).map(|(id, write)| spooled(id, write)).collect();
        let body = write_batch("fra-1", "fra", spool, made, &entries);
        read(&body, &key(1), NOW).and_then(|batch| hub.take_batch(batch, NOW))
    };
    let seen =
        |at_unix_ms| MonitorWrite::Seen { prober: String::new(), place: String::new(), at_unix_ms, missed: u64::MAX };
    let future = |result: Result<u64, Refusal>| assert!(matches!(result, Err(Refusal::FutureDated(_))), "{result:?}");
    future(take(&mut hub, "a", u64::MAX, &[seen(NOW)]));
    future(take(&mut hub, "b", NOW, &[seen(u64::MAX)]));
    let event = |at: i64, number: f64| {
        MonitorWrite::Event(Box::new(tokrate_store::EventRow {
            at_unix_ms: at,
            since_unix_ms: at,
            since_earliest_unix_ms: at,
            since_latest_unix_ms: at,
            endpoint: "acme/large".to_owned(),
            metric: "ttft_ms".to_owned(),
            kind: "regression".to_owned(),
            change: number,
            low: -number,
            high: number,
            n: u64::MAX,
            ..tokrate_store::EventRow::default()
        }))
    };
    future(take(&mut hub, "c", NOW, &[event(i64::MAX, 1.0)]));
    let probe = |number: u64, ns: u64, real: f64| {
        let mut row = row("fra-1", number);
        row.slot_unix_ms = if number.is_multiple_of(2) { 0 } else { row.slot_unix_ms };
        row.probe.due_unix_ms = 0;
        let sample = &mut row.probe.sample;
        (sample.ttft_ns, sample.total_ns, sample.ttfat_ns) = (Some(ns), ns, Some(ns));
        (sample.input_tokens, sample.output_tokens, sample.output_tokens_std) = (Some(ns), Some(ns), ns);
        (sample.output_speed, sample.cost_usd) = (Some(real), Some(real));
        sample.in_flight = u32::MAX;
        MonitorWrite::Probe(Box::new(row))
    };
    let mut writes = vec![event(i64::MIN, f64::MAX), event(NOW as i64, f64::MAX), seen(NOW), seen(NOW)];
    for number in 0..60 {
        let ns = [0, 1, u64::MAX, i64::MAX as u64][number as usize % 4];
        let real = [0.0, -5.0, f64::MAX, f64::MIN_POSITIVE, 5e-324][number as usize % 5];
        writes.push(probe(number, ns, real));
    }
    for cycle in 0..20 {
        let cycle = row("fra-1", 3 * cycle).cycle;
        writes.push(MonitorWrite::CycleEnded {
            cycle,
            at_unix_ms: NOW,
            reference: "[".repeat(20_000),
            quarantine: None,
        });
    }
    assert_eq!(take(&mut hub, "d", NOW, &writes), Ok(writes.len() as u64));
    let data = crate::board_data(hub.store(), &crate::BoardFrame::default(), NOW).expect("readable");
    let site = tokrate_board::Site::new(data);
    assert!(site.files().count() > 10);
    drop(hub);
    // And the hub starts again on it.
    recorder(&folder.0.join("hub.db"), "hub", false);
}

#[test]
fn a_flood_is_refused_by_its_name_and_forgeries_use_up_nothing() {
    let known = [KnownProber { name: "fra-1".to_owned(), key: key(1).public() }];
    let start = Tick::from_nanos(1);
    let mut gate = Gate::new(&known, start);
    let body = write_batch("fra-1", "fra", "s", NOW, &entries("fra-1"));
    assert_eq!(gate.admit("nyc", start), Err(Refusal::Unknown));
    for _ in 0..1_000 {
        gate.admit("fra-1", start).expect("forgeries cost it nothing");
        assert_eq!(gate.read("fra-1", body.as_bytes(), "AAAA", NOW), Err(Refusal::Forged));
    }
    let signature = key(1).sign(body.as_bytes());
    let taken = (0..1_000).take_while(|_| {
        gate.admit("fra-1", start).is_ok() && gate.read("fra-1", body.as_bytes(), &signature, NOW).is_ok()
    });
    assert_eq!(taken.count(), 240);
    assert_eq!(gate.admit("fra-1", start), Err(Refusal::Flood));
    assert_eq!(gate.admit("fra-1", start + Span::from_millis(250)), Ok(()), "240 a minute");
    // One notice an hour for a prober and a kind, without a name that a stranger chose.
    let notice = gate.refused("<script>", &Refusal::Unknown, start).expect("the first");
    assert!(notice.starts_with("refused a batch of an unknown prober: "), "{notice}");
    for _ in 0..9 {
        assert_eq!(gate.refused("x", &Refusal::Unknown, start), None);
    }
    let later = gate.refused("y", &Refusal::Unknown, start + Span::from_secs(3_600)).expect("an hour later");
    assert!(later.starts_with("refused 10 batches of an unknown prober"), "{later}");
    assert!(gate.refused("fra-1", &Refusal::Forged, start).expect("another kind").contains("`fra-1`"));
}

/// A prober's or a hub's recorder on a database.
pub(super) fn recorder(database: &Path, prober: &str, pushes: bool) -> Recorder {
    let config = RecorderConfig {
        prober: prober.to_owned(),
        place: "fra".to_owned(),
        false_alarms: FalseAlarms::default(),
        retention_ms: u64::MAX,
        alerts: AlertSettings::default(),
        pushes,
    };
    let (store, _) = MonitorStore::open(database, NOW).expect("a store");
    Recorder::new(config, store, NOW).expect("readable")
}

/// What happens to a batch and those who hold it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It comes, and the answer too.
    Good,
    /// It is lost on its way.
    Lost,
    /// It comes, and the answer is lost.
    AnswerLost,
    /// It comes, and the hub is killed before it answers.
    HubKilled,
    /// It comes, and the prober is killed before it has the answer.
    ProberKilled,
    /// It comes twice.
    Twice,
    /// Somebody changes it.
    Forged,
}

const FATES: [Fate; 7] =
    [Fate::Good, Fate::Lost, Fate::AnswerLost, Fate::HubKilled, Fate::ProberKilled, Fate::Twice, Fate::Forged];

/// A prober and a hub, and what is between them.
struct Wire<'f> {
    folder: &'f Path,
    prober: Option<Recorder>,
    hub: Option<Recorder>,
    public: PublicKey,
}

impl<'f> Wire<'f> {
    fn new(folder: &'f Path) -> Wire<'f> {
        let mut wire = Wire { folder, prober: None, hub: None, public: key(1).public() };
        wire.restart(true);
        wire.restart(false);
        wire
    }

    /// Kills one of both, and starts it again.
    fn restart(&mut self, is_hub: bool) {
        if is_hub {
            self.hub = None;
            self.hub = Some(recorder(&self.folder.join("hub.db"), "hub", false));
        } else {
            self.prober = None;
            self.prober = Some(recorder(&self.folder.join("prober.db"), "fra-1", true));
        }
    }

    fn prober(&mut self) -> &mut Recorder {
        self.prober.as_mut().expect("started")
    }

    /// Sends the oldest batch; whether there was one.
    fn push(&mut self, fate: Fate) -> bool {
        let name = self.prober().spool_name("s").expect("writable");
        let entries = self.prober().spool().expect("readable");
        let Some(last) = entries.last().map(|entry| entry.id) else { return false };
        let mut body = write_batch("fra-1", "fra", &name, NOW, &entries).into_bytes();
        let signature = key(1).sign(&body);
        if fate == Fate::Forged {
            body.swap(40, 60);
        }
        let mut answers = Vec::new();
        for _ in 0..if fate == Fate::Twice { 2 } else { usize::from(fate != Fate::Lost) } {
            let read = Batch::read(&body, &signature, "fra-1", &self.public, NOW);
            answers.push(read.and_then(|batch| self.hub.as_mut().expect("started").take_batch(batch, NOW)));
        }
        match fate {
            Fate::HubKilled => self.restart(true),
            Fate::ProberKilled => self.restart(false),
            Fate::Lost | Fate::AnswerLost => {}
            Fate::Good | Fate::Twice | Fate::Forged => match answers.last() {
                Some(Ok(has)) => self.prober().spool_sent(*has),
                Some(Err(Refusal::Replayed(next))) => self.prober().spool_sent(last.min(next - 1)),
                Some(Err(refusal)) => assert_eq!((fate, refusal), (Fate::Forged, &Refusal::Forged)),
                None => {}
            },
        }
        true
    }
}

/// Rows without what the database itself chose, and without what a hub says itself, as of a batch that broke off.
pub(super) fn kept(store: &MonitorStore) -> (Vec<ProbeRow>, Vec<String>) {
    let notices = store.notices(0).expect("readable").into_iter().filter(|notice| notice.prober != "hub");
    let notices = notices.map(|notice| notice.text);
    (store.probes(&ProbeQuery::default()).expect("readable"), notices.collect())
}

#[test]
fn whoever_is_killed_and_whatever_is_lost_everything_is_at_the_hub_once() {
    for seed in 0..8 {
        let folder = Folder::new(&format!("push-kill-{seed}"));
        let mut rng = Rng::root(seed).child("push");
        let mut wire = Wire::new(&folder.0);
        let mut number = 0;
        for round in 0..40 {
            let rows: Vec<ProbeRow> = (0..3).map(|place| row("fra-1", number + place)).collect();
            number += 3;
            let cycle = rows[0].cycle.clone();
            let prober = wire.prober();
            prober.begin_cycle(cycle.clone(), NOW);
            prober.keep(rows);
            prober.notice(format!("round {round}"), NOW);
            let quarantine = rng.chance(0.2).then(|| "slow here".to_owned());
            let closed = ClosedCycle { cycle: 0, quarantine, references: Vec::new(), probes: Vec::new() };
            prober.end_cycle(cycle, &closed, NOW);
            prober.seen(NOW, 1);
            for _ in 0..rng.below(3) {
                wire.push(FATES[rng.below(FATES.len() as u64) as usize]);
            }
        }
        while wire.push(Fate::Good) {}
        let prober = kept(wire.prober().store());
        let hub = kept(wire.hub.as_ref().expect("started").store());
        assert_eq!((prober.0.len(), prober.1.len()), (120, 40));
        assert_eq!(prober, hub, "seed {seed}");
        let missed = |store: &MonitorStore| store.probers().expect("readable")[0].missed;
        assert_eq!(missed(wire.hub.as_ref().expect("started").store()), 40, "seed {seed}");
    }
}

proptest! {
    #[test]
    fn a_body_that_was_changed_anywhere_is_forged(at in 0usize..2_000, to: u8) {
        let mut body = write_batch("fra-1", "fra", "s", NOW, &entries("fra-1")).into_bytes();
        let signature = key(1).sign(&body);
        let at = at % body.len();
        prop_assume!(body[at] != to);
        body[at] = to;
        let read = Batch::read(&body, &signature, "fra-1", &key(1).public(), NOW);
        prop_assert_eq!(read, Err(Refusal::Forged));
    }

    #[test]
    fn what_a_prober_signs_is_read_or_refused_and_never_written_in_anothers_name(text in ".{0,200}", at in 0usize..2_000) {
        let mut body = write_batch("fra-1", "fra", "s", NOW, &entries("fra-1"));
        let mut at = at % body.len();
        while !body.is_char_boundary(at) { at -= 1; }
        body.insert_str(at, &text);
        if let Ok(batch) = read(&body, &key(1), NOW) {
            for (_, write) in batch.writes {
                if let MonitorWrite::Probe(row) = write {
                    prop_assert_eq!((row.probe.prober.as_str(), row.probe.id.starts_with("fra-1-")), ("fra-1", true));
                }
            }
        }
    }
}

//! Batches that a prober pushes: refused without its signature; with it read or refused with a reason, and never written in another's
//! name.

use tokrate_monitor::{Batch, PushKey, Refusal};
use tokrate_store::MonitorWrite;

/// 32 times `A`, in base64.
const KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
const PROBER: &str = "fra-1";
/// 2026-06-01 00:00 UTC.
const NOW: u64 = 1_780_272_000_000;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let key = PushKey::parse(KEY).expect("a key");
    let signature = key.sign(input);
    let mut other = input.to_vec();
    other.push(b' ');
    assert_eq!(Batch::read(&other, &signature, PROBER, &key.public(), NOW), Err(Refusal::Forged));
    match Batch::read(input, &signature, PROBER, &key.public(), NOW) {
        Err(refusal) => {
            assert!(!matches!(refusal, Refusal::Forged | Refusal::Unknown | Refusal::Replayed(_)), "{refusal:?}");
            let text = refusal.to_string();
            assert!(text.len() < 1_000 && !text.contains(char::is_control), "{text:?}");
        }
        Ok(batch) => {
            assert!(batch.writes().is_sorted_by(|one, other| one.0 < other.0) && !batch.writes().is_empty());
            batch.writes().iter().for_each(|(_, write)| check(write));
        }
    }
}

/// A write is of the prober, and of no time to come.
fn check(write: &MonitorWrite) {
    let latest = NOW + 300_000;
    match write {
        MonitorWrite::Probe(row) => {
            assert!(
                row.probe.prober == PROBER && row.probe.id.starts_with("fra-1-") && row.cycle.starts_with("fra-1-")
            );
            assert!(row.probe.sample.started_unix_ms <= latest);
        }
        MonitorWrite::CycleBegun { cycle, prober, .. } => assert!(prober == PROBER && cycle.starts_with("fra-1-")),
        MonitorWrite::CycleEnded { cycle, .. } => assert!(cycle.starts_with("fra-1-")),
        MonitorWrite::Quarantine { prober, .. } | MonitorWrite::Seen { prober, .. } => assert_eq!(prober, PROBER),
        MonitorWrite::Notice { prober, text, .. } => {
            assert!(prober == PROBER && text.len() <= 600 && !text.contains(char::is_control));
        }
        MonitorWrite::Event(event) => assert!(event.change.is_finite() && event.at_unix_ms <= latest as i64),
        other => panic!("a batch writes {other:?}"),
    }
}

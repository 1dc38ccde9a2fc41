//! A fixed sample of honest and cheating engines. The table of docs/method.md is made by `examples/integrity.rs`.

use tokrate_dst::integrity::{CHEATS, cheating, findings, honest};
use tokrate_record::SuspicionKind;

#[test]
fn honest_engines_raise_no_alarm() {
    for seed in 0..60 {
        let (mut seen, _) = findings(&honest(seed));
        // These two explain numbers: an engine may reason in a dialect that does not carry reasoning.
        seen.retain(|kind, _| !matches!(kind, SuspicionKind::ReasoningHidden | SuspicionKind::UsageDisagrees));
        assert!(seen.is_empty(), "seed {seed}: {seen:?}");
    }
}

#[test]
fn an_engine_that_always_cheats_is_detected() {
    for (cheat, kind) in CHEATS {
        let (seen, measured) = findings(&cheating(1, cheat, 1.0, 12));
        assert_eq!(seen.get(&kind).map(|(count, _)| *count), Some(measured), "{cheat}: {seen:?}");
    }
}

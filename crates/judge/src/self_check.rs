//! One target measured as two: what a comparison finds where there is nothing to find.
//!
//! Invariant: the rounds of both halves are the same, parted in other ways, so that only chance and the state of rounds can tell them apart.

use crate::compare::{CompareOptions, CompareReport, CompareVerdict, compare};
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_record::run::whole_rounds;
use tokrate_record::{PhaseResult, Record, RunSamples};

/// Ways to part the rounds that are tried at most: all 35 of twice four rounds, and as many as a second takes of more.
const MAX_SPLITS: usize = 100;

/// What a target says of itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SelfCheck {
    /// Whether no difference was called between the two halves as they were measured.
    pub passed: bool,
    /// The rows of the comparison that were called a difference.
    pub differences: Vec<String>,
    /// Ways in which the same rounds were parted in two.
    pub splits: u64,
    /// Those of them in which a difference would have been called.
    pub called: u64,
    /// All of it in a sentence.
    pub sentence: String,
}

impl SelfCheck {
    /// Of both halves as they were measured, and the comparison of them.
    pub(crate) fn of(a: &Record, b: &Record, report: &CompareReport) -> SelfCheck {
        let is_called = |verdict| matches!(verdict, CompareVerdict::Better | CompareVerdict::Worse);
        let called_rows = report.rows.iter().filter(|row| is_called(row.verdict));
        let differences: Vec<String> = called_rows
            .map(|row| format!("{} at {} is called {}", row.metric.label(), row.level, row.verdict.words()))
            .collect();
        let (of_a, of_b) = (rounds_of_each(a), rounds_of_each(b));
        let parted_rounds = of_a.min(of_b);
        let (splits, called) = parted(a, b, parted_rounds);
        let passed = differences.is_empty();
        let found = if passed { "no difference was called".to_owned() } else { differences.join("; ") };
        let share = 100.0 * called as f64 / splits.max(1) as f64;
        let often = match splits {
            0 | 1 => "less than two rounds of each half tell nothing of how often one would be; give more --rounds"
                .to_owned(),
            _ => format!(
                "of {splits} ways to part the same {} rounds in two, {called} would be called a difference ({share:.0} %; {:.0} % are stated)",
                2 * parted_rounds,
                100.0 * report.alpha
            ),
        };
        let meaning = if passed {
            String::new()
        } else {
            ": this machine, its network or the server makes differences from nothing, so do not trust others"
                .to_owned()
        };
        // A run that was ended early leaves one half with fewer.
        let rounds = if of_a == of_b { format!("{of_a} rounds each") } else { format!("{of_a} and {of_b} rounds") };
        let sentence = format!("self-check: the target against itself, {rounds}: {found}{meaning}; {often}");
        SelfCheck { passed, differences, splits, called, sentence }
    }
}

/// Rounds that every level has, those that were cut off left out.
fn rounds_of_each(record: &Record) -> usize {
    whole_rounds(&record.phases).iter().map(|rounds| rounds.phases.len()).min().unwrap_or(0)
}

/// How many ways to part so many rounds of both were tried, and in how many a difference is called.
fn parted(a: &Record, b: &Record, rounds: usize) -> (u64, u64) {
    let splits = splits(rounds);
    let options = CompareOptions { ignore: vec!["all".to_owned()], ..CompareOptions::default() };
    let half = |split: &[bool], wanted: bool| {
        let mut phases: Vec<PhaseResult> = Vec::new();
        for (mine, theirs) in whole_rounds(&a.phases).iter().zip(whole_rounds(&b.phases)) {
            let both = mine.phases.iter().take(rounds).chain(theirs.phases.iter().take(rounds));
            phases.extend(
                both.zip(split).filter(|(_, of_first)| **of_first == wanted).map(|(phase, _)| (*phase).clone()),
            );
        }
        RunSamples::of_record(&Record { phases, until: None, ..a.clone() })
    };
    let is_called = |split: &&Vec<bool>| {
        let report = compare(&half(split, true), &half(split, false), &options);
        let rows = report.map_or_else(|_| Vec::new(), |report| report.rows);
        rows.iter().any(|row| matches!(row.verdict, CompareVerdict::Better | CompareVerdict::Worse))
    };
    (splits.len() as u64, splits.iter().filter(is_called).count() as u64)
}

/// Ways to part twice so many rounds in two halves, the first round always in the first; all of them or a random choice.
fn splits(rounds: usize) -> Vec<Vec<bool>> {
    let all = 2 * rounds;
    if rounds == 0 {
        return Vec::new();
    }
    if all <= 8 {
        let masks = (0..1_u32 << all).filter(|mask| mask & 1 == 1 && mask.count_ones() as usize == rounds);
        return masks.map(|mask| (0..all).map(|place| mask >> place & 1 == 1).collect()).collect();
    }
    let mut rng = Rng::root(0).child("self-check");
    let random = |_| {
        let mut split: Vec<bool> = (0..all).map(|place| place < rounds).collect();
        (1..all).rev().for_each(|place| split.swap(place, rng.below(place as u64 + 1) as usize));
        split
    };
    (0..MAX_SPLITS).map(random).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Comparison;
    use tokrate_meter::fixtures::steady_request;
    use tokrate_record::fixtures::{closed, phase, record};

    fn rounds(ttfts: &[u64]) -> Record {
        let round = |ttft: u64| {
            phase(&closed(1), &(0..10).map(|i| steady_request(i, i * 2_000, ttft + i, 10, 40)).collect::<Vec<_>>())
        };
        record(ttfts.iter().copied().map(round).collect())
    }

    fn checked(a: &[u64], b: &[u64]) -> SelfCheck {
        let names = ["x".to_owned(), "x (2)".to_owned()];
        let judged = Comparison::of(vec![rounds(a), rounds(b)]).judged(&names, false).self_checked();
        judged.self_check.expect("two records")
    }

    #[test]
    fn every_way_to_part_eight_rounds_is_tried_once() {
        let splits = splits(4);
        assert_eq!(splits.len(), 35);
        assert!(splits.iter().all(|split| split[0] && split.iter().filter(|of_first| **of_first).count() == 4));
        assert_eq!((super::splits(0).len(), super::splits(1).len(), super::splits(5).len()), (0, 1, 100));
    }

    #[test]
    fn a_target_that_is_like_itself_passes_and_says_how_often_chance_is_called_a_difference() {
        let check = checked(&[100, 102, 98, 101], &[99, 101, 100, 102]);
        assert!(check.passed && check.called <= 4, "{check:?}");
        assert!(
            check.sentence.contains("no difference was called; of 35 ways to part the same 8 rounds"),
            "{}",
            check.sentence
        );
    }

    #[test]
    fn a_run_that_ended_early_says_how_many_rounds_each_half_has() {
        let check = checked(&[100, 102], &[99, 101, 100]);
        assert!(check.sentence.contains("2 and 3 rounds"), "{}", check.sentence);
        assert!(check.sentence.contains("of 3 ways to part the same 4 rounds"), "{}", check.sentence);
    }

    #[test]
    fn a_round_that_was_cut_off_is_none_of_a_half() {
        let (whole, mut cut) = (rounds(&[100, 102, 98]), rounds(&[99, 101, 20]));
        cut.phases[2].interrupted = true;
        let names = ["x".to_owned(), "x (2)".to_owned()];
        let judged = Comparison::of(vec![whole, cut]).judged(&names, false).self_checked();
        let check = judged.self_check.expect("two records");
        assert!(check.passed && check.sentence.contains("3 and 2 rounds"), "{}", check.sentence);
        assert!(check.sentence.contains("of 3 ways to part the same 4 rounds"), "{}", check.sentence);
    }

    #[test]
    fn a_machine_that_makes_a_difference_from_nothing_does_not_pass() {
        let check = checked(&[100, 101, 100, 101], &[130, 131, 130, 131]);
        assert!(
            !check.passed && check.differences.iter().any(|row| row.starts_with("TTFT at concurrency 1")),
            "{check:?}"
        );
        assert!(check.sentence.contains("makes differences from nothing"), "{}", check.sentence);
    }
}

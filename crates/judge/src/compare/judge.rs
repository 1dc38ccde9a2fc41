//! Tests the samples of two measurements, and derives rows and verdicts.
//!
//! Invariant: the same samples and seed give the same report.

use super::computed;
use super::medians::{MedianTest, Medians};
use super::{
    CompareError, CompareOptions, CompareOutcome, CompareReport, CompareRow, CompareVerdict, CutRounds,
    DifferingCondition, differing_conditions,
};
use tokrate_core::{Conditions, Rng};
use tokrate_record::Metric;
use tokrate_record::run::{Counts, Load};
use tokrate_record::{AnswerLength, LevelSamples, RunSamples, VerdictLooks};
use tokrate_stats::{Interval, IntervalMethod};
use tokrate_stats::{fisher_p, holm, look_share, normal_p, share_difference, visible_errors};

/// Compares `b` with `a`, the one before.
///
/// # Errors
/// When their conditions differ in more than `options.ignore` names, when they have no level in common, or when a name to be
/// ignored is not a condition.
pub fn compare(a: &RunSamples, b: &RunSamples, options: &CompareOptions) -> Result<CompareReport, CompareError> {
    let sides = [("a", a), ("b", b)].into_iter().filter(|(_, side)| side.is_computed());
    let computed: Vec<String> = sides.map(|(name, _)| name.to_owned()).collect();
    let ignored = allowed_differences(&a.conditions, &b.conditions, !computed.is_empty(), &options.ignore)?;
    let twin =
        |level: &LevelSamples, side: &RunSamples| side.levels.iter().find(|other| other.load == level.load).cloned();
    let pairs: Vec<(&LevelSamples, LevelSamples)> =
        a.levels.iter().filter_map(|level| Some((level, twin(level, b)?))).collect();
    let names = |side: &RunSamples| side.levels.iter().map(|level| level.name.clone()).collect::<Vec<_>>();
    let cut_rounds = CutRounds { a: a.cut_rounds, b: b.cut_rounds };
    if pairs.is_empty() {
        return Err(CompareError::NoCommonLevel { a: names(a), b: names(b), cut: cut_rounds });
    }
    let alone = |side: &RunSamples, other: &RunSamples| {
        let lacks = |level: &&LevelSamples| twin(level, other).is_none();
        side.levels.iter().filter(lacks).map(|level| level.name.clone()).collect()
    };
    let family = pairs.len() * options.metrics.len();
    let judge = Judge::of(options, family, a.looks.as_ref().or(b.looks.as_ref()));
    let (mut rows, mut shares): (Vec<CompareRow>, Vec<f64>) = (Vec::new(), Vec::new());
    for (a, b) in &pairs {
        // No failures are estimated.
        let is_of_both = |metric: &&Metric| computed.is_empty() || **metric != Metric::FailureShare;
        for &metric in options.metrics.iter().filter(is_of_both) {
            rows.push(match computed.is_empty() {
                true => judge.row(metric, a, b),
                false => computed::row(metric, a, b, options.threshold),
            });
            shares.push(judge.share(a, b));
        }
    }
    let family = judge.decide(&mut rows, &shares);
    let looks = judge.looks.map(|_| LOOKS.to_owned());
    let outcome = match &rows {
        rows if rows.iter().any(|row| row.regression) => CompareOutcome::Regression,
        rows if rows.iter().all(|row| row.p.is_none() && (computed.is_empty() || row.change.is_none())) => {
            CompareOutcome::NothingCompared
        }
        _ => CompareOutcome::NoRegression,
    };
    Ok(CompareReport {
        schema: "tokrate.compare.v1".to_owned(),
        unlike: ignored,
        notes: if computed.is_empty() { notes(&pairs, &rows, looks) } else { vec![COMPUTED.to_owned()] },
        computed,
        rows,
        only_in_a: alone(a, b),
        only_in_b: alone(b, a),
        cut_rounds,
        family,
        alpha: options.alpha,
        threshold: options.threshold,
        outcome,
    })
}

/// Whether what is to be measured can be compared with `a`, the one before: its conditions, and its loads with their names.
///
/// # Errors
/// As of [`compare`], which the finished measurement would end with.
pub fn check_plan(
    a: &RunSamples,
    conditions: &Conditions,
    planned: &[(Load, String)],
    ignore: &[String],
) -> Result<(), CompareError> {
    allowed_differences(&a.conditions, conditions, a.is_computed(), ignore)?;
    if a.levels.iter().any(|level| planned.iter().any(|(load, _)| *load == level.load)) {
        return Ok(());
    }
    let names = a.levels.iter().map(|level| level.name.clone()).collect();
    let planned = planned.iter().map(|(_, name)| name.clone()).collect();
    Err(CompareError::NoCommonLevel { a: names, b: planned, cut: CutRounds { a: a.cut_rounds, b: 0 } })
}

/// The conditions that differ and may.
fn allowed_differences(
    a: &Conditions,
    b: &Conditions,
    is_computed: bool,
    ignore: &[String],
) -> Result<Vec<DifferingCondition>, CompareError> {
    let (ignored, mut refused) = differing_conditions(a, b, ignore)?;
    if is_computed {
        refused.retain(computed::shared);
    }
    if refused.is_empty() { Ok(ignored) } else { Err(CompareError::DifferingConditions(refused)) }
}

/// The rows of some metrics of pairs of levels; their tests are one family. Also returns its size.
pub(crate) fn compare_pairs(
    pairs: &[(&LevelSamples, &LevelSamples)],
    options: &CompareOptions,
) -> (Vec<CompareRow>, u64) {
    let family = pairs.len() * options.metrics.len();
    let judge = Judge::of(options, family, None);
    let mut rows: Vec<CompareRow> = Vec::new();
    for (a, b) in pairs {
        rows.extend(options.metrics.iter().map(|metric| judge.row(*metric, a, b)));
    }
    let shares = vec![1.0; rows.len()];
    let family = judge.decide(&mut rows, &shares);
    (rows, family)
}

struct Judge<'o> {
    options: &'o CompareOptions,
    /// The strictest level at which Holm's first step tests.
    alpha_each: f64,
    root: Rng,
    /// How the comparison was looked at while it was measured, and how many tests share the error then.
    looks: Option<(&'o VerdictLooks, u64)>,
}

impl<'o> Judge<'o> {
    fn of(options: &'o CompareOptions, family: usize, looks: Option<&'o VerdictLooks>) -> Judge<'o> {
        let looks = looks.map(|looks| (looks, family.max(1) as u64 * looks.comparisons.max(1)));
        let tests = looks.map_or(family as u64, |(_, tests)| tests);
        Judge { options, alpha_each: options.alpha / tests.max(1) as f64, root: Rng::root(options.seed), looks }
    }

    /// The share of its error that a test of a level may spend at the last look.
    fn share(&self, a: &LevelSamples, b: &LevelSamples) -> f64 {
        let Some((looks, _)) = self.looks else { return 1.0 };
        let rounds = |level: &LevelSamples| level.of_phases.rounds.values().map(Vec::len).max().unwrap_or(0);
        look_share(looks.taken(rounds(a).max(rounds(b)) as u64))
    }

    /// The confidence of an interval: of one that was looked at again and again as much as all of them together need.
    fn confidence(&self, share: f64) -> f64 {
        match self.looks {
            None => MedianTest::CONFIDENCE,
            Some((_, tests)) => 1.0 - self.options.alpha * share / tests as f64,
        }
    }

    fn row(&self, metric: Metric, a: &LevelSamples, b: &LevelSamples) -> CompareRow {
        let row = CompareRow::blank(metric, &a.name);
        match metric {
            Metric::FailureShare => self.failures(row, a, b),
            Metric::Throughput => self.throughput(row, a, b),
            Metric::E2e | Metric::E2eFromDue => {
                let row = self.medians(row, a, b);
                match AnswerLength::difference(a.of_phases.answer_length, b.of_phases.answer_length) {
                    // The whole time of a shorter answer is shorter.
                    Some(note) => CompareRow { p: None, smallest_visible: None, note: Some(note), ..row },
                    None => row,
                }
            }
            _ => self.medians(row, a, b),
        }
    }

    fn medians(&self, row: CompareRow, a: &LevelSamples, b: &LevelSamples) -> CompareRow {
        let speed = row.metric == Metric::OutputSpeed;
        // Times per token have medians where speeds have theirs.
        let metric = if speed { Metric::Tpot } else { row.metric };
        let shown = |milliseconds: f64| if speed { 1e3 / milliseconds } else { milliseconds };
        let share = self.share(a, b);
        let (a, b) = (Medians::of(a, metric), Medians::of(b, metric));
        let value = |side: &Medians<'_>| side.value.map(shown).filter(|value| value.is_finite());
        let row = CompareRow { n_a: a.n(), n_b: b.n(), a: value(&a), b: value(&b), ..row };
        let rng = self.root.child(&row.level).child(row.metric.name());
        let test = match MedianTest::of(&a, &b, self.alpha_each * share, self.confidence(share), &rng) {
            Ok(test) => test,
            Err(note) => return CompareRow { note: Some(note), ..row },
        };
        let (low, high) = if speed { (1.0 / test.high, 1.0 / test.low) } else { (test.low, test.high) };
        CompareRow {
            change: row.a.zip(row.b).map(|(a, b)| b / a),
            interval: Some(Interval { low, high, confidence: MedianTest::CONFIDENCE, method: test.method }),
            p: Some(test.p),
            smallest_visible: Some(test.visible),
            rounds: test.rounds,
            ..row
        }
    }

    fn throughput(&self, row: CompareRow, a: &LevelSamples, b: &LevelSamples) -> CompareRow {
        let rounds = [a, b].map(|side| side.of_phases.rounds(Metric::Throughput));
        let share = self.share(a, b);
        let (Some(a), Some(b)) = (a.throughput, b.throughput) else {
            return CompareRow { note: Some("a side has no steady window".to_owned()), ..row };
        };
        let row = CompareRow {
            n_a: a.seconds as u64,
            n_b: b.seconds as u64,
            a: Some(a.tokens_per_second),
            b: Some(b.tokens_per_second),
            ..row
        };
        if a.tokens_per_second <= 0.0 || b.tokens_per_second <= 0.0 {
            return CompareRow { note: Some("a throughput of 0 has no ratio".to_owned()), ..row };
        }
        let ratio = b.tokens_per_second / a.tokens_per_second;
        let row = CompareRow { change: Some(ratio), ..row };
        let errors = a.standard_error.zip(b.standard_error);
        let error = errors.map(|(in_a, in_b)| (in_a / a.tokens_per_second).hypot(in_b / b.tokens_per_second));
        if rounds[0].len().min(rounds[1].len()) > 1 {
            let (alpha, sure) = (self.alpha_each * share, self.confidence(share));
            let test = MedianTest::of_rounds(rounds, ratio.ln(), error.unwrap_or(0.0), 0.0, alpha, sure);
            let (confidence, method) = (MedianTest::CONFIDENCE, test.method);
            return CompareRow {
                interval: Some(Interval { low: test.low, high: test.high, confidence, method }),
                p: Some(test.p),
                smallest_visible: Some(test.visible - 1.0),
                rounds: test.rounds,
                ..row
            };
        }
        let Some(error) = error else {
            let note =
                "a steady window shorter than 10 s has no interval; several rounds of both sides have one (--rounds 4)";
            return CompareRow { note: Some(note.to_owned()), ..row };
        };
        let reach = visible_errors(0.05) - visible_errors(1.0);
        CompareRow {
            interval: Some(Interval {
                low: ratio * (-reach * error).exp(),
                high: ratio * (reach * error).exp(),
                confidence: 0.95,
                method: IntervalMethod::Normal,
            }),
            p: Some(if ratio == 1.0 { 1.0 } else { normal_p(ratio.ln() / error.max(1e-12)) }),
            smallest_visible: Some((visible_errors(self.alpha_each) * error).exp() - 1.0),
            ..row
        }
    }

    fn failures(&self, row: CompareRow, a: &LevelSamples, b: &LevelSamples) -> CompareRow {
        let row = CompareRow { n_a: a.ended, n_b: b.ended, ..row };
        if a.ended == 0 || b.ended == 0 {
            return CompareRow { note: Some("a side has no request that ended".to_owned()), ..row };
        }
        let share = |level: &LevelSamples| level.failed as f64 / level.ended as f64;
        let (share_a, share_b) = (share(a), share(b));
        // One failure is added, so that the error is not 0 where nothing failed.
        let pooled = (a.failed + b.failed + 1) as f64 / (a.ended + b.ended + 2) as f64;
        let error = (pooled * (1.0 - pooled) * (1.0 / a.ended as f64 + 1.0 / b.ended as f64)).sqrt();
        CompareRow {
            a: Some(share_a),
            b: Some(share_b),
            change: Some(share_b - share_a),
            interval: share_difference(a.failed, a.ended, b.failed, b.ended),
            p: Some(fisher_p(a.failed, a.ended, b.failed, b.ended)),
            smallest_visible: Some(visible_errors(self.alpha_each) * error),
            ..row
        }
    }

    /// Corrects p for the family of tests and sets the verdicts; returns the size of the family. The shares of the error are those of the rows.
    fn decide(&self, rows: &mut [CompareRow], shares: &[f64]) -> u64 {
        let mut tested: Vec<(&mut CompareRow, f64)> =
            rows.iter_mut().zip(shares.iter().copied()).filter(|(row, _)| row.p.is_some()).collect();
        let p: Vec<f64> = tested.iter().filter_map(|(row, _)| row.p).collect();
        let corrected = match self.looks {
            None => holm(&p),
            // Bonferroni over tests and looks: what is spent at one look is not there for the others.
            Some((_, tests)) => {
                let adjusted = |(p, (_, share)): (&f64, &(&mut CompareRow, f64))| (p * tests as f64 / share).min(1.0);
                p.iter().zip(&tested).map(adjusted).collect()
            }
        };
        for ((row, _), adjusted) in tested.iter_mut().zip(corrected) {
            row.p_adjusted = Some(adjusted);
            self.judge(row, adjusted);
        }
        p.len() as u64
    }

    fn judge(&self, row: &mut CompareRow, p: f64) {
        let share = row.metric == Metric::FailureShare;
        let change = row.change.unwrap_or(if share { 0.0 } else { 1.0 });
        // As a relative change for the worse; for shares as their difference, whose threshold is the share that is reported
        // first in every result.
        let worse_by = match (share, row.metric.row().more_is_better) {
            (true, _) => change,
            (false, true) => 1.0 - change,
            (false, false) => change - 1.0,
        };
        let threshold = if share { Counts::FAILURE_LIMIT } else { self.options.threshold };
        let visible = row.smallest_visible.unwrap_or(f64::INFINITY);
        // p is that of ranks, the interval that of medians: a change needs both, or a verdict would appear next to
        // an interval that contradicts it.
        let none = if share { 0.0 } else { 1.0 };
        let moved = row.interval.is_none_or(|interval| interval.low > none || interval.high < none);
        let is_none = match self.looks {
            None => visible <= threshold,
            // A difference of that size lies outside of an interval that holds at every look.
            Some(_) if share => row.interval.is_some_and(|it| -threshold < it.low && it.high < threshold),
            Some(_) => row.interval.is_some_and(|it| 1.0 < it.low * (1.0 + threshold) && it.high < 1.0 + threshold),
        };
        row.verdict = match (p < self.options.alpha && moved, worse_by > 0.0) {
            (true, true) => CompareVerdict::Worse,
            (true, false) => CompareVerdict::Better,
            (false, _) if is_none => CompareVerdict::NoDifference,
            (false, _) => CompareVerdict::Undecided,
        };
        if p < self.options.alpha && !moved {
            let note = "the distributions differ, the figure itself does not show it";
            row.note.get_or_insert(note.to_owned());
        }
        row.regression = row.verdict == CompareVerdict::Worse && worse_by > threshold;
        if row.verdict == CompareVerdict::Undecided {
            let (scale, unit) = (100.0, if share { "percentage points" } else { "%" });
            let note = format!("only changes from {:.1} {unit} on would be seen", visible * scale);
            row.note.get_or_insert(note);
        }
    }
}

/// With fewer rounds of each side it is mostly their number that hides a difference: the t quantiles of one test of five (docs/method.md) fall
/// from 9.9 at two rounds to 3.7 at four, and to 3.0 at eight.
pub(crate) const ENOUGH_ROUNDS: u64 = 4;

/// What a comparison with an estimate is.
const COMPUTED: &str = "an estimate is computed, not measured: nothing is tested; a measured figure is held against the estimate's \
                        interval, which says how far such estimates are off";

/// Whether a comparison rests on rounds.
fn has_rounds(pairs: &[(&LevelSamples, LevelSamples)]) -> bool {
    let several = |level: &LevelSamples| {
        level.of_phases.rounds(Metric::Ttft).len().max(level.of_phases.rounds(Metric::E2e).len()) > 1
    };
    pairs.iter().any(|(a, b)| several(a) && several(b))
}

/// That rounds are too few to see what the threshold asks for; `None` where they are enough or everything was decided.
fn too_few_rounds(rows: &[CompareRow]) -> Option<String> {
    let is_few = |row: &&CompareRow| row.rounds.is_some_and(|rounds| rounds < ENOUGH_ROUNDS);
    let undecided = || rows.iter().filter(is_few).filter(|row| row.verdict == CompareVerdict::Undecided);
    let rounds = undecided().filter_map(|row| row.rounds).min()?;
    let seen = || undecided().filter_map(|row| row.smallest_visible);
    let (least, most) = (seen().fold(f64::INFINITY, f64::min), seen().fold(0.0, f64::max));
    let range =
        if most - least < 5e-4 { String::new() } else { format!(" to {:.1} %, by metric and level", most * 100.0) };
    Some(format!(
        "too few rounds ({rounds}) to see a change of less than {:.1} %{range}; --rounds {ENOUGH_ROUNDS} of both sides shows smaller ones",
        least * 100.0
    ))
}

/// Whether a comparison of times rests on a single round somewhere. Rows of a log have no rounds.
fn has_single_rounds(pairs: &[(&LevelSamples, LevelSamples)]) -> bool {
    let single = |level: &LevelSamples| level.of_phases.rounds(Metric::E2e).len() == 1;
    pairs.iter().any(|(a, b)| single(a) || single(b))
}

fn is_coarse(level: &LevelSamples) -> bool {
    level.times.values().any(|samples| samples.resolution > 0.0)
}

/// What an end as soon as there are verdicts costs.
const LOOKS: &str = "the run was looked at after some of its rounds and ended when it had its verdicts: p and intervals are corrected for all \
                     looks and all tests together (Bonferroni), and no difference means that the whole interval lies within the threshold";

fn notes(pairs: &[(&LevelSamples, LevelSamples)], rows: &[CompareRow], looks: Option<String>) -> Vec<String> {
    let Some(looks) = looks else { return notes_of_one_look(pairs, rows) };
    let mut notes = notes_of_one_look(pairs, rows);
    notes[0] = looks;
    notes
}

fn notes_of_one_look(pairs: &[(&LevelSamples, LevelSamples)], rows: &[CompareRow]) -> Vec<String> {
    let mut notes = vec![
        "p are corrected for all tests of the comparison together (Holm); medians: permutation test of ranks and bootstrap; \
         throughput: from one-second parts of the window; failure share: Fisher's exact test"
            .to_owned(),
    ];
    if has_rounds(pairs) {
        notes.push(
            "where both sides have several rounds, medians and throughputs are tested by those of the rounds (t-test), as \
             requests of one round share its state"
                .to_owned(),
        );
    }
    notes.extend(too_few_rounds(rows));
    if has_single_rounds(pairs) {
        notes.push(
            "a side has a single round of a level: by how much rounds differ among themselves is not known there, so that a small \
             difference may be the state of that round and not of what was measured; --rounds 4 of both sides tells them apart"
                .to_owned(),
        );
    }
    let coarse = pairs.iter().any(|(a, b)| is_coarse(a) || is_coarse(b));
    if coarse {
        notes.push(
            "samples stem from the sketches of a record (64 buckets per octave): each is within 0.55 % of what was \
             measured; with the rows of --jsonl beside the record they are exact"
                .to_owned(),
        );
    }
    notes
}

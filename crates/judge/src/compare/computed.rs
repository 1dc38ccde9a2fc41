//! A comparison in which a side was computed and not measured: held against the interval of the estimate, never tested, as an
//! estimate has no samples.
//!
//! Invariant: only a measurement that is slower than its estimate may be a regression.

use super::{CompareRow, CompareVerdict, DifferingCondition};
use tokrate_record::{LevelSamples, Metric};
use tokrate_stats::{Interval, IntervalMethod, QuantileStatus};

/// Conditions that an estimate has: what it does not have cannot differ.
const SHARED: [&str; 4] = ["input_tokens", "output_tokens", "shared_prefix_tokens", "arrivals"];

/// Coverage of an estimate's interval of throughput.
const CONFIDENCE: f64 = 0.8;

/// Which of the differing conditions are of both sides.
pub(super) fn shared(condition: &DifferingCondition) -> bool {
    SHARED.contains(&condition.name.as_str())
}

/// A figure of one side.
#[derive(Clone, Copy)]
struct Side {
    n: u64,
    value: f64,
    /// The interval of an estimate; of a measurement the value itself.
    low: f64,
    high: f64,
    /// Coverage of that interval.
    confidence: f64,
    is_computed: bool,
}

impl Side {
    fn of(metric: Metric, level: &LevelSamples) -> Option<Side> {
        match metric {
            Metric::FailureShare => None,
            Metric::Throughput => {
                let seen = level.throughput?;
                let value = seen.tokens_per_second;
                let (low, high) = seen.computed.unwrap_or((value, value));
                let is_computed = seen.computed.is_some();
                Some(Side { n: seen.seconds as u64, value, low, high, confidence: CONFIDENCE, is_computed })
            }
            Metric::OutputSpeed => {
                let time = Side::of(Metric::Tpot, level)?;
                Some(Side { value: 1e3 / time.value, low: 1e3 / time.high, high: 1e3 / time.low, ..time })
            }
            time => {
                let samples = level.times(time);
                let median = samples.median();
                let is_computed = median.status == QuantileStatus::Computed;
                let value = median.nearest_rank()?;
                let (low, high) = median.low.zip(median.high).filter(|_| is_computed).unwrap_or((value, value));
                Some(Side { n: samples.n(), value, low, high, confidence: median.confidence, is_computed })
            }
        }
        .filter(|side| [side.value, side.low, side.high].iter().all(|value| value.is_finite() && *value > 0.0))
    }
}

/// The row of a metric at a level of two sides, of which one or both were computed.
pub(super) fn row(metric: Metric, a: &LevelSamples, b: &LevelSamples, threshold: f64) -> CompareRow {
    let row = CompareRow::blank(metric, &a.name);
    let (side_a, side_b) = (Side::of(metric, a), Side::of(metric, b));
    let row = CompareRow {
        n_a: side_a.map_or(0, |side| side.n),
        n_b: side_b.map_or(0, |side| side.n),
        a: side_a.map(|side| side.value),
        b: side_b.map(|side| side.value),
        ..row
    };
    let Some((a, b)) = side_a.zip(side_b) else {
        return CompareRow { note: Some("a side does not have it".to_owned()), ..row };
    };
    let (low, high) = (b.low / a.high, b.high / a.low);
    let change = b.value / a.value;
    let row = CompareRow {
        change: Some(change),
        interval: Some(Interval {
            low,
            high,
            confidence: a.confidence.min(b.confidence),
            method: IntervalMethod::Estimate,
        }),
        ..row
    };
    if a.is_computed && b.is_computed {
        let note = "both are computed, so that nothing can be tested";
        return CompareRow { note: Some(note.to_owned()), ..row };
    }
    let more_is_better = metric.row().more_is_better;
    let verdict = match () {
        () if (low..=high).contains(&1.0) => CompareVerdict::WithinEstimate,
        () if (change > 1.0) == more_is_better => CompareVerdict::Better,
        () => CompareVerdict::Worse,
    };
    let worse_by = if more_is_better { 1.0 - change } else { change - 1.0 };
    let regression = verdict == CompareVerdict::Worse && a.is_computed && worse_by > threshold;
    CompareRow { verdict, regression, ..row }
}

#[cfg(test)]
mod tests {
    use super::super::{CompareOptions, CompareOutcome, CompareReport, compare};
    use super::*;
    use tokrate_meter::fixtures::steady_request;
    use tokrate_record::RunSamples;
    use tokrate_record::fixtures::{closed, estimate, phase, record};

    /// Requests of a first token after 200 ms and `tpot` ms a token.
    fn measured(tpot: u64) -> RunSamples {
        let rows: Vec<_> = (0..12).map(|place| steady_request(place, place * 2_000, 200, tpot, 40)).collect();
        RunSamples::of_record(&record(vec![phase(&closed(1), &rows)]))
    }

    fn options() -> CompareOptions {
        // A test's requests leave gaps between them, which a closed loop does not: no throughput.
        let metrics = vec![Metric::Ttft, Metric::OutputSpeed];
        CompareOptions { ignore: vec!["output_tokens".to_owned()], metrics, ..CompareOptions::default() }
    }

    fn verdicts(report: &CompareReport, metric: Metric) -> (CompareVerdict, bool) {
        report.rows.iter().find(|row| row.metric == metric).map(|row| (row.verdict, row.regression)).expect("a row")
    }

    #[test]
    fn a_run_is_held_against_the_interval_of_its_estimate() {
        let computed = RunSamples::of_record(&estimate(&[(1, 20.0)]));
        let against = |tpot| compare(&computed, &measured(tpot), &options()).expect("the same lengths");
        let speed = Metric::OutputSpeed;
        assert_eq!(verdicts(&against(20), speed), (CompareVerdict::WithinEstimate, false));
        assert_eq!(verdicts(&against(30), speed), (CompareVerdict::Worse, true));
        assert_eq!(verdicts(&against(10), speed), (CompareVerdict::Better, false));
        assert_eq!(against(20).outcome, CompareOutcome::NoRegression);
        assert_eq!(against(30).outcome, CompareOutcome::Regression);
        assert!(against(20).rows.iter().all(|row| row.p.is_none()), "nothing is tested");
        assert_eq!(against(20).computed, ["a"]);
    }

    #[test]
    fn an_estimate_is_no_regression_of_what_was_measured() {
        let computed = RunSamples::of_record(&estimate(&[(1, 60.0)]));
        let report = compare(&measured(20), &computed, &options()).expect("the same lengths");
        assert_eq!(verdicts(&report, Metric::OutputSpeed), (CompareVerdict::Worse, false));
        assert_eq!((report.outcome, report.computed.as_slice()), (CompareOutcome::NoRegression, &["b".to_owned()][..]));
    }

    #[test]
    fn other_lengths_are_refused_and_endpoints_are_not_asked() {
        let computed = RunSamples::of_record(&estimate(&[(1, 20.0)]));
        let error = compare(&computed, &measured(20), &CompareOptions::default()).expect_err("other lengths");
        let text = error.to_string();
        assert!(text.contains("output_tokens") && !text.contains("endpoint"), "{text}");
    }
}

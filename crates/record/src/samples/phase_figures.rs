//! What the phases of a level state beside the samples of their requests: the medians of the rounds, the client's own error, and how
//! long the answers were.
//!
//! Invariant: a round whose median is not known has none here, and an error that was not measured is that of the time of a read.

use crate::metric::Metric;
use crate::run::PhaseResult;
use std::collections::BTreeMap;
use tokrate_meter::request::TIMESTAMP_ERROR;
use tokrate_stats::Level;

/// What the rounds of one load state.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PhaseFigures {
    /// The median of each round (ms), by metric. Requests of a round share its state; only rounds are independent of one another.
    pub rounds: BTreeMap<Metric, Vec<f64>>,
    /// How far the client itself may have moved the median (ms), by metric.
    pub client_error_ms: BTreeMap<Metric, f64>,
    /// How long the answers were.
    pub answer_length: Option<AnswerLength>,
}

/// The length of answers in output tokens, counted over their text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AnswerLength {
    /// Mean.
    pub mean: f64,
    /// Its standard error: 0 where all are of one length.
    pub error: f64,
}

/// Lengths that differ by less change no figure by more than it may be off (docs/method.md).
const MIN_LENGTH_DIFFERENCE: f64 = 0.02;
/// Standard errors of a difference between lengths beyond which it is none of chance (95 %).
const LENGTH_ERRORS: f64 = 1.96;

impl PhaseFigures {
    pub(super) fn of(phases: &[&PhaseResult]) -> PhaseFigures {
        let metrics = || Metric::ALL.into_iter().filter(|metric| metric.is_time_of_requests());
        let round = |metric: Metric, phase: &PhaseResult| {
            metric.times(phase)?.p50.nearest_rank().filter(|median| *median > 0.0 && median.is_finite())
        };
        let rounds = |metric: Metric| phases.iter().filter_map(|phase| round(metric, phase)).collect();
        let largest = |metric: Metric| phases.iter().map(|phase| client_error_ms(metric, phase)).fold(0.0, f64::max);
        PhaseFigures {
            rounds: metrics()
                .map(|metric| (metric, rounds(metric)))
                .chain([(Metric::Throughput, throughputs(phases))])
                .collect(),
            client_error_ms: metrics().map(|metric| (metric, largest(metric))).collect(),
            answer_length: AnswerLength::of(phases),
        }
    }

    /// The medians of the rounds (ms); their throughputs (tok/s).
    pub fn rounds(&self, metric: Metric) -> &[f64] {
        self.rounds.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// How far the client itself may have moved the median (ms).
    pub fn client_error_ms(&self, metric: Metric) -> f64 {
        self.client_error_ms.get(&metric).copied().unwrap_or(0.0)
    }
}

/// Tokens per second of each round that answered anything.
fn throughputs(phases: &[&PhaseResult]) -> Vec<f64> {
    let answered = phases.iter().filter(|phase| phase.counts.answered > 0);
    let known = answered.filter_map(|phase| Some(phase.throughput.as_ref()?.tokens_per_second));
    known.filter(|throughput| throughput.is_finite() && *throughput > 0.0).collect()
}

/// By how much the client moved the median of a phase (ms), as it was measured; else as far as the time of a read may be off.
fn client_error_ms(metric: Metric, phase: &PhaseResult) -> f64 {
    let name = format!("{} {}", metric.label(), Level::P50.name());
    let judged = phase.client_error.iter().flat_map(|error| &error.figures).find(|figure| figure.figure == name);
    let read = TIMESTAMP_ERROR.as_millis_f64();
    match (judged, metric) {
        (Some(figure), _) => figure.moved,
        // Both ends of an answer may be off, which its tokens share.
        (None, Metric::Tpot) => {
            let later = phase.tokens.std_per_request.mean.unwrap_or(0.0) - 1.0;
            if later >= 1.0 { 2.0 * read / later } else { 2.0 * read }
        }
        // It is the time shared among seconds of sound.
        (None, Metric::RealTimeFactor) => {
            let seconds = phase.audio.said_seconds.max(phase.audio.heard_seconds) / phase.audio.n.max(1) as f64;
            if seconds > 0.0 { read / 1e3 / seconds } else { 0.0 }
        }
        (None, _) => read,
    }
}

impl AnswerLength {
    /// Of all measured requests of these phases together; `None` without any.
    pub fn of(phases: &[&PhaseResult]) -> Option<AnswerLength> {
        let known = phases.iter().filter_map(|phase| {
            let length = &phase.tokens.std_per_request;
            Some((length.n as f64, length.mean?, length.standard_deviation.unwrap_or(0.0)))
        });
        let (n, sum, squares) = known.fold((0.0, 0.0, 0.0), |(n, sum, squares), (count, mean, deviation)| {
            (
                n + count,
                sum + count * mean,
                squares + count * mean * mean + (count - 1.0).max(0.0) * deviation * deviation,
            )
        });
        let mean = sum / n;
        let variance = (squares / n - mean * mean).max(0.0);
        // Rounding leaves a little where all lengths are equal.
        let variance = if variance < 1e-9 * mean * mean { 0.0 } else { variance };
        (n > 0.0 && mean > 0.0).then(|| AnswerLength { mean, error: (variance / n).sqrt() })
    }

    /// Whether two sides have answers of different lengths: by more than 2 %, and by more than chance explains.
    pub fn differs_from(&self, other: &AnswerLength) -> bool {
        let difference = (self.mean - other.mean).abs();
        difference > MIN_LENGTH_DIFFERENCE * self.mean.max(other.mean)
            && difference > LENGTH_ERRORS * self.error.hypot(other.error)
    }

    /// What is said where two sides differ; `None` where they do not, or one is not known.
    pub fn difference(a: Option<AnswerLength>, b: Option<AnswerLength>) -> Option<String> {
        let (a, b) = a.zip(b).filter(|(a, b)| a.differs_from(b))?;
        Some(format!("answers differ in length: {:.0} against {:.0} tokens", a.mean, b.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, closed, phase};
    use crate::samples::RunSamples;
    use tokrate_meter::fixtures::steady_request;
    use tokrate_meter::{ClientError, FigureValidity, RequestNumbers};

    fn round(ttft: u64, tokens: u64) -> PhaseResult {
        let rows: Vec<RequestNumbers> =
            (0..20).map(|i| steady_request(i, i * 2_000, ttft + i % 3, 10, tokens)).collect();
        phase(&closed(1), &rows)
    }

    #[test]
    fn a_level_has_the_median_of_each_of_its_rounds() {
        let record = fixtures::record(vec![round(100, 40), round(120, 40)]);
        let level = &RunSamples::of_record(&record).levels[0];
        assert_eq!(level.of_phases.rounds(Metric::Ttft), [101.0, 121.0]);
        assert_eq!(level.of_phases.rounds(Metric::Tpot), [10.0, 10.0]);
    }

    #[test]
    fn an_error_that_was_not_measured_is_that_of_the_time_of_a_read() {
        let mut one = round(100, 41);
        let of = |phase: &PhaseResult| {
            let figures = PhaseFigures::of(&[phase]);
            [Metric::Ttft, Metric::E2e, Metric::Tpot].map(|metric| figures.client_error_ms(metric))
        };
        assert_eq!(of(&one), [0.1, 0.1, 0.2 / 40.0]);
        let figures = vec![FigureValidity::time("TTFT p50", 100.0, 1.0, -0.3)];
        one.client_error = Some(ClientError { figures, ..ClientError::default() });
        assert_eq!(of(&one), [0.3, 0.1, 0.2 / 40.0]);
    }

    #[test]
    fn lengths_differ_beyond_two_percent_and_chance() {
        let of = |tokens: &[u64]| {
            let phases: Vec<PhaseResult> = tokens.iter().map(|tokens| round(100, *tokens)).collect();
            AnswerLength::of(&phases.iter().collect::<Vec<_>>())
        };
        let (short, long) = (of(&[36]), of(&[60, 60]));
        assert_eq!(
            AnswerLength::difference(short, long).as_deref(),
            Some("answers differ in length: 36 against 60 tokens")
        );
        assert_eq!(AnswerLength::difference(long, of(&[61])), None, "61 is within 2 % of 60");
        // 20 to 60 in both, in other shares: far more than 2 % apart, and within chance.
        let many = |short: usize| of(&[[20].repeat(short), [60].repeat(4 - short)].concat());
        assert!(AnswerLength::difference(many(2), many(1)).is_some(), "80 answers a side tell 40 from 50");
        let length = |mean, error| Some(AnswerLength { mean, error });
        assert_eq!(AnswerLength::difference(length(40.0, 4.0), length(45.0, 4.0)), None);
        assert_eq!(AnswerLength::difference(None, long), None);
        assert_eq!(AnswerLength::of(&[]), None);
    }
}

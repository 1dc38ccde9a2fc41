//! Conditions on how well a figure is known, such as `output_speed_p50 ± 2% @ concurrency 10`, and how well it is.
//!
//! Invariant: the interval is one between rounds, and holds although it was looked at after every round.
//!
//! Medians, means, throughputs and shares: the figures of the rounds are values of their own, whose mean has Student's interval (of those
//! above 0 that of their logarithms). Percentiles above the median, which no short round has: the quantile of the requests of all rounds,
//! by Woodruff, the rounds being the clusters. Both as [`tokrate_stats::looked_at_errors`] says.

use super::lookup::{Group, Lookup, Source, Subject, speed_level};
use super::{LoadFilter, canonical_spelling, load_filter, lookup, metric_and_statistic, read_spelled, unit_factor};
use crate::expression::{Cursor, ExpressionError, suggestion};
use std::fmt;
use tokrate_core::Sketch;
use tokrate_record::run::{Load, PhaseResult, Rounds};
use tokrate_record::{Metric, MetricUnit, PrecisionOutcome, PrecisionStatus};
use tokrate_stats::{
    Distribution, Level, MIN_ROUNDS, QuantileStatus, looked_at_errors, mean_and_error, quantile_between_rounds,
    rounds_for, wilson_interval,
};

/// Where a phase has times.
type TimesOf = fn(&PhaseResult) -> &Distribution;

/// Signs between a figure and its width.
const SIGNS: [char; 6] = ['±', '+', '<', '≤', '~', '='];

/// How well a figure is to be known.
#[derive(Clone, PartialEq, Debug)]
pub struct Precision {
    subject: Subject,
    statistic: &'static str,
    /// Half the width of its interval: as a share of the figure, or in its unit.
    width: Width,
    place: LoadFilter,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Width {
    Relative(f64),
    Absolute(f64),
}

/// A figure with its interval between rounds.
struct Estimate {
    value: f64,
    low: f64,
    /// Infinite where the samples are too few for an upper end.
    high: f64,
    /// Rounds that the asked width is expected to take in all, if any number does.
    rounds_needed: Option<u64>,
    /// Rounds in which the figure was measured.
    rounds: u64,
}

impl Precision {
    /// Parses a condition: `FIGURE ± WIDTH [@ concurrency N | @ rate R]`. Figures are those of assertions; the sign may be `+-` or `<=`, the
    /// width a share of the figure in per cent, or in its unit.
    ///
    /// # Errors
    /// The column, what was expected there, and the nearest known name.
    pub fn parse(text: &str) -> Result<Precision, ExpressionError> {
        let left = text.find(SIGNS).unwrap_or(text.len());
        let name = text[..left].trim().to_lowercase();
        let alone = match name.as_str() {
            "failure_share" => Some("failures.share".to_owned()),
            rate => lookup::subject_of(rate).and_then(Subject::only_rate),
        };
        // An unknown metric with its statistic behind it gets the names that are near.
        let parted = || {
            let (metric, statistic) = name.rsplit_once('_').filter(|_| !name.contains(['.', '(', ' ']))?;
            Level::ALL.iter().any(|level| level.name() == statistic).then(|| format!("{metric}.{statistic}"))
        };
        let canonical = alone.or_else(|| canonical_spelling(&text[..left])).or_else(parted);
        read_spelled(text, left, canonical, read).map_err(|error| {
            let example = lookup::example_for(&text[..left]);
            let figure = example.split([' ', '<', '>']).next().unwrap_or_default();
            let known = format!("{figure} ± 5%");
            // Without a width there is nothing to correct but that.
            let alone = format!("{} ± 5%", text.trim());
            error.with_example(match () {
                () if left == text.len() && Precision::parse(&alone).is_ok() => alone,
                () if read(&known).is_ok() => known,
                () => "ttft.p50 ± 5%".to_owned(),
            })
        })
    }

    /// The metric of single requests that it refers to, if any.
    pub fn metric(&self) -> Option<Metric> {
        self.subject.metric()
    }

    /// Whether it applies to phases of this load.
    pub fn is_for_load(&self, load: Load) -> bool {
        self.place.holds(load)
    }

    /// The fewest requests of a load from which the figure can be stated.
    pub fn requests_needed(&self) -> u64 {
        self.subject.min_requests(self.statistic).unwrap_or(0)
    }

    /// How well the figure is known at a load. Of a round that was cut off, by an interrupt or a limit, the short answers are there and the long
    /// ones are not: it says nothing of how rounds differ, and is left out.
    pub fn assess(&self, rounds: &Rounds<'_>) -> PrecisionOutcome {
        let whole = rounds.phases.iter().copied().filter(|phase| !phase.interrupted).collect::<Vec<&PhaseResult>>();
        let cut = rounds.phases.len() - whole.len();
        let outcome = match whole.is_empty() {
            true => self.of_no_round(rounds),
            false => self.of_whole_rounds(&Rounds { load: rounds.load, phases: whole }),
        };
        let said = match cut {
            0 => return outcome,
            1 => "; a round that was cut off is left out".to_owned(),
            cut => format!("; {cut} rounds that were cut off are left out"),
        };
        PrecisionOutcome { sentence: outcome.sentence + &said, ..outcome }
    }

    /// Nothing is known yet.
    fn of_no_round(&self, rounds: &Rounds<'_>) -> PrecisionOutcome {
        let sentence = format!("{} is not known at {}: no round came to its end", self.figure(), rounds.name());
        PrecisionOutcome { sentence, ..self.unknown(rounds.name(), 0, 0) }
    }

    fn of_whole_rounds(&self, rounds: &Rounds<'_>) -> PrecisionOutcome {
        let requests = rounds.count(|phase| phase.counts.measured);
        let measured = rounds.phases.iter().filter(|phase| phase.counts.measured > 0).count() as u64;
        let outcome = self.unknown(rounds.name(), measured, requests);
        let outcome = match self.estimate(rounds) {
            Ok(estimate) => self.judged(outcome, &estimate),
            Err(reason) => {
                // A round may have lacked it by chance; without any measured request nobody knows yet.
                let status = if requests > 0 { PrecisionStatus::NotReachable } else { PrecisionStatus::NotReached };
                let sentence = format!("{} is not known at {}: {reason}", self.figure(), outcome.phase);
                return PrecisionOutcome { status, sentence, ..outcome };
            }
        };
        PrecisionOutcome { sentence: self.sentence(&outcome), ..outcome }
    }

    /// A figure of which nothing is known yet.
    fn unknown(&self, load: &str, rounds: u64, requests: u64) -> PrecisionOutcome {
        let (asked, relative) = match self.width {
            Width::Relative(share) => (share, true),
            Width::Absolute(width) => (width, false),
        };
        PrecisionOutcome {
            condition: self.to_string(),
            phase: load.to_owned(),
            status: PrecisionStatus::NotReached,
            value: None,
            unit: self.subject.unit_of(self.statistic).name().to_owned(),
            low: None,
            high: None,
            half_width: None,
            asked,
            relative,
            rounds,
            requests,
            more_requests: None,
            sentence: String::new(),
        }
    }

    fn judged(&self, outcome: PrecisionOutcome, estimate: &Estimate) -> PrecisionOutcome {
        let scale = if outcome.relative { estimate.value.abs() } else { 1.0 };
        let half = (estimate.high - estimate.low) / 2.0 / scale;
        let known = Some(half).filter(|half| half.is_finite());
        let is_enough = estimate.rounds >= MIN_ROUNDS && outcome.requests >= self.requests_needed();
        let is_reachable = !(outcome.relative && estimate.value == 0.0);
        let status = match known {
            _ if !is_reachable => PrecisionStatus::NotReachable,
            Some(half) if half <= outcome.asked && is_enough => PrecisionStatus::Reached,
            _ => PrecisionStatus::NotReached,
        };
        let of_a_round = outcome.requests as f64 / estimate.rounds.max(1) as f64;
        let more = estimate.rounds_needed.map(|rounds| {
            let least = (self.requests_needed() as f64).max(rounds as f64 * of_a_round);
            (least - outcome.requests as f64).max(of_a_round).ceil() as u64
        });
        PrecisionOutcome {
            status,
            value: Some(estimate.value),
            low: Some(estimate.low),
            high: Some(estimate.high).filter(|high| high.is_finite()),
            half_width: known,
            rounds: estimate.rounds,
            more_requests: more.filter(|_| status == PrecisionStatus::NotReached),
            ..outcome
        }
    }

    /// The figure and its interval, or why there is none.
    fn estimate(&self, rounds: &Rounds<'_>) -> Result<Estimate, String> {
        match self.tail() {
            Some((of, level, is_speed)) => self.of_tail(rounds, of, level, is_speed),
            None if self.subject.unit_of(self.statistic) == MetricUnit::Share => self.of_shares(rounds),
            None => self.of_figures(rounds),
        }
    }

    /// The times of a percentile above the median, and whether the figure is a speed made of them.
    fn tail(&self) -> Option<(TimesOf, Level, bool)> {
        match self.subject.source() {
            Source::Times(of) => {
                let level = Level::ALL.into_iter().find(|level| level.name() == self.statistic)?;
                (level != Level::P50).then_some((of, level, false))
            }
            Source::Speeds(_) => {
                let level = speed_level(self.statistic)?;
                (level != Level::P50).then_some((|phase| &phase.tpot, level, true))
            }
            _ => None,
        }
    }

    /// From the figures of the rounds.
    fn of_figures(&self, rounds: &Rounds<'_>) -> Result<Estimate, String> {
        let figures: Vec<f64> = rounds.phases.iter().filter_map(|phase| self.of_round(phase)).collect();
        let count = figures.len() as u64;
        if figures.is_empty() {
            return Err(self.missing_reason(rounds));
        }
        let all = match self.subject.find(self.statistic, rounds) {
            Lookup::Value(value) => value,
            _ => figures.iter().sum::<f64>() / count as f64,
        };
        let is_positive = figures.iter().all(|figure| *figure > 0.0);
        let values: Vec<f64> = if is_positive { figures.iter().map(|it| it.ln()).collect() } else { figures };
        let Some((mean, error)) = mean_and_error(&values) else {
            return Ok(Estimate {
                value: all,
                low: 0.0,
                high: f64::INFINITY,
                rounds_needed: Some(MIN_ROUNDS),
                rounds: count,
            });
        };
        let reach = looked_at_errors(count) * error;
        let back = |value: f64| if is_positive { value.exp() } else { value };
        let asked = match (self.width, is_positive) {
            (Width::Relative(share), true) => share,
            (Width::Absolute(width), true) => width / all,
            (Width::Relative(share), false) => share * all.abs(),
            (Width::Absolute(width), false) => width,
        };
        Ok(Estimate {
            value: all,
            // The figure of all rounds together is shown, which is nearly their mean.
            low: back(mean - reach).min(all),
            high: back(mean + reach).max(all),
            rounds_needed: rounds_for(error * (count as f64).sqrt(), asked),
            rounds: count,
        })
    }

    /// The figure of one round, if it has it: its median describes it however few its requests are.
    fn of_round(&self, phase: &PhaseResult) -> Option<f64> {
        if phase.counts.measured == 0 {
            return None;
        }
        let quantile = match (self.subject.source(), self.statistic) {
            (Source::Times(of), "p50") => Some(&of(phase).p50),
            (Source::Speeds(of), "median") => Some(&of(phase).median),
            _ => None,
        };
        match quantile {
            Some(it) if it.status == QuantileStatus::Undetermined => None,
            Some(it) => it.nearest_rank().filter(|value| value.is_finite()),
            None => match self.subject.find_in(self.statistic, phase) {
                Lookup::Value(value) => Some(value),
                _ => None,
            },
        }
    }

    /// A share, by the rounds' own and by all requests together, whichever is wider.
    fn of_shares(&self, rounds: &Rounds<'_>) -> Result<Estimate, String> {
        let shares: Vec<f64> = rounds.phases.iter().filter_map(|phase| self.of_round(phase)).collect();
        let Lookup::Value(value) = self.subject.find(self.statistic, rounds) else {
            return Err(self.missing_reason(rounds));
        };
        let of = rounds.count(|phase| phase.counts.started - phase.counts.cancelled);
        let count = shares.len() as u64;
        let all = wilson_interval((value * of as f64).round() as u64, of, tokrate_stats::LOOKED_AT_CONFIDENCE);
        let (Some(all), Some((mean, error))) = (all, mean_and_error(&shares)) else {
            return Ok(Estimate {
                value,
                low: 0.0,
                high: f64::INFINITY,
                rounds_needed: Some(MIN_ROUNDS),
                rounds: count,
            });
        };
        let reach = looked_at_errors(count) * error;
        let (low, high) = ((mean - reach).max(0.0).min(all.low), (mean + reach).min(1.0).max(all.high));
        let asked = match self.width {
            Width::Relative(share) => share * value,
            Width::Absolute(width) => width,
        };
        let ratio = (high - low) / 2.0 / asked;
        Ok(Estimate { value, low, high, rounds_needed: needed_by(ratio, count), rounds: count })
    }

    /// A percentile of the requests of all rounds.
    fn of_tail(&self, rounds: &Rounds<'_>, of: TimesOf, level: Level, is_speed: bool) -> Result<Estimate, String> {
        let samples: Vec<Vec<f64>> = rounds.phases.iter().map(|phase| of(phase).values()).collect();
        let count = samples.iter().filter(|round| !round.is_empty()).count() as u64;
        let value = match (self.subject.find(self.statistic, rounds), rounds.distribution(of)) {
            (Lookup::Value(value), _) => value,
            (_, Some(all)) => {
                let time = all.quantile(level).nearest_rank().ok_or_else(|| self.missing_reason(rounds))?;
                if is_speed { 1e3 / time } else { time }
            }
            _ => return Err(self.missing_reason(rounds)),
        };
        let slack = 1.0 + Sketch::RELATIVE_ERROR;
        let (low, high) = match quantile_between_rounds(&samples, level) {
            Some((low, high)) => (low / slack, high.map_or(f64::INFINITY, |high| high * slack)),
            None => (0.0, f64::INFINITY),
        };
        let (low, high) =
            if is_speed { (1e3 / high, if low > 0.0 { 1e3 / low } else { f64::INFINITY }) } else { (low, high) };
        let asked = match self.width {
            Width::Relative(share) => share * value,
            Width::Absolute(width) => width,
        };
        let needed = needed_by((high - low) / 2.0 / asked, count);
        Ok(Estimate { value, low: low.min(value), high: high.max(value), rounds_needed: needed, rounds: count })
    }

    fn missing_reason(&self, rounds: &Rounds<'_>) -> String {
        let reason = self.subject.metric().and_then(|metric| rounds.missing_reason(metric));
        reason.unwrap_or_else(|| match self.subject.find(self.statistic, rounds) {
            Lookup::Missing(reason) => reason,
            _ => "no request has it".to_owned(),
        })
    }

    fn figure(&self) -> String {
        format!("{}.{}", self.subject.name(), self.statistic)
    }
}

/// Rounds that a width `ratio` times the asked one is expected to take in all: as the square of it.
fn needed_by(ratio: f64, rounds: u64) -> Option<u64> {
    if ratio.is_finite() {
        Some(((rounds as f64) * ratio * ratio).ceil() as u64)
    } else {
        Some(2 * rounds.max(MIN_ROUNDS))
    }
}

fn read(text: &str) -> Result<Precision, ExpressionError> {
    let mut cursor = Cursor::new(text);
    let at = cursor.here();
    let word = Cursor::new(text).word(&['.']);
    if !word.is_empty() && !word.contains('.') && lookup::subject_of(word).is_none() {
        return Err(cursor.error(at, format!("`{word}` is no metric of a phase{}", near(word))));
    }
    let (subject, statistic, named_unit) = metric_and_statistic(&mut cursor)?;
    if !has_interval(subject, statistic) {
        let known: Vec<&str> = subject.statistics().iter().copied().filter(|it| has_interval(subject, it)).collect();
        let message = match known.as_slice() {
            [] => format!("`{}` has no interval that requests would narrow", subject.name()),
            known => format!("`{statistic}` has no interval that requests would narrow; {} have", known.join(", ")),
        };
        return Err(cursor.error(0, message));
    }
    let at = cursor.here();
    let is_sign = match () {
        () if cursor.take('±') || cursor.take('~') => true,
        () if cursor.take('+') => {
            cursor.take('/');
            cursor.take('-')
        }
        () if cursor.take('≤') => true,
        () if cursor.take('<') => {
            cursor.take('=');
            true
        }
        () => false,
    };
    if !is_sign {
        return Err(cursor.error(at, format!("expected ± and a width{}", cursor.found(at))));
    }
    let at = cursor.here();
    let number = cursor.number()?;
    let unit = subject.unit_of(statistic);
    let width = if unit != MetricUnit::Share && cursor.take('%') {
        Width::Relative(number / 100.0)
    } else {
        Width::Absolute(number * unit_factor(&mut cursor, unit, named_unit)?)
    };
    match width {
        Width::Relative(share) | Width::Absolute(share) if share <= 0.0 => {
            return Err(cursor.error(at, "a width is above 0: no number of requests makes it 0".to_owned()));
        }
        Width::Relative(share) if share >= 1.0 => {
            return Err(cursor.error(at, "a width of 100 % or more says nothing; ask for less".to_owned()));
        }
        Width::Relative(share) if share < 0.001 => {
            return Err(cursor.error(at, "figures may themselves be off by more than 0.1 %; ask for more".to_owned()));
        }
        _ => {}
    }
    let place = load_filter(&mut cursor)?;
    cursor.end("@ and a load, or the end")?;
    Ok(Precision { subject, statistic, width, place })
}

/// The metrics that a word may stand for, as the end of a message: those that hold it, else those that are spelt nearly so.
fn near(word: &str) -> String {
    let names = lookup::subject_names();
    let holding: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.contains(word) && !name.starts_with("adj_")).collect();
    match holding.as_slice() {
        [] => suggestion(word, &names.iter().map(String::as_str).collect::<Vec<&str>>()),
        holding => format!("; did you mean {}?", holding.join(" or ")),
    }
}

/// Whether more rounds make the interval of a figure narrower.
fn has_interval(subject: Subject, statistic: &str) -> bool {
    match subject {
        Subject::Adjusted(_) => false,
        // Gaps are pooled over the tokens of all requests; their sketches hold no request apart.
        Subject::Metric(_) => match subject.source() {
            Source::Speeds(_) => match statistic {
                "median" | "mean" => true,
                _ => subject.metric() == Some(Metric::OutputSpeed) && speed_level(statistic).is_some(),
            },
            Source::Times(_) => statistic == "mean" || Level::ALL.iter().any(|level| level.name() == statistic),
            Source::Throughput | Source::Items | Source::Rate(_) => !statistic.starts_with("peak"),
            Source::Group(_) => false,
        },
        Subject::Group(group) => {
            matches!(group, Group::Failures | Group::RateLimited | Group::Goodput)
                && matches!(statistic, "share" | "per_second")
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.subject.unit_of(self.statistic);
        match self.width {
            Width::Relative(share) => write!(formatter, "{} ± {} %", self.figure(), round(100.0 * share))?,
            Width::Absolute(width) if unit == MetricUnit::Share => {
                write!(formatter, "{} ± {} %", self.figure(), round(100.0 * width))?;
            }
            Width::Absolute(width) => {
                let (space, name) = if unit.name().is_empty() { ("", "") } else { (" ", unit.name()) };
                write!(formatter, "{} ± {}{space}{name}", self.figure(), round(width))?;
            }
        }
        self.place.write(formatter)
    }
}

/// Without the digits that a division by 100 leaves.
fn round(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

mod sentence;

#[cfg(test)]
mod tests;

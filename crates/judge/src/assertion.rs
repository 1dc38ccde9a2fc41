//! Assertions on a load, such as `ttft_ms.p95 < 500 @ concurrency 10`; the rounds at one load are judged together.
//!
//! Invariant: an assertion whose value is missing is not met, and the outcome says why: too few samples, no such value,
//! load not run.

mod lookup;
mod pairs;
mod precision;
mod spelling;

pub use precision::Precision;
pub(crate) use spelling::canonical_spelling;

use crate::expression::{Cursor, ExpressionError, Relation, bound_in, is_speed_unit, milliseconds_in, suggestion};
use lookup::{Lookup, Subject, subject_of};
use std::fmt;
use tokrate_record::run::{Load, PhaseResult, Rounds, by_load};
use tokrate_record::{AssertionOutcome, AssertionStatus, Metric, MetricUnit};
use tokrate_stats::Level;

/// One assertion.
#[derive(Clone, PartialEq, Debug)]
pub struct Assertion {
    subject: Subject,
    statistic: &'static str,
    relation: Relation,
    /// In the subject's unit; a share is 0 to 1.
    bound: f64,
    place: LoadFilter,
}

/// Which phases an assertion applies to.
#[derive(Clone, Copy, PartialEq, Debug)]
enum LoadFilter {
    Any,
    Concurrency(u32),
    Rate(f64),
}

impl Assertion {
    /// Parses an assertion: `METRIC.STATISTIC RELATION NUMBER [UNIT] [@ concurrency N | @ rate R]`.
    ///
    /// Times are those of the record, with or without their unit (`ttft_ms.p95 < 500`, `ttft.p95 < 0.5s`); speeds have no
    /// percentiles but `median`, `slowest_5_percent` and `slowest_1_percent`; shares may be written in per cent. Without a
    /// load the assertion applies to every phase. `ttft_p95`, `p95_ttft_ms` and `p95(ttft)` are read as `ttft.p95`.
    ///
    /// # Errors
    /// The column, what was expected there, and the nearest known name.
    pub fn parse(text: &str) -> Result<Assertion, ExpressionError> {
        let example = |error: ExpressionError| {
            let example = lookup::example_for(&error.text);
            error.with_example(example)
        };
        let left = text.find(['<', '>', '≤', '≥']).unwrap_or(text.len());
        read_spelled(text, left, canonical_spelling(&text[..left]), read).map_err(example)
    }

    /// Parses one assertion, or several in the form of `vllm bench serve --goodput` and of AIPerf: `ttft:400 tpot:50` is of every
    /// request, `p99_ttft_ms:400` of a percentile; times in milliseconds.
    ///
    /// # Errors
    /// As [`Assertion::parse`].
    pub fn parse_all(text: &str) -> Result<Vec<Assertion>, ExpressionError> {
        match pairs::is_list(text) {
            true => pairs::read(text).map_err(|error| {
                let bound = bound_in(text).map_or("400", |(number, _)| number);
                error.with_example(format!("ttft:{bound} p95_tpot_ms:50"))
            }),
            false => Assertion::parse(text).map(|assertion| vec![assertion]),
        }
    }

    /// Checks every load that the assertion applies to, its rounds together; never empty.
    pub fn judge(&self, phases: &[PhaseResult]) -> Vec<AssertionOutcome> {
        let loads = by_load(phases);
        let outcomes: Vec<AssertionOutcome> =
            loads.iter().filter(|rounds| self.is_for_load(rounds.load)).map(|rounds| self.judge_load(rounds)).collect();
        if !outcomes.is_empty() {
            return outcomes;
        }
        let names: Vec<&str> = loads.iter().map(Rounds::name).collect();
        let there =
            if names.is_empty() { "no phase was run".to_owned() } else { format!("run were {}", names.join(", ")) };
        vec![AssertionOutcome {
            assertion: self.to_string(),
            phase: None,
            status: AssertionStatus::NotMeasured,
            value: None,
            unit: self.unit().name().to_owned(),
            detail: format!("no phase has this load; {there}"),
        }]
    }

    /// The fewest requests of a phase from which the value can be stated; `None` if it does not depend on their number,
    /// or is not one for each request.
    pub fn requests_needed(&self) -> Option<u64> {
        self.subject.min_requests(self.statistic)
    }

    /// The metric of single requests that it refers to, if any.
    pub fn metric(&self) -> Option<Metric> {
        self.subject.metric().filter(|metric| metric.row().of_request.is_some())
    }

    /// Whether it applies to phases of this load.
    pub fn is_for_load(&self, load: Load) -> bool {
        self.place.holds(load)
    }

    /// Whether it is for some load from `low` to `high`, two of the same kind.
    pub fn is_for_load_between(&self, low: Load, high: Load) -> bool {
        match (self.place, low, high) {
            (LoadFilter::Any, ..) => true,
            (
                LoadFilter::Concurrency(wanted),
                Load::Closed { concurrency: low },
                Load::Closed { concurrency: high },
            ) => (low..=high).contains(&wanted),
            (LoadFilter::Rate(wanted), Load::Open { rate: low, .. }, Load::Open { rate: high, .. }) => {
                (low..=high).contains(&wanted)
            }
            _ => false,
        }
    }

    /// Whether there is a percentile of the same metric that takes fewer requests.
    pub fn has_easier_percentile(&self) -> bool {
        self.requests_needed().is_some_and(|needed| needed > Level::P50.floor())
    }

    /// The metric of each request that it is about, the share of the requests (`None` for all of them), relation and bound, where it can be
    /// said of single requests: at whatever load, and of the maximum or a percentile.
    pub(crate) fn of_requests(&self) -> Option<(Metric, Option<f64>, Relation, f64)> {
        let (metric, share) = match (self.subject, self.statistic) {
            (Subject::Adjusted(metric), "max") => (metric, None),
            (Subject::Metric(metric), statistic) => (metric, Some(percentile_of(statistic)?)),
            _ => return None,
        };
        let is_of_requests =
            metric.row().of_request.is_some() && self.relation.is_upper() != metric.row().more_is_better;
        (is_of_requests && self.place == LoadFilter::Any).then_some((metric, share, self.relation, self.bound))
    }

    fn unit(&self) -> MetricUnit {
        self.subject.unit_of(self.statistic)
    }

    fn judge_load(&self, rounds: &Rounds<'_>) -> AssertionOutcome {
        let (status, value, detail) = match self.subject.find(self.statistic, rounds) {
            Lookup::Value(value) => {
                let met = self.relation.holds(value, self.bound);
                let status = if met { AssertionStatus::Met } else { AssertionStatus::Missed };
                (status, Some(value), self.unit().shown(value))
            }
            Lookup::Infinite => {
                let detail = "infinite: failed requests count as never answered";
                (AssertionStatus::Missed, None, detail.to_owned())
            }
            Lookup::TooFew { n, floor, low, high } => {
                let reason = format!("not enough samples (n = {n}), needs {floor}");
                match self.judge_bounds(low, high, format!("{reason} for the value itself")) {
                    decided @ (AssertionStatus::Met | AssertionStatus::Missed, ..) => decided,
                    _ => (AssertionStatus::NotEnoughSamples, None, reason),
                }
            }
            Lookup::Between { low, high, reason } => self.judge_bounds(low, high, reason),
            Lookup::Missing(reason) => (AssertionStatus::NotMeasured, None, reason),
        };
        AssertionOutcome {
            assertion: self.to_string(),
            phase: Some(rounds.name().to_owned()),
            status,
            value,
            unit: self.unit().name().to_owned(),
            detail,
        }
    }
}

impl Assertion {
    /// The verdict on a value of which only the least and the most are known: it stands where both have it.
    fn judge_bounds(&self, low: f64, high: f64, reason: String) -> (AssertionStatus, Option<f64>, String) {
        let unit = self.unit();
        let shown = match (low > 0.0, high.is_finite()) {
            (true, true) => format!("between {} and {}", unit.shown(low), unit.shown(high)),
            (true, false) => format!("at least {}", unit.shown(low)),
            (false, true) => format!("at most {}", unit.shown(high)),
            (false, false) => return (AssertionStatus::NotMeasured, None, reason),
        };
        let status = match [low, high].map(|end| self.relation.holds(end, self.bound)) {
            [true, true] => AssertionStatus::Met,
            [false, false] => AssertionStatus::Missed,
            _ => AssertionStatus::NotMeasured,
        };
        (status, None, format!("{shown}: {reason}"))
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.unit() == MetricUnit::Milliseconds { "_ms" } else { "" };
        let (subject, statistic) = (self.subject.name(), self.statistic);
        write!(formatter, "{subject}{unit}.{statistic} {} {}", self.relation.symbol(), self.bound)?;
        self.place.write(formatter)
    }
}

impl LoadFilter {
    fn holds(self, load: Load) -> bool {
        match (self, load) {
            (LoadFilter::Any, _) => true,
            (LoadFilter::Concurrency(wanted), Load::Closed { concurrency }) => wanted == concurrency,
            (LoadFilter::Rate(wanted), Load::Open { rate, .. }) => (wanted - rate).abs() <= 1e-9 * wanted.abs(),
            _ => false,
        }
    }

    fn write(self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadFilter::Any => Ok(()),
            LoadFilter::Concurrency(concurrency) => write!(formatter, " @ concurrency {concurrency}"),
            LoadFilter::Rate(rate) => write!(formatter, " @ rate {rate}"),
        }
    }
}

/// Reads a text whose first `left` bytes may stand for a canonical spelling; columns of errors are those of the text that was typed.
fn read_spelled<T>(
    text: &str,
    left: usize,
    canonical: Option<String>,
    read: impl Fn(&str) -> Result<T, ExpressionError>,
) -> Result<T, ExpressionError> {
    let Some(plain) = canonical else { return read(text) };
    read(&format!("{plain} {}", &text[left..])).map_err(|error| {
        let (typed, read) = (text[..left].chars().count(), plain.chars().count() + 1);
        let column = if error.column > read { error.column - read + typed } else { 1 };
        ExpressionError { text: text.to_owned(), column, ..error }
    })
}

/// The share of the requests that a percentile is of.
fn percentile_of(statistic: &str) -> Option<f64> {
    match statistic {
        "median" => Some(0.5),
        "slowest_5_percent" => Some(0.95),
        "slowest_1_percent" => Some(0.99),
        _ => Some(statistic.strip_prefix('p')?.replace('_', ".").parse::<f64>().ok()? / 100.0),
    }
}

fn read(text: &str) -> Result<Assertion, ExpressionError> {
    let mut cursor = Cursor::new(text);
    let (subject, statistic, named_unit) = metric_and_statistic(&mut cursor)?;
    let relation = cursor.relation()?;
    let number = cursor.number()?;
    let bound = number * unit_factor(&mut cursor, subject.unit_of(statistic), named_unit)?;
    let place = load_filter(&mut cursor)?;
    cursor.end("@ and a load, or the end")?;
    Ok(Assertion { subject, statistic, relation, bound, place })
}

/// The metric and its statistic, with the unit suffix of the metric's name, if any.
fn metric_and_statistic<'t>(
    cursor: &mut Cursor<'t>,
) -> Result<(Subject, &'static str, Option<&'t str>), ExpressionError> {
    let at = cursor.here();
    let word = cursor.word(&['.']);
    let Some((name, statistic)) = word.split_once('.') else {
        let bare = word.rsplit_once('_').filter(|(_, unit)| milliseconds_in(unit).is_some()).map_or(word, |it| it.0);
        let message = match subject_of(word).or_else(|| subject_of(bare)) {
            Some(subject) => {
                format!("expected a statistic behind `{word}`; it has .{}", subject.statistics().join(", ."))
            }
            None if word.is_empty() => {
                format!("expected a metric and a statistic such as ttft_ms.p95{}", cursor.found(at))
            }
            None => format!("expected a metric with its statistic, such as ttft_ms.p95, found `{word}`"),
        };
        return Err(cursor.error(at, message));
    };
    let (subject, unit) = match (subject_of(name), name.rsplit_once('_')) {
        (Some(subject), _) => (Some(subject), None),
        (None, Some((name, unit))) if milliseconds_in(unit).is_some() => {
            (subject_of(name).filter(|subject| subject.is_time()), Some(unit))
        }
        _ => (None, None),
    };
    let Some(subject) = subject else {
        let plain = name.rsplit_once('_').filter(|(_, unit)| milliseconds_in(unit).is_some()).map_or(name, |it| it.0);
        let near = suggestion(plain, &lookup::subject_names().iter().map(String::as_str).collect::<Vec<&str>>());
        let message = format!("`{name}` is no metric of a phase{near}");
        return Err(cursor.error(at, message));
    };
    let wanted = statistic.replace('.', "_");
    let statistic = subject.statistic(statistic).ok_or_else(|| {
        let message = if subject.is_speed() && wanted.starts_with('p') {
            format!(
                "a percentile of a speed can be read in both directions; write {0}.median, {0}.slowest_5_percent or \
                 {0}.slowest_1_percent",
                subject.name()
            )
        } else {
            format!("`{statistic}` is no statistic of {}{}", subject.name(), suggestion(&wanted, subject.statistics()))
        };
        cursor.error(at + name.len() + 1, message)
    })?;
    Ok((subject, statistic, unit))
}

/// What a number is multiplied by to be in the wanted unit.
fn unit_factor(cursor: &mut Cursor<'_>, wanted: MetricUnit, named: Option<&str>) -> Result<f64, ExpressionError> {
    let at = cursor.here();
    let unit = cursor.word(&['/', 'µ', '%']);
    match (wanted, named, unit) {
        (MetricUnit::Milliseconds, Some(named), "") => Ok(milliseconds_in(named).unwrap_or(1.0)),
        (MetricUnit::Milliseconds, None, "") => {
            let message = "expected a unit behind the number (ms, s or us), or in the name as in ttft_ms.p95";
            Err(cursor.error(at, message.to_owned()))
        }
        (MetricUnit::Milliseconds, Some(named), unit) if named != unit && milliseconds_in(unit).is_some() => {
            Err(cursor.error(at, format!("the name says {named} and the number `{unit}`; leave one of them out")))
        }
        (MetricUnit::Milliseconds, _, unit) => milliseconds_in(unit)
            .ok_or_else(|| cursor.error(at, format!("`{unit}` is no unit of time; those are ms, s and us"))),
        (MetricUnit::Share, _, "%") => Ok(0.01),
        (_, _, "") => Ok(1.0),
        (MetricUnit::TokensPerSecond, _, unit) if is_speed_unit(unit) => Ok(1.0),
        (MetricUnit::PerSecond, _, "1/s" | "req/s") => Ok(1.0),
        (wanted, _, unit) => {
            let expected = match wanted {
                MetricUnit::TokensPerSecond => "tok/s or no unit",
                MetricUnit::PerSecond => "req/s or no unit",
                MetricUnit::Share => "% or no unit",
                _ => "no unit",
            };
            Err(cursor.error(at, format!("`{unit}` does not fit here; expected {expected}")))
        }
    }
}

fn load_filter(cursor: &mut Cursor<'_>) -> Result<LoadFilter, ExpressionError> {
    if cursor.is_over() || !cursor.take('@') {
        return Ok(LoadFilter::Any);
    }
    let at = cursor.here();
    let word = cursor.word(&[]);
    // `concurrency=10` is what others write.
    cursor.take('=');
    match word {
        "concurrency" | "c" => {
            let at = cursor.here();
            let number = cursor.number()?;
            if number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number) {
                Ok(LoadFilter::Concurrency(number as u32))
            } else {
                Err(cursor.error(at, "a concurrency is a whole number from 1 on".to_owned()))
            }
        }
        "rate" => Ok(LoadFilter::Rate(cursor.number()?)),
        _ => {
            let message = format!("expected a load, `concurrency 10` or `rate 5`{}", cursor.found(at));
            Err(cursor.error(at, message))
        }
    }
}

#[cfg(test)]
mod tests;

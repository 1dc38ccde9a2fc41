//! Windows, load classes and one number of a window: a quantile with its exact interval, or how many samples it lacks.
//!
//! Invariant: a number below its sample floor has no value, but the count that is missing. One slot gives at most one sample:
//! its first, which was scheduled whatever came before; further probes of a suspect would pull every number towards the
//! suspicion.

use crate::data::{Metric, Point, Source};
use tokrate_stats::{Level, Quantile, wilson_interval};

const HOUR_MS: i64 = 3_600_000;

/// What is put into one number: the time up to now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Window {
    /// The last 24 hours.
    Day,
    /// The last 72 hours.
    ThreeDays,
    /// The last 14 days.
    TwoWeeks,
    /// The last 30 days.
    Month,
}

impl Window {
    /// All, rising.
    pub const ALL: [Window; 4] = [Window::Day, Window::ThreeDays, Window::TwoWeeks, Window::Month];

    /// Its length (ms).
    pub const fn millis(self) -> i64 {
        HOUR_MS
            * match self {
                Window::Day => 24,
                Window::ThreeDays => 72,
                Window::TwoWeeks => 14 * 24,
                Window::Month => 30 * 24,
            }
    }

    /// Its name in addresses and values.
    pub const fn name(self) -> &'static str {
        match self {
            Window::Day => "24h",
            Window::ThreeDays => "72h",
            Window::TwoWeeks => "14d",
            Window::Month => "30d",
        }
    }

    /// Its name in sentences: "last …".
    pub const fn words(self) -> &'static str {
        match self {
            Window::Day => "24 hours",
            Window::ThreeDays => "72 hours",
            Window::TwoWeeks => "14 days",
            Window::Month => "30 days",
        }
    }
}

/// How many requests were in flight: numbers at different load are different numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Load {
    /// One at a time.
    One,
    /// 2 to 7.
    Few,
    /// 8 to 31.
    Many,
    /// 32 and more.
    Crowd,
}

impl Load {
    /// All, rising.
    pub const ALL: [Load; 4] = [Load::One, Load::Few, Load::Many, Load::Crowd];

    /// The class of a number of requests.
    pub const fn of(in_flight: u32) -> Load {
        match in_flight {
            0..=1 => Load::One,
            2..=7 => Load::Few,
            8..=31 => Load::Many,
            _ => Load::Crowd,
        }
    }

    /// Its name in addresses and values.
    pub const fn name(self) -> &'static str {
        match self {
            Load::One => "1",
            Load::Few => "2-7",
            Load::Many => "8-31",
            Load::Crowd => "32",
        }
    }

    /// Its name in sentences.
    pub const fn words(self) -> &'static str {
        match self {
            Load::One => "1 in flight",
            Load::Few => "2 to 7 in flight",
            Load::Many => "8 to 31 in flight",
            Load::Crowd => "32 or more in flight",
        }
    }
}

impl Source {
    /// All.
    pub const ALL: [Source; 3] = [Source::Monitor, Source::Bench, Source::Gateway];

    /// Its name in addresses and values.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Monitor => "monitor",
            Source::Bench => "bench",
            Source::Gateway => "gateway",
        }
    }

    /// Its name in sentences.
    pub const fn words(self) -> &'static str {
        match self {
            Source::Monitor => "probes of the monitor",
            Source::Bench => "runs of bench",
            Source::Gateway => "the gateway's traffic",
        }
    }
}

impl Metric {
    /// All.
    pub const ALL: [Metric; 5] = [Metric::OutputSpeed, Metric::Ttft, Metric::E2e, Metric::GapP99, Metric::Errors];
    /// Those of single requests, whose medians are ranked.
    pub(crate) const OF_REQUESTS: [Metric; 4] = [Metric::OutputSpeed, Metric::Ttft, Metric::E2e, Metric::GapP99];

    /// Its name in values and in the detector's events.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::OutputSpeed => "output_speed",
            Metric::Ttft => "ttft_ms",
            Metric::E2e => "e2e_ms",
            Metric::GapP99 => "gap_p99_ms",
            Metric::Errors => "errors",
        }
    }

    /// Its name in sentences.
    pub const fn words(self) -> &'static str {
        match self {
            Metric::OutputSpeed => "output speed",
            Metric::Ttft => "TTFT",
            Metric::E2e => "total time",
            Metric::GapP99 => "gap p99",
            Metric::Errors => "failed requests",
        }
    }

    /// Whether more is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Metric::OutputSpeed)
    }

    /// The number of a request that may be used: answered, finite, above 0.
    pub(crate) fn of(self, point: &Point) -> Option<f64> {
        let value = match self {
            Metric::OutputSpeed => point.output_speed,
            Metric::Ttft => point.ttft_ms,
            Metric::E2e => point.e2e_ms,
            Metric::GapP99 => point.gap_p99_ms,
            Metric::Errors => None,
        };
        value.filter(|value| value.is_finite() && *value > 0.0 && point.failure.is_none()).map(f64::from)
    }
}

/// A quantile of a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Samples that it is made of.
    pub n: u64,
    /// Samples that it needs.
    pub floor: u64,
    /// The quantile; `None` below the floor.
    pub value: Option<f64>,
    /// Lower end of its interval (95 % for a median; each bound 99 % for a tail).
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// The quantile of a level of rising values.
    pub(crate) fn of(sorted: &[f64], level: Level) -> Estimate {
        let quantile = Quantile::of_sorted(sorted, 0, level);
        Estimate {
            n: sorted.len() as u64,
            floor: quantile.floor,
            value: quantile.value,
            low: quantile.low,
            high: quantile.high,
        }
    }

    /// The quantile as far from the top as `level` is from the bottom: of a speed, the slow tail.
    pub(crate) fn of_lower_tail(sorted: &[f64], level: Level) -> Estimate {
        let n = sorted.len() as u64;
        let quantile = Quantile::of_ranks(n, 0, level, |rank| -sorted[(n - rank) as usize]);
        let negated = |value: Option<f64>| value.map(|value| -value);
        Estimate {
            n,
            floor: quantile.floor,
            value: negated(quantile.value),
            low: negated(quantile.high),
            high: negated(quantile.low),
        }
    }

    /// The end that a cautious reader takes: the worse one.
    pub fn worse_end(&self, metric: Metric) -> Option<f64> {
        if metric.more_is_better() { self.low } else { self.high }
    }

    /// How many samples are missing.
    pub fn missing(&self) -> u64 {
        self.floor.saturating_sub(self.n)
    }
}

/// A share of requests, with Wilson's 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Share {
    /// How many.
    pub hits: u64,
    /// Of how many.
    pub n: u64,
    /// The interval; `None` of no request.
    pub interval: Option<(f64, f64)>,
}

impl Share {
    pub(crate) fn of(hits: u64, n: u64) -> Share {
        let interval = wilson_interval(hits, n, 0.95).map(|interval| (interval.low, interval.high));
        Share { hits, n, interval }
    }

    /// The share; `None` of no request.
    pub fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.hits as f64 / self.n as f64)
    }
}

/// The points of a slot that count: one each, rising in time, without quarantine. `points` must rise in time.
pub(crate) fn slots(points: &[Point]) -> impl Iterator<Item = &Point> {
    // Weight of the slot that is being passed over.
    let mut open = 0.0f32;
    points.iter().filter(|point| point.quarantine.is_none()).filter(move |point| {
        if !(point.weight > 0.0 && point.weight < 0.999) {
            open = 0.0;
            return true;
        }
        let first = open == 0.0;
        open += point.weight;
        if open > 0.999 {
            open = 0.0;
        }
        first
    })
}

/// One series at one load in one window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Failed requests among those that count.
    pub errors: Share,
    /// Requests in quarantine, which count for nothing.
    pub quarantined: u64,
    /// Medians in the order of [`Metric::OF_REQUESTS`].
    medians: [Estimate; 4],
    /// The slow tail of the output speed: 5 % of requests are slower.
    pub speed_p5: Estimate,
    /// The slow tail of the TTFT: 5 % of requests wait longer.
    pub ttft_p95: Estimate,
    /// Middle half over median of the output speed: how much requests differ.
    pub speed_spread: Option<f64>,
    /// The same of the TTFT.
    pub ttft_spread: Option<f64>,
    /// Median cost of an answered request (USD).
    pub cost: Estimate,
    /// The rising values that the medians are of, for comparisons.
    pub(crate) values: [Vec<f64>; 4],
}

impl Summary {
    /// The summary of points that rise in time.
    pub(crate) fn of(points: &[Point]) -> Summary {
        let mut values: [Vec<f64>; 4] = Default::default();
        let (mut n, mut failed, mut costs) = (0, 0, Vec::new());
        for point in slots(points) {
            n += 1;
            failed += u64::from(point.failure.is_some());
            for (metric, values) in Metric::OF_REQUESTS.into_iter().zip(&mut values) {
                values.extend(metric.of(point));
            }
            let cost = point.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0 && point.failure.is_none());
            costs.extend(cost.map(f64::from));
        }
        values.iter_mut().chain([&mut costs]).for_each(|values| values.sort_unstable_by(f64::total_cmp));
        values.iter_mut().for_each(Vec::shrink_to_fit);
        Summary {
            errors: Share::of(failed, n),
            quarantined: points.iter().filter(|point| point.quarantine.is_some()).count() as u64,
            medians: std::array::from_fn(|index| Estimate::of(&values[index], Level::P50)),
            speed_p5: Estimate::of_lower_tail(&values[0], Level::P95),
            ttft_p95: Estimate::of(&values[1], Level::P95),
            speed_spread: spread(&values[0]),
            ttft_spread: spread(&values[1]),
            cost: Estimate::of(&costs, Level::P50),
            values,
        }
    }

    /// The median of a metric; of errors nothing.
    pub fn median(&self, metric: Metric) -> Estimate {
        self.medians.get(metric as usize).copied().unwrap_or_default()
    }

    /// The rising values of a metric.
    pub(crate) fn values(&self, metric: Metric) -> &[f64] {
        self.values.get(metric as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether more than [`MAX_FAILED`] of requests fail, as far as the interval says.
    pub fn fails(&self) -> bool {
        self.errors.interval.is_some_and(|(low, _)| low > MAX_FAILED)
    }

    /// Whether nothing counts.
    pub fn is_empty(&self) -> bool {
        self.errors.n == 0 && self.quarantined == 0
    }
}

/// Who fails more often than this, for sure, is not recommended.
pub const MAX_FAILED: f64 = 0.05;

/// Fewest values whose quartiles are stated: two on either side.
const MIN_FOR_QUARTILES: usize = 8;

/// The quartiles of rising values, by nearest rank.
pub(crate) fn quartiles(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    (n >= MIN_FOR_QUARTILES).then(|| (sorted[n.div_ceil(4) - 1], sorted[n - n.div_ceil(4)]))
}

fn spread(sorted: &[f64]) -> Option<f64> {
    let (low, high) = quartiles(sorted)?;
    let median = tokrate_stats::median(sorted);
    (median > 0.0).then(|| (high - low) / median)
}

#[cfg(test)]
mod tests;

//! How much load a model on devices carries within objectives: bisection over the load, each tried in virtual time.
//!
//! Invariant: the load that is found was itself tried and keeps every objective; the next one that was tried does not.

use crate::serving::Serving;
use crate::traffic::{Arrivals, Lengths, Samples, quantile, run};

/// What an objective bounds, of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Sent to first token.
    Ttft,
    /// Time a token after the first.
    Tpot,
    /// Tokens/s after the first.
    OutputSpeed,
    /// Sent to last token.
    E2e,
}

/// A bound that a share of the requests has to keep.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Objective {
    /// What is bounded.
    pub figure: Figure,
    /// Which quantile has to keep the bound: 0.95 for a time means that 95 % of the requests are as fast or faster.
    pub quantile: f64,
    /// Seconds of a time, tokens/s of a speed.
    pub bound: f64,
}

impl Objective {
    /// The value that decides, in the unit of the bound; `None` where no request has it.
    pub fn value(&self, samples: &Samples) -> Option<f64> {
        let of = |values: &[f64], share| (!values.is_empty()).then(|| quantile(values, share));
        match self.figure {
            Figure::Ttft => of(&samples.ttft, self.quantile),
            Figure::Tpot => of(&samples.tpot, self.quantile),
            Figure::E2e => of(&samples.e2e, self.quantile),
            // The slow end of speeds is the long end of times.
            Figure::OutputSpeed => of(&samples.tpot, 1.0 - self.quantile).map(|time| 1.0 / time),
        }
    }

    /// Whether a load keeps it. What no request has (the speed of answers of one token) is kept.
    pub fn kept(&self, samples: &Samples) -> bool {
        match (self.value(samples), self.figure) {
            (None, _) => true,
            (Some(value), Figure::OutputSpeed) => value >= self.bound,
            (Some(value), _) => value <= self.bound,
        }
    }
}

/// A load that was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Tried {
    /// Users, or requests a second.
    pub load: f64,
    /// What requests saw.
    pub samples: Samples,
    /// Which of the objectives were kept, in their order.
    pub kept: Vec<bool>,
}

impl Tried {
    /// Whether all objectives were kept and requests were answered as fast as they came.
    pub fn good(&self) -> bool {
        !self.samples.overloaded && self.kept.iter().all(|kept| *kept)
    }
}

/// What a search found.
#[derive(Clone, PartialEq, Debug)]
pub struct Capacity {
    /// The largest load that keeps everything; `None` if not even the smallest does.
    pub most: Option<f64>,
    /// The same with every step as slow, and as fast, as the interval's ends.
    pub range: (Option<f64>, Option<f64>),
    /// Whether the search ended at its own limit, so that the objectives bound nothing.
    pub unbounded: bool,
    /// Every load that was tried at the expected speed, in order.
    pub curve: Vec<Tried>,
}

/// What kind of load is searched.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Search {
    /// Users, with the seconds each thinks between an answer and the next request.
    Users(f64),
    /// Requests a second.
    Rate,
}

/// Most users, or requests a second, that are tried.
const MOST_LOAD: f64 = 16_384.0;
/// The smallest rate that is tried, requests a second.
const LEAST_RATE: f64 = 1.0 / 64.0;
/// Relative width at which the bisection ends, of the load and of the ends of its range.
const PRECISION: f64 = 0.03;
const PRECISION_OF_ENDS: f64 = 0.1;

/// Searches the largest load.
///
/// # Errors
/// Requests that can never run.
pub fn search(
    serving: &Serving,
    lengths: &Lengths,
    kind: Search,
    objectives: &[Objective],
) -> Result<Capacity, String> {
    let mut curve = Vec::new();
    let least = if matches!(kind, Search::Users(_)) { 1.0 } else { LEAST_RATE };
    let from = From { load: least, least, precision: PRECISION };
    let (most, unbounded) = bisect(serving, lengths, kind, objectives, (1.0, from), &mut curve)?;
    curve.sort_by(|one: &Tried, other| one.load.total_cmp(&other.load));
    let (low, high) = serving.interval;
    // The ends lie near the load itself.
    let near = most.map_or(least, |most| whole(kind, most / 2.0).max(least));
    let from = From { load: near, least, precision: PRECISION_OF_ENDS };
    let at = |factor| bisect(serving, lengths, kind, objectives, (factor, from), &mut Vec::new()).map(|found| found.0);
    let range = holding(most, (at(high)?, at(low)?));
    Ok(Capacity { most, range, unbounded, curve })
}

/// The ends of a range around the load itself: the ends are searched less finely, and requests at random times differ from one speed to
/// another, so that an end may come out on the wrong side of it.
fn holding(most: Option<f64>, (low, high): (Option<f64>, Option<f64>)) -> (Option<f64>, Option<f64>) {
    match most {
        None => (None, high),
        Some(most) => (low.map(|low| low.min(most)), Some(high.map_or(most, |high| high.max(most)))),
    }
}

/// Tries one load.
///
/// # Errors
/// Requests that can never run.
pub fn try_load(
    serving: &Serving,
    lengths: &Lengths,
    kind: Search,
    objectives: &[Objective],
    load: f64,
    factor: f64,
) -> Result<Tried, String> {
    let arrivals = match kind {
        Search::Users(think) => Arrivals::Users { users: load as u32, think },
        Search::Rate => Arrivals::Rate(load),
    };
    let samples = run(serving, lengths, arrivals, factor)?;
    let kept = objectives.iter().map(|objective| objective.kept(&samples)).collect();
    Ok(Tried { load, samples, kept })
}

/// Where a bisection begins, what it does not go below, and how fine it gets.
#[derive(Clone, Copy)]
struct From {
    load: f64,
    least: f64,
    precision: f64,
}

/// Users are counted in whole ones.
fn whole(kind: Search, load: f64) -> f64 {
    if matches!(kind, Search::Users(_)) { load.round() } else { load }
}

fn bisect(
    serving: &Serving,
    lengths: &Lengths,
    kind: Search,
    objectives: &[Objective],
    (factor, from): (f64, From),
    curve: &mut Vec<Tried>,
) -> Result<(Option<f64>, bool), String> {
    let mut good_at = |load: f64| {
        let tried = try_load(serving, lengths, kind, objectives, load, factor)?;
        let good = tried.good();
        curve.push(tried);
        Ok::<bool, String>(good)
    };
    let mut low = from.load;
    let mut high = low * 2.0;
    while !good_at(low)? {
        if low <= from.least {
            return Ok((None, false));
        }
        high = low;
        low = whole(kind, low / 2.0).max(from.least);
    }
    // A start that was good has not tried what is above it.
    if high > from.load {
        while good_at(high)? {
            low = high;
            high *= 2.0;
            if high > MOST_LOAD {
                return Ok((Some(low), true));
            }
        }
    }
    while high / low > 1.0 + from.precision {
        let geometric = whole(kind, (low * high).sqrt());
        let middle = if geometric > low { geometric } else { whole(kind, (low + high) / 2.0) };
        if middle <= low || middle >= high {
            break;
        }
        if good_at(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((Some(low), false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Estimator;
    use crate::asked::Asked;
    use crate::serving::Tuning;

    fn serving() -> Serving {
        let asked = Asked {
            model: "llama-3.1-8b".to_owned(),
            hardware: "h100-sxm".to_owned(),
            engine: Some("vllm".to_owned()),
            weight_precision: Some("fp8".to_owned()),
            ..Asked::default()
        };
        Serving::new(&Estimator::embedded(), &asked, &Tuning::default()).expect("in the tables")
    }

    const LENGTHS: Lengths = Lengths { isl: 500, osl: 20, shared: 0, variation: 0.0 };

    fn speed(bound: f64) -> Objective {
        Objective { figure: Figure::OutputSpeed, quantile: 0.05, bound }
    }

    #[test]
    fn the_load_that_is_found_keeps_the_objective_and_a_little_more_does_not() {
        let (serving, objectives) = (serving(), [speed(60.0)]);
        let found = search(&serving, &LENGTHS, Search::Users(0.0), &objectives).expect("can run");
        let most = found.most.expect("one user is faster");
        assert!(most > 1.0 && !found.unbounded);
        let at = |load: f64| {
            try_load(&serving, &LENGTHS, Search::Users(0.0), &objectives, load, 1.0).expect("can run").good()
        };
        assert!(at(most) && !at((most * 1.1).ceil()), "{most}");
        let (low, high) = found.range;
        assert!(low.unwrap_or(0.0) <= most && most <= high.expect("faster carries more"));
    }

    #[test]
    fn a_range_holds_the_load_that_it_is_of() {
        assert_eq!(holding(Some(155.0), (Some(71.0), Some(143.0))), (Some(71.0), Some(155.0)));
        assert_eq!(holding(Some(10.0), (Some(11.0), None)), (Some(10.0), Some(10.0)));
        assert_eq!(holding(None, (Some(1.0), Some(2.0))), (None, Some(2.0)));
        assert_eq!(holding(Some(10.0), (None, Some(20.0))), (None, Some(20.0)));
    }

    #[test]
    fn fewer_users_are_carried_within_a_narrower_objective() {
        let serving = serving();
        let most = |bound: f64| {
            let found = search(&serving, &LENGTHS, Search::Users(0.0), &[speed(bound)]).expect("can run");
            found.most.unwrap_or(0.0)
        };
        assert!(most(40.0) > most(80.0) && most(80.0) > most(5000.0));
        assert_eq!(most(5000.0), 0.0, "nothing streams that fast");
    }

    #[test]
    fn an_open_load_that_is_not_answered_as_fast_as_it_comes_is_overloaded() {
        let serving = serving();
        let tried = |rate: f64| try_load(&serving, &LENGTHS, Search::Rate, &[], rate, 1.0).expect("can run");
        assert!(tried(1.0).good() && !tried(5000.0).good());
        // Little's law holds on what was seen.
        let samples = tried(20.0).samples;
        assert!((samples.requests_a_second / 20.0 - 1.0).abs() < 0.15, "{}", samples.requests_a_second);
    }
}

//! Search for the highest load at which a given share of requests meets every objective: doubling, then bisection. A level
//! whose interval includes the share is measured again, up to the request limit. A rate is measured for ten minutes at most, so the
//! lowest rate that is tried is the one at which the requests that a verdict needs take as long.
//!
//! Invariant: all rounds of a level count together.

mod sentence;

use super::{NextPhase, Reason, at_level};
use crate::plan::{Extent, Load, PhaseSpec};
use sentence::SearchSentence;
use tokrate_record::{Goodput, PhaseResult, SearchLevel, SearchResult, SearchStatus, ShareVerdict, share_interval};

/// Smallest factor between two rates.
const RATE_STEP: f64 = 1.05;
/// Longest time for the requests of one rate (s): a search takes some ten levels, and two hours are as long as one may take unasked.
const MAX_LEVEL_SECONDS: f64 = 600.0;

/// What is varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    /// Requests in flight.
    Concurrency,
    /// Arrivals per second.
    Rate,
}

/// A search.
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// What is varied.
    pub axis: Axis,
    /// The share of requests that must meet every objective, below 1.
    pub share: f64,
    /// The highest level that is tried.
    pub max_load: f64,
    /// Requests after which a level is not measured again.
    pub max_requests: u64,
}

/// The next step of a search, and why.
enum Decision {
    Run { level: f64, requests: u64, again: bool, why: &'static str },
    Done(SearchStatus),
}

impl Axis {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Concurrency => "concurrency",
            Axis::Rate => "rate",
        }
    }
}

impl Search {
    pub(super) fn next(&self, template: &PhaseSpec, results: &[PhaseResult]) -> Option<NextPhase> {
        match self.turn(template, &self.levels(results)) {
            Decision::Done(_) => None,
            Decision::Run { level, requests, again, why } => {
                let reason = Some(Reason::step(why, self.axis.name(), level));
                Some(NextPhase { spec: self.measuring(template, level, requests, again)?, reason })
            }
        }
    }

    /// The lowest rate that is tried: the requests that a level needs take as long there as a level may take. 1 in a closed loop.
    pub fn min_load(&self, template: &PhaseSpec) -> f64 {
        if self.is_closed() {
            return 1.0;
        }
        let Extent::Requests(asked) = template.extent else { return 0.0 };
        let seconds = self.first_requests(0.0).max(asked) as f64 / MAX_LEVEL_SECONDS;
        // Rounded up, so that they fit.
        (seconds * 1000.0).ceil() / 1000.0
    }

    /// Every course that a search can take at its longest, as the phases of each: the levels up to the one that misses, those between
    /// it and the last that met, each measured as often as it may be.
    pub(super) fn longest_courses(&self, template: &PhaseSpec) -> Vec<Vec<PhaseSpec>> {
        let start = self.start(template);
        let up = std::iter::successors(Some(start), |level| {
            (*level < self.max_load).then(|| (level * 2.0).min(self.max_load))
        });
        let down = std::iter::successors(Some(start), |level| self.below(template, *level));
        let (up, down): (Vec<f64>, Vec<f64>) = (up.collect(), down.collect());
        let ends = |path: &Vec<f64>| (1..=path.len()).map(|end| path[..end].to_vec()).collect::<Vec<Vec<f64>>>();
        let courses = [&up, &down].into_iter().flat_map(ends).flat_map(|path| {
            let (met, missed) = match path[..] {
                [.., a, b] => (a.min(b), a.max(b)),
                _ => return vec![path],
            };
            // The higher half each time asks for the most requests, the lower half takes the most time.
            let higher = std::iter::successors(self.middle(met, missed), |level| self.middle(*level, missed));
            let lower = std::iter::successors(self.middle(met, missed), |level| self.middle(met, *level));
            [higher.collect::<Vec<f64>>(), lower.collect()].map(|between| [&path[..], &between].concat()).to_vec()
        });
        courses
            .map(|levels| levels.into_iter().flat_map(|level| self.rounds_at_most(template, level)).collect())
            .collect()
    }

    /// Half a level that missed, or the lowest rate; `None` if there is none below.
    fn below(&self, template: &PhaseSpec, missed: f64) -> Option<f64> {
        let lowest = self.min_load(template);
        (!self.is_closed() && missed > lowest).then(|| rounded(missed / 2.0).max(lowest))
    }

    /// The load with which the search begins.
    fn start(&self, template: &PhaseSpec) -> f64 {
        let start = match template.load {
            Load::Open { rate, .. } => rate.per_second(),
            _ => 1.0,
        };
        start.max(self.min_load(template)).min(self.max_load)
    }

    /// Requests after which a level is not measured again.
    fn max_requests_at(&self, level: f64) -> u64 {
        match self.axis {
            Axis::Concurrency => self.max_requests,
            Axis::Rate => self.max_requests.min((level * MAX_LEVEL_SECONDS) as u64),
        }
    }

    /// A level measured again and again until no more requests are allowed.
    fn rounds_at_most(&self, template: &PhaseSpec, level: f64) -> Vec<PhaseSpec> {
        let (mut rounds, mut of, mut requests) = (Vec::new(), 0, self.first_requests(level));
        let max_requests = self.max_requests_at(level);
        while let Some(spec) = self.measuring(template, level, requests, of > 0) {
            let Extent::Requests(sent) = spec.extent else { return vec![spec] };
            rounds.push(spec);
            of += sent.max(1);
            if of >= max_requests {
                break;
            }
            requests = of.min(max_requests - of);
        }
        rounds
    }

    /// How many requests a level is measured with first: a fifth more than the fewest, so that a single miss does not make it
    /// undecided.
    fn first_requests(&self, level: f64) -> u64 {
        let least = Goodput::min_requests(self.share).unwrap_or(1);
        (least + least.div_ceil(5)).max(if self.is_closed() { 3 * level as u64 } else { 0 })
    }

    /// The phase that measures a level with so many requests; the first time with as many as were asked for, if those are more.
    fn measuring(&self, template: &PhaseSpec, level: f64, requests: u64, again: bool) -> Option<PhaseSpec> {
        let mut spec = at_level(template, level)?;
        if let Extent::Requests(n) = &mut spec.extent {
            // A rate that is measured again gets no more than what is left of its time.
            *n = if again && !self.is_closed() { requests } else { (*n).max(requests) };
        }
        Some(spec)
    }

    pub(super) fn found(&self, template: &PhaseSpec, results: &[PhaseResult]) -> SearchResult {
        let levels = self.levels(results);
        let status = match self.turn(template, &levels) {
            Decision::Run { .. } => SearchStatus::Unfinished,
            Decision::Done(status) => status,
        };
        let (met, missed) = bounds(&levels);
        let sentence = SearchSentence { search: self, levels: &levels, results, met, missed }.sentence(status);
        let axis = self.axis.name().to_owned();
        SearchResult { axis, share: self.share, highest_met: met, lowest_missed: missed, status, levels, sentence }
    }

    fn turn(&self, template: &PhaseSpec, levels: &[SearchLevel]) -> Decision {
        let run = |level: f64, why| Decision::Run { level, requests: self.first_requests(level), again: false, why };
        if let Some(open) = levels.iter().find(|level| level.verdict == ShareVerdict::Undecided) {
            if lacks_metric(open) {
                return Decision::Done(SearchStatus::LacksMetric);
            }
            let max_requests = self.max_requests_at(open.load);
            if open.of >= max_requests || open.of == 0 {
                return Decision::Done(SearchStatus::NeedsMoreRequests);
            }
            let requests = open.of.min(max_requests - open.of).max(1);
            let why = "the search measured again where too few requests told whether the objectives are kept";
            return Decision::Run { level: open.load, requests, again: true, why };
        }
        match bounds(levels) {
            (None, None) => run(self.start(template), "the search began at"),
            (None, Some(missed)) => match self.below(template, missed) {
                None => Decision::Done(SearchStatus::NoneMet),
                Some(level) => run(level, "the search halved what missed the objectives"),
            },
            (Some(met), None) if met >= self.max_load => Decision::Done(SearchStatus::AllMet),
            (Some(met), None) => run(
                (met * 2.0).min(self.max_load),
                "the search doubled what kept the objectives, as far as --max-load goes",
            ),
            (Some(met), Some(missed)) => match self.middle(met, missed) {
                None => Decision::Done(SearchStatus::Found),
                Some(level) => run(level, "the search went between what kept the objectives and what did not"),
            },
        }
    }

    fn is_closed(&self) -> bool {
        self.axis == Axis::Concurrency
    }

    fn middle(&self, met: f64, missed: f64) -> Option<f64> {
        match self.axis {
            Axis::Concurrency => (missed - met > 1.0).then(|| f64::midpoint(met, missed).floor()),
            Axis::Rate => (missed > met * RATE_STEP).then(|| rounded((met * missed).sqrt())),
        }
        .filter(|level| *level > met && *level < missed)
    }

    /// The levels, rising, all rounds of one together.
    fn levels(&self, results: &[PhaseResult]) -> Vec<SearchLevel> {
        let mut levels: Vec<SearchLevel> = Vec::new();
        for result in results {
            let load = result.load_level().load;
            let place = levels.iter().position(|level| level.load == load).unwrap_or_else(|| {
                let verdict = ShareVerdict::Undecided;
                levels.push(SearchLevel { load, met: 0, of: 0, undecided: 0, interval: None, verdict });
                levels.len() - 1
            });
            let level = &mut levels[place];
            if let Some(goodput) = &result.goodput {
                level.met += goodput.met;
                level.of += goodput.of;
                level.undecided += goodput.undecided;
            }
        }
        for level in &mut levels {
            level.interval = share_interval(level.met, level.undecided, level.of);
            level.verdict = ShareVerdict::of(level.interval.as_ref(), self.share);
        }
        levels.sort_by(|a, b| a.load.total_cmp(&b.load));
        levels
    }
}

/// Of more requests than this share nobody knows whether they keep the objectives: more requests tell no more.
const MAX_UNDECIDED_SHARE: f64 = 0.02;

fn lacks_metric(level: &SearchLevel) -> bool {
    level.undecided as f64 > MAX_UNDECIDED_SHARE * level.of as f64
}

/// The highest met level below the lowest missed one, and the lowest missed one.
fn bounds(levels: &[SearchLevel]) -> (Option<f64>, Option<f64>) {
    let missed = levels.iter().find(|level| level.verdict == ShareVerdict::Missed).map(|level| level.load);
    let below = |level: &&SearchLevel| missed.is_none_or(|missed| level.load < missed);
    let met = levels.iter().filter(below).rfind(|level| level.verdict == ShareVerdict::Met).map(|level| level.load);
    (met, missed)
}

/// Requests needed to decide, if the share stays the same: the half-width of the normal interval then equals the distance.
fn needed(level: &SearchLevel, share: f64) -> Option<u64> {
    let seen = level.met as f64 / level.of.max(1) as f64;
    let distance = seen - share;
    let z = 1.96;
    let needed =
        if seen >= 1.0 { z * z * share / (1.0 - share) } else { z * z * seen * (1.0 - seen) / (distance * distance) };
    (needed.is_finite() && needed < 1e9).then(|| (needed.ceil() as u64).max(level.of + 1))
}

/// Three decimals are enough for a rate.
fn rounded(rate: f64) -> f64 {
    (rate * 1000.0).round() / 1000.0
}

//! Which phase runs next, given the results so far: a fixed list, refinement, a search for the highest load that meets the
//! objectives, or a system load test.
//!
//! Invariant: the next phase is a function of configuration and results, and the record says why each level was added.

mod reason;
mod search;
mod until;
mod verdict;

pub use reason::Reason;
pub use search::{Axis, Search};
pub use until::Until;
pub use verdict::{Look, Verdicts};

use crate::plan::{Extent, Load, PhaseSpec};
use tokrate_core::{RequestsPerSecond, Rng};
use tokrate_record::curve::{Capacity, CurveResult, FigureStatus, LoadFigure, LoadLevel};
use tokrate_record::{PhaseResult, SearchResult, UntilResult};

/// Levels that the protocol of a system load test runs through first.
const SYSTEM_LEVELS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Concurrency step after them, while throughput rises.
const SYSTEM_STEP: u32 = 64;
/// Without intervals, throughput counts as rising if it grows by this factor.
const MIN_RISE: f64 = 1.02;
/// Smallest relative distance between two levels.
const MIN_LEVEL_DISTANCE: f64 = 0.1;

/// How further phases are chosen after the listed ones.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum ScheduleMode {
    /// Nothing.
    #[default]
    Listed,
    /// Further levels where one of the loads of [`Capacity`] is uncertain.
    Refine {
        /// Levels that may be added.
        max_levels: u32,
    },
    /// Search for the highest level that meets the objectives, with levels like the first phase.
    Search(Search),
    /// Rounds of the listed levels until asked figures are known.
    Until(Until),
    /// Rounds of the listed levels until the targets are compared.
    Verdict(Verdicts),
    /// Concurrency 1, 2, 4 … 64, then 64 more at a time while throughput rises.
    System {
        /// Highest concurrency.
        max_concurrency: u32,
    },
}

/// The phases of a run against one target.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    listed: Vec<PhaseSpec>,
    mode: ScheduleMode,
    seed: u64,
}

/// The next phase to run.
#[derive(Clone, PartialEq, Debug)]
pub struct NextPhase {
    /// The phase.
    pub spec: PhaseSpec,
    /// Why it was added, if it was not listed.
    pub reason: Option<Reason>,
}

impl Schedule {
    /// A schedule of these phases; those that are added are like the first but for their level.
    pub fn new(listed: Vec<PhaseSpec>, mode: ScheduleMode, seed: u64) -> Schedule {
        Schedule { listed, mode, seed }
    }

    /// The phase after these results; `None` when the run is over.
    pub fn next(&self, results: &[PhaseResult]) -> Option<NextPhase> {
        let template = self.listed.first()?;
        match &self.mode {
            ScheduleMode::Search(search) => search.next(template, results),
            ScheduleMode::System { max_concurrency } => system(template, *max_concurrency, results),
            ScheduleMode::Until(until) => until.next(&self.listed, results),
            ScheduleMode::Verdict(verdicts) => verdicts.next(&self.listed, results),
            ScheduleMode::Listed | ScheduleMode::Refine { .. } if results.len() < self.listed.len() => {
                Some(NextPhase { spec: self.listed[results.len()].clone(), reason: None })
            }
            ScheduleMode::Listed => None,
            ScheduleMode::Refine { max_levels } => {
                let added = results.len() - self.listed.len();
                if added < *max_levels as usize { self.refine(template, results) } else { None }
            }
        }
    }

    /// How many phases there are at least, given the results so far.
    pub fn planned(&self, results: &[PhaseResult]) -> usize {
        let listed = match &self.mode {
            ScheduleMode::Listed | ScheduleMode::Refine { .. } => self.listed.len(),
            ScheduleMode::System { max_concurrency } => {
                SYSTEM_LEVELS.iter().filter(|level| **level <= *max_concurrency).count()
            }
            ScheduleMode::Search(_) => 0,
            ScheduleMode::Until(until) => results.len() + until.expected(&self.listed, results),
            ScheduleMode::Verdict(verdicts) => results.len() + verdicts.expected(&self.listed, results),
        };
        listed.max(results.len() + usize::from(self.next(results).is_some()))
    }

    /// The phases that come after the listed ones at most, those of a search and of a system load test included: each course that
    /// the run can take at its longest; none if nothing is added.
    pub fn longest_courses(&self) -> Vec<Vec<PhaseSpec>> {
        let Some(template) = self.listed.first() else { return Vec::new() };
        match &self.mode {
            ScheduleMode::Listed => Vec::new(),
            ScheduleMode::Refine { max_levels } => {
                // More levels at the highest load ask for the most; the same rates lower down take the most time.
                let loads = || self.listed.iter().map(|spec| spec.load.row().amount());
                let ends = [loads().max_by(f64::total_cmp), loads().min_by(f64::total_cmp)];
                let specs = ends.into_iter().filter_map(|level| at_level(template, level?));
                specs.map(|spec| vec![spec; *max_levels as usize]).collect()
            }
            ScheduleMode::System { max_concurrency } => {
                let last = SYSTEM_LEVELS[SYSTEM_LEVELS.len() - 1];
                let further = (last + SYSTEM_STEP..=*max_concurrency).step_by(SYSTEM_STEP as usize);
                let levels = SYSTEM_LEVELS.into_iter().filter(|level| level <= max_concurrency).chain(further);
                vec![levels.filter_map(|level| at_level(template, f64::from(level))).collect()]
            }
            ScheduleMode::Search(search) => search.longest_courses(template),
            ScheduleMode::Until(until) => vec![until.longest_course(&self.listed)],
            ScheduleMode::Verdict(verdicts) => vec![verdicts.longest_course(&self.listed)],
        }
    }

    /// What a search has found so far.
    pub fn found(&self, results: &[PhaseResult]) -> Option<SearchResult> {
        match &self.mode {
            ScheduleMode::Search(search) => Some(search.found(self.listed.first()?, results)),
            _ => None,
        }
    }

    /// How well the asked figures are known so far.
    pub fn known(&self, results: &[PhaseResult]) -> Option<UntilResult> {
        match &self.mode {
            ScheduleMode::Until(until) => Some(until.result(&self.listed, results)),
            ScheduleMode::Verdict(verdicts) => Some(verdicts.result(&self.listed, results)),
            _ => None,
        }
    }

    /// The verdicts that the run goes on for, if it does.
    pub fn verdicts(&self) -> Option<&Verdicts> {
        match &self.mode {
            ScheduleMode::Verdict(verdicts) => Some(verdicts),
            _ => None,
        }
    }

    /// Takes over what looks found: loads that are decided need no more rounds.
    pub fn take_looks(&mut self, looks: &[Look]) {
        if let ScheduleMode::Verdict(verdicts) = &mut self.mode {
            verdicts.take_looks(looks);
        }
    }

    /// A level between two others, where a capacity load is most uncertain.
    fn refine(&self, template: &PhaseSpec, results: &[PhaseResult]) -> Option<NextPhase> {
        let first = results.first()?;
        let mut levels: Vec<LoadLevel> = results.iter().map(PhaseResult::load_level).collect();
        levels.sort_by(|a, b| a.load.total_cmp(&b.load));
        levels.dedup_by(|a, b| a.load == b.load);
        let curve = CurveResult::of(first.load_axis(), &levels, &Rng::root(self.seed).child("refine"));
        let pairs = || levels.windows(2).map(|pair| (pair[0].load, pair[1].load));
        let wide = |&(low, high): &(f64, f64)| between(template, low, high).is_some();
        let mut open = open_figures(&curve.capacity);
        open.retain(|(_, low, high)| pairs().filter(wide).any(|pair| pair.0 < *high && *low < pair.1));
        let (pair, reason) = match open.first() {
            Some(&(what, low, high)) => {
                let middle = (low * high).sqrt();
                let distance = |(low, high): (f64, f64)| (low - middle).max(middle - high).max(0.0);
                let pair = pairs().filter(wide).min_by(|a, b| distance(*a).total_cmp(&distance(*b)))?;
                (pair, format!("{what} somewhere from {low:.1} to {high:.1}"))
            }
            None if curve.capacity.slows.status == FigureStatus::Unknown => {
                (steepest(&levels).filter(wide)?, "throughput per unit of load falls most there".to_owned())
            }
            None => return None,
        };
        let level = between(template, pair.0, pair.1)?;
        let why = format!("level {level} was added between {} and {}: {reason}", pair.0, pair.1);
        Some(NextPhase { spec: at_level(template, level)?, reason: Some(Reason::of(why)) })
    }
}

/// The capacity loads without a narrow interval; the widest first.
fn open_figures(capacity: &Capacity) -> Vec<(&'static str, f64, f64)> {
    let figures: [(&'static str, &LoadFigure); 3] = [
        ("requests begin to wait", &capacity.waits),
        ("a request slows", &capacity.slows),
        ("nearly all throughput is reached", &capacity.nearly_all),
    ];
    let open = figures.into_iter().filter(|(_, figure)| figure.status != FigureStatus::Found);
    let mut open: Vec<_> = open.filter_map(|(what, figure)| Some((what, figure.low?, figure.high?))).collect();
    open.sort_by(|a, b| (b.2 / b.1).total_cmp(&(a.2 / a.1)));
    open
}

/// The two levels between which throughput per unit of load falls most.
fn steepest(levels: &[LoadLevel]) -> Option<(f64, f64)> {
    let efficiency = |level: &LoadLevel| Some(level.throughput?.value / level.load);
    levels
        .windows(2)
        .filter_map(|pair| Some((efficiency(&pair[1])? / efficiency(&pair[0])?, (pair[0].load, pair[1].load))))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, pair)| pair)
}

/// The protocol of a system load test.
fn system(template: &PhaseSpec, most: u32, results: &[PhaseResult]) -> Option<NextPhase> {
    let level = match SYSTEM_LEVELS.get(results.len()) {
        Some(&level) => {
            return (level <= most).then_some(NextPhase { spec: at_level(template, f64::from(level))?, reason: None });
        }
        None => SYSTEM_LEVELS[6] + SYSTEM_STEP * (results.len() - SYSTEM_LEVELS.len() + 1) as u32,
    };
    let [.., before, last] = results else { return None };
    if level > most {
        return None;
    }
    let why = rise(&before.load_level(), &last.load_level())?;
    Some(NextPhase {
        spec: at_level(template, f64::from(level))?,
        reason: Some(Reason::of(format!("concurrency {level} was added: {why}"))),
    })
}

/// Why throughput counts as rising from one level to the next; `None` if it does not.
fn rise(before: &LoadLevel, last: &LoadLevel) -> Option<String> {
    let (a, b) = (before.throughput?, last.throughput?);
    let rises = match (a.high, b.low) {
        (Some(high), Some(low)) => low > high,
        _ => b.value > a.value * MIN_RISE,
    };
    rises.then(|| {
        format!(
            "throughput still rose from {:.0} to {:.0} tok/s between {} and {}",
            a.value, b.value, before.load, last.load
        )
    })
}

/// A level between two; `None` if they are next to each other.
fn between(template: &PhaseSpec, low: f64, high: f64) -> Option<f64> {
    if (high - low) / high <= MIN_LEVEL_DISTANCE {
        return None;
    }
    let middle = (low * high).sqrt();
    match template.load {
        Load::Closed { .. } => (high - low >= 2.0).then(|| middle.round().clamp(low + 1.0, high - 1.0)),
        _ => Some((middle * 1000.0).round() / 1000.0),
    }
}

/// The template at another level; `None` for loads that are no level.
fn at_level(template: &PhaseSpec, level: f64) -> Option<PhaseSpec> {
    let mut spec = template.clone();
    match &mut spec.load {
        Load::Closed { concurrency } => {
            let earlier = std::mem::replace(concurrency, level as u32);
            // A warm-up of one per slot stays one per slot.
            if template.warmup == u64::from(earlier) {
                spec.warmup = u64::from(*concurrency);
            }
            if let Extent::Requests(n) = &mut spec.extent {
                *n = (*n).max(3 * u64::from(*concurrency));
            }
        }
        Load::Open { rate, .. } => *rate = RequestsPerSecond::new(level)?,
        _ => return None,
    }
    Some(spec)
}

#[cfg(test)]
mod tests;

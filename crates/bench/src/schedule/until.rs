//! Rounds of the asked levels until every asked figure is known as well as was asked, or a limit ends it.
//!
//! Invariant: after a start-up of every level the next round is the one that narrows an interval most for its requests, and a level at
//! which everything is known is not measured again.

use super::NextPhase;
use crate::plan::{Extent, Load, PhaseSpec};
use tokrate_core::Span;
use tokrate_judge::Precision;
use tokrate_record::run::{Rounds, by_load};
use tokrate_record::{PhaseResult, PrecisionOutcome, PrecisionStatus, UntilEnd, UntilResult};
use tokrate_stats::MIN_ROUNDS;

/// Requests of a round at least: from six on a median has an interval of its own, and of an odd number it is the one in the middle. The
/// nearest rank of six is the third of them, so that the medians of such rounds are less than that of all their requests.
const MIN_REQUESTS: u64 = 7;
/// Requests of a round for each that is in flight, as of a level with a fixed plan: fewer would mostly be those that begin and end it.
const REQUESTS_PER_SLOT: u64 = 3;
/// Time of a round of an open loop at least (s): less holds few arrivals.
const OPEN_SECONDS: f64 = 5.0;

/// What is asked, and what a level may take for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Until {
    /// What is to be known.
    pub conditions: Vec<Precision>,
    /// Measured requests after which a level is not measured again.
    pub max_requests: u64,
    /// Time after which a level is not measured again.
    pub max_time: Option<Span>,
}

/// A listed level and what its rounds say so far.
struct LevelState<'a> {
    spec: &'a PhaseSpec,
    rounds: u64,
    requests: u64,
    time: Span,
    outcomes: Vec<PrecisionOutcome>,
    /// Whether somebody asks for a figure of it.
    is_asked: bool,
}

impl Until {
    /// One round of a level: as many requests as show its load, and in [`MIN_ROUNDS`] of them as many as the asked percentiles take.
    pub fn round_of(&self, level: &PhaseSpec) -> PhaseSpec {
        let asked = self.conditions.iter().filter(|condition| condition.is_for_load(level.load.row()));
        let needed = asked.map(|condition| condition.requests_needed().div_ceil(MIN_ROUNDS)).max().unwrap_or(0);
        let of_load = match &level.load {
            Load::Open { rate, .. } => (rate.per_second() * OPEN_SECONDS).ceil() as u64,
            load => REQUESTS_PER_SLOT * u64::from(load.max_in_flight()),
        };
        let requests = needed.max(of_load).max(MIN_REQUESTS);
        PhaseSpec { extent: Extent::Requests(requests + u64::from(requests.is_multiple_of(2))), ..level.clone() }
    }

    pub(super) fn next(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> Option<NextPhase> {
        let loads = by_load(results);
        let levels = self.levels(listed, &loads);
        let chosen = self.start_up(&levels).or_else(|| self.most_for_its_requests(&levels))?;
        Some(NextPhase { spec: chosen.spec.clone(), reason: None })
    }

    /// How well everything is known.
    pub(super) fn result(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> UntilResult {
        let loads = by_load(results);
        let levels = self.levels(listed, &loads);
        let outcomes = || levels.iter().flat_map(|level| &level.outcomes);
        let is_open =
            |level: &&LevelState<'_>| level.outcomes.iter().any(|it| it.status == PrecisionStatus::NotReached);
        let end = match () {
            () if self.next(listed, results).is_some() => UntilEnd::Unfinished,
            () if levels.iter().filter(is_open).any(|level| level.requests >= self.max_requests) => UntilEnd::Requests,
            () if levels.iter().any(|level| is_open(&level)) => UntilEnd::Time,
            () if outcomes().any(|it| it.status == PrecisionStatus::NotReachable) => UntilEnd::NotReachable,
            () => UntilEnd::Reached,
        };
        // In the order of the conditions, as they were written.
        let of = |condition: &Precision| {
            let name = condition.to_string();
            outcomes().filter(move |outcome| outcome.condition == name).cloned().collect::<Vec<PrecisionOutcome>>()
        };
        UntilResult { end, conditions: self.conditions.iter().flat_map(of).collect(), verdict: None }
    }

    /// Rounds that are still to come, by what is known so far; at least one while it goes on.
    pub(super) fn expected(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> usize {
        let loads = by_load(results);
        let levels = self.levels(listed, &loads);
        let of_level = |level: &LevelState<'_>| {
            let start_up = level.start_up().saturating_sub(level.rounds);
            let Extent::Requests(requests) = level.spec.extent else { return start_up };
            let open = level.outcomes.iter().filter(|outcome| outcome.status == PrecisionStatus::NotReached);
            let more = open.map(|outcome| outcome.more_requests.unwrap_or(requests)).max().unwrap_or(0);
            let left = self.max_requests.saturating_sub(level.requests);
            more.min(left).div_ceil(requests.max(1)).max(start_up)
        };
        let rounds: u64 = levels.iter().filter(|level| self.may_go_on(level)).map(of_level).sum();
        rounds as usize
    }

    /// The rounds that come after the start-up at most.
    pub(super) fn longest_course(&self, listed: &[PhaseSpec]) -> Vec<PhaseSpec> {
        let of_level = |spec: &PhaseSpec| {
            let Extent::Requests(requests) = spec.extent else { return Vec::new() };
            let asked = self.conditions.iter().any(|condition| condition.is_for_load(spec.load.row()));
            let rounds = if asked { self.max_requests.div_ceil(requests.max(1)).saturating_sub(MIN_ROUNDS) } else { 0 };
            vec![spec.clone(); rounds as usize]
        };
        listed.iter().flat_map(of_level).collect()
    }

    /// Rounds of a level before anything is decided.
    pub fn start_up_rounds(&self, spec: &PhaseSpec) -> u64 {
        if self.conditions.iter().any(|condition| condition.is_for_load(spec.load.row())) { MIN_ROUNDS } else { 1 }
    }

    fn levels<'a>(&self, listed: &'a [PhaseSpec], loads: &[Rounds<'_>]) -> Vec<LevelState<'a>> {
        let state = |spec: &'a PhaseSpec| {
            let row = spec.load.row();
            let asked: Vec<&Precision> =
                self.conditions.iter().filter(|condition| condition.is_for_load(row)).collect();
            let rounds = loads.iter().find(|rounds| rounds.load == row);
            LevelState {
                spec,
                rounds: rounds.map_or(0, |rounds| rounds.phases.len() as u64),
                requests: rounds.map_or(0, |rounds| rounds.count(|phase| phase.counts.measured)),
                time: Span::from_nanos(rounds.map_or(0, |rounds| rounds.count(|it| it.ended_at_ns - it.started_at_ns))),
                outcomes: rounds.map_or_else(Vec::new, |rounds| asked.iter().map(|it| it.assess(rounds)).collect()),
                is_asked: !asked.is_empty(),
            }
        };
        listed.iter().map(state).collect()
    }

    fn may_go_on(&self, level: &LevelState<'_>) -> bool {
        level.requests < self.max_requests
            && self.max_time.is_none_or(|limit| level.time < limit)
            && (level.rounds == 0 || level.outcomes.iter().any(|outcome| outcome.status == PrecisionStatus::NotReached))
    }

    /// The level with the fewest rounds of those whose start-up is not over; every other time from the highest on, so that drift favours none.
    fn start_up<'l, 'a>(&self, levels: &'l [LevelState<'a>]) -> Option<&'l LevelState<'a>> {
        let open =
            levels.iter().enumerate().filter(|(_, level)| self.may_go_on(level) && level.rounds < level.start_up());
        let order = |&(place, level): &(usize, &LevelState<'_>)| {
            let place = place as i64;
            (level.rounds, if level.rounds.is_multiple_of(2) { place } else { -place })
        };
        open.min_by_key(order).map(|(_, level)| level)
    }

    /// The level whose next round narrows an interval most, in asked widths, for each of its requests.
    fn most_for_its_requests<'l, 'a>(&self, levels: &'l [LevelState<'a>]) -> Option<&'l LevelState<'a>> {
        let gain = |level: &LevelState<'_>| {
            let Extent::Requests(requests) = level.spec.extent else { return 0.0 };
            let rounds = level.rounds as f64;
            let narrower = 1.0 - (rounds / (rounds + 1.0)).sqrt();
            let open = level.outcomes.iter().filter(|outcome| outcome.status == PrecisionStatus::NotReached);
            let widest = open.map(|outcome| outcome.half_width.map_or(f64::MAX, |half| half / outcome.asked));
            widest.fold(0.0, f64::max) * narrower / (requests + level.spec.warmup) as f64
        };
        levels.iter().filter(|level| self.may_go_on(level)).max_by(|a, b| gain(a).total_cmp(&gain(b)))
    }
}

impl LevelState<'_> {
    /// Its rounds before anything is decided: one where nobody asks for anything.
    fn start_up(&self) -> u64 {
        if self.is_asked { MIN_ROUNDS } else { 1 }
    }
}

#[cfg(test)]
mod tests;

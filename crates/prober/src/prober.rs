//! The prober: a machine that is polled with the time and completed with outcomes.
//!
//! Invariant: what it does follows from its configuration, the times it is polled at and the outcomes; it keeps no more than the
//! present cycles and what each series usually does.

use crate::budget::{Account, BudgetKind, Spent};
use crate::clock::{ClockEvent, ClockWatch};
use crate::config::{Config, ConfigError, DAY_MS};
use crate::cycle::{ClosedCycle, Cycle, Outcome, ReferenceResult, judge_providers, judge_references};
use crate::notice::{MissedReason, Notice};
use crate::plan::{fit, windows};
use crate::queue::{Flight, Planned, Queue};
use crate::schedule::{Schedule, Series, SeriesId};
use crate::usual::Usual;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use tokrate_core::{Span, Tick};

/// Further probes after a suspicion, within an hour or a slot, and how long a series is left alone after that.
const FURTHER_PROBES: u64 = 8;
const FURTHER_MS: u64 = 3_600_000;
const FURTHER_PAUSE_MS: u64 = DAY_MS / 4;
/// A reference probe speaks for so long.
const REFERENCE_AGE: Span = Span::from_secs(600);
/// The longest wait: the clocks are looked at as often.
const MAX_WAIT_MS: u64 = 60_000;
/// Slots that are remembered, so that none is planned twice when the clock goes back.
const MAX_REMEMBERED_SLOTS: usize = 4_096;

/// What to do now.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Probe the engine on loopback, and report with [`Prober::referenced`].
    Reference {
        /// For this cycle.
        cycle: u64,
    },
    /// Send a probe, and report with [`Prober::completed`].
    Probe(Order),
    /// Nothing until then, or until something that was started has ended.
    WaitUntil(Tick),
}

/// A probe that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its number in this run.
    pub number: u64,
    /// Its series.
    pub series: SeriesId,
    /// Place of its endpoint in the configuration.
    pub endpoint: usize,
    /// Place of its workload.
    pub workload: usize,
    /// Its cycle.
    pub cycle: u64,
    /// When it was due (ms since 1970).
    pub due_ms: u64,
    /// When its slot began (ms since 1970). Probes of one series and slot count as one.
    pub slot_ms: u64,
    /// Whether it was asked for by a suspicion.
    pub is_further: bool,
}

/// Decides when what is probed.
#[derive(Clone, Debug)]
pub struct Prober {
    config: Config,
    schedule: Schedule,
    account: Account,
    clock: ClockWatch,
    queue: Queue,
    cycles: BTreeMap<u64, Cycle>,
    next_cycle: u64,
    next_number: u64,
    /// The first slot that was not planned yet.
    next_slot: Option<u64>,
    /// Whether there is one cycle only.
    is_single: bool,
    slots: BTreeSet<u64>,
    /// Regular probes that an earlier run has made.
    made: BTreeSet<(u64, SeriesId)>,
    every: Vec<u32>,
    planned_day: Option<u64>,
    /// What was last reported of the cadence.
    lowered: Vec<u32>,
    usual: Vec<Usual>,
    further_at: Vec<Option<u64>>,
    /// The cycle whose reference probe is under way.
    reference: Option<u64>,
    referenced: Option<(u64, Tick)>,
    notices: Vec<Notice>,
    closed: Vec<ClosedCycle>,
}

impl Prober {
    /// A prober that has not begun.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: Config) -> Result<Prober, ConfigError> {
        config.check()?;
        let schedule = Schedule::new(&config);
        let count = schedule.series.len();
        let every: Vec<u32> = schedule.series.iter().map(|series| config.workloads[series.workload].every).collect();
        Ok(Prober {
            account: Account::new(config.budget),
            clock: ClockWatch::default(),
            queue: Queue::new(&config),
            cycles: BTreeMap::new(),
            next_cycle: 0,
            next_number: 0,
            next_slot: None,
            is_single: false,
            slots: BTreeSet::new(),
            made: BTreeSet::new(),
            lowered: every.clone(),
            every,
            planned_day: None,
            usual: vec![Usual::default(); count],
            further_at: vec![None; count],
            reference: None,
            referenced: None,
            notices: Vec::new(),
            closed: Vec::new(),
            schedule,
            config,
        })
    }

    /// Plans one cycle of every series now, whatever the schedule says, and nothing after it. Probes may be late.
    pub fn begin_single_cycle(&mut self, wall_ms: u64) {
        let cycle = self.begin_cycle();
        self.is_single = true;
        let slot_ms = self.schedule.slot_of(wall_ms) * self.schedule.slot_ms;
        for series in 0..self.every.len() {
            self.plan(wall_ms, series, cycle, slot_ms, false);
        }
    }

    /// The series, in the order of their ids.
    pub fn series(&self) -> &[Series] {
        &self.schedule.series
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes over what earlier runs spent in this month and on this day, and the part of it that went to further probes.
    pub fn restore_spent(&mut self, wall_ms: u64, spent: Spent, further: Spent) {
        self.account.restore(wall_ms, spent, further);
    }

    /// Takes over a probe of an earlier run, oldest first: its outcome, unless it does not count, shows what is usual, and a regular
    /// one is not made again.
    pub fn restore_probe(&mut self, series: SeriesId, due_ms: u64, is_further: bool, outcome: Option<&Outcome>) {
        if let Some(outcome) = outcome {
            self.usual[series].learn(outcome);
        }
        if !is_further {
            self.made.insert((self.schedule.slot_of(due_ms), series));
            while self.made.len() > MAX_REMEMBERED_SLOTS {
                self.made.pop_first();
            }
        }
    }

    /// Judges a cycle that an earlier run has left open by what is left of it.
    pub fn judge(&self, references: &[ReferenceResult], outcomes: &[(SeriesId, Outcome)]) -> Option<String> {
        judge_references(references).or_else(|| {
            let judged = outcomes.iter().map(|(series, outcome)| (*series, self.usual[*series].is_bad(outcome)));
            judge_providers(judged.map(|(series, is_bad)| (self.provider(series), is_bad)))
        })
    }

    /// What was spent in this month and on this day.
    pub fn spent(&self) -> Spent {
        self.account.spent()
    }

    /// Probes in flight.
    pub fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// What to do at a time: the steady clock's, and the wall clock's in ms since 1970. Call it again until it says to wait.
    pub fn poll(&mut self, now: Tick, wall_ms: u64) -> Step {
        let was_away = self.look_at_clocks(now, wall_ms);
        self.account.turn(wall_ms);
        if !self.is_single {
            self.plan_slots(wall_ms);
            self.drop_late(wall_ms, was_away);
        }
        if let Some(step) = self.start(now, wall_ms) {
            return step;
        }
        let slot_end = (self.schedule.slot_of(wall_ms) + 1) * self.schedule.slot_ms;
        let wake = self.queue.wake_ms(wall_ms, self.schedule.tolerance_ms());
        let wake_ms = wake.into_iter().chain([slot_end, wall_ms + MAX_WAIT_MS]).min().unwrap_or(slot_end);
        let wake_at = now + Span::from_millis(wake_ms.saturating_sub(wall_ms).max(1));
        self.clock.expect(wake_at);
        Step::WaitUntil(wake_at)
    }

    /// A probe has ended. One that is not in flight is passed over.
    pub fn completed(&mut self, number: u64, outcome: Outcome) {
        let Some(Flight { series, cycle, reservation, .. }) = self.queue.end(number) else { return };
        self.account.settle(reservation, outcome.tokens, outcome.cost);
        let is_bad = self.usual[series].is_bad(&outcome);
        if let Some(open) = self.cycles.get_mut(&cycle) {
            open.outcomes.push((number, series, outcome, is_bad));
        }
        self.release(cycle);
    }

    /// A reference probe has ended.
    pub fn referenced(&mut self, now: Tick, cycle: u64, result: ReferenceResult) {
        if self.reference == Some(cycle) {
            self.reference = None;
            self.referenced = Some((cycle, now));
            if let Some(open) = self.cycles.get_mut(&cycle) {
                open.references.push(result);
            }
        }
    }

    /// Asks for further probes of a series, as a change of it is suspected. Says whether they are planned: not if it had some in the
    /// last six hours.
    pub fn suspect(&mut self, series: SeriesId, wall_ms: u64) -> bool {
        let recent = self.further_at[series].is_some_and(|at| wall_ms.abs_diff(at) < FURTHER_PAUSE_MS);
        if recent {
            return false;
        }
        self.further_at[series] = Some(wall_ms);
        let slot_ms = self.schedule.slot_of(wall_ms) * self.schedule.slot_ms;
        let span_ms = FURTHER_MS.min(self.schedule.slot_ms);
        let cycle = self.begin_cycle();
        for due_ms in self.schedule.further(series, wall_ms, span_ms, FURTHER_PROBES) {
            self.plan(due_ms, series, cycle, slot_ms, true);
        }
        true
    }

    /// Cycles that have ended since this was last asked, oldest first.
    pub fn take_closed(&mut self) -> Vec<ClosedCycle> {
        std::mem::take(&mut self.closed)
    }

    /// What users should know, since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether anything is planned, in flight or not judged yet.
    pub fn has_open_cycles(&self) -> bool {
        !self.cycles.is_empty()
    }

    fn provider(&self, series: SeriesId) -> &str {
        &self.config.endpoints[self.schedule.series[series].endpoint].provider
    }

    /// Says whether the prober was away.
    fn look_at_clocks(&mut self, now: Tick, wall_ms: u64) -> bool {
        let event = self.clock.observe(now, wall_ms);
        let slot = self.schedule.slot_of(wall_ms);
        let is_far_back = self.next_slot.is_some_and(|next| next > slot + u64::from(self.config.slots_a_day) + 1);
        if is_far_back {
            self.next_slot = Some(slot);
            self.planned_day = None;
            let planned = self.queue.clear();
            self.missed(planned.len() as u64, None, MissedReason::Away);
            planned.iter().for_each(|planned| self.release(planned.cycle));
        }
        match event {
            None => false,
            Some(ClockEvent::Ahead(ms)) => {
                self.notices.push(Notice::ClockAhead { ms });
                true
            }
            Some(ClockEvent::Back(ms)) => {
                self.notices.push(Notice::ClockBack { ms, restarted: is_far_back });
                true
            }
            Some(ClockEvent::Stopped(ms)) => {
                self.notices.push(Notice::Stopped { ms });
                true
            }
        }
    }

    /// Plans the cycle of a slot that has begun; slots that have passed meanwhile are counted.
    fn plan_slots(&mut self, wall_ms: u64) {
        let slot = self.schedule.slot_of(wall_ms);
        let is_first = self.next_slot.is_none();
        let next = *self.next_slot.get_or_insert(slot);
        if next > slot {
            return;
        }
        let passed = |id: SeriesId| self.schedule.count(id, self.every[id], next, slot);
        let passed: u64 = (0..self.every.len()).map(passed).sum();
        self.missed(passed, None, MissedReason::Away);
        self.next_slot = Some(slot + 1);
        if !self.slots.insert(slot) {
            return;
        }
        if self.slots.len() > MAX_REMEMBERED_SLOTS {
            self.slots.pop_first();
        }
        self.fit_budget(slot, wall_ms);
        let cycle = self.begin_cycle();
        let slot_ms = slot * self.schedule.slot_ms;
        for series in 0..self.every.len() {
            let due = self.schedule.due(series, self.every[series], slot);
            // Of the slot in which a prober begins, only the rest was promised.
            let due = due.filter(|due| !is_first || *due >= wall_ms).filter(|_| !self.made.contains(&(slot, series)));
            if let Some(due_ms) = due {
                self.plan(due_ms, series, cycle, slot_ms, false);
            }
        }
        self.cycles.retain(|number, open| *number != cycle || open.open > 0);
    }

    /// Sets the cadence anew, once a day.
    fn fit_budget(&mut self, slot: u64, wall_ms: u64) {
        let day = wall_ms / DAY_MS;
        if self.planned_day == Some(day) {
            return;
        }
        self.planned_day = Some(day);
        let left = self.account.left();
        if left == (None, None) {
            return;
        }
        let spreads: Vec<f64> = self.usual.iter().map(Usual::spread).collect();
        let cadence = fit(&self.config, &self.schedule, &spreads, &windows(&self.schedule, slot, left, wall_ms));
        for budget in &cadence.short {
            self.notices.push(Notice::Short { budget: *budget });
        }
        if let Some(budget) = cadence.lowered.filter(|_| cadence.every != self.lowered) {
            let slower = |id: &SeriesId| cadence.every[*id] > self.lowered[*id];
            let series = (0..cadence.every.len()).filter(slower).map(|id| {
                let (endpoint, workload) = self.names(id);
                (endpoint, workload, cadence.every[id])
            });
            let series: Vec<_> = series.collect();
            if !series.is_empty() {
                self.notices.push(Notice::Lowered { budget, series });
            }
        }
        self.lowered.clone_from(&cadence.every);
        self.every = cadence.every;
    }

    fn begin_cycle(&mut self) -> u64 {
        let cycle = self.next_cycle;
        self.next_cycle += 1;
        self.cycles.insert(cycle, Cycle::default());
        cycle
    }

    fn plan(&mut self, due_ms: u64, series: SeriesId, cycle: u64, slot_ms: u64, is_further: bool) {
        let endpoint = self.schedule.series[series].endpoint;
        self.queue.plan(due_ms, self.next_number, Planned { series, endpoint, cycle, slot_ms, is_further });
        self.next_number += 1;
        if let Some(open) = self.cycles.get_mut(&cycle) {
            open.open += 1;
        }
    }

    fn drop_late(&mut self, wall_ms: u64, was_away: bool) {
        let reason = if was_away { MissedReason::Away } else { MissedReason::Busy };
        let too_late = wall_ms.saturating_sub(self.schedule.tolerance_ms());
        let mut dropped = Vec::new();
        while let Some(planned) = self.queue.pop_before(too_late) {
            dropped.push(planned);
        }
        let single = if let [only] = dropped[..] { Some(self.names(only.series)) } else { None };
        self.missed(dropped.len() as u64, single, reason);
        dropped.iter().for_each(|planned| self.release(planned.cycle));
    }

    fn start(&mut self, now: Tick, wall_ms: u64) -> Option<Step> {
        if self.reference.is_some() {
            return None;
        }
        while let Some((due_ms, number, planned)) = self.queue.ready(wall_ms) {
            let Planned { series, endpoint, cycle, slot_ms, is_further } = planned;
            let is_fresh = |(of, at): (u64, Tick)| of == cycle && now.since(at) < REFERENCE_AGE;
            if !self.referenced.is_some_and(is_fresh) {
                self.reference = Some(cycle);
                return Some(Step::Reference { cycle });
            }
            self.queue.remove(due_ms, number);
            let workload = self.schedule.series[series].workload;
            match self.account.reserve(self.config.most(endpoint, workload), is_further) {
                Err(budget) => self.over_budget(series, cycle, budget),
                Ok(reservation) => {
                    self.queue.start(number, Flight { series, endpoint, cycle, reservation });
                    return Some(Step::Probe(Order {
                        number,
                        series,
                        endpoint,
                        workload,
                        cycle,
                        due_ms,
                        slot_ms,
                        is_further,
                    }));
                }
            }
        }
        None
    }

    fn over_budget(&mut self, series: SeriesId, cycle: u64, budget: BudgetKind) {
        let names = self.names(series);
        self.missed(1, Some(names), MissedReason::Budget(budget));
        self.release(cycle);
    }

    fn missed(&mut self, count: u64, series: Option<(String, String)>, reason: MissedReason) {
        if count > 0 {
            self.notices.push(Notice::Missed { count, series, reason });
        }
    }

    fn names(&self, series: SeriesId) -> (String, String) {
        let Series { endpoint, workload } = self.schedule.series[series];
        (self.config.endpoints[endpoint].name.clone(), self.config.workloads[workload].name.clone())
    }

    /// One probe of a cycle is done with; the last one closes it.
    fn release(&mut self, cycle: u64) {
        let Some(open) = self.cycles.get_mut(&cycle) else { return };
        open.open = open.open.saturating_sub(1);
        if open.open > 0 {
            return;
        }
        let Some(Cycle { references, outcomes, .. }) = self.cycles.remove(&cycle) else { return };
        let together =
            || judge_providers(outcomes.iter().map(|(_, series, _, is_bad)| (self.provider(*series), *is_bad)));
        let quarantine = judge_references(&references).or_else(together);
        if quarantine.is_none() {
            for (_, series, outcome, _) in &outcomes {
                self.usual[*series].learn(outcome);
            }
        }
        let probes = outcomes.iter().map(|(number, ..)| *number).collect();
        self.closed.push(ClosedCycle { cycle, quarantine, references, probes });
    }
}

#[cfg(test)]
mod tests;

//! A run against one target or several: they take turns, phase by phase, and the observer is notified of each step.
//!
//! Invariant: after every phase the observer holds a record that is valid as it stands, so that an interrupt loses nothing.

mod empty_record;
mod job;
mod phase;
mod record;
mod target;

use crate::config::Config;
use crate::forecast::Forecast;
use crate::plan::{Budget, PhaseSpec};
use crate::progress::Progress;
use crate::{BenchError, RequestArrivals, Stop};
use std::sync::{Arc, Mutex};
use target::TargetRun;
use tokrate_meter::RequestNumbers;
use tokrate_net::Clock;
use tokrate_record::Record;

/// Which phase of a run is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhasePosition {
    /// Which target, from 0.
    pub target: usize,
    /// Which of its phases, from 0.
    pub phase: usize,
    /// How many phases it has.
    pub of: usize,
}

/// Receives the progress of a run.
pub trait Observer {
    /// The probe request before the load begins.
    fn probing(&mut self, target: usize);
    /// The load begins, with the forecast for the target.
    fn planned(&mut self, target: usize, forecast: &Forecast);
    /// A phase begins; its counters can be watched.
    fn phase_started(&mut self, place: PhasePosition, spec: &PhaseSpec, progress: &Arc<Progress>);
    /// The client's own error at the load of the phase is being measured.
    fn calibrating(&mut self, place: PhasePosition);
    /// A phase has ended. The record holds all phases of its target so far; the rows are those of this phase.
    fn phase_ended(&mut self, place: PhasePosition, record: &Record, rows: &[RequestNumbers]);
    /// Every arrival of a request of the phase, before the phase ends. Nothing is done with them unless somebody keeps them.
    fn arrived(&mut self, _place: PhasePosition, _request: RequestArrivals<'_>) {}
}

/// Carries out a run against one target or several, and returns a record for each. Blocks. What fails within it is in the
/// record.
///
/// Targets alternate, in reversed order each time (A-B, B-A, …), so that drift during the run
/// does not favour one of them.
///
/// # Errors
/// When nothing could be measured at all: no thread, no engine, an endpoint whose name has no address.
pub fn run(
    configs: &[Config],
    clock: Clock,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<Vec<Record>, BenchError> {
    if configs.is_empty() || configs.iter().any(|config| config.phases.is_empty()) {
        return Err(BenchError::NoPhases);
    }
    let began_at = clock.now();
    let open = |config| TargetRun::open(config, clock, stop, began_at);
    let mut runs = configs.iter().map(open).collect::<Result<Vec<_>, BenchError>>()?;
    let limit = configs.iter().filter_map(|config| config.max_cost_usd).reduce(f64::min);
    if let Some(budget) = limit.map(|limit| Arc::new(Mutex::new(Budget::new(limit)))) {
        runs.iter_mut().for_each(|run| run.set_budget(&budget));
    }
    for (target, run) in runs.iter_mut().enumerate() {
        run.catching(|run| run.prepare(target, observer))?;
    }
    for turn in 0.. {
        let mut any = false;
        for target in order_of(turn, configs.len()) {
            any |= runs[target].catching(|run| run.run_next_phase(target, observer))?;
        }
        // What was given up on one side has no verdict, whatever the others measure.
        let is_undecidable = runs.iter().any(|run| run.verdicts().is_some() && run.abort_reason.is_some());
        if !any || is_undecidable {
            break;
        }
        look(&mut runs);
    }
    // The limit is one for all targets: those that it kept from going on say so as the one does that met it.
    runs.iter_mut().filter(|run| run.is_cut_by_cost()).for_each(TargetRun::update_record);
    Ok(runs.into_iter().map(TargetRun::into_record).collect())
}

/// Looks at the asked comparisons, and ends the rounds of the loads at which all of them have their verdicts.
fn look(runs: &mut [TargetRun<'_>]) {
    let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
    let Some(verdicts) = runs.first().and_then(TargetRun::verdicts) else { return };
    let looks = verdicts.look(&records);
    if !looks.is_empty() {
        runs.iter_mut().for_each(|run| run.take_looks(&looks));
    }
}

/// The order of the targets in a turn; reversed every other turn.
fn order_of(turn: usize, targets: usize) -> impl Iterator<Item = usize> {
    (0..targets).map(move |place| if turn.is_multiple_of(2) { place } else { targets - 1 - place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_alternate_in_reversing_order() {
        let in_turns = |turns, targets| (0..turns).flat_map(move |turn| order_of(turn, targets));
        let turns: String = in_turns(4, 2).map(|target| ["A", "B"][target]).collect();
        assert_eq!(turns, "ABBAABBA");
        let turns: String = in_turns(2, 3).map(|target| ["A", "B", "C"][target]).collect();
        assert_eq!(turns, "ABCCBA");
    }
}

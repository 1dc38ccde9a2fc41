//! One phase of a target: the load is run, its rows are measured, the client's own error is determined, and the result is
//! added to the record.

use super::target::TargetRun;
use super::{Observer, PhasePosition};
use crate::abort::AbortPolicy;
use crate::config::Calibration;
use crate::drive::{PhaseOutput, run_phase};
use crate::endpoint::conditions;
use crate::job::Job;
use crate::plan::{Backoff, PhaseSpec, held_back};
use crate::schedule::{Reason, ScheduleMode};
use crate::scrape::Scraper;
use crate::{BenchError, RequestArrivals, ground_truth, history};
use std::sync::Arc;
use tokrate_core::{Conditions, Span};
use tokrate_judge::goodput;
use tokrate_meter::{ClientError, ClientErrorSource, RequestNumbers};
use tokrate_record::timeline::Sampled;
use tokrate_record::{PhaseInput, PhaseResult, Warmup};

/// Delay from due to sent above which an arrival counts as late; timers are accurate to about 1 ms.
const LATE_AFTER: Span = Span::from_millis(1);

impl TargetRun<'_> {
    /// Measures one load level and adds its result to the record.
    pub(super) fn measure_phase(
        &mut self,
        place: PhasePosition,
        spec: &PhaseSpec,
        observer: &mut dyn Observer,
    ) -> Result<Vec<RequestNumbers>, BenchError> {
        self.progress.reset();
        let job = Arc::new(self.job(place.phase, spec));
        let page = self.scraper.as_mut().and_then(Scraper::page);
        self.sampler.read_gpus();
        let mut output = run_phase(&job)?;
        self.sampler.read_gpus();
        self.handle_abort(&job.abort, spec);
        let prompts: Vec<u64> =
            output.requests.iter().map(|finished| job.first_prompt + finished.start.prompt).collect();
        let next = prompts.iter().max().map_or(self.next_prompt, |last| last + 1);
        self.next_prompt = self.config.prompts.aligned(next);
        let mut rows = self.take_rows(&job, &mut output, place, observer);
        let calibrating: &mut dyn FnMut() = &mut || observer.calibrating(place);
        history::set_requested_tokens(&mut rows, &prompts, &job.bodies);
        self.record_spending(&rows);
        let server = page.and_then(|page| self.scraper.as_mut()?.report_since(&page, &rows));
        let client_load = match &self.host {
            None if !self.stop.is_set() && self.abort_reason.is_none() => {
                self.calibrator.load(&rows, spec, job.workers)
            }
            _ => None,
        };
        let client_error = match &self.host {
            Some(host) => {
                let (truth, lateness) = (host.truth(), host.lateness());
                Some(ground_truth::compare_with_log(ClientErrorSource::Truth, &rows, &job.id_prefix, &truth, &lateness))
            }
            None => client_load.as_ref().and_then(|load| self.calibrator.error(load, self.stop, calibrating)),
        };
        let conditions = conditions(self.config, &self.endpoint, Some(spec));
        let mut result = self.phase_result(spec, &conditions, &output, client_error, &mut rows);
        self.is_calibration_cut |= self.was_cut(&result);
        // A calibration may coincide with other work on the machine, so a figure is invalid only if two of them agree.
        if let (Some(load), Some(first)) =
            (&client_load, result.client_error.as_ref().filter(|error| error.client_limited))
        {
            match self.calibrator.now(load, self.stop, calibrating) {
                Some(second) => {
                    let both = second.combined_with(first);
                    result = self.phase_result(spec, &conditions, &output, Some(both), &mut rows);
                }
                None => self.is_calibration_cut |= self.stop.is_set(),
            }
        }
        result.server = server;
        result.sampled = self.sampled(&result);
        self.timeline.add(&result, &rows);
        self.record.phases.push(result);
        Ok(rows)
    }

    /// The numbers of every request; its arrivals are shown to whoever keeps them.
    fn take_rows(
        &self,
        job: &Job,
        output: &mut PhaseOutput,
        place: PhasePosition,
        observer: &mut dyn Observer,
    ) -> Vec<RequestNumbers> {
        let (level, round) = (job.spec.load.name(), self.earlier_rounds(&job.spec) + 1);
        output.take_rows_with(job, |finished, tokens| {
            observer.arrived(
                place,
                RequestArrivals {
                    phase: place.phase,
                    level: &level,
                    round,
                    request: finished.start.index,
                    warmup: finished.start.warmup,
                    began_at: self.began_at,
                    arrivals: &finished.trace.arrivals,
                    tokens,
                },
            );
        })
    }

    /// What was read of engine and processors in the steady window of a level, or in all of it.
    fn sampled(&self, level: &PhaseResult) -> Option<Sampled> {
        let whole = (level.started_at_ns, level.ended_at_ns);
        let window = level.steady.as_ref().map_or(whole, |steady| (steady.start_ns, steady.end_ns));
        let tokens = level.throughput.as_ref().map(|throughput| throughput.tokens);
        Sampled::of(&self.sampler.readings.samples(), window, tokens)
    }

    /// Phases at the load of this one that have ended.
    fn earlier_rounds(&self, spec: &PhaseSpec) -> usize {
        let load = spec.load.row();
        self.record.phases.iter().filter(|phase| phase.load == load).count()
    }

    /// Whether an interrupt kept the client's error at a level from becoming known, whose load had ended.
    fn was_cut(&self, level: &PhaseResult) -> bool {
        let is_wanted = self.host.is_none() && self.config.calibration != Calibration::Off;
        let is_whole = !level.interrupted && level.counts.answered > 0;
        is_wanted && is_whole && self.stop.is_set() && !level.is_client_error_known()
    }

    /// Handles an abort: a search continues at a lower load, any other run ends.
    fn handle_abort(&mut self, abort: &AbortPolicy, spec: &PhaseSpec) {
        let Some(reason) = abort.reason() else { return };
        let reason = format!("{}: {reason}", spec.load.name());
        if abort.may_succeed_at_lower_load() && matches!(self.config.schedule_mode, ScheduleMode::Search(_)) {
            self.reasons.push(Reason::of(reason));
        } else {
            self.abort_reason = Some(reason);
        }
    }

    fn phase_result(
        &self,
        spec: &PhaseSpec,
        conditions: &Conditions,
        output: &PhaseOutput,
        client_error: Option<ClientError>,
        rows: &mut [RequestNumbers],
    ) -> PhaseResult {
        let late =
            |row: &&RequestNumbers| row.sent_at_ns.is_some_and(|sent| sent > row.due_at_ns + LATE_AFTER.as_nanos());
        let late = if !spec.load.is_closed() { rows.iter().filter(late).count() as u64 } else { 0 };
        let (name, load) = (spec.load.name(), spec.load.row());
        let earlier = self.earlier_rounds(spec);
        let name = if earlier == 0 { name } else { format!("{name}, round {}", earlier + 1) };
        let input = PhaseInput {
            name,
            conditions,
            load,
            warmup: if spec.warmup == 0 { Warmup::None } else { Warmup::Requests(spec.warmup) },
            started_at: output.started_at,
            ended_at: output.ended_at,
            interrupted: output.interrupted || self.is_over_budget() || self.abort_reason.is_some(),
            client_error,
            timer_lag: &output.timer_lag,
            client_cpu: output.cpu,
            late,
            forfeited: output.forfeited,
            withheld: output.withheld,
            held_back: (spec.backoff == Backoff::Obey).then(|| {
                let slots = spec.load.is_closed().then(|| spec.load.max_in_flight());
                held_back(&output.waits, slots, output.ended_at)
            }),
        };
        let mut result = PhaseResult::of(&input, rows);
        result.goodput = goodput(&self.config.slos, &result, rows);
        result
    }
}

//! The record of a target while its run goes on: cost, curve, status, warnings and notes.

use super::target::TargetRun;
use crate::config::Config;
use crate::levels::curve_of;
use crate::schedule::Reason;
use crate::warnings;
use tokrate_core::format;
use tokrate_judge::{limits, round_trends};
use tokrate_meter::RequestNumbers;
use tokrate_record::{Billed, Spending, Status, TargetPrice, UntilEnd, UntilResult};

/// Why a run is partial whose load was over.
const CALIBRATION_CUT: &str = "interrupted while the client's own error was measured: every request of the level was sent, but \
     nothing says whether its figures are valid";

/// Which costs are not among the dollars, as a sentence, if some are not.
fn unpriced(config: &Config, price: Option<&TargetPrice>) -> Option<String> {
    let batch = config.request.items.map_or(1, |items| items.batch);
    let unknown = price?.media.unknown(&config.request.media_at_most(config.prompts.input_tokens(), batch));
    let [first, others @ ..] = unknown.as_slice() else { return None };
    let words = others.iter().fold(first.words().to_owned(), |text, kind| format!("{text}, and {}", kind.words()));
    Some(format!("the dollars are those of tokens alone: what {words} costs is not known (--price-of {first}=USD)"))
}

impl TargetRun<'_> {
    /// Adds the cost of a phase to the record, if it is known.
    pub(super) fn record_spending(&mut self, rows: &[RequestNumbers]) {
        let Some(price) = &self.endpoint.price else { return };
        let makes_images = self.config.request.makes_images();
        let spending = self.record.spending.get_or_insert_with(Spending::default);
        spending.limit_usd = self.config.max_cost_usd;
        rows.iter().for_each(|row| spending.add(price, &Billed::of_row(row, makes_images)));
    }

    fn cost_reason(&self) -> String {
        format!(
            "stopped by --max-cost-usd {}: the next request might have cost more than was left; {} USD were spent",
            self.config.max_cost_usd.unwrap_or(0.0),
            format::usd(self.record.spending.map_or(0.0, |spending| spending.usd), 6)
        )
    }

    /// Brings the record up to date: curve, status, warnings.
    pub(super) fn update_record(&mut self) {
        let over_budget = self.is_over_budget().then(|| self.cost_reason());
        let is_over_budget = over_budget.is_some();
        let record = &mut self.record;
        record.wall_seconds = (self.clock.now() - self.started_at).as_secs_f64();
        let limits = limits(&record.phases);
        record.phases.iter_mut().zip(limits).for_each(|(phase, limit)| phase.limit = limit);
        record.timeline = (!record.phases.is_empty())
            .then(|| self.timeline.timeline(&self.sampler.readings.samples(), self.config.sampling.slice));
        record.curve = curve_of(&record.phases, self.config.seed);
        let missing = self.schedule.planned(&record.phases) - record.phases.len();
        let interrupted = record.phases.iter().any(|phase| phase.interrupted);
        let answered = record.phases.iter().any(|phase| phase.counts.answered > 0);
        (record.status, record.reason) = match (interrupted, missing, answered) {
            _ if over_budget.is_some() => (Status::Partial, over_budget),
            _ if self.abort_reason.is_some() => {
                (if answered { Status::Partial } else { Status::Failed }, self.abort_reason.clone())
            }
            (true, ..) => {
                (Status::Partial, Some("interrupted; the last phase holds what was measured until then".to_owned()))
            }
            _ if self.is_calibration_cut => (Status::Partial, Some(CALIBRATION_CUT.to_owned())),
            (false, 1.., _) => (Status::Partial, Some(format!("{missing} phases have not run"))),
            (false, 0, false) => (Status::Failed, Some("no request was answered".to_owned())),
            (false, 0, true) => (Status::Complete, None),
        };
        record.warnings = warnings::invalid_results(&record.phases);
        record.warnings.extend(warnings::cautions(&record.phases));
        record.warnings.extend(round_trends(&record.phases));
        record.warnings.extend(warnings::unchecked(&self.config.target));
        record.notes = warnings::notes(&record.phases);
        record.notes.extend(warnings::invalid_details(&record.phases));
        record.notes.extend(warnings::proxied(self.endpoint.client.proxy_place(&self.endpoint.base).as_deref()));
        record.search = self.schedule.found(&record.phases);
        record.until = self.schedule.known(&record.phases);
        if let Some(until) = record.until.as_mut().filter(|until| is_over_budget && until.end == UntilEnd::Unfinished) {
            until.end = UntilEnd::Cost;
        }
        record.notes.extend(Reason::sentences(&self.reasons));
        record.notes.extend(record.search.iter().map(|search| search.sentence.clone()));
        record.notes.extend(record.until.iter().flat_map(UntilResult::sentences).map(str::to_owned));
        let unpriced = unpriced(self.config, self.endpoint.price.as_ref().filter(|_| record.spending.is_some()));
        record.notes.extend(unpriced);
        record.notes.extend(warnings::reused_prompts(&self.config.prompts, self.next_prompt));
        record.notes.extend(warnings::cut_conversations(&self.config.prompts));
        record.notes.extend(warnings::omitted_trace_requests(&self.config.prompts));
        record.notes.extend(self.sampler.readings.note());
        record.notes.extend(self.scraper.as_ref().and_then(|scraper| scraper.note.clone()));
    }
}

//! How well a figure is known, in a sentence.

use super::Precision;
use tokrate_record::{PrecisionOutcome, PrecisionStatus};
use tokrate_stats::MIN_ROUNDS;

impl Precision {
    pub(super) fn sentence(&self, outcome: &PrecisionOutcome) -> String {
        let unit = self.subject.unit_of(self.statistic);
        let value = outcome.value.map_or_else(String::new, |value| unit.shown(value));
        // A width that is not reached must not look like the one that was asked.
        let tenths = |share: f64| (1_000.0 * share).round();
        let is_near = outcome.half_width.is_some_and(|half| tenths(half) == tenths(outcome.asked));
        let digits = if is_near && outcome.status != PrecisionStatus::Reached { 2 } else { 1 };
        let width = |width: f64| match outcome.relative {
            true => format!("{:.digits$} %", 100.0 * width),
            false => unit.shown(width),
        };
        let known = match outcome.half_width {
            Some(half) => format!("± {}", width(half)),
            None => "with an interval that is not known yet".to_owned(),
        };
        let head = format!("{} is {value} {known} at {}", self.figure(), outcome.phase);
        let rounds = if outcome.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", outcome.rounds) };
        match (outcome.status, outcome.more_requests) {
            (PrecisionStatus::Reached, _) => format!(
                "{head}, ± {} was asked: {rounds}, {} requests; 95 % between rounds",
                width(outcome.asked),
                outcome.requests
            ),
            (PrecisionStatus::NotReachable, _) => format!(
                "{head}: a figure of 0 has no width relative to it; ask for an absolute one, such as ± 1{}",
                if outcome.unit.is_empty() { String::new() } else { format!(" {}", outcome.unit) }
            ),
            (PrecisionStatus::NotReached, more) => {
                if let Some(lacking) = self.lacking(outcome) {
                    return format!(
                        "{head}, which is as narrow as was asked (± {}), but {lacking}",
                        width(outcome.asked)
                    );
                }
                let more = more.map_or_else(
                    || "nobody knows how many more are needed".to_owned(),
                    |more| format!("about {more} more needed"),
                );
                format!("{head}, ± {} not reached after {} requests; {more}", width(outcome.asked), outcome.requests)
            }
        }
    }

    /// What an interval lacks that is narrow enough: it does not count before there are rounds and requests enough.
    fn lacking(&self, outcome: &PrecisionOutcome) -> Option<String> {
        outcome.half_width.filter(|half| *half <= outcome.asked)?;
        let (rounds, requests) = (outcome.rounds, outcome.requests);
        let of = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
        let needed = self.requests_needed();
        let why = match () {
            () if rounds < MIN_ROUNDS => format!("of {of}: an interval counts from {MIN_ROUNDS} rounds on"),
            () if requests < needed => format!("of {requests} requests: {} counts from {needed} on", self.figure()),
            () => return None,
        };
        let more =
            outcome.more_requests.map_or_else(String::new, |more| format!("; about {more} more requests needed"));
        Some(format!("{why}{more}"))
    }
}

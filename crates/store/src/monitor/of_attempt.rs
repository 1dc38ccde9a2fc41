//! An attempt of a gateway as a row of a monitor: for the board, and for exports that the detector reads.
//!
//! Invariant: an attempt that was ended from this side before its answer was whole neither fails nor has a total time.

use super::ProbeRow;
use tokrate_core::FailureKind;
use tokrate_record::{Attempt, AttemptEnd, Probe, SampleSource};

impl ProbeRow {
    /// The lane is the endpoint, what the client asked for the workload, the region of the gateway, else its machine, the place.
    pub fn of_attempt(attempt: Attempt) -> ProbeRow {
        let Attempt { call, attempt, end, alias, lane, mut sample, .. } = attempt;
        let of_client = matches!(sample.failure, Some(FailureKind::ClientStalled | FailureKind::Cancelled));
        let failed = end == AttemptEnd::Failed && !of_client;
        // A failure of which no kind is known is one all the same.
        sample.failure = failed.then(|| sample.failure.unwrap_or(FailureKind::UnexpectedStatus));
        let reason = sample.failure.map(|kind| kind.name().to_owned());
        let conditions = &sample.conditions;
        let place = conditions.region.clone().or_else(|| conditions.host.clone()).unwrap_or_else(|| "here".to_owned());
        let prober = format!("gateway {}", conditions.host.as_deref().unwrap_or("here"));
        let probe = Probe {
            id: format!("{call}-{attempt}"),
            source: SampleSource::Gateway,
            endpoint: lane,
            workload: alias,
            place,
            prober,
            due_unix_ms: sample.started_unix_ms,
            quarantine: None,
            sample,
        };
        ProbeRow {
            cycle: call,
            slot_unix_ms: probe.sample.started_unix_ms,
            is_further: false,
            reason,
            is_cut_off: !failed && end != AttemptEnd::Answered,
            probe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::Sample;

    fn row(end: AttemptEnd, failure: Option<FailureKind>) -> ProbeRow {
        let sample = Sample { failure, total_ns: 5, ..Sample::default() };
        ProbeRow::of_attempt(Attempt {
            call: "c".into(),
            attempt: 1,
            lane: "groq".into(),
            end,
            sample,
            ..Attempt::default()
        })
    }

    #[test]
    fn only_a_failed_attempt_fails() {
        let judged = |row: ProbeRow| (row.probe.sample.failure, row.reason.is_some(), row.is_cut_off);
        assert_eq!(judged(row(AttemptEnd::Answered, Some(FailureKind::NotJson))), (None, false, false));
        assert_eq!(judged(row(AttemptEnd::Lost, None)), (None, false, true));
        assert_eq!(judged(row(AttemptEnd::Abandoned, None)), (None, false, true));
        let failed = Some(FailureKind::Overloaded);
        assert_eq!(judged(row(AttemptEnd::Failed, failed)), (failed, true, false));
        assert_eq!(judged(row(AttemptEnd::Failed, Some(FailureKind::ClientStalled))), (None, false, true));
        assert!(judged(row(AttemptEnd::Failed, None)).1, "of no known kind");
        let row = row(AttemptEnd::Answered, None);
        assert_eq!((row.probe.id.as_str(), row.probe.endpoint.as_str()), ("c-1", "groq"));
    }
}

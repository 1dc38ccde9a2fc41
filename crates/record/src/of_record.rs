//! The requests of a bench as a board keeps them: probes of the source `bench`.
//!
//! Invariant: the same record gives the same ids, so that one that is added twice is there once; what the record calls invalid is
//! in quarantine, with the reason.

use crate::probe::{Probe, SampleSource};
use crate::record::{ConditionsRow, Record};
use crate::run::PhaseResult;
use crate::sample::{RunFrame, SampleConditions, SharedConditions};
use tokrate_core::{Conditions, FailureKind, parse_rfc3339};
use tokrate_meter::RequestNumbers;

/// What a board calls the requests of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeNames {
    /// Provider and model, unless another name is given.
    pub endpoint: String,
    /// Lengths of prompt and answer, unless another name is given.
    pub workload: String,
    /// The region, else the host, unless another name is given.
    pub place: String,
}

impl ProbeNames {
    /// Those of a record.
    pub fn of(record: &Record) -> ProbeNames {
        let conditions = &record.conditions;
        let place = [&conditions.region, &conditions.host].into_iter().find(|name| !name.is_empty());
        ProbeNames {
            endpoint: format!("{}/{}", conditions.provider, conditions.model),
            workload: format!("{}-{}", conditions.input_tokens, conditions.output_tokens),
            place: place.cloned().unwrap_or_else(|| "here".to_owned()),
        }
    }
}

impl Probe {
    /// The requests of one phase of a record, without those of its warm-up and those that were cancelled at its end; `number` is its
    /// place in the record. The message of a failure stands beside. The wall time is that of the record's start, so that it is
    /// early by what lay before the first phase: seconds.
    pub fn of_phase(
        record: &Record,
        number: usize,
        rows: &[RequestNumbers],
        names: &ProbeNames,
    ) -> Vec<(Probe, Option<String>)> {
        let (Some(phase), Some(first)) = (record.phases.get(number), record.phases.first()) else { return Vec::new() };
        let started = parse_rfc3339(&record.started_at).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        let frame = RunFrame::new(&phase.conditions, first.started_at_ns, started, record.price.clone());
        let shared = rankable(&phase.conditions);
        let quarantine = invalid(phase);
        let run = run_name(record, first.started_at_ns);
        let is_cut = |row: &RequestNumbers| row.failure_kind() == Some(FailureKind::Cancelled);
        let all = rows.iter().zip(frame.samples(rows)).filter(|(row, _)| !row.warmup && !is_cut(row));
        let probe = |(row, mut sample): (&RequestNumbers, crate::Sample)| {
            sample.conditions = shared.clone();
            let mut probe = Probe {
                id: format!("{run}-{number}-{}", row.index),
                source: SampleSource::Bench,
                endpoint: names.endpoint.clone(),
                workload: names.workload.clone(),
                place: names.place.clone(),
                prober: run.clone(),
                due_unix_ms: sample.started_unix_ms,
                quarantine: quarantine.clone(),
                sample,
            };
            probe.bound_texts();
            let reason = row.failure.as_ref().map(|failure| match failure.message.is_empty() {
                true => failure.kind.name().to_owned(),
                false => tokrate_core::one_line(&failure.message, tokrate_meter::MAX_TEXT_BYTES),
            });
            (probe, reason)
        };
        all.map(probe).collect()
    }
}

/// The conditions with a fingerprint of what does not differ from endpoint to endpoint or from load to load: a board ranks those
/// of one fingerprint together and tells loads apart itself.
fn rankable(row: &ConditionsRow) -> SharedConditions {
    let like = Conditions {
        model: String::new(),
        provider: String::new(),
        endpoint: String::new(),
        dialect: String::new(),
        concurrency: None,
        rate: None,
        ..Conditions::from(row)
    };
    SampleConditions { fingerprint: Some(like.fingerprint().to_string()), ..SampleConditions::from(row) }.into()
}

/// Why a phase does not count.
fn invalid(phase: &PhaseResult) -> Option<String> {
    if phase.is_valid() {
        return None;
    }
    let reason = phase.client_error.as_ref().and_then(|error| error.reason.clone());
    Some(reason.unwrap_or_else(|| "the record contradicts itself".to_owned()))
}

/// The run, by when, where and under which conditions it began.
fn run_name(record: &Record, first_ns: u64) -> String {
    let ConditionsRow { fingerprint, host, .. } = &record.conditions;
    format!("bench-{host}-{}-{first_ns:x}-{fingerprint}", record.started_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase, record};
    use tokrate_meter::ClientError;
    use tokrate_meter::fixtures::{failed_request, steady_request};

    fn measured() -> (Record, Vec<RequestNumbers>) {
        let rows = vec![
            steady_request(0, 0, 200, 20, 40),
            steady_request(1, 2_000, 210, 20, 40),
            failed_request(2, 4_000, 4_100, FailureKind::RateLimited),
            failed_request(3, 5_000, 5_100, FailureKind::Cancelled),
            RequestNumbers { warmup: true, ..steady_request(4, 6_000, 900, 20, 40) },
        ];
        let mut record = record(vec![phase(&closed(1), &rows)]);
        record.started_at = "2026-11-20T10:00:00Z".to_owned();
        record.phases[0].gate.clear();
        (record, rows)
    }

    #[test]
    fn requests_become_probes_without_warmup_and_cancelled_ones() {
        let (record, rows) = measured();
        let names = ProbeNames::of(&record);
        let probes = Probe::of_phase(&record, 0, &rows, &names);
        assert_eq!(probes.len(), 3);
        let (probe, reason) = &probes[1];
        assert_eq!((probe.source, reason, &probe.quarantine), (SampleSource::Bench, &None, &None));
        assert_eq!(probe.sample.ttft_ns, Some(210_000_000));
        assert_eq!(probe.sample.started_unix_ms, 1_795_168_802_000, "two seconds after the record's start");
        assert!(probes[2].1.is_some(), "a failure says why");
        let again = Probe::of_phase(&record, 0, &rows, &names);
        assert_eq!(again, probes, "the same ids");
        let ids: std::collections::BTreeSet<&str> = probes.iter().map(|(probe, _)| probe.id.as_str()).collect();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn a_fingerprint_is_that_of_other_endpoints_and_loads() {
        let row = measured().0.conditions;
        let base = rankable(&row).fingerprint.clone();
        let other = ConditionsRow { model: "other".into(), endpoint: "x".into(), concurrency: Some(8), ..row.clone() };
        assert_eq!(rankable(&other).fingerprint, base);
        let longer = ConditionsRow { output_tokens: row.output_tokens + 1, ..row };
        assert_ne!(rankable(&longer).fingerprint, base);
    }

    #[test]
    fn what_the_client_spoilt_is_in_quarantine() {
        let (mut record, rows) = measured();
        let reason = Some("TTFT p50 could be off by 90 ms".to_owned());
        record.phases[0].client_error =
            Some(ClientError { client_limited: true, reason: reason.clone(), ..ClientError::default() });
        let probes = Probe::of_phase(&record, 0, &rows, &ProbeNames::of(&record));
        assert!(probes.iter().all(|(probe, _)| probe.quarantine == reason));
    }
}

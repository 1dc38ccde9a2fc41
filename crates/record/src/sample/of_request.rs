//! Samples of the requests of a bench.
//!
//! Invariant: a sample's figures are those of its row; what only the run knows comes from the run's conditions.

use super::{CostBasis, Sample, SampleConditions, SharedConditions};
use crate::record::{Billed, ConditionsRow, TargetPrice};
use std::borrow::Cow;
use tokrate_core::Money;
use tokrate_meter::request::ConnectionState;
use tokrate_meter::{RequestNumbers, StreamNumbers};

/// What the rows of a phase leave out because it is the same for all of them.
#[derive(Clone, Debug)]
pub struct RunFrame<'a> {
    conditions: &'a ConditionsRow,
    shared: SharedConditions,
    /// The wall time of the rows' tick 0 (ms since 1970); before 1970 for a machine that has been up since then.
    zero_unix_ms: i128,
    price: Option<TargetPrice>,
}

impl<'a> RunFrame<'a> {
    /// Of a phase with these conditions, whose tick `at_ns` was at the wall time `unix_ms` (ms since 1970). Without a price, costs
    /// are unknown.
    pub fn new(conditions: &'a ConditionsRow, at_ns: u64, unix_ms: u64, price: Option<TargetPrice>) -> RunFrame<'a> {
        let zero_unix_ms = i128::from(unix_ms) - i128::from(at_ns / NANOS_PER_MS);
        RunFrame { conditions, shared: SampleConditions::from(conditions).into(), zero_unix_ms, price }
    }

    /// The samples of all rows of the phase, in their order.
    pub fn samples(&self, rows: &[RequestNumbers]) -> Vec<Sample> {
        let mut starts: Vec<u64> = rows.iter().map(|row| row.due_at_ns).collect();
        let mut ends: Vec<u64> = rows.iter().map(|row| row.ended_at_ns).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let in_flight = |row: &RequestNumbers| {
            let begun = starts.partition_point(|start| *start <= row.due_at_ns);
            let ended = ends.partition_point(|end| *end <= row.due_at_ns);
            u32::try_from(begun.saturating_sub(ended).max(1)).unwrap_or(u32::MAX)
        };
        rows.iter().map(|row| Sample::of_request(row, self, in_flight(row))).collect()
    }

    fn unix_ms(&self, tick_ns: u64) -> u64 {
        u64::try_from(self.zero_unix_ms + i128::from(tick_ns / NANOS_PER_MS)).unwrap_or(0)
    }
}

const NANOS_PER_MS: u64 = 1_000_000;

impl Sample {
    /// One request of a phase, begun when it was due, with `in_flight` requests open by then, itself included. A row that was read
    /// from a file has no chunks, and the sample no gaps but the longest.
    pub fn of_request(row: &RequestNumbers, run: &RunFrame<'_>, in_flight: u32) -> Sample {
        let conditions = run.conditions;
        let is_new = row.connection == ConnectionState::New;
        let opened = |nanos: u64| (is_new && row.sent_at_ns.is_some()).then_some(nanos);
        let billed = Billed::of_row(row, conditions.task == "images");
        let cost = run.price.as_ref().map(|price| billed.cost(price));
        let mut sample = Sample {
            started_unix_ms: run.unix_ms(row.due_at_ns),
            provider: conditions.provider.clone(),
            model: conditions.model.clone(),
            dialect: Cow::Owned(conditions.dialect.clone()),
            stream: conditions.streaming,
            in_flight,
            connection_new: is_new,
            dns_ns: opened(row.dns_ns),
            connect_ns: opened(row.connect_ns),
            tls_ns: opened(row.tls_ns),
            request_bytes: row.request_bytes,
            output_limit: u32::try_from(row.output_asked.unwrap_or(u64::from(conditions.output_tokens))).ok(),
            wait_ns: row.sent_at_ns.map(|sent_at| sent_at.saturating_sub(row.due_at_ns)),
            total_ns: row.ended_at_ns.saturating_sub(row.due_at_ns),
            input_tokens_std: row.input_asked,
            cost_usd: cost.map(Money::as_usd),
            cost_basis: match cost {
                None => CostBasis::Unknown,
                Some(_) if billed == Billed::default() => CostBasis::Free,
                Some(_) if billed.reported => CostBasis::Reported,
                Some(_) => CostBasis::Estimated,
            },
            conditions: run.shared.clone(),
            ..Sample::default()
        };
        sample.fill(&StreamNumbers::from(row));
        let is_whole = !conditions.streaming && sample.failure.is_none();
        sample.answer_ns = row.sent_at_ns.filter(|_| is_whole).map(|sent_at| row.ended_at_ns.saturating_sub(sent_at));
        sample
    }
}

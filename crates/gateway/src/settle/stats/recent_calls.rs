//! The last calls, each with its attempts.
//!
//! Invariant: attempts of one call stand together, however late a drained loser is settled; the number of calls is
//! bounded, and no text is kept but names.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokrate_core::FailureKind;
use tokrate_record::{Attempt as Row, AttemptEnd, AttemptRole, CostBasis};

/// Calls that are kept after their answer.
pub(crate) const MAX_CALLS: usize = 100;
/// Calls that are kept before it: so far only attempts that failed or lost were settled.
const MAX_UNANSWERED: usize = 256;
/// Attempts that are kept of one call.
const MAX_ATTEMPTS: usize = 16;
/// Longest model name that is kept, because the provider chooses it (bytes).
const MAX_NAME_BYTES: usize = 128;

/// One call.
#[derive(Clone, Debug)]
pub struct CallTrace {
    /// The call id in the log.
    pub call: String,
    /// The alias that the client asked for.
    pub alias: String,
    /// Whether the answer was streamed.
    pub stream: bool,
    /// In the order of their numbers.
    pub attempts: Vec<AttemptTrace>,
    /// Rises with every row, to sort calls by their newest.
    sequence: u64,
}

/// One attempt of a call.
#[derive(Clone, Debug)]
pub struct AttemptTrace {
    /// Its number within the call, from 0.
    pub number: u32,
    /// Name of the lane.
    pub lane: Arc<str>,
    /// Why it was started.
    pub role: AttemptRole,
    /// How it ended.
    pub end: AttemptEnd,
    /// Whether the client got its answer.
    pub won: bool,
    /// Why it failed.
    pub failure: Option<FailureKind>,
    /// HTTP status of the lane.
    pub status: Option<u16>,
    /// When it was started (ms since 1970).
    pub started_unix_ms: u64,
    /// Start to sent (ns).
    pub wait_ns: Option<u64>,
    /// Sent to first output text (ns).
    pub ttft_ns: Option<u64>,
    /// Start to end (ns).
    pub total_ns: u64,
    /// For how long a first token of the call was held back before it won (ns).
    pub hold_ns: Option<u64>,
    /// Tokens per second after the first chunk.
    pub output_speed: Option<f64>,
    /// As reported, else as counted.
    pub output_tokens: u64,
    /// Calls that the lane had in flight, this one included.
    pub in_flight: u32,
    /// Cost (USD), if it is known.
    pub cost_usd: Option<f64>,
    /// How the cost is known.
    pub cost_basis: CostBasis,
    /// The model that answered, if it is not the one that was asked for.
    pub model_answered: Option<String>,
}

/// The last calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentCalls {
    answered: VecDeque<Arc<CallTrace>>,
    unanswered: BTreeMap<String, Arc<CallTrace>>,
    sequence: u64,
}

impl RecentCalls {
    pub fn record(&mut self, row: &Row, lane: &Arc<str>) {
        self.sequence += 1;
        let attempt = AttemptTrace::of(row, lane);
        // The attempt whose end the client saw.
        let is_last = row.won || row.end == AttemptEnd::Abandoned;
        let started = if self.unanswered.is_empty() { None } else { self.unanswered.remove(&row.call) };
        let mut trail = match started {
            Some(trail) => trail,
            None if !is_last && self.add_to_answered(row, &attempt) => return,
            None => Arc::new(CallTrace {
                call: row.call.clone(),
                alias: row.alias.clone(),
                stream: row.sample.stream,
                attempts: Vec::with_capacity(1),
                sequence: 0,
            }),
        };
        Arc::make_mut(&mut trail).push(attempt, self.sequence);
        if is_last {
            self.archive(trail);
            return;
        }
        self.unanswered.insert(row.call.clone(), trail);
        if self.unanswered.len() > MAX_UNANSWERED
            && let Some((_, oldest)) = self.unanswered.pop_first()
        {
            self.archive(oldest);
        }
    }

    /// The calls with the newest rows, newest first.
    pub fn newest(&self, limit: usize) -> Vec<Arc<CallTrace>> {
        let mut all: Vec<&Arc<CallTrace>> = self.answered.iter().chain(self.unanswered.values()).collect();
        all.sort_by_key(|trail| std::cmp::Reverse(trail.sequence));
        all.into_iter().take(limit).cloned().collect()
    }

    fn archive(&mut self, trail: Arc<CallTrace>) {
        if self.answered.len() == MAX_CALLS {
            self.answered.pop_front();
        }
        self.answered.push_back(trail);
    }

    /// Adds a loser that was drained in the background to its call.
    fn add_to_answered(&mut self, row: &Row, attempt: &AttemptTrace) -> bool {
        let sequence = self.sequence;
        match self.answered.iter_mut().rfind(|trail| trail.call == row.call) {
            Some(trail) => {
                Arc::make_mut(trail).push(attempt.clone(), sequence);
                true
            }
            None => false,
        }
    }
}

impl CallTrace {
    /// A call by its rows in the log; `None` without one.
    pub fn of_rows(rows: &[Row]) -> Option<CallTrace> {
        let first = rows.first()?;
        let mut attempts: Vec<AttemptTrace> =
            rows.iter().map(|row| AttemptTrace::of(row, &Arc::from(row.lane.as_str()))).collect();
        attempts.sort_by_key(|attempt| attempt.number);
        let (call, alias, stream) = (first.call.clone(), first.alias.clone(), first.sample.stream);
        Some(CallTrace { call, alias, stream, attempts, sequence: 0 })
    }

    fn push(&mut self, attempt: AttemptTrace, sequence: u64) {
        self.sequence = sequence;
        if self.attempts.len() < MAX_ATTEMPTS {
            let place = self.attempts.partition_point(|other| other.number <= attempt.number);
            self.attempts.insert(place, attempt);
        }
    }

    /// When its first attempt started (ms since 1970).
    pub fn started_unix_ms(&self) -> u64 {
        self.attempts.first().map_or(0, |attempt| attempt.started_unix_ms)
    }

    /// The attempt whose answer the client got.
    pub fn winner(&self) -> Option<&AttemptTrace> {
        self.attempts.iter().find(|attempt| attempt.won)
    }

    /// Known cost (USD); `None` if none is known.
    pub fn cost_usd(&self) -> Option<f64> {
        self.attempts.iter().filter_map(|attempt| attempt.cost_usd).reduce(|sum, cost| sum + cost)
    }

    /// From the start of the first attempt to the first token of this one (ns).
    pub fn first_token_ns(&self, attempt: &AttemptTrace) -> Option<u64> {
        let started = attempt.started_unix_ms.saturating_sub(self.started_unix_ms()) * 1_000_000;
        Some(started + attempt.wait_ns.unwrap_or(0) + attempt.ttft_ns?)
    }
}

impl CallTrace {
    /// The attempt whose first token was held back, and for how long (ns): the one that had it before all others.
    pub fn held(&self) -> Option<(u32, u64)> {
        let hold = self.attempts.iter().find_map(|attempt| attempt.hold_ns)?;
        let with_token =
            self.attempts.iter().filter_map(|attempt| Some((self.first_token_ns(attempt)?, attempt.number)));
        with_token.min().map(|(_, number)| (number, hold))
    }
}

impl AttemptTrace {
    fn of(row: &Row, lane: &Arc<str>) -> AttemptTrace {
        let other = row.sample.model_answered.as_ref().filter(|answered| **answered != row.sample.model);
        AttemptTrace {
            number: row.attempt,
            lane: Arc::clone(lane),
            role: row.role,
            end: row.end,
            won: row.won,
            failure: row.sample.failure,
            status: row.sample.status,
            started_unix_ms: row.sample.started_unix_ms,
            wait_ns: row.sample.wait_ns,
            ttft_ns: row.sample.ttft_ns,
            total_ns: row.sample.total_ns,
            hold_ns: row.hold_ns,
            output_speed: row.sample.output_speed,
            output_tokens: row.sample.output_tokens.unwrap_or(row.sample.output_tokens_std),
            in_flight: row.sample.in_flight,
            cost_usd: row.sample.cost_usd,
            cost_basis: row.sample.cost_basis,
            model_answered: other.map(|answered| answered[..answered.floor_char_boundary(MAX_NAME_BYTES)].to_owned()),
        }
    }
}

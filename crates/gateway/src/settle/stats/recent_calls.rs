//! The last calls with the trail of their attempts.
//!
//! It refuses to know which attempts are still under way. Invariant: attempts of one call are told together, however late a
//! drained one is settled; so many calls are remembered and no more, and no text is kept but names.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokrate_core::FailureKind;
use tokrate_meter::{Attempt as Row, AttemptEnd, AttemptRole, CostBasis};

/// Calls that are remembered after their answer.
pub(crate) const MAX_CALLS: usize = 100;
/// Calls that are remembered before it: of those only attempts that failed or lost have been settled.
const MAX_UNANSWERED: usize = 256;
/// Attempts of one call that are remembered.
const MAX_ATTEMPTS: usize = 16;
/// Bytes of a name that a provider chose.
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
    /// In the order of their beginning.
    pub attempts: Vec<AttemptTrace>,
    /// Counts up with every row that is heard.
    sequence: u64,
}

/// One attempt of it.
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
    /// Begun to sent (ns).
    pub wait_ns: Option<u64>,
    /// Sent to first output text (ns).
    pub ttft_ns: Option<u64>,
    /// Begun to the end (ns).
    pub total_ns: u64,
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
    /// Where the answer named another model than was asked for.
    pub model_answered: Option<String>,
}

/// All of them.
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
        // What the client saw the end of.
        let is_last = row.won || row.end == AttemptEnd::Abandoned;
        let begun = if self.unanswered.is_empty() { None } else { self.unanswered.remove(&row.call) };
        let mut trail = match begun {
            Some(trail) => trail,
            None if !is_last && self.join_answered(row, &attempt) => return,
            None => Arc::new(CallTrace {
                call: row.call.clone(),
                alias: row.alias.clone(),
                stream: row.stream,
                attempts: Vec::with_capacity(1),
                sequence: 0,
            }),
        };
        Arc::make_mut(&mut trail).push(attempt, self.sequence);
        if is_last {
            self.keep(trail);
            return;
        }
        self.unanswered.insert(row.call.clone(), trail);
        if self.unanswered.len() > MAX_UNANSWERED
            && let Some((_, oldest)) = self.unanswered.pop_first()
        {
            self.keep(oldest);
        }
    }

    /// The calls that were heard of last, the newest first.
    pub fn newest(&self, most: usize) -> Vec<Arc<CallTrace>> {
        let mut all: Vec<&Arc<CallTrace>> = self.answered.iter().chain(self.unanswered.values()).collect();
        all.sort_by_key(|trail| std::cmp::Reverse(trail.sequence));
        all.into_iter().take(most).cloned().collect()
    }

    fn keep(&mut self, trail: Arc<CallTrace>) {
        if self.answered.len() == MAX_CALLS {
            self.answered.pop_front();
        }
        self.answered.push_back(trail);
    }

    /// An attempt that was read on in the background after its call had ended.
    fn join_answered(&mut self, row: &Row, attempt: &AttemptTrace) -> bool {
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
    fn push(&mut self, attempt: AttemptTrace, sequence: u64) {
        self.sequence = sequence;
        if self.attempts.len() < MAX_ATTEMPTS {
            let place = self.attempts.partition_point(|other| other.number <= attempt.number);
            self.attempts.insert(place, attempt);
        }
    }

    /// When its first attempt was begun (ms since 1970).
    pub fn started_unix_ms(&self) -> u64 {
        self.attempts.first().map_or(0, |attempt| attempt.started_unix_ms)
    }

    /// The attempt whose answer the client got.
    pub fn winner(&self) -> Option<&AttemptTrace> {
        self.attempts.iter().find(|attempt| attempt.won)
    }

    /// What is known of its cost (USD); `None` if nothing is.
    pub fn cost_usd(&self) -> Option<f64> {
        self.attempts.iter().filter_map(|attempt| attempt.cost_usd).reduce(|sum, cost| sum + cost)
    }

    /// The beginning of its first attempt to the first token of one of them (ns).
    pub fn first_token_ns(&self, attempt: &AttemptTrace) -> Option<u64> {
        let begun = attempt.started_unix_ms.saturating_sub(self.started_unix_ms()) * 1_000_000;
        Some(begun + attempt.wait_ns.unwrap_or(0) + attempt.ttft_ns?)
    }
}

impl AttemptTrace {
    fn of(row: &Row, lane: &Arc<str>) -> AttemptTrace {
        let other = row.model_answered.as_ref().filter(|answered| **answered != row.model);
        AttemptTrace {
            number: row.attempt,
            lane: Arc::clone(lane),
            role: row.role,
            end: row.end,
            won: row.won,
            failure: row.failure,
            status: row.status,
            started_unix_ms: row.started_unix_ms,
            wait_ns: row.wait_ns,
            ttft_ns: row.ttft_ns,
            total_ns: row.total_ns,
            output_speed: row.output_speed,
            output_tokens: row.output_tokens.unwrap_or(row.output_tokens_std),
            in_flight: row.in_flight,
            cost_usd: row.cost_usd,
            cost_basis: row.cost_basis,
            model_answered: other.map(|answered| answered[..answered.floor_char_boundary(MAX_NAME_BYTES)].to_owned()),
        }
    }
}

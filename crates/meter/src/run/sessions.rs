//! Conversations of a phase: how many came to their end, and the numbers of each turn.
//!
//! It refuses to know why a session ended. Invariant: a turn is a row of the request it was; a session that lacks a turn
//! because one failed is counted, not left out.

use super::Load;
use crate::request::RequestNumbers;
use crate::stats::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_core::FailureKind;

/// The sessions of a phase, the warm-up included in their counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionSummary {
    /// Sessions that began.
    pub started: u64,
    /// Those whose every turn was answered.
    pub completed: u64,
    /// Those that ended with a failed turn.
    pub failed: u64,
    /// Those that the end of the phase cut short.
    pub cut: u64,
    /// The numbers by turn, the first turn first.
    pub turns: Vec<TurnSummary>,
}

/// Answered requests outside the warm-up that were one turn of their sessions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TurnSummary {
    /// Number of the turn, from 1.
    pub turn: u32,
    /// How many requests.
    pub n: u64,
    /// Mean of the input tokens that they asked with: the history grows.
    pub input_tokens_mean: Option<f64>,
    /// Share of the input tokens that came from a cache, where the provider reports it.
    pub cached_input_share: Option<f64>,
    /// Sent to first output text.
    pub ttft: Distribution,
}

impl SessionSummary {
    /// Sums up the sessions; `None` without any.
    pub(super) fn of(load: &Load, requests: &[RequestNumbers]) -> Option<SessionSummary> {
        let Load::Sessions { turns, .. } = *load else { return None };
        let mut sessions: BTreeMap<u64, Vec<&RequestNumbers>> = BTreeMap::new();
        for request in requests {
            sessions.entry(request.session?).or_default().push(request);
        }
        let mut summary = SessionSummary {
            started: sessions.len() as u64,
            completed: 0,
            failed: 0,
            cut: 0,
            turns: (0..turns).filter_map(|turn| TurnSummary::of(turn, requests)).collect(),
        };
        for turns_of in sessions.values() {
            let answered = turns_of.iter().filter(|request| request.is_answered()).count();
            // A turn that was refused for its rate may have been sent again.
            let failed = turns_of.iter().any(|request| {
                !matches!(request.failure_kind(), None | Some(FailureKind::RateLimited | FailureKind::Cancelled))
            });
            *if answered >= turns as usize {
                &mut summary.completed
            } else if failed {
                &mut summary.failed
            } else {
                &mut summary.cut
            } += 1;
        }
        Some(summary)
    }
}

impl TurnSummary {
    fn of(turn: u32, requests: &[RequestNumbers]) -> Option<TurnSummary> {
        let of_turn =
            |request: &&RequestNumbers| request.turn == Some(turn) && request.is_answered() && !request.warmup;
        let rows: Vec<&RequestNumbers> = requests.iter().filter(of_turn).collect();
        let n = rows.len() as u64;
        let asked: Vec<u64> = rows.iter().filter_map(|row| row.input_asked).collect();
        let cached: Vec<(u64, u64)> =
            rows.iter().filter_map(|row| Some((row.cached_input_reported?, row.input_reported?))).collect();
        let input: u64 = cached.iter().map(|pair| pair.1).sum();
        let mut ttft: Vec<u64> = rows.iter().filter_map(|row| row.ttft_ns).collect();
        (n > 0).then(|| TurnSummary {
            turn: turn + 1,
            n,
            input_tokens_mean: (!asked.is_empty()).then(|| asked.iter().sum::<u64>() as f64 / asked.len() as f64),
            cached_input_share: (input > 0)
                .then(|| cached.iter().map(|pair| pair.0).sum::<u64>() as f64 / input as f64),
            ttft: Distribution::of_nanos(&mut ttft),
        })
    }
}

//! Rows of the log as calls of sessions, for what it would have saved to keep each on the lane that has its prompt.

use crate::out::replay_sessions::Sessions;
use std::collections::BTreeMap;
use tokrate_core::{Span, Tick};
use tokrate_record::AttemptEnd;
use tokrate_route::{LaneId, SessionCall, replay_sessions};
use tokrate_store::Attempt;

/// Of the rows of one name.
pub fn sessions(alias: String, rows: &[Attempt]) -> Sessions {
    let answered = || rows.iter().filter(|row| row.won && row.end == AttemptEnd::Answered);
    let begin = answered().map(|row| row.sample.started_unix_ms).min().unwrap_or(0);
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    let mut lanes: BTreeMap<&str, u32> = BTreeMap::new();
    let mut calls = Vec::new();
    for row in answered() {
        let (Some(session), Some(prompt_tokens)) = (&row.session, row.sample.input_tokens) else { continue };
        let Some(cached_tokens) = row.sample.cached_tokens else { continue };
        let next = names.len() as u64;
        let session = *names.entry(session).or_insert(next);
        let next = lanes.len() as u32;
        calls.push(SessionCall {
            session,
            lane: LaneId(*lanes.entry(&row.lane).or_insert(next)),
            started: Tick::ZERO + Span::from_millis(row.sample.started_unix_ms - begin),
            ttft: row.sample.ttft_ns.map(Span::from_nanos),
            prompt_tokens,
            cached_tokens,
            output_tokens: row.sample.output_tokens.unwrap_or(row.sample.output_tokens_std),
            usd: row.sample.cost_usd,
        });
    }
    Sessions {
        alias,
        answered: answered().count(),
        unreported: answered().filter(|row| row.sample.cached_tokens.is_none()).count(),
        report: replay_sessions(&calls),
    }
}

//! A call that has ended, as its spans show it.
//!
//! It holds what the throughput log holds of a call and no more.

use super::context::TraceContext;
use super::identity::attempt_id;
use tokrate_core::{Span, Tick};
use tokrate_record::{Attempt as Row, AttemptEnd};

/// One attempt of a call, as its span shows it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AttemptSpan {
    pub row: Row,
    pub started_at: Tick,
    pub ended_at: Tick,
    /// When its request was sent.
    pub sent_at: Option<Tick>,
    /// Host and port of the lane.
    pub server: (String, u16),
    /// Attempts beside it of which the client wanted one.
    pub is_beside: bool,
}

/// A request that was refused before a lane was asked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RefusedSpan {
    /// Why, by the name of the log.
    pub reason: &'static str,
    pub alias: Option<String>,
    pub key: Option<String>,
}

/// A call that has ended, with all that its spans show.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FinishedTrace {
    pub context: TraceContext,
    /// The span of the call.
    pub span_id: [u8; 8],
    /// Whether `context` was the client's: its span is the parent.
    pub has_parent: bool,
    /// What was asked for, by the conventions' names.
    pub operation: &'static str,
    /// Wall time of tick 0 (ns since 1970).
    pub epoch_unix_ns: u64,
    pub started_at: Tick,
    pub ended_at: Tick,
    /// HTTP status of the response to the client.
    pub status: Option<u16>,
    pub is_stream: bool,
    /// For how long a first token was held back.
    pub hold: Option<Span>,
    pub refused: Option<RefusedSpan>,
    /// In the order in which they were begun.
    pub attempts: Vec<AttemptSpan>,
}

impl FinishedTrace {
    /// How long the client's answer took.
    pub fn duration(&self) -> Span {
        self.ended_at - self.started_at
    }

    /// The attempt whose answer the client got, or a part of it.
    pub fn winner(&self) -> Option<&AttemptSpan> {
        self.attempts.iter().find(|attempt| attempt.row.won)
    }

    /// Why the client got no whole answer; `None` if it did, or left. A client's own mistake is no error of the gateway's.
    pub fn error(&self) -> Option<&'static str> {
        if let Some(refused) = &self.refused {
            return Some(refused.reason);
        }
        let has_ended = |end: AttemptEnd| self.attempts.iter().any(|attempt| attempt.row.end == end);
        if has_ended(AttemptEnd::Answered) || has_ended(AttemptEnd::Abandoned) {
            return None;
        }
        let failed = self.winner().or(self.attempts.last())?;
        Some(failed.row.sample.failure.map_or("failed", |kind| kind.name()))
    }

    /// Whether the error is the gateway's or a lane's, not the client's.
    pub fn is_fault(&self) -> bool {
        // A stream that broke off has begun with 200.
        self.error().is_some() && !self.status.is_some_and(|status| (400..500).contains(&status))
    }

    /// The span of an attempt.
    pub fn attempt_id(&self, number: u32) -> [u8; 8] {
        attempt_id(self.span_id, usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// A moment as wall time (ns since 1970).
    pub fn unix_ns(&self, at: Tick) -> u64 {
        self.epoch_unix_ns.saturating_add(at.as_nanos())
    }

    /// Spans of it: that of the call and one for each attempt.
    pub fn spans(&self) -> u64 {
        1 + self.attempts.len() as u64
    }
}

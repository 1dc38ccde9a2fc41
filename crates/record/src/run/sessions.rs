//! Multi-turn sessions of a phase: how many completed, and figures per turn.
//!
//! Invariant: every session that started is completed, failed or cut; none is left out.

use super::Load;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_core::FailureKind;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::Distribution;

/// The sessions of a phase, the warm-up included in their counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use FailureKind::{Cancelled, RateLimited, ServerError};
    use tokrate_meter::fixtures::{failed_request, steady_request};

    const PLAN: Load = Load::Sessions { sessions: 2, turns: 2 };

    /// Turn `turn` of a session, answered with its first text after `ttft` ms.
    fn answered(session: u64, turn: u32, ttft: u64) -> RequestNumbers {
        let start = session * 1_000 + u64::from(turn) * 500;
        RequestNumbers { session: Some(session), turn: Some(turn), ..steady_request(0, start, ttft, 1, 4) }
    }

    fn ended(session: u64, turn: u32, kind: FailureKind) -> RequestNumbers {
        let start = session * 1_000 + u64::from(turn) * 500;
        RequestNumbers { session: Some(session), turn: Some(turn), ..failed_request(0, start, start + 1, kind) }
    }

    fn warm_up(request: RequestNumbers) -> RequestNumbers {
        RequestNumbers { warmup: true, ..request }
    }

    fn sum_up(requests: &[RequestNumbers]) -> SessionSummary {
        SessionSummary::of(&PLAN, requests).expect("a load of sessions has a summary")
    }

    /// (started, completed, failed, cut)
    fn fates(requests: &[RequestNumbers]) -> (u64, u64, u64, u64) {
        let summary = sum_up(requests);
        (summary.started, summary.completed, summary.failed, summary.cut)
    }

    #[test]
    fn a_session_is_completed_by_the_answer_to_its_last_turn() {
        assert_eq!(fates(&[answered(0, 0, 10), answered(0, 1, 10)]), (1, 1, 0, 0));
        let sent_again = [ended(0, 0, RateLimited), answered(0, 0, 10), answered(0, 1, 10)];
        assert_eq!(fates(&sent_again), (1, 1, 0, 0), "a turn that was refused for its rate and then answered");
        let early = [warm_up(answered(0, 0, 10)), warm_up(answered(0, 1, 10))];
        assert_eq!(fates(&early), (1, 1, 0, 0), "the warm-up counts");
    }

    #[test]
    fn a_session_fails_by_a_failed_turn_and_is_cut_by_the_end_of_the_phase() {
        assert_eq!(fates(&[answered(0, 0, 10), ended(0, 1, ServerError)]), (1, 0, 1, 0));
        assert_eq!(fates(&[ended(0, 0, ServerError)]), (1, 0, 1, 0));
        assert_eq!(fates(&[answered(0, 0, 10)]), (1, 0, 0, 1), "its second turn was never sent");
        assert_eq!(fates(&[answered(0, 0, 10), ended(0, 1, Cancelled)]), (1, 0, 0, 1));
        assert_eq!(fates(&[answered(0, 0, 10), ended(0, 1, RateLimited)]), (1, 0, 0, 1));
    }

    #[test]
    fn every_session_that_began_has_one_fate_whatever_the_order_of_its_requests() {
        let requests = [
            answered(4, 0, 10),
            answered(0, 1, 10),
            ended(2, 1, ServerError),
            answered(1, 0, 10),
            answered(0, 0, 10),
            answered(3, 0, 10),
            answered(1, 1, 10),
            answered(2, 0, 10),
            answered(5, 0, 10),
            answered(5, 1, 10),
        ];
        assert_eq!(fates(&requests), (6, 3, 1, 2), "0, 1 and 5 came to their end, 2 failed, 3 and 4 were cut");
        assert_eq!(fates(&[]), (0, 0, 0, 0));
    }

    #[test]
    fn a_turn_holds_its_answered_requests_outside_the_warm_up() {
        let requests = [
            warm_up(answered(0, 0, 900)),
            answered(0, 1, 30),
            answered(1, 0, 20),
            answered(1, 1, 50),
            ended(2, 0, ServerError),
            answered(3, 0, 40),
            ended(3, 1, Cancelled),
        ];
        let turns: Vec<(u32, u64, u64, Option<f64>)> =
            sum_up(&requests).turns.iter().map(|turn| (turn.turn, turn.n, turn.ttft.n, turn.ttft.mean)).collect();
        assert_eq!(turns, [(1, 2, 2, Some(30.0)), (2, 2, 2, Some(40.0))], "of 20 and 40 ms, of 30 and 50 ms");
        let first_only = sum_up(&[answered(0, 0, 10), ended(0, 1, ServerError)]);
        assert_eq!(first_only.turns.len(), 1, "a turn that nobody answered has no row");
    }

    #[test]
    fn the_history_shows_in_the_input_tokens_of_a_turn_and_in_what_came_from_a_cache() {
        let asked = |session, turn, tokens| RequestNumbers { input_asked: Some(tokens), ..answered(session, turn, 10) };
        let reported = |row: RequestNumbers, input, cached| RequestNumbers {
            input_reported: Some(input),
            cached_input_reported: cached,
            ..row
        };
        let requests = [
            asked(0, 0, 100),
            asked(1, 0, 200),
            answered(2, 0, 10),
            reported(asked(0, 1, 600), 1_000, Some(900)),
            reported(asked(1, 1, 800), 3_000, Some(300)),
            reported(asked(2, 1, 400), 50_000, None),
        ];
        let turns = sum_up(&requests).turns;
        let of_input = |turn: &TurnSummary| (turn.input_tokens_mean, turn.cached_input_share);
        assert_eq!(
            of_input(&turns[0]),
            (Some(150.0), None),
            "of the two whose length is known; no cache was spoken of"
        );
        // 1,200 of the 4,000 tokens of those whose provider tells the cached ones.
        assert_eq!(of_input(&turns[1]), (Some(600.0), Some(0.3)));
        let nothing = sum_up(&[reported(answered(0, 0, 10), 0, Some(0))]).turns;
        assert_eq!(of_input(&nothing[0]), (None, None), "no share of nothing");
    }

    #[test]
    fn only_a_load_of_sessions_has_a_summary_of_them() {
        let requests = [answered(0, 0, 10), answered(0, 1, 10)];
        assert_eq!(phase(&closed(1), &requests).sessions, None);
        let plain = [answered(0, 0, 10), steady_request(1, 600, 10, 1, 4)];
        assert_eq!(SessionSummary::of(&PLAN, &plain), None, "a request that belongs to no session");
    }
}

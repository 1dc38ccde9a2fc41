//! Decides when a run is aborted: rejected credentials, a `Retry-After` beyond the limit, or only failures in a row.
//!
//! Invariant: one answered request resets the count, so that a server that answers at all is measured to the end.

use crate::Stop;
use crate::advice::{Circumstances, advised};
use crate::plan::MIN_UNANSWERED;
use crate::progress::{Progress, is_timeout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokrate_core::{FailureKind, Span};
use tokrate_meter::Failure;

/// Permanent errors in a row (bad key, unknown path) that abort a run.
const ABORT_AFTER_REFUSALS: u64 = 3;
/// Other failures in a row that abort it, on top of the requests in flight: those were sent before the failure
/// was known.
const ABORT_AFTER_FAILURES: u64 = 20;
/// The same for timeouts; fewer, since each takes the whole time limit. An open loop goes on sending while they hang, so that there
/// those in flight are not waited for: they would never become fewer.
const ABORT_AFTER_TIMEOUTS: u64 = MIN_UNANSWERED as u64;

/// Counts consecutive failures over all workers of a phase, and decides when to abort the run.
#[derive(Clone, Debug)]
pub(crate) struct AbortPolicy {
    /// The longest `Retry-After` that is honoured; a longer one aborts the run.
    longest_wait: Span,
    in_flight: Arc<Progress>,
    /// Requests are sent whether others have ended or not.
    is_open: bool,
    /// Never abort (`--keep-going`).
    keep_going: bool,
    /// Where the key of the requests comes from, if they carry one.
    key: Option<String>,
    /// Set when the run is aborted.
    over: Stop,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    refusals: u64,
    failures: u64,
    reason: Option<String>,
    may_succeed_at_lower_load: bool,
}

impl AbortPolicy {
    /// With nothing counted yet.
    pub(crate) fn new(longest_wait: Span, in_flight: Arc<Progress>) -> AbortPolicy {
        AbortPolicy {
            longest_wait,
            in_flight,
            is_open: false,
            keep_going: false,
            key: None,
            over: Stop::default(),
            state: Arc::default(),
        }
    }

    /// The same for an open loop, if it is one.
    pub(crate) fn open(self, is_open: bool) -> AbortPolicy {
        AbortPolicy { is_open, ..self }
    }

    /// The same policy; `keep_going` disables it.
    pub(crate) fn keep_going(self, keep_going: bool) -> AbortPolicy {
        AbortPolicy { keep_going, ..self }
    }

    /// The same for requests with a key from there, or without one.
    pub(crate) fn with_key(self, key: Option<String>) -> AbortPolicy {
        AbortPolicy { key, ..self }
    }

    /// Records the outcome of a request. `text` is whether any text arrived: a truncated answer is still an answer.
    pub(crate) fn record(&self, failure: Option<&Failure>, text: bool) {
        let mut state = self.state();
        let Some(failure) = failure else {
            (state.refusals, state.failures) = (0, 0);
            return;
        };
        if text || self.keep_going {
            return;
        }
        let message = &failure.message;
        let mut may_succeed_at_lower_load = false;
        let reason = match failure.kind {
            FailureKind::Cancelled => return,
            FailureKind::RateLimited => match failure.retry_after {
                Some(wait) if wait > self.longest_wait => format!(
                    "the provider asks to wait {wait} before the next request, longer than --max-wait {}: {message}",
                    self.longest_wait
                ),
                _ => return,
            },
            kind => {
                state.failures += 1;
                state.refusals += u64::from(is_permanent(kind));
                let enough = match is_timeout(kind) {
                    true if self.is_open => ABORT_AFTER_TIMEOUTS,
                    true => ABORT_AFTER_TIMEOUTS + self.in_flight.in_flight(),
                    false => ABORT_AFTER_FAILURES + self.in_flight.in_flight(),
                };
                if state.refusals < ABORT_AFTER_REFUSALS && state.failures < enough {
                    return;
                }
                may_succeed_at_lower_load = state.refusals < ABORT_AFTER_REFUSALS;
                let advised = advised(kind, message, Circumstances { key: self.key.as_deref(), alone: false });
                format!("{} requests in a row failed, the last with: {advised}", state.failures)
            }
        };
        if state.reason.is_none() {
            state.reason = Some(format!("aborted: {reason}"));
            state.may_succeed_at_lower_load = may_succeed_at_lower_load;
        }
        self.over.set();
    }

    /// Why the run was aborted, if it was.
    pub(crate) fn reason(&self) -> Option<String> {
        self.state().reason.clone()
    }

    /// Whether the run was aborted.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_set()
    }

    /// Whether the failures may be due to the load.
    pub(crate) fn may_succeed_at_lower_load(&self) -> bool {
        self.state().may_succeed_at_lower_load
    }

    /// Completes when the run is aborted.
    pub(crate) async fn over(&self) {
        self.over.wait().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A worker that panicked has ended the run anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether every further request would fail the same way, at any load.
pub(crate) fn is_permanent(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Dns
            | FailureKind::Tls
            | FailureKind::Proxy
            | FailureKind::Unauthorized
            | FailureKind::NotFound
            | FailureKind::ModelNotFound
            | FailureKind::UnexpectedStatus
            | FailureKind::NotJson
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: FailureKind, retry_after: Option<Span>) -> Failure {
        Failure { kind, message: format!("HTTP: {}", kind.name()), retry_after }
    }

    fn abort(in_flight: u64) -> AbortPolicy {
        let progress = Arc::new(Progress::default());
        (0..in_flight).for_each(|_| progress.start());
        AbortPolicy::new(Span::from_secs(120), progress)
    }

    fn failures_until_abort(abort: &AbortPolicy, failure: &Failure) -> u64 {
        (1..1000)
            .find(|_| {
                abort.record(Some(failure), false);
                abort.is_over()
            })
            .expect("no run goes on for ever")
    }

    #[test]
    fn a_refusal_that_no_waiting_mends_ends_a_run_after_three() {
        for kind in [FailureKind::Unauthorized, FailureKind::NotFound, FailureKind::UnexpectedStatus] {
            let abort = abort(100);
            assert_eq!(failures_until_abort(&abort, &failed(kind, None)), 3, "{kind:?}");
            let reason = abort.reason().expect("it is over");
            assert!(reason.contains(&format!("HTTP: {}", kind.name())), "the provider's words: {reason}");
        }
    }

    #[test]
    fn other_failures_end_a_run_when_those_in_flight_have_failed_too() {
        for (kind, enough) in [(FailureKind::Stalled, 12), (FailureKind::ServerError, 28), (FailureKind::Connect, 28)] {
            assert_eq!(failures_until_abort(&abort(8), &failed(kind, None)), enough, "{kind:?}");
        }
    }

    #[test]
    fn a_few_that_hang_in_a_row_end_an_open_loop_however_many_are_in_flight() {
        let hang = failed(FailureKind::Stalled, None);
        assert_eq!(failures_until_abort(&abort(1000).open(true), &hang), 4);
        assert_eq!(failures_until_abort(&abort(8).open(true), &failed(FailureKind::ServerError, None)), 28);
    }

    #[test]
    fn an_answer_starts_the_count_anew() {
        let (abort, broken) = (abort(0), failed(FailureKind::ServerError, None));
        let nineteen = || (0..19).for_each(|_| abort.record(Some(&broken), false));
        nineteen();
        abort.record(None, false);
        nineteen();
        assert!(!abort.is_over());
        abort.record(Some(&broken), false);
        assert!(abort.is_over());
    }

    #[test]
    fn answers_that_break_off_end_nothing_and_neither_does_anything_for_who_wants_to_keep_going() {
        let (broken_off, going) = (abort(0), abort(0).keep_going(true));
        for _ in 0..1000 {
            broken_off.record(Some(&failed(FailureKind::Stalled, None)), true);
            going.record(Some(&failed(FailureKind::Unauthorized, None)), false);
        }
        assert!(!broken_off.is_over() && !going.is_over());
    }

    #[test]
    fn a_wait_is_kept_up_to_the_longest_and_what_was_cut_off_says_nothing() {
        let abort = abort(0);
        for _ in 0..1000 {
            abort.record(Some(&failed(FailureKind::RateLimited, Some(Span::from_secs(120)))), false);
            abort.record(Some(&failed(FailureKind::RateLimited, None)), false);
            abort.record(Some(&failed(FailureKind::Cancelled, None)), false);
        }
        assert!(!abort.is_over());
        abort.record(Some(&failed(FailureKind::RateLimited, Some(Span::from_secs(3600)))), false);
        let reason = abort.reason().expect("an hour is too long");
        assert!(reason.contains("--max-wait"), "{reason}");
    }
}

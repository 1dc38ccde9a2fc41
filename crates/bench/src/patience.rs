//! When a run is given up: nothing more can come of a key that is refused, of a wait of an hour, or of a server that fails
//! every request.
//!
//! It refuses to know plans and sockets. Invariant: one answer starts the count anew, so that a server which answers at all is
//! measured to the end, however often it fails.

use crate::Stop;
use crate::advice::{Circumstances, advised};
use crate::progress::Progress;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokrate_core::{FailureKind, Span};
use tokrate_meter::Failure;

/// So many refusals in a row that no waiting mends (a bad key, a path that is not there) end a run.
const REFUSALS: u64 = 3;
/// So many other failures in a row end it, beside as many as there are requests in flight: those were sent before anybody
/// could know.
const FAILURES: u64 = 20;
/// The same of requests that nobody answers: each takes its whole time limit.
const SILENCES: u64 = 4;

/// Counts failures over all workers of a phase, and says when it is enough.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// The longest wait that a provider may ask for; longer ones end the run.
    longest_wait: Span,
    in_flight: Arc<Progress>,
    /// Nothing is enough.
    endless: bool,
    /// A key is sent.
    with_key: bool,
    /// Set when it is enough.
    over: Stop,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    refusals: u64,
    failures: u64,
    reason: Option<String>,
    mended_by_less_load: bool,
}

impl Patience {
    /// With nothing counted yet.
    pub(crate) fn new(longest_wait: Span, in_flight: Arc<Progress>) -> Patience {
        Patience {
            longest_wait,
            in_flight,
            endless: false,
            with_key: true,
            over: Stop::default(),
            state: Arc::default(),
        }
    }

    /// The same, which goes on whatever fails.
    pub(crate) fn endless(self, endless: bool) -> Patience {
        Patience { endless, ..self }
    }

    /// The same of requests with or without a key.
    pub(crate) fn with_key(self, with_key: bool) -> Patience {
        Patience { with_key, ..self }
    }

    /// Hears how a request ended, and whether any text had come: a server that breaks off its answers does answer.
    pub(crate) fn hear(&self, failure: Option<&Failure>, text: bool) {
        let mut state = self.state();
        let Some(failure) = failure else {
            (state.refusals, state.failures) = (0, 0);
            return;
        };
        if text || self.endless {
            return;
        }
        let said = &failure.message;
        let mut mended_by_less_load = false;
        let reason = match failure.kind {
            FailureKind::Cancelled => return,
            FailureKind::RateLimited => match failure.retry_after {
                Some(wait) if wait > self.longest_wait => format!(
                    "the provider asks to wait {wait} before the next request, longer than --max-wait {}: {said}",
                    self.longest_wait
                ),
                _ => return,
            },
            kind => {
                state.failures += 1;
                state.refusals += u64::from(is_refusal(kind));
                let timed_out =
                    matches!(kind, FailureKind::Stalled | FailureKind::TimedOut | FailureKind::ConnectTimeout);
                let enough = if timed_out { SILENCES } else { FAILURES } + self.in_flight.snapshot().in_flight();
                if state.refusals < REFUSALS && state.failures < enough {
                    return;
                }
                mended_by_less_load = state.refusals < REFUSALS;
                let advised = advised(kind, said, Circumstances { with_key: self.with_key, alone: false });
                format!("{} requests in a row failed, the last with: {advised}", state.failures)
            }
        };
        if state.reason.is_none() {
            state.reason = Some(format!("given up: {reason}"));
            state.mended_by_less_load = mended_by_less_load;
        }
        self.over.set();
    }

    /// Why the run is given up, if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        self.state().reason.clone()
    }

    /// Whether the run is given up.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_set()
    }

    /// Whether a lower load might fare better.
    pub(crate) fn is_mended_by_less_load(&self) -> bool {
        self.state().mended_by_less_load
    }

    /// Completes when the run is given up.
    pub(crate) async fn over(&self) {
        self.over.wait().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A worker that panicked has ended the run anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the next request would be refused as this one was, whatever the load.
pub(crate) fn is_refusal(kind: FailureKind) -> bool {
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

    fn patience(in_flight: u64) -> Patience {
        let progress = Arc::new(Progress::default());
        (0..in_flight).for_each(|_| progress.start());
        Patience::new(Span::from_secs(120), progress)
    }

    fn heard_until_over(patience: &Patience, failure: &Failure) -> u64 {
        (1..1000)
            .find(|_| {
                patience.hear(Some(failure), false);
                patience.is_over()
            })
            .expect("no run goes on for ever")
    }

    #[test]
    fn a_refusal_that_no_waiting_mends_ends_a_run_after_three() {
        for kind in [FailureKind::Unauthorized, FailureKind::NotFound, FailureKind::UnexpectedStatus] {
            let patience = patience(100);
            assert_eq!(heard_until_over(&patience, &failed(kind, None)), 3, "{kind:?}");
            let reason = patience.reason().expect("it is over");
            assert!(reason.contains(&format!("HTTP: {}", kind.name())), "the provider's words: {reason}");
        }
    }

    #[test]
    fn other_failures_end_a_run_when_those_in_flight_have_failed_too() {
        for (kind, enough) in [(FailureKind::Stalled, 12), (FailureKind::ServerError, 28), (FailureKind::Connect, 28)] {
            assert_eq!(heard_until_over(&patience(8), &failed(kind, None)), enough, "{kind:?}");
        }
    }

    #[test]
    fn an_answer_starts_the_count_anew() {
        let (patience, broken) = (patience(0), failed(FailureKind::ServerError, None));
        let nineteen = || (0..19).for_each(|_| patience.hear(Some(&broken), false));
        nineteen();
        patience.hear(None, false);
        nineteen();
        assert!(!patience.is_over());
        patience.hear(Some(&broken), false);
        assert!(patience.is_over());
    }

    #[test]
    fn answers_that_break_off_end_nothing_and_neither_does_anything_for_who_wants_to_keep_going() {
        let (broken_off, going) = (patience(0), patience(0).endless(true));
        for _ in 0..1000 {
            broken_off.hear(Some(&failed(FailureKind::Stalled, None)), true);
            going.hear(Some(&failed(FailureKind::Unauthorized, None)), false);
        }
        assert!(!broken_off.is_over() && !going.is_over());
    }

    #[test]
    fn a_wait_is_kept_up_to_the_longest_and_what_was_cut_off_says_nothing() {
        let patience = patience(0);
        for _ in 0..1000 {
            patience.hear(Some(&failed(FailureKind::RateLimited, Some(Span::from_secs(120)))), false);
            patience.hear(Some(&failed(FailureKind::RateLimited, None)), false);
            patience.hear(Some(&failed(FailureKind::Cancelled, None)), false);
        }
        assert!(!patience.is_over());
        patience.hear(Some(&failed(FailureKind::RateLimited, Some(Span::from_secs(3600)))), false);
        let reason = patience.reason().expect("an hour is too long");
        assert!(reason.contains("--max-wait"), "{reason}");
    }
}

//! What a client of a call gets in place of an answer: an error of the gateway's, or a provider's refusal as it was written.
//!
//! Invariant: a refusal is passed on in the dialect that the client speaks, or not at all.

use super::call::Call;
use crate::respond::error::{ErrorResponse, UnavailableLane, whole_seconds};
use crate::respond::headers::CALL_HEADER;
use crate::state::lock::locked;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokrate_core::FailureKind;
use tokrate_route::{AttemptFailure, Blame, BreakerState, blame};

impl Call {
    /// The error for a client that gets no answer, or not all of one.
    pub fn error_response(&self, kind: FailureKind, attempt: Option<usize>) -> ErrorResponse {
        let retry_after = self.race.retry_after();
        let error = match attempt.and_then(|attempt| self.attempts.get(attempt)) {
            Some(entry) => {
                let attempt = &entry.attempt;
                let error =
                    ErrorResponse::of_failure(kind, &attempt.lane.config.name, &attempt.error_message(), retry_after);
                match attempt.refused_status().filter(|_| self.is_final(kind)) {
                    Some(status) => ErrorResponse { status, ..error },
                    None => error,
                }
            }
            None if kind == FailureKind::TimedOut => ErrorResponse::timed_out(&self.account.alias.name),
            None => {
                let (now, alias) = (self.now(), &self.account.alias);
                let router = locked(&self.account.plan.router);
                let lanes = alias.lanes.iter().filter_map(|id| {
                    let lane = self.account.plan.lane(*id);
                    let (name, last_failure) = (lane.config.name.clone(), lane.health.last_failure());
                    Some(UnavailableLane { name, breaker: router.breaker(*id, now)?, last_failure })
                });
                let lanes: Vec<UnavailableLane> = lanes.collect();
                ErrorResponse::no_lane_available(&alias.name, &lanes, now)
            }
        };
        let is_logged = !self.attempts.is_empty();
        ErrorResponse { call: is_logged.then(|| self.account.request.id.clone()), ..error }
    }

    /// Whether a failure of the lane's settings is final, because no other lane could answer.
    fn is_final(&self, kind: FailureKind) -> bool {
        self.lanes.only().is_some() && blame(kind) == Blame::Key
    }

    /// The refusal of a call's only lane from before, while its breaker is open for that: another try would change
    /// nothing, and a 503 would make the client retry, or say less than the provider did of a limit.
    pub fn cached_refusal(&self) -> Option<Response<Bytes>> {
        let lane = self.account.plan.lane(self.lanes.only()?);
        let breaker = locked(&self.account.plan.router).breaker(lane.id, self.now())?;
        let BreakerState::Open { until, blame: Blame::Key | Blame::Load } = breaker else { return None };
        let is_final = |kind| blame(kind) == Blame::Key || kind == FailureKind::RateLimited;
        let failure = lane.health.last_failure().filter(|failure| is_final(failure.kind))?;
        let wait = (blame(failure.kind) == Blame::Load).then(|| until - self.now());
        let (status, refusal) = (failure.status?, failure.refusal.as_ref()?);
        let dialect = self.account.request.dialect();
        if refusal.dialect != dialect {
            let error = ErrorResponse::of_failure(failure.kind, &lane.config.name, &failure.message, wait);
            return Some(ErrorResponse { status, ..error }.into_response(dialect));
        }
        let mut response = Response::new(refusal.body.clone());
        *response.status_mut() = status;
        if let Some(content_type) = &refusal.content_type {
            response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
        }
        if let Some(wait) = wait {
            response.headers_mut().insert(RETRY_AFTER, whole_seconds(wait));
        }
        Some(response)
    }

    /// A lane's refusal of the request itself or for a rate limit, passed on as the provider wrote it if the dialects agree;
    /// for a call with a single lane also a refusal of its key or model.
    pub fn upstream_refusal(&self, attempt: usize) -> Option<Response<Bytes>> {
        let attempt = &self.attempts[attempt].attempt;
        let AttemptFailure { kind, retry_after: own_wait } = attempt.failure()?;
        let opens_session = self.account.request.opens_session();
        let is_clients = blame(kind) == Blame::Client
            || opens_session
            || matches!(kind, FailureKind::NotFound | FailureKind::EditRefused | FailureKind::RateLimited)
            || self.is_final(kind);
        let same_dialect = attempt.dialect() == self.account.request.dialect();
        let body = attempt.body.borrow();
        let may_pass = |status: StatusCode| status.is_client_error() || opens_session && status.is_server_error();
        let head = body.answer.head().filter(|head| may_pass(head.status))?;
        if !is_clients || !same_dialect || !attempt.has_whole_refusal() {
            return None;
        }
        let mut response = Response::new(attempt.redacted_refusal(&body));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers.clone();
        response.headers_mut().remove(DATE);
        // Another lane of the call may be back earlier.
        if let Some(wait) = self.race.retry_after().filter(|wait| own_wait.is_none_or(|own| *wait < own)) {
            response.headers_mut().insert(RETRY_AFTER, whole_seconds(wait));
        }
        if let Ok(id) = HeaderValue::from_str(&self.account.request.id) {
            response.headers_mut().insert(HeaderName::from_static(CALL_HEADER), id);
        }
        Some(response)
    }
}

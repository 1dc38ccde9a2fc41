//! Requests that a gateway refused before it asked a lane: a row of the throughput log for all of one minute that are alike.
//!
//! Invariant: a row holds only names that the gateway's configuration has, so that no client decides what is kept or how much.

use serde::{Deserialize, Serialize};

/// A minute (ms).
const MINUTE_MS: u64 = 60_000;

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// 400, 422: it cannot be understood, or no lane can express it.
    BadRequest,
    /// 401: no key, or an unknown one.
    Unauthorized,
    /// 429: the key's monthly budget is spent, or has too little left for the call.
    BudgetSpent,
    /// 403: the key may not do this, or a page of another site asks.
    Forbidden,
    /// 404: no such path or model.
    NotFound,
    /// 405, 415, 421: another method, content type or host name is expected.
    WrongRequest,
    /// 408: it came too slowly.
    Timeout,
    /// 413, 431: its body or head is too large.
    TooLarge,
    /// 429: another limit of the key is used up.
    TooManyRequests,
    /// 503, 504: no lane can be asked, or there is no room.
    Unavailable,
    /// Any other status.
    Other,
}

/// Refused requests of one minute that have everything below in common but the times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// Wall time of the first (ms since 1970).
    pub first_unix_ms: u64,
    /// Wall time of the last (ms since 1970).
    pub last_unix_ms: u64,
    /// Name of the client's virtual key; absent if none is needed, or none or an unknown one was presented.
    pub key: Option<String>,
    /// What was asked for as `model`, if it is a name that the gateway has and the request was read that far.
    pub alias: Option<String>,
    /// Why.
    pub reason: RefusalReason,
    /// HTTP status of the response.
    pub status: u16,
    /// How many requests.
    pub count: u64,
}

impl RefusalReason {
    /// Every reason, in the order of their discriminants.
    pub const ALL: [RefusalReason; 11] = [
        RefusalReason::BadRequest,
        RefusalReason::Unauthorized,
        RefusalReason::BudgetSpent,
        RefusalReason::Forbidden,
        RefusalReason::NotFound,
        RefusalReason::WrongRequest,
        RefusalReason::Timeout,
        RefusalReason::TooLarge,
        RefusalReason::TooManyRequests,
        RefusalReason::Unavailable,
        RefusalReason::Other,
    ];

    /// The name used in rows, tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            RefusalReason::BadRequest => "bad_request",
            RefusalReason::Unauthorized => "unauthorized",
            RefusalReason::BudgetSpent => "budget_spent",
            RefusalReason::Forbidden => "forbidden",
            RefusalReason::NotFound => "not_found",
            RefusalReason::WrongRequest => "wrong_request",
            RefusalReason::Timeout => "timeout",
            RefusalReason::TooLarge => "too_large",
            RefusalReason::TooManyRequests => "too_many_requests",
            RefusalReason::Unavailable => "unavailable",
            RefusalReason::Other => "other",
        }
    }

    /// The reason of a status, as far as the status tells.
    pub const fn of(status: u16) -> RefusalReason {
        match status {
            400 | 422 => RefusalReason::BadRequest,
            401 => RefusalReason::Unauthorized,
            403 => RefusalReason::Forbidden,
            404 => RefusalReason::NotFound,
            405 | 415 | 421 => RefusalReason::WrongRequest,
            408 => RefusalReason::Timeout,
            413 | 431 => RefusalReason::TooLarge,
            429 => RefusalReason::TooManyRequests,
            503 | 504 => RefusalReason::Unavailable,
            _ => RefusalReason::Other,
        }
    }
}

impl Refusal {
    /// One refused request.
    pub fn new(unix_ms: u64, reason: RefusalReason, status: u16) -> Refusal {
        Refusal { first_unix_ms: unix_ms, last_unix_ms: unix_ms, key: None, alias: None, reason, status, count: 1 }
    }

    /// The beginning of its minute (ms since 1970).
    pub fn minute_unix_ms(&self) -> u64 {
        self.first_unix_ms - self.first_unix_ms % MINUTE_MS
    }

    /// Adds requests that are alike.
    pub fn merge(&mut self, other: &Refusal) {
        self.first_unix_ms = self.first_unix_ms.min(other.first_unix_ms);
        self.last_unix_ms = self.last_unix_ms.max(other.last_unix_ms);
        self.count = self.count.saturating_add(other.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_the_order_of_their_discriminants() {
        for (place, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }

    #[test]
    fn refusals_that_are_alike_become_one_with_the_first_and_the_last_time() {
        let at = |ms: u64| Refusal::new(120_000 + ms, RefusalReason::Unauthorized, 401);
        let mut all = at(500);
        // A wall clock may go back.
        [at(59_999), at(0)].iter().for_each(|one| all.merge(one));
        assert_eq!(all, Refusal { first_unix_ms: 120_000, last_unix_ms: 179_999, count: 3, ..at(0) });
        assert_eq!(all.minute_unix_ms(), 120_000);
    }
}

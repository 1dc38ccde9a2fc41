//! Counts of requests by outcome.
//!
//! Invariant: started = answered + failed + rate-limited + cancelled; a kind of failure that did not occur has no row.

use super::{OpeningSummary, StreamSummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_core::{FailureKind, Span};
use tokrate_meter::names;
use tokrate_meter::request::{ConnectionState, RequestNumbers};

/// How many requests ended in which way; the warm-up is included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Requests that were started.
    pub started: u64,
    /// Those with a complete answer.
    pub answered: u64,
    /// Those that failed; neither rate-limited nor cancelled ones.
    pub failed: u64,
    /// Rate-limited ones: a state of its own.
    pub rate_limited: u64,
    /// Those that were ended by us.
    pub cancelled: u64,
    /// Started requests that belong to the warm-up.
    pub warmup: u64,
    /// Answered requests outside the warm-up: the `n` of the distributions of requests.
    pub measured: u64,
    /// Arrivals of an open loop that were sent late by the client.
    pub late: u64,
    /// Arrivals of an open loop that were never sent because too many requests were in flight; +infinity in the `adj_`
    /// distributions.
    pub forfeited: u64,
    /// Arrivals of an open loop that were never sent because the provider had asked to wait: like the requests that it
    /// refused for their rate, they are in no distribution.
    #[serde(default)]
    pub withheld: u64,
}

/// Failures of one kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureCount {
    /// What went wrong.
    #[serde(with = "names::one")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "tokrate_meter::schema::name::<FailureKind>"))]
    pub kind: FailureKind,
    /// How many requests.
    pub count: u64,
    /// Share of the started requests that were not cancelled.
    pub share: f64,
    /// The first message that came with it, if any did.
    pub message: Option<String>,
    /// What can be done about it.
    pub hint: String,
}

/// Rate-limited requests.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateLimited {
    /// How many requests.
    pub count: u64,
    /// Share of the started requests that were not cancelled; absent without any.
    pub share: Option<f64>,
    /// How many of them carried `Retry-After`.
    pub with_retry_after: u64,
    /// Sum of their `Retry-After` (ms); absent if none had one.
    pub retry_after_total_ms: Option<f64>,
    /// How long they held the load back (s): of a closed loop the mean over its slots, of an open one the time in which no
    /// arrival was sent; absent if they were ignored.
    pub held_back_seconds: Option<f64>,
    /// `held_back_seconds` as a share of the phase.
    pub held_back_share: Option<f64>,
}

/// Connections that the requests used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Requests for which a connection was opened.
    pub new: u64,
    /// Requests on a connection that was open already.
    pub reused: u64,
    /// Kept connections that turned out to have been closed by the server; their requests were sent on others.
    pub stale: u64,
    /// Mean time of opening a new one, TLS excluded (ms).
    pub connect_mean_ms: Option<f64>,
    /// Mean time of the TLS handshake of a new one (ms); absent without TLS.
    pub tls_mean_ms: Option<f64>,
    /// The steps of measured requests where each opens its connection; absent where connections are kept.
    #[serde(default, skip_serializing_if = "OpeningSummary::is_empty")]
    pub opening: OpeningSummary,
    /// How measured requests shared HTTP/2 connections; absent over HTTP/1.1.
    #[serde(default, skip_serializing_if = "StreamSummary::is_empty")]
    pub streams: StreamSummary,
}

/// Number of requests with a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NameCount {
    /// The name; absent if the server gave none.
    pub name: Option<String>,
    /// How many requests.
    pub count: u64,
}

impl Counts {
    /// Above this share of failures a result starts with a warning.
    pub const FAILURE_LIMIT: f64 = 0.01;

    /// Counts requests; `late` and `forfeited` are the caller's to fill in.
    pub(super) fn of(requests: &[RequestNumbers]) -> Counts {
        let mut counts = Counts { started: requests.len() as u64, ..Counts::default() };
        for request in requests {
            counts.warmup += u64::from(request.warmup);
            counts.measured += u64::from(request.is_answered() && !request.warmup);
            *match request.failure_kind() {
                None => &mut counts.answered,
                Some(FailureKind::RateLimited) => &mut counts.rate_limited,
                Some(FailureKind::Cancelled) => &mut counts.cancelled,
                Some(_) => &mut counts.failed,
            } += 1;
        }
        counts
    }

    /// Failed requests as a share of those started and not cancelled; absent without any.
    pub fn failed_share(&self) -> Option<f64> {
        self.share(self.failed)
    }

    /// Rate-limited requests as a share of those started and not cancelled; absent without any.
    pub fn rate_limited_share(&self) -> Option<f64> {
        self.share(self.rate_limited)
    }

    pub(super) fn share(&self, count: u64) -> Option<f64> {
        let ended = self.started.saturating_sub(self.cancelled);
        (ended > 0).then(|| count as f64 / ended as f64)
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), |a, b| Counts {
            started: a.started + b.started,
            answered: a.answered + b.answered,
            failed: a.failed + b.failed,
            rate_limited: a.rate_limited + b.rate_limited,
            cancelled: a.cancelled + b.cancelled,
            warmup: a.warmup + b.warmup,
            measured: a.measured + b.measured,
            late: a.late + b.late,
            forfeited: a.forfeited + b.forfeited,
            withheld: a.withheld + b.withheld,
        })
    }
}

/// Failures by kind, in the order of the kinds; rate-limited and cancelled requests are not among them.
pub(super) fn failures_of(requests: &[RequestNumbers], counts: &Counts) -> Vec<FailureCount> {
    let mut by_kind: BTreeMap<FailureKind, (u64, Option<String>)> = BTreeMap::new();
    for failure in requests.iter().filter_map(|request| request.failure.as_ref()) {
        if is_failed(Some(failure.kind)) {
            let (count, message) = by_kind.entry(failure.kind).or_default();
            *count += 1;
            if message.is_none() && !failure.message.is_empty() {
                *message = Some(failure.message.clone());
            }
        }
    }
    by_kind
        .into_iter()
        .map(|(kind, (count, message))| FailureCount {
            kind,
            count,
            share: counts.share(count).unwrap_or(0.0),
            message,
            hint: kind.hint().to_owned(),
        })
        .collect()
}

pub(super) fn rate_limited_of(requests: &[RequestNumbers], counts: &Counts) -> RateLimited {
    let refusals = requests
        .iter()
        .filter_map(|request| request.failure.as_ref())
        .filter(|failure| failure.kind == FailureKind::RateLimited);
    let waits: Vec<u64> = refusals.filter_map(|failure| failure.retry_after_ns).collect();
    let total = waits.iter().fold(Span::ZERO, |total, &wait| total + Span::from_nanos(wait));
    RateLimited {
        count: counts.rate_limited,
        share: counts.share(counts.rate_limited),
        with_retry_after: waits.len() as u64,
        retry_after_total_ms: (!waits.is_empty()).then(|| total.as_millis_f64()),
        held_back_seconds: None,
        held_back_share: None,
    }
}

pub(super) fn connections_of(requests: &[RequestNumbers], measured: &[&RequestNumbers]) -> Connections {
    let new: Vec<&RequestNumbers> =
        requests.iter().filter(|request| request.connection == ConnectionState::New).collect();
    let mean = |of: fn(&RequestNumbers) -> u64| {
        let spans: Vec<u64> = new.iter().map(|request| of(request)).filter(|&span| span > 0).collect();
        let sum: u128 = spans.iter().map(|&span| u128::from(span)).sum();
        (!spans.is_empty()).then(|| sum as f64 / spans.len() as f64 / 1e6)
    };
    Connections {
        new: new.len() as u64,
        reused: (requests.len() - new.len()) as u64,
        stale: requests.iter().map(|request| u64::from(request.stale_connections)).sum(),
        connect_mean_ms: mean(|request| request.connect_ns),
        tls_mean_ms: mean(|request| request.tls_ns),
        opening: OpeningSummary::of(measured),
        streams: StreamSummary::of(measured),
    }
}

/// Counts names, the most frequent first.
pub(super) fn names_of<'a>(names: impl Iterator<Item = Option<&'a str>>) -> Vec<NameCount> {
    let mut counts: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut rows: Vec<NameCount> =
        counts.into_iter().map(|(name, count)| NameCount { name: name.map(str::to_owned), count }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

/// Whether an ending counts as a failure: not one of ours, and not a refusal for the rate.
pub(super) fn is_failed(kind: Option<FailureKind>) -> bool {
    !matches!(kind, None | Some(FailureKind::RateLimited | FailureKind::Cancelled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::{MS, failed_request, steady_request};

    #[test]
    fn the_first_message_of_a_kind_that_is_not_empty_is_kept() {
        let saying = |index, kind, message: &str| {
            let mut request = failed_request(index, index, index + 1, kind);
            request.failure.as_mut().expect("it failed").message = message.to_owned();
            request
        };
        let requests = [
            saying(0, FailureKind::ServerError, ""),
            saying(1, FailureKind::ServerError, "out of memory"),
            saying(2, FailureKind::ServerError, "restarting"),
            saying(3, FailureKind::ServerError, ""),
            saying(4, FailureKind::Empty, ""),
        ];
        let rows = failures_of(&requests, &Counts::of(&requests));
        let message = |kind| {
            let row = rows.iter().find(|row| row.kind == kind).expect("the kind occurred");
            (row.count, row.share, row.message.as_deref())
        };
        assert_eq!(message(FailureKind::ServerError), (4, 0.8, Some("out of memory")));
        assert_eq!(message(FailureKind::Empty), (1, 0.2, None));
    }

    #[test]
    fn the_time_of_opening_a_connection_is_the_mean_over_those_that_were_opened() {
        let opened = |index, connect, tls| RequestNumbers {
            connection: ConnectionState::New,
            connect_ns: connect * MS,
            tls_ns: tls * MS,
            stale_connections: 2,
            ..steady_request(index, 0, 1, 10, 40)
        };
        // One of them without TLS, and a request on a connection that was open already.
        let requests = [opened(0, 4, 30), opened(1, 9, 10), opened(2, 5, 0), steady_request(3, 0, 1, 10, 40)];
        let connections = connections_of(&requests, &[]);
        assert_eq!((connections.new, connections.reused, connections.stale), (3, 1, 6));
        assert_eq!((connections.connect_mean_ms, connections.tls_mean_ms), (Some(6.0), Some(20.0)));
    }
}

//! Requests for which a connection was opened, step by step: what a process pays that has just begun.
//!
//! Invariant: the steps of a request do not overlap; a step that it did not have (a lookup, a TLS handshake) is in no distribution.

use super::{PhaseResult, StreamSummary};
use serde::{Deserialize, Serialize};
use tokrate_meter::request::{Opening, RequestNumbers};
use tokrate_stats::Distribution;

/// The steps of the measured requests that opened a connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpeningSummary {
    /// Such requests.
    pub n: u64,
    /// Those of them whose TLS handshake went on from an earlier session.
    pub tls_resumed: u64,
    /// Looking the server's name up.
    pub name_lookup: Distribution,
    /// Opening TCP, and a proxy's tunnel.
    pub tcp_connect: Distribution,
    /// The TLS handshake.
    pub tls_handshake: Distribution,
    /// TCP and TLS open to the request's last byte handed to the socket; over HTTP/2 with the wait for the server's SETTINGS.
    pub request_write: Distribution,
    /// Sent to the read that completed the response's head.
    pub response_head: Distribution,
    /// Beginning, before the lookup, to the first output text.
    pub cold_ttft: Distribution,
}

/// The steps, in their order; the last one ends with the first token.
pub const STEPS: [&str; 6] = ["lookup", "connect", "TLS", "send", "head", "token"];

impl Default for OpeningSummary {
    fn default() -> OpeningSummary {
        OpeningSummary::of(&[])
    }
}

impl OpeningSummary {
    /// Of the measured requests.
    pub(super) fn of(measured: &[&RequestNumbers]) -> OpeningSummary {
        let opened: Vec<(&RequestNumbers, Opening)> =
            measured.iter().filter_map(|request| Some((*request, request.opening?))).collect();
        let times = |of: fn(&RequestNumbers, Opening) -> Option<u64>| {
            let mut samples: Vec<u64> = opened.iter().filter_map(|(request, opening)| of(request, *opening)).collect();
            Distribution::of_nanos(&mut samples)
        };
        OpeningSummary {
            n: opened.len() as u64,
            tls_resumed: opened.iter().filter(|(_, opening)| opening.tls_resumed).count() as u64,
            name_lookup: times(|request, _| taken(request.dns_ns)),
            tcp_connect: times(|request, _| taken(request.connect_ns)),
            tls_handshake: times(|request, _| taken(request.tls_ns)),
            request_write: times(|_, opening| Some(opening.write_ns)),
            response_head: times(|request, _| request.head_ns),
            cold_ttft: times(|_, opening| opening.first_text_ns),
        }
    }

    /// Whether none of them opened a connection.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The mean of each of the [`STEPS`] over all these requests (ms), a step that one did not have as 0: only means add up. `None` without a
    /// first token.
    pub fn mean_steps(&self) -> Option<[f64; 6]> {
        let of = |step: &Distribution| step.mean.map_or(0.0, |mean| mean * step.n as f64 / self.n as f64);
        let whole = self.cold_ttft.mean.filter(|_| self.cold_ttft.n == self.n)?;
        let known =
            [&self.name_lookup, &self.tcp_connect, &self.tls_handshake, &self.request_write, &self.response_head]
                .map(of);
        let [lookup, connect, tls, send, head] = known;
        Some([lookup, connect, tls, send, head, (whole - known.iter().sum::<f64>()).max(0.0)])
    }
}

impl PhaseResult {
    /// Requests for which a connection was opened, if there were any.
    pub fn opening(&self) -> Option<&OpeningSummary> {
        Some(&self.connections.opening).filter(|opening| !opening.is_empty())
    }

    /// How requests shared HTTP/2 connections, if they did.
    pub fn streams(&self) -> Option<&StreamSummary> {
        Some(&self.connections.streams).filter(|streams| !streams.is_empty())
    }
}

/// The time of a step, if there was one.
pub(crate) fn taken(nanoseconds: u64) -> Option<u64> {
    (nanoseconds > 0).then_some(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::{MS, steady_request};

    fn opened(index: u64, tls: u64) -> RequestNumbers {
        let opening =
            Opening { began_at_ns: 0, write_ns: 2 * MS, first_text_ns: Some((50 + tls) * MS), tls_resumed: tls < 5 };
        RequestNumbers {
            opening: Some(opening),
            head_ns: Some(30 * MS),
            dns_ns: MS,
            connect_ns: 4 * MS,
            tls_ns: tls * MS,
            ..steady_request(index, index * 1_000, 40, 10, 20)
        }
    }

    #[test]
    fn means_of_the_steps_add_up_to_the_mean_of_the_whole() {
        let rows = [opened(0, 12), opened(1, 4), opened(2, 0), steady_request(3, 3_000, 40, 10, 20)];
        let summary = OpeningSummary::of(&rows.iter().collect::<Vec<_>>());
        assert_eq!((summary.n, summary.tls_resumed, summary.tls_handshake.n), (3, 2, 2));
        let steps = summary.mean_steps().expect("every answer has text");
        let whole = summary.cold_ttft.mean.expect("three samples");
        assert!((steps.iter().sum::<f64>() - whole).abs() < 1e-9, "{steps:?} {whole}");
        assert!((steps[2] - 16.0 / 3.0).abs() < 1e-9 && (steps[5] - 13.0).abs() < 1e-9, "{steps:?}");
    }

    #[test]
    fn requests_on_kept_connections_have_no_such_summary() {
        assert!(OpeningSummary::of(&[&steady_request(3, 3_000, 40, 10, 20)]).is_empty());
    }
}

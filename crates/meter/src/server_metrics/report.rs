//! What the server counted during a phase, next to what the client measured.
//!
//! Invariant: what the server does not publish is absent; a quantile from a histogram is an interval.

use super::snapshot::Histogram;
use super::{MetricsSnapshot, Quantity};
use crate::request::RequestNumbers;
use serde::{Deserialize, Serialize};
use tokrate_stats::Level;

/// Relative difference of token counts above which a warning is given.
const MAX_TOKEN_DIFFERENCE: f64 = 0.02;

/// The server's counts of a phase, warm-up and failures included, next to the client's figures for the same requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerReport {
    /// Where the metrics were read.
    pub endpoint: String,
    /// Whose names they have, such as `vllm`.
    pub family: String,
    /// The server's counters were reset during the phase; these are the counts since.
    pub restarted: bool,
    /// Requests that the server finished well.
    pub requests: Option<u64>,
    /// Those of them that are not the client's, at the least.
    pub foreign_requests: Option<u64>,
    /// Requests of others that the server had open when the phase began.
    pub open_before: Option<u64>,
    /// Prompt tokens that it read.
    pub input_tokens: Option<u64>,
    /// Tokens that it wrote.
    pub output_tokens: Option<u64>,
    /// (`output_tokens` - the client's) / the client's.
    pub output_tokens_apart: Option<f64>,
    /// Share of the prompt tokens that its prefix cache had.
    pub cache_hit_share: Option<f64>,
    /// Arrival to first token, as the server sees it.
    pub ttft: Option<ServerTimes>,
    /// Arrival to last token.
    pub e2e: Option<ServerTimes>,
    /// Arrival to the begin of work.
    pub queue: Option<ServerTimes>,
    /// Time that it spent reading prompts, over all requests (s).
    pub prefill_seconds: Option<f64>,
    /// Time that it spent writing, over all requests (s).
    pub decode_seconds: Option<f64>,
    /// The client's figures for the same requests.
    pub client: ClientTotals,
    /// Mean TTFT of the client minus that of the server (ms): network, client, and whatever precedes the server's
    /// own clock.
    pub ttft_gap_ms: Option<f64>,
    /// The same for E2E (ms).
    pub e2e_gap_ms: Option<f64>,
    /// Contradictions, as sentences.
    pub warnings: Vec<String>,
}

/// Times from a histogram.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerTimes {
    /// Requests in it.
    pub n: u64,
    /// Their mean (ms); exact, because the server keeps the sum.
    pub mean_ms: f64,
    /// Bounds of the bucket in which the median lies.
    pub p50: Option<Between>,
    /// Bounds of the bucket in which the 99th percentile lies; null below 662 requests.
    pub p99: Option<Between>,
}

/// An interval that holds a quantile.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Between {
    /// Lower bound (ms).
    pub low_ms: f64,
    /// Upper bound (ms); null above the largest bound of the histogram.
    pub high_ms: Option<f64>,
}

/// The client's numbers over all requests of a phase, as the server counts them: warm-up included.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientTotals {
    /// Requests sent.
    pub started: u64,
    /// Requests answered.
    pub answered: u64,
    /// Mean TTFT (ms).
    pub ttft_mean_ms: Option<f64>,
    /// Median TTFT (ms), nearest rank.
    pub ttft_p50_ms: Option<f64>,
    /// Mean E2E (ms).
    pub e2e_mean_ms: Option<f64>,
    /// Output tokens that the answers report; null unless every answer does.
    pub output_tokens: Option<u64>,
    /// Prompt tokens that the answers report; null unless every answer does.
    pub input_tokens: Option<u64>,
}

impl ServerReport {
    /// The difference of two snapshots, next to the client's figures.
    pub fn between(
        endpoint: &str,
        before: &MetricsSnapshot<'_>,
        after: &MetricsSnapshot<'_>,
        client: ClientTotals,
    ) -> ServerReport {
        let mut counters = Counters { before, after, restarted: false };
        let requests = counters.whole(Quantity::Requests);
        let input_tokens = counters.whole(Quantity::InputTokens);
        let output_tokens = counters.whole(Quantity::OutputTokens);
        let hits = counters.difference(Quantity::CacheHits);
        let queries = counters.difference(Quantity::CacheQueries);
        let ttft = counters.times(Quantity::Ttft);
        let e2e = counters.times(Quantity::E2e);
        let queue = counters.times(Quantity::Queue);
        let open = [Quantity::Running, Quantity::Waiting].map(|quantity| before.number(quantity));
        let gap = |client: Option<f64>, server: &Option<ServerTimes>| Some(client? - server.as_ref()?.mean_ms);
        let apart = |server: u64, client: u64| (server as f64 - client as f64) / client as f64;
        let mut truth = ServerReport {
            endpoint: endpoint.to_owned(),
            family: after.family().name.to_owned(),
            requests,
            foreign_requests: requests.map(|requests| requests.saturating_sub(client.started)),
            open_before: open.iter().flatten().copied().reduce(|a, b| a + b).map(|open| open.max(0.0).round() as u64),
            input_tokens,
            output_tokens,
            output_tokens_apart: output_tokens
                .zip(client.output_tokens.filter(|&tokens| tokens > 0))
                .map(|(server, client)| apart(server, client)),
            cache_hit_share: hits
                .zip(queries)
                .filter(|(_, queries)| *queries > 0.0)
                .map(|(hits, queries)| (hits / queries).clamp(0.0, 1.0)),
            ttft_gap_ms: gap(client.ttft_mean_ms, &ttft),
            e2e_gap_ms: gap(client.e2e_mean_ms, &e2e),
            ttft,
            e2e,
            queue,
            prefill_seconds: counters.difference(Quantity::PrefillSeconds),
            decode_seconds: counters.difference(Quantity::DecodeSeconds),
            restarted: counters.restarted,
            client,
            warnings: Vec::new(),
        };
        truth.warnings = truth.judge();
        truth
    }

    /// Tokens per second of the time that the server spent writing, over all requests.
    pub fn decode_speed(&self) -> Option<f64> {
        let seconds = self.decode_seconds.filter(|&seconds| seconds > 0.0)?;
        Some(self.output_tokens? as f64 / seconds)
    }

    fn judge(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.restarted {
            warnings.push("the server's counters began anew: it was restarted".to_owned());
        }
        if let Some(open) = self.open_before.filter(|&open| open > 0) {
            warnings.push(format!("the server had {open} requests of others open at the start"));
        }
        let foreign = self.foreign_requests.filter(|&foreign| foreign > 0);
        if let Some(foreign) = foreign {
            let requests = self.requests.unwrap_or(0);
            warnings.push(format!(
                "the server finished {requests} requests, {foreign} more than were sent: others use it, and the numbers are those of a shared server"
            ));
        }
        if let Some(missing) = self.requests.and_then(|requests| self.client.answered.checked_sub(requests))
            && missing > 0
        {
            warnings.push(format!("the server counts {missing} requests less than were answered"));
        }
        if let Some(apart) = self.output_tokens_apart.filter(|apart| apart.abs() > MAX_TOKEN_DIFFERENCE) {
            let (server, client) = (self.output_tokens.unwrap_or(0), self.client.output_tokens.unwrap_or(0));
            let unanswered = self.client.started - self.client.answered;
            let why = match (apart > 0.0, foreign, unanswered) {
                (true, Some(_), _) => "; the others' tokens are among them",
                (true, None, 1..) => "; requests that were not answered may be among them",
                _ => "",
            };
            warnings.push(format!(
                "the server wrote {server} output tokens, the answers report {client} ({:+.1} %){why}",
                apart * 100.0
            ));
        }
        warnings
    }
}

impl ClientTotals {
    /// Sums up the requests of a phase.
    pub fn of(rows: &[RequestNumbers]) -> ClientTotals {
        let answered: Vec<&RequestNumbers> = rows.iter().filter(|row| row.is_answered()).collect();
        let all = |of: fn(&RequestNumbers) -> Option<u64>| {
            let values: Option<Vec<u64>> = answered.iter().map(|row| of(row)).collect();
            values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
        };
        let mut ttft: Vec<u64> = rows.iter().filter_map(|row| row.ttft_ns).collect();
        ttft.sort_unstable();
        let mean = |values: &[u64]| {
            let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
            (!values.is_empty()).then(|| sum as f64 / values.len() as f64 / 1e6)
        };
        let e2e: Vec<u64> = answered.iter().filter_map(|row| row.e2e_ns).collect();
        ClientTotals {
            started: rows.len() as u64,
            answered: answered.len() as u64,
            ttft_mean_ms: mean(&ttft),
            ttft_p50_ms: ttft.get(ttft.len().div_ceil(2).saturating_sub(1)).map(|&ttft| ttft as f64 / 1e6),
            e2e_mean_ms: mean(&e2e),
            output_tokens: all(|row| row.tokens_reported),
            input_tokens: all(|row| row.input_reported),
        }
    }
}

/// Two readings, and whether a counter fell between them.
struct Counters<'a> {
    before: &'a MetricsSnapshot<'a>,
    after: &'a MetricsSnapshot<'a>,
    restarted: bool,
}

impl Counters<'_> {
    /// What was added. A series that was not there before began at 0; one that fell began anew.
    fn difference(&mut self, quantity: Quantity) -> Option<f64> {
        let after = self.after.number(quantity)?;
        let before = self.before.number(quantity).unwrap_or(0.0);
        self.restarted |= after < before;
        Some(if after < before { after } else { after - before })
    }

    fn whole(&mut self, quantity: Quantity) -> Option<u64> {
        self.difference(quantity).map(|difference| difference.max(0.0).round() as u64)
    }

    fn times(&mut self, quantity: Quantity) -> Option<ServerTimes> {
        let after = self.after.histogram(quantity)?;
        let before = self.before.histogram(quantity).unwrap_or_default();
        let difference = after.since(&before);
        self.restarted |= difference.is_none();
        ServerTimes::of(&difference.unwrap_or(after))
    }
}

impl ServerTimes {
    /// `None` of an empty histogram. Values are seconds.
    fn of(histogram: &Histogram) -> Option<ServerTimes> {
        let n = histogram.count.max(0.0).round() as u64;
        let mean_ms = histogram.sum / histogram.count * 1e3;
        (n > 0 && mean_ms.is_finite()).then(|| ServerTimes {
            n,
            mean_ms,
            p50: Between::of(histogram, 0.5),
            p99: (n >= Level::P99.floor()).then(|| Between::of(histogram, 0.99)).flatten(),
        })
    }
}

impl Between {
    /// The bucket that holds the nearest-rank quantile.
    fn of(histogram: &Histogram, q: f64) -> Option<Between> {
        let rank = (q * histogram.count).ceil();
        let place = histogram.buckets.iter().position(|&(_, values)| values >= rank)?;
        let low = place.checked_sub(1).map_or(0.0, |below| histogram.buckets[below].0) * 1e3;
        let high = histogram.buckets[place].0 * 1e3;
        Some(Between { low_ms: low.min(f64::MAX), high_ms: high.is_finite().then_some(high) })
    }
}

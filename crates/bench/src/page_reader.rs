//! A page of metrics and how it is read.
//!
//! Invariant: requests are GET only.

use crate::config::ServerMetrics;
use tokrate_core::{Span, Tick};
use tokrate_meter::server_metrics::{EngineSample, Exposition, Family, MetricsSnapshot};
use tokrate_net::{Client, ClientConfig, Clock, Limits};

const LIMITS: Limits = Limits { idle: Span::from_secs(2), total: Span::from_secs(5), max_body_bytes: 16 * 1024 * 1024 };

/// A page of metrics and how it is reached.
#[derive(Clone)]
pub(crate) struct PageReader {
    metrics: ServerMetrics,
    client: ClientConfig,
    clock: Clock,
}

impl PageReader {
    /// A page, reached as the endpoint is but for its own socket.
    pub fn new(metrics: ServerMetrics, client: &ClientConfig, clock: Clock) -> PageReader {
        let client = ClientConfig { unix_socket: metrics.unix_socket.clone(), ..client.clone() };
        PageReader { metrics, client, clock }
    }

    /// The page and when it was so: half way between asking and having the answer.
    pub fn read(&self) -> Result<(Tick, Exposition), String> {
        let ServerMetrics { target, path, headers, .. } = &self.metrics;
        let asked_at = self.clock.now();
        let answer = Client::get_blocking(target, path, headers.clone(), &self.client, LIMITS, self.clock)
            .map_err(|failure| format!("{} ({})", self.url(), failure.detail))?;
        let at = asked_at + Span::from_nanos((self.clock.now() - asked_at).as_nanos() / 2);
        if !answer.head.status.is_success() {
            return Err(format!("{} answers {}", self.url(), answer.head.status));
        }
        let page = Exposition::parse(&answer.body);
        // A page without known metrics may be that of an engine before its first request.
        if page.samples.is_empty() { Err(format!("{} holds no metrics", self.url())) } else { Ok((at, page)) }
    }

    /// What the page says of the engine; nothing where it has no known metrics.
    pub fn engine(&self, at: Tick, page: &Exposition, model: &str) -> EngineSample {
        let known = MetricsSnapshot::of(page, self.family(), model);
        known.map_or(EngineSample { at, ..EngineSample::default() }, |known| EngineSample::of(at, &known))
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("{}{}", self.metrics.target.origin(), self.metrics.path)
    }

    /// Whose names the page is said to have.
    pub fn family(&self) -> Option<Family> {
        self.metrics.family.as_deref().and_then(Family::by_name)
    }
}

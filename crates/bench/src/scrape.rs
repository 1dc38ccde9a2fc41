//! Reads a server's metrics page before and after a phase. A page that cannot be read is a note, not an error.
//!
//! Invariant: nothing is requested during a phase, and requests are GET only.

use crate::config::ServerMetrics;
use std::time::Duration;
use tokrate_core::Span;
use tokrate_meter::RequestNumbers;
use tokrate_meter::server_metrics::{ClientTotals, Exposition, Family, MetricsSnapshot, ServerReport};
use tokrate_net::{Client, ClientConfig, Clock, Limits};

const LIMITS: Limits = Limits { idle: Span::from_secs(2), total: Span::from_secs(5), max_body_bytes: 16 * 1024 * 1024 };
/// Engines count a request slightly after its last byte, so the page is read again until all are counted.
const MAX_RETRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The page of one server.
pub(crate) struct Scraper {
    metrics: ServerMetrics,
    client: ClientConfig,
    model: String,
    /// Whether answers are streamed; the first token of one that is not comes with the last.
    streaming: bool,
    clock: Clock,
    /// Why the page could not be read.
    pub note: Option<String>,
}

impl Scraper {
    /// For the server's page, as the endpoint is reached.
    pub fn new(metrics: ServerMetrics, client: &ClientConfig, model: &str, streaming: bool, clock: Clock) -> Scraper {
        let client = ClientConfig { unix_socket: metrics.unix_socket.clone(), ..client.clone() };
        Scraper { metrics, client, model: model.to_owned(), streaming, clock, note: None }
    }

    /// The page as it is now; `None` if it could not be read, with a note.
    pub fn page(&mut self) -> Option<Exposition> {
        let read = self.read();
        if let Err(reason) = &read {
            self.note = Some(format!(
                "the server's own metrics were not read: {reason}; some servers publish them only when told to (docs/targets.md); --server-metrics off leaves them out"
            ));
        }
        read.ok()
    }

    /// The server's counts since `before`, next to the client's figures.
    pub fn report_since(&mut self, before: &Exposition, rows: &[RequestNumbers]) -> Option<ServerReport> {
        let mut client = ClientTotals::of(rows);
        if !self.streaming {
            (client.ttft_mean_ms, client.ttft_p50_ms) = (None, None);
        }
        for _ in 0..MAX_RETRIES {
            let truth = self.truth(before, &client)?;
            if counts_all(&truth) {
                return Some(truth);
            }
            std::thread::sleep(RETRY_AFTER);
        }
        self.truth(before, &client)
    }

    fn truth(&mut self, before: &Exposition, client: &ClientTotals) -> Option<ServerReport> {
        let after = self.page()?;
        let family = self.metrics.family.as_deref().and_then(Family::by_name);
        let reading = MetricsSnapshot::of(&after, family, &self.model)?;
        // A server may publish its metrics only after the first request.
        let empty = Exposition::default();
        let earlier = MetricsSnapshot::of(before, family, &self.model).unwrap_or_else(|| reading.zeroed(&empty));
        Some(ServerReport::between(&self.url(), &earlier, &reading, client.clone()))
    }

    fn read(&self) -> Result<Exposition, String> {
        let ServerMetrics { target, path, headers, .. } = &self.metrics;
        let answer = Client::get_blocking(target, path, headers.clone(), &self.client, LIMITS, self.clock)
            .map_err(|failure| format!("{} ({})", self.url(), failure.detail))?;
        if !answer.head.status.is_success() {
            return Err(format!("{} answers {}", self.url(), answer.head.status));
        }
        let page = Exposition::parse(&answer.body);
        let family = self.metrics.family.as_deref().and_then(Family::by_name);
        let known = MetricsSnapshot::of(&page, family, &self.model).is_some();
        // A page without known metrics may be that of an engine before its first request.
        if known || !page.samples.is_empty() { Ok(page) } else { Err(format!("{} holds no metrics", self.url())) }
    }

    fn url(&self) -> String {
        let scheme = if self.metrics.target.is_tls() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.metrics.target.authority(), self.metrics.path)
    }
}

/// Whether the server has counted everything that the client saw.
fn counts_all(truth: &ServerReport) -> bool {
    let requests = truth.requests.is_none_or(|requests| requests >= truth.client.answered);
    let tokens = truth.output_tokens.zip(truth.client.output_tokens).is_none_or(|(server, client)| server >= client);
    requests && tokens
}

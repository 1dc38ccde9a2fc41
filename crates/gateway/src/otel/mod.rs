//! Pushes metrics and traces to an OpenTelemetry collector: OTLP over HTTP with protobuf, from a thread of its own.
//!
//! Invariant: no call waits for a collector; every export, the last one included, has a bounded time; an error is
//! reported once until it changes or ends, and never holds a header's value.

mod metrics;
mod protobuf;
pub(crate) mod response;
mod schedule;
mod spans;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod traces;

use crate::config::OtelConfig;
use crate::error::GatewayError;
use crate::state::shared::Shared;
use crate::telemetry::snapshot::Snapshot;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use response::{ExportError, ExportOutcome};
use schedule::Schedule;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_blocking};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::{Client, ClientConfig, Clock, ExchangeFailure, HttpVersion, Limits, Outgoing, Route, Secrets};

/// Time for an export, from resolving the collector's name to the end of its response.
const EXPORT_TIMEOUT: Span = Span::from_secs(10);
/// Time for the last export, at shutdown.
const LAST_EXPORT_TIMEOUT: Span = Span::from_secs(2);
/// What the thread may take beyond that to end.
const JOIN_TIMEOUT: Span = Span::from_millis(500);
/// Responses are a few bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The exporting thread; it ends, after a last export, when this is dropped.
pub(crate) struct Exporter {
    end: Option<watch::Sender<()>>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts exporting.
    ///
    /// # Errors
    ///
    /// If the thread cannot be created.
    pub fn start(
        config: &OtelConfig,
        client_config: &ClientConfig,
        shared: &Arc<Shared>,
    ) -> Result<Exporter, GatewayError> {
        if config.metrics {
            shared.exports.enable(config.endpoint.to_string());
        }
        if config.traces.is_some() {
            shared.trace_exports.enable(config.endpoint.to_string());
        }
        let work = ExportTask::new(config, client_config, shared);
        let (end, shutdown) = watch::channel(());
        let (done, ended) = channel();
        let thread = std::thread::Builder::new()
            .name("tokrate-otel".to_owned())
            .spawn(move || work.run(shutdown, done))
            .map_err(GatewayError::Thread)?;
        Ok(Exporter { end: Some(end), ended, thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end = None;
        // An error means that the thread has ended already.
        let timeout = LAST_EXPORT_TIMEOUT + JOIN_TIMEOUT;
        let is_late = self.ended.recv_timeout(timeout.as_duration()) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if let Some(thread) = self.thread.take().filter(|_| !is_late) {
            // A thread that panicked has printed its message already.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct ExportTask {
    config: OtelConfig,
    /// Attributes of the resource.
    resource: Vec<(String, String)>,
    client_config: ClientConfig,
    secrets: Secrets,
    clock: Clock,
    started_at: Tick,
    started_unix_ns: u64,
    /// A weak reference: the gateway must be able to end, and close its log, while an export hangs.
    shared: Weak<Shared>,
}

impl ExportTask {
    fn new(config: &OtelConfig, client_config: &ClientConfig, shared: &Arc<Shared>) -> ExportTask {
        let clock = shared.clock;
        let own = [
            ("service.name", "tokrate"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", shared.run_id()),
        ];
        let mut resource = config.resource.clone();
        for (key, value) in own {
            if !resource.iter().any(|(known, _)| known == key) {
                resource.push((key.to_owned(), value.to_owned()));
            }
        }
        ExportTask {
            resource,
            // Exports are a minute apart; a kept connection would be closed by then.
            client_config: ClientConfig { http: HttpVersion::Http1, reuse: false, ..client_config.clone() },
            secrets: Secrets::of(&config.headers),
            config: config.clone(),
            clock,
            started_at: clock.now(),
            started_unix_ns: clock.wall_nanos(),
            shared: Arc::downgrade(shared),
        }
    }

    fn run(self, shutdown: watch::Receiver<()>, done: Sender<()>) {
        // Without a runtime nothing can be exported, which is reported like any other error.
        match Builder::new_current_thread().enable_all().max_blocking_threads(2).build() {
            Ok(runtime) => {
                LocalSet::new().block_on(&runtime, self.export(shutdown));
                // A look-up in progress is not waited for: the resolver may take arbitrarily long.
                runtime.shutdown_background();
            }
            Err(error) => self.record(&ExportOutcome::Rejected(ExportError {
                kind: "runtime".to_owned(),
                message: format!("no runtime for the exporting thread: {error}"),
            })),
        }
        drop(done);
    }

    /// Exports until shutdown, and then once more.
    async fn export(&self, shutdown: watch::Receiver<()>) {
        let traces = self.shared.upgrade().and_then(|shared| shared.traces.clone());
        let metrics = async {
            if self.config.metrics {
                self.export_metrics(shutdown.clone()).await;
            }
        };
        let traces = async {
            if let Some(queue) = traces {
                self.export_traces(&queue, shutdown.clone()).await;
            }
        };
        tokio::join!(metrics, traces);
    }

    /// Exports the metrics on schedule.
    async fn export_metrics(&self, mut shutdown: watch::Receiver<()>) {
        let mut schedule = Schedule::new(self.clock.now(), self.config.interval);
        loop {
            let wait = (schedule.next_at() - self.clock.now()).as_duration();
            tokio::select! {
                biased;
                _ = shutdown.changed() => break,
                () = tokio::time::sleep(wait) => {}
            }
            let outcome = tokio::select! {
                biased;
                // The last export will cover it.
                _ = shutdown.changed() => break,
                outcome = self.export_once(EXPORT_TIMEOUT) => outcome,
            };
            let Some(outcome) = outcome else { return };
            self.record(&outcome);
            schedule.record(self.clock.now(), &outcome);
        }
        if let Some(outcome) = self.export_once(LAST_EXPORT_TIMEOUT).await {
            self.record(&outcome);
        }
    }

    /// Exports once; `None` when the gateway is gone.
    async fn export_once(&self, timeout: Span) -> Option<ExportOutcome> {
        let body = {
            let shared = self.shared.upgrade()?;
            metrics::request(&Snapshot::of(&shared, self.started_at), &self.resource, self.started_unix_ns)
        };
        Some(self.deliver("/v1/metrics", Bytes::from(body), timeout).await)
    }

    /// Sends an export within a time.
    async fn deliver(&self, path: &str, body: Bytes, timeout: Span) -> ExportOutcome {
        match tokio::time::timeout(timeout.as_duration(), self.send(path, body, timeout)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(failure)) => ExportOutcome::of_failure(&failure, &self.secrets),
            Err(_) => ExportOutcome::timed_out(timeout),
        }
    }

    async fn send(&self, path: &str, body: Bytes, timeout: Span) -> Result<ExportOutcome, ExchangeFailure> {
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Connect, detail };
        let (target, client_config, clock) = (self.config.endpoint.clone(), self.client_config.clone(), self.clock);
        let resolved = spawn_blocking(move || Route::resolve_blocking(&target, &client_config, clock)).await;
        let route = resolved.map_err(|_| failed("resolving its name was cancelled".to_owned()))?;
        let route = route.map_err(|error| failed(format!("failed to {error}")))?;
        let client =
            Client::new(self.client_config.clone(), route, self.clock).map_err(|error| failed(error.to_string()))?;
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.config.endpoint.path_with(path),
            headers: self.headers(),
            body,
        };
        let limits = Limits { idle: timeout, total: timeout, max_body_bytes: MAX_ANSWER_BYTES };
        let answer = client.whole(outgoing, limits).await?;
        Ok(ExportOutcome::of_answer(&answer, &self.secrets))
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = self.config.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tokrate/", env!("CARGO_PKG_VERSION"))));
        headers
    }

    fn record(&self, outcome: &ExportOutcome) {
        if let Some(shared) = self.shared.upgrade() {
            shared.exports.record(outcome);
        }
    }
}

//! Exports what the admin side tells to an OpenTelemetry collector: OTLP over HTTP, in protocol buffers.
//!
//! It refuses to count, and to be waited for: it looks at the counts that `/metrics` shows, from a thread of its own.
//! Invariant: no call waits for a collector; an export, and the last one at the end, have a bounded time; trouble is told once
//! until it changes or ends, and never holds a header's value.

mod metrics;
mod protobuf;
pub(crate) mod response;
mod schedule;
pub(crate) mod status;
#[cfg(test)]
mod tests;

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
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_blocking};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::{Client, ClientConfig, Clock, ExchangeFailure, HttpVersion, Limits, Outgoing, Route, Secrets};

/// Time for an export, from the resolution of the collector's name to the end of its answer.
const MAX_EXPORT: Span = Span::from_secs(10);
/// Time for the last one, when the gateway ends.
const MAX_LAST: Span = Span::from_secs(2);
/// What its thread may take beyond that to end.
const MAX_END: Span = Span::from_millis(500);
/// Answers are a few bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The thread that exports; it ends, with a last export, when this is dropped.
pub(crate) struct Exporter {
    end: Option<oneshot::Sender<()>>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Exports from now on what is heard in this house.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(
        config: &OtelConfig,
        client_config: &ClientConfig,
        shared: &Arc<Shared>,
    ) -> Result<Exporter, GatewayError> {
        shared.exports.enable(config.endpoint.to_string());
        let work = ExportTask::new(config, client_config, shared);
        let (end, ending) = oneshot::channel();
        let (done, ended) = channel();
        let thread = std::thread::Builder::new()
            .name("tokrate-otel".to_owned())
            .spawn(move || work.run(ending, done))
            .map_err(GatewayError::Thread)?;
        Ok(Exporter { end: Some(end), ended, thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end = None;
        // An error means that the thread has ended, which is as good.
        let most = MAX_LAST + MAX_END;
        let is_late = self.ended.recv_timeout(most.as_duration()) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if let Some(thread) = self.thread.take().filter(|_| !is_late) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct ExportTask {
    config: OtelConfig,
    /// The resource's attributes.
    resource: Vec<(String, String)>,
    client_config: ClientConfig,
    secrets: Secrets,
    clock: Clock,
    began: Tick,
    began_unix_ns: u64,
    /// Not kept alive by this: the log is closed when the gateway ends.
    shared: Weak<Shared>,
}

impl ExportTask {
    fn new(config: &OtelConfig, client_config: &ClientConfig, shared: &Arc<Shared>) -> ExportTask {
        let clock = shared.clock;
        let own = [
            ("service.name", "tokrate"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", shared.run()),
        ];
        let mut resource = config.resource.clone();
        for (key, value) in own {
            if !resource.iter().any(|(known, _)| known == key) {
                resource.push((key.to_owned(), value.to_owned()));
            }
        }
        ExportTask {
            resource,
            // A connection a minute: one that was kept would be closed by then.
            client_config: ClientConfig { http: HttpVersion::Http1, reuse: false, ..client_config.clone() },
            secrets: Secrets::of(&config.headers),
            config: config.clone(),
            clock,
            began: clock.now(),
            began_unix_ns: clock.wall_nanos(),
            shared: Arc::downgrade(shared),
        }
    }

    fn run(self, ending: oneshot::Receiver<()>, done: Sender<()>) {
        // Without a runtime nothing is exported, and the trouble says so.
        match Builder::new_current_thread().enable_all().max_blocking_threads(1).build() {
            Ok(runtime) => {
                LocalSet::new().block_on(&runtime, self.export(ending));
                // A look-up under way is not waited for: it can take as long as the resolver likes.
                runtime.shutdown_background();
            }
            Err(error) => self.record(&ExportOutcome::Rejected(ExportError {
                kind: "runtime".to_owned(),
                message: format!("its thread has no runtime: {error}"),
            })),
        }
        drop(done);
    }

    /// Exports when it is due, until the end, and then once more.
    async fn export(&self, mut ending: oneshot::Receiver<()>) {
        let mut schedule = Schedule::new(self.clock.now(), self.config.interval);
        loop {
            let wait = (schedule.next() - self.clock.now()).as_duration();
            tokio::select! {
                biased;
                _ = &mut ending => break,
                () = tokio::time::sleep(wait) => {}
            }
            let outcome = tokio::select! {
                biased;
                // What is under way is told anew in a moment.
                _ = &mut ending => break,
                outcome = self.once(MAX_EXPORT) => outcome,
            };
            let Some(outcome) = outcome else { return };
            self.record(&outcome);
            schedule.ended(self.clock.now(), &outcome);
        }
        if let Some(outcome) = self.once(MAX_LAST).await {
            self.record(&outcome);
        }
    }

    /// One export of what is true now; `None` when there is nobody to tell of any more.
    async fn once(&self, most: Span) -> Option<ExportOutcome> {
        let body = {
            let shared = self.shared.upgrade()?;
            metrics::request(&Snapshot::of(&shared, self.began), &self.resource, self.began_unix_ns)
        };
        Some(match tokio::time::timeout(most.as_duration(), self.send("/v1/metrics", body, most)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(failure)) => ExportOutcome::of_failure(&failure, &self.secrets),
            Err(_) => ExportOutcome::timed_out(most),
        })
    }

    async fn send(&self, path: &str, body: Vec<u8>, most: Span) -> Result<ExportOutcome, ExchangeFailure> {
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Connect, detail };
        let (target, client_config, clock) = (self.config.endpoint.clone(), self.client_config.clone(), self.clock);
        let resolved = spawn_blocking(move || Route::resolve_blocking(&target, &client_config, clock)).await;
        let route = resolved.map_err(|_| failed("the look-up of its name ended at once".to_owned()))?;
        let route = route.map_err(|error| failed(format!("failed to {error}")))?;
        let client =
            Client::new(self.client_config.clone(), route, self.clock).map_err(|error| failed(error.to_string()))?;
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.config.endpoint.path_with(path),
            headers: self.headers(),
            body: Bytes::from(body),
        };
        let limits = Limits { idle: most, total: most, max_body_bytes: MAX_ANSWER_BYTES };
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

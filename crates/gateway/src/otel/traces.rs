//! Exports traces in batches.
//!
//! Invariant: one batch is under way at a time; what a busy collector asks to be sent again is sent again a bounded number of
//! times and then given up, counted; what waits meanwhile is bounded by the queue.

use super::response::ExportOutcome;
use super::{EXPORT_TIMEOUT, ExportTask, LAST_EXPORT_TIMEOUT, spans};
use crate::trace::finished::FinishedTrace;
use crate::trace::queue::TraceQueue;
use bytes::Bytes;
use tokio::sync::watch;
use tokrate_core::Span;

/// How long a trace waits for others, as OpenTelemetry's SDKs have it; less where metrics are exported more often.
const DELAY: Span = Span::from_secs(5);
/// Waits between tries without `Retry-After`, doubled from the first to the last.
const MIN_WAIT: Span = Span::from_secs(5);
const MAX_WAIT: Span = Span::from_secs(60);
/// Tries of one batch: more than two minutes with the waits between them. The queue is full long before on a busy gateway.
const MAX_TRIES: u32 = 6;
/// Calls of one request: about a megabyte, well within the 4 MiB that collectors take without being told.
const MAX_CALLS: usize = 1_024;

/// What became of a batch, and how many spans it has.
struct Batch<'a> {
    traces: &'a [FinishedTrace],
    spans: u64,
}

impl ExportTask {
    /// Exports what waits every few seconds, sooner when there is much, and at shutdown.
    pub(super) async fn export_traces(&self, queue: &TraceQueue, mut shutdown: watch::Receiver<()>) {
        let mut is_last = false;
        let delay = self.config.interval.min(DELAY).as_duration();
        while !is_last {
            tokio::select! {
                biased;
                _ = shutdown.changed() => is_last = true,
                () = queue.wanted.notified() => {}
                () = tokio::time::sleep(delay) => {}
            }
            let traces = queue.take();
            for traces in traces.chunks(MAX_CALLS) {
                let spans = traces.iter().map(FinishedTrace::spans).sum();
                let batch = Batch { traces, spans };
                let body = Bytes::from(spans::request(traces, &self.resource, env!("CARGO_PKG_VERSION")));
                if !is_last {
                    is_last = self.export_batch(queue, &batch, body.clone(), &mut shutdown).await;
                    if !is_last {
                        continue;
                    }
                }
                let outcome = self.deliver("/v1/traces", body, LAST_EXPORT_TIMEOUT).await;
                self.settle(queue, &batch, &outcome, true);
            }
        }
        // What ended while the last batch was under way.
        let rest = queue.take();
        if !rest.is_empty() {
            let batch = Batch { traces: &rest, spans: rest.iter().map(FinishedTrace::spans).sum() };
            let body = Bytes::from(spans::request(&rest, &self.resource, env!("CARGO_PKG_VERSION")));
            let outcome = self.deliver("/v1/traces", body, LAST_EXPORT_TIMEOUT).await;
            self.settle(queue, &batch, &outcome, true);
        }
    }

    /// Sends a batch until the collector has taken or refused it, or it is given up; true if shutdown came first.
    async fn export_batch(
        &self,
        queue: &TraceQueue,
        batch: &Batch<'_>,
        body: Bytes,
        shutdown: &mut watch::Receiver<()>,
    ) -> bool {
        for number in 1..=MAX_TRIES {
            let outcome = tokio::select! {
                biased;
                _ = shutdown.changed() => return true,
                outcome = self.deliver("/v1/traces", body.clone(), EXPORT_TIMEOUT) => outcome,
            };
            let wait = match &outcome {
                ExportOutcome::Retry(wait, _) if number < MAX_TRIES => {
                    wait.unwrap_or_else(|| Span::from_nanos(MIN_WAIT.as_nanos() << (number - 1)).min(MAX_WAIT))
                }
                _ => {
                    self.settle(queue, batch, &outcome, true);
                    return false;
                }
            };
            self.settle(queue, batch, &outcome, false);
            tokio::select! {
                biased;
                _ = shutdown.changed() => return true,
                () = tokio::time::sleep(wait.min(MAX_WAIT).as_duration()) => {}
            }
        }
        false
    }

    /// Counts what became of a batch, and lets the metrics point to its traces if a collector has them.
    fn settle(&self, queue: &TraceQueue, batch: &Batch<'_>, outcome: &ExportOutcome, is_final: bool) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.trace_exports.record(outcome);
        match outcome {
            ExportOutcome::Accepted | ExportOutcome::PartiallyAccepted(_) => {
                queue.count_exported(batch.spans);
                shared.stats.add_exemplars(batch.traces);
            }
            ExportOutcome::Rejected(_) => queue.count_failed(batch.spans),
            ExportOutcome::Retry(..) if is_final => queue.count_dropped(batch.spans),
            ExportOutcome::Retry(..) => {}
        }
    }
}

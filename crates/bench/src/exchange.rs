//! One request of a plan, measured.
//!
//! Invariant: what a worker sends and how it reads the answer depends on its job and the request's number alone.

use crate::audio::AudioTask;
use crate::batch::BatchCall;
use crate::job::Job;
use crate::plan::{Share, Start};
use crate::realtime::{Sessions, TurnTaker};
use bytes::Bytes;
use std::cell::RefCell;
use std::sync::Arc;
use tokrate_core::{EventBatch, EventKind, Tick};
use tokrate_meter::RequestTrace;
use tokrate_net::Client;
use tokrate_probe::Call;
use tokrate_wire::{ItemForm, Shape};

/// What all requests of a worker share.
pub(crate) struct WorkerContext {
    pub job: Arc<Job>,
    pub share: Share,
    pub client: Client,
    /// One event arena per worker: a batch is consumed before the next read is decoded.
    pub batch: RefCell<EventBatch>,
    /// Realtime sessions that are open.
    pub sessions: Sessions,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The plan's entry.
    pub start: Start,
    /// Size of the request's body.
    pub request_bytes: u64,
    /// Everything that was measured.
    pub trace: RequestTrace,
}

impl WorkerContext {
    /// Sends one request and measures its answer until it ends, fails, or `cancelled` completes.
    pub async fn execute(&self, start: &Start, body: Bytes, cancelled: impl Future<Output = ()>) -> RequestTrace {
        let job = &self.job;
        if let Some((ItemForm::Batch(form), requests)) = job.bodies.items
            && let Some(options) = job.bodies.options.batches.clone()
        {
            let call = BatchCall {
                client: &self.client,
                clock: job.clock,
                headers: job.headers.clone(),
                secrets: job.secrets.clone(),
                form,
                origin: &job.origin,
                path: &job.path,
                request_path: job.bodies.request_path(),
                requests: u64::from(requests),
                document: body,
                options,
                limits: job.net_limits(),
                due_at: start.due_at,
            };
            return call.carry_out(cancelled).await;
        }
        let options = &job.bodies.options;
        if let Some(AudioTask::Realtime(realtime)) = &options.audio {
            let on_events = &|batch: &EventBatch| job.progress.text(text_of(batch).0);
            let with = TurnTaker { job, client: &self.client, batch: &self.batch, on_events };
            return self.sessions.take_turn(with, realtime, start, &body, cancelled).await;
        }
        let call = Call {
            client: &self.client,
            path: job.path.clone(),
            headers: job.headers.clone(),
            id: format!("{}-{}", job.id_prefix, start.index),
            body,
            dialect: job.bodies.dialect,
            shape: if options.stream { Shape::Stream } else { Shape::Whole },
            items: job.bodies.items,
            audio: options.audio.as_ref().and_then(AudioTask::decoder),
            keep_unknown: options.keep_unknown,
            secrets: job.secrets.clone(),
            limits: job.net_limits(),
            due_at: start.due_at,
            clock: job.clock,
        };
        let arrivals = job.progress.arrivals(start.warmup || !options.stream);
        let on_events = |batch: &EventBatch, sent_at: Option<Tick>| {
            let (bytes, at) = text_of(batch);
            job.progress.text(bytes);
            arrivals.on(at, sent_at);
        };
        let mut trace = call.measure(&self.batch, cancelled, &on_events).await.trace;
        if let Some(stream) = &mut trace.timing.stream {
            // Each worker counts its own connections.
            stream.connection = stream.connection * u64::from(self.share.of) + u64::from(self.share.worker);
        }
        trace
    }
}

/// Bytes of the text of a read, and when the last of it came; of sound too few to be taken for its tokens, and enough to say that some came.
fn text_of(batch: &EventBatch) -> (usize, Option<Tick>) {
    let (mut bytes, mut at) = (0, None);
    for event in batch.events() {
        match event.kind {
            EventKind::Text { text, .. } => (bytes, at) = (bytes + text.len(), Some(event.at)),
            EventKind::Sound(_) => (bytes, at) = (bytes + 1, Some(event.at)),
            _ => {}
        }
    }
    (bytes, at)
}

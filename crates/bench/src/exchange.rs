//! One request of a plan, measured.
//!
//! Invariant: what a worker sends and how it reads the answer depends on its job and the request's number alone.

use crate::audio::AudioTask;
use crate::job::Job;
use crate::plan::Start;
use crate::realtime::{Sessions, TurnTaker};
use bytes::Bytes;
use std::cell::RefCell;
use std::sync::Arc;
use tokrate_core::{EventBatch, EventKind};
use tokrate_meter::RequestTrace;
use tokrate_net::Client;
use tokrate_probe::Call;
use tokrate_wire::Shape;

/// What all requests of a worker share.
pub(crate) struct WorkerContext {
    pub job: Arc<Job>,
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
        let options = &job.bodies.options;
        if let Some(AudioTask::Realtime(realtime)) = &options.audio {
            let on_events = &|batch: &EventBatch| job.progress.text(text_bytes(batch));
            let with = TurnTaker { job, client: &self.client, batch: &self.batch, on_events };
            return self.sessions.take_turn(with, realtime, start, &body, cancelled).await;
        }
        let (index, due_at) = (start.index, start.due_at);
        let call = Call {
            client: &self.client,
            path: job.path.clone(),
            headers: job.headers.clone(),
            id: format!("{}-{index}", job.id_prefix),
            body,
            dialect: job.bodies.dialect,
            shape: if options.stream { Shape::Stream } else { Shape::Whole },
            items: job.bodies.items,
            audio: options.audio.as_ref().and_then(AudioTask::decoder),
            keep_unknown: options.keep_unknown,
            secrets: job.secrets.clone(),
            limits: tokrate_net::Limits {
                idle: job.limits.idle,
                total: job.limits.total,
                max_body_bytes: job.limits.max_body_bytes,
            },
            due_at,
            clock: job.clock,
        };
        call.measure(&self.batch, cancelled, &|batch| job.progress.text(text_bytes(batch))).await.trace
    }
}

/// Bytes of the text of a read; of sound too little to be taken for its tokens, and enough to say that something came.
fn text_bytes(batch: &EventBatch) -> usize {
    let text = |kind: EventKind| match kind {
        EventKind::Text { text, .. } => text.len(),
        EventKind::Sound(_) => 1,
        _ => 0,
    };
    batch.events().iter().map(|event| text(event.kind)).sum()
}

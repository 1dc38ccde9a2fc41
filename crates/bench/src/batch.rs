//! One batch carried out: made, uploaded, begun, asked after, its results read and counted, and its files deleted.
//!
//! Invariant: whatever ends it, a batch that was begun and has not ended is cancelled, and files that were uploaded are deleted unless they
//! are to be kept. What could not be cancelled or deleted, or was left by a run that was killed, has a note.

mod notes;

pub use notes::{check_notes, left_by_batches};

use crate::config::BatchOptions;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use notes::{LeftAtServer, OpenNote};
use std::pin::pin;
use tokrate_core::{EventBatch, EventKind, FailureKind, Span, Tick, one_line};
use tokrate_meter::{BatchNumbers, Ending, GivenUpBatch, GivenUpEnd, RequestMeter, RequestTrace, Timing};
use tokrate_net::{Client, Clock, Limits, Outgoing, Secrets};
use tokrate_wire::batch_api::{self, BatchForm, BatchStage, BatchState};
use tokrate_wire::decode_error_response;

/// Time for cancelling and deleting, after the run was interrupted, and for what was just asked for to be answered before that.
const CLEANING: Span = Span::from_secs(10);
/// Answers that may fail one after another while a batch is asked after: it goes on without us.
const MAX_FAILED_POLLS: u32 = 10;

/// What is shown of the server's name for a batch, and of what cancels it.
const MAX_SHOWN_BYTES: usize = 300;

/// A batch that is to be measured.
pub(crate) struct BatchCall<'a> {
    pub client: &'a Client,
    pub clock: Clock,
    pub headers: HeaderMap,
    pub secrets: Secrets,
    pub form: BatchForm,
    /// Scheme, host and port of the server.
    pub origin: &'a str,
    /// Path of files (OpenAI) or of batches (Anthropic).
    pub path: &'a str,
    /// Where its requests would be sent alone, without the base.
    pub request_path: String,
    pub requests: u64,
    /// The file, or the body.
    pub document: Bytes,
    pub options: BatchOptions,
    pub limits: Limits,
    pub due_at: Tick,
}

/// Why a batch did not come to its end.
struct Failed {
    kind: FailureKind,
    message: String,
    retry_after: Option<Span>,
    /// The server has answered, or cannot have got what was asked of it.
    is_answered: bool,
}

/// How far it has come.
struct Progress {
    sent_at: Tick,
    first_answer_at: Option<Tick>,
    done_at: Option<Tick>,
    numbers: BatchNumbers,
    batch: Option<BatchState>,
    events: EventBatch,
    /// What is at the server.
    left: LeftAtServer,
    note: Option<OpenNote>,
    /// What became of it, once nothing is left to be cancelled.
    cancel_end: GivenUpEnd,
}

impl Progress {
    /// Notes what is at the server now. What stands in the note holds where it cannot be written any more.
    fn note(&mut self) {
        if let Some(note) = &mut self.note {
            let _ = note.update(&self.left);
        }
    }
}

impl BatchCall<'_> {
    /// Carries it out; ends early when `cancelled` completes.
    pub async fn carry_out(self, cancelled: impl Future<Output = ()>) -> RequestTrace {
        let mut progress = Progress {
            sent_at: self.clock.now(),
            first_answer_at: None,
            done_at: None,
            numbers: BatchNumbers {
                requests: self.requests,
                sent_bytes: self.document.len() as u64,
                ..BatchNumbers::default()
            },
            batch: None,
            events: EventBatch::new(),
            left: LeftAtServer::nothing(self.origin, self.form, self.clock.wall_rfc3339()),
            note: None,
            cancel_end: GivenUpEnd::Cancelled,
        };
        // Whether one can be kept was looked at before the run; where the disk is full by now the batch is measured all the same.
        let folder = self.options.notes.as_deref();
        progress.note = folder.and_then(|folder| OpenNote::create(folder, &progress.left).ok());
        let outcome = self.run(&mut progress, cancelled).await;
        let given_up = self.open_batch(&progress);
        // What is done for order's sake changes nothing that was measured.
        let _ = tokio::time::timeout(CLEANING.as_duration(), self.clean(&mut progress)).await;
        progress.numbers.left = progress.left.delete.len() as u64;
        progress.numbers.given_up = given_up.map(|(id, cancel)| GivenUpBatch {
            id,
            cancel,
            end: if progress.left.cancel.is_some() { GivenUpEnd::MayGoOn } else { progress.cancel_end },
        });
        if let Some(note) = progress.note.take() {
            note.close(&progress.left);
        }
        self.trace(progress, outcome)
    }

    async fn run(&self, progress: &mut Progress, cancelled: impl Future<Output = ()>) -> Result<(), Failed> {
        let total = self.limits.total;
        let mut cut_off = pin!(async {
            tokio::select! {
                biased;
                () = cancelled => Failed::of(FailureKind::Cancelled, "the run ended before the batch did"),
                () = tokio::time::sleep(total.as_duration()) => {
                    Failed::of(FailureKind::TimedOut, &format!("the batch had not ended after {total}; give more --timeout"))
                }
            }
        });
        let created_at = {
            let mut begun = pin!(self.begin(progress));
            tokio::select! {
                biased;
                begun = &mut begun => begun?,
                why = &mut cut_off => {
                    // Only what has a name can be cancelled.
                    let _ = tokio::time::timeout(CLEANING.as_duration(), begun).await;
                    return Err(why);
                }
            }
        };
        tokio::select! {
            biased;
            outcome = self.finish(progress, created_at) => outcome,
            why = cut_off => Err(why),
        }
    }

    /// Uploads and begins it; when it was begun.
    async fn begin(&self, progress: &mut Progress) -> Result<Tick, Failed> {
        progress.sent_at = self.clock.now();
        let begun = match self.form {
            BatchForm::OpenAi => {
                // No JSON holds such a text unescaped at the beginning of a line.
                let (body, content_type) = batch_api::upload(&self.document, "tokrate-batch-7MA4YWxkTrZu0gW");
                let path = self.path.to_owned();
                let answer = self.make(progress, path, &content_type, Bytes::from(body)).await?;
                let file = batch_api::id_of(&answer).map_err(Failed::unread)?;
                progress.first_answer_at = Some(self.clock.now());
                progress.left.delete.push(format!("{}/{file}", self.path));
                let body = Bytes::from(batch_api::create(&file, &self.request_path));
                self.make(progress, self.batches(), "application/json", body).await?
            }
            BatchForm::Anthropic => {
                self.make(progress, self.batches(), "application/json", self.document.clone()).await?
            }
        };
        let created_at = self.clock.now();
        progress.first_answer_at.get_or_insert(created_at);
        progress.numbers.begun_ns = (created_at - progress.sent_at).as_nanos();
        let state = batch_api::state(self.form, &begun).map_err(Failed::unread)?;
        progress.left.cancel = Some(format!("{}/{}/cancel", self.batches(), state.id));
        progress.note();
        self.keep_state(progress, state);
        Ok(created_at)
    }

    /// What the server says of the batch; one that has ended cannot be cancelled, and has results.
    fn keep_state(&self, progress: &mut Progress, state: BatchState) {
        if state.stage != BatchStage::Open {
            progress.left.cancel = None;
            match self.form {
                BatchForm::OpenAi => {
                    progress.left.delete.extend(state.files.iter().map(|file| format!("{}/{file}", self.path)));
                }
                // One that goes on cannot be deleted.
                BatchForm::Anthropic => progress.left.delete.push(format!("{}/{}", self.batches(), state.id)),
            }
            progress.note();
        }
        progress.batch = Some(state);
    }

    async fn finish(&self, progress: &mut Progress, created_at: Tick) -> Result<(), Failed> {
        let state = self.wait(progress, created_at).await?;
        let files = self.results(&state).await?;
        let read_at = self.clock.now();
        let done_at = progress.done_at.unwrap_or(read_at);
        progress.numbers.read_ns = (read_at - done_at).as_nanos();
        progress.numbers.received_bytes = files.iter().map(|file| file.len() as u64).sum();
        let found = batch_api::results(self.requests, &files);
        let numbers = &mut progress.numbers;
        (numbers.succeeded, numbers.failed) = (found.succeeded, found.failed);
        (numbers.missing, numbers.unknown) = (found.missing, found.unknown);
        progress.events.push(done_at, EventKind::Usage(found.usage));
        progress.events.push(done_at, EventKind::Items(u32::try_from(found.succeeded).unwrap_or(u32::MAX)));
        if found.missing > 0 {
            let why = format!("the results hold {} of {} requests", self.requests - found.missing, self.requests);
            return Err(Failed::of(FailureKind::Truncated, &why));
        }
        progress.events.push(done_at, EventKind::Done);
        Ok(())
    }

    /// Asks until it has ended. Between two answers it may have ended any time: how long that is stands beside the time.
    async fn wait(&self, progress: &mut Progress, created_at: Tick) -> Result<BatchState, Failed> {
        let mut asked_at = created_at;
        let mut failed = 0;
        loop {
            let state =
                progress.batch.clone().ok_or_else(|| Failed::of(FailureKind::Protocol, "no batch was begun"))?;
            match &state.stage {
                BatchStage::Open => {}
                BatchStage::Ended => {
                    progress.done_at.get_or_insert(created_at);
                    progress.numbers.server_seconds = state.server_seconds;
                    return Ok(state);
                }
                BatchStage::Failed(why) => return Err(Failed::of(FailureKind::ServerError, why)),
            }
            tokio::time::sleep(self.options.poll.as_duration()).await;
            let now = self.clock.now();
            progress.numbers.polls += 1;
            match self.ask_after(&state).await {
                Ok(answer) => {
                    let state = batch_api::state(self.form, &answer).map_err(Failed::unread)?;
                    if state.stage != BatchStage::Open {
                        let answered_at = self.clock.now();
                        progress.done_at = Some(answered_at);
                        progress.numbers.late_at_most_ns = (answered_at - asked_at).as_nanos();
                    }
                    self.keep_state(progress, state);
                    (asked_at, failed) = (now, 0);
                }
                Err(why) => {
                    failed += 1;
                    if failed > MAX_FAILED_POLLS {
                        return Err(why);
                    }
                }
            }
        }
    }

    async fn results(&self, state: &BatchState) -> Result<Vec<Vec<u8>>, Failed> {
        let paths: Vec<String> = match self.form {
            BatchForm::OpenAi => state.files.iter().map(|file| format!("{}/{file}/content", self.path)).collect(),
            BatchForm::Anthropic => vec![format!("{}/{}/results", self.batches(), state.id)],
        };
        let mut files = Vec::new();
        for path in paths {
            files.push(self.call(Method::GET, path, "", Bytes::new()).await?);
        }
        Ok(files)
    }

    /// Name of the batch and what cancels it, if it goes on at the server. Both are the server's words.
    fn open_batch(&self, progress: &Progress) -> Option<(String, String)> {
        let path = progress.left.cancel.as_ref()?;
        let id = &progress.batch.as_ref()?.id;
        let clean = |text: &str| one_line(&self.secrets.redacted(text.to_owned()), MAX_SHOWN_BYTES);
        Some((clean(id), clean(&format!("POST {}{path}", self.origin))))
    }

    /// Cancels what goes on and deletes what is not to be kept; what did not succeed stays among what is left.
    async fn clean(&self, progress: &mut Progress) {
        if let Some(path) = progress.left.cancel.clone() {
            let cancelled = self.call(Method::POST, path, "application/json", Bytes::new()).await;
            // It may have ended since it was asked after.
            if cancelled.is_ok() {
                progress.left.cancel = None;
            } else if self.has_ended(progress).await {
                (progress.left.cancel, progress.cancel_end) = (None, GivenUpEnd::Ended);
            }
        }
        let paths = std::mem::take(&mut progress.left.delete);
        if self.options.keep {
            return;
        }
        progress.left.delete.clone_from(&paths);
        for path in paths {
            let deleted = self.call(Method::DELETE, path.clone(), "", Bytes::new()).await;
            if deleted.is_ok() {
                progress.left.delete.retain(|left| *left != path);
            }
        }
    }

    /// What the server says of a batch.
    async fn ask_after(&self, state: &BatchState) -> Result<Vec<u8>, Failed> {
        self.call(Method::GET, format!("{}/{}", self.batches(), state.id), "", Bytes::new()).await
    }

    async fn has_ended(&self, progress: &Progress) -> bool {
        let Some(state) = &progress.batch else { return false };
        let state = self.ask_after(state).await.ok().and_then(|answer| batch_api::state(self.form, &answer).ok());
        state.is_some_and(|state| state.stage != BatchStage::Open)
    }

    /// Path of batches.
    fn batches(&self) -> String {
        match self.form {
            BatchForm::OpenAi => format!("{}/batches", self.path.strip_suffix("/files").unwrap_or(self.path)),
            BatchForm::Anthropic => self.path.to_owned(),
        }
    }

    /// A call that makes something at the server.
    async fn make(
        &self,
        progress: &mut Progress,
        path: String,
        content_type: &str,
        body: Bytes,
    ) -> Result<Vec<u8>, Failed> {
        progress.left.is_unsure = true;
        progress.note();
        let answer = self.call(Method::POST, path, content_type, body).await;
        progress.left.is_unsure = answer.as_ref().is_err_and(|failed| !failed.is_answered);
        answer
    }

    /// One call; an error status is a failure.
    async fn call(&self, method: Method, path: String, content_type: &str, body: Bytes) -> Result<Vec<u8>, Failed> {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        if let Some(value) = HeaderValue::from_str(content_type).ok().filter(|value| !value.is_empty()) {
            headers.insert(CONTENT_TYPE, value);
        }
        let outgoing = Outgoing { method, path, headers, body };
        let answered = self.client.whole(outgoing, self.limits).await;
        let answer = answered.map_err(|failure| Failed {
            is_answered: was_never_sent(failure.kind),
            ..Failed::of(failure.kind, &self.secrets.redacted(failure.detail))
        })?;
        let status = answer.head.status;
        if status.is_success() {
            return Ok(answer.body);
        }
        let refusal = decode_error_response(
            status.as_u16(),
            &answer.head.text_headers(),
            &answer.body,
            Some(self.clock.wall_seconds()),
        );
        let words = if refusal.message.is_empty() { String::new() } else { format!(": {}", refusal.message) };
        let message = self.secrets.redacted(format!("HTTP {}{words}", status.as_u16()));
        Err(Failed { kind: refusal.kind, message, retry_after: refusal.retry_after, is_answered: true })
    }

    fn trace(&self, progress: Progress, outcome: Result<(), Failed>) -> RequestTrace {
        let mut meter = RequestMeter::new();
        meter.on(&progress.events);
        let ended_at = progress.done_at.unwrap_or_else(|| self.clock.now());
        let timing = Timing {
            due_at: self.due_at,
            sent_at: Some(progress.sent_at),
            first_byte_at: progress.first_answer_at,
            ended_at,
            ..Timing::default()
        };
        let ending = match outcome {
            Ok(()) => Ending::Complete,
            Err(Failed { kind, message, retry_after, .. }) => Ending::Failed { kind, message, retry_after },
        };
        let mut trace = meter.finish(timing, ending);
        trace.batch = Some(Box::new(progress.numbers));
        trace
    }
}

impl Failed {
    fn of(kind: FailureKind, message: &str) -> Failed {
        Failed { kind, message: message.to_owned(), retry_after: None, is_answered: true }
    }

    /// An answer that is not what was asked for.
    fn unread(why: String) -> Failed {
        Failed { kind: FailureKind::NotJson, message: why, retry_after: None, is_answered: true }
    }
}

/// Whether an exchange failed before anything of the request reached the server.
fn was_never_sent(kind: FailureKind) -> bool {
    use FailureKind::{Connect, ConnectTimeout, Dns, Proxy, Tls};
    matches!(kind, Dns | Connect | ConnectTimeout | Tls | Proxy)
}

#[cfg(test)]
mod tests;

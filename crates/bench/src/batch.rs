//! One batch carried out: made, uploaded, begun, asked after, its results read and counted, and its files deleted.
//!
//! Invariant: whatever ends it, a batch that was begun and has not ended is cancelled, and files that were uploaded are deleted unless they
//! are to be kept.

use crate::config::BatchOptions;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use tokrate_core::{EventBatch, EventKind, FailureKind, Span, Tick};
use tokrate_meter::{BatchNumbers, Ending, RequestMeter, RequestTrace, Timing};
use tokrate_net::{Client, Clock, Limits, Outgoing, Secrets};
use tokrate_wire::batch_api::{self, BatchForm, BatchStage, BatchState};
use tokrate_wire::decode_error_response;

/// Time for cancelling and deleting, after the run was interrupted.
const CLEANING: Span = Span::from_secs(10);
/// Answers that may fail one after another while a batch is asked after: it goes on without us.
const MAX_FAILED_POLLS: u32 = 10;

/// A batch that is to be measured.
pub(crate) struct BatchCall<'a> {
    pub client: &'a Client,
    pub clock: Clock,
    pub headers: HeaderMap,
    pub secrets: Secrets,
    pub form: BatchForm,
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
}

/// How far it has come.
struct Progress {
    sent_at: Tick,
    first_answer_at: Option<Tick>,
    done_at: Option<Tick>,
    numbers: BatchNumbers,
    /// The uploaded file.
    file: Option<String>,
    batch: Option<BatchState>,
    events: EventBatch,
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
            file: None,
            batch: None,
            events: EventBatch::new(),
        };
        let total = self.limits.total.as_duration();
        let outcome = tokio::select! {
            biased;
            outcome = self.run(&mut progress) => outcome,
            () = cancelled => Err(Failed::of(FailureKind::Cancelled, "the run ended before the batch did")),
            () = tokio::time::sleep(total) => {
                Err(Failed::of(FailureKind::TimedOut, &format!("the batch had not ended after {}; give more --timeout", self.limits.total)))
            }
        };
        // What is done for order's sake changes nothing that was measured.
        let _ = tokio::time::timeout(CLEANING.as_duration(), self.clean(&mut progress)).await;
        self.trace(progress, outcome)
    }

    async fn run(&self, progress: &mut Progress) -> Result<(), Failed> {
        progress.sent_at = self.clock.now();
        let begun = match self.form {
            BatchForm::OpenAi => {
                // No JSON holds such a text unescaped at the beginning of a line.
                let (body, content_type) = batch_api::upload(&self.document, "tokrate-batch-7MA4YWxkTrZu0gW");
                let answer = self.call(Method::POST, self.path.to_owned(), &content_type, Bytes::from(body)).await?;
                let file = batch_api::id_of(&answer).map_err(Failed::unread)?;
                progress.first_answer_at = Some(self.clock.now());
                let body = Bytes::from(batch_api::create(&file, &self.request_path));
                progress.file = Some(file);
                self.call(Method::POST, self.batches(), "application/json", body).await?
            }
            BatchForm::Anthropic => {
                self.call(Method::POST, self.batches(), "application/json", self.document.clone()).await?
            }
        };
        let created_at = self.clock.now();
        progress.first_answer_at.get_or_insert(created_at);
        progress.numbers.begun_ns = (created_at - progress.sent_at).as_nanos();
        progress.batch = Some(batch_api::state(self.form, &begun).map_err(Failed::unread)?);
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
            let path = format!("{}/{}", self.batches(), state.id);
            match self.call(Method::GET, path, "", Bytes::new()).await {
                Ok(answer) => {
                    let state = batch_api::state(self.form, &answer).map_err(Failed::unread)?;
                    if state.stage != BatchStage::Open {
                        let answered_at = self.clock.now();
                        progress.done_at = Some(answered_at);
                        progress.numbers.late_at_most_ns = (answered_at - asked_at).as_nanos();
                    }
                    (progress.batch, asked_at, failed) = (Some(state), now, 0);
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

    /// Cancels what goes on and deletes what is not to be kept; that it did not succeed is not told.
    async fn clean(&self, progress: &mut Progress) {
        if let Some(state) = progress.batch.as_ref().filter(|_| progress.done_at.is_none()) {
            let path = format!("{}/{}/cancel", self.batches(), state.id);
            let _ = self.call(Method::POST, path, "application/json", Bytes::new()).await;
        }
        if self.options.keep {
            return;
        }
        let state = progress.batch.as_ref();
        let paths: Vec<String> = match self.form {
            BatchForm::OpenAi => {
                let results = state.map(|state| state.files.clone()).unwrap_or_default();
                progress.file.iter().cloned().chain(results).map(|file| format!("{}/{file}", self.path)).collect()
            }
            // One that goes on cannot be deleted.
            BatchForm::Anthropic => {
                let ended = state.filter(|_| progress.done_at.is_some());
                ended.map(|state| format!("{}/{}", self.batches(), state.id)).into_iter().collect()
            }
        };
        let mut deleted = 0;
        for path in &paths {
            deleted += u64::from(self.call(Method::DELETE, path.clone(), "", Bytes::new()).await.is_ok());
        }
        progress.numbers.left = paths.len() as u64 - deleted;
    }

    /// Path of batches.
    fn batches(&self) -> String {
        match self.form {
            BatchForm::OpenAi => format!("{}/batches", self.path.strip_suffix("/files").unwrap_or(self.path)),
            BatchForm::Anthropic => self.path.to_owned(),
        }
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
        let answer = answered.map_err(|failure| Failed::of(failure.kind, &self.secrets.redacted(failure.detail)))?;
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
        Err(Failed { kind: refusal.kind, message, retry_after: refusal.retry_after })
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
            Err(Failed { kind, message, retry_after }) => Ending::Failed { kind, message, retry_after },
        };
        let mut trace = meter.finish(timing, ending);
        trace.batch = Some(Box::new(progress.numbers));
        trace
    }
}

impl Failed {
    fn of(kind: FailureKind, message: &str) -> Failed {
        Failed { kind, message: message.to_owned(), retry_after: None }
    }

    /// An answer that is not what was asked for.
    fn unread(why: String) -> Failed {
        Failed { kind: FailureKind::NotJson, message: why, retry_after: None }
    }
}

//! Batches, as OpenAI and Anthropic have them: the engine answers the requests of a file as it has room, and keeps the results.
//!
//! Each request counts against the engine's law as one that came alone, as many at once as it has slots. Invariant: every request of a batch
//! that has ended has one result; the truth log holds each of them under the batch's identifier and its own.

use super::{ErrorResponse, Routes, with_type};
use crate::body::AnswerBody;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use tokrate_core::rfc3339;
use tokrate_net::server::{BufferedBody, RequestBody};
use tokrate_wire::batch_api::{self, BatchForm};
use tokrate_wire::{Dialect, encode_error_response};

/// Most requests of a batch: Anthropic's limit; OpenAI's is half of it.
const MAX_REQUESTS: usize = 100_000;
/// Most files and batches that are kept.
const MAX_KEPT: usize = 1_000;
/// Most requests of a batch that run at once, however many slots the engine has.
const MAX_AT_ONCE: usize = 1_000;
const MESSAGES: &str = "/v1/messages";

/// Files and batches of a host.
#[derive(Default)]
pub(crate) struct BatchStore {
    /// Number of the next file or batch.
    next: u64,
    files: HashMap<String, Bytes>,
    batches: HashMap<String, Rc<RefCell<Batch>>>,
}

/// One batch.
struct Batch {
    id: String,
    form: BatchForm,
    /// Where its requests would be sent alone.
    endpoint: String,
    input_file: String,
    total: usize,
    waiting: VecDeque<(String, Bytes)>,
    running: usize,
    results: Vec<u8>,
    errors: Vec<u8>,
    succeeded: usize,
    failed: usize,
    is_cancelled: bool,
    created_s: u64,
    ended_s: Option<u64>,
    /// Files of results: answers, and errors.
    files: [Option<String>; 2],
}

/// What a path means.
enum Place<'a> {
    Files,
    File(&'a str),
    Content(&'a str),
    Batches(BatchForm),
    Batch(&'a str),
    Cancel(&'a str),
    Results(&'a str),
}

/// Whether a path is one of files or batches.
pub(super) fn is_path(path: &str) -> bool {
    place(path).is_some()
}

fn place(path: &str) -> Option<Place<'_>> {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let (form, rest) = if let Some(rest) = path.strip_prefix("/files") {
        return match rest.strip_prefix('/') {
            None => rest.is_empty().then_some(Place::Files),
            Some(rest) => Some(match rest.strip_suffix("/content") {
                Some(id) => Place::Content(id),
                None => Place::File(rest),
            }),
        };
    } else if let Some(rest) = path.strip_prefix("/batches") {
        (BatchForm::OpenAi, rest)
    } else {
        (BatchForm::Anthropic, path.strip_prefix("/messages/batches")?)
    };
    match rest.strip_prefix('/') {
        None => rest.is_empty().then_some(Place::Batches(form)),
        Some(rest) => Some(match rest.rsplit_once('/') {
            Some((id, "cancel")) => Place::Cancel(id),
            Some((id, "results")) => Place::Results(id),
            _ => Place::Batch(rest),
        }),
    }
}

impl Routes {
    pub(super) async fn batches(
        self: &Rc<Self>,
        head: &Parts,
        body: RequestBody,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        self.check_key(head)?;
        let wrong = || ErrorResponse(StatusCode::NOT_FOUND, format!("there is no {}", head.uri.path()));
        let place = place(head.uri.path()).ok_or_else(wrong)?;
        let store = &self.shared.batches;
        let known = |id: &str| {
            let missing = || ErrorResponse(StatusCode::NOT_FOUND, format!("there is no batch `{id}`"));
            store.borrow().batches.get(id).cloned().ok_or_else(missing)
        };
        let is = |method: Method| head.method == method;
        match place {
            Place::Files | Place::File(_) | Place::Content(_) => self.files(place, head, body).await,
            Place::Batches(form) if is(Method::POST) => {
                let BufferedBody { bytes, share: _share } = self.read_body(body).await?;
                let batch = self.begin(form, head, &bytes)?;
                let answer = batch.borrow().object();
                Ok(document(&answer))
            }
            Place::Batch(id) if is(Method::GET) => Ok(document(&known(id)?.borrow().object())),
            Place::Batch(id) if is(Method::DELETE) => {
                let batch = known(id)?;
                if batch.borrow().ended_s.is_none() {
                    return Err(bad("the batch goes on; cancel it first"));
                }
                store.borrow_mut().batches.remove(id);
                Ok(document(&json!({"id": id, "type": "message_batch_deleted"})))
            }
            Place::Cancel(id) if is(Method::POST) => {
                let batch = known(id)?;
                batch.borrow_mut().is_cancelled = true;
                let answer = batch.borrow().object();
                Ok(document(&answer))
            }
            Place::Results(id) if is(Method::GET) => {
                let batch = known(id)?;
                let batch = batch.borrow();
                if batch.ended_s.is_none() {
                    return Err(bad("the batch goes on; it has no results yet"));
                }
                Ok(lines(Bytes::from([&batch.results[..], &batch.errors].concat())))
            }
            _ => Err(no_method(head)),
        }
    }

    async fn files(
        &self,
        place: Place<'_>,
        head: &Parts,
        body: RequestBody,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        let store = &self.shared.batches;
        let is = |method: Method| head.method == method;
        match place {
            Place::Files if is(Method::POST) => {
                let BufferedBody { bytes, share: _share } = self.read_body(body).await?;
                let content_type =
                    head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let file = batch_api::uploaded(&bytes, content_type);
                let file = file.ok_or_else(|| bad("the body holds no part `file` of a form"))?;
                let size = file.len();
                let id = store.borrow_mut().keep(Bytes::copy_from_slice(file))?;
                Ok(document(
                    &json!({"id": id, "object": "file", "bytes": size, "filename": "batch.jsonl", "purpose": "batch"}),
                ))
            }
            Place::File(id) if is(Method::DELETE) => {
                let deleted = store.borrow_mut().files.remove(id).is_some();
                if deleted {
                    Ok(document(&json!({"id": id, "object": "file", "deleted": true})))
                } else {
                    Err(no_file(id))
                }
            }
            Place::File(id) | Place::Content(id) if is(Method::GET) => {
                let file = store.borrow().files.get(id).cloned().ok_or_else(|| no_file(id))?;
                match place {
                    Place::Content(_) => Ok(lines(file)),
                    _ => Ok(document(&json!({"id": id, "object": "file", "bytes": file.len(), "purpose": "batch"}))),
                }
            }
            _ => Err(no_method(head)),
        }
    }

    /// Begins a batch: as many of its requests as the engine has slots go to it at once.
    fn begin(self: &Rc<Self>, form: BatchForm, head: &Parts, body: &[u8]) -> Result<Rc<RefCell<Batch>>, ErrorResponse> {
        let asked: Value =
            serde_json::from_slice(body).map_err(|error| bad(&format!("failed to read the body: {error}")))?;
        let (endpoint, input_file, waiting) = match form {
            BatchForm::Anthropic => (MESSAGES.to_owned(), String::new(), listed(&asked)?),
            BatchForm::OpenAi => {
                let text = |name: &str| {
                    asked.get(name).and_then(Value::as_str).ok_or_else(|| bad(&format!("`{name}` is missing")))
                };
                let (id, endpoint) = (text("input_file_id")?, text("endpoint")?);
                let file = self.shared.batches.borrow().files.get(id).cloned().ok_or_else(|| no_file(id))?;
                (endpoint.to_owned(), id.to_owned(), in_file(&file)?)
            }
        };
        if waiting.is_empty() || waiting.len() > MAX_REQUESTS {
            return Err(bad(&format!("a batch has from 1 to {MAX_REQUESTS} requests, not {}", waiting.len())));
        }
        if Dialect::of_path(&endpoint).is_none() {
            return Err(bad(&format!("`endpoint` is a path such as /v1/chat/completions, not `{endpoint}`")));
        }
        let slots = self.provider_index.map_or(1, |index| self.shared.providers[index].provider.persona.law.slots);
        let workers = waiting.len().min(MAX_AT_ONCE).min(slots as usize).max(1);
        let mut store = self.shared.batches.borrow_mut();
        store.make_room()?;
        let id = store.number(if form == BatchForm::OpenAi { "batch_" } else { "msgbatch_" });
        let batch = Rc::new(RefCell::new(Batch {
            id: id.clone(),
            form,
            endpoint,
            input_file,
            total: waiting.len(),
            waiting,
            running: workers,
            results: Vec::new(),
            errors: Vec::new(),
            succeeded: 0,
            failed: 0,
            is_cancelled: false,
            created_s: self.shared.clock.wall_seconds(),
            ended_s: None,
            files: [None, None],
        }));
        store.batches.insert(id, Rc::clone(&batch));
        drop(store);
        for _ in 0..workers {
            let (routes, batch, head) = (Rc::clone(self), Rc::clone(&batch), head.clone());
            tokio::task::spawn_local(async move { routes.work(&batch, &head).await });
        }
        Ok(batch)
    }

    /// Answers one request after another until none waits; whoever is last ends the batch.
    async fn work(&self, batch: &Rc<RefCell<Batch>>, head: &Parts) {
        loop {
            let next = {
                let mut batch = batch.borrow_mut();
                if batch.is_cancelled { None } else { batch.waiting.pop_front() }
            };
            let Some((id, body)) = next else { break };
            let (endpoint, name) = {
                let batch = batch.borrow();
                (batch.endpoint.clone(), format!("{}:{id}", batch.id))
            };
            let Some(routed) = Dialect::of_path(&endpoint) else { break };
            let answered = self.answer_alone(&routed, head, body, name).await;
            let dialect = routed.dialect;
            batch.borrow_mut().add(
                &id,
                answered.map_err(|ErrorResponse(status, message)| {
                    (status.as_u16(), encode_error_response(dialect, status.as_u16(), &message))
                }),
            );
        }
        let mut batch = batch.borrow_mut();
        batch.running -= 1;
        if batch.running == 0 {
            batch.ended_s = Some(self.shared.clock.wall_seconds());
            if batch.form == BatchForm::OpenAi {
                let mut store = self.shared.batches.borrow_mut();
                let files =
                    [&batch.results, &batch.errors].map(|file| (!file.is_empty()).then(|| Bytes::from(file.clone())));
                // Results that there is no room for are lost, as files of others are when they are deleted.
                batch.files = files.map(|file| store.keep(file?).ok());
            }
        }
    }
}

impl BatchStore {
    fn number(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    fn make_room(&self) -> Result<(), ErrorResponse> {
        match self.files.len().max(self.batches.len()) < MAX_KEPT {
            true => Ok(()),
            false => Err(bad(&format!("{MAX_KEPT} files or batches are kept; delete some"))),
        }
    }

    fn keep(&mut self, file: Bytes) -> Result<String, ErrorResponse> {
        self.make_room()?;
        let id = self.number("file-");
        self.files.insert(id.clone(), file);
        Ok(id)
    }
}

impl Batch {
    /// Adds the result of a request.
    fn add(&mut self, id: &str, answered: Result<Bytes, (u16, Vec<u8>)>) {
        let is_answer = answered.is_ok();
        let (status, body) = answered.map_or_else(|error| error, |body| (200, body.to_vec()));
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let line = match self.form {
            BatchForm::OpenAi => json!({
                "id": format!("batch_req_{id}"), "custom_id": id,
                "response": {"status_code": status, "request_id": id, "body": body}, "error": null,
            }),
            BatchForm::Anthropic if is_answer => {
                json!({"custom_id": id, "result": {"type": "succeeded", "message": body}})
            }
            BatchForm::Anthropic => json!({"custom_id": id, "result": {"type": "errored", "error": body}}),
        };
        let file = if is_answer { &mut self.results } else { &mut self.errors };
        file.extend_from_slice(line.to_string().as_bytes());
        file.push(b'\n');
        if is_answer { self.succeeded += 1 } else { self.failed += 1 }
    }

    /// What is said of it.
    fn object(&self) -> Value {
        let left = self.total - self.succeeded - self.failed;
        if self.form == BatchForm::Anthropic {
            let status = match self.ended_s {
                Some(_) => "ended",
                None if self.is_cancelled => "canceling",
                None => "in_progress",
            };
            let (processing, canceled) = if self.ended_s.is_some() { (0, left) } else { (left, 0) };
            return json!({
                "id": self.id, "type": "message_batch", "processing_status": status,
                "request_counts": {"processing": processing, "succeeded": self.succeeded, "errored": self.failed, "canceled": canceled, "expired": 0},
                "created_at": rfc3339(self.created_s), "ended_at": self.ended_s.map(rfc3339),
                "results_url": self.ended_s.map(|_| format!("{MESSAGES}/batches/{}/results", self.id)),
            });
        }
        let status = match (self.ended_s, self.is_cancelled) {
            (Some(_), false) => "completed",
            (Some(_), true) => "cancelled",
            (None, true) => "cancelling",
            (None, false) => "in_progress",
        };
        let ended_at = |is: bool| self.ended_s.filter(|_| is);
        json!({
            "id": self.id, "object": "batch", "endpoint": self.endpoint, "input_file_id": self.input_file,
            "completion_window": "24h", "status": status, "created_at": self.created_s, "in_progress_at": self.created_s,
            "completed_at": ended_at(!self.is_cancelled), "cancelled_at": ended_at(self.is_cancelled),
            "output_file_id": self.files[0], "error_file_id": self.files[1],
            "request_counts": {"total": self.total, "completed": self.succeeded, "failed": self.failed},
        })
    }
}

/// The requests of a file.
fn in_file(file: &[u8]) -> Result<VecDeque<(String, Bytes)>, ErrorResponse> {
    let lines = file.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.enumerate().map(|(place, line)| request(serde_json::from_slice(line).ok().as_ref(), "body", place)).collect()
}

/// The requests of a body.
fn listed(asked: &Value) -> Result<VecDeque<(String, Bytes)>, ErrorResponse> {
    let list = asked.get("requests").and_then(Value::as_array).ok_or_else(|| bad("`requests` is missing"))?;
    list.iter().enumerate().map(|(place, entry)| request(Some(entry), "params", place)).collect()
}

fn request(entry: Option<&Value>, field: &str, place: usize) -> Result<(String, Bytes), ErrorResponse> {
    let id = entry.and_then(|entry| entry.get("custom_id")).and_then(Value::as_str);
    let body = entry.and_then(|entry| entry.get(field)).filter(|body| body.is_object());
    let both = id.zip(body).map(|(id, body)| (id.to_owned(), Bytes::from(body.to_string())));
    both.ok_or_else(|| bad(&format!("request {} has no `custom_id` or no `{field}`", place + 1)))
}

fn no_method(head: &Parts) -> ErrorResponse {
    let message = format!("this method is not allowed for {}", head.uri.path());
    ErrorResponse(StatusCode::METHOD_NOT_ALLOWED, message)
}

fn bad(message: &str) -> ErrorResponse {
    ErrorResponse(StatusCode::BAD_REQUEST, message.to_owned())
}

fn no_file(id: &str) -> ErrorResponse {
    ErrorResponse(StatusCode::NOT_FOUND, format!("there is no file `{id}`"))
}

fn document(value: &Value) -> Response<AnswerBody> {
    with_type("application/json", AnswerBody::Plain(Some(Bytes::from(value.to_string()))))
}

fn lines(file: Bytes) -> Response<AnswerBody> {
    with_type("application/x-jsonlines", AnswerBody::Plain(Some(file)))
}

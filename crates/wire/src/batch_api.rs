//! Batches: many requests in one file that a server answers when it has time. OpenAI's `/files` and `/batches`, and Anthropic's
//! `/messages/batches`.
//!
//! What is sent and what answers mean; when to ask is for whoever drives it. Invariant: every request has an identifier of its own, and each
//! result is counted for one request, once.

use crate::dialect::Dialect;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use tokrate_core::Usage;

/// Beginning of the identifiers of a batch's requests; the number of the request follows.
const ID_PREFIX: &str = "request-";
/// How long an OpenAI batch may take: the only time that can be asked for.
const WINDOW: &str = "24h";

/// Whose batches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BatchForm {
    /// OpenAI's: a file is uploaded, and results are files.
    OpenAi,
    /// Anthropic's: the requests are the body, and results have a path.
    Anthropic,
}

/// Where a batch stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchState {
    /// Its identifier.
    pub id: String,
    /// Whether it goes on.
    pub stage: BatchStage,
    /// Identifiers of the files with its results (OpenAI): answers, then errors. Empty of Anthropic's.
    pub files: Vec<String>,
    /// How long it took by the server's own clock (s), once it has ended and where the server says it.
    pub server_seconds: Option<u64>,
}

/// Whether a batch goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchStage {
    /// It does.
    Open,
    /// It has ended, and has results.
    Ended,
    /// It ended without results, and why.
    Failed(String),
}

/// What the results of a batch hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchResults {
    /// Requests that were answered.
    pub succeeded: u64,
    /// Requests whose result is an error.
    pub failed: u64,
    /// Requests without a result.
    pub missing: u64,
    /// Results that are of no request, or of one that has a result already.
    pub unknown: u64,
    /// Tokens of all answers.
    pub usage: Usage,
}

impl BatchForm {
    /// The form that servers of a dialect have; `None` if they have none.
    pub fn of(dialect: Dialect) -> Option<BatchForm> {
        match dialect {
            Dialect::Anthropic => Some(BatchForm::Anthropic),
            Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::OpenAiCompletions => Some(BatchForm::OpenAi),
            _ => None,
        }
    }

    /// One request of a batch: a line of the file, or an element of the list. `path` is where it would be sent alone.
    pub fn entry(self, number: u64, path: &str, body: &[u8], out: &mut Vec<u8>) {
        let id = format!("{ID_PREFIX}{number}");
        let (begin, end) = match self {
            BatchForm::OpenAi => {
                (format!(r#"{{"custom_id":"{id}","method":"POST","url":{},"body":"#, json!(path)), "}\n")
            }
            BatchForm::Anthropic => (format!(r#"{{"custom_id":"{id}","params":"#), "}"),
        };
        out.extend_from_slice(begin.as_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(end.as_bytes());
    }

    /// All requests as one document, given their entries: the file, or the body.
    pub fn document(self, entries: &[Vec<u8>]) -> Vec<u8> {
        match self {
            BatchForm::OpenAi => entries.concat(),
            BatchForm::Anthropic => [&br#"{"requests":["#[..], &entries.join(&b","[..]), b"]}"].concat(),
        }
    }
}

/// The body that uploads a file for a batch, and its content type. `boundary` must not occur in the file.
pub fn upload(file: &[u8], boundary: &str) -> (Vec<u8>, String) {
    let head = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"tokrate.jsonl\"\r\ncontent-type: application/jsonl\r\n\r\n"
    );
    let body = [head.as_bytes(), file, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
    (body, format!("multipart/form-data; boundary={boundary}"))
}

/// The file in a body as [`upload`] makes one, given its content type; `None` of what is none.
pub fn uploaded<'a>(body: &'a [u8], content_type: &str) -> Option<&'a [u8]> {
    let boundary = content_type.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?.trim_matches('"');
    let delimiter = format!("--{boundary}");
    let mut rest = body;
    while let Some(at) = memchr::memmem::find(rest, delimiter.as_bytes()) {
        rest = &rest[at + delimiter.len()..];
        let head_end = memchr::memmem::find(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&rest[..head_end]).to_ascii_lowercase();
        let content = &rest[head_end + 4..];
        if head.contains("name=\"file\"") || head.contains("filename=") {
            let end = memchr::memmem::find(content, format!("\r\n{delimiter}").as_bytes())?;
            return Some(&content[..end]);
        }
    }
    None
}

/// The body that begins a batch of an uploaded file (OpenAI).
pub fn create(file: &str, path: &str) -> Vec<u8> {
    json!({"input_file_id": file, "endpoint": path, "completion_window": WINDOW}).to_string().into_bytes()
}

/// The identifier of what an answer is about.
///
/// # Errors
/// That the answer has none, with its beginning.
pub fn id_of(body: &[u8]) -> Result<String, String> {
    let value = serde_json::from_slice::<Value>(body).ok();
    let id = value.as_ref().and_then(|value| value.get("id")).and_then(Value::as_str).filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| "the answer holds no `id`".to_owned())
}

/// What an answer says of a batch.
///
/// # Errors
/// That it is none, as a sentence.
pub fn state(form: BatchForm, body: &[u8]) -> Result<BatchState, String> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "the answer is no JSON".to_owned())?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = text("id").ok_or("the answer holds no `id` of a batch")?.to_owned();
    if form == BatchForm::Anthropic {
        let status = text("processing_status").ok_or("the answer holds no `processing_status`")?;
        let stage = if status == "ended" { BatchStage::Ended } else { BatchStage::Open };
        return Ok(BatchState { id, stage, files: Vec::new(), server_seconds: None });
    }
    let status = text("status").ok_or("the answer holds no `status`")?;
    let files: Vec<String> =
        ["output_file_id", "error_file_id"].iter().filter_map(|name| text(name)).map(str::to_owned).collect();
    let seconds = |name: &str| value.get(name).and_then(Value::as_u64);
    let ended_at = ["completed_at", "expired_at", "cancelled_at", "failed_at"].into_iter().find_map(seconds);
    let server_seconds = ended_at.zip(seconds("created_at")).and_then(|(end, begin)| end.checked_sub(begin));
    let stage = match status {
        "completed" => BatchStage::Ended,
        // What was done by then has results.
        "expired" | "cancelled" if !files.is_empty() => BatchStage::Ended,
        "failed" | "expired" | "cancelled" => {
            let why = value.pointer("/errors/data/0/message").and_then(Value::as_str);
            BatchStage::Failed(
                why.map_or_else(|| format!("the batch is {status}"), |why| format!("the batch is {status}: {why}")),
            )
        }
        _ => BatchStage::Open,
    };
    Ok(BatchState { id, stage, files, server_seconds })
}

/// Counts the results of a batch of so many requests, a line each, of all its files.
pub fn results(requests: u64, files: &[Vec<u8>]) -> BatchResults {
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut found = BatchResults::default();
    let (mut input, mut output) = (None, None);
    let add = |sum: &mut Option<u64>, tokens: Option<u64>| {
        if let Some(tokens) = tokens {
            *sum = Some(sum.unwrap_or(0).saturating_add(tokens));
        }
    };
    let lines =
        files.iter().flat_map(|file| file.split(|byte| *byte == b'\n')).filter(|line| !line.trim_ascii().is_empty());
    for line in lines {
        let Ok(result) = serde_json::from_slice::<Line<'_>>(line) else {
            found.unknown += 1;
            continue;
        };
        let number = result.custom_id.strip_prefix(ID_PREFIX).and_then(|number| number.parse::<u64>().ok());
        let Some(number) = number.filter(|number| *number < requests && !seen.contains(number)) else {
            found.unknown += 1;
            continue;
        };
        seen.insert(number);
        match result.answer() {
            Some(tokens) => {
                found.succeeded += 1;
                add(&mut input, tokens.prompt_tokens.or(tokens.input_tokens));
                add(&mut output, tokens.completion_tokens.or(tokens.output_tokens));
            }
            None => found.failed += 1,
        }
    }
    found.missing = requests - seen.len() as u64;
    found.usage = Usage { input, output, ..Usage::default() };
    found
}

/// A line of results, of both forms.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    custom_id: Cow<'a, str>,
    response: Option<Response>,
    #[serde(borrow)]
    result: Option<Outcome<'a>>,
}

#[derive(Deserialize)]
struct Response {
    status_code: Option<u16>,
    body: Option<Body>,
}

/// The body of an answer: JSON, or a text that is JSON (llama-stack writes it so).
#[derive(Deserialize)]
#[serde(untagged)]
enum Body {
    Json(Answer),
    Text(String),
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    message: Option<Answer>,
}

#[derive(Deserialize, Default)]
struct Answer {
    usage: Option<Tokens>,
}

#[derive(Deserialize, Default)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Body {
    /// The answer in it; a text that is none says nothing of tokens.
    fn answer(self) -> Answer {
        match self {
            Body::Json(answer) => answer,
            Body::Text(text) => serde_json::from_str(&text).unwrap_or_default(),
        }
    }
}

impl Line<'_> {
    /// The tokens of an answer; `None` of an error.
    fn answer(self) -> Option<Tokens> {
        let body = match (self.response, self.result) {
            (Some(response), _) => {
                response.body.filter(|_| response.status_code.is_none_or(|code| code < 300))?.answer()
            }
            (None, Some(result)) => result.message.filter(|_| result.kind == "succeeded")?,
            (None, None) => return None,
        };
        Some(body.usage.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;

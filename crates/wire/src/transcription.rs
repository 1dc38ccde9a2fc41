//! Transcripts as a client asks for them and reads them: OpenAI's `/audio/transcriptions`, a form with a file of sound (vLLM, Speaches,
//! whisper.cpp, LocalAI).
//!
//! Invariant: the text is what the server says in order; a transcript without text is an answer, as silence has none.

use crate::frame::{DEFAULT_MAX_EVENT_BYTES, Frame, SseFramer};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FailureKind, Tick, Usage, one_line};

/// Path of the endpoint, behind the base URL of the dialect.
pub const TRANSCRIPTION_PATH: &str = "/audio/transcriptions";
/// What stands between the fields of a form; random, so that no sound holds it.
const BOUNDARY: &str = "tokrate-9b1f6c24e07d4b5fa3c8d2e6170b95aa";
/// The content type of forms.
pub const FORM_CONTENT_TYPE: &str = "multipart/form-data; boundary=tokrate-9b1f6c24e07d4b5fa3c8d2e6170b95aa";

/// In what the transcript comes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TranscriptForm {
    /// JSON with the text.
    #[default]
    Json,
    /// JSON with the text, its language, and when each part of it was said.
    VerboseJson,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TranscriptionRequest<'a> {
    /// Model as the endpoint knows it.
    pub model: &'a str,
    /// A file of sound.
    pub file: &'a [u8],
    /// Its name, by whose end servers tell its format.
    pub file_name: &'a str,
    /// In what the transcript is to come.
    pub form: TranscriptForm,
    /// Whether it is to come as it is made.
    pub stream: bool,
    /// Further fields: name and JSON text.
    pub extra: &'a [(String, String)],
}

impl TranscriptionRequest<'_> {
    /// The form. A further field replaces one of the same name; a text goes without its quotes, as forms have none.
    pub fn encode(&self) -> Vec<u8> {
        let format = match self.form {
            TranscriptForm::Json => "json",
            TranscriptForm::VerboseJson => "verbose_json",
        };
        let mut fields = vec![("model", self.model.to_owned()), ("response_format", format.to_owned())];
        if self.stream {
            fields.push(("stream", "true".to_owned()));
        }
        for (name, json) in self.extra {
            let value = serde_json::from_str(json).unwrap_or(Value::Null);
            let value = if let Value::String(text) = value { text } else { json.clone() };
            fields.retain(|(known, _)| known != name);
            fields.push((name, value));
        }
        let mut body = Vec::with_capacity(self.file.len() + 1024);
        for (name, value) in fields {
            let head = format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{}\"\r\n\r\n", quoted(name));
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(value.as_bytes());
            body.extend_from_slice(b"\r\n");
        }
        let name = quoted(self.file_name);
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\ncontent-type: audio/wav\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(self.file);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        body
    }
}

/// A name as forms have it.
fn quoted(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).collect::<String>().replace('"', "%22")
}

/// A field of a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormField<'b> {
    /// Its name.
    pub name: &'b str,
    /// Its content.
    pub value: &'b [u8],
}

/// The fields of a form, by the content type of its request; `None` if it is none, or a field of it is not whole.
pub fn form_fields<'b>(content_type: &str, body: &'b [u8]) -> Option<Vec<FormField<'b>>> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let boundary = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?.1.trim_matches('"');
    let mark = format!("--{boundary}");
    let mut rest = body.get(memchr::memmem::find(body, mark.as_bytes())? + mark.len()..)?;
    let mark = format!("\r\n--{boundary}");
    let mut fields = Vec::new();
    while !rest.starts_with(b"--") {
        let head_end = memchr::memmem::find(rest, b"\r\n\r\n")?;
        let head = std::str::from_utf8(&rest[..head_end]).ok()?;
        rest = &rest[head_end + 4..];
        let end = memchr::memmem::find(rest, mark.as_bytes())?;
        // `filename` ends in the same letters.
        let name = head.split([';', '\n']).find_map(|part| part.trim().strip_prefix("name=\"")?.split('"').next());
        fields.push(FormField { name: name?, value: &rest[..end] });
        rest = &rest[end + mark.len()..];
    }
    Some(fields)
}

/// Reads the answer to one request.
#[derive(Clone, Debug)]
pub struct TranscriptionDecoder {
    form: Form,
    /// Whether text came in pieces.
    has_pieces: bool,
    is_done: bool,
}

#[derive(Clone, Debug)]
enum Form {
    Whole(Vec<u8>),
    Events(SseFramer),
}

#[derive(Deserialize)]
struct Document<'e> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'e, str>,
    #[serde(borrow)]
    delta: Option<Cow<'e, str>>,
    #[serde(borrow)]
    text: Option<Cow<'e, str>>,
    usage: Option<Counts>,
    error: Option<Value>,
    /// vLLM streams as its chat completions do.
    #[serde(borrow)]
    choices: Option<Vec<Choice<'e>>>,
    #[serde(borrow)]
    model: Option<Cow<'e, str>>,
}

#[derive(Deserialize)]
struct Choice<'e> {
    #[serde(borrow)]
    delta: Option<Content<'e>>,
}

#[derive(Deserialize)]
struct Content<'e> {
    #[serde(borrow)]
    content: Option<Cow<'e, str>>,
}

#[derive(Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl TranscriptionDecoder {
    /// A decoder of an answer that is to come as it is made, or whole.
    pub fn new(stream: bool) -> TranscriptionDecoder {
        let form = if stream { Form::Events(SseFramer::new(DEFAULT_MAX_EVENT_BYTES)) } else { Form::Whole(Vec::new()) };
        TranscriptionDecoder { form, has_pieces: false, is_done: false }
    }

    /// Goes by what the answer calls itself: many servers know no streams of transcripts and leave that out.
    pub fn set_content_type(&mut self, content_type: &str) {
        let name = content_type.split(';').next().unwrap_or_default().trim();
        *self = TranscriptionDecoder::new(name.eq_ignore_ascii_case("text/event-stream"));
    }

    /// Whether the answer comes in one piece.
    pub fn is_whole(&self) -> bool {
        matches!(self.form, Form::Whole(_))
    }

    /// Takes bytes of the body.
    pub fn push(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        match &mut self.form {
            Form::Whole(body) => body.extend_from_slice(bytes),
            Form::Events(framer) => {
                let mut events = Vec::new();
                framer.push(bytes, &mut |frame| events.push(Event::of(frame)));
                events.into_iter().for_each(|event| self.on_event(at, event, out));
            }
        }
    }

    /// The body has ended, as HTTP prescribes if `is_complete`.
    pub fn end(&mut self, at: Tick, is_complete: bool, out: &mut EventBatch) {
        match &mut self.form {
            Form::Whole(body) => {
                let body = std::mem::take(body);
                if !body.is_empty() && is_complete && self.on_document(at, &body, out) {
                    self.done(at, out);
                }
            }
            Form::Events(framer) => {
                let mut events = Vec::new();
                framer.end(&mut |frame| events.push(Event::of(frame)));
                events.into_iter().for_each(|event| self.on_event(at, event, out));
            }
        }
    }

    fn on_event(&mut self, at: Tick, event: Event, out: &mut EventBatch) {
        match event {
            Event::Data(data) if data == b"[DONE]" => self.done(at, out),
            Event::Data(data) => {
                self.on_document(at, &data, out);
            }
            Event::Bad(anomaly) => out.push(at, EventKind::Anomaly(anomaly)),
        }
    }

    fn done(&mut self, at: Tick, out: &mut EventBatch) {
        if !std::mem::replace(&mut self.is_done, true) {
            out.push(at, EventKind::Silence);
            out.push(at, EventKind::Done);
        }
    }

    /// Reads a whole answer, or one event of a stream; whether it was one.
    fn on_document(&mut self, at: Tick, json: &[u8], out: &mut EventBatch) -> bool {
        let Ok(read) = serde_json::from_slice::<Document<'_>>(json) else {
            out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
            return false;
        };
        if let Some(error) = read.error.filter(|error| !error.is_null()) {
            let text = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
            let message = out.store(&one_line(&text, 300));
            out.push(at, EventKind::Failed { kind: FailureKind::ErrorInStream, message, retry_after: None });
            return false;
        }
        if let Some(model) = read.model.as_deref().filter(|model| !model.is_empty()) {
            let model = out.store(model);
            out.push(at, EventKind::Model(model));
        }
        let is_event = !self.is_whole();
        let choices = read.choices.unwrap_or_default();
        let pieces = choices.iter().filter_map(|choice| choice.delta.as_ref()?.content.as_deref());
        let mut is_known = !choices.is_empty();
        for piece in read.delta.as_deref().into_iter().chain(pieces) {
            (self.has_pieces, is_known) = (true, true);
            out.push_text(at, Channel::Answer, piece);
        }
        // The last event repeats the text; others of Speaches and whisper.cpp hold a part each.
        let is_end = read.kind == "transcript.text.done";
        if let Some(text) = &read.text {
            is_known = true;
            if !(is_end && self.has_pieces) {
                self.has_pieces = true;
                out.push_text(at, Channel::Answer, text);
            }
        }
        if let Some(counts) = read.usage {
            let input = counts.input_tokens.or(counts.prompt_tokens);
            let output = counts.output_tokens.or(counts.completion_tokens);
            if input.or(output).is_some() {
                is_known = true;
                out.push(at, EventKind::Usage(Usage { input, output, ..Usage::default() }.plausible()));
            }
        }
        if !is_known {
            out.push(at, EventKind::Anomaly(if is_event { Anomaly::Malformed } else { Anomaly::Unreadable }));
        } else if is_end {
            self.done(at, out);
        }
        is_known
    }
}

enum Event {
    Data(Vec<u8>),
    Bad(Anomaly),
}

impl Event {
    fn of(frame: Frame<'_>) -> Event {
        match frame {
            Frame::Event { data, .. } => Event::Data(data.to_vec()),
            Frame::Unfinished { .. } => Event::Bad(Anomaly::UnfinishedEvent),
            Frame::TooLarge { .. } | Frame::Corrupt => Event::Bad(Anomaly::EventTooLarge),
        }
    }
}

#[cfg(test)]
mod tests;

//! Speech as a client asks for it and hears it: OpenAI's `/audio/speech` (vLLM-Omni, Kokoro-FastAPI, Speaches, LocalAI).
//!
//! The body is sound as it is made, or server-sent events that hold it. Invariant: sound begins with the first sample that is played, and an
//! answer is whole only if its body, or its last event, says so.

use crate::base64;
use crate::frame::{DEFAULT_MAX_EVENT_BYTES, Frame, SseFramer};
use crate::sound::{SoundReader, Sounded};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use tokrate_core::{Anomaly, EventBatch, EventKind, FailureKind, SoundFormat, SoundPiece, Tick, Usage, one_line};

/// Path of the endpoint, behind the base URL of the dialect.
pub const SPEECH_PATH: &str = "/audio/speech";
/// Samples a second of sound without a head: OpenAI's, and those of most after it.
pub const PCM_RATE: u32 = 24_000;
/// What is kept of an answer that is no sound (bytes).
const MAX_TEXT_BYTES: usize = 1_000;

/// How the sound comes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SoundDelivery {
    /// The body is the sound.
    #[default]
    Body,
    /// Server-sent events hold it.
    Events,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpeechRequest<'a> {
    /// Model as the endpoint knows it.
    pub model: &'a str,
    /// What is to be said.
    pub input: &'a str,
    /// Who says it.
    pub voice: &'a str,
    /// How the sound is to be written.
    pub format: SoundFormat,
    /// How it is to come.
    pub delivery: SoundDelivery,
    /// Further body fields: name and JSON text.
    pub extra: &'a [(String, String)],
}

impl SpeechRequest<'_> {
    /// The body. A further field replaces one of the same name.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        set("model", json!(self.model));
        set("input", json!(self.input));
        set("voice", json!(self.voice));
        set("response_format", json!(self.format.name()));
        // Not sent where it is what servers do without it: some refuse fields that they do not know.
        if self.delivery == SoundDelivery::Events {
            set("stream_format", json!("sse"));
        }
        for (name, json) in self.extra {
            // What is no JSON was refused when it was typed.
            set(name, serde_json::from_str(json).unwrap_or(Value::Null));
        }
        Value::Object(fields).to_string().into_bytes()
    }
}

/// Reads the answer to one request.
#[derive(Clone, Debug)]
pub struct SpeechDecoder {
    reader: SoundReader,
    form: Form,
    seen: Sounded,
    is_done: bool,
}

#[derive(Clone, Debug)]
enum Form {
    Body,
    Events(SseFramer),
    /// What came instead of sound.
    Text(Vec<u8>),
}

#[derive(Deserialize)]
struct Event<'e> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'e, str>,
    #[serde(borrow, default)]
    audio: Cow<'e, str>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl SpeechDecoder {
    /// A decoder of an answer in that format; `pcm_rate` is that of samples without a head.
    pub fn new(format: SoundFormat, delivery: SoundDelivery, pcm_rate: u32) -> SpeechDecoder {
        let form = match delivery {
            SoundDelivery::Body => Form::Body,
            SoundDelivery::Events => Form::Events(SseFramer::new(DEFAULT_MAX_EVENT_BYTES)),
        };
        SpeechDecoder { reader: SoundReader::new(format, pcm_rate), form, seen: Sounded::default(), is_done: false }
    }

    /// Goes by what the answer calls itself, as servers may not do what they were asked for.
    pub fn set_content_type(&mut self, content_type: &str) {
        let name = content_type.split(';').next().unwrap_or_default().trim();
        let named = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        if named("text/event-stream") {
            self.form = Form::Events(SseFramer::new(DEFAULT_MAX_EVENT_BYTES));
        } else if named("text/") || named("application/json") || named("application/problem") {
            self.form = Form::Text(Vec::new());
        } else if named("audio/") {
            self.form = Form::Body;
        }
    }

    /// Takes bytes of the body.
    pub fn push(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        match &mut self.form {
            Form::Body => {
                let sounded = self.reader.push(bytes);
                self.emit(at, sounded, out);
            }
            Form::Text(text) => {
                let room = MAX_TEXT_BYTES.saturating_sub(text.len()).min(bytes.len());
                text.extend_from_slice(&bytes[..room]);
            }
            Form::Events(_) => self.on_events(at, Some(bytes), out),
        }
    }

    /// The body has ended at `ended_at`, as HTTP prescribes if `is_complete`; its last byte came at `at`. Sound that is a body has no other
    /// end, and a server may hold that back long after the last of the sound.
    pub fn end(&mut self, at: Tick, ended_at: Tick, is_complete: bool, out: &mut EventBatch) {
        match &mut self.form {
            Form::Text(text) => {
                let shown = one_line(&String::from_utf8_lossy(text), 200);
                let message = out.store(&format!("the answer is text and no sound: {shown}"));
                out.push(at, EventKind::Failed { kind: FailureKind::NotJson, message, retry_after: None });
                return;
            }
            Form::Events(_) => self.on_events(at, None, out),
            Form::Body => {}
        }
        let sounded = self.reader.end();
        self.emit(at, sounded, out);
        let is_body = matches!(self.form, Form::Body);
        let missing = self.reader.declared().zip(sounded.plays).filter(|(declared, plays)| declared > plays);
        if let Some((declared, plays)) = missing.filter(|_| is_complete) {
            let (whole, part) = (declared.as_secs_f64(), plays.as_secs_f64());
            let message = out.store(&format!("the sound ends after {part:.2} of the {whole:.2} s that its head names"));
            out.push(at, EventKind::Failed { kind: FailureKind::Truncated, message, retry_after: None });
        } else if is_complete && is_body && sounded.bytes > 0 {
            out.push(ended_at, EventKind::Done);
        }
    }

    /// Emits the sound that is new.
    fn emit(&mut self, at: Tick, sounded: Sounded, out: &mut EventBatch) {
        // Less than a sample, or a part of the first frame, cannot be played.
        let is_playable = sounded.bytes > 0 && !sounded.plays.is_some_and(|plays| plays.is_zero());
        if !is_playable || sounded == self.seen {
            return;
        }
        let bytes = u32::try_from(sounded.bytes - self.seen.bytes).unwrap_or(u32::MAX);
        self.seen = sounded;
        out.push(at, EventKind::Sound(SoundPiece { format: self.reader.format(), bytes, plays: sounded.plays }));
    }

    /// Reads the events of some bytes, or what is left at the end of the body.
    fn on_events(&mut self, at: Tick, bytes: Option<&[u8]>, out: &mut EventBatch) {
        let Form::Events(framer) = &mut self.form else { return };
        let (reader, is_done) = (&mut self.reader, &mut self.is_done);
        let mut sounded = self.seen;
        let mut last = Vec::new();
        let mut on_frame = |frame: Frame<'_>| match frame {
            Frame::Event { data, .. } => read_event(data, reader, &mut sounded, &mut last, out, (at, is_done)),
            Frame::Unfinished { .. } => out.push(at, EventKind::Anomaly(Anomaly::UnfinishedEvent)),
            Frame::TooLarge { .. } | Frame::Corrupt => out.push(at, EventKind::Anomaly(Anomaly::EventTooLarge)),
        };
        match bytes {
            Some(bytes) => framer.push(bytes, &mut on_frame),
            None => framer.end(&mut on_frame),
        }
        self.emit(at, sounded, out);
        last.into_iter().for_each(|kind| out.push(at, kind));
    }
}

/// Reads one event; what belongs behind the sound of the read goes into `last`.
fn read_event(
    data: &[u8],
    reader: &mut SoundReader,
    sounded: &mut Sounded,
    last: &mut Vec<EventKind>,
    out: &mut EventBatch,
    (at, is_done): (Tick, &mut bool),
) {
    if data == b"[DONE]" {
        *sounded = reader.end();
        if !std::mem::replace(is_done, true) {
            last.push(EventKind::Done);
        }
        return;
    }
    let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else {
        return out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
    };
    if let Some(error) = event.error {
        let text = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        let message = out.store(&one_line(&text, 300));
        return last.push(EventKind::Failed { kind: FailureKind::ErrorInStream, message, retry_after: None });
    }
    match &*event.kind {
        "speech.audio.delta" => match base64::decode(event.audio.as_bytes()) {
            Some(bytes) => *sounded = reader.push(&bytes),
            None => out.push(at, EventKind::Anomaly(Anomaly::Malformed)),
        },
        "speech.audio.done" => {
            *sounded = reader.end();
            if let Some(Counts { input_tokens, output_tokens }) = event.usage {
                let usage = Usage { input: input_tokens, output: output_tokens, ..Usage::default() };
                last.push(EventKind::Usage(usage.plausible()));
            }
            if !std::mem::replace(is_done, true) {
                last.push(EventKind::Done);
            }
        }
        _ => out.push(at, EventKind::Anomaly(Anomaly::Malformed)),
    }
}

#[cfg(test)]
mod tests;

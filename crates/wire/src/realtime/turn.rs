//! Turns of OpenAI's realtime API as a client takes them: what it says, and what it hears of the answer.
//!
//! Invariant: an answer is whole once `response.done` says that it was completed; sound is 16-bit samples, 24,000 a second.

use crate::base64;
use crate::model_path::escaped;
use crate::sound::SoundReader;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use tokrate_core::{
    Anomaly, Channel, EventBatch, EventKind, FailureKind, FinishReason, SoundFormat, SoundPiece, Tick, Usage, one_line,
};

/// Path of the endpoint, behind the base URL of the dialect.
const REALTIME_PATH: &str = "/realtime";
/// The path of sessions with a model.
pub fn realtime_path(model: &str) -> String {
    format!("{REALTIME_PATH}?model={}", escaped(model, b""))
}

/// Samples a second of sound, both ways.
pub const REALTIME_RATE: u32 = 24_000;
/// Sound of an event that is sent: what browsers send at a time is less, what the API takes more (bytes).
const APPENDED_BYTES: usize = 48_000;

/// What an error names a refusal for the rate.
const RATE_LIMITED: &str = "rate_limit_exceeded";

/// What a session is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionRequest<'a> {
    /// Answers are said, and not only written.
    pub wants_sound: bool,
    /// Who says them.
    pub voice: &'a str,
    /// Further fields of the session: name and JSON text.
    pub extra: &'a [(String, String)],
}

impl SessionRequest<'_> {
    /// The event that says so. A further field replaces one of the same name.
    pub fn event(&self) -> String {
        let format = json!({"type": "audio/pcm", "rate": REALTIME_RATE});
        let input = json!({"format": format, "turn_detection": null});
        let mut audio = json!({ "input": input });
        if self.wants_sound {
            audio["output"] = json!({"format": format, "voice": self.voice});
        }
        let mut session = Map::new();
        let mut set = |name: &str, value: Value| drop(session.insert(name.to_owned(), value));
        set("type", json!("realtime"));
        set("output_modalities", json!([if self.wants_sound { "audio" } else { "text" }]));
        set("audio", audio);
        for (name, json) in self.extra {
            // What is no JSON was refused when it was typed.
            set(name, serde_json::from_str(json).unwrap_or(Value::Null));
        }
        json!({"type": "session.update", "session": session}).to_string()
    }
}

/// What a client says in a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    /// Text.
    Text(&'a str),
    /// Samples.
    Sound(&'a [u8]),
}

impl Said<'_> {
    /// The events of a turn; the last one asks for the answer.
    pub fn events(self) -> Vec<String> {
        let mut events = match self {
            Said::Text(text) => {
                let content = json!([{"type": "input_text", "text": text}]);
                let item = json!({"type": "message", "role": "user", "content": content});
                vec![json!({"type": "conversation.item.create", "item": item}).to_string()]
            }
            Said::Sound(samples) => {
                let append =
                    |piece: &[u8]| json!({"type": "input_audio_buffer.append", "audio": base64::encode(piece)});
                let pieces = samples.chunks(APPENDED_BYTES).map(|piece| append(piece).to_string());
                pieces.chain([json!({"type": "input_audio_buffer.commit"}).to_string()]).collect()
            }
        };
        events.push(json!({"type": "response.create"}).to_string());
        events
    }
}

/// Reads the answer to one turn.
#[derive(Clone, Debug)]
pub struct TurnDecoder {
    reader: SoundReader,
    bytes: u64,
    is_over: bool,
}

#[derive(Deserialize)]
struct Event<'e> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'e, str>,
    #[serde(borrow)]
    delta: Option<Cow<'e, str>>,
    error: Option<Value>,
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    status_details: Option<Value>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl TurnDecoder {
    /// A decoder of one answer.
    pub fn new() -> TurnDecoder {
        TurnDecoder { reader: SoundReader::new(SoundFormat::Pcm, REALTIME_RATE), bytes: 0, is_over: false }
    }

    /// Whether the answer has ended, in whatever way.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes a message of the server.
    pub fn message(&mut self, at: Tick, json: &[u8], out: &mut EventBatch) {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(json) else {
            return out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
        };
        let delta = event.delta.as_deref().unwrap_or_default();
        match &*event.kind {
            // The names of the beta and of what followed it.
            "response.text.delta"
            | "response.output_text.delta"
            | "response.audio_transcript.delta"
            | "response.output_audio_transcript.delta" => out.push_text(at, Channel::Answer, delta),
            "response.function_call_arguments.delta" | "response.mcp_call_arguments.delta" => {
                out.push_text(at, Channel::Tool, delta);
            }
            "response.audio.delta" | "response.output_audio.delta" => match base64::decode(delta.as_bytes()) {
                Some(sound) => self.on_sound(at, &sound, out),
                None => out.push(at, EventKind::Anomaly(Anomaly::Malformed)),
            },
            "response.done" => self.on_done(at, event.response, out),
            "error" => self.fail(at, &event.error.unwrap_or_default(), out),
            _ => out.push(at, EventKind::Empty),
        }
    }

    fn on_sound(&mut self, at: Tick, sound: &[u8], out: &mut EventBatch) {
        let sounded = self.reader.push(sound);
        let bytes = u32::try_from(sounded.bytes - self.bytes).unwrap_or(u32::MAX);
        self.bytes = sounded.bytes;
        if bytes > 0 {
            out.push(at, EventKind::Sound(SoundPiece { format: SoundFormat::Pcm, bytes, plays: sounded.plays }));
        }
    }

    fn on_done(&mut self, at: Tick, response: Option<Response>, out: &mut EventBatch) {
        let (status, details, usage) =
            response.map_or((None, None, None), |response| (response.status, response.status_details, response.usage));
        if let Some(Counts { input_tokens, output_tokens }) = usage {
            let usage = Usage { input: input_tokens, output: output_tokens, ..Usage::default() };
            out.push(at, EventKind::Usage(usage.plausible()));
        }
        match status.as_deref() {
            Some("failed") => {
                let details = details.unwrap_or_default();
                self.fail(at, &details.get("error").cloned().unwrap_or(details), out);
            }
            Some("incomplete") => {
                out.push(at, EventKind::Finish(FinishReason::Length));
                self.done(at, out);
            }
            Some("cancelled") => {
                self.fail_as(at, FailureKind::Truncated, &json!("the response was cancelled"), out);
            }
            _ => {
                out.push(at, EventKind::Finish(FinishReason::Stop));
                self.done(at, out);
            }
        }
    }

    fn done(&mut self, at: Tick, out: &mut EventBatch) {
        self.is_over = true;
        out.push(at, EventKind::Done);
    }

    /// An error of the server; a refusal for the rate is a state of its own, as it is with a status of 429.
    fn fail(&mut self, at: Tick, error: &Value, out: &mut EventBatch) {
        let is_named = |field: &str| error.get(field).is_some_and(|name| name == RATE_LIMITED);
        let is_for_rate = is_named("code") || is_named("type");
        let kind = if is_for_rate { FailureKind::RateLimited } else { FailureKind::ErrorInStream };
        self.fail_as(at, kind, error, out);
    }

    fn fail_as(&mut self, at: Tick, kind: FailureKind, error: &Value, out: &mut EventBatch) {
        self.is_over = true;
        let text = error.get("message").and_then(Value::as_str).or(error.as_str());
        let message = out.store(&one_line(&text.map_or_else(|| error.to_string(), str::to_owned), 300));
        out.push(at, EventKind::Failed { kind, message, retry_after: None });
    }
}

impl Default for TurnDecoder {
    fn default() -> TurnDecoder {
        TurnDecoder::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    const AT: Tick = Tick::from_nanos(9);

    fn decode(messages: &[&str]) -> (String, u64, Vec<String>, bool) {
        let (mut decoder, mut batch) = (TurnDecoder::new(), EventBatch::new());
        messages.iter().for_each(|message| decoder.message(AT, message.as_bytes(), &mut batch));
        let (mut text, mut plays, mut others) = (String::new(), 0, Vec::new());
        for event in batch.events() {
            match event.kind {
                EventKind::Text { text: range, .. } => text.push_str(batch.text(range)),
                EventKind::Sound(piece) => plays = piece.plays.map_or(0, |plays| plays.as_nanos()),
                EventKind::Empty => {}
                EventKind::Failed { kind, message, .. } => others.push(format!("{kind:?}: {}", batch.text(message))),
                EventKind::Usage(usage) => others.push(format!("{:?} {:?}", usage.input, usage.output)),
                other => others.push(format!("{other:?}")),
            }
        }
        (text, plays, others, decoder.is_over())
    }

    #[test]
    fn an_answer_is_its_text_and_its_sound_until_it_is_done() {
        let sound = base64::encode(&[0; 4_800]);
        let delta = format!(r#"{{"type":"response.output_audio.delta","delta":"{sound}"}}"#);
        let (text, plays, others, is_over) = decode(&[
            r#"{"type":"response.created","response":{"status":"in_progress"}}"#,
            r#"{"type":"response.output_audio_transcript.delta","delta":"Hel"}"#,
            &delta,
            r#"{"type":"response.output_audio_transcript.delta","delta":"lo"}"#,
            &delta,
            r#"{"type":"response.done","response":{"status":"completed","usage":{"input_tokens":3,"output_tokens":9}}}"#,
        ]);
        assert_eq!((text.as_str(), plays, is_over), ("Hello", 200_000_000, true));
        assert_eq!(others, ["Some(3) Some(9)", "Finish(Stop)", "Done"]);
        let beta = decode(&[r#"{"type":"response.text.delta","delta":"a"}"#]);
        assert_eq!((beta.0.as_str(), beta.3), ("a", false));
    }

    #[test]
    fn what_went_wrong_is_a_failure_with_the_words_of_the_server() {
        let failed = r#"{"type":"response.done","response":{"status":"failed","status_details":{"type":"failed","error":{"message":"no  credit"}}}}"#;
        assert_eq!(decode(&[failed]).2, ["ErrorInStream: no credit"]);
        let error = r#"{"type":"error","error":{"code":"x","message":"no such model"}}"#;
        assert_eq!(decode(&[error]), (String::new(), 0, vec!["ErrorInStream: no such model".to_owned()], true));
        let limited =
            r#"{"type":"error","error":{"type":"tokens","code":"rate_limit_exceeded","message":"slow down"}}"#;
        assert_eq!(decode(&[limited]).2, ["RateLimited: slow down"]);
        let limited = r#"{"type":"response.done","response":{"status":"failed","status_details":{"error":{"type":"rate_limit_exceeded","message":"slow down"}}}}"#;
        assert_eq!(decode(&[limited]).2, ["RateLimited: slow down"]);
        let cancelled = r#"{"type":"response.done","response":{"status":"cancelled"}}"#;
        assert_eq!(decode(&[cancelled]).2, ["Truncated: the response was cancelled"]);
        let short = r#"{"type":"response.done","response":{"status":"incomplete"}}"#;
        assert_eq!(decode(&[short]).2, ["Finish(Length)", "Done"]);
        assert_eq!(
            decode(&["{", r#"{"type":"response.audio.delta","delta":"?"}"#]).2,
            ["Anomaly(Unreadable)", "Anomaly(Malformed)"]
        );
    }

    #[test]
    fn a_turn_says_text_or_sound_and_asks_for_the_answer() {
        let kinds = |said: Said<'_>| -> Vec<String> {
            let kind = |event: &String| {
                let event: Value = serde_json::from_str(event).expect("JSON");
                event["type"].as_str().unwrap_or_default().to_owned()
            };
            said.events().iter().map(kind).collect()
        };
        assert_eq!(kinds(Said::Text("a \"b\"")), ["conversation.item.create", "response.create"]);
        let append = "input_audio_buffer.append";
        assert_eq!(kinds(Said::Sound(&[0; 50_000])), [append, append, "input_audio_buffer.commit", "response.create"]);
        let extra = [("instructions".to_owned(), "\"short\"".to_owned())];
        let session = |wants_sound| -> Value {
            let event = SessionRequest { wants_sound, voice: "alloy", extra: &extra }.event();
            serde_json::from_str::<Value>(&event).expect("JSON")["session"].clone()
        };
        assert_eq!(session(false)["output_modalities"], json!(["text"]));
        let spoken = session(true);
        assert_eq!((&spoken["audio"]["output"]["voice"], &spoken["instructions"]), (&json!("alloy"), &json!("short")));
    }

    proptest! {
        #[test]
        fn no_message_breaks_it(message in "(\\{\"type\":\"response\\.(done|audio\\.delta)\",?)?[\\[\\]{}\":,a-z0-9=]{0,60}\\}?") {
            let (text, _, others, _) = decode(&[&message]);
            prop_assert!(text.len() <= message.len() && others.len() <= 3);
        }
    }
}

//! Events of OpenAI's realtime API, as far as they say when an answer was asked for, when it began and what it used.
//!
//! Invariant: an event that cannot be read is [`RealtimeEvent::Other`]; no text of a conversation is kept.

pub mod turn;

use serde::Deserialize;
use std::borrow::Cow;
use tokrate_core::{AudioTokens, Usage};

/// What an event says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RealtimeEvent {
    /// The client asks for a response.
    ResponseRequested,
    /// The server has heard the end of speech, and begins a response by itself if it is set up so.
    SpeechEnded,
    /// A response has begun.
    ResponseStarted,
    /// A piece of an answer: text, sound, a transcript of it, arguments of a tool.
    Delta,
    /// A piece of a transcript of what the client said.
    TranscriptDelta,
    /// A response has ended.
    ResponseEnded {
        /// Whether it failed.
        failed: bool,
        /// What it used, if that was said.
        usage: Option<RealtimeUsage>,
    },
    /// What the client said was transcribed.
    Transcribed(Option<RealtimeUsage>),
    /// The session names its model.
    Session(Option<String>),
    /// Anything else.
    Other,
}

/// What was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RealtimeUsage {
    /// All tokens.
    pub tokens: Usage,
    /// Those of them that were sound.
    pub audio: AudioTokens,
    /// Whether some of them were pictures, which have a price of their own.
    pub has_pictures: bool,
}

#[derive(Deserialize)]
struct Event<'e> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'e, str>,
    response: Option<Response>,
    session: Option<Session>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Session {
    model: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    usage: Option<Counts>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_token_details: Details,
    output_token_details: Details,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    audio_tokens: Option<u64>,
    image_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cached_tokens_details: CachedDetails,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CachedDetails {
    audio_tokens: Option<u64>,
}

impl RealtimeEvent {
    /// What a client's event says.
    pub fn of_client(json: &[u8]) -> RealtimeEvent {
        match serde_json::from_slice::<Event<'_>>(json) {
            Ok(event) if event.kind == "response.create" => RealtimeEvent::ResponseRequested,
            _ => RealtimeEvent::Other,
        }
    }

    /// What a server's event says.
    pub fn of_server(json: &[u8]) -> RealtimeEvent {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(json) else { return RealtimeEvent::Other };
        match &*event.kind {
            "input_audio_buffer.speech_stopped" => RealtimeEvent::SpeechEnded,
            "response.created" => RealtimeEvent::ResponseStarted,
            // The names of the beta and of what followed it.
            "response.text.delta"
            | "response.output_text.delta"
            | "response.audio.delta"
            | "response.output_audio.delta"
            | "response.audio_transcript.delta"
            | "response.output_audio_transcript.delta"
            | "response.function_call_arguments.delta"
            | "response.mcp_call_arguments.delta" => RealtimeEvent::Delta,
            "conversation.item.input_audio_transcription.delta" => RealtimeEvent::TranscriptDelta,
            "conversation.item.input_audio_transcription.completed" => {
                RealtimeEvent::Transcribed(event.usage.and_then(Counts::usage))
            }
            "response.done" => {
                let response = event.response;
                let failed = response.as_ref().and_then(|response| response.status.as_deref()) == Some("failed");
                RealtimeEvent::ResponseEnded { failed, usage: response.and_then(|response| response.usage?.usage()) }
            }
            "session.created" | "session.updated" => {
                RealtimeEvent::Session(event.session.and_then(|session| session.model))
            }
            _ => RealtimeEvent::Other,
        }
    }
}

impl Counts {
    /// `None` where nothing is counted in tokens, as of what is billed by the second.
    fn usage(self) -> Option<RealtimeUsage> {
        let (read, written) = (self.input_token_details, self.output_token_details);
        let tokens = Usage {
            input: self.input_tokens,
            output: self.output_tokens,
            cached_input: read.cached_tokens,
            ..Usage::default()
        };
        let or_zero = |count: Option<u64>| count.unwrap_or(0);
        let audio = AudioTokens {
            input: or_zero(read.audio_tokens),
            cached_input: or_zero(read.cached_tokens_details.audio_tokens),
            output: or_zero(written.audio_tokens),
        };
        let has_pictures = or_zero(read.image_tokens) > 0;
        let tokens = tokens.plausible();
        tokens.billed().is_some().then_some(RealtimeUsage { tokens, audio, has_pictures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_has_ended_says_what_it_used() {
        let done = |usage: &str, status: &str| {
            let json = format!(
                r#"{{"event_id":"e","response":{{"usage":{usage},"status":"{status}"}},"type":"response.done"}}"#
            );
            RealtimeEvent::of_server(json.as_bytes())
        };
        let text = r#"{"total_tokens":9,"input_tokens":7,"output_tokens":2,"input_token_details":{"text_tokens":7,"audio_tokens":0,"cached_tokens":3}}"#;
        let tokens = Usage { input: Some(7), output: Some(2), cached_input: Some(3), ..Usage::default() };
        let usage = RealtimeUsage { tokens, ..RealtimeUsage::default() };
        assert_eq!(done(text, "completed"), RealtimeEvent::ResponseEnded { failed: false, usage: Some(usage) });
        let sound = r#"{"input_tokens":7,"output_tokens":2,"output_token_details":{"audio_tokens":2}}"#;
        let RealtimeEvent::ResponseEnded { failed: true, usage: Some(usage) } = done(sound, "failed") else {
            panic!("it failed, and says what it used")
        };
        assert_eq!(usage.audio, AudioTokens { output: 2, ..AudioTokens::default() });
        for none in [
            "null",
            "{}",
            r#"{"type":"duration","seconds":3}"#,
            r#"{"input_tokens":7}"#,
            r#"{"input_tokens":1e9,"output_tokens":1}"#,
        ] {
            assert!(!matches!(done(none, "completed"), RealtimeEvent::ResponseEnded { usage: Some(_), .. }), "{none}");
        }
    }

    #[test]
    fn events_are_told_apart_by_their_type_wherever_it_stands() {
        let server = |json: &str| RealtimeEvent::of_server(json.as_bytes());
        assert_eq!(server(r#"{"delta":"AAAA","type":"response.output_audio.delta"}"#), RealtimeEvent::Delta);
        assert_eq!(
            server(r#"{"type":"input_audio_buffer.speech_stopped","audio_end_ms":3}"#),
            RealtimeEvent::SpeechEnded
        );
        assert_eq!(
            server(r#"{"type":"session.created","session":{"model":"m"}}"#),
            RealtimeEvent::Session(Some("m".to_owned()))
        );
        assert_eq!(server(r#"{"type":"response.create"}"#), RealtimeEvent::Other);
        for other in ["", "[]", "{}", r#"{"type":7}"#, "\u{1}"] {
            assert_eq!(
                (server(other), RealtimeEvent::of_client(other.as_bytes())),
                (RealtimeEvent::Other, RealtimeEvent::Other)
            );
        }
        let asked = RealtimeEvent::of_client(br#"{"response":{"modalities":["text"]},"type":"response.create"}"#);
        assert_eq!(asked, RealtimeEvent::ResponseRequested);
    }
}

//! Messages of Gemini's Live API, as far as they say which model is asked for, when its turns begin and end, and what they used.
//!
//! Invariant: a message that cannot be read says nothing; no text of a conversation is kept.

use crate::object::range_within;
use crate::realtime::RealtimeUsage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::ops::Range;
use tokrate_core::{AudioTokens, Usage};

/// What a server's message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LiveMessage {
    /// It holds a piece of an answer: text, sound, a transcript of it, the call of a tool.
    pub speaks: bool,
    /// The model's turn ends with it.
    pub ends: bool,
    /// What was used since the last that said so.
    pub usage: Option<RealtimeUsage>,
}

#[derive(Deserialize)]
struct Opening<'m> {
    #[serde(borrow)]
    setup: Setup<'m>,
}

#[derive(Deserialize)]
struct Setup<'m> {
    #[serde(borrow)]
    model: &'m RawValue,
}

#[derive(Deserialize)]
struct FromClient {
    #[serde(alias = "clientContent")]
    client_content: Option<ClientContent>,
    #[serde(alias = "realtimeInput")]
    realtime_input: Option<RealtimeInput>,
    #[serde(alias = "toolResponse")]
    tool_response: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ClientContent {
    #[serde(alias = "turnComplete", default)]
    turn_complete: bool,
}

#[derive(Deserialize)]
struct RealtimeInput {
    text: Option<IgnoredAny>,
    #[serde(alias = "activityEnd")]
    activity_end: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FromServer {
    server_content: Option<ServerContent>,
    tool_call: Option<IgnoredAny>,
    usage_metadata: Option<Counts>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ServerContent {
    model_turn: Option<IgnoredAny>,
    output_transcription: Option<IgnoredAny>,
    turn_complete: bool,
    interrupted: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Counts {
    prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    response_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    prompt_tokens_details: Vec<OfModality>,
    cache_tokens_details: Vec<OfModality>,
    tool_use_prompt_tokens_details: Vec<OfModality>,
    response_tokens_details: Vec<OfModality>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OfModality {
    modality: String,
    token_count: u64,
}

/// The model that the first message of a session names, and where it stands in it, quotes included.
///
/// # Errors
/// What it lacks.
pub fn setup_model(message: &[u8]) -> Result<(String, Range<usize>), &'static str> {
    const WRONG: &str = "the first message of a session is `setup`, with its `model`";
    let text = std::str::from_utf8(message).map_err(|_| WRONG)?;
    let opening: Opening<'_> = serde_json::from_str(text).map_err(|_| WRONG)?;
    let written = opening.setup.model.get();
    let model: String = serde_json::from_str(written).map_err(|_| WRONG)?;
    Ok((model, range_within(text, written).ok_or(WRONG)?))
}

/// Whether a client's message asks for an answer.
pub fn asks_for_answer(message: &[u8]) -> bool {
    serde_json::from_slice::<FromClient>(message).is_ok_and(|said| {
        said.client_content.is_some_and(|content| content.turn_complete)
            || said.realtime_input.is_some_and(|input| input.text.is_some() || input.activity_end.is_some())
            || said.tool_response.is_some()
    })
}

impl LiveMessage {
    /// What a server's message says.
    pub fn of_server(message: &[u8]) -> LiveMessage {
        let Ok(said) = serde_json::from_slice::<FromServer>(message) else { return LiveMessage::default() };
        let content = said.server_content.unwrap_or_default();
        LiveMessage {
            speaks: content.model_turn.is_some() || content.output_transcription.is_some() || said.tool_call.is_some(),
            ends: content.turn_complete || content.interrupted,
            usage: said.usage_metadata.and_then(Counts::usage),
        }
    }
}

impl Counts {
    /// `None` where nothing is counted.
    fn usage(self) -> Option<RealtimeUsage> {
        let with = |count: Option<u64>, more: Option<u64>| Some(count?.saturating_add(more.unwrap_or(0)));
        let tokens = Usage {
            input: with(self.prompt_token_count, self.tool_use_prompt_token_count),
            // A turn that was interrupted at once has none.
            output: self.prompt_token_count.and(with(self.response_token_count.or(Some(0)), self.thoughts_token_count)),
            cached_input: self.cached_content_token_count,
            reasoning: self.thoughts_token_count,
            ..Usage::default()
        };
        let read = || self.prompt_tokens_details.iter().chain(&self.tool_use_prompt_tokens_details);
        let audio = AudioTokens {
            input: of("AUDIO", read()),
            cached_input: of("AUDIO", &self.cache_tokens_details),
            output: of("AUDIO", &self.response_tokens_details),
        };
        let pictures = || read().chain(&self.response_tokens_details);
        let has_pictures = ["IMAGE", "VIDEO", "DOCUMENT"].iter().any(|modality| of(modality, pictures()) > 0);
        let tokens = tokens.plausible();
        tokens.billed().is_some().then_some(RealtimeUsage { tokens, audio, has_pictures })
    }
}

/// Tokens of a modality.
fn of<'c>(modality: &str, counts: impl IntoIterator<Item = &'c OfModality>) -> u64 {
    let counts = counts.into_iter().filter(|count| count.modality == modality);
    counts.fold(0, |sum, count| sum.saturating_add(count.token_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_says_its_model_and_where_it_stands() {
        let message = br#"{"setup": {"tools":[{"model":"no"}], "model" : "models\/live-1", "generationConfig":{}}}"#;
        let (model, place) = setup_model(message).expect("a setup");
        assert_eq!((model.as_str(), &message[place]), ("models/live-1", &br#""models\/live-1""#[..]));
        for wrong in [
            "",
            "{}",
            r#"{"setup":{}}"#,
            r#"{"setup":{"model":7}}"#,
            r#"{"setup":{"model":"a","model":"b"}}"#,
            r#"{"setup":{"model":"a"},"setup":{"model":"b"}}"#,
            r#"[{"setup":{"model":"a"}}]"#,
            r#"{"clientContent":{"turns":[]}}"#,
            r#"{"setup":{"model":"a"}} {"#,
        ] {
            assert!(setup_model(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(setup_model(b"\xff").is_err());
    }

    #[test]
    fn an_answer_is_asked_for_by_the_end_of_a_turn_however_it_is_written() {
        for asks in [
            r#"{"clientContent":{"turns":[],"turnComplete":true}}"#,
            r#"{"client_content":{"turn_complete":true}}"#,
            r#"{"realtimeInput":{"text":"hi"}}"#,
            r#"{"realtime_input":{"activity_end":{}}}"#,
            r#"{"toolResponse":{"functionResponses":[]}}"#,
        ] {
            assert!(asks_for_answer(asks.as_bytes()), "{asks}");
        }
        for quiet in [
            "",
            "[]",
            r#"{"clientContent":{"turns":[]}}"#,
            r#"{"realtimeInput":{"audio":{"data":"AAAA"}}}"#,
            "{\"setup\":{}}",
        ] {
            assert!(!asks_for_answer(quiet.as_bytes()), "{quiet}");
        }
    }

    #[test]
    fn a_turn_says_when_it_speaks_and_ends_and_what_it_used() {
        let said = |json: &str| LiveMessage::of_server(json.as_bytes());
        let speaks = LiveMessage { speaks: true, ..LiveMessage::default() };
        assert_eq!(said(r#"{"serverContent":{"modelTurn":{"parts":[{"text":"a"}]}}}"#), speaks);
        assert_eq!(said(r#"{"toolCall":{"functionCalls":[]}}"#), speaks);
        let end = said(
            r#"{"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":30,"responseTokenCount":12,"thoughtsTokenCount":3,
            "toolUsePromptTokenCount":5,"totalTokenCount":50,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10},
            {"modality":"AUDIO","tokenCount":20}],"responseTokensDetails":[{"modality":"AUDIO","tokenCount":12}]}}"#,
        );
        let usage = end.usage.expect("counts");
        assert!(end.ends && !end.speaks && !usage.has_pictures, "{end:?}");
        assert_eq!((usage.tokens.input, usage.tokens.output), (Some(35), Some(15)));
        assert_eq!(usage.audio, AudioTokens { input: 20, cached_input: 0, output: 12 });
        let film = said(
            r#"{"usageMetadata":{"promptTokenCount":3,"promptTokensDetails":[{"modality":"VIDEO","tokenCount":3}]}}"#,
        );
        let usage = film.usage.expect("counts");
        assert_eq!((usage.tokens.output, usage.has_pictures), (Some(0), true));
        for nothing in ["", "[]", "{}", r#"{"setupComplete":{}}"#, r#"{"usageMetadata":{}}"#, r#"{"serverContent":7}"#]
        {
            assert_eq!(said(nothing), LiveMessage::default(), "{nothing}");
        }
    }
}

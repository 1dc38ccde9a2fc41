//! Transcripts as an engine writes them: three words for each second that it heard.
//!
//! The words are made up: nothing is heard but how long the sound plays.

use serde_json::{Value, json};
use tokrate_core::{Channel, Span, Usage};
use tokrate_sim::Emitted;

/// Tokens of a second of sound that is heard: what encoders of speech make of it.
const HEARD_A_SECOND: f64 = 50.0;
/// Words of a second.
const SAID_A_SECOND: f64 = 3.0;

/// Tokens of sound as a prompt, and of its transcript.
pub(crate) fn tokens_of(plays: Span) -> (u32, u32) {
    let of = |rate: f64| (plays.as_secs_f64() * rate).ceil().max(1.0) as u32;
    (of(HEARD_A_SECOND), of(SAID_A_SECOND))
}

/// The answer in one piece.
pub(crate) fn document(text: &str, plays: Span, usage: Option<Usage>, is_verbose: bool) -> Value {
    let mut answer = json!({"text": text, "usage": usage.map(usage_of)});
    if is_verbose {
        let seconds = plays.as_secs_f64();
        answer["task"] = "transcribe".into();
        answer["language"] = "english".into();
        answer["duration"] = seconds.into();
        answer["segments"] = json!([{"id": 0, "start": 0.0, "end": seconds, "text": text}]);
    }
    answer
}

fn usage_of(usage: Usage) -> Value {
    let (input, output) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
    json!({"type": "tokens", "input_tokens": input, "output_tokens": output, "total_tokens": input + output})
}

/// Writes a transcript as server-sent events.
#[derive(Default)]
pub(crate) struct TranscriptWriter {
    text: String,
    usage: Option<Usage>,
}

impl TranscriptWriter {
    /// Appends an emission, possibly nothing.
    pub(crate) fn write(&mut self, what: Emitted, bytes: &mut Vec<u8>) {
        let event = match what {
            Emitted::Text { channel: Channel::Answer, words } => {
                let begun = self.text.len();
                words.push_to(&mut self.text);
                json!({"type": "transcript.text.delta", "delta": &self.text[begun..]})
            }
            Emitted::Usage(usage) => return self.usage = Some(usage),
            Emitted::Done => {
                json!({"type": "transcript.text.done", "text": self.text, "usage": self.usage.map(usage_of)})
            }
            Emitted::Failed { message } => json!({"type": "error", "error": {"message": message}}),
            _ => return,
        };
        bytes.extend_from_slice(format!("data: {event}\n\n").as_bytes());
    }
}

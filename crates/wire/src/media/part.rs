//! Sound as a part of a message, in the dialects that have one: OpenAI's chat completions and Gemini.

use crate::base64::decode_beginning;
use crate::dialect::Dialect;
use crate::sound::wav_length;
use serde_json::{Value, json};
use tokrate_core::{Content, Span};

/// How far into a file its format is looked for (bytes).
const MAX_LOOKED_AT: usize = 64 * 1024;

/// A WAV file (base64) as a part of a message; `None` where the dialect has no place for sound.
pub fn sound_part(dialect: Dialect, wave: &str) -> Option<Content> {
    let part = match dialect {
        Dialect::OpenAiChat => json!({"type": "input_audio", "input_audio": {"data": wave, "format": "wav"}}),
        Dialect::Gemini => json!({"inlineData": {"mimeType": "audio/wav", "data": wave}}),
        _ => return None,
    };
    Some(Content::Other(part.to_string()))
}

/// How long the sound of a part lasts, if it is one and its format is known; the bytes of its data beside it.
pub fn sound_of(part: &str) -> Option<(Span, usize)> {
    // Most parts are none.
    if !part.contains("audio") {
        return None;
    }
    let part: Value = serde_json::from_str(part).ok()?;
    let inline = part.get("inlineData").or_else(|| part.get("inline_data"));
    let data = part.pointer("/input_audio/data").or_else(|| inline?.get("data"))?.as_str()?;
    let beginning = decode_beginning(data, MAX_LOOKED_AT);
    Some((wav_length(&beginning, (data.len() / 4 * 3) as u64)?, data.len()))
}

//! Speech, as OpenAI has it: the engine says a text at its pace, 80 ms of sound a token.
//!
//! Invariant: sound goes out as its tokens are made, and the truth log holds every write of it.

use super::answer::{call_id, faults_of};
use super::{ErrorResponse, Routes, with_type};
use crate::body::{AnswerBody, BodyWriter, Stream};
use crate::driver::Incoming;
use crate::sound::{SoundWriter, tokens_of};
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::Value;
use std::rc::Rc;
use tokrate_core::SoundFormat;
use tokrate_net::server::{BufferedBody, ConnectionTap, RequestBody};
use tokrate_sim::SimRequest;
use tokrate_tokens::{Encoding, count};
use tokrate_wire::Dialect;
use tokrate_wire::speech::SoundDelivery;

/// Longest text: OpenAI's limit (characters).
const MAX_CHARACTERS: usize = 4_096;

/// Whether a path is that of speech.
pub(super) fn is_path(path: &str) -> bool {
    matches!(path, "/v1/audio/speech" | "/audio/speech")
}

struct Asked {
    model: String,
    input: String,
    format: SoundFormat,
    delivery: SoundDelivery,
}

impl Routes {
    pub(super) async fn speech(
        &self,
        head: &Parts,
        body: RequestBody,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        self.check_call(head)?;
        let BufferedBody { bytes, share: _share } = self.read_body(body).await?;
        let received_at = tap.read_at();
        let asked = asked(&bytes).map_err(|message| ErrorResponse(StatusCode::BAD_REQUEST, message))?;
        let served = self.provider_of(head, &asked.model)?;
        let request = SimRequest {
            input_tokens: u32::try_from(count(Encoding::O200kBase, &asked.input)).unwrap_or(u32::MAX),
            content_tokens: Some(tokens_of(&asked.input)),
            include_usage: true,
            faults: faults_of(served, &head.headers)?,
            ..SimRequest::default()
        };
        let incoming = Incoming { id: call_id(head), dialect: Dialect::OpenAiChat, received_at, stream: true, request };
        let handle = match served.hand_over(incoming) {
            Ok(handle) => handle,
            Err(refused) => return Ok(*refused),
        };
        let writer = SoundWriter::new(asked.format, asked.delivery);
        let content_type = writer.content_type();
        let stream = Stream::new(handle, tap, BodyWriter::Sound(writer), Rc::clone(&self.shared.scratch));
        Ok(with_type(content_type, AnswerBody::Stream(Box::new(stream))))
    }
}

fn asked(body: &[u8]) -> Result<Asked, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("failed to read the body: {error}"))?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let input = text("input").filter(|input| !input.is_empty()).ok_or("`input` is missing")?;
    if input.chars().count() > MAX_CHARACTERS {
        return Err(format!("`input` has more than {MAX_CHARACTERS} characters"));
    }
    let named = text("response_format").unwrap_or("mp3");
    let format = SoundFormat::ALL.into_iter().find(|format| format.name() == named);
    let format =
        format.ok_or_else(|| format!("`response_format` is pcm, wav, mp3, opus, flac or aac, not `{named}`"))?;
    let delivery = match text("stream_format") {
        None | Some("audio") => SoundDelivery::Body,
        Some("sse") => SoundDelivery::Events,
        Some(other) => return Err(format!("`stream_format` is audio or sse, not `{other}`")),
    };
    Ok(Asked { model: text("model").unwrap_or_default().to_owned(), input: input.to_owned(), format, delivery })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_what_is_not_known_is_refused() {
        let read = |body: &str| asked(body.as_bytes()).map(|asked| (asked.format, asked.delivery));
        assert_eq!(read(r#"{"input": "a"}"#), Ok((SoundFormat::Mp3, SoundDelivery::Body)));
        let events = r#"{"input": "a", "response_format": "pcm", "stream_format": "sse"}"#;
        assert_eq!(read(events), Ok((SoundFormat::Pcm, SoundDelivery::Events)));
        for (body, why) in [
            ("{}", "`input` is missing"),
            (r#"{"input": ""}"#, "`input` is missing"),
            (r#"{"input": "a", "response_format": "ogg"}"#, "not `ogg`"),
            (r#"{"input": "a", "stream_format": "ws"}"#, "not `ws`"),
            ("[", "failed to read the body"),
        ] {
            assert!(read(body).is_err_and(|error| error.contains(why)), "{body}");
        }
        let long = format!("{{\"input\": \"{}\"}}", "a".repeat(4_097));
        assert!(read(&long).is_err_and(|error| error.contains("4096 characters")));
    }
}

//! Transcription, as OpenAI has it: a form with a WAV file, whose length alone decides what the engine does.
//!
//! Invariant: what an engine gets was read whole, and its length is known.

use super::answer::{call_id, collect, faults_of};
use super::{ErrorResponse, Routes, with_type};
use crate::body::{AnswerBody, BodyWriter, Stream};
use crate::driver::Incoming;
use crate::transcript::{TranscriptWriter, document, tokens_of};
use crate::truth::AnswerEnd;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};
use std::rc::Rc;
use tokrate_core::Span;
use tokrate_net::server::{BufferedBody, ConnectionTap, RequestBody};
use tokrate_sim::SimRequest;
use tokrate_wire::Dialect;
use tokrate_wire::sound::Wav;
use tokrate_wire::transcription::form_fields;

/// Whether a path is that of transcription.
pub(super) fn is_path(path: &str) -> bool {
    matches!(path, "/v1/audio/transcriptions" | "/audio/transcriptions")
}

#[derive(PartialEq, Eq, Debug)]
struct Asked {
    model: String,
    plays: Span,
    is_verbose: bool,
    stream: bool,
}

impl Routes {
    pub(super) async fn transcription(
        &self,
        head: &Parts,
        body: RequestBody,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        self.check_call(head)?;
        let BufferedBody { bytes, share: _share } = self.read_body(body).await?;
        let received_at = tap.read_at();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Asked { model, plays, is_verbose, stream } =
            asked(content_type, &bytes).map_err(|message| ErrorResponse(StatusCode::BAD_REQUEST, message))?;
        let served = self.provider_of(head, &model)?;
        let (input_tokens, written) = tokens_of(plays);
        let request = SimRequest {
            input_tokens,
            content_tokens: Some(written),
            include_usage: true,
            faults: faults_of(served, &head.headers)?,
            ..SimRequest::default()
        };
        let incoming = Incoming { id: call_id(head), dialect: Dialect::OpenAiChat, received_at, stream, request };
        let handle = match served.hand_over(incoming) {
            Ok(handle) => handle,
            Err(refused) => return Ok(*refused),
        };
        if stream {
            let writer = BodyWriter::Transcript(TranscriptWriter::default());
            let stream = Stream::new(handle, tap, writer, Rc::clone(&self.shared.scratch));
            return Ok(with_type("text/event-stream", AnswerBody::Stream(Box::new(stream))));
        }
        let Some(collected) = collect(&handle).await? else {
            return Ok(with_type("application/json", AnswerBody::Broken));
        };
        handle.end(AnswerEnd::Complete);
        let answer = document(collected.text(), plays, collected.usage(), is_verbose).to_string();
        Ok(with_type("application/json", AnswerBody::Plain(Some(Bytes::from(answer)))))
    }
}

fn asked(content_type: &str, body: &[u8]) -> Result<Asked, String> {
    let fields = form_fields(content_type, body).ok_or("the body is no form (`multipart/form-data`)")?;
    let field = |name: &str| fields.iter().find(|field| field.name == name).map(|field| field.value);
    let text = |name: &str| field(name).and_then(|value| std::str::from_utf8(value).ok());
    let file = field("file").ok_or("`file` is missing")?;
    let plays = Wav::read(file).map_err(|why| format!("failed to read `file`: {why}"))?.plays;
    let is_verbose = match text("response_format") {
        None | Some("json") => false,
        Some("verbose_json") => true,
        Some(other) => return Err(format!("`response_format` is json or verbose_json, not `{other}`")),
    };
    let stream = matches!(text("stream"), Some("true" | "True" | "1"));
    Ok(Asked { model: text("model").unwrap_or_default().to_owned(), plays, is_verbose, stream })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_wire::sound::wav_head;
    use tokrate_wire::transcription::{FORM_CONTENT_TYPE, TranscriptForm, TranscriptionRequest};

    #[test]
    fn what_is_asked_for_is_read_and_what_is_no_sound_is_refused() {
        let sound = [wav_head(16_000, Some(8_000)).as_slice(), &[0; 16_000]].concat();
        let form = |file: &[u8], extra: &[(String, String)]| {
            let (file_name, form) = ("a.wav", TranscriptForm::VerboseJson);
            asked(
                FORM_CONTENT_TYPE,
                &TranscriptionRequest { model: "m", file, file_name, form, stream: true, extra }.encode(),
            )
        };
        let expected = Asked { model: "m".to_owned(), plays: Span::from_millis(500), is_verbose: true, stream: true };
        assert_eq!(form(&sound, &[]), Ok(expected));
        assert!(form(b"ID3", &[]).is_err_and(|error| error.contains("failed to read `file`")));
        let text = [("response_format".to_owned(), "\"srt\"".to_owned())];
        assert!(form(&sound, &text).is_err_and(|error| error.contains("not `srt`")));
        assert!(asked("application/json", b"{}").is_err_and(|error| error.contains("no form")));
        assert_eq!(tokens_of(Span::from_secs(10)), (500, 30));
    }
}

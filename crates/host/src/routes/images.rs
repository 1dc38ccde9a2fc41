//! Images from a prompt, as OpenAI has it: the engine paints one after another, as long as its law says for their pixels and steps.
//!
//! Invariant: an image goes out when its last step is done, an image that is not yet done with the step that shows it, and the truth log
//! holds every write of them.

use super::answer::{call_id, collect, faults_of};
use super::{ErrorResponse, Routes, with_type};
use crate::body::{AnswerBody, BodyWriter, FullBody, Stream};
use crate::driver::Incoming;
use crate::pictures::PictureWriter;
use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::Value;
use std::rc::Rc;
use tokrate_net::server::{BufferedBody, ConnectionTap, RequestBody};
use tokrate_sim::SimRequest;
use tokrate_tokens::{Encoding, count};
use tokrate_wire::Dialect;
use tokrate_wire::media::MAX_SIDE;

/// Most images of a request: OpenAI's limit.
const MAX_IMAGES: u64 = 10;
/// Most images before each is done: OpenAI's limit.
const MAX_PARTIAL: u64 = 3;
/// Steps of an image where the request does not say: as many diffusion models take.
const DEFAULT_STEPS: u64 = 20;
const MAX_STEPS: u64 = 1_000;
/// Names under which servers take the steps: vLLM-Omni and SGLang, stable-diffusion.cpp and others.
const STEPS: [&str; 3] = ["num_inference_steps", "steps", "sample_steps"];
const DEFAULT_SIDE: u32 = 1_024;

/// Whether a path is that of images.
pub(super) fn is_path(path: &str) -> bool {
    matches!(path, "/v1/images/generations" | "/images/generations")
}

/// What a request asks for.
#[derive(Clone, PartialEq, Debug)]
struct Asked {
    model: String,
    prompt: String,
    images: u32,
    size: (u32, u32),
    steps: u64,
    /// Images before each is done, in a stream.
    partial: Option<u32>,
    is_linked: bool,
}

impl Routes {
    pub(super) async fn images(
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
        let pieces = 1 + asked.partial.unwrap_or(0);
        let law = &served.provider.persona.law;
        let tokens = u32::try_from(count(Encoding::O200kBase, &asked.prompt)).unwrap_or(u32::MAX);
        let request = SimRequest {
            input_tokens: tokens,
            content_tokens: Some(asked.images * pieces),
            painting: Some(law.painting_time(asked.size, asked.steps, pieces)),
            faults: faults_of(served, &head.headers)?,
            ..SimRequest::default()
        };
        let stream = asked.partial.is_some();
        let incoming = Incoming { id: call_id(head), dialect: Dialect::OpenAiChat, received_at, stream, request };
        let handle = match served.hand_over(incoming) {
            Ok(handle) => handle,
            Err(refused) => return Ok(*refused),
        };
        let writer = PictureWriter::new(asked.size, pieces, handle.number(), asked.is_linked, tokens);
        if stream {
            let stream = Stream::new(handle, tap, BodyWriter::Pictures(writer), Rc::clone(&self.shared.scratch));
            return Ok(with_type("text/event-stream", AnswerBody::Stream(Box::new(stream))));
        }
        let Some(collected) = collect(&handle).await? else {
            return Ok(with_type("application/json", AnswerBody::Broken));
        };
        let bytes = Bytes::from(writer.whole(asked.images));
        let body = match collected.write(bytes.len()) {
            Some(write) => AnswerBody::FullBody(Some(FullBody { bytes, write, handle, tap })),
            None => AnswerBody::Plain(Some(bytes)),
        };
        Ok(with_type("application/json", body))
    }
}

fn asked(body: &[u8]) -> Result<Asked, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("failed to read the body: {error}"))?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let number = |name: &str, otherwise: u64, most: u64| match body.get(name) {
        None | Some(Value::Null) => Ok(otherwise),
        Some(value) => value
            .as_u64()
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| format!("`{name}` is a number from 1 to {most}")),
    };
    let prompt = text("prompt").filter(|prompt| !prompt.is_empty()).ok_or("`prompt` is missing")?;
    let size = match text("size") {
        None | Some("auto") => (DEFAULT_SIDE, DEFAULT_SIDE),
        Some(size) => size_of(size).ok_or_else(|| format!("`size` is WIDTHxHEIGHT, not `{size}`"))?,
    };
    let is_linked = match text("response_format") {
        None | Some("b64_json") => false,
        Some("url") => true,
        Some(other) => return Err(format!("`response_format` is b64_json or url, not `{other}`")),
    };
    let steps = STEPS.into_iter().find(|name| body.get(name).is_some_and(|value| !value.is_null()));
    let steps = steps.map_or(Ok(DEFAULT_STEPS), |name| number(name, DEFAULT_STEPS, MAX_STEPS))?;
    let is_streamed = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let partial = match body.get("partial_images").and_then(Value::as_u64) {
        Some(partial) if partial > MAX_PARTIAL => return Err(format!("`partial_images` is at most {MAX_PARTIAL}")),
        partial => is_streamed.then_some(partial.unwrap_or(0) as u32),
    };
    Ok(Asked {
        model: text("model").unwrap_or_default().to_owned(),
        prompt: prompt.to_owned(),
        images: number("n", 1, MAX_IMAGES)? as u32,
        size,
        steps,
        partial,
        is_linked,
    })
}

fn size_of(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let side = |text: &str| text.parse().ok().filter(|side| (1..=MAX_SIDE).contains(side));
    Some((side(width)?, side(height)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_what_is_not_known_is_refused() {
        let read = |body: &str| asked(body.as_bytes());
        let plain = read(r#"{"prompt": "a cat"}"#).expect("a request");
        assert_eq!((plain.images, plain.size, plain.steps, plain.partial), (1, (1024, 1024), 20, None));
        let all = r#"{"prompt": "a", "n": 2, "size": "64x32", "steps": 5, "stream": true, "partial_images": 3, "response_format": "url"}"#;
        let all = read(all).expect("a request");
        assert_eq!((all.images, all.size, all.steps, all.partial, all.is_linked), (2, (64, 32), 5, Some(3), true));
        for (body, why) in [
            ("{}", "`prompt` is missing"),
            (r#"{"prompt": "a", "n": 11}"#, "`n` is a number from 1 to 10"),
            (r#"{"prompt": "a", "size": "64"}"#, "not `64`"),
            (r#"{"prompt": "a", "stream": true, "partial_images": 4}"#, "at most 3"),
            (r#"{"prompt": "a", "response_format": "png"}"#, "not `png`"),
            ("[", "failed to read the body"),
        ] {
            assert!(read(body).is_err_and(|error| error.contains(why)), "{body}");
        }
    }
}

//! Images that are made from a prompt: OpenAI's `/images/generations` as vLLM-Omni, SGLang, LocalAI and stable-diffusion.cpp's server have it
//! too, in one piece or as a stream with images that are not yet done.
//!
//! Invariant: of an image only its beginning is decoded, to read its size; any chunking of the same bytes gives the same events.

use crate::frame::{DEFAULT_MAX_EVENT_BYTES, Frame, SseFramer};
use crate::media::picture_size_of_base64;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use tokrate_core::{Anomaly, EventBatch, EventKind, FailureKind, Tick, Usage};

/// What is asked of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImageOptions {
    /// Its width and height in pixels; not sent if absent.
    pub size: Option<(u32, u32)>,
    /// Images that are to come before each is done, in a stream; `None` asks for one piece.
    pub partial: Option<u32>,
}

/// The body of a request for so many images of a prompt.
pub(crate) fn body(model: &str, prompt: &str, images: u32, options: ImageOptions) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("prompt".to_owned(), json!(prompt));
    body.insert("n".to_owned(), json!(images));
    if let Some((width, height)) = options.size {
        body.insert("size".to_owned(), json!(format!("{width}x{height}")));
    }
    if let Some(partial) = options.partial {
        body.insert("stream".to_owned(), json!(true));
        body.insert("partial_images".to_owned(), json!(partial));
    }
    body
}

/// Reads one answer, whichever way it comes: a server that knows no stream answers in one piece.
#[derive(Clone, Debug)]
pub(crate) struct ImageDecoder {
    /// Events, once the answer is known to be a stream.
    framer: Option<SseFramer>,
    /// The beginning of the body, or all of it.
    body: Vec<u8>,
    images: u32,
    has_model: bool,
}

impl ImageDecoder {
    pub fn new() -> ImageDecoder {
        ImageDecoder { framer: None, body: Vec::new(), images: 0, has_model: false }
    }

    pub fn push(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        if self.framer.is_none() {
            self.body.extend_from_slice(bytes);
            let Some(first) = self.body.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            // A document begins with a brace, an event with a name, a comment or a byte order mark.
            if matches!(first, b'{' | b'[') {
                return;
            }
            self.framer = Some(SseFramer::new(DEFAULT_MAX_EVENT_BYTES));
            let held = std::mem::take(&mut self.body);
            return self.push_events(at, &held, out);
        }
        self.push_events(at, bytes, out);
    }

    fn push_events(&mut self, at: Tick, bytes: &[u8], out: &mut EventBatch) {
        let Some(mut framer) = self.framer.take() else { return };
        framer.push(bytes, &mut |frame: Frame<'_>| self.on_frame(at, frame, out));
        self.framer = Some(framer);
    }

    /// The body has ended: how many images came, or `None` of what is no answer.
    pub fn end(&mut self, at: Tick, out: &mut EventBatch) -> Option<u32> {
        if let Some(mut framer) = self.framer.take() {
            framer.end(&mut |frame: Frame<'_>| self.on_frame(at, frame, out));
            return Some(self.images).filter(|images| *images > 0);
        }
        let body = std::mem::take(&mut self.body);
        match serde_json::from_slice::<Document<'_>>(&body) {
            _ if body.is_empty() => None,
            Ok(document) => self.on_document(at, document, out),
            Err(_) => {
                out.push(at, EventKind::Anomaly(Anomaly::Unreadable));
                None
            }
        }
    }

    fn on_frame(&mut self, at: Tick, frame: Frame<'_>, out: &mut EventBatch) {
        let data = match frame {
            Frame::Event { data, .. } if data.is_empty() || data == b"[DONE]" => return,
            Frame::Event { data, .. } => data,
            Frame::Unfinished { .. } => return out.push(at, EventKind::Anomaly(Anomaly::UnfinishedEvent)),
            Frame::TooLarge { .. } => return out.push(at, EventKind::Anomaly(Anomaly::EventTooLarge)),
            Frame::Corrupt => return out.push(at, EventKind::Anomaly(Anomaly::Malformed)),
        };
        let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else {
            return out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        };
        self.on_model(at, event.model.as_deref(), out);
        if let Some(usage) = event.usage {
            out.push(at, EventKind::Usage(usage.read()));
        }
        if let Some(error) = event.error {
            let message = out.store(error.message.as_deref().unwrap_or("the server names no reason"));
            return out.push(at, EventKind::Failed { kind: FailureKind::ServerError, message, retry_after: None });
        }
        let kind = event.kind.as_deref().unwrap_or_default();
        let is_partial = kind.ends_with(".partial_image");
        let image = Image { b64_json: event.b64_json, url: event.url };
        if is_partial || kind.ends_with(".completed") || image.is_there() {
            self.on_image(at, &image, is_partial, out);
        }
    }

    fn on_document(&mut self, at: Tick, document: Document<'_>, out: &mut EventBatch) -> Option<u32> {
        self.on_model(at, document.model.as_deref(), out);
        if let Some(usage) = document.usage {
            out.push(at, EventKind::Usage(usage.read()));
        }
        let Some(images) = document.data else {
            out.push(at, EventKind::Anomaly(Anomaly::Malformed));
            return None;
        };
        images.iter().for_each(|image| self.on_image(at, image, false, out));
        Some(self.images)
    }

    fn on_model(&mut self, at: Tick, model: Option<&str>, out: &mut EventBatch) {
        if let Some(model) = model.filter(|model| !model.is_empty() && !self.has_model) {
            self.has_model = true;
            let model = out.store(model);
            out.push(at, EventKind::Model(model));
        }
    }

    /// An image without anything in it is none.
    fn on_image(&mut self, at: Tick, image: &Image<'_>, is_partial: bool, out: &mut EventBatch) {
        if !image.is_there() {
            return out.push(at, EventKind::Anomaly(Anomaly::Malformed));
        }
        let size = image.b64_json.as_deref().and_then(picture_size_of_base64);
        out.push(at, EventKind::Image { pixels: size.map_or(0, |size| size.pixels()), is_partial });
        self.images += u32::from(!is_partial);
    }
}

/// An answer in one piece.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<Vec<Image<'a>>>,
    usage: Option<Tokens>,
}

/// An event of a stream.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    b64_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
    usage: Option<Tokens>,
    #[serde(borrow)]
    error: Option<ServerSays<'a>>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    b64_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
}

impl Image<'_> {
    fn is_there(&self) -> bool {
        [&self.b64_json, &self.url].into_iter().flatten().any(|text| !text.is_empty())
    }
}

#[derive(Deserialize)]
struct ServerSays<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Clone, Copy)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Tokens {
    fn read(self) -> Usage {
        Usage { input: self.input_tokens, output: self.output_tokens, ..Usage::default() }.plausible()
    }
}

#[cfg(test)]
mod tests;

//! The request to a lane, made from the client's: spliced in the same dialect, translated to another.
//!
//! Invariant: in the same dialect nothing changes but the model and the request for usage; of the client's headers only
//! those named here or by the lane are forwarded.

use crate::respond::error::ErrorResponse;
use crate::state::plan::{Alias, Lane, Plan};
use crate::upstream::body::BodyReader;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::borrow::Cow;
use std::cell::RefCell;
use tokrate_core::Tick;
use tokrate_net::Outgoing;
use tokrate_route::LaneId;
use tokrate_wire::{
    AnswerTranslator, Decoder, Dialect, RequestPeek, Routed, Shape, UsageInStream, encode_request, translate_request,
};

/// Client headers that matter to providers and carry no credentials.
const FORWARDED: [&str; 5] =
    ["anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key", "x-stainless-helper-method"];

/// Copies of the headers that a lane of the alias may receive, without the buffer that they arrived in.
pub(crate) fn forwarded_headers(headers: &HeaderMap, plan: &Plan, alias: &Alias) -> HeaderMap {
    let mut kept = HeaderMap::new();
    let named = alias.lanes.iter().flat_map(|lane| plan.lane(*lane).config.forward_headers.iter());
    for name in FORWARDED.into_iter().chain(named.map(String::as_str)) {
        let Some(value) = headers.get(name) else { continue };
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            kept.insert(name, value);
        }
    }
    kept
}

/// A rough average of English text.
const BYTES_PER_TOKEN: u64 = 4;

/// A call as its client made it.
pub(crate) struct CallRequest {
    /// `None` for embeddings.
    pub routed: Option<Routed>,
    pub shape: Shape,
    pub peek: RequestPeek,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The call's id, and its wall time (seconds since 1970) for translated responses.
    pub id: String,
    pub created: u64,
    /// Translations for lanes of another dialect, made before any lane is tried.
    pub translated: RefCell<Vec<(LaneId, TranslatedRequest)>>,
}

/// A request in another dialect.
pub(crate) struct TranslatedRequest {
    body: Bytes,
    include_usage: bool,
}

impl CallRequest {
    /// The client's dialect.
    pub fn dialect(&self) -> Dialect {
        self.routed.as_ref().map_or(Dialect::OpenAiChat, |routed| routed.dialect)
    }

    /// Whether the client wants a stream.
    pub fn is_stream(&self) -> bool {
        self.shape != Shape::Whole
    }

    /// A rough estimate from the size of the request.
    pub fn prompt_tokens(&self) -> u64 {
        self.body.len() as u64 / BYTES_PER_TOKEN
    }

    /// The client's limit of output tokens per answer.
    pub fn output_limit(&self) -> Option<u64> {
        self.peek.lengths.output_limit(self.dialect())
    }

    /// Answers that the client wants at once.
    pub fn answers(&self) -> u64 {
        self.peek.lengths.answers(self.dialect())
    }

    /// The endpoint of a lane that can carry the request.
    pub fn endpoint_for(&self, lane: &Lane, now: Tick) -> Result<usize, ErrorResponse> {
        match &self.routed {
            None => {
                let none = |why| ErrorResponse::bad_request(format!("lane {} {why}", lane.config.name));
                match (lane.config.embeddings, lane.openai_endpoint()) {
                    (Some(false), _) => Err(none("has `embeddings = false`")),
                    (_, None) => Err(none("has no OpenAI endpoint")),
                    (None, Some(_)) if lane.health.lacks_embeddings(now) => Err(none("has no path for embeddings")),
                    (_, Some(endpoint)) => Ok(endpoint),
                }
            }
            Some(routed) => {
                let endpoint = lane.endpoint(Some(routed.dialect));
                self.translate_for(routed, lane, endpoint)?;
                Ok(endpoint)
            }
        }
    }

    /// Translates the request for a lane of another dialect.
    fn translate_for(&self, routed: &Routed, lane: &Lane, endpoint: usize) -> Result<(), ErrorResponse> {
        let endpoint = &lane.endpoints[endpoint].config;
        if endpoint.dialect == routed.dialect {
            return Ok(());
        }
        let translated = translate_request(routed, endpoint.dialect, &lane.config.model, &self.body);
        let mut translated = translated.map_err(|error| ErrorResponse::untranslatable(&error))?;
        let body = match endpoint.max_tokens_field && translated.request.max_output_tokens.is_some() {
            true => {
                translated.request.legacy_max_tokens = true;
                encode_request(endpoint.dialect, &translated.request)
            }
            false => translated.body,
        };
        let translated = TranslatedRequest { body: Bytes::from(body), include_usage: translated.include_usage };
        self.translated.borrow_mut().push((lane.id, translated));
        Ok(())
    }

    /// What is sent to an endpoint, and how its response of at most `answer_bytes` is read.
    pub fn upstream_request(
        &self,
        lane: &Lane,
        endpoint: usize,
        answer_bytes: u64,
    ) -> Result<(Outgoing, BodyReader), String> {
        let endpoint = &lane.endpoints[endpoint].config;
        let model = &lane.config.model;
        let target = |path: &str| endpoint.base.path_with(path);
        let headers = self.headers_for(lane, endpoint.dialect, &endpoint.headers);
        let outgoing = |path, body| Outgoing { method: Method::POST, path, headers, body };
        let Some(routed) = &self.routed else {
            let body = self.spliced(model, false);
            return Ok((outgoing(target("/embeddings"), body), BodyReader::Opaque));
        };
        // The array form exists for Gemini's own clients only.
        let shape =
            if endpoint.dialect == routed.dialect || self.shape == Shape::Whole { self.shape } else { Shape::Stream };
        let path = target(&endpoint.dialect.path(model, shape));
        if endpoint.dialect == routed.dialect {
            let knows_usage = routed.dialect.usage_in_stream() == UsageInStream::OnRequest;
            let adds_usage =
                knows_usage && self.shape == Shape::Stream && !self.peek.include_usage && !endpoint.no_stream_options;
            // Gemini has the model in the path.
            let body = match routed.model {
                Some(_) => self.body.clone(),
                None => self.spliced(model, adds_usage),
            };
            // An image or a minute of audio is one event of many MiB.
            let event_bytes = usize::try_from(answer_bytes).unwrap_or(usize::MAX);
            let decoder = Box::new(Decoder::new(routed.dialect, self.shape).with_max_event_bytes(event_bytes));
            let filter = adds_usage.then(Box::default);
            return Ok((outgoing(path, body), BodyReader::PassThrough { decoder, filter }));
        }
        let translated = self.translated.borrow();
        let Some((_, TranslatedRequest { body, include_usage })) = translated.iter().find(|(of, _)| *of == lane.id)
        else {
            return Err(format!("lane {} does not speak {}", lane.config.name, routed.dialect.name()));
        };
        let CallRequest { id, created, shape, .. } = self;
        let (from, to) = (endpoint.dialect, routed.dialect);
        let translator = AnswerTranslator::new(from, to, *shape, id, model, *created, *include_usage);
        Ok((outgoing(path, body.clone()), BodyReader::Translated(Box::new(translator))))
    }

    fn spliced(&self, model: &str, include_usage: bool) -> Bytes {
        match self.peek.splice(&self.body, Some(model), include_usage) {
            Cow::Borrowed(_) => self.body.clone(),
            Cow::Owned(body) => Bytes::from(body),
        }
    }

    fn headers_for(&self, lane: &Lane, dialect: Dialect, own: &HeaderMap) -> HeaderMap {
        let mut headers = own.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(dialect.content_type(self.shape)));
        for (name, value) in &self.headers {
            let is_named = || lane.config.forward_headers.iter().any(|named| named == name.as_str());
            if (FORWARDED.contains(&name.as_str()) || is_named()) && !own.contains_key(name) {
                headers.insert(name.clone(), value.clone());
            }
        }
        headers
    }
}

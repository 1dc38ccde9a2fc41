//! The request to a lane, made from the client's: spliced in the same dialect, translated to another.
//!
//! Invariant: in the same dialect nothing changes but the model, the request for usage and, for an answer that is put back into
//! one piece here, that it is asked for as a stream; of the client's headers only those named here or by the lane are forwarded.

use crate::api::{Api, ApiRoute, BodyKind, Form, Meter, without_version};
use crate::config::Instructed;
use crate::respond::error::ErrorResponse;
use crate::state::plan::{Alias, Lane, Plan};
use crate::upstream::body::BodyReader;
use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use tokrate_core::{Channel, ChatRequest, FinishReason, Message, Role, Tick, Usage};
use tokrate_net::{Outgoing, StreamedUpload};
use tokrate_route::LaneId;
use tokrate_wire::{
    Answer, AnswerAssembler, AnswerTranslator, Changes, Decoder, Dialect, Encoder, Piece, RequestPeek, Routed, Shape,
    UsageInStream, encode_request, translate_request,
};

/// Client headers that matter to providers and carry no credentials.
const FORWARDED: [&str; 5] =
    ["anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key", "x-stainless-helper-method"];

/// Whether a lane gets a header of the client's.
fn is_forwarded(name: &HeaderName, lane: &Lane) -> bool {
    // Of the handshake of a WebSocket the lane gets its own, without the key that a client may have put there.
    let is_of_hop = name.as_str().starts_with("sec-websocket-") || *name == CONNECTION || *name == UPGRADE;
    !is_of_hop
        && (FORWARDED.contains(&name.as_str())
            || lane.config.forward_headers.iter().any(|named| named == name.as_str()))
}

/// Copies of the headers that a lane of the alias may receive, without the buffer that they arrived in.
pub(crate) fn forwarded_headers(headers: &HeaderMap, plan: &Plan, alias: &Alias) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if alias.lanes.iter().any(|lane| is_forwarded(name, plan.lane(*lane)))
            && let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_str().as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            kept.append(name, value);
        }
    }
    kept
}

/// A rough average of English text.
const BYTES_PER_TOKEN: u64 = 4;

/// A call as its client made it.
pub(crate) struct CallRequest {
    /// What text is asked for in; `None` for what passes by the table of paths.
    pub routed: Option<Routed>,
    pub api: Option<ApiRequest>,
    pub shape: Shape,
    pub peek: RequestPeek,
    pub headers: HeaderMap,
    /// The session that the client names.
    pub session: Option<String>,
    pub body: Bytes,
    /// The call's id, and its wall time (seconds since 1970) for translated responses.
    pub id: String,
    pub created: u64,
    /// Translations for lanes of another dialect, made before any lane is tried.
    pub translated: RefCell<Vec<(LaneId, TranslatedRequest)>>,
    /// Whether an answer in one piece can be put together from a stream of the client's own dialect.
    pub can_assemble: OnceCell<bool>,
    /// The lanes of its alias whose models are told how to write.
    pub instructed: Option<Instructed>,
}

/// A call that passes byte for byte by the table of paths.
pub(crate) struct ApiRequest {
    pub route: ApiRoute,
    /// As the client sent it, boundary included.
    pub content_type: Option<HeaderValue>,
    /// What was found in a form.
    pub form: Option<Form>,
    /// What follows the body, of a form whose files are not held.
    pub rest: RefCell<Option<StreamedUpload>>,
    /// The headers by which a lane is asked for a WebSocket.
    pub handshake: Option<HeaderMap>,
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Destination {
    /// Index of the lane's endpoint.
    pub endpoint: usize,
    /// Whether the answer is asked for piece by piece.
    pub streamed: bool,
}

/// A request in another dialect.
pub(crate) struct TranslatedRequest {
    streamed: bool,
    body: Bytes,
    include_usage: bool,
}

impl CallRequest {
    /// The client's dialect.
    pub fn dialect(&self) -> Dialect {
        match (&self.routed, self.api()) {
            (Some(routed), _) => routed.dialect,
            (None, Some(api)) => api.family.dialect(),
            (None, None) => Dialect::OpenAiChat,
        }
    }

    /// The row of the table of paths, for what passes by it.
    pub fn api(&self) -> Option<&'static Api> {
        self.api.as_ref().map(|request| request.route.api)
    }

    /// Takes what follows the body; it can be sent once.
    pub fn take_rest(&self) -> Option<StreamedUpload> {
        self.api.as_ref()?.rest.take()
    }

    /// What the model of a lane is told about how to write, and what is made of its answer.
    pub fn instructed_for(&self, lane: &Lane) -> Option<&Instructed> {
        self.instructed.as_ref().filter(|instructed| instructed.lanes.contains(&lane.config.name))
    }

    /// A whole answer with this text, as the client asked for it.
    pub fn encoded_answer(&self, text: &str, usage: Option<Usage>, model: &str) -> Vec<u8> {
        let (dialect, finish) = (self.dialect(), FinishReason::Stop);
        let id = [dialect.id_prefix(), &self.id].concat();
        let mut encoder = Encoder::new(dialect, self.shape, &id, model, self.created);
        if !self.is_stream() {
            let answer = Answer { reasoning: "", answer: text, tools: &[], finish, usage, timings: None };
            return encoder.encode_whole(&answer);
        }
        let is_counted = self.peek.include_usage || dialect.usage_in_stream() != UsageInStream::OnRequest;
        let usage = usage.filter(|_| is_counted).map(Piece::Usage);
        let text = Piece::Text { channel: Channel::Answer, text };
        let pieces = [Some(Piece::Role), Some(text), Some(Piece::Finish(finish)), usage, Some(Piece::Done)];
        let mut out = Vec::new();
        pieces.iter().flatten().for_each(|piece| encoder.encode_event(piece, &mut out));
        out
    }

    /// Whether something follows the body that is not held, or did before it was sent.
    pub fn has_rest(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.rest.borrow().is_some())
    }

    /// Whether it opens a WebSocket.
    pub fn opens_session(&self) -> bool {
        self.api().is_some_and(|api| api.upgrades)
    }

    /// Whether the client wants a stream.
    pub fn is_stream(&self) -> bool {
        self.shape != Shape::Whole
    }

    /// Whether the request begins a job that goes on after it was answered, and is billed whoever asks for its result.
    pub fn is_background(&self) -> bool {
        self.dialect() == Dialect::OpenAiResponses && self.routed.is_some() && self.peek.background
    }

    /// A rough estimate from the size of the request.
    pub fn prompt_tokens(&self) -> u64 {
        if self.api().is_some_and(|api| api.meter != Meter::Input) {
            return 0;
        }
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

    /// The endpoint of a lane that can carry the request, and whether it is asked for a stream. `has_alternative`: whether another
    /// lane of the call could take over from it.
    pub fn destination(&self, lane: &Lane, has_alternative: bool, now: Tick) -> Result<Destination, ErrorResponse> {
        let Some(routed) = &self.routed else {
            let served = self.api().ok_or_else(|| "nothing is asked for".to_owned());
            let endpoint = served.and_then(|api| lane.serves(api, now)).map_err(ErrorResponse::bad_request)?;
            return Ok(Destination { endpoint, streamed: self.is_stream() });
        };
        let endpoint = lane.endpoint(Some(routed.dialect));
        let streamed = self.is_stream() || has_alternative && self.may_be_streamed(routed, lane, endpoint, now);
        self.translate_for(routed, lane, Destination { endpoint, streamed })?;
        Ok(Destination { endpoint, streamed })
    }

    /// Whether an answer that the client wants in one piece can be asked for as a stream of this endpoint, without losing
    /// anything.
    fn may_be_streamed(&self, routed: &Routed, lane: &Lane, endpoint: usize, now: Tick) -> bool {
        let endpoint = &lane.endpoints[endpoint].config;
        let lacks_usage = endpoint.no_stream_options && endpoint.dialect.usage_in_stream() == UsageInStream::OnRequest;
        if !lane.config.stream_whole || lacks_usage || self.answers() > 1 || !lane.health.may_stream_whole(now) {
            return false;
        }
        let can_assemble = || AnswerAssembler::for_request(routed.dialect, &self.body, 0).is_some();
        endpoint.dialect != routed.dialect || *self.can_assemble.get_or_init(can_assemble)
    }

    /// Translates the request for a lane of another dialect.
    fn translate_for(&self, routed: &Routed, lane: &Lane, to: Destination) -> Result<(), ErrorResponse> {
        let (endpoint, streamed) = (&lane.endpoints[to.endpoint].config, to.streamed);
        let instructed = self.instructed_for(lane);
        if endpoint.dialect == routed.dialect && instructed.is_none() {
            return Ok(());
        }
        let translated = translate_request(routed, endpoint.dialect, &lane.config.model, &self.body);
        let mut translated = translated.map_err(|error| ErrorResponse::untranslatable(&error))?;
        let is_converted = streamed && !translated.request.stream;
        let is_older = endpoint.max_tokens_field && translated.request.max_output_tokens.is_some();
        let body = match is_converted || is_older || instructed.is_some() {
            true => {
                if let Some(instructed) = instructed {
                    tell(&mut translated.request, &instructed.text, endpoint.dialect)
                        .map_err(|what| ErrorResponse::bad_request(format!("lane {} {what}", lane.config.name)))?;
                }
                translated.request.stream |= streamed;
                translated.request.include_usage |= is_converted;
                translated.request.legacy_max_tokens = is_older;
                encode_request(endpoint.dialect, &translated.request)
            }
            false => translated.body,
        };
        let include_usage = translated.include_usage;
        let translated = TranslatedRequest { streamed, body: Bytes::from(body), include_usage };
        self.translated.borrow_mut().push((lane.id, translated));
        Ok(())
    }

    /// What is sent to an endpoint, and how its response of at most `answer_bytes` is read.
    pub fn upstream_request(
        &self,
        lane: &Lane,
        to: Destination,
        answer_bytes: u64,
    ) -> Result<(Outgoing, BodyReader), String> {
        let endpoint = &lane.endpoints[to.endpoint].config;
        let model = &lane.config.model;
        let target = |path: &str| endpoint.base.path_with(path);
        let shape = self.upstream_shape(endpoint.dialect, to.streamed);
        let headers = self.headers_for(lane, endpoint.dialect.content_type(shape), &endpoint.headers);
        let outgoing = |path, body| Outgoing { method: Method::POST, path, headers, body };
        let Some(routed) = &self.routed else {
            let asked = self.api.as_ref().ok_or("nothing is asked for")?;
            let path = asked.route.upstream_path(model, endpoint.dialect);
            let has_setup = asked.route.api.has_setup();
            let path = if has_setup { without_version(&endpoint.base).path_with(&path) } else { target(&path) };
            let headers = self.api_headers(asked, lane, &endpoint.headers);
            let outgoing = Outgoing { method: asked.route.method(), path, headers, body: self.api_body(asked, model) };
            let reader = match &asked.handshake {
                Some(handshake) => BodyReader::upgrade(handshake),
                None => BodyReader::Opaque { streamed: to.streamed },
            };
            return Ok((outgoing, reader));
        };
        let path = target(&endpoint.dialect.path(model, shape));
        let is_converted = to.streamed && !self.is_stream();
        if endpoint.dialect != routed.dialect || self.instructed_for(lane).is_some() {
            let (body, include_usage) = self.translation(routed, lane, to)?;
            let CallRequest { id, created, shape, .. } = self;
            let (from, client) = (endpoint.dialect, routed.dialect);
            let translator = AnswerTranslator::new(from, client, *shape, id, model, *created, include_usage);
            let translator = if is_converted { translator.with_streamed_upstream() } else { translator };
            return Ok((outgoing(path, body), BodyReader::Translated(Box::new(translator))));
        }
        let knows_usage = routed.dialect.usage_in_stream() == UsageInStream::OnRequest;
        let adds_usage =
            knows_usage && shape == Shape::Stream && !self.peek.include_usage && !endpoint.no_stream_options;
        // Gemini has the model in the path.
        let body = match routed.model {
            Some(_) => self.body.clone(),
            None => self.spliced(&Changes { model: Some(model), stream: is_converted, include_usage: adds_usage }),
        };
        // An image or a minute of audio is one event of many MiB.
        let event_bytes = usize::try_from(answer_bytes).unwrap_or(usize::MAX);
        let decoder = Box::new(Decoder::new(routed.dialect, shape).with_max_event_bytes(event_bytes));
        let assembler = is_converted.then(|| AnswerAssembler::for_request(routed.dialect, &self.body, event_bytes));
        let reader = match assembler.flatten() {
            Some(assembler) => BodyReader::Assembled { decoder, assembler: Box::new(assembler) },
            None => BodyReader::PassThrough { decoder, filter: adds_usage.then(Box::default) },
        };
        Ok((outgoing(path, body), reader))
    }

    /// The body of what passes by the table: the lane's model in place of the client's, and nothing else changed.
    fn api_body(&self, asked: &ApiRequest, model: &str) -> Bytes {
        let names_model = self.peek.model(&self.body).is_some();
        match &asked.form {
            Some(form) => Bytes::from(form.with_model(&self.body, model)),
            None if asked.route.api.body == BodyKind::None => Bytes::new(),
            None if asked.route.is_gemini() => with_gemini_model(&self.body, model),
            None if names_model => self.spliced(&Changes { model: Some(model), ..Changes::default() }),
            None => self.body.clone(),
        }
    }

    fn api_headers(&self, asked: &ApiRequest, lane: &Lane, own: &HeaderMap) -> HeaderMap {
        let accept = if self.is_stream() { "*/*" } else { "application/json" };
        let mut headers = self.headers_for(lane, accept, own);
        if let Some(handshake) = &asked.handshake {
            headers.remove(ACCEPT);
            handshake.iter().for_each(|(name, value)| drop(headers.insert(name.clone(), value.clone())));
        }
        match (&asked.content_type, &asked.form) {
            (Some(content_type), Some(_)) => drop(headers.insert(CONTENT_TYPE, content_type.clone())),
            _ if asked.route.api.body == BodyKind::None => drop(headers.remove(CONTENT_TYPE)),
            _ => {}
        }
        headers
    }

    /// The shape in which an answer is asked for.
    fn upstream_shape(&self, dialect: Dialect, streamed: bool) -> Shape {
        let is_own = self.routed.as_ref().is_some_and(|routed| routed.dialect == dialect);
        match (streamed, self.shape) {
            (false, _) => Shape::Whole,
            // The array form exists for Gemini's own clients only.
            (true, Shape::Array) if is_own => Shape::Array,
            (true, _) => Shape::Stream,
        }
    }

    /// The translated body, and whether the client asked for token counts. A lane that refused to stream is translated for
    /// once more.
    fn translation(&self, routed: &Routed, lane: &Lane, to: Destination) -> Result<(Bytes, bool), String> {
        let find = || {
            let translated = self.translated.borrow();
            let is_wanted =
                |(of, request): &&(LaneId, TranslatedRequest)| *of == lane.id && request.streamed == to.streamed;
            translated.iter().find(is_wanted).map(|(_, request)| (request.body.clone(), request.include_usage))
        };
        if let Some(known) = find() {
            return Ok(known);
        }
        self.translate_for(routed, lane, to).map_err(|error| error.message)?;
        find().ok_or_else(|| format!("lane {} does not speak {}", lane.config.name, routed.dialect.name()))
    }

    fn spliced(&self, changes: &Changes<'_>) -> Bytes {
        match self.peek.splice(&self.body, changes) {
            Cow::Borrowed(_) => self.body.clone(),
            Cow::Owned(body) => Bytes::from(body),
        }
    }

    fn headers_for(&self, lane: &Lane, accept: &'static str, own: &HeaderMap) -> HeaderMap {
        let mut headers = own.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        for name in self.headers.keys().filter(|name| is_forwarded(name, lane) && !own.contains_key(*name)) {
            headers.remove(name);
            for value in self.headers.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        headers
    }
}

/// Puts instructions before all others of a request.
fn tell(request: &mut ChatRequest, text: &str, dialect: Dialect) -> Result<(), String> {
    if matches!(dialect, Dialect::OpenAiCompletions | Dialect::LlamaCompletion) {
        return Err(format!("speaks {}, in which a model cannot be told how to write", dialect.name()));
    }
    request.messages.insert(0, Message::text(Role::System, text));
    Ok(())
}

/// A body of Gemini's that names models beside the path, with the lane's in their places; as it came where it names none.
fn with_gemini_model(body: &Bytes, model: &str) -> Bytes {
    let name = Value::from(format!("models/{model}"));
    let Ok(mut read) = serde_json::from_slice::<Value>(body) else { return body.clone() };
    let mut named = 0;
    let mut put = |object: &mut Value| {
        if let Some(known) = object.get_mut("model") {
            *known = name.clone();
            named += 1;
        }
    };
    put(&mut read);
    read.get_mut("requests").and_then(Value::as_array_mut).into_iter().flatten().for_each(&mut put);
    if let Some(request) = read.get_mut("generateContentRequest") {
        put(request);
    }
    if named == 0 { body.clone() } else { Bytes::from(read.to_string()) }
}

//! What is answered to which request.
//!
//! It refuses to know time and sockets. Invariant: every answer but a health check is JSON or a stream of events.

use crate::body::{AnswerBody, Collected, Scratch, Stream, Whole};
use crate::config::HostConfig;
use crate::driver::{Driver, Incoming, Ticket};
use crate::prompt::PromptCounter;
use crate::truth::AnswerEnd;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tokrate_core::ChatRequest;
use tokrate_net::server::{BodyError, ConnectionTap, Handler, RequestBody, read_body};
use tokrate_sim::{Faults, Outcome, Refusal, SimRequest};
use tokrate_wire::{Dialect, Encoder, Shape, decode_request, encode_refusal};

const REQUEST_ID: &str = "x-request-id";
const FAULT: &str = "x-tokrate-fault";
const DIALECT: Dialect = Dialect::OpenAiChat;
const CHAT: &str = "/chat/completions";

/// Answers the requests of all connections.
pub(crate) struct Routes {
    pub config: HostConfig,
    pub driver: Rc<Driver>,
    pub prompts: PromptCounter,
    pub scratch: Rc<Scratch>,
}

/// An answer with an error status: the status and what is said about it.
struct Refused(StatusCode, String);

impl Handler for Routes {
    type Body = AnswerBody;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<AnswerBody> {
        let id = request.headers().get(REQUEST_ID).cloned();
        let mut response = match self.route(request, tap).await {
            Ok(response) => response,
            Err(Refused(status, message)) => refuse(status, &message),
        };
        if let Some(id) = id {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }
}

impl Routes {
    async fn route(
        &self,
        request: Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, Refused> {
        let path = request.uri().path();
        let path = path.strip_prefix("/v1").unwrap_or(path);
        if path == "/health" {
            return Ok(with_type("text/plain", AnswerBody::Plain(Some(Bytes::from_static(b"ok\n")))));
        }
        self.check_key(request.headers())?;
        match (path, request.method()) {
            ("/models", &Method::GET) => Ok(self.models()),
            (path, &Method::POST) if path == CHAT => self.chat(request, tap).await,
            (path, _) if path == "/models" || path == CHAT => {
                Err(Refused(StatusCode::METHOD_NOT_ALLOWED, format!("{path} is not asked with this method")))
            }
            (path, _) => {
                let message = format!("there is no {path}; try POST /v1/chat/completions or GET /v1/models");
                Err(Refused(StatusCode::NOT_FOUND, message))
            }
        }
    }

    fn check_key(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(key) = &self.config.api_key else { return Ok(()) };
        match headers.get(AUTHORIZATION) {
            Some(shown) if key.is_shown_by(shown.as_bytes()) => Ok(()),
            Some(_) => Err(Refused(StatusCode::UNAUTHORIZED, "the API key is wrong".to_owned())),
            None => Err(Refused(StatusCode::UNAUTHORIZED, "the API key is missing".to_owned())),
        }
    }

    fn models(&self) -> Response<AnswerBody> {
        let list = serde_json::json!({
            "object": "list",
            "data": [{"id": self.config.model, "object": "model", "created": 0, "owned_by": "tokrate"}],
        });
        with_type("application/json", AnswerBody::Plain(Some(Bytes::from(list.to_string()))))
    }

    async fn chat(
        &self,
        request: Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, Refused> {
        if self.driver.open() >= self.config.requests_most {
            return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, "too many open requests".to_owned()));
        }
        let (head, body) = request.into_parts();
        let faults = self.faults_of(&head.headers)?;
        let body = read_body(body, self.config.request_bytes_most).await.map_err(|error| match error {
            BodyError::TooLarge => {
                let most = self.config.request_bytes_most;
                Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"))
            }
            BodyError::Broken => Refused(StatusCode::BAD_REQUEST, "the body broke off".to_owned()),
        })?;
        let received_at = tap.read_at();
        let chat = decode_request(&DIALECT.into(), &body)
            .map_err(|error| Refused(StatusCode::BAD_REQUEST, format!("failed to {error}")))?;
        if self.config.only_model && chat.model != self.config.model {
            return Err(Refused(StatusCode::NOT_FOUND, format!("there is no model `{}`", chat.model)));
        }
        if chat.max_output_tokens == Some(0) {
            return Err(Refused(StatusCode::BAD_REQUEST, "max_tokens must be at least 1".to_owned()));
        }
        let ChatRequest { stream, include_usage, max_output_tokens, messages, .. } = chat;
        let incoming = Incoming {
            id: head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned),
            received_at,
            stream,
            request: SimRequest {
                input_tokens: self.prompts.count(messages).await,
                output_tokens: max_output_tokens,
                // A whole answer always carries usage.
                include_usage: include_usage || !stream,
                include_timings: false,
                faults,
            },
        };
        let ticket = match Rc::clone(&self.driver).submit(incoming) {
            Ok(ticket) => ticket,
            Err(refusal) => return Ok(refuse_as(&refusal)),
        };
        let id = format!("chatcmpl-sim-{}", ticket.id().0);
        let encoder = Encoder::new(
            DIALECT,
            if stream { Shape::Stream } else { Shape::Whole },
            &id,
            &self.config.model,
            self.driver.clock().wall_seconds(),
        );
        if stream {
            let stream = Stream::new(ticket, tap, encoder, Rc::clone(&self.scratch));
            let mut response = with_type("text/event-stream", AnswerBody::Stream(Box::new(stream)));
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            return Ok(response);
        }
        whole(ticket, tap, &encoder).await
    }

    /// The faults that a request asks for in place of the host's.
    fn faults_of(&self, headers: &HeaderMap) -> Result<Option<Box<Faults>>, Refused> {
        let mut faults = None;
        for value in headers.get_all(FAULT) {
            let text = value.to_str().unwrap_or_default();
            for fault in text.split(',') {
                let faults = faults.get_or_insert_with(|| Box::new(self.config.faults.clone()));
                let set = faults.set(fault.trim());
                set.map_err(|error| Refused(StatusCode::BAD_REQUEST, format!("failed to {error}")))?;
            }
        }
        Ok(faults)
    }
}

/// Waits for the end of an answer and gives it in one piece.
async fn whole(ticket: Ticket, tap: Rc<ConnectionTap>, encoder: &Encoder) -> Result<Response<AnswerBody>, Refused> {
    let mut collected = Collected::default();
    poll_fn(|context| {
        ticket.take(|emission| {
            collected.add(emission);
            true
        });
        if collected.outcome.is_some() || !ticket.is_waiting(context) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    if collected.outcome == Some(Outcome::Disconnected) {
        ticket.end(AnswerEnd::Disconnected);
        return Ok(with_type("application/json", AnswerBody::Broken));
    }
    if let Some(message) = collected.failed {
        ticket.end(AnswerEnd::Complete);
        return Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned()));
    }
    let (bytes, write) = collected.finish(encoder);
    let body = match write {
        Some(write) => AnswerBody::Whole(Some(Whole { bytes, write, ticket, tap })),
        None => AnswerBody::Plain(Some(bytes)),
    };
    Ok(with_type("application/json", body))
}

fn refuse_as(refusal: &Refusal) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = refuse(status, refusal.message);
    if let Some(wait) = refusal.retry_after {
        // Whole seconds, rounded up: the header knows nothing finer.
        let seconds = wait.as_nanos().div_ceil(1_000_000_000);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn refuse(status: StatusCode, message: &str) -> Response<AnswerBody> {
    let body = encode_refusal(DIALECT, status.as_u16(), message);
    let mut response = with_type("application/json", AnswerBody::Plain(Some(Bytes::from(body))));
    *response.status_mut() = status;
    response
}

fn with_type(content_type: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

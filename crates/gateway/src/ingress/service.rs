//! The door: who asks, for what, and whether they may; then the call, and the head of its answer.
//!
//! It refuses to know lanes' answers. Invariant: nothing is sent to a provider before the client was admitted and its
//! request read whole and understood; every refusal is in the client's dialect.

use super::models;
use crate::admission::credentials::Credentials;
use crate::admission::open_call::OpenCall;
use crate::dispatch::start::begin;
use crate::dispatch::worker::Worker;
use crate::ingress::route::Route;
use crate::respond::answer::respond;
use crate::respond::body::CallBody;
use crate::respond::error::ErrorResponse;
use crate::settle::account::{Account, AdmittedKey};
use crate::state::plan::{Alias, Plan};
use crate::upstream::request::{CallRequest, forwarded_headers};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::{Span, Tick};
use tokrate_net::server::{BodyError, ConnectionTap, Handler, HeldBody, RequestBody, hold_body};
use tokrate_route::Mode;
use tokrate_wire::{Dialect, Glance, Routed, Shape, encode_refusal};

/// Bodies up to this size are copied, so that they do not hold on to a buffer many times as large.
const MAX_COPIED_BYTES: usize = 16 * 1024;
/// Header by which a client chooses the mode of one call.
const MODE_HEADER: &str = "x-tokrate-mode";

/// Answers the clients of one thread.
pub(crate) struct Ingress {
    pub worker: Rc<Worker>,
}

impl Handler for Ingress {
    type Body = CallBody;

    async fn handle(self: Rc<Self>, request: http::Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<CallBody> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let route = Route::of(&head.method, path);
        let dialect = error_dialect(&route, &head.headers);
        match self.answer(route, head, body, &tap).await {
            Ok(response) => response,
            Err(error) => error.into_response(dialect).map(CallBody::plain),
        }
    }

    fn send_limit(&self) -> Option<Span> {
        Some(self.worker.plan().limits.send)
    }

    fn refusal(&self, head: &http::Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        let path = head.uri().path_and_query().map_or("/", |path| path.as_str());
        let dialect = error_dialect(&Route::of(head.method(), path), head.headers());
        encode_refusal(dialect, status.as_u16(), message)
    }
}

impl Ingress {
    async fn answer(
        &self,
        route: Route,
        head: Parts,
        body: RequestBody,
        tap: &Rc<ConnectionTap>,
    ) -> Result<Response<CallBody>, ErrorResponse> {
        let plan = self.worker.plan();
        let (credentials, routed) = match admit(&plan, route, &head, tap)? {
            Admission::Respond(response) => return Ok(response.map(CallBody::plain)),
            Admission::Call(credentials, routed) => (credentials, routed),
        };
        // Whether there is room for the call at all is known before any of its body is held.
        let key = credentials.admit_call(&self.worker.shared)?;
        let mut open = OpenCall::begin(&self.worker.shared, plan.limits.calls)?;
        let HeldBody { bytes: body, share } = self.read_request(&plan, &head.headers, body).await?;
        open.hold(share);
        let received = ReceivedRequest { credentials, key, routed, head, body, at: tap.read_at() };
        let (account, mode) = self.account(plan, received, open)?;
        let call = begin(&self.worker, account, mode, tap)?;
        respond(call).await
    }

    /// Reads a request's body within its limits.
    async fn read_request(
        &self,
        plan: &Plan,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Result<HeldBody, ErrorResponse> {
        let most = plan.limits.request_bytes;
        let too_large = || {
            let message =
                format!("the request has more than {most} bytes; the gateway's limit `request_bytes` allows more");
            ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let reading = hold_body(body, most, &self.worker.shared.bodies);
        match tokio::time::timeout(plan.limits.body.as_duration(), reading).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(BodyError::TooLarge)) => Err(too_large()),
            Ok(Err(BodyError::Broken)) => Err(ErrorResponse::bad_request("the request broke off")),
            Ok(Err(BodyError::TooSlow)) => {
                Err(ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, "the request came too slowly"))
            }
            Ok(Err(BodyError::NoRoom)) => Err(ErrorResponse::without_room()),
            Err(_) => {
                let message = format!("the request did not come within {}", plan.limits.body);
                Err(ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }

    /// Understands a request that came whole, and counts it against its key's limits.
    pub fn account(
        &self,
        plan: Arc<Plan>,
        received: ReceivedRequest,
        open: OpenCall,
    ) -> Result<(Account, Mode), ErrorResponse> {
        let ReceivedRequest { credentials, key, routed, head, body, at } = received;
        let (request, alias) = self.understand(&plan, routed, &head.headers, body)?;
        credentials.check_alias(&alias.name)?;
        let mode = mode_for(&head.headers, alias.mode)?;
        // What was parsed holds on to the connection's buffer; an open call shall not.
        drop(head);
        Ok((Account::new(Arc::clone(&self.worker.shared), plan, alias, request, key, at, open), mode))
    }

    /// Looks over a request's body and finds what it asks for.
    fn understand(
        &self,
        plan: &Plan,
        routed: Option<Routed>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(CallRequest, Arc<Alias>), ErrorResponse> {
        let peek = Glance::of(&body).map_err(|error| ErrorResponse::bad_request(error.to_string()))?;
        let in_path = routed.as_ref().and_then(|routed| routed.model.as_deref());
        let in_body = peek.model(&body);
        let name =
            in_path.or(in_body.as_deref()).ok_or_else(|| ErrorResponse::bad_request("the field `model` is missing"))?;
        let alias = plan.aliases.get(name).cloned().ok_or_else(|| {
            ErrorResponse::new(
                StatusCode::NOT_FOUND,
                format!("the model `{name}` does not exist here; GET /v1/models lists those that do"),
            )
        })?;
        let id = self.worker.shared.next_call();
        let created = self.worker.shared.clock.wall_seconds();
        let shape = shape_of(routed.as_ref(), &peek);
        drop(in_body);
        let headers = forwarded_headers(headers, plan, &alias);
        let body = if body.len() <= MAX_COPIED_BYTES { Bytes::copy_from_slice(&body) } else { body };
        let translated = RefCell::default();
        Ok((CallRequest { routed, shape, peek, headers, body, id, created, translated }, alias))
    }
}

/// A request that came whole.
pub(crate) struct ReceivedRequest {
    pub credentials: Credentials,
    pub key: Option<AdmittedKey>,
    pub routed: Option<Routed>,
    pub head: Parts,
    pub body: Bytes,
    /// When its last byte was read.
    pub at: Tick,
}

/// What a request's head comes to.
pub(crate) enum Admission {
    /// The gateway answers by itself.
    Respond(Response<Bytes>),
    /// A call, once its body has come; without a dialect, one for embeddings.
    Call(Credentials, Option<Routed>),
}

/// The dialect in which a client is told of errors.
pub(crate) fn error_dialect(route: &Route, headers: &HeaderMap) -> Dialect {
    match route {
        // Whoever shows Anthropic's version reads Anthropic's errors.
        Route::Generate(_) => route.dialect(),
        _ if models::is_anthropic(headers) => Dialect::Anthropic,
        _ => route.dialect(),
    }
}

/// Looks at who asks, and for what.
pub(crate) fn admit(plan: &Plan, route: Route, head: &Parts, tap: &ConnectionTap) -> Result<Admission, ErrorResponse> {
    if route == Route::Health {
        return Ok(Admission::Respond(Response::new(Bytes::from_static(b"ok\n"))));
    }
    let credentials = Credentials::of(plan, head)?;
    if credentials.is_authenticated() {
        tap.shows_key();
    }
    match route {
        Route::Generate(routed) => Ok(Admission::Call(credentials, Some(routed))),
        Route::Embeddings => Ok(Admission::Call(credentials, None)),
        Route::Models => Ok(Admission::Respond(models::models(plan, &credentials, &head.headers))),
        Route::Model(name) => models::model(plan, &credentials, &head.headers, &name).map(Admission::Respond),
        Route::MethodNotAllowed => Err(ErrorResponse::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed on this path; use POST, or GET for lists",
        )),
        Route::Health | Route::NotFound => {
            let said = "there is nothing at this path; docs/gateway.md lists what is";
            Err(ErrorResponse::new(StatusCode::NOT_FOUND, said))
        }
    }
}

/// How the answer is asked for.
fn shape_of(routed: Option<&Routed>, peek: &Glance) -> Shape {
    let Some(routed) = routed else { return Shape::Whole };
    let unsaid = matches!(routed.dialect, Dialect::OllamaChat | Dialect::OllamaGenerate);
    let said = if peek.stream.unwrap_or(unsaid) { Shape::Stream } else { Shape::Whole };
    routed.shape.unwrap_or(said)
}

/// The mode that a client chose for one call, else that of the name it asked for.
fn mode_for(headers: &HeaderMap, usual: Mode) -> Result<Mode, ErrorResponse> {
    let Some(value) = headers.get(MODE_HEADER) else { return Ok(usual) };
    let read = value.to_str().ok().and_then(crate::config::parse_mode);
    read.ok_or_else(|| {
        ErrorResponse::bad_request(format!("{MODE_HEADER} is `off`, `hedge`, `race` or `race=N` with N up to 16"))
    })
}

//! The door: who asks, for what, and whether they may; then the call, and the head of its answer.
//!
//! It refuses to know lanes' answers. Invariant: nothing is sent to a provider before the client was admitted and its
//! request read whole and understood; every refusal is in the client's dialect.

use super::models as listing;
use crate::admission::credentials::Shown;
use crate::admission::open_call::OpenCall;
use crate::dispatch::start::begin;
use crate::dispatch::worker::Worker;
use crate::ingress::route::Ask;
use crate::respond::answer::respond;
use crate::respond::body::CallBody;
use crate::respond::error::Denied;
use crate::settle::account::{Account, KeyUse};
use crate::state::plan::{Alias, Plan};
use crate::upstream::request::{Request, kept_headers};
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
const COPIED_BYTES_MOST: usize = 16 * 1024;
/// Header by which a client chooses the mode of one call.
const MODE_HEADER: &str = "x-tokrate-mode";

/// Answers the clients of one thread.
pub(crate) struct Front {
    pub worker: Rc<Worker>,
}

impl Handler for Front {
    type Body = CallBody;

    async fn handle(self: Rc<Self>, request: http::Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<CallBody> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let ask = Ask::of(&head.method, path);
        let dialect = dialect_of_errors(&ask, &head.headers);
        match self.answer(ask, head, body, &tap).await {
            Ok(response) => response,
            Err(denied) => denied.into_response(dialect).map(CallBody::plain),
        }
    }

    fn send_limit(&self) -> Option<Span> {
        Some(self.worker.plan().limits.send)
    }

    fn refusal(&self, head: &http::Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        let path = head.uri().path_and_query().map_or("/", |path| path.as_str());
        let dialect = dialect_of_errors(&Ask::of(head.method(), path), head.headers());
        encode_refusal(dialect, status.as_u16(), message)
    }
}

impl Front {
    async fn answer(
        &self,
        ask: Ask,
        head: Parts,
        body: RequestBody,
        tap: &Rc<ConnectionTap>,
    ) -> Result<Response<CallBody>, Denied> {
        let plan = self.worker.plan();
        let (shown, routed) = match admit(&plan, ask, &head, tap)? {
            Admitted::Answered(response) => return Ok(response.map(CallBody::plain)),
            Admitted::Call(shown, routed) => (shown, routed),
        };
        // Whether there is room for the call at all is known before any of its body is held.
        let key = shown.enter(&self.worker.house)?;
        let mut open = OpenCall::begin(&self.worker.house, plan.limits.calls)?;
        let HeldBody { bytes: body, share } = self.read_request(&plan, &head.headers, body).await?;
        open.hold(share);
        let came = Came { shown, key, routed, head, body, at: tap.read_at() };
        let (account, mode) = self.account(plan, came, open)?;
        let call = begin(&self.worker, account, mode, tap)?;
        respond(call).await
    }

    /// Reads a request's body within its limits.
    async fn read_request(&self, plan: &Plan, headers: &HeaderMap, body: RequestBody) -> Result<HeldBody, Denied> {
        let most = plan.limits.request_bytes;
        let too_large = || {
            let message =
                format!("the request has more than {most} bytes; the gateway's limit `request_bytes` allows more");
            Denied::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let reading = hold_body(body, most, &self.worker.house.bodies);
        match tokio::time::timeout(plan.limits.body.as_duration(), reading).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(BodyError::TooLarge)) => Err(too_large()),
            Ok(Err(BodyError::Broken)) => Err(Denied::bad_request("the request broke off")),
            Ok(Err(BodyError::TooSlow)) => Err(Denied::new(StatusCode::REQUEST_TIMEOUT, "the request came too slowly")),
            Ok(Err(BodyError::NoRoom)) => Err(Denied::without_room()),
            Err(_) => {
                let message = format!("the request did not come within {}", plan.limits.body);
                Err(Denied::new(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }

    /// Understands a request that came whole, and counts it against its key's limits.
    pub fn account(&self, plan: Arc<Plan>, came: Came, open: OpenCall) -> Result<(Account, Mode), Denied> {
        let Came { shown, key, routed, head, body, at } = came;
        let (request, alias) = self.understand(&plan, routed, &head.headers, body)?;
        shown.check_alias(&alias.name)?;
        let mode = mode_for(&head.headers, alias.mode)?;
        // What was parsed holds on to the connection's buffer; an open call shall not.
        drop(head);
        Ok((Account::new(Arc::clone(&self.worker.house), plan, alias, request, key, at, open), mode))
    }

    /// Looks over a request's body and finds what it asks for.
    fn understand(
        &self,
        plan: &Plan,
        routed: Option<Routed>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(Request, Arc<Alias>), Denied> {
        let glance = Glance::of(&body).map_err(|error| Denied::bad_request(error.to_string()))?;
        let in_path = routed.as_ref().and_then(|routed| routed.model.as_deref());
        let in_body = glance.model(&body);
        let name = in_path.or(in_body.as_deref()).ok_or_else(|| Denied::bad_request("the field `model` is missing"))?;
        let alias = plan.aliases.get(name).cloned().ok_or_else(|| {
            Denied::new(
                StatusCode::NOT_FOUND,
                format!("the model `{name}` does not exist here; GET /v1/models lists those that do"),
            )
        })?;
        let id = self.worker.house.next_call();
        let created = self.worker.house.clock.wall_seconds();
        let shape = shape_of(routed.as_ref(), &glance);
        drop(in_body);
        let headers = kept_headers(headers, plan, &alias);
        let body = if body.len() <= COPIED_BYTES_MOST { Bytes::copy_from_slice(&body) } else { body };
        let translated = RefCell::default();
        Ok((Request { routed, shape, glance, headers, body, id, created, translated }, alias))
    }
}

/// A request that came whole.
pub(crate) struct Came {
    pub shown: Shown,
    pub key: Option<KeyUse>,
    pub routed: Option<Routed>,
    pub head: Parts,
    pub body: Bytes,
    /// When its last byte was read.
    pub at: Tick,
}

/// What a request's head comes to.
pub(crate) enum Admitted {
    /// The gateway answers by itself.
    Answered(Response<Bytes>),
    /// A call, once its body has come; without a dialect, one for embeddings.
    Call(Shown, Option<Routed>),
}

/// The dialect in which a client is told of errors.
pub(crate) fn dialect_of_errors(ask: &Ask, headers: &HeaderMap) -> Dialect {
    match ask {
        // Whoever shows Anthropic's version reads Anthropic's errors.
        Ask::Answer(_) => ask.dialect(),
        _ if listing::is_anthropic(headers) => Dialect::Anthropic,
        _ => ask.dialect(),
    }
}

/// Looks at who asks, and for what.
pub(crate) fn admit(plan: &Plan, ask: Ask, head: &Parts, tap: &ConnectionTap) -> Result<Admitted, Denied> {
    if ask == Ask::Health {
        return Ok(Admitted::Answered(Response::new(Bytes::from_static(b"ok\n"))));
    }
    let shown = Shown::of(plan, head)?;
    if shown.is_key() {
        tap.shows_key();
    }
    match ask {
        Ask::Answer(routed) => Ok(Admitted::Call(shown, Some(routed))),
        Ask::Embeddings => Ok(Admitted::Call(shown, None)),
        Ask::Models => Ok(Admitted::Answered(listing::models(plan, &shown, &head.headers))),
        Ask::Model(name) => listing::model(plan, &shown, &head.headers, &name).map(Admitted::Answered),
        Ask::WrongMethod => Err(Denied::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed on this path; use POST, or GET for lists",
        )),
        Ask::Health | Ask::Unknown => {
            let said = "there is nothing at this path; docs/gateway.md lists what is";
            Err(Denied::new(StatusCode::NOT_FOUND, said))
        }
    }
}

/// How the answer is asked for.
fn shape_of(routed: Option<&Routed>, glance: &Glance) -> Shape {
    let Some(routed) = routed else { return Shape::Whole };
    let unsaid = matches!(routed.dialect, Dialect::OllamaChat | Dialect::OllamaGenerate);
    let said = if glance.stream.unwrap_or(unsaid) { Shape::Stream } else { Shape::Whole };
    routed.shape.unwrap_or(said)
}

/// The mode that a client chose for one call, else that of the name it asked for.
fn mode_for(headers: &HeaderMap, usual: Mode) -> Result<Mode, Denied> {
    let Some(value) = headers.get(MODE_HEADER) else { return Ok(usual) };
    let read = value.to_str().ok().and_then(crate::config::mode_of);
    read.ok_or_else(|| {
        Denied::bad_request(format!("{MODE_HEADER} is `off`, `hedge`, `race` or `race=N` with N up to 16"))
    })
}

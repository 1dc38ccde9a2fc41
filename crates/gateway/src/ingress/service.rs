//! Serves the clients of one worker thread: reads a request, admits it, starts its call.
//!
//! Invariant: nothing is sent to a provider before the client was admitted and its request read whole and parsed; every
//! error is in the client's dialect.

use super::handshake::check_handshake;
use super::objects::check_files;
use super::parts::{alias_of, session, without_buffer};
use super::role::role_of;
use super::streamed::{StreamedForm, read_beginning, streamed_length};
use super::{models, pass};
use crate::admission::credentials::Credentials;
use crate::admission::open_call::OpenCall;
use crate::api::{ApiRoute, Form};
use crate::dispatch::follow_up::{StoredResponse, follow_up};
use crate::dispatch::start::start;
use crate::dispatch::worker::Worker;
use crate::ingress::route::Route;
use crate::respond::answer::respond;
use crate::respond::body::CallBody;
use crate::respond::error::ErrorResponse;
use crate::settle::account::{Account, AdmittedKey};
use crate::settle::stats::Operation;
use crate::state::plan::{Alias, Key, Plan};
use crate::trace::active::{ActiveTrace, Beginning};
use crate::trace::finished::RefusedSpan;
use crate::upstream::request::{CallRequest, forwarded_headers};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::{Span, Tick};
use tokrate_net::StreamedUpload;
use tokrate_net::server::{BodyError, BufferedBody, ConnectionTap, Handler, RequestBody, buffer_body};
use tokrate_record::{Refusal, RefusalReason};
use tokrate_route::Mode;
use tokrate_wire::{Dialect, RequestPeek, Routed, Shape, decode_request, encode_error_response};

/// The header by which a client chooses the mode of one call.
const MODE_HEADER: &str = "x-tokrate-mode";

/// The HTTP handler of one worker thread.
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
        let mut asked = Asked { trace: self.begin_trace(&route, &head.headers, &tap), ..Asked::default() };
        let response = match self.serve(route, head, body, &tap, &mut asked).await {
            Ok(response) => response,
            Err(error) => {
                // What failed after a lane was asked is a row of the log.
                if error.call.is_none() {
                    self.refused(&asked, error.reason, error.status, &error.message);
                }
                error.into_response(dialect).map(CallBody::plain)
            }
        };
        if let Some(trace) = &asked.trace {
            trace.set_status(response.status().as_u16());
        }
        response
    }

    fn write_timeout(&self) -> Option<Span> {
        Some(self.worker.plan().limits.send)
    }

    fn takes_form(&self, head: &http::Request<RequestBody>) -> bool {
        let path = head.uri().path_and_query().map_or("/", |path| path.as_str());
        matches!(Route::of(head.method(), path), Route::Api(route) if route.api.takes_forms())
    }

    fn allowed_methods(&self, path: &str) -> &'static str {
        match Route::of(&Method::DELETE, path) {
            Route::MethodNotAllowed | Route::NotFound => "GET, POST",
            _ => "GET, POST, DELETE",
        }
    }

    fn error_body(&self, head: &http::Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        let path = head.uri().path_and_query().map_or("/", |path| path.as_str());
        let dialect = error_dialect(&Route::of(head.method(), path), head.headers());
        // The request was not read that far, so nobody is known.
        self.refused(&Asked::default(), RefusalReason::of(status.as_u16()), status, message);
        encode_error_response(dialect, status.as_u16(), message)
    }
}

impl Ingress {
    /// The trace of a call, if calls are traced.
    fn begin_trace(&self, route: &Route, headers: &HeaderMap, tap: &ConnectionTap) -> Option<Rc<ActiveTrace>> {
        let shared = &self.worker.shared;
        let traces = shared.traces.as_ref()?;
        let operation = match route {
            Route::Generate(routed) => Operation::of(routed.dialect.name()),
            Route::Api(route) => Operation::of(route.api.service),
            _ => return None,
        };
        let (at, now) = (tap.read_at(), shared.clock.now());
        let unix_ns = shared.clock.wall_nanos().saturating_sub((now - at).as_nanos());
        Some(Rc::new(ActiveTrace::begin(traces, headers, operation.name(), Beginning { at, unix_ns })))
    }

    /// Counts a request that is refused before a lane was asked, on standard error and in the log.
    fn refused(&self, asked: &Asked, reason: RefusalReason, status: StatusCode, message: &str) {
        let shared = &self.worker.shared;
        let refusal = Refusal {
            key: asked.key.as_ref().map(|key| key.config.name.clone()),
            alias: asked.alias.as_ref().map(|alias| alias.name.clone()),
            ..Refusal::new(shared.clock.wall_nanos() / 1_000_000, reason, status.as_u16())
        };
        if let Some(trace) = &asked.trace {
            let (alias, key) = (refusal.alias.clone(), refusal.key.clone());
            trace.refuse(shared.clock.now(), RefusedSpan { reason: reason.name(), alias, key });
        }
        shared.refuse(refusal, message);
    }

    async fn serve(
        &self,
        route: Route,
        head: Parts,
        body: RequestBody,
        tap: &Rc<ConnectionTap>,
        asked: &mut Asked,
    ) -> Result<Response<CallBody>, ErrorResponse> {
        let plan = self.worker.plan();
        let opens_session = matches!(&route, Route::Api(route) if route.api.upgrades);
        if !opens_session {
            check_handshake(&head, body.is_some(), false)?;
        }
        let (credentials, wanted) = match admit(&plan, route, &head, tap, asked)? {
            Admission::Respond(response) => return Ok(response.map(CallBody::plain)),
            Admission::FollowUp(credentials, stored) => {
                let _key = credentials.admit_call(&self.worker.shared)?;
                let _open = OpenCall::begin(&self.worker.shared, plan.limits.calls)?;
                return follow_up(&self.worker, &plan, &credentials, &stored).await;
            }
            Admission::Call(credentials, wanted) => (credentials, wanted),
        };
        if opens_session {
            check_handshake(&head, body.is_some(), true)?;
        }
        // Limits on calls are checked before any of the body is held.
        let key = credentials.admit_call(&self.worker.shared)?;
        let mut open = OpenCall::begin(&self.worker.shared, plan.limits.calls)?;
        let streamed = match &wanted {
            Wanted::Api(route) => streamed_length(&plan, route, &head.headers)?,
            Wanted::Text(_) => None,
        };
        let (body, streamed) = match streamed {
            Some(length) => {
                let StreamedForm { beginning, form, rest } = read_beginning(&plan, &head.headers, body, length).await?;
                (beginning, Some((form, rest)))
            }
            None => {
                let BufferedBody { bytes: body, share } = self.read_request(&plan, &head.headers, body).await?;
                open.hold(share);
                (body, None)
            }
        };
        let received = ReceivedRequest { credentials, key, wanted, head, body, streamed, at: tap.read_at() };
        let (account, mode) = self.account(plan, received, open, asked)?;
        let call = start(&self.worker, account, mode, tap)?;
        respond(call).await
    }

    /// Reads the body within its size and time limits.
    async fn read_request(
        &self,
        plan: &Plan,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Result<BufferedBody, ErrorResponse> {
        let limit = plan.limits.request_bytes;
        let too_large = || {
            let message =
                format!("request body too large: more than {limit} bytes, the gateway's limit `request_bytes`");
            ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let reading = buffer_body(body, limit, &self.worker.shared.bodies);
        match tokio::time::timeout(plan.limits.body.as_duration(), reading).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(BodyError::TooLarge)) => Err(too_large()),
            Ok(Err(BodyError::Broken)) => Err(ErrorResponse::bad_request("the request body ended early")),
            Ok(Err(BodyError::TooSlow)) => {
                Err(ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, "the request body arrived too slowly"))
            }
            Ok(Err(BodyError::OverBudget)) => Err(ErrorResponse::bodies_full()),
            Err(_) => {
                let message = format!("the request body did not arrive within {}", plan.limits.body);
                Err(ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }

    /// Parses a request that was read whole, and opens its account.
    pub fn account(
        &self,
        plan: Arc<Plan>,
        received: ReceivedRequest,
        open: OpenCall,
        asked: &mut Asked,
    ) -> Result<(Account, Mode), ErrorResponse> {
        let ReceivedRequest { credentials, key, wanted, head, body, streamed, at } = received;
        let (request, alias) = match wanted {
            Wanted::Text(routed) => {
                let (request, alias) = self.parse(&plan, routed, &head.headers, body)?;
                asked.alias = Some(Arc::clone(&alias));
                credentials.check_alias(&alias.name)?;
                check_files(&self.worker.shared, &plan, &credentials, &request.body)?;
                (request, alias)
            }
            Wanted::Api(route) => {
                let (request, alias) =
                    pass::parse(&self.worker.shared, &plan, &credentials, route, &head.headers, (body, streamed))?;
                asked.alias = Some(Arc::clone(&alias));
                (request, alias)
            }
        };
        let mode = mode_for(&head.headers, alias.mode)?;
        // The parsed head keeps the connection's buffer alive; an open call must not.
        drop(head);
        let mut account = Account::new(Arc::clone(&self.worker.shared), plan, alias, request, key, at, open);
        account.trace.clone_from(&asked.trace);
        Ok((account, mode))
    }

    /// Finds out what the body asks for.
    fn parse(
        &self,
        plan: &Plan,
        routed: Routed,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(CallRequest, Arc<Alias>), ErrorResponse> {
        let peek = RequestPeek::read(&body).map_err(|error| ErrorResponse::bad_request(error.to_string()))?;
        let in_path = routed.model.as_deref();
        let in_body = peek.model(&body);
        let name =
            in_path.or(in_body.as_deref()).ok_or_else(|| ErrorResponse::bad_request("the field `model` is missing"))?;
        let alias = alias_of(plan, name).or_else(|error| alias_by_role(plan, &routed, &body).ok_or(error))?;
        let id = self.worker.shared.next_call_id();
        let created = self.worker.shared.clock.wall_seconds();
        let shape = shape_of(&routed, &peek);
        drop(in_body);
        let session = session(headers);
        let headers = forwarded_headers(headers, plan, &alias);
        let body = without_buffer(body);
        let check = plan.answer_check.as_ref().filter(|check| check.aliases.contains(&alias.name));
        let instructed = check.and_then(|check| check.instructed.clone());
        let (translated, can_assemble) = Default::default();
        let (routed, api) = (Some(routed), None);
        Ok((
            CallRequest {
                routed,
                api,
                shape,
                peek,
                headers,
                session,
                body,
                id,
                created,
                translated,
                can_assemble,
                instructed,
            },
            alias,
        ))
    }
}

/// The alias of the role that a request's instructions are those of, where the settings ask for that.
fn alias_by_role(plan: &Plan, routed: &Routed, body: &[u8]) -> Option<Arc<Alias>> {
    if !plan.role_by_system_prompt {
        return None;
    }
    let request = decode_request(routed, body).ok()?;
    plan.aliases.get(role_of(&request)).cloned()
}

/// A request that was read whole.
pub(crate) struct ReceivedRequest {
    pub credentials: Credentials,
    pub key: Option<AdmittedKey>,
    pub wanted: Wanted,
    pub head: Parts,
    pub body: Bytes,
    /// Of a form whose files are not held: what its beginning says, and the rest.
    pub streamed: Option<(Form, StreamedUpload)>,
    /// When its last byte was read.
    pub at: Tick,
}

/// Who asks and for what, as far as a request was read: for the log, if it is refused. Only names of the configuration, so that no
/// client writes into the log what it likes.
#[derive(Default)]
pub(crate) struct Asked {
    key: Option<Arc<Key>>,
    alias: Option<Arc<Alias>>,
    trace: Option<Rc<ActiveTrace>>,
}

/// What a request's head amounts to.
pub(crate) enum Admission {
    /// The gateway responds by itself.
    Respond(Response<Bytes>),
    /// A call, once its body was read.
    Call(Credentials, Wanted),
    /// Something about a response that goes on in the background.
    FollowUp(Credentials, StoredResponse),
}

/// What a call is for.
pub(crate) enum Wanted {
    /// Text or tokens of a model.
    Text(Routed),
    /// What passes byte for byte by the table of paths.
    Api(ApiRoute),
}

/// The dialect of error responses.
pub(crate) fn error_dialect(route: &Route, headers: &HeaderMap) -> Dialect {
    match route {
        // A client that sends Anthropic's version header reads Anthropic's errors.
        Route::Generate(_) | Route::Api(_) => route.dialect(),
        _ if models::is_anthropic(headers) => Dialect::Anthropic,
        _ => route.dialect(),
    }
}

/// Authenticates the client and routes the request.
pub(crate) fn admit(
    plan: &Plan,
    route: Route,
    head: &Parts,
    tap: &ConnectionTap,
    asked: &mut Asked,
) -> Result<Admission, ErrorResponse> {
    if route == Route::Health {
        return Ok(Admission::Respond(Response::new(Bytes::from_static(b"ok\n"))));
    }
    let credentials = Credentials::of(plan, head)?;
    asked.key = credentials.key().cloned();
    if credentials.is_authenticated() {
        tap.mark_authenticated();
    }
    match route {
        Route::Generate(routed) => Ok(Admission::Call(credentials, Wanted::Text(routed))),
        Route::Api(route) => Ok(Admission::Call(credentials, Wanted::Api(route))),
        Route::Stored(stored) => Ok(Admission::FollowUp(credentials, stored)),
        Route::Models(form) => Ok(Admission::Respond(models::models(plan, &credentials, &head.headers, form))),
        Route::Model(name, form) => {
            models::model(plan, &credentials, &head.headers, &name, form).map(Admission::Respond)
        }
        Route::Version => Ok(Admission::Respond(models::version())),
        Route::MethodNotAllowed => Err(ErrorResponse::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed; use POST, or GET for lists of models",
        )),
        Route::Health | Route::NotFound => {
            let message = "not found; docs/gateway.md lists the paths that are served";
            Err(ErrorResponse::new(StatusCode::NOT_FOUND, message))
        }
    }
}

/// Whether the client wants a stream.
fn shape_of(routed: &Routed, peek: &RequestPeek) -> Shape {
    let default = routed.dialect.streams_by_default();
    let requested = if peek.stream.unwrap_or(default) { Shape::Stream } else { Shape::Whole };
    routed.shape.unwrap_or(requested)
}

/// The mode that the client chose for this call, else that of its alias.
fn mode_for(headers: &HeaderMap, default: Mode) -> Result<Mode, ErrorResponse> {
    let Some(value) = headers.get(MODE_HEADER) else { return Ok(default) };
    let parsed = value.to_str().ok().and_then(crate::config::parse_mode);
    parsed.ok_or_else(|| {
        ErrorResponse::bad_request(format!("{MODE_HEADER} is `off`, `hedge`, `race` or `race=N` with N up to 16"))
    })
}

//! What passes byte for byte by the table of paths: which lanes it may go to, and what is known of its body.
//!
//! Invariant: a key reaches the objects (files, batches) that were made with it and no others, and lanes only through aliases that it
//! may use.

use super::handshake::lane_handshake;
use super::objects::{check_files, unknown};
use super::parts::{alias_of, session, without_buffer};
use crate::admission::credentials::Credentials;
use crate::api::{AnswerKind, Api, ApiRoute, BodyKind, Form};
use crate::respond::error::ErrorResponse;
use crate::state::jobs::references;
use crate::state::plan::{Alias, Lane, Plan};
use crate::state::shared::Shared;
use crate::upstream::request::{ApiRequest, CallRequest, forwarded_headers};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use std::cell::RefCell;
use std::sync::Arc;
use tokrate_net::StreamedUpload;
use tokrate_net::server::is_form;
use tokrate_wire::{RequestPeek, Shape};

/// Names the alias or lane of a call that names no model.
const MODEL_HEADER: &str = "x-tokrate-model";

/// Finds out what is asked for and of which alias.
pub(super) fn parse(
    shared: &Shared,
    plan: &Plan,
    credentials: &Credentials,
    route: ApiRoute,
    headers: &HeaderMap,
    (body, streamed): (Bytes, Option<(Form, StreamedUpload)>),
) -> Result<(CallRequest, Arc<Alias>), ErrorResponse> {
    if route.is_ambiguous {
        return Err(ErrorResponse::bad_request("the query names `model` more than once"));
    }
    if route.names_foreign_call() && !plan.keys.is_empty() {
        return Err(unknown("call_id"));
    }
    let content_type = headers.get(CONTENT_TYPE);
    let (beginning, rest) = streamed.unzip();
    let form = match (route.api.body, content_type) {
        _ if beginning.is_some() => beginning,
        (BodyKind::Form | BodyKind::JsonOrForm, Some(value)) if is_form(headers) => {
            Some(Form::read(value.as_bytes(), &body).map_err(ErrorResponse::bad_request)?)
        }
        (BodyKind::Form, _) => {
            let message = "send the body as a form, with the header `content-type: multipart/form-data`";
            return Err(ErrorResponse::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        _ => None,
    };
    if route.api.is_unbounded {
        check_bounds(credentials, route.api)?;
    }
    let has_json = form.is_none() && route.api.body != BodyKind::None;
    if has_json {
        check_files(shared, plan, credentials, &body)?;
    }
    let peek = RequestPeek::read(if has_json { &body } else { b"{}" });
    let peek = peek.map_err(|error| ErrorResponse::bad_request(error.to_string()))?;
    let in_body = if has_json { peek.model(&body) } else { None };
    let in_form = form.as_ref().and_then(|form| form.model(&body));
    let named = route.model.as_deref().or(in_form).or(in_body.as_deref());
    let named = named.or_else(|| headers.get(MODEL_HEADER)?.to_str().ok());
    let alias = alias(shared, plan, credentials, &route, named, &body)?;
    drop(in_body);
    let wants_stream = peek.stream == Some(true) || form.as_ref().is_some_and(|form| form.stream);
    let shape = match route.api.answer {
        AnswerKind::Stream => Shape::Stream,
        AnswerKind::AsAsked if wants_stream => Shape::Stream,
        AnswerKind::AsAsked | AnswerKind::Whole => Shape::Whole,
    };
    let request = CallRequest {
        routed: None,
        api: Some(ApiRequest {
            rest: RefCell::new(rest),
            handshake: route.api.upgrades.then(|| lane_handshake(headers)),
            route,
            content_type: content_type.cloned(),
            form,
        }),
        shape,
        peek,
        headers: forwarded_headers(headers, plan, &alias),
        session: session(headers),
        body: without_buffer(body),
        id: shared.next_call_id(),
        created: shared.clock.wall_seconds(),
        translated: Default::default(),
        can_assemble: Default::default(),
        instructed: None,
    };
    Ok((request, alias))
}

/// What begins unbounded work is not for a key whose limits it would get around.
fn check_bounds(credentials: &Credentials, api: &Api) -> Result<(), ErrorResponse> {
    let Some(key) = credentials.key() else { return Ok(()) };
    let limit = match () {
        () if key.config.limits.tokens_per_minute.is_some() => "`tokens_per_minute`",
        () if !key.config.aliases.is_empty() => "`aliases`",
        () => return Ok(()),
    };
    let (name, service) = (&key.config.name, api.service);
    let message = format!("key `{name}` has {limit}, which `{service}` would get around; ask with a key without it");
    Err(ErrorResponse::new(StatusCode::FORBIDDEN, message))
}

/// The alias that a call goes to: that of the object it is about, that of the name it gives, or the only lane that has the service.
fn alias(
    shared: &Shared,
    plan: &Plan,
    credentials: &Credentials,
    route: &ApiRoute,
    named: Option<&str>,
    body: &[u8],
) -> Result<Arc<Alias>, ErrorResponse> {
    let refers = if route.api.service == "batches" { references(body) } else { None };
    let file = refers.as_ref().and_then(|refers| refers.input_file_id.as_deref());
    if let Some(id) = route.id.as_deref().or(file) {
        if let Some(lane) = owner(shared, plan, credentials, id) {
            return Ok(Arc::new(Alias::of_lane(&lane, lane.config.name.clone())));
        }
        if !plan.keys.is_empty() {
            return Err(unknown(id));
        }
    }
    if route.api.lists() && !plan.keys.is_empty() {
        let message = "a list would hold what other keys have made; ask for each object by its identifier";
        return Err(ErrorResponse::new(StatusCode::FORBIDDEN, message));
    }
    if let Some(name) = named {
        let alias = alias_of(plan, name)?;
        credentials.check_alias(&alias.name)?;
        return Ok(alias);
    }
    let lane = only_lane(shared, plan, credentials, route.api)?;
    Ok(Arc::new(Alias::of_lane(lane, lane.config.name.clone())))
}

/// The lane that has an object, if the client's key has made it.
fn owner(shared: &Shared, plan: &Plan, credentials: &Credentials, id: &str) -> Option<Arc<Lane>> {
    let key = credentials.key().map(|key| key.config.name.as_str());
    let job = shared.jobs.get(id).filter(|job| job.key.as_deref() == key)?;
    job.lane_of(plan).cloned()
}

/// The only lane with a service among those that the client may use.
fn only_lane<'p>(
    shared: &Shared,
    plan: &'p Plan,
    credentials: &Credentials,
    api: &Api,
) -> Result<&'p Arc<Lane>, ErrorResponse> {
    let now = shared.clock.now();
    let may_use = |lane: &Lane| {
        let mut aliases = plan.aliases.iter().filter(|(_, alias)| alias.lanes.contains(&lane.id));
        aliases.any(|(name, _)| credentials.allows_alias(name))
    };
    let (mut serving, mut obstacles) = (Vec::new(), Vec::new());
    for lane in plan.lanes.iter().filter(|lane| may_use(lane)) {
        match lane.serves(api, now) {
            Ok(_) => serving.push(lane),
            Err(obstacle) => obstacles.push(obstacle),
        }
    }
    match serving.as_slice() {
        [only] => Ok(only),
        [] => Err(ErrorResponse::not_served("this gateway", api.service, &obstacles, &[])),
        several => {
            let names: Vec<&str> = several.iter().map(|lane| lane.config.name.as_str()).collect();
            let message = format!(
                "several lanes may have `{}` ({}); name one with the header `{MODEL_HEADER}`",
                api.service,
                names.join(", ")
            );
            Err(ErrorResponse::bad_request(message))
        }
    }
}

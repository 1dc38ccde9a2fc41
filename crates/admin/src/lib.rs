//! The gateway's admin side: a live page, OpenMetrics and a JSON API.
//!
//! It changes nothing, and shows what comes from the configuration and the log's rows, never keys of clients, prompts
//! or answers. Invariant: with an admin key configured, nothing but `/healthz` responds without it; slow work runs in
//! threads of its own, so that no call waits for it; pages of other sites can neither read nor frame it.

#![forbid(unsafe_code)]

mod api;
mod auth;
#[cfg(test)]
mod browser;
mod openmetrics;
mod page;
mod pages;
#[doc(hidden)]
pub mod query;
mod reports;

use api::ApiError;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::header::{REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use reports::Reports;
use serde_json::{Value, json};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_gateway::telemetry::Observer;
use tokrate_net::server::{ConnectionTap, FullBody, Handler, RequestBody};

/// Responses that are built at once; one more request gets a 503.
const MAX_RESPONSES: usize = 32;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";

/// The HTTP handler of the admin address.
pub struct Admin {
    observer: Observer,
    reports: Arc<Reports>,
    in_progress: Cell<usize>,
}

/// A response.
#[derive(Debug)]
struct AdminResponse {
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
}

/// A path that takes work to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Endpoint {
    Overview,
    Lane,
    CallList,
    Call,
    Keys,
    Settings,
    Metrics,
    Ready,
    EligibleLanes,
    Calls,
    Changes,
    Report,
    Load,
    LoggedCalls,
    SettingsInForce,
    Summary,
    Attempts,
}

impl Admin {
    /// The admin side of a gateway.
    pub fn new(observer: Observer) -> Admin {
        Admin { observer, reports: Arc::default(), in_progress: Cell::new(0) }
    }

    async fn respond(&self, head: &Parts, tap: &ConnectionTap) -> AdminResponse {
        let key = self.observer.admin_key();
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return AdminResponse::text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; use GET");
        }
        if head.uri.path() == "/healthz" {
            return AdminResponse::text(StatusCode::OK, "ok");
        }
        if let Some(key) = key {
            if !auth::is_authorized(&head.headers, &key) {
                let message = "missing or wrong admin key; send it as `Authorization: Bearer KEY`, or as the password of any user";
                return AdminResponse::text(StatusCode::UNAUTHORIZED, message);
            }
            tap.mark_authenticated();
        }
        let endpoint = match head.uri.path() {
            "/style.css" => return AdminResponse::of(StatusCode::OK, CSS, page::style()),
            "/live.js" => return AdminResponse::of(StatusCode::OK, JAVASCRIPT, page::SCRIPT),
            "/" => Endpoint::Overview,
            "/lane" => Endpoint::Lane,
            "/calls" => Endpoint::CallList,
            "/call" => Endpoint::Call,
            "/keys" => Endpoint::Keys,
            "/settings" => Endpoint::Settings,
            "/metrics" => Endpoint::Metrics,
            "/readyz" => Endpoint::Ready,
            "/api/lanes" => Endpoint::EligibleLanes,
            "/api/calls" => Endpoint::Calls,
            "/api/changes" => Endpoint::Changes,
            "/api/report" => Endpoint::Report,
            "/api/load" => Endpoint::Load,
            "/api/log/calls" => Endpoint::LoggedCalls,
            "/api/settings" => Endpoint::SettingsInForce,
            "/api/summary" => Endpoint::Summary,
            "/api/attempts" => Endpoint::Attempts,
            _ => return AdminResponse::not_found(),
        };
        let Some(_permit) = Permit::take(&self.in_progress) else {
            return AdminResponse::text(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once; retry later");
        };
        let (observer, reports) = (self.observer.clone(), Arc::clone(&self.reports));
        let query = head.uri.query().map(str::to_owned);
        let response = tokio::task::spawn_blocking(move || endpoint.respond(&observer, &reports, query.as_deref()));
        response.await.unwrap_or_else(|_| {
            AdminResponse::text(StatusCode::INTERNAL_SERVER_ERROR, "the response could not be built")
        })
    }
}

impl Handler for Admin {
    type Body = FullBody;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<FullBody> {
        let (head, _) = request.into_parts();
        self.respond(&head, &tap).await.into_response()
    }

    fn error_body(&self, _: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        AdminResponse::refusal(status, message.to_owned()).body.into()
    }
}

impl Endpoint {
    /// Builds the response. Blocks.
    fn respond(self, observer: &Observer, reports: &Reports, query: Option<&str>) -> AdminResponse {
        let snapshot = || observer.snapshot();
        let now = || observer.clock().wall_nanos() / 1_000_000;
        match self {
            Endpoint::Overview => AdminResponse::page(pages::overview(observer, reports, query), observer),
            Endpoint::Lane => AdminResponse::page(pages::lane(observer, reports, query), observer),
            Endpoint::CallList => AdminResponse::page(pages::calls(observer, query), observer),
            Endpoint::Call => AdminResponse::page(pages::call(observer, query), observer),
            Endpoint::Settings => AdminResponse::page(pages::settings(observer, query), observer),
            Endpoint::Keys => AdminResponse::page(pages::keys(observer, reports, query), observer),
            Endpoint::Metrics => {
                AdminResponse::of(StatusCode::OK, openmetrics::CONTENT_TYPE, openmetrics::text(snapshot()))
            }
            Endpoint::Ready if snapshot().is_ready() => AdminResponse::text(StatusCode::OK, "ready"),
            Endpoint::Ready => {
                AdminResponse::text(StatusCode::SERVICE_UNAVAILABLE, "no lane is available; /api/lanes says why")
            }
            Endpoint::EligibleLanes => AdminResponse::json(api::lanes(&snapshot(), query)),
            Endpoint::Calls => AdminResponse::json(api::calls(&snapshot(), query)),
            Endpoint::Changes => AdminResponse::json(api::changes(&snapshot(), query)),
            Endpoint::Load => AdminResponse::json(api::load(observer.log(), query, now())),
            Endpoint::LoggedCalls => AdminResponse::json(api::call_list(observer.log(), query, now())),
            Endpoint::SettingsInForce => AdminResponse::json(api::settings(&snapshot(), query)),
            Endpoint::Report => AdminResponse::json(api::report(observer.log(), query, now())),
            Endpoint::Summary => AdminResponse::json(api::summary(observer.log(), query, now())),
            Endpoint::Attempts => AdminResponse::json(api::attempts(observer.log(), query, now())),
        }
    }
}

impl AdminResponse {
    fn of(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> AdminResponse {
        AdminResponse { status, content_type, body: body.into() }
    }

    fn text(status: StatusCode, message: &str) -> AdminResponse {
        AdminResponse::of(status, TEXT, format!("{message}\n"))
    }

    fn not_found() -> AdminResponse {
        let message = "not found; docs/metrics.md lists the paths that are served";
        AdminResponse::refusal(StatusCode::NOT_FOUND, message.to_owned())
    }

    fn refusal(status: StatusCode, message: String) -> AdminResponse {
        AdminResponse::of(status, JSON, json!({ "error": { "message": message } }).to_string())
    }

    fn json(result: Result<Value, ApiError>) -> AdminResponse {
        match result {
            Ok(result) => AdminResponse::of(StatusCode::OK, JSON, result.to_string()),
            Err(error) => {
                let (status, message) = error.describe();
                AdminResponse::refusal(status, message)
            }
        }
    }

    /// A page, or one that says why there is none.
    fn page(result: Result<String, ApiError>, observer: &Observer) -> AdminResponse {
        match result {
            Ok(page) => AdminResponse::of(StatusCode::OK, HTML, page),
            Err(error) => {
                let (status, message) = error.describe();
                AdminResponse::of(status, HTML, pages::error(observer, status, &message))
            }
        }
    }

    fn into_response(self) -> Response<FullBody> {
        let mut response = Response::new(FullBody::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let mut put = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        put(CONTENT_TYPE, self.content_type);
        put(CACHE_CONTROL, "no-store");
        put(CONTENT_SECURITY_POLICY, page::POLICY);
        put(X_CONTENT_TYPE_OPTIONS, "nosniff");
        put(X_FRAME_OPTIONS, "DENY");
        put(REFERRER_POLICY, "no-referrer");
        put(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        put(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        if self.status == StatusCode::UNAUTHORIZED {
            put(WWW_AUTHENTICATE, "Basic realm=\"tokrate gateway\", charset=\"UTF-8\"");
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            put(ALLOW, "GET, HEAD");
        }
        response
    }
}

/// One of the responses that are built at once, until it is dropped.
struct Permit<'a>(&'a Cell<usize>);

impl Permit<'_> {
    fn take(in_progress: &Cell<usize>) -> Option<Permit<'_>> {
        (in_progress.get() < MAX_RESPONSES).then(|| {
            in_progress.set(in_progress.get() + 1);
            Permit(in_progress)
        })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_responses_are_built_at_once() {
        let in_progress = Cell::new(0);
        let permits: Vec<_> = (0..MAX_RESPONSES).map(|_| Permit::take(&in_progress).expect("one is free")).collect();
        assert!(Permit::take(&in_progress).is_none());
        drop(permits);
        assert_eq!(in_progress.get(), 0);
    }
}

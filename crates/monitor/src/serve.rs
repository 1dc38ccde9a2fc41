//! The board over HTTP: pages of the database as it was a minute ago, or up to five where nobody has looked meanwhile.
//!
//! It only reads, and listens on loopback only: whoever shows it to others puts a proxy in front. Invariant: pages are made in a
//! thread of their own, so that no probe waits for one; pages of other sites can neither read nor frame it.

use crate::MonitorError;
use crate::hub::{Hub, HubServer};
use crate::pages::Pages;
use crate::push::{self, Refusal};
use crate::view::{BoardFrame, board_data};
use bytes::Bytes;
use http::header::{
    AGE, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use tokio::task::LocalSet;
use tokrate_board::{BoardData, POLICY, Page, Site};
use tokrate_core::Span;
use tokrate_net::Clock;
use tokrate_net::server::{
    AccessConfig, AccessSettings, ConnectionLimits, ConnectionTap, Connections, FullBody, Handler, Listener,
    RequestBody,
};
use tokrate_store::{ClickHouse, ReadFrom, StoreError};

/// How long open requests may take at the end.
const DRAIN: Span = Span::from_secs(5);
/// The names of the settings in messages.
const SETTINGS: AccessSettings =
    AccessSettings { host: "`board_hosts` under [monitor]", origin: None, key: "a proxy that asks for one" };

/// What is served where.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The address.
    pub address: SocketAddr,
    /// Names under which it may be asked, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The monitor's own database.
    pub database: PathBuf,
    /// The ClickHouse that is shown in its place, with what all monitors have sent there.
    pub clickhouse: Option<ClickHouse>,
    /// What stands on the board beside it.
    pub frame: BoardFrame,
    /// Where batches of other probers go, if this is a hub.
    pub hub: Option<Hub>,
    /// The time that the board is of (ms since 1970); `None` for the present.
    pub at_unix_ms: Option<u64>,
}

/// Serves on the caller's thread until `shutdown` completes. `ready` gets the address.
///
/// # Errors
/// When the address cannot be used, or the runtime cannot be started.
pub fn serve(
    config: ServeConfig,
    clock: Clock,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), MonitorError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .map_err(|error| MonitorError::Start(error.to_string()))?;
    LocalSet::new().block_on(&runtime, async {
        let access = AccessConfig { hosts: &config.hosts, origins: &[], requires_key: false, settings: &SETTINGS };
        let connections = Connections::new(ConnectionLimits::without_keys());
        let listener = Listener::bind(config.address, &access, &connections).await?;
        ready(listener.address());
        let hub = config.hub.as_ref().map(|hub| HubServer::new(hub, clock));
        let ServeConfig { database, clickhouse, frame, at_unix_ms, .. } = config;
        let pages = Pages::new(at_unix_ms.is_some());
        let source = PageSource { database, clickhouse, frame, clock, at_unix_ms };
        let server = Rc::new(BoardServer { source, hub, pages });
        listener.serve(server, clock, shutdown, DRAIN).await;
        Ok(())
    })
}

struct BoardServer {
    source: PageSource,
    hub: Option<HubServer>,
    pages: Rc<Pages<Site>>,
}

/// What pages are made of.
struct PageSource {
    database: PathBuf,
    clickhouse: Option<ClickHouse>,
    frame: BoardFrame,
    clock: Clock,
    /// The time that the board is of (ms since 1970); `None` for the present.
    at_unix_ms: Option<u64>,
}

impl PageSource {
    /// Makes the pages, in a thread that may block.
    fn make(&self) -> impl Future<Output = Result<Site, String>> + use<> {
        let (file, frame) = (ReadFrom::File(self.database.clone()), self.frame.clone());
        let clickhouse = self.clickhouse.clone();
        let at_unix_ms = self.at_unix_ms.unwrap_or_else(|| self.clock.wall_nanos() / 1_000_000);
        let make = move || -> Result<Site, String> {
            let data = board_of(clickhouse.as_ref(), &file, &frame, at_unix_ms).map_err(|error| error.to_string())?;
            Ok(Site::new(data))
        };
        async move { tokio::task::spawn_blocking(make).await.map_err(|_| "make the board".to_owned())? }
    }
}

/// The board of ClickHouse where there is one; where that does not answer, the board of the monitor's own file, which says so.
fn board_of(
    clickhouse: Option<&ClickHouse>,
    file: &ReadFrom,
    frame: &BoardFrame,
    at_unix_ms: u64,
) -> Result<BoardData, StoreError> {
    let of_clickhouse = clickhouse.map(|database| board_data(database, frame, at_unix_ms));
    let failure = match of_clickhouse {
        Some(Ok(data)) => return Ok(data),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let mut data = board_data(&*file.probes()?, frame, at_unix_ms)?;
    if let Some(failure) = failure {
        let notice = format!("What follows is of this monitor's own file alone: failed to {failure}.");
        data.notices.insert(0, notice);
    }
    Ok(data)
}

impl BoardServer {
    async fn respond(&self, head: &Parts) -> Response<FullBody> {
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; use GET");
        }
        if head.uri.path() == "/healthz" {
            return response(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok\n"));
        }
        let (site, age) = match self.pages.get(self.source.clock.now(), || self.source.make()).await {
            Ok(found) => found,
            Err(error) => {
                let message = format!("failed to read the monitor's database: {error}");
                return refusal(StatusCode::SERVICE_UNAVAILABLE, &message);
            }
        };
        match site.route(head.uri.path(), head.uri.query().unwrap_or_default()) {
            Some(page) => answered(page, head, age),
            None => refusal(StatusCode::NOT_FOUND, "not found; the board begins at /, its API at /api/v1/index.json"),
        }
    }
}

/// A page, or that it has not changed.
fn answered(page: Page, head: &Parts, age: Span) -> Response<FullBody> {
    let etag = HeaderValue::from_str(&page.etag).ok();
    let known = head.headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        value.to_str().is_ok_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == page.etag))
    });
    let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::OK);
    let mut answer = match known && status == StatusCode::OK {
        true => response(StatusCode::NOT_MODIFIED, page.content_type, Bytes::new()),
        false => response(status, page.content_type, page.body.into()),
    };
    if let Some(etag) = etag {
        answer.headers_mut().insert(ETAG, etag);
    }
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer.headers_mut().insert(AGE, HeaderValue::from(age.as_nanos() / 1_000_000_000));
    answer
}

/// What is said of a batch.
fn acknowledged(result: Result<u64, Refusal>) -> Response<FullBody> {
    let refused = match result {
        Ok(last) => return response(StatusCode::OK, "application/json", json!({ "last": last }).to_string().into()),
        Err(refused) => refused,
    };
    let next = if let Refusal::Replayed(next) = &refused { Some(next) } else { None };
    let body = json!({ "error": { "code": refused.code(), "message": refused.to_string(), "next": next } });
    let status = StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::BAD_REQUEST);
    response(status, "application/json", body.to_string().into())
}

fn refusal(status: StatusCode, message: &str) -> Response<FullBody> {
    let body = json!({ "error": { "message": message } }).to_string();
    let mut answer = response(status, "application/json", body.into());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    answer
}

fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<FullBody> {
    let mut response = Response::new(FullBody::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    put(CONTENT_TYPE, content_type);
    put(CACHE_CONTROL, "no-store");
    put(CONTENT_SECURITY_POLICY, POLICY);
    put(X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(X_FRAME_OPTIONS, "DENY");
    put(REFERRER_POLICY, "no-referrer");
    put(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    put(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    response
}

impl Handler for BoardServer {
    type Body = FullBody;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, _: Rc<ConnectionTap>) -> Response<FullBody> {
        let (head, body) = request.into_parts();
        match &self.hub {
            Some(hub) if head.method == Method::POST && head.uri.path() == push::PATH => {
                acknowledged(hub.take(&head.headers, body).await)
            }
            _ => self.respond(&head).await,
        }
    }

    fn error_body(&self, _: &Request<RequestBody>, _: StatusCode, message: &str) -> Vec<u8> {
        json!({ "error": { "message": message } }).to_string().into_bytes()
    }
}

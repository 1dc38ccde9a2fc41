//! The service behind a server: reads bodies, passes them to merge threads, asks the fallback model.
//!
//! Invariant: the thread of the sockets never merges; request bodies are bounded in size, in total and in time.

use crate::answer::Stamp;
use crate::config::HostConfig;
use crate::error::ApplyHostError;
use crate::fallback::Fallback;
use crate::offload::Job;
use crate::pages::method_not_allowed;
use crate::reply::{ErrorResponse, Pieces, Reply};
use crate::service::{Service, Step};
use crate::summary::{METRICS, Summary};
use crate::text_cache::TextCache;
use crate::work::Resources;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::{LocalSet, spawn_blocking};
use tokrate_net::server::{
    AccessConfig, AccessSettings, BodyError, BufferedBody, ByteBudget, ConnectionLimits, ConnectionTap, Connections,
    Handler, Listener, RequestBody, buffer_body, presented_keys,
};
use tokrate_net::{Client, Clock};

const SETTINGS: AccessSettings = AccessSettings {
    host: "--allow-host",
    origin: None,
    key: "require one with --serve-key-env, --serve-key-file or --serve-key-cmd",
};

/// Serves on the caller's thread until `shutdown` completes and open requests have ended or the drain time is over. `ready`
/// gets the address.
///
/// # Errors
/// When the address or the model's endpoint cannot be used, or the runtime cannot be started.
pub fn run(
    config: HostConfig,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<Summary, ApplyHostError> {
    let fallback = config.fallback.clone().map(Fallback::resolve).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(config.threads)
        .build()
        .map_err(ApplyHostError::Runtime)?;
    LocalSet::new().block_on(&runtime, async {
        let requires_key = config.api_key.is_some();
        let access = AccessConfig { hosts: &config.hosts, origins: &[], requires_key, settings: &SETTINGS };
        let mut limits = ConnectionLimits::without_keys();
        if requires_key {
            limits = ConnectionLimits::with_keys(limits.total);
        }
        let listener = Listener::bind(config.address, &access, &Connections::new(limits)).await?;
        let model = match fallback {
            Some(fallback) => Some((fallback.client()?, fallback)),
            None => None,
        };
        let service =
            Service { on_refuse: config.on_refuse, without_tree: config.without_tree, has_fallback: model.is_some() };
        let (clock, drain) = (Clock::monotonic(), config.drain);
        ready(listener.address());
        let server = Rc::new(ApplyServer {
            bodies: ByteBudget::new(config.max_buffered_bytes),
            config,
            service,
            model,
            clock,
            number: Cell::new(0),
            cache: Arc::default(),
            merging: Rc::default(),
            summary: RefCell::default(),
        });
        listener.serve(Rc::clone(&server), clock, shutdown, drain).await;
        Ok(server.summary.borrow().clone())
    })
}

/// The HTTP handler.
struct ApplyServer {
    config: HostConfig,
    service: Service,
    model: Option<(Client, Fallback)>,
    clock: Clock,
    /// Requests so far.
    number: Cell<u64>,
    /// Memory budget of all request bodies.
    bodies: Arc<ByteBudget>,
    cache: Arc<TextCache>,
    /// Held by each request that is being merged.
    merging: Rc<()>,
    summary: RefCell<Summary>,
}

impl Handler for ApplyServer {
    type Body = Pieces;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<Pieces> {
        let (head, body) = request.into_parts();
        self.answer(head, body, &tap).await.unwrap_or_else(Reply::from).into_response()
    }

    fn error_body(&self, _: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        Reply::error(status, message).whole()
    }
}

impl ApplyServer {
    /// With a key configured, nothing but `/health` answers without it.
    fn check_key(&self, head: &Parts, tap: &ConnectionTap) -> Result<(), ErrorResponse> {
        let Some(key) = self.config.api_key.as_ref().filter(|_| head.uri.path() != "/health") else { return Ok(()) };
        if !presented_keys(&head.headers).any(|shown| key.matches(shown)) {
            let message = "send the server's key as `Authorization: Bearer KEY` or `x-api-key: KEY`";
            return Err(ErrorResponse(StatusCode::UNAUTHORIZED, message.to_owned()));
        }
        tap.mark_authenticated();
        Ok(())
    }

    async fn answer(&self, head: Parts, body: RequestBody, tap: &ConnectionTap) -> Result<Reply, ErrorResponse> {
        self.check_key(&head, tap)?;
        if head.uri.path() == METRICS {
            return Ok(match head.method {
                Method::GET => self.summary.borrow().page(),
                _ => method_not_allowed(METRICS, "GET"),
            });
        }
        let limit = self.config.max_body_bytes;
        let too_large = || {
            let message = format!("the body has more than {limit} bytes; the server's --max-body-bytes allows more");
            ErrorResponse(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let reading = buffer_body(body, limit, &self.bodies);
        let body = match tokio::time::timeout(self.config.body_timeout.as_duration(), reading).await {
            Ok(Ok(body)) => body,
            Ok(Err(BodyError::TooLarge)) => return Err(too_large()),
            Ok(Err(BodyError::Broken)) => return Err(ErrorResponse::bad_request("the body is incomplete")),
            Ok(Err(BodyError::OverBudget)) => {
                let message = "too many large requests are open; try again".to_owned();
                return Err(ErrorResponse(StatusCode::SERVICE_UNAVAILABLE, message));
            }
            Ok(Err(BodyError::TooSlow)) => {
                return Err(ErrorResponse(StatusCode::REQUEST_TIMEOUT, "the body arrived too slowly".to_owned()));
            }
            Err(_) => {
                let message = format!("the body did not arrive within {}", self.config.body_timeout);
                return Err(ErrorResponse(StatusCode::REQUEST_TIMEOUT, message));
            }
        };
        let BufferedBody { bytes: body, share: _share } = body;
        let (reply, outcome) = match self.begin(head, body).await? {
            Step::Answered(reply, outcome) => (reply, outcome),
            Step::Refused(pending) => {
                let (client, fallback) = self.model.as_ref().expect("only a service that has a model asks it");
                let model_answer = fallback.request_merge(client, pending.edit()).await;
                on_pool(move || pending.end(model_answer)).await?
            }
        };
        if let Some(outcome) = outcome {
            self.summary.borrow_mut().add(outcome);
        }
        Ok(reply)
    }

    async fn begin(&self, head: Parts, body: Bytes) -> Result<Step, ErrorResponse> {
        let (service, stamp) = (self.service, self.stamp());
        let merging = Rc::clone(&self.merging);
        // Under load each request has one thread: no thread is free to help.
        let has_spare = Rc::strong_count(&merging) <= self.config.threads;
        let (cache, pool) = (Arc::clone(&self.cache), Handle::current());
        let begin = move || {
            let spawner = |job: Job| match has_spare {
                true => drop(pool.spawn_blocking(job)),
                false => drop(job),
            };
            service.begin(&head, &body, stamp, Resources { cache: &cache, spawner: &spawner })
        };
        let step = on_pool(begin).await;
        drop(merging);
        step
    }

    fn stamp(&self) -> Stamp {
        self.number.set(self.number.get() + 1);
        Stamp { number: self.number.get(), seconds: self.clock.wall_seconds() }
    }
}

/// Runs work on a merge thread.
async fn on_pool<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorResponse> {
    spawn_blocking(work).await.map_err(|_| {
        let message = "the engine panicked on this request; this is a bug, please report it";
        ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned())
    })
}

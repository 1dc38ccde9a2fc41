//! One request of a probe, sent over a connection of its own.
//!
//! Invariant: name resolution, connecting and the TLS handshake come before the request is sent and are timed apart; whatever goes
//! wrong is a row with its reason.

use crate::canary::{Canary, CanaryAnswer};
use bytes::Bytes;
use http::HeaderMap;
use std::cell::RefCell;
use tokrate_core::{EventBatch, FailureKind, Tick};
use tokrate_meter::{Ending, RequestMeter, RequestNumbers, RequestTrace, Timing};
use tokrate_net::{Authorizer, Client, ClientConfig, Clock, Limits, NetError, Route, Secrets, Target};
use tokrate_probe::{Call, Measured};
use tokrate_tokens::Encoding;
use tokrate_wire::{Dialect, Shape};

/// Who is asked, and how.
pub(crate) struct Answered<'a> {
    /// Base URL.
    pub target: &'a Target,
    pub client: &'a ClientConfig,
    pub headers: &'a HeaderMap,
    pub authorizer: Option<&'a Authorizer>,
    pub dialect: Dialect,
    pub model: &'a str,
    pub limits: Limits,
    pub clock: Clock,
    /// What the answer must be, if there is a right one.
    pub task: Option<(Canary, u64)>,
}

/// What came of it.
pub(crate) struct Sent {
    pub numbers: RequestNumbers,
    /// HTTP status.
    pub status: Option<u16>,
    /// When it was begun, on the wall clock (ms since 1970).
    pub started_unix_ms: u64,
    /// What is wrong with an answer to a task.
    pub wrong: Option<String>,
}

/// Sends a request and measures its answer.
pub(crate) async fn send(to: &Answered<'_>, id: String, body: Bytes) -> Sent {
    let (clock, due_at) = (to.clock, to.clock.now());
    let started_unix_ms = clock.wall_nanos() / 1_000_000;
    let sent = |measured: Measured| Sent {
        numbers: RequestNumbers::measure(&measured.trace, Encoding::O200kBase),
        status: measured.head.map(|head| head.status.as_u16()),
        started_unix_ms,
        wrong: None,
    };
    let (target, config) = (to.target.clone(), to.client.clone());
    // Resolving a name blocks.
    let opened = tokio::task::spawn_blocking(move || Route::resolve_blocking(&target, &config, clock)).await;
    let client = match opened {
        Ok(Ok(route)) => {
            Client::new(to.client.clone(), route, clock).map(|client| client.authorized_by(to.authorizer.cloned()))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => return sent(failed(FailureKind::Dns, "the resolver did not end".to_owned(), due_at, clock.now())),
    };
    let client = match client {
        Ok(client) => client,
        Err(error) => return sent(failed(kind_of(&error), error.to_string(), due_at, clock.now())),
    };
    let call = Call {
        client: &client,
        path: to.target.path_with(&to.dialect.path(to.model, Shape::Stream)),
        headers: to.headers.clone(),
        id,
        body,
        dialect: to.dialect,
        shape: Shape::Stream,
        items: None,
        audio: None,
        keep_unknown: false,
        secrets: Secrets::of(to.headers),
        limits: to.limits,
        due_at,
        clock,
    };
    let answer = RefCell::new(CanaryAnswer::default());
    let read = |batch: &EventBatch, _: Option<Tick>| {
        if to.task.is_some() {
            answer.borrow_mut().on(batch);
        }
    };
    let measured = call.measure(&RefCell::new(EventBatch::default()), std::future::pending(), &read).await;
    let wrong = to.task.and_then(|(canary, draw)| canary.wrong(draw, &answer.borrow()));
    Sent { wrong, ..sent(measured) }
}

fn kind_of(error: &NetError) -> FailureKind {
    match error {
        NetError::Dns { .. } => FailureKind::Dns,
        _ => FailureKind::Connect,
    }
}

/// A request that was never sent.
fn failed(kind: FailureKind, message: String, due_at: Tick, ended_at: Tick) -> Measured {
    let timing = Timing { due_at, ended_at, ..Timing::default() };
    let trace: RequestTrace = RequestMeter::new().finish(timing, Ending::Failed { kind, message, retry_after: None });
    Measured { trace, head: None }
}

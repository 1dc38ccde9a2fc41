//! The prober's side: when which part of the spool is sent.
//!
//! Invariant: one batch is under way at a time; entries are removed only once the hub has them.

use super::key::PushKey;
use super::{PATH, PROBER_HEADER, SIGNATURE_HEADER, write_batch};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokrate_core::{Span, Tick, one_line};
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing, Route, Target};
use tokrate_store::SpoolEntry;

/// Entries of a batch: half a megabyte of probes.
pub(crate) const BATCH_ENTRIES: usize = 400;
/// What was kept waits so long for more.
const GATHER: Span = Span::from_secs(5);
/// After the first failure; doubled after each further one, up to `LONGEST_WAIT`.
const FIRST_WAIT: Span = Span::from_secs(5);
const LONGEST_WAIT: Span = Span::from_secs(300);
/// Limits of a request.
const IDLE: Span = Span::from_secs(30);
const TOTAL: Span = Span::from_secs(120);
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Of an answer so much is shown.
const MAX_QUOTED_BYTES: usize = 300;

/// Where a prober pushes.
#[derive(Clone, Debug)]
pub struct PushSettings {
    /// The hub's address.
    pub hub: Target,
    /// The prober's key.
    pub key: PushKey,
    /// How connections are opened.
    pub client: ClientConfig,
}

/// What came of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PushAnswer {
    /// The hub has everything up to an entry.
    Has(u64),
    /// It did not take it.
    Failed(String),
}

/// When to push.
#[derive(Debug)]
pub(crate) struct Pusher {
    next: Tick,
    is_out: bool,
    failures: u32,
    /// The latest failure that users know of.
    noticed: Option<String>,
}

impl Pusher {
    pub fn new(now: Tick) -> Pusher {
        Pusher { next: now, is_out: false, failures: 0, noticed: None }
    }

    /// Whether to look into the spool now.
    pub fn is_due(&self, now: Tick) -> bool {
        !self.is_out && now >= self.next
    }

    /// A batch was taken, or there was nothing to take.
    pub fn took(&mut self, is_something: bool, now: Tick) {
        self.is_out = is_something;
        self.next = now + GATHER;
    }

    /// Looks at once, as nothing is under way and nothing more will come.
    pub fn hurry(&mut self, now: Tick) {
        (self.next, self.is_out) = (now, false);
    }

    /// When to look next; `None` while a batch is under way.
    pub fn wake_at(&self) -> Option<Tick> {
        (!self.is_out).then_some(self.next)
    }

    /// Whether nothing failed lately.
    pub fn is_well(&self) -> bool {
        self.failures == 0
    }

    /// What came of the batch; what users should know.
    pub fn ended(&mut self, answer: &PushAnswer, now: Tick) -> Option<String> {
        self.is_out = false;
        match answer {
            PushAnswer::Has(_) => {
                (self.next, self.failures) = (now, 0);
                self.noticed.take().map(|_| "the hub takes what is pushed again".to_owned())
            }
            PushAnswer::Failed(why) => {
                let wait =
                    FIRST_WAIT.as_nanos().saturating_mul(1 << self.failures.min(20)).min(LONGEST_WAIT.as_nanos());
                self.failures = self.failures.saturating_add(1);
                self.next = now + Span::from_nanos(wait);
                if self.noticed.as_ref() == Some(why) {
                    return None;
                }
                self.noticed = Some(why.clone());
                Some(format!("failed to push to the hub: {why}; what is kept here is sent later"))
            }
        }
    }
}

impl PushSettings {
    /// Sends entries of a spool.
    pub(crate) async fn send(
        &self,
        prober: &str,
        place: &str,
        spool: &str,
        entries: &[SpoolEntry],
        clock: Clock,
    ) -> PushAnswer {
        let last = entries.last().map_or(0, |entry| entry.id);
        let body = write_batch(prober, place, spool, clock.wall_nanos() / 1_000_000, entries);
        match self.post(prober, body, clock).await {
            Ok((200, _)) => PushAnswer::Has(last),
            Ok((409, answer)) => match answer["error"]["next"].as_u64() {
                Some(next) if next > 0 => PushAnswer::Has(last.min(next - 1)),
                _ => PushAnswer::Failed(format!("{} answered HTTP 409 without a number", self.hub)),
            },
            Ok((status, answer)) => {
                let message = answer["error"]["message"].as_str().unwrap_or("no reason that can be read");
                let text = format!("{} answered HTTP {status}: {message}", self.hub);
                PushAnswer::Failed(one_line(&text, MAX_QUOTED_BYTES))
            }
            Err(why) => PushAnswer::Failed(one_line(&why, MAX_QUOTED_BYTES)),
        }
    }

    async fn post(&self, prober: &str, body: String, clock: Clock) -> Result<(u16, serde_json::Value), String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [(PROBER_HEADER, prober), (SIGNATURE_HEADER, self.key.sign(body.as_bytes()).as_str())] {
            let value = HeaderValue::from_str(value).map_err(|_| format!("`{prober}` cannot stand in a header"))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let (hub, config) = (self.hub.clone(), self.client.clone());
        // Resolving a name blocks.
        let resolved = tokio::task::spawn_blocking(move || Route::resolve_blocking(&hub, &config, clock)).await;
        let route = resolved.map_err(|_| "resolve its name".to_owned())?.map_err(|error| error.to_string())?;
        let client = Client::new(self.client.clone(), route, clock).map_err(|error| error.to_string())?;
        let path = self.hub.path_with(PATH);
        let outgoing = Outgoing { method: Method::POST, path, headers, body: Bytes::from(body) };
        let limits = Limits { idle: IDLE, total: TOTAL, max_body_bytes: MAX_ANSWER_BYTES };
        let answer =
            client.whole(outgoing, limits).await.map_err(|failure| format!("{}: {}", self.hub, failure.detail))?;
        // Whoever stands before the hub may answer something else.
        let json = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok((answer.head.status.as_u16(), json))
    }
}

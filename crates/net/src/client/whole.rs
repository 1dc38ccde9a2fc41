//! Small answers read whole, such as a list of models or a metrics page. Invariant: what is returned is complete and within its limits.

use super::Client;
use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::exchange::{ExchangeFailure, Head, Limits, Outgoing, Sink};
use crate::route::Route;
use crate::target::Target;
use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::task::LocalSet;
use tokrate_core::{FailureKind, Tick};

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Vec<u8>,
}

#[derive(Default)]
struct Collected {
    head: Option<Head>,
    body: Vec<u8>,
}

impl Sink for Collected {
    fn sent(&mut self, _at: Tick) {}

    fn head(&mut self, _at: Tick, head: &Head) {
        self.head = Some(head.clone());
    }

    fn body(&mut self, _at: Tick, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

impl Client {
    /// Sends a GET for `path`. An error status is an answer too.
    ///
    /// # Errors
    /// When the exchange fails or exceeds its limits.
    pub async fn get(&self, path: &str, headers: HeaderMap, limits: Limits) -> Result<Answer, ExchangeFailure> {
        self.whole(Outgoing { method: Method::GET, path: path.to_owned(), headers, body: Bytes::new() }, limits).await
    }

    /// Sends a request and waits for its whole answer. An error status is an answer too.
    ///
    /// # Errors
    /// When the exchange fails or exceeds its limits.
    pub async fn whole(&self, outgoing: Outgoing, limits: Limits) -> Result<Answer, ExchangeFailure> {
        let mut collected = Collected::default();
        self.exchange(outgoing, limits, &mut collected).await.outcome?;
        let Some(head) = collected.head else {
            let detail = "the answer had no head".to_owned();
            return Err(ExchangeFailure { kind: FailureKind::Protocol, detail });
        };
        Ok(Answer { head, body: collected.body })
    }

    /// [`Client::get`] over HTTP/1.1 on a connection of its own. Blocks; call it outside a runtime.
    ///
    /// # Errors
    /// As [`Client::get`]; also when the target cannot be reached at all.
    pub fn get_blocking(
        target: &Target,
        path: &str,
        headers: HeaderMap,
        config: &ClientConfig,
        limits: Limits,
        clock: Clock,
    ) -> Result<Answer, ExchangeFailure> {
        let outgoing = Outgoing { method: Method::GET, path: path.to_owned(), headers, body: Bytes::new() };
        Client::whole_blocking(target, outgoing, config, limits, clock)
    }

    /// [`Client::whole`] over HTTP/1.1 on a connection of its own. Blocks; call it outside a runtime.
    ///
    /// # Errors
    /// As [`Client::whole`]; also when the target cannot be reached at all.
    pub fn whole_blocking(
        target: &Target,
        outgoing: Outgoing,
        config: &ClientConfig,
        limits: Limits,
        clock: Clock,
    ) -> Result<Answer, ExchangeFailure> {
        let failed = |detail: String| ExchangeFailure { kind: FailureKind::Connect, detail };
        let config = ClientConfig { http: HttpVersion::Http1, reuse: false, ..config.clone() };
        let route = Route::resolve_blocking(target, &config, clock).map_err(|error| failed(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(format!("no runtime: {error}")))?;
        LocalSet::new().block_on(&runtime, async {
            let client = Client::new(config, route, clock).map_err(|error| failed(error.to_string()))?;
            client.whole(outgoing, limits).await
        })
    }
}

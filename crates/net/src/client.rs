//! The HTTP client: one target, its own pool, one request at a time on an HTTP/1.1 connection, many on an HTTP/2 connection.
//!
//! It does not follow redirects, decompress, retry or queue: an exchange that finds no free connection opens one. Invariant: a piece
//! of a body carries the timestamp of the read that completed it (exactly over HTTP/1.1; over HTTP/2 it can be that of a later read in
//! the same poll of the connection, never of an earlier one).

mod authorized;
mod failure;
mod http1;
mod http2;
mod receive;
mod timeouts;
mod upload;
mod warm;
mod whole;

#[cfg(test)]
mod tests;

use crate::authorize::Authorizer;
use crate::clock::Clock;
use crate::config::{ClientConfig, HttpVersion};
use crate::connect::{Connector, Dial, Opened};
use crate::error::NetError;
use crate::exchange::{ConnectionUse, Exchange, ExchangeFailure, Limits, Outgoing, Sink, StreamedUpload};
use crate::route::Route;
use crate::target::Target;
use crate::upgraded::asks_to_upgrade;
use authorized::AuthorizedAnswer;
use http1::{Afterwards, Http1, Http1Pool, RequestWriter};
use http2::Http2Pool;
use receive::Receiver;
use std::borrow::{self, Cow};
use std::cell::Cell;
use timeouts::ExchangeWatch;
use tokio::io::DuplexStream;
use tokrate_core::{FailureKind, Tick};
use upload::Upload;

pub use whole::Answer;

pub(crate) use http2::LocalExecutor;

/// Read buffer: holds 200 events of 300 bytes. One buffer serves all HTTP/1.1 connections of a client.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Sends requests to one target. Belongs to one current-thread runtime with a `LocalSet`.
pub struct Client {
    dialer: Dialer,
    http1: Http1Pool,
    http2: Http2Pool,
    /// What authorises its requests, where no header does.
    authorizer: Option<Authorizer>,
    /// When the last exchange began.
    used_at: Cell<Option<Tick>>,
    /// Whether a connection is being opened for a later exchange.
    warming: Cell<bool>,
}

/// What opening connections needs.
struct Dialer {
    config: ClientConfig,
    connector: Connector,
    clock: Clock,
    /// Value of the `Host` header.
    authority: String,
    dns_reported: Cell<bool>,
}

impl Client {
    /// A client without connections.
    ///
    /// # Errors
    /// When target, proxy and HTTP version do not go together.
    pub fn new(config: ClientConfig, route: Route, clock: Clock) -> Result<Client, NetError> {
        Client::with_dial(config, route, clock, Dial::tcp())
    }

    /// A client over in-memory connections from `dial`, for tests of code built on it.
    ///
    /// # Errors
    /// When TLS cannot be set up for an https target.
    pub fn over_memory(
        config: ClientConfig,
        target: &Target,
        clock: Clock,
        dial: impl Fn() -> DuplexStream + 'static,
    ) -> Result<Client, NetError> {
        let route = Route::unresolved(target, &config)?;
        Client::with_dial(config, route, clock, Dial::memory(move |_| std::future::ready(Ok(dial()))))
    }

    /// A client that opens its connections with `dial`.
    ///
    /// # Errors
    /// When target, proxy and HTTP version do not go together.
    pub fn with_dial(config: ClientConfig, route: Route, clock: Clock, dial: Dial) -> Result<Client, NetError> {
        let connector = Connector::new(&config, route, clock, dial)?;
        let authority = connector.route().target.authority();
        let dialer = Dialer { config, connector, clock, authority, dns_reported: Cell::new(false) };
        let (http1, http2) = (Http1Pool::default(), Http2Pool::default());
        let (used_at, warming) = (Cell::new(None), Cell::new(false));
        Ok(Client { dialer, http1, http2, authorizer: None, used_at, warming })
    }

    /// Sends a request and passes the answer to `sink` as it arrives. Dropping the future closes the connection (over HTTP/2,
    /// resets the stream).
    pub async fn exchange(
        &self,
        outgoing: impl borrow::Borrow<Outgoing>,
        limits: Limits,
        sink: &mut impl Sink,
    ) -> Exchange {
        self.run(outgoing.borrow(), None, limits, sink).await
    }

    /// The same of a request whose body goes on with what `upload` gives.
    pub async fn exchange_streaming(
        &self,
        outgoing: &Outgoing,
        upload: StreamedUpload,
        limits: Limits,
        sink: &mut impl Sink,
    ) -> Exchange {
        self.run(outgoing, Some(upload), limits, sink).await
    }

    async fn run(
        &self,
        outgoing: &Outgoing,
        upload: Option<StreamedUpload>,
        limits: Limits,
        sink: &mut impl Sink,
    ) -> Exchange {
        let clock = self.dialer.clock;
        let began_at = clock.now();
        self.used_at.set(Some(began_at));
        let watch = ExchangeWatch::new(clock, limits);
        sink.begin(&watch.sent_mark());
        let mut used = ConnectionUse::default();
        let outcome = tokio::select! {
            biased;
            outcome = self.attempt((outgoing, upload), limits.max_body_bytes, sink, &watch, &mut used) => outcome,
            failure = watch.expiry() => Err(failure),
        };
        // A request may have been sent although the exchange ended before the head of the answer.
        watch.report_sent(sink);
        let (bytes_in, bytes_out) = watch.bytes();
        let began_at = self.dialer.config.lookup_each.then_some(began_at);
        Exchange { began_at, ended_at: clock.now(), outcome, connection: used, bytes_in, bytes_out }
    }

    /// Sends the request, and once more with another credential where the first was refused.
    async fn attempt(
        &self,
        (outgoing, mut upload): (&Outgoing, Option<StreamedUpload>),
        max_body_bytes: u64,
        sink: &mut impl Sink,
        watch: &ExchangeWatch,
        used: &mut ConnectionUse,
    ) -> Result<(), ExchangeFailure> {
        // What is not held cannot be sent twice.
        let mut may_repeat = self.authorizer.is_some() && upload.is_none();
        loop {
            let authorized = self.authorized(outgoing, sink).await?;
            let signed = authorized.as_ref().map_or(outgoing, |authorized| &authorized.outgoing);
            let authorizer = self.authorizer.as_ref();
            let mut answer = AuthorizedAnswer::new(&mut *sink, authorizer, authorized.as_deref(), may_repeat);
            let outcome = self.send((signed, upload.take()), max_body_bytes, &mut answer, watch, used).await;
            if !answer.finish() {
                return outcome;
            }
            may_repeat = false;
            watch.restart();
        }
    }

    async fn send(
        &self,
        (outgoing, upload): (&Outgoing, Option<StreamedUpload>),
        max_body_bytes: u64,
        sink: &mut impl Sink,
        watch: &ExchangeWatch,
        used: &mut ConnectionUse,
    ) -> Result<(), ExchangeFailure> {
        let dialer = &self.dialer;
        let proxied = dialer.connector.absolute_form();
        match dialer.config.http {
            HttpVersion::Http1 => {
                // What is not held cannot be sent again, as it would have to be if a kept connection had been closed.
                let needs_new = upload.is_some();
                let address = dialer.address(outgoing)?;
                let request = RequestWriter::new(outgoing, upload, &address, dialer, watch.sent_mark());
                let mut connection = match needs_new {
                    true => Http1::open(dialer, used).await?,
                    false => self.http1.take(dialer, used).await?,
                };
                let stamps = connection.stamps();
                watch.track(&stamps);
                let mut receiver = Receiver::new(sink, watch, &stamps, max_body_bytes, proxied);
                match connection.exchange(&self.http1, request, &mut receiver).await? {
                    Afterwards::Reusable if dialer.config.reuse => self.http1.give_back(connection),
                    Afterwards::Reusable | Afterwards::Unusable => {}
                    Afterwards::Upgraded(first) => sink.upgraded(connection.upgrade(first)),
                }
                Ok(())
            }
            // Boxed, so that the HTTP/2 state does not enlarge the future of HTTP/1.1 exchanges.
            HttpVersion::Http2 => {
                Box::pin(async {
                    if asks_to_upgrade(&outgoing.headers) {
                        return Err(unsendable(
                            "a connection is upgraded over HTTP/1.1, and this one speaks HTTP/2".to_owned(),
                        ));
                    }
                    let address = dialer.address(outgoing)?;
                    let request = http::Request::builder().method(outgoing.method.clone()).uri(&*address).body(());
                    let (mut parts, ()) = request.map_err(|_| no_path(&address))?.into_parts();
                    parts.headers = outgoing.headers.clone();
                    mark_sensitive(&mut parts.headers);
                    let stream = self.http2.take(dialer, used).await?;
                    let stamps = stream.stamps();
                    watch.track(&stamps);
                    let mut receiver = Receiver::new(sink, watch, &stamps, max_body_bytes, proxied);
                    let upload = Upload::new(outgoing.body.clone(), upload, &stamps, watch.sent_mark());
                    stream.exchange(http::Request::from_parts(parts, upload), &mut receiver, used).await
                })
                .await
            }
        }
    }
}

impl Dialer {
    async fn open<T>(
        &self,
        used: &mut ConnectionUse,
        greet: impl AsyncFnOnce(Opened) -> Result<T, ExchangeFailure>,
    ) -> Result<T, ExchangeFailure> {
        let limit = self.config.connect_timeout;
        // Set before opening: a failed attempt was a new connection as well.
        used.new = true;
        let is_taken = Cell::new(false);
        let opened = async {
            let opened = self.connector.open(&is_taken).await?;
            *used = opened.used;
            greet(opened).await
        };
        let greeted = tokio::time::timeout(limit.as_duration(), opened).await.map_err(|_| {
            let target = &self.connector.route().target;
            let detail = match is_taken.get() && target.is_tls() {
                true => format!(
                    "{} took the connection, and no TLS handshake came within {limit}; a server without TLS is named by http://",
                    target.authority()
                ),
                false => format!("no connection to {} within {limit}", target.authority()),
            };
            ExchangeFailure { kind: FailureKind::ConnectTimeout, detail }
        })??;
        if !self.config.lookup_each && !self.dns_reported.replace(true) {
            used.dns = self.connector.route().resolved_in();
        }
        Ok(greeted)
    }

    /// The request target: a path, or an absolute URL for proxies and HTTP/2.
    fn address<'a>(&self, outgoing: &'a Outgoing) -> Result<Cow<'a, str>, ExchangeFailure> {
        // These bytes would end the request line, or start a fragment.
        let is_forbidden = |byte: u8| byte <= b' ' || byte == 0x7f || byte == b'#';
        if !outgoing.path.starts_with('/') || outgoing.path.bytes().any(is_forbidden) {
            return Err(no_path(&outgoing.path));
        }
        let scheme = self.connector.route().target.scheme();
        Ok(match self.connector.absolute_form() || self.config.http == HttpVersion::Http2 {
            true => Cow::Owned(format!("{scheme}://{}{}", self.authority, outgoing.path)),
            false => Cow::Borrowed(&outgoing.path),
        })
    }
}

/// Marks keys as sensitive, so that HPACK does not index them.
fn mark_sensitive(headers: &mut http::HeaderMap) {
    for name in ["authorization", "api-key", "x-api-key", "x-goog-api-key"] {
        if let Some(value) = headers.get_mut(name) {
            value.set_sensitive(true);
        }
    }
}

fn no_path(address: &str) -> ExchangeFailure {
    unsendable(format!("`{address}` is not a URL path"))
}

fn unsendable(detail: String) -> ExchangeFailure {
    ExchangeFailure { kind: FailureKind::BadRequest, detail }
}

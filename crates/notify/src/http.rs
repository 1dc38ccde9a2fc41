//! Receivers behind HTTP.
//!
//! Invariant: the path of a URL is treated as a key, as that of a Slack webhook is one; redirects are not followed.

use crate::MAX_TIME;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use std::fmt;
use tokrate_core::{Span, one_line};
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing, Route, Secrets, Target};

/// Largest answer that is read (bytes): a sentence of why it was refused.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Of an answer so much is quoted (bytes).
const MAX_QUOTED_BYTES: usize = 200;
/// A receiver that says nothing for so long is given up for this time.
const IDLE: Span = Span::from_secs(20);

/// Where messages are posted.
#[derive(Clone)]
pub struct HttpReceiver {
    server: Target,
    /// With its query; it may be a key.
    path: String,
    headers: HeaderMap,
    client: ClientConfig,
    /// The key of signatures.
    pub(crate) key: Option<Vec<u8>>,
    secrets: Secrets,
}

/// A text that is no URL of a receiver. It does not show the text, which may be a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UrlError(&'static str);

impl fmt::Display for UrlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for UrlError {}

impl HttpReceiver {
    /// A receiver at a URL, with further headers; `key` signs what is sent there (`whsec_` and base64, or any text).
    ///
    /// # Errors
    /// When the URL is none, is neither http nor https, or has credentials; or the key is none.
    pub fn new(
        url: &str,
        headers: HeaderMap,
        key: Option<&str>,
        client: ClientConfig,
    ) -> Result<HttpReceiver, UrlError> {
        let uri: Uri = url.trim().parse().map_err(|_| UrlError("it is no URL"))?;
        let (scheme, authority) = match (uri.scheme_str(), uri.authority()) {
            (Some(scheme @ ("http" | "https")), Some(authority)) => (scheme, authority),
            _ => return Err(UrlError("it does not begin with http:// or https://")),
        };
        if authority.as_str().contains('@') {
            return Err(UrlError("it holds credentials; name a header in `headers`, or use a path"));
        }
        let server =
            Target::parse(&format!("{scheme}://{authority}")).map_err(|_| UrlError("its host or port is none"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let key = match key.map(|key| (key, key.strip_prefix("whsec_"))) {
            None => None,
            Some((key, None)) => Some(key.as_bytes().to_vec()),
            Some((_, Some(coded))) => {
                Some(STANDARD.decode(coded).map_err(|_| UrlError("its key begins with whsec_ and is no base64"))?)
            }
        };
        let mut secret = headers.clone();
        if let Ok(mut value) = HeaderValue::from_str(path.trim_start_matches('/')) {
            value.set_sensitive(true);
            secret.insert(HeaderName::from_static("x-path-key"), value);
        }
        Ok(HttpReceiver { server, path, headers, client, key, secrets: Secrets::of(&secret) })
    }

    /// Where it is, without its path.
    pub(crate) fn shown(&self) -> String {
        if self.path == "/" { self.server.to_string() } else { format!("{}/***", self.server) }
    }

    /// Posts JSON below the receiver's path; `id` is that of a message that is signed.
    pub(crate) async fn post(&self, below: &str, body: String, id: Option<&str>, clock: Clock) -> Result<(), String> {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(id) = id {
            self.sign(&mut headers, id, clock.wall_nanos() / 1_000_000_000, &body);
        }
        let (server, config) = (self.server.clone(), self.client.clone());
        // Resolving a name blocks.
        let resolved = tokio::task::spawn_blocking(move || Route::resolve_blocking(&server, &config, clock)).await;
        let route = resolved.map_err(|_| "resolve its name".to_owned())?.map_err(|error| error.to_string())?;
        let client = Client::new(self.client.clone(), route, clock).map_err(|error| error.to_string())?;
        let path = match below {
            "" => self.path.clone(),
            below => format!("{}{below}", self.path.trim_end_matches('/')),
        };
        let outgoing = Outgoing { method: Method::POST, path, headers, body: Bytes::from(body) };
        let limits = Limits { idle: IDLE, total: MAX_TIME, max_body_bytes: MAX_ANSWER_BYTES };
        let answer = client
            .whole(outgoing, limits)
            .await
            .map_err(|failure| self.shown_error(&format!("{}: {}", self.server, failure.detail)))?;
        let status = answer.head.status;
        if status.is_success() {
            return Ok(());
        }
        let quoted = String::from_utf8_lossy(&answer.body).into_owned();
        let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
        Err(self.shown_error(&format!("{} answered HTTP {status}{hint}: {quoted}", self.server)))
    }

    fn shown_error(&self, text: &str) -> String {
        one_line(&self.secrets.redacted(text.to_owned()), MAX_QUOTED_BYTES + 100)
    }

    /// Signs as Standard Webhooks (standardwebhooks.com) has it: HMAC-SHA256 of id, time and body.
    fn sign(&self, headers: &mut HeaderMap, id: &str, seconds: u64, body: &str) {
        let mut put = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        put("webhook-id", id);
        put("webhook-timestamp", &seconds.to_string());
        if let Some(key) = &self.key {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            let signature = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
            put("webhook-signature", &format!("v1,{}", STANDARD.encode(signature)));
        }
    }
}

impl fmt::Debug for HttpReceiver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown())
    }
}

//! How token endpoints are reached: by `net`'s client, within short limits.
//!
//! Invariant: redirects are not followed, certificates are always checked, an answer is JSON of bounded size; and nothing of what was sent
//! is part of an error.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use serde_json::Value;
use std::cell::Cell;
use tokrate_core::{Span, one_line};
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing, Target};

/// Time for a token endpoint on the internet.
const TIME: Span = Span::from_secs(10);
/// Time for a metadata service on the machine's own network: where there is none, nothing answers.
const TIME_NEAR: Span = Span::from_secs(2);
/// Largest answer (bytes).
const MAX_ANSWER_BYTES: u64 = 256 << 10;
/// Longest part of an endpoint's own words in a message (bytes).
const MAX_REASON_BYTES: usize = 300;

/// The connection settings of whoever wants a credential.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    client: ClientConfig,
    clock: Clock,
    /// Whether an endpoint was out of reach, or failed.
    had_outage: Cell<bool>,
}

/// A request to a token endpoint.
pub(crate) struct Ask<'a> {
    pub method: Method,
    /// The whole URL. Its query may hold what must not be shown.
    pub url: &'a str,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Whether the endpoint is a service of the machine itself.
    pub is_near: bool,
}

impl<'a> Ask<'a> {
    pub fn get(url: &'a str) -> Ask<'a> {
        Ask { method: Method::GET, url, headers: Vec::new(), body: String::new(), is_near: false }
    }

    /// A form that is posted.
    pub fn form(url: &'a str, fields: &[(&str, &str)]) -> Ask<'a> {
        let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
        Ask { method: Method::POST, headers, body: crate::text::form(fields), ..Ask::get(url) }
    }

    pub fn near(self) -> Ask<'a> {
        Ask { is_near: true, ..self }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Ask<'a> {
        self.headers.push((name, value.into()));
        self
    }
}

impl Reach {
    pub fn new(client: &ClientConfig, clock: Clock) -> Reach {
        let client = ClientConfig { insecure: false, unix_socket: None, rx_timestamps: false, ..client.clone() };
        Reach { client, clock, had_outage: Cell::new(false) }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether an endpoint that was asked was out of reach, or failed. Where there is no metadata service, nothing answers.
    pub fn had_outage(&self) -> bool {
        self.had_outage.get()
    }

    /// Asks, and gives what came; an error says why nothing did.
    pub fn ask(&self, ask: Ask<'_>) -> Result<String, String> {
        let (root, path) = split(ask.url).ok_or("the address of its token endpoint is no URL")?;
        // Without the path, which may name what nobody should see.
        let shown = root.to_string();
        let time = if ask.is_near { TIME_NEAR } else { TIME };
        let mut client = ClientConfig { connect_timeout: time, ..self.client.clone() };
        if ask.is_near {
            client.proxy = None;
        }
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_static("application/json"));
        for (name, value) in &ask.headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| "what it needs fits in no header".to_owned())?;
            value.set_sensitive(*name != CONTENT_TYPE.as_str());
            headers.insert(HeaderName::from_static(name), value);
        }
        let outgoing = Outgoing { method: ask.method, path: path.to_owned(), headers, body: Bytes::from(ask.body) };
        let limits = Limits { idle: time, total: time, max_body_bytes: MAX_ANSWER_BYTES };
        let answer = Client::whole_blocking(&root, outgoing, &client, limits, self.clock);
        let status = answer.as_ref().map(|answer| answer.head.status);
        let is_out = match &status {
            Ok(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            Err(_) => !ask.is_near,
        };
        self.had_outage.set(self.had_outage.get() || is_out);
        let answer = answer.map_err(|failure| format!("{shown} could not be asked: {}", failure.detail))?;
        let status = answer.head.status;
        let text = String::from_utf8(answer.body).unwrap_or_default();
        match status {
            status if status.is_success() => Ok(text),
            status if status.is_redirection() => {
                Err(format!("{shown} answered {}, and redirects are not followed", status.as_u16()))
            }
            status => Err(format!("{shown} answered {}{}", status.as_u16(), reason(status, &text))),
        }
    }

    /// Asks for JSON.
    pub fn ask_json(&self, ask: Ask<'_>) -> Result<Value, String> {
        let shown = split(ask.url).map(|(root, _)| root.to_string()).unwrap_or_default();
        let text = self.ask(ask)?;
        let read: Option<Value> = serde_json::from_str(&text).ok();
        read.filter(Value::is_object).ok_or_else(|| format!("{shown} did not answer with JSON"))
    }
}

/// The server of a URL, and path and query on it.
fn split(url: &str) -> Option<(Target, &str)> {
    let host_at = url.find("://")? + 3;
    let path_at = url[host_at..].find('/').map(|at| host_at + at);
    let (root, path) = path_at.map_or((url, "/"), |at| url.split_at(at));
    Some((Target::parse(root).ok()?, path))
}

/// What an endpoint says of its refusal: the fields that OAuth, Google and AWS have for that. Other texts are not shown, as they could
/// repeat what was sent.
fn reason(status: StatusCode, body: &str) -> String {
    let read: Value = serde_json::from_str(body).unwrap_or_default();
    let at = |pointer: &str| read.pointer(pointer).and_then(Value::as_str);
    let code = at("/error").or(at("/error/status")).or(at("/Code")).or(at("/code"));
    // Entra's descriptions have several lines, of which the first says it.
    let text = at("/error_description").or(at("/error/message")).or(at("/Message")).or(at("/message"));
    let text = text.and_then(|text| text.lines().next());
    let known: Vec<&str> = [code, text].into_iter().flatten().collect();
    let skewed = status == StatusCode::FORBIDDEN && known.iter().any(|text| is_about_time(text));
    let clock = if skewed { " (is this machine's clock right?)" } else { "" };
    if known.is_empty() { String::new() } else { format!(": {}{clock}", one_line(&known.join(": "), MAX_REASON_BYTES)) }
}

/// Whether a refusal is about the time that a signature carries.
fn is_about_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["expired", "not yet current", "skew"].iter().any(|word| text.contains(word))
}

/// Whether a token endpoint may be asked there: over TLS, or on this machine.
pub(crate) fn is_safe(url: &str) -> bool {
    Target::parse(url.split('?').next().unwrap_or_default()).is_ok_and(|target| target.is_tls() || is_loopback(&target))
}

pub(crate) fn is_loopback(target: &Target) -> bool {
    let address = target.host().parse::<std::net::IpAddr>();
    target.host() == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A text of an answer.
pub(crate) fn text<'v>(answer: &'v Value, name: &str) -> Option<&'v str> {
    answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Seconds of an answer, as a number or in quotes.
pub(crate) fn seconds(answer: &Value, name: &str) -> Option<u64> {
    let value = answer.get(name)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

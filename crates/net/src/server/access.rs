//! Which requests a listener accepts, decided from the head: Host, Origin and fetch metadata, content type.
//!
//! Invariant: a web page of a foreign origin that was not allowed gets no answer other than a top-level navigation: neither through DNS
//! rebinding, nor with a request that browsers send without a preflight.

use super::RequestBody;
use http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const REQUESTED_METHOD: HeaderName = HeaderName::from_static("access-control-request-method");
/// Most bytes of a foreign name quoted in an error message.
const MAX_QUOTED_BYTES: usize = 120;

/// Access rules of a listener.
#[derive(Clone, Copy, Debug)]
pub struct AccessConfig<'a> {
    /// Allowed host names besides its addresses and `localhost`: `gateway.example` at any port, `gateway.example:8443` at that one.
    pub hosts: &'a [String],
    /// Origins of other sites whose pages may send requests: `https://app.example`.
    pub origins: &'a [String],
    /// Whether a key is required. Without one it can only listen on loopback.
    pub requires_key: bool,
    /// Names of the settings in error messages.
    pub settings: &'a AccessSettings,
}

/// The names of settings, for messages that say what to do.
#[derive(Clone, Copy, Debug)]
pub struct AccessSettings {
    /// Adds a host.
    pub host: &'static str,
    /// Allows another origin; `None` if there is no such setting.
    pub origin: Option<&'static str>,
    /// Requires a key.
    pub key: &'static str,
}

/// The rules of one listener.
#[derive(Clone, Debug)]
pub(super) struct Access {
    address: SocketAddr,
    /// The address as most clients send it in `Host`.
    address_text: Vec<u8>,
    hosts: Vec<AllowedHost>,
    origins: Vec<String>,
    settings: AccessSettings,
}

/// A configured host name.
#[derive(Clone, Debug)]
struct AllowedHost {
    name: Vec<u8>,
    port: Option<u16>,
}

/// Decision on a request.
#[derive(PartialEq, Debug)]
pub(super) enum Decision {
    Allow,
    /// Allowed, and the page of this origin may read the response (CORS).
    AllowOrigin(HeaderValue),
    /// A CORS preflight of an allowed origin.
    Preflight(HeaderValue),
    Reject(StatusCode, String),
}

impl Access {
    /// The rules of a listener at `address`.
    pub fn new(address: SocketAddr, config: &AccessConfig<'_>) -> Access {
        let allowed = |host: &String| match Authority::parse(host.as_bytes()) {
            Some(Authority { host: Host::Name(name), port }) => AllowedHost { name: name.to_vec(), port },
            // An address, or something that never matches.
            _ => AllowedHost { name: host.as_bytes().to_vec(), port: None },
        };
        Access {
            address,
            address_text: address.to_string().into_bytes(),
            hosts: config.hosts.iter().map(allowed).collect(),
            origins: config.origins.to_vec(),
            settings: *config.settings,
        }
    }

    /// Decides on a request whose body has not been read.
    pub fn decide(&self, request: &Request<RequestBody>, takes_form: impl Fn() -> bool) -> Decision {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let decided = self.host(uri, headers).and_then(|host| {
            let origin = self.origin(method, headers, host)?;
            let is_preflight = *method == Method::OPTIONS && headers.contains_key(REQUESTED_METHOD);
            match origin {
                Some(origin) if is_preflight => Ok(Decision::Preflight(origin.clone())),
                _ if request.body().is_some() && !is_json(headers) && !(is_form(headers) && takes_form()) => Err((
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "send the body as JSON, with the header `content-type: application/json`".to_owned(),
                )),
                Some(origin) => Ok(Decision::AllowOrigin(origin.clone())),
                None => Ok(Decision::Allow),
            }
        });
        decided.unwrap_or_else(|(status, message)| Decision::Reject(status, message))
    }

    /// The host of a request, if it is one of this server.
    fn host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a [u8], (StatusCode, String)> {
        let mut values = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let (first, second) = (values.next(), values.next());
        let target = uri.authority().map(|authority| authority.as_str().as_bytes());
        // HTTP/2 has it in `:authority`, and possibly in `host` too.
        let Some(host) = target.or(first).filter(|_| second.is_none()) else {
            let message = "send exactly one `host` header";
            return Err((StatusCode::BAD_REQUEST, message.to_owned()));
        };
        match [Some(host), first].into_iter().flatten().find(|host| !self.is_known_host(host)) {
            None => Ok(host),
            Some(foreign) => {
                let AccessSettings { host: setting, .. } = self.settings;
                let message = format!(
                    "`{}` is not a name of this server: use an address that it listens on, or add the name with {setting}",
                    printable(foreign)
                );
                Err((StatusCode::MISDIRECTED_REQUEST, message))
            }
        }
    }

    fn is_known_host(&self, host: &[u8]) -> bool {
        if host == self.address_text {
            return true;
        }
        let Some(Authority { host, port }) = Authority::parse(host) else { return false };
        let listens = self.address.ip();
        match host {
            // A browser sends an IP address as host only for pages of that address, so that DNS rebinding cannot use one.
            Host::Address(address) => {
                let both_loopback = address.is_loopback() && listens.is_loopback();
                listens.is_unspecified() || both_loopback || address == listens.to_canonical()
            }
            Host::Name(name) => {
                let is_local = listens.is_loopback() || listens.is_unspecified();
                let is_allowed = |allowed: &AllowedHost| {
                    allowed.name.eq_ignore_ascii_case(name) && allowed.port.is_none_or(|wanted| port == Some(wanted))
                };
                (is_local && name.eq_ignore_ascii_case(b"localhost")) || self.hosts.iter().any(is_allowed)
            }
        }
    }

    /// The allowed foreign origin of a request, if any; an error for a foreign origin that is not allowed.
    fn origin<'a>(
        &self,
        method: &Method,
        headers: &'a HeaderMap,
        host: &[u8],
    ) -> Result<Option<&'a HeaderValue>, (StatusCode, String)> {
        let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
        let mut origins = headers.get_all(ORIGIN).iter();
        let (origin, second) = (origins.next(), origins.next());
        if origin.is_none() && site.is_none() {
            // Not a browser, or a plain navigation.
            return Ok(None);
        }
        if let (Some(value), None) = (origin, second)
            && self.origins.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(value.as_bytes()))
        {
            return Ok(Some(value));
        }
        let is_own_site = matches!(site, None | Some(b"same-origin" | b"none"));
        let is_own = second.is_none() && origin.is_none_or(|origin| is_same_origin(origin.as_bytes(), host));
        if (is_own && is_own_site) || (origin.is_none() && is_navigation(method, headers)) {
            return Ok(None);
        }
        let who = origin.map_or_else(|| "another site".to_owned(), |origin| printable(origin.as_bytes()));
        let todo = self.settings.origin.map_or_else(String::new, |setting| format!("; {setting} allows one"));
        Err((
            StatusCode::FORBIDDEN,
            format!("requests from pages of other sites are not allowed, and this one is from `{who}`{todo}"),
        ))
    }
}

/// Whether this is a top-level navigation, whose result the linking page cannot read.
fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name, value: &str| headers.get(name).is_some_and(|found: &HeaderValue| found == value);
    (*method == Method::GET || *method == Method::HEAD) && is(FETCH_MODE, "navigate") && is(FETCH_DEST, "document")
}

/// Whether an origin is the one of `host`.
fn is_same_origin(origin: &[u8], host: &[u8]) -> bool {
    let of_scheme = |scheme: &[u8], port| Some((origin.strip_prefix(scheme)?, port));
    let Some((authority, default_port)) = of_scheme(b"http://", 80).or_else(|| of_scheme(b"https://", 443)) else {
        return false;
    };
    let (Some(origin), Some(host)) = (Authority::parse(authority), Authority::parse(host)) else { return false };
    let is_same_host = match (origin.host, host.host) {
        (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
        (one, other) => one == other,
    };
    is_same_host && origin.port.unwrap_or(default_port) == host.port.unwrap_or(default_port)
}

/// Whether the content type is that of a form with files. Pages of other sites can send one without asking: what refuses them is
/// their `Origin`.
pub fn is_form(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|essence| essence.eq_ignore_ascii_case(b"multipart/form-data"))
}

/// The content type without its parameters; `None` where none is given, or several are.
fn media_type(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.as_bytes().split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii)
}

/// Whether the content type is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(essence) = media_type(headers) else { return false };
    if essence.eq_ignore_ascii_case(b"application/json") {
        return true;
    }
    let is_application = essence.get(..12).is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/"));
    let suffix = essence.len().checked_sub(5).filter(|at| *at > 12).map(|at| &essence[at..]);
    is_application && suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json"))
}

/// A header value for an error message: cut, and with unusual bytes escaped.
fn printable(value: &[u8]) -> String {
    let mut text = String::new();
    for &byte in value.iter().take(MAX_QUOTED_BYTES) {
        match byte {
            b' '..=b'~' if byte != b'`' => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

/// `host` or `host:port`.
#[derive(PartialEq, Eq, Debug)]
struct Authority<'a> {
    host: Host<'a>,
    port: Option<u16>,
}

#[derive(PartialEq, Eq, Debug)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a [u8]),
}

impl Authority<'_> {
    /// Parses an authority; only canonical forms are accepted.
    fn parse(value: &[u8]) -> Option<Authority<'_>> {
        let (host, rest) = match value.strip_prefix(b"[") {
            Some(inner) => {
                let end = inner.iter().position(|byte| *byte == b']')?;
                let address: Ipv6Addr = std::str::from_utf8(&inner[..end]).ok()?.parse().ok()?;
                (Host::Address(IpAddr::V6(address).to_canonical()), &inner[end + 1..])
            }
            None => {
                let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
                let (name, rest) = value.split_at(end);
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                if name.is_empty() || !name.iter().all(is_plain) {
                    return None;
                }
                let text = std::str::from_utf8(name).ok()?;
                let host = text.parse().map_or(Host::Name(name), |address| Host::Address(IpAddr::V4(address)));
                (host, rest)
            }
        };
        let port = match rest {
            [] => None,
            [b':', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                Some(std::str::from_utf8(digits).ok()?.parse().ok()?)
            }
            _ => return None,
        };
        Some(Authority { host, port })
    }
}

#[cfg(test)]
mod tests;

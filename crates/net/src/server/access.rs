//! Which requests a listener answers at all, decided from the head: whom it means, which page sent it, what its body is.
//!
//! It does not know keys, routes and bodies. Invariant: a web page of another origin that nobody allowed has nothing answered but
//! what a person opens in a tab: not under a name that somebody else's DNS has led here, and not by a request that a browser
//! sends without asking first.

use super::RequestBody;
use http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const ASKED_METHOD: HeaderName = HeaderName::from_static("access-control-request-method");
/// So much of a foreign name is repeated in a refusal (bytes).
const REPEATED_BYTES_MOST: usize = 120;

/// Who may ask at a listener.
#[derive(Clone, Copy, Debug)]
pub struct AccessConfig<'a> {
    /// Names under which it may be asked, beside the addresses that it listens on and `localhost`: `gateway.example` at any port,
    /// `gateway.example:8443` at that one.
    pub hosts: &'a [String],
    /// Origins of other sites whose pages may ask: `https://app.example`.
    pub origins: &'a [String],
    /// Whether a key has to be shown. Without one it can only be on loopback.
    pub asks_key: bool,
    /// How refusals name the settings.
    pub settings: &'a AccessSettings,
}

/// The names of settings, for messages that say what to do.
#[derive(Clone, Copy, Debug)]
pub struct AccessSettings {
    /// What adds a host.
    pub host: &'static str,
    /// What allows the pages of another origin; `None` if nothing does.
    pub origin: Option<&'static str>,
    /// What makes the listener ask for a key.
    pub key: &'static str,
}

/// The rules of one listener.
#[derive(Clone, Debug)]
pub(super) struct Access {
    address: SocketAddr,
    /// What most clients write.
    usual: Vec<u8>,
    hosts: Vec<Told>,
    origins: Vec<String>,
    settings: AccessSettings,
}

/// A name that was configured.
#[derive(Clone, Debug)]
struct Told {
    name: Vec<u8>,
    port: Option<u16>,
}

/// What becomes of a request.
#[derive(PartialEq, Debug)]
pub(super) enum Verdict {
    Answered,
    /// Answered, and its page may read the answer.
    AnsweredTo(HeaderValue),
    /// A browser asks whether a page of this origin may ask.
    Asked(HeaderValue),
    Refused(StatusCode, String),
}

impl Access {
    /// The rules of a listener at `address`.
    pub fn new(address: SocketAddr, config: &AccessConfig<'_>) -> Access {
        let told = |host: &String| match Authority::read(host.as_bytes()) {
            Some(Authority { host: Host::Name(name), port }) => Told { name: name.to_vec(), port },
            // An address in brackets or not, or what can never match.
            _ => Told { name: host.as_bytes().to_vec(), port: None },
        };
        Access {
            address,
            usual: address.to_string().into_bytes(),
            hosts: config.hosts.iter().map(told).collect(),
            origins: config.origins.to_vec(),
            settings: *config.settings,
        }
    }

    /// Decides on a request whose body has not been read.
    pub fn judge(&self, request: &Request<RequestBody>) -> Verdict {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let decided = self.host(uri, headers).and_then(|host| {
            let origin = self.origin(method, headers, host)?;
            let is_preflight = *method == Method::OPTIONS && headers.contains_key(ASKED_METHOD);
            match origin {
                Some(origin) if is_preflight => Ok(Verdict::Asked(origin.clone())),
                _ if request.body().is_some() && !is_json(headers) => Err((
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "send the body as JSON, with the header `content-type: application/json`".to_owned(),
                )),
                Some(origin) => Ok(Verdict::AnsweredTo(origin.clone())),
                None => Ok(Verdict::Answered),
            }
        });
        decided.unwrap_or_else(|(status, message)| Verdict::Refused(status, message))
    }

    /// The name under which a request asks, if it is one of ours.
    fn host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a [u8], (StatusCode, String)> {
        let mut said = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let (first, second) = (said.next(), said.next());
        let target = uri.authority().map(|authority| authority.as_str().as_bytes());
        // HTTP/2 says it in the target, and may say it again.
        let Some(host) = target.or(first).filter(|_| second.is_none()) else {
            let message = "say once, in the header `host`, which server is meant";
            return Err((StatusCode::BAD_REQUEST, message.to_owned()));
        };
        match [Some(host), first].into_iter().flatten().find(|host| !self.is_ours(host)) {
            None => Ok(host),
            Some(foreign) => {
                let AccessSettings { host: setting, .. } = self.settings;
                let said = format!(
                    "`{}` is no name of this server: ask by an address that it listens on, or add the name with {setting}",
                    shown(foreign)
                );
                Err((StatusCode::MISDIRECTED_REQUEST, said))
            }
        }
    }

    fn is_ours(&self, host: &[u8]) -> bool {
        if host == self.usual {
            return true;
        }
        let Some(Authority { host, port }) = Authority::read(host) else { return false };
        let listens = self.address.ip();
        match host {
            // Behind a mapped port, or on all addresses, a browser names an address only if the page is of that address.
            Host::Address(address) => {
                let both_loopback = address.is_loopback() && listens.is_loopback();
                listens.is_unspecified() || both_loopback || address == listens.to_canonical()
            }
            Host::Name(name) => {
                let is_local = listens.is_loopback() || listens.is_unspecified();
                let is_told = |told: &Told| {
                    told.name.eq_ignore_ascii_case(name) && told.port.is_none_or(|wanted| port == Some(wanted))
                };
                (is_local && name.eq_ignore_ascii_case(b"localhost")) || self.hosts.iter().any(is_told)
            }
        }
    }

    /// The origin of another site that may ask, if that is who asks. A page that may not is refused.
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
            // No browser, or one that asks for nothing but what an address in its bar would.
            return Ok(None);
        }
        if let (Some(value), None) = (origin, second)
            && self.origins.iter().any(|told| told.as_bytes().eq_ignore_ascii_case(value.as_bytes()))
        {
            return Ok(Some(value));
        }
        let is_own_site = matches!(site, None | Some(b"same-origin" | b"none"));
        let is_own = second.is_none() && origin.is_none_or(|origin| is_same(origin.as_bytes(), host));
        if (is_own && is_own_site) || (origin.is_none() && is_opened(method, headers)) {
            return Ok(None);
        }
        let who = origin.map_or_else(|| "another site".to_owned(), |origin| shown(origin.as_bytes()));
        let todo = self.settings.origin.map_or_else(String::new, |setting| format!("; {setting} allows one"));
        Err((StatusCode::FORBIDDEN, format!("pages of other sites may not ask here, and this is one of `{who}`{todo}")))
    }
}

/// Whether a person opens a page by a link: it is shown in a tab of its own, and the page with the link cannot read it.
fn is_opened(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name, value: &str| headers.get(name).is_some_and(|said: &HeaderValue| said == value);
    (*method == Method::GET || *method == Method::HEAD) && is(FETCH_MODE, "navigate") && is(FETCH_DEST, "document")
}

/// Whether an origin is that of the server that is asked as `host`.
fn is_same(origin: &[u8], host: &[u8]) -> bool {
    let of_scheme = |scheme: &[u8], port| Some((origin.strip_prefix(scheme)?, port));
    let Some((authority, usual)) = of_scheme(b"http://", 80).or_else(|| of_scheme(b"https://", 443)) else {
        return false;
    };
    let (Some(origin), Some(host)) = (Authority::read(authority), Authority::read(host)) else { return false };
    let is_same_host = match (origin.host, host.host) {
        (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
        (one, other) => one == other,
    };
    is_same_host && origin.port.unwrap_or(usual) == host.port.unwrap_or(usual)
}

/// Whether a body is said to be JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return true;
    }
    let is_application = essence.get(..12).is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/"));
    let suffix = essence.len().checked_sub(5).filter(|at| *at > 12).map(|at| &essence[at..]);
    is_application && suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json"))
}

/// What was said, as far as it can be repeated.
fn shown(said: &[u8]) -> String {
    let mut text = String::new();
    for &byte in said.iter().take(REPEATED_BYTES_MOST) {
        match byte {
            b' '..=b'~' if byte != b'`' => text.push(char::from(byte)),
            // A string takes everything.
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
    /// Reads one; of what can be written in several ways the plainest alone.
    fn read(said: &[u8]) -> Option<Authority<'_>> {
        let (host, rest) = match said.strip_prefix(b"[") {
            Some(inner) => {
                let end = inner.iter().position(|byte| *byte == b']')?;
                let address: Ipv6Addr = std::str::from_utf8(&inner[..end]).ok()?.parse().ok()?;
                (Host::Address(IpAddr::V6(address).to_canonical()), &inner[end + 1..])
            }
            None => {
                let end = said.iter().position(|byte| *byte == b':').unwrap_or(said.len());
                let (name, rest) = said.split_at(end);
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

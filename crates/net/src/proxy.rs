//! Proxies as the environment names them, and which of them a target is reached through.
//!
//! It refuses to read the environment: values of variables are handed in. Invariant: who asks a proxy is never printed.

use crate::error::NetError;
use crate::target::Target;
use hyper_util::client::proxy::matcher::Matcher;
use std::fmt;
use std::sync::Arc;

/// Longest user, password or name that SOCKS5 can say (bytes).
const SOCKS_TEXT_MOST: usize = 255;

/// Proxies as the environment names them. What is wrong with one is told when a target would go through it.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    http: Option<Arc<Result<Proxy, Refused>>>,
    https: Option<Arc<Result<Proxy, Refused>>>,
    /// Intercepts what NO_PROXY does not name.
    rest: Arc<Matcher>,
}

/// A proxy that cannot be used.
#[derive(Clone, Debug)]
struct Refused {
    variable: &'static str,
    reason: String,
}

/// What is spoken with a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProxyKind {
    /// HTTP, in the clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS5 with addresses.
    Socks5,
    /// SOCKS5 with names, which the proxy looks up.
    Socks5Names,
}

/// The proxy for a target.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub kind: ProxyKind,
    /// Name or address, IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// Value of `Proxy-Authorization`, marked sensitive.
    pub authorization: Option<http::HeaderValue>,
    /// Who asks a SOCKS proxy.
    pub login: Option<Login>,
}

/// User and password for SOCKS5.
#[derive(Clone)]
pub(crate) struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Login(***)")
    }
}

impl ProxyKind {
    const ALL: [(&'static str, ProxyKind, u16); 4] = [
        ("http", ProxyKind::Http, 80),
        ("https", ProxyKind::Https, 443),
        ("socks5", ProxyKind::Socks5, 1080),
        ("socks5h", ProxyKind::Socks5Names, 1080),
    ];

    pub fn is_http(self) -> bool {
        matches!(self, ProxyKind::Http | ProxyKind::Https)
    }
}

impl Proxy {
    /// Host and port.
    pub fn place(&self) -> String {
        let Proxy { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    fn read(url: &str) -> Result<Proxy, String> {
        // As everywhere, a proxy without a scheme is one of HTTP.
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let scheme = scheme.to_ascii_lowercase();
        let Some((_, kind, usual)) = ProxyKind::ALL.into_iter().find(|(name, ..)| *name == scheme) else {
            let known = ProxyKind::ALL.map(|(name, ..)| format!("{name}://")).join(", ");
            // What stands before `://` may be no scheme but a password of an address that lacks one.
            let is_plain = scheme.chars().all(|sign| sign.is_ascii_alphanumeric());
            let what = if is_plain { format!("`{scheme}://`") } else { "it".to_owned() };
            return Err(format!("{what} is none of the kinds that are supported: {known}"));
        };
        let wrong = || "it is no URL (signs like @, / and # in a password are written as %40, %2F and %23)".to_owned();
        let matcher = Matcher::builder().all(format!("{scheme}://{rest}")).build();
        let found = matcher.intercept(&http::Uri::from_static("http://any.invalid/")).ok_or_else(wrong)?;
        let host = found.uri().host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let authority = found.uri().authority().ok_or_else(wrong)?;
        // A password that holds one of these signs would otherwise be cut there, and its user taken for the host.
        let is_no_port = authority.port_u16().is_none() && authority.as_str().len() > host.len();
        if is_no_port || rest.split_once(['/', '?', '#']).is_some_and(|(_, after)| after.contains('@')) {
            return Err(wrong());
        }
        let authorization = found.basic_auth().cloned().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let login = found.raw_auth().map(|(user, password)| Login { user: user.into(), password: password.into() });
        let is_long = |text: &str| text.len() > SOCKS_TEXT_MOST;
        if login.as_ref().is_some_and(|login| is_long(&login.user) || is_long(&login.password)) {
            return Err(format!("its user or its password has more than {SOCKS_TEXT_MOST} bytes"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Proxy { kind, host, port: found.uri().port_u16().unwrap_or(usual), authorization, login })
    }
}

impl ProxySettings {
    /// From the values of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; `None` if no proxy is named.
    pub fn from_values(
        http: Option<&str>,
        https: Option<&str>,
        all: Option<&str>,
        none_for: Option<&str>,
    ) -> Option<ProxySettings> {
        let read = |variable: &'static str, value: Option<&str>| {
            let value = value.filter(|value| !value.is_empty())?;
            Some(Arc::new(Proxy::read(value).map_err(|reason| Refused { variable, reason })))
        };
        let all = read("ALL_PROXY", all);
        let http = read("HTTP_PROXY", http).or_else(|| all.clone());
        let https = read("HTTPS_PROXY", https).or(all);
        if http.is_none() && https.is_none() {
            return None;
        }
        let rest = Matcher::builder().all("http://any.invalid").no(none_for.unwrap_or_default().to_owned()).build();
        Some(ProxySettings { http, https, rest: Arc::new(rest) })
    }

    /// The proxy through which this target is reached, if any.
    pub(crate) fn intercept(&self, target: &Target) -> Result<Option<Proxy>, NetError> {
        let Some(named) = (if target.is_tls() { &self.https } else { &self.http }) else { return Ok(None) };
        let uri = target.to_string().parse::<http::Uri>();
        if uri.is_ok_and(|uri| self.rest.intercept(&uri).is_none()) {
            return Ok(None);
        }
        match &**named {
            Err(Refused { variable, reason }) => Err(NetError::Proxy { variable, reason: reason.clone() }),
            Ok(proxy) if !proxy.kind.is_http() && target.host().len() > SOCKS_TEXT_MOST => {
                let reason = "SOCKS5 has no room for so long a name";
                Err(NetError::Url { url: target.to_string(), reason })
            }
            Ok(proxy) => Ok(Some(proxy.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &ProxySettings, url: &str) -> Result<Option<Proxy>, String> {
        settings.intercept(&Target::parse(url).expect("a URL")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_scheme_chooses_the_proxy_and_no_proxy_wins() {
        let (http, https) = (Some("http://p:3128"), Some("http://user:pass@s:3129"));
        let settings = ProxySettings::from_values(http, https, None, Some("localhost,.in")).expect("proxies are named");
        let place = |url| of(&settings, url).expect("it can be used").map(|proxy| proxy.place());
        assert_eq!(place("http://h/v1").as_deref(), Some("p:3128"));
        assert_eq!(place("https://h/v1").as_deref(), Some("s:3129"));
        assert_eq!(place("http://localhost:1/v1"), None);
        assert_eq!(place("https://a.in/v1"), None);
        assert!(ProxySettings::from_values(None, None, None, Some("h")).is_none());
        assert!(ProxySettings::from_values(Some(""), None, None, None).is_none());
        let one = ProxySettings::from_values(None, https, None, None).expect("a proxy is named");
        assert!(of(&one, "http://h/v1").expect("none is needed").is_none());
    }

    #[test]
    fn kinds_ports_and_who_asks_are_read_and_nobody_is_shown() {
        for (url, kind, place) in [
            ("p:3128", ProxyKind::Http, "p:3128"),
            ("http://p", ProxyKind::Http, "p:80"),
            ("https://p", ProxyKind::Https, "p:443"),
            ("SOCKS5://[::1]", ProxyKind::Socks5, "[::1]:1080"),
            ("socks5h://u%40x:geheim%2F@p:9050", ProxyKind::Socks5Names, "p:9050"),
        ] {
            let settings = ProxySettings::from_values(None, None, Some(url), None).expect("it is named");
            let proxy = of(&settings, "https://h/v1").expect("it can be used").expect("it is meant");
            assert_eq!((proxy.kind, proxy.place().as_str()), (kind, place));
            let shown = format!("{settings:?} {proxy:?}");
            assert!(!shown.contains("geheim") && !shown.contains("u@x"), "{shown}");
            if let Some(login) = proxy.login {
                assert_eq!((login.user.as_str(), login.password.as_str()), ("u@x", "geheim/"));
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_where_it_would_be_used_with_what_is_supported() {
        let long = format!("socks5://u:{}@p", "x".repeat(256));
        for (url, said) in [
            (
                "socks4://u:geheim@p",
                "`socks4://` is none of the kinds that are supported: http://, https://, socks5://, socks5h://",
            ),
            ("socks://p:1080/", "`socks://` is none"),
            ("u:geheim://p", "it is none of the kinds"),
            ("socks5://u:geheim/@p", "it is no URL"),
            ("http://", "it is no URL"),
            (long.as_str(), "more than 255 bytes"),
        ] {
            let settings = ProxySettings::from_values(Some("http://p"), None, Some(url), Some("b.in")).expect("named");
            let message = of(&settings, "https://h/v1").expect_err(url);
            assert!(message.contains("ALL_PROXY") && message.contains(said), "{url}: {message}");
            assert!(!message.contains("geheim") && !message.contains("xxx"), "{message}");
            assert!(of(&settings, "http://h/v1").is_ok() && of(&settings, "https://b.in/v1").is_ok(), "it is not used");
        }
    }
}

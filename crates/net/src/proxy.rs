//! Proxy settings, from the values of HTTP_PROXY and its siblings or from one URL, and which proxy a target uses.
//!
//! It does not read the environment. Invariant: credentials are never printed.

use crate::error::NetError;
use crate::target::Target;
use hyper_util::client::proxy::matcher::Matcher;
use std::fmt;
use std::sync::Arc;

/// Longest user, password or host name in SOCKS5: their lengths are one byte.
const MAX_SOCKS_STRING_BYTES: usize = 255;

/// Proxies, as the environment names them or one for all targets. An invalid one of the environment is an error only when a target
/// would use it.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    http: Option<Arc<Result<Proxy, InvalidProxy>>>,
    https: Option<Arc<Result<Proxy, InvalidProxy>>>,
    /// Matches what NO_PROXY does not exclude.
    rest: Arc<Matcher>,
}

/// A proxy that cannot be used.
#[derive(Clone, Debug)]
struct InvalidProxy {
    variable: &'static str,
    reason: String,
}

/// Protocol of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProxyKind {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS5 with addresses, resolved here.
    Socks5,
    /// SOCKS5 with names, resolved by the proxy.
    Socks5h,
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
    /// Credentials for a SOCKS proxy.
    pub credentials: Option<Credentials>,
}

/// User and password for SOCKS5.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(***)")
    }
}

impl ProxyKind {
    const ALL: [(&'static str, ProxyKind, u16); 4] = [
        ("http", ProxyKind::Http, 80),
        ("https", ProxyKind::Https, 443),
        ("socks5", ProxyKind::Socks5, 1080),
        ("socks5h", ProxyKind::Socks5h, 1080),
    ];

    pub fn is_http(self) -> bool {
        matches!(self, ProxyKind::Http | ProxyKind::Https)
    }
}

impl Proxy {
    /// Host and port.
    pub fn authority(&self) -> String {
        let Proxy { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    fn parse(url: &str) -> Result<Proxy, String> {
        // By convention a proxy without a scheme is an HTTP proxy.
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let scheme = scheme.to_ascii_lowercase();
        let Some((_, kind, default_port)) = ProxyKind::ALL.into_iter().find(|(name, ..)| *name == scheme) else {
            let known = ProxyKind::ALL.map(|(name, ..)| format!("{name}://")).join(", ");
            // What precedes `://` may be part of a password in a URL without a scheme.
            let is_plain = scheme.chars().all(|sign| sign.is_ascii_alphanumeric());
            let what = if is_plain { format!("`{scheme}://`") } else { "it".to_owned() };
            return Err(format!("{what} is not a supported kind of proxy: {known}"));
        };
        let wrong =
            || "it is not a URL (characters like @, / and # in a password are written as %40, %2F and %23)".to_owned();
        let matcher = Matcher::builder().all(format!("{scheme}://{rest}")).build();
        let found = matcher.intercept(&http::Uri::from_static("http://any.invalid/")).ok_or_else(wrong)?;
        let host = found.uri().host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let authority = found.uri().authority().ok_or_else(wrong)?;
        // A password with one of these characters would be cut there, and the user taken for the host.
        let is_no_port = authority.port_u16().is_none() && authority.as_str().len() > host.len();
        if is_no_port || rest.split_once(['/', '?', '#']).is_some_and(|(_, after)| after.contains('@')) {
            return Err(wrong());
        }
        let authorization = found.basic_auth().cloned().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let credentials =
            found.raw_auth().map(|(user, password)| Credentials { user: user.into(), password: password.into() });
        let is_long = |text: &str| text.len() > MAX_SOCKS_STRING_BYTES;
        if credentials.as_ref().is_some_and(|credentials| is_long(&credentials.user) || is_long(&credentials.password))
        {
            return Err(format!("its user or its password has more than {MAX_SOCKS_STRING_BYTES} bytes"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Proxy { kind, host, port: found.uri().port_u16().unwrap_or(default_port), authorization, credentials })
    }
}

impl ProxySettings {
    /// From the values of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; `None` if no proxy is named.
    pub fn from_values(
        http: Option<&str>,
        https: Option<&str>,
        all: Option<&str>,
        no_proxy: Option<&str>,
    ) -> Option<ProxySettings> {
        let read = |variable: &'static str, value: Option<&str>| {
            let value = value.filter(|value| !value.is_empty())?;
            Some(Arc::new(Proxy::parse(value).map_err(|reason| InvalidProxy { variable, reason })))
        };
        let all = read("ALL_PROXY", all);
        let http = read("HTTP_PROXY", http).or_else(|| all.clone());
        let https = read("HTTPS_PROXY", https).or(all);
        if http.is_none() && https.is_none() {
            return None;
        }
        let rest = Matcher::builder().all("http://any.invalid").no(no_proxy.unwrap_or_default().to_owned()).build();
        Some(ProxySettings { http, https, rest: Arc::new(rest) })
    }

    /// One proxy for every target.
    ///
    /// # Errors
    /// Why the URL cannot be used, without its credentials.
    pub fn for_all(url: &str) -> Result<ProxySettings, String> {
        let proxy = Some(Arc::new(Ok(Proxy::parse(url)?)));
        let rest = Arc::new(Matcher::builder().all("http://any.invalid").build());
        Ok(ProxySettings { http: proxy.clone(), https: proxy, rest })
    }

    /// The proxy through which this target is reached, if any.
    pub(crate) fn intercept(&self, target: &Target) -> Result<Option<Proxy>, NetError> {
        let Some(named) = (if target.is_tls() { &self.https } else { &self.http }) else { return Ok(None) };
        let uri = target.to_string().parse::<http::Uri>();
        if uri.is_ok_and(|uri| self.rest.intercept(&uri).is_none()) {
            return Ok(None);
        }
        match &**named {
            Err(InvalidProxy { variable, reason }) => Err(NetError::Proxy { variable, reason: reason.clone() }),
            Ok(proxy) if !proxy.kind.is_http() && target.host().len() > MAX_SOCKS_STRING_BYTES => {
                let reason = "SOCKS5 takes host names of up to 255 bytes";
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
        let place = |url| of(&settings, url).expect("it can be used").map(|proxy| proxy.authority());
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
    fn a_proxy_for_all_targets_takes_local_ones_too_and_is_refused_at_once() {
        let settings = ProxySettings::for_all("socks5h://u:geheim@p").expect("a proxy");
        for url in ["http://localhost:1/v1", "https://127.0.0.1/v1", "http://h/v1"] {
            let proxy = of(&settings, url).expect("it can be used").expect("it is meant");
            assert_eq!((proxy.kind, proxy.authority().as_str()), (ProxyKind::Socks5h, "p:1080"), "{url}");
        }
        for (url, expected) in
            [("socks4://u:geheim@p", "`socks4://` is not"), ("", "not a URL"), ("http://u:ge#heim@p", "not a URL")]
        {
            let message = ProxySettings::for_all(url).expect_err(url);
            assert!(message.contains(expected) && !message.contains("heim"), "{url}: {message}");
        }
    }

    #[test]
    fn kinds_ports_and_who_asks_are_read_and_nobody_is_shown() {
        for (url, kind, place) in [
            ("p:3128", ProxyKind::Http, "p:3128"),
            ("http://p", ProxyKind::Http, "p:80"),
            ("https://p", ProxyKind::Https, "p:443"),
            ("SOCKS5://[::1]", ProxyKind::Socks5, "[::1]:1080"),
            ("socks5h://u%40x:geheim%2F@p:9050", ProxyKind::Socks5h, "p:9050"),
        ] {
            let settings = ProxySettings::from_values(None, None, Some(url), None).expect("it is named");
            let proxy = of(&settings, "https://h/v1").expect("it can be used").expect("it is meant");
            assert_eq!((proxy.kind, proxy.authority().as_str()), (kind, place));
            let shown = format!("{settings:?} {proxy:?}");
            assert!(!shown.contains("geheim") && !shown.contains("u@x"), "{shown}");
            if let Some(credentials) = proxy.credentials {
                assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("u@x", "geheim/"));
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_where_it_would_be_used_with_what_is_supported() {
        let long = format!("socks5://u:{}@p", "x".repeat(256));
        for (url, expected) in [
            (
                "socks4://u:geheim@p",
                "`socks4://` is not a supported kind of proxy: http://, https://, socks5://, socks5h://",
            ),
            ("socks://p:1080/", "`socks://` is not a supported"),
            ("u:geheim://p", "it is not a supported kind"),
            ("socks5://u:geheim/@p", "it is not a URL"),
            ("http://", "it is not a URL"),
            (long.as_str(), "more than 255 bytes"),
        ] {
            let settings = ProxySettings::from_values(Some("http://p"), None, Some(url), Some("b.in")).expect("named");
            let message = of(&settings, "https://h/v1").expect_err(url);
            assert!(message.contains("ALL_PROXY") && message.contains(expected), "{url}: {message}");
            assert!(!message.contains("geheim") && !message.contains("xxx"), "{message}");
            assert!(of(&settings, "http://h/v1").is_ok() && of(&settings, "https://b.in/v1").is_ok(), "it is not used");
        }
    }
}

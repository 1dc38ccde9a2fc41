//! How a client connects.
//!
//! It refuses to read the environment: values of variables are handed in.

use crate::target::Target;
use hyper_util::client::proxy::matcher::Matcher;
use std::path::PathBuf;
use std::sync::Arc;
use tokrate_core::Span;

/// HTTP versions. They are different experiments: HTTP/2 multiplexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpVersion {
    /// One request at a time on each connection.
    #[default]
    Http1,
    /// Many requests on a connection.
    Http2,
}

impl HttpVersion {
    /// The name used in records, which is also that of ALPN.
    pub const fn name(self) -> &'static str {
        match self {
            HttpVersion::Http1 => "http/1.1",
            HttpVersion::Http2 => "h2",
        }
    }
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// HTTP version.
    pub http: HttpVersion,
    /// Time for TCP, proxy and TLS together.
    pub connect_timeout: Span,
    /// Whether connections are kept for later requests.
    pub reuse: bool,
    /// PEM file with further certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// Proxies.
    pub proxy: Option<ProxySettings>,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            http: HttpVersion::Http1,
            connect_timeout: Span::from_secs(10),
            reuse: true,
            ca_file: None,
            proxy: None,
        }
    }
}

impl ClientConfig {
    /// Whether requests to this target go through a proxy.
    pub fn uses_proxy(&self, target: &Target) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.intercept(target).is_some())
    }
}

/// Proxies as the environment names them.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    matcher: Arc<Matcher>,
}

/// The proxy for a target.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub uri: http::Uri,
    /// Value of `Proxy-Authorization`, marked sensitive.
    pub authorization: Option<http::HeaderValue>,
}

impl ProxySettings {
    /// From the values of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; `None` if no proxy is named.
    pub fn from_values(
        http: Option<&str>,
        https: Option<&str>,
        all: Option<&str>,
        none_for: Option<&str>,
    ) -> Option<ProxySettings> {
        http.or(https).or(all)?;
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let matcher = Matcher::builder().all(text(all)).http(text(http)).https(text(https)).no(text(none_for)).build();
        Some(ProxySettings { matcher: Arc::new(matcher) })
    }

    /// The proxy through which this target is reached, if any.
    pub(crate) fn intercept(&self, target: &Target) -> Option<Proxy> {
        let uri: http::Uri = target.to_string().parse().ok()?;
        let found = self.matcher.intercept(&uri)?;
        let authorization = found.basic_auth().cloned().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Some(Proxy { uri: found.uri().clone(), authorization })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy_for(url: &str) -> Option<String> {
        let settings = ProxySettings::from_values(
            Some("http://p:3128"),
            Some("http://user:pass@s:3129"),
            None,
            Some("localhost,.in"),
        )
        .expect("proxies are named");
        settings.intercept(&Target::parse(url).expect("a URL")).map(|proxy| proxy.uri.to_string())
    }

    #[test]
    fn the_scheme_chooses_the_proxy_and_no_proxy_wins() {
        assert_eq!(proxy_for("http://h/v1").as_deref(), Some("http://p:3128/"));
        assert_eq!(proxy_for("https://h/v1").as_deref(), Some("http://s:3129/"));
        assert_eq!(proxy_for("http://localhost:1/v1"), None);
        assert_eq!(proxy_for("https://a.in/v1"), None);
        assert!(ProxySettings::from_values(None, None, None, Some("h")).is_none());
    }
}

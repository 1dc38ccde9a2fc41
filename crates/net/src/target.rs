//! Base URLs of endpoints. Invariant: a target never holds credentials, so that printing it is safe.

use crate::error::NetError;
use std::fmt;
use std::net::Ipv6Addr;

/// Scheme, host, port and path under which an endpoint's dialects are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    tls: bool,
    host: String,
    port: u16,
    /// Without a slash at its end; empty for the root.
    path: String,
    /// Of every request, such as an API's version; empty for none.
    query: String,
}

impl Target {
    /// Reads `http://host[:port][/path]` or the same with `https`.
    ///
    /// # Errors
    /// Says what is wrong. Credentials are refused: they belong in a header, by reference.
    pub fn parse(url: &str) -> Result<Target, NetError> {
        let shown = without_credentials(url);
        let wrong = |reason| NetError::Url { url: shown.clone(), reason };
        let uri: http::Uri = url.trim().parse().map_err(|_| wrong("it is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(wrong("only http and https are known")),
            None => return Err(wrong("it lacks http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it holds credentials, which would be printed; name the key with --key-env"));
        }
        let host = host_of(authority.host()).map_err(wrong)?.to_owned();
        if uri.query().is_some() {
            return Err(wrong("a base URL has no query"));
        }
        // `Authority` treats an invalid port as absent.
        if authority.port_u16() == Some(0)
            || authority.port_u16().is_none() && authority.as_str().rsplit(']').next().unwrap_or("").contains(':')
        {
            return Err(wrong("its port is not a number between 1 and 65535"));
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Target { tls, host, port, path: uri.path().trim_end_matches('/').to_owned(), query: String::new() })
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Host name or address, IPv6 without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port; the scheme's default if the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of the base; empty if there is none.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same server with another path.
    #[must_use]
    pub fn at_path(&self, path: &str) -> Target {
        Target { path: path.trim_end_matches('/').to_owned(), ..self.clone() }
    }

    /// The same base, with a query that every request has, such as `api-version=1`. It is printed, so it holds no key.
    #[must_use]
    pub fn with_query(self, query: &str) -> Target {
        Target { query: query.to_owned(), ..self }
    }

    /// The base path followed by `path`, and the query of every request.
    pub fn path_with(&self, path: &str) -> String {
        let mark = match self.query.is_empty() {
            true => "",
            false if path.contains('?') => "&",
            false => "?",
        };
        [&*self.path, path, mark, &*self.query].concat()
    }

    /// Host and port as in a `Host` header: without the default port.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default_port = if self.tls { 443 } else { 80 };
        if self.port == default_port { host } else { format!("{host}:{}", self.port) }
    }

    /// Scheme, host, and port if it is not the scheme's own.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority())
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Host and port, always both.
    pub(crate) fn host_and_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.origin(), self.path)?;
        if self.query.is_empty() { Ok(()) } else { write!(formatter, "?{}", self.query) }
    }
}

/// A host name or an address, IPv6 without its brackets; else what is wrong with it.
fn host_of(written: &str) -> Result<&str, &'static str> {
    let bracketed = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        _ if written.is_empty() => Err("it names no host"),
        Some(address) if address.parse::<Ipv6Addr>().is_err() => Err("its brackets hold no IPv6 address"),
        Some(address) => Ok(address),
        None if written.contains(['[', ']']) => Err("only an IPv6 address stands in brackets"),
        None => Ok(written),
    }
}

/// The URL as it may be shown: without what stands before its last `@`, and without query and fragment. A password may hold a `/`,
/// `?` or `#` that nobody has escaped, so these say nothing of where it ends.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (hidden, rest) = rest.rsplit_once('@').map_or((None, rest), |(before, after)| (Some(before), after));
    let is_query = |symbol| symbol == '?' || symbol == '#';
    let shown = match (hidden, rest.find(is_query)) {
        // Whether the `@` belongs to a password or to a query cannot be known.
        (Some(before), _) if before.contains(is_query) => "***".to_owned(),
        (Some(_), None) => format!("***@{rest}"),
        (Some(_), Some(at)) => format!("***@{}***", &rest[..=at]),
        (None, Some(at)) => format!("{}***", &rest[..=at]),
        (None, None) => rest.to_owned(),
    };
    if scheme.is_empty() { shown } else { format!("{scheme}://{shown}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Target::parse(url).map_or_else(|error| error.to_string(), |target| target.to_string())
    }

    #[test]
    fn urls_are_read_and_printed_without_what_goes_without_saying() {
        assert_eq!(shown("http://127.0.0.1:8000/v1/"), "http://127.0.0.1:8000/v1");
        assert_eq!(shown("https://api.example.com:443"), "https://api.example.com");
        assert_eq!(shown("http://[::1]:80/v1"), "http://[::1]/v1");
        let target = Target::parse("http://h/v1").expect("a URL");
        assert_eq!((target.path_with("/chat"), target.port()), ("/v1/chat".to_owned(), 80));
    }

    #[test]
    fn what_is_no_base_url_is_refused_without_showing_a_key() {
        for bad in [
            "",
            "127.0.0.1:8000",
            "ftp://h",
            "http://",
            "http://h:99999/v1",
            "http://h:0/v1",
            "http://h/v1?key=1",
            "http://h h/",
            "http://tgi[::2]:80/v1",
            "http://[h]/v1",
        ] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
        assert!(!shown("http://h/v1?key=sk-secret").contains("sk-secret"));
        for url in [
            "https://user:sk/secret@h/v1",
            "https://user:a/sk-secret@h/v1",
            "https://user:a?sk-secret@h/v1",
            "https://user:a#sk-secret@h/v1",
            "https://h/v1?key=a@sk-secret",
            "https://h/v1#sk-secret@x?y",
            "user:a/sk-secret@h",
        ] {
            let message = shown(url);
            assert!(!message.contains("secret"), "{message}");
        }
        let message = shown("https://user:sk-secret@h/v1");
        assert!(message.contains("credentials") && !message.contains("sk-secret"), "{message}");
    }
}

//! `clickhouse://user@host:8123/database`. Invariant: an address never holds a password, so that printing it is safe.

use std::fmt;
use tokrate_net::Target;

const PLAIN: &str = "clickhouse";
const TLS: &str = "clickhouses";
/// The server's own defaults.
const PLAIN_PORT: u16 = 8123;
const TLS_PORT: u16 = 8443;
const DEFAULT_USER: &str = "default";
const DEFAULT_DATABASE: &str = "default";
const MAX_NAME_BYTES: usize = 64;

/// Where a database of ClickHouse is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClickHouseAddress {
    /// The HTTP interface.
    pub(super) target: Target,
    pub(super) user: String,
    pub(super) database: String,
}

impl ClickHouseAddress {
    /// Reads `clickhouse://[user@]host[:port][/database]`, or the same with `clickhouses` for TLS.
    ///
    /// # Errors
    /// Says what is wrong. A password is refused, and not shown: it belongs to a reference.
    pub fn parse(text: &str) -> Result<ClickHouseAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (http, port) = match scheme {
            PLAIN => ("http", PLAIN_PORT),
            TLS => ("https", TLS_PORT),
            _ => return Err(format!("write {PLAIN}://user@host:{PLAIN_PORT}/database, or {TLS}:// for TLS")),
        };
        let (user, rest) = rest.rsplit_once('@').unwrap_or((DEFAULT_USER, rest));
        if user.contains([':', '/', '?', '#']) {
            return Err("it holds a password, which would be printed; name it with store_key_env".to_owned());
        }
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = if database.is_empty() { DEFAULT_DATABASE } else { database };
        // Such a name stands in URLs and needs no quotes anywhere.
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name(database) || database.len() > MAX_NAME_BYTES {
            return Err("the name of a database has letters, digits and `_`".to_owned());
        }
        let is_sendable = !user.is_empty() && user.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !is_sendable || user.len() > MAX_NAME_BYTES {
            return Err("its user has signs that no header can carry".to_owned());
        }
        let has_port = host.rsplit(']').next().unwrap_or_default().contains(':');
        let host = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        let target = Target::parse(&format!("{http}://{host}")).map_err(|error| error.to_string())?;
        Ok(ClickHouseAddress { target, user: user.to_owned(), database: database.to_owned() })
    }
}

impl fmt::Display for ClickHouseAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, target) = (if self.target.is_tls() { TLS } else { PLAIN }, &self.target);
        let host = if target.host().contains(':') { format!("[{}]", target.host()) } else { target.host().to_owned() };
        write!(formatter, "{scheme}://{}@{host}:{}/{}", self.user, target.port(), self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_defaults() {
        let shown = |text: &str| ClickHouseAddress::parse(text).map(|address| address.to_string());
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(shown("clickhouse://127.0.0.1"), ok("clickhouse://default@127.0.0.1:8123/default"));
        assert_eq!(shown("clickhouse://ada@db:9000/rates"), ok("clickhouse://ada@db:9000/rates"));
        assert_eq!(shown("clickhouses://[::1]/rates"), ok("clickhouses://default@[::1]:8443/rates"));
        let address = ClickHouseAddress::parse("clickhouses://db/rates").expect("an address");
        assert_eq!(address.target.to_string(), "https://db:8443");
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_shown() {
        for text in
            ["clickhouse://ada:pa55word@db/rates", "clickhouse://ada:pa/55word@db", "clickhouse://a:pa?55word@db"]
        {
            let message = ClickHouseAddress::parse(text).expect_err("it holds a password");
            assert!(message.contains("password") && !message.contains("55word"), "{message}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "http://db:8123",
            "clickhouse://",
            "clickhouse://db:0/rates",
            "clickhouse://db/ra-tes",
            "clickhouse://db/rates/more",
            "clickhouse://db/rates?secure=1",
            "clickhouse://a b@db/rates",
            "clickhouse://@db/rates",
        ] {
            assert!(ClickHouseAddress::parse(text).is_err(), "{text}");
        }
    }
}

//! How a statement gets to the server, by `net`'s client. Invariant: the password is in a header that is marked sensitive, and nowhere
//! else.

use super::{ClickHouse, ClickHouseAddress};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::fmt;
use std::sync::Arc;
use tokrate_core::Span;
use tokrate_net::{Client, ClientConfig, Clock, Limits, Outgoing};

const USER_HEADER: HeaderName = HeaderName::from_static("x-clickhouse-user");
const KEY_HEADER: HeaderName = HeaderName::from_static("x-clickhouse-key");
/// A statement answers with its first byte when it is done.
const IDLE: Span = Span::from_secs(120);
const TOTAL: Span = Span::from_secs(300);
/// A page of rows has some tens of megabytes.
const MAX_ANSWER_BYTES: u64 = 512 << 20;

/// Carries statements to a server.
pub trait Post: Send + Sync {
    /// Sends a body to the HTTP interface with a query string: status and body of the answer. Blocks; it is called outside a runtime, or
    /// in a thread of a runtime that may block.
    ///
    /// # Errors
    /// Why there is no answer.
    fn post(&self, query: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>), String>;
}

/// A server, and how it is reached.
#[derive(Clone)]
pub struct ClickHouseAccess {
    /// Where it is.
    pub address: ClickHouseAddress,
    /// The user's password.
    pub password: Option<String>,
    /// Authorities, proxies.
    pub client: ClientConfig,
    /// The clock of its time limits.
    pub clock: Clock,
}

impl ClickHouseAccess {
    /// The database; nothing is sent yet.
    pub fn database(&self) -> ClickHouse {
        ClickHouse::new(&self.address, Arc::new(self.clone()))
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| "no header can carry the password".to_owned());
        headers.insert(USER_HEADER, value(&self.address.user)?);
        if let Some(password) = &self.password {
            let mut password = value(password)?;
            password.set_sensitive(true);
            headers.insert(KEY_HEADER, password);
        }
        Ok(headers)
    }
}

impl Post for ClickHouseAccess {
    fn post(&self, query: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>), String> {
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.address.target.path_with(&format!("/?{query}")),
            headers: self.headers()?,
            body: body.into(),
        };
        let limits = Limits { idle: IDLE, total: TOTAL, max_body_bytes: MAX_ANSWER_BYTES };
        let answer = Client::whole_blocking(&self.address.target, outgoing, &self.client, limits, self.clock);
        let answer = answer.map_err(|failure| failure.detail)?;
        Ok((answer.head.status.as_u16(), answer.body))
    }
}

impl fmt::Debug for ClickHouseAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.address)
    }
}

//! Requests that are authorised just before they are sent. Invariant: without an authoriser nothing is copied.

use super::Client;
use crate::authorize::{Authorization, AuthorizeError, Authorizer, Unauthorized};
use crate::exchange::{ExchangeFailure, Outgoing, Sink};
use tokrate_core::FailureKind;

impl Client {
    /// The same client, which authorises every request; `None` changes nothing.
    #[must_use]
    pub fn authorized_by(mut self, authorizer: Option<Authorizer>) -> Client {
        self.authorizer = authorizer;
        self
    }

    /// The request with the headers that authorise it; `None` if it is sent as it is.
    pub(super) async fn authorized(
        &self,
        outgoing: &Outgoing,
        sink: &mut impl Sink,
    ) -> Result<Option<Box<Outgoing>>, ExchangeFailure> {
        let Some(authorizer) = &self.authorizer else { return Ok(None) };
        let request = Unauthorized {
            method: &outgoing.method,
            host: &self.dialer.authority,
            path: &outgoing.path,
            headers: &outgoing.headers,
            body: &outgoing.body,
            client: &self.dialer.config,
            clock: self.dialer.clock,
        };
        let authorization = authorizer.authorize(request).await.map_err(failure)?;
        let Authorization { headers, secrets, rewritten } = authorization;
        sink.authorized(&secrets);
        let mut signed = Box::new(outgoing.clone());
        for (name, value) in &headers {
            signed.headers.insert(name, value.clone());
        }
        if let Some((path, body)) = rewritten {
            (signed.path, signed.body) = (path, body);
        }
        Ok(Some(signed))
    }
}

/// A lane without credentials is left alone for long; one whose service for them is out of reach, like one that is out of reach itself.
fn failure(error: AuthorizeError) -> ExchangeFailure {
    let kind = if error.is_temporary { FailureKind::Connect } else { FailureKind::Unauthorized };
    ExchangeFailure { kind, detail: error.detail }
}

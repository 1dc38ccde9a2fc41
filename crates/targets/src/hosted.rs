//! Endpoints of a dialect that a cloud hosts at paths of its own: a request is rewritten just before it is sent.
//!
//! Invariant: whoever sends requests knows the dialect only.

use bytes::Bytes;
use std::fmt;
use tokrate_net::{Authorization, Authorize, AuthorizeFuture, Authorizer, Unauthorized};
use tokrate_wire::anthropic_on_vertex;

/// Anthropic's messages on Vertex AI.
pub(crate) struct AnthropicOnVertex {
    /// What authorises the requests, where no header does.
    pub credentials: Option<Authorizer>,
}

impl Authorize for AnthropicOnVertex {
    fn authorize<'a>(&'a self, request: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async move {
            let rewritten = anthropic_on_vertex(request.path, request.body);
            let rewritten = rewritten.map(|(path, body)| (path, Bytes::from(body)));
            let authorization = match &self.credentials {
                Some(credentials) => {
                    let (path, body) =
                        rewritten.as_ref().map_or((request.path, request.body), |(path, body)| (path, body));
                    credentials.authorize(Unauthorized { path, body, ..request }).await?
                }
                None => Authorization::default(),
            };
            Ok(Authorization { rewritten, ..authorization })
        })
    }
}

impl fmt::Debug for AnthropicOnVertex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the paths of Vertex AI")?;
        self.credentials.as_ref().map_or(Ok(()), |credentials| write!(formatter, " and {credentials:?}"))
    }
}

//! Endpoints of a dialect that a cloud hosts at paths of its own: a request is rewritten just before it is sent, and its answer as it comes.
//!
//! Invariant: whoever sends requests knows the dialect only.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use std::fmt;
use tokrate_core::Tick;
use tokrate_net::{
    Authorization, Authorize, AuthorizeFuture, Authorizer, Head, NewAnswerRewriter, RefusedBy, RewriteAnswer,
    Unauthorized,
};
use tokrate_wire::{InvokeAnswer, anthropic_on_bedrock, anthropic_on_vertex};

/// Who hosts Anthropic's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    /// Google's Vertex AI.
    Vertex,
    /// AWS Bedrock, by Invoke.
    Bedrock,
}

/// Anthropic's messages on a cloud.
pub(crate) struct HostedAnthropic {
    pub on: Host,
    /// What authorises the requests, where no header does.
    pub credentials: Option<Authorizer>,
}

impl Authorize for HostedAnthropic {
    fn authorize<'a>(&'a self, request: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async move {
            let betas = || request.headers.get("anthropic-beta").and_then(|betas| betas.to_str().ok());
            let rewritten = match self.on {
                Host::Vertex => anthropic_on_vertex(request.path, request.body),
                Host::Bedrock => anthropic_on_bedrock(request.path, request.body, betas().unwrap_or_default()),
            };
            let rewritten = rewritten.map(|(path, body)| (path, Bytes::from(body)));
            let authorization = match &self.credentials {
                Some(credentials) => {
                    let (path, body) =
                        rewritten.as_ref().map_or((request.path, request.body), |(path, body)| (path, body));
                    credentials.authorize(Unauthorized { path, body, ..request }).await?
                }
                None => Authorization::default(),
            };
            let answer: Option<NewAnswerRewriter> = match self.on {
                Host::Vertex => None,
                Host::Bedrock => Some(Invoked::boxed),
            };
            Ok(Authorization { rewritten, answer, ..authorization })
        })
    }

    fn refused(&self, generation: u64, by: RefusedBy<'_>, now: Tick) -> bool {
        self.credentials.as_ref().is_some_and(|credentials| credentials.refused(generation, by, now))
    }
}

impl fmt::Debug for HostedAnthropic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.on {
            Host::Vertex => "the paths of Vertex AI",
            Host::Bedrock => "the paths of Bedrock's Invoke",
        })?;
        self.credentials.as_ref().map_or(Ok(()), |credentials| write!(formatter, " and {credentials:?}"))
    }
}

/// An answer of Bedrock's Invoke, from its head on.
struct Invoked(Option<InvokeAnswer>);

impl Invoked {
    fn boxed() -> Box<dyn RewriteAnswer> {
        Box::new(Invoked(None))
    }
}

impl RewriteAnswer for Invoked {
    fn head(&mut self, head: &mut Head) {
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let answer = InvokeAnswer::new(head.status.as_u16(), content_type);
        if let Some(content_type) = answer.content_type() {
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            head.headers.remove(CONTENT_LENGTH);
        }
        self.0 = Some(answer);
    }

    fn body(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(answer) = &mut self.0 {
            answer.push(bytes, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(answer) = &mut self.0 {
            answer.end(out);
        }
    }
}

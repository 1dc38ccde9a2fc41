//! Requests that are authorised just before they are sent, and once more where a server has refused the credential: it may have been
//! revoked before it expired. The answer is put back into its dialect's form where a cloud has its own. Invariant: without an authoriser nothing is copied.

use super::Client;
use crate::authorize::{
    Authorization, AuthorizeError, Authorizer, NewAnswerRewriter, RefusedBy, RewriteAnswer, Unauthorized,
};
use crate::exchange::{ExchangeFailure, Head, Outgoing, Sink};
use crate::upgraded::Upgraded;
use tokrate_core::{FailureKind, Tick};

/// A request as it is sent, and the credential that authorises it.
pub(super) struct Authorized {
    pub outgoing: Outgoing,
    pub generation: u64,
    pub answer: Option<NewAnswerRewriter>,
}

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
    ) -> Result<Option<Box<Authorized>>, ExchangeFailure> {
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
        let Authorization { headers, secrets, rewritten, answer, generation } = authorization;
        sink.authorized(&secrets);
        let mut signed = Box::new(Authorized { outgoing: outgoing.clone(), generation, answer });
        for (name, value) in &headers {
            signed.outgoing.headers.insert(name, value.clone());
        }
        if let Some((path, body)) = rewritten {
            (signed.outgoing.path, signed.outgoing.body) = (path, body);
        }
        Ok(Some(signed))
    }
}

/// A lane without credentials is left alone for long; one whose service for them is out of reach, like one that is out of reach itself.
fn failure(error: AuthorizeError) -> ExchangeFailure {
    let kind = if error.is_temporary { FailureKind::Connect } else { FailureKind::Unauthorized };
    ExchangeFailure { kind, detail: error.detail }
}

/// Passes an answer on, but for one in which the server refuses a credential in whose place there will be another.
pub(super) struct AuthorizedAnswer<'a, S> {
    sink: &'a mut S,
    authorizer: Option<&'a Authorizer>,
    generation: u64,
    rewriter: Option<Box<dyn RewriteAnswer>>,
    /// Whether the request can be sent once more.
    may_repeat: bool,
    is_refused: bool,
    /// When it was sent, until that is passed on.
    sent_at: Option<Tick>,
    last_byte_at: Option<Tick>,
    rewritten: Vec<u8>,
}

impl<'a, S: Sink> AuthorizedAnswer<'a, S> {
    pub fn new(
        sink: &'a mut S,
        authorizer: Option<&'a Authorizer>,
        authorized: Option<&Authorized>,
        may_repeat: bool,
    ) -> AuthorizedAnswer<'a, S> {
        AuthorizedAnswer {
            sink,
            authorizer,
            generation: authorized.map_or(0, |authorized| authorized.generation),
            rewriter: authorized.and_then(|authorized| authorized.answer).map(|new| new()),
            may_repeat,
            is_refused: false,
            sent_at: None,
            last_byte_at: None,
            rewritten: Vec::new(),
        }
    }

    /// The answer has ended: what was held back is passed on. True if the request is to be sent once more instead.
    pub fn finish(mut self) -> bool {
        if self.is_refused {
            return true;
        }
        self.pass_sent();
        if let Some(rewriter) = &mut self.rewriter
            && let Some(at) = self.last_byte_at
        {
            rewriter.end(&mut self.rewritten);
            self.pass_rewritten(at);
        }
        false
    }

    fn pass_sent(&mut self) {
        if let Some(at) = self.sent_at.take() {
            self.sink.sent(at);
        }
    }

    fn pass_rewritten(&mut self, at: Tick) {
        if !self.rewritten.is_empty() {
            self.sink.body(at, &self.rewritten);
            self.rewritten.clear();
        }
    }
}

impl<S: Sink> Sink for AuthorizedAnswer<'_, S> {
    fn sent(&mut self, at: Tick) {
        self.sent_at = Some(at);
    }

    fn head(&mut self, at: Tick, head: &Head) {
        let by = RefusedBy { status: head.status, headers: &head.headers };
        let has_other = || self.authorizer.is_some_and(|authorizer| authorizer.refused(self.generation, by, at));
        self.is_refused = head.status.is_client_error() && has_other() && self.may_repeat;
        if self.is_refused {
            return;
        }
        self.pass_sent();
        match &mut self.rewriter {
            None => self.sink.head(at, head),
            Some(rewriter) => {
                let mut head = head.clone();
                rewriter.head(&mut head);
                self.sink.head(at, &head);
            }
        }
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        if self.is_refused {
            return;
        }
        let Some(rewriter) = &mut self.rewriter else { return self.sink.body(at, bytes) };
        self.last_byte_at = Some(at);
        rewriter.body(bytes, &mut self.rewritten);
        self.pass_rewritten(at);
    }

    fn ended(&mut self, at: Tick) {
        if !self.is_refused {
            self.sink.ended(at);
        }
    }

    fn unsealed(&mut self) {
        if !self.is_refused {
            self.sink.unsealed();
        }
    }

    fn upgraded(&mut self, connection: Upgraded) {
        self.sink.upgraded(connection);
    }

    fn is_full(&self) -> bool {
        self.sink.is_full()
    }
}

//! Requests that carry a token which expires: `Authorization: Bearer`.

use crate::cached::{Cached, Fetched, Held, Source};
use crate::error::CredentialError;
use crate::reach::{self, Reach};
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use tokrate_core::{Span, Tick};
use tokrate_net::{Authorization, Authorize, AuthorizeError, AuthorizeFuture, RefusedBy, Secrets, Unauthorized};

/// A token, ready to be sent.
pub(crate) struct Token {
    headers: HeaderMap,
    secrets: Secrets,
}

impl Token {
    /// `None` if no header can carry it.
    pub fn new(token: &str) -> Option<Token> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value);
        Some(Token { secrets: Secrets::of(&headers), headers })
    }
}

/// The token of an answer in OAuth's form, and how long it is good for.
pub(crate) fn of_answer(answer: &Value) -> Result<Fetched<Token>, String> {
    let token = reach::text(answer, "access_token").and_then(Token::new).ok_or("its answer holds no token")?;
    let lifetime = reach::seconds(answer, "expires_in").map(Span::from_secs);
    Ok(Fetched { value: token, lifetime })
}

/// The first source that gives a token; those that are not set up are passed over.
pub(crate) struct Chain<S> {
    pub of: &'static str,
    pub hint: &'static str,
    pub sources: Vec<S>,
}

/// One way to a token: its name, and what came of it.
pub(crate) trait TokenSource: Send + Sync {
    fn name(&self) -> String;
    fn token(&self, reach: &Reach) -> Result<Fetched<Token>, String>;
}

impl<S: TokenSource> Source<Token> for Chain<S> {
    fn fetch(&self, reach: &Reach) -> Result<Fetched<Token>, CredentialError> {
        let mut tried = Vec::new();
        for source in &self.sources {
            match source.token(reach) {
                Ok(found) => return Ok(found),
                Err(reason) => tried.push(format!("{}: {reason}", source.name())),
            }
        }
        Err(CredentialError { of: self.of, tried, hint: self.hint, is_temporary: reach.had_outage() })
    }
}

/// Authorises requests with the token of a source.
pub(crate) struct BearerAuthorizer {
    of: &'static str,
    token: Cached<Token>,
}

impl BearerAuthorizer {
    pub fn shared(of: &'static str, source: impl Source<Token> + 'static) -> Arc<dyn Authorize> {
        Arc::new(BearerAuthorizer { of, token: Cached::new(source) })
    }
}

impl Authorize for BearerAuthorizer {
    fn authorize<'a>(&'a self, request: Unauthorized<'a>) -> AuthorizeFuture<'a> {
        Box::pin(async move {
            let token =
                self.token.get(request.client, request.clock).await.map_err(|error| AuthorizeError::from(&*error))?;
            let Held { value: token, generation } = token;
            let (headers, secrets) = (token.headers.clone(), token.secrets.clone());
            Ok(Authorization { headers, secrets, generation, ..Authorization::default() })
        })
    }

    fn refused(&self, generation: u64, by: RefusedBy<'_>, now: Tick) -> bool {
        by.status == StatusCode::UNAUTHORIZED && self.token.refused(generation, now)
    }
}

impl fmt::Debug for BearerAuthorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a token of {}", self.of)
    }
}

//! What authorises a request just before it is sent: a signature over it, or a token that expires.
//!
//! A key that never changes is a header of the request. Which providers want what is known elsewhere (`credentials`). Invariant: what an
//! authorisation holds of secrets is told to the sink before the request is sent; a request is sent twice at most, the second time with
//! another credential.

use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::exchange::Head;
use crate::secrets::Secrets;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use tokrate_core::Tick;

/// A request that is to be authorised, as it will be sent.
#[derive(Clone, Copy)]
pub struct Unauthorized<'a> {
    /// Method.
    pub method: &'a Method,
    /// Value of the `Host` header.
    pub host: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Headers so far.
    pub headers: &'a HeaderMap,
    /// Body.
    pub body: &'a [u8],
    /// How whoever sends it reaches servers.
    pub client: &'a ClientConfig,
    /// The clock.
    pub clock: Clock,
}

/// What authorises one request.
#[derive(Clone, Debug, Default)]
pub struct Authorization {
    /// Headers to be set, those with secrets marked sensitive.
    pub headers: HeaderMap,
    /// What must not be shown if a server repeats it.
    pub secrets: Secrets,
    /// Path and body in place of the request's own, where a cloud hosts a dialect in its own way.
    pub rewritten: Option<(String, Bytes)>,
    /// What puts its answer back into the dialect's own form, likewise.
    pub answer: Option<NewAnswerRewriter>,
    /// Which credential it was made with, among those that its authoriser has had.
    pub generation: u64,
}

/// The head of an answer in which a server may have refused a credential.
#[derive(Clone, Copy)]
pub struct RefusedBy<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: &'a HeaderMap,
}

/// Puts one answer into another form as it comes.
pub trait RewriteAnswer {
    /// Its head.
    fn head(&mut self, head: &mut Head);
    /// A piece of its body; appends what comes of it.
    fn body(&mut self, bytes: &[u8], out: &mut Vec<u8>);
    /// Its body has ended, well or not.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Makes what rewrites one answer.
pub type NewAnswerRewriter = fn() -> Box<dyn RewriteAnswer>;

/// Why a request cannot be authorised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthorizeError {
    /// What happened, fit to stand behind "failed to".
    pub detail: String,
    /// Whether a service that gives credentials was out of reach, so that it may be well soon.
    pub is_temporary: bool,
}

impl From<String> for AuthorizeError {
    /// One that does not pass by itself.
    fn from(detail: String) -> AuthorizeError {
        AuthorizeError { detail, is_temporary: false }
    }
}

impl From<&str> for AuthorizeError {
    fn from(detail: &str) -> AuthorizeError {
        AuthorizeError::from(detail.to_owned())
    }
}

/// An authorisation that may have to be waited for.
pub type AuthorizeFuture<'a> = Pin<Box<dyn Future<Output = Result<Authorization, AuthorizeError>> + 'a>>;

/// Authorises requests. `Debug` shows no secret.
pub trait Authorize: Send + Sync + fmt::Debug {
    /// Authorises a request. Waits no longer than the fetch of a credential may take; who calls has limits of their own.
    fn authorize<'a>(&'a self, request: Unauthorized<'a>) -> AuthorizeFuture<'a>;

    /// A server has answered so to what was authorised with the credential of that generation. True if that was refused and there is or
    /// will be another, so that the request can be authorised anew and sent once more.
    fn refused(&self, _generation: u64, _by: RefusedBy<'_>, _now: Tick) -> bool {
        false
    }
}

/// What authorises the requests of an endpoint.
pub type Authorizer = Arc<dyn Authorize>;

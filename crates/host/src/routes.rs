//! What is answered to which request: which provider, which page, in which dialect.
//!
//! It refuses to know time and sockets. Invariant: what is refused is refused in the dialect of its path.

mod answer;
mod pages;

use crate::body::{AnswerBody, Scratch};
use crate::config::Provider;
use crate::driver::Driver;
use crate::prompt::PromptCounter;
use crate::truth::Truth;
use crate::truth::log::Log;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_net::Clock;
use tokrate_net::server::{ByteBudget, ConnectionTap, Handler, RequestBody, presented_keys};
use tokrate_sim::Stats;
use tokrate_wire::{Dialect, Routed, encode_refusal};

const REQUEST_ID: &str = "x-request-id";

/// What all ports of a host share.
pub(crate) struct House {
    pub providers: Vec<Served>,
    pub requests_most: usize,
    pub request_bytes_most: usize,
    /// What all bodies may hold.
    pub bodies: Arc<ByteBudget>,
    pub clock: Clock,
    pub log: Rc<RefCell<Log>>,
    pub prompts: PromptCounter,
    pub scratch: Rc<Scratch>,
}

/// A provider with its engine.
pub(crate) struct Served {
    pub provider: Provider,
    pub driver: Rc<Driver>,
}

/// Answers the requests of all connections of one port.
pub(crate) struct Routes {
    pub house: Rc<House>,
    /// The place of the only provider here; `None` where all of them answer.
    pub own: Option<usize>,
}

/// An answer with an error status: the status and what is said about it.
struct Refused(StatusCode, String);

impl House {
    /// Requests that no engine has ended.
    pub fn open(&self) -> usize {
        self.providers.iter().map(|served| served.driver.open()).sum()
    }

    /// What the engines hold and have done, all together.
    pub fn stats(&self) -> Stats {
        self.providers.iter().map(|served| served.driver.stats()).sum()
    }

    /// The truth log so far.
    pub fn truth(&self) -> Truth {
        let open = self.providers.iter().flat_map(|served| served.driver.open_truths());
        self.log.borrow().snapshot(open)
    }
}

impl Served {
    /// The model's name where all providers answer.
    fn full_name(&self) -> String {
        format!("{}/{}", self.provider.persona.name, self.provider.model)
    }

    fn check_key(&self, head: &Parts) -> Result<(), Refused> {
        let Some(key) = &self.provider.api_key else { return Ok(()) };
        let mut shown = presented_keys(&head.headers).chain(key_of_query(head)).peekable();
        if shown.peek().is_none() {
            return Err(Refused(StatusCode::UNAUTHORIZED, "the API key is missing".to_owned()));
        }
        match shown.any(|shown| key.matches(shown)) {
            true => Ok(()),
            false => Err(Refused(StatusCode::UNAUTHORIZED, "the API key is wrong".to_owned())),
        }
    }
}

impl Handler for Routes {
    type Body = AnswerBody;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<AnswerBody> {
        let id = request.headers().get(REQUEST_ID).cloned();
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let mut response = match Dialect::of_path(target) {
            Some(routed) => {
                let dialect = routed.dialect;
                self.ask(routed, request, tap)
                    .await
                    .unwrap_or_else(|Refused(status, message)| refuse(dialect, status, &message))
            }
            None => self
                .page(&request.into_parts().0)
                .unwrap_or_else(|Refused(status, message)| refuse(Dialect::OpenAiChat, status, &message)),
        };
        if let Some(id) = id {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }

    fn error_body(&self, head: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        let target = head.uri().path_and_query().map_or("", |target| target.as_str());
        let dialect = Dialect::of_path(target).map_or(Dialect::OpenAiChat, |routed| routed.dialect);
        encode_refusal(dialect, status.as_u16(), message)
    }
}

impl Routes {
    async fn ask(
        &self,
        routed: Routed,
        request: Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, Refused> {
        let (head, body) = request.into_parts();
        // Where only one provider answers, its key comes before everything else.
        if let Some(own) = self.own {
            self.house.providers[own].check_key(&head)?;
        }
        if head.method != Method::POST {
            let path = head.uri.path();
            return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, format!("{path} is not asked with this method")));
        }
        self.answer(routed, &head, body, tap).await
    }

    /// The providers that answer at this port.
    fn served(&self) -> &[Served] {
        match self.own {
            Some(own) => std::slice::from_ref(&self.house.providers[own]),
            None => &self.house.providers,
        }
    }
}

/// The key that the query shows: `?key=…`, Google's.
fn key_of_query(head: &Parts) -> Option<&[u8]> {
    let pairs = head.uri.query()?.split('&');
    pairs.filter_map(|pair| pair.strip_prefix("key=")).map(str::as_bytes).next()
}

fn refuse(dialect: Dialect, status: StatusCode, message: &str) -> Response<AnswerBody> {
    let body = encode_refusal(dialect, status.as_u16(), message);
    let mut response = with_type("application/json", AnswerBody::Plain(Some(Bytes::from(body))));
    *response.status_mut() = status;
    response
}

fn with_type(content_type: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

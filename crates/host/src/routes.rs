//! Routes requests: provider, page, dialect. Invariant: an error has the format of the dialect of its path.

mod answer;
mod batches;
mod embeddings;
mod images;
mod pages;
mod realtime;
mod speech;
mod transcription;

use crate::body::{AnswerBody, Scratch};
use crate::config::Provider;
use crate::driver::Driver;
use crate::prompt::PromptReader;
use crate::truth::Truth;
use crate::truth::log::Log;
pub(crate) use batches::BatchStore;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_net::Clock;
use tokrate_net::server::{ByteBudget, ConnectionTap, Handler, RequestBody, presented_keys};
use tokrate_sim::Stats;
use tokrate_wire::{Dialect, Routed, encode_error_response};

const REQUEST_ID: &str = "x-request-id";

/// What all ports of a host share.
pub(crate) struct Shared {
    pub providers: Vec<ServedProvider>,
    pub max_requests: usize,
    pub max_request_bytes: usize,
    /// Memory budget of all request bodies.
    pub bodies: Arc<ByteBudget>,
    pub clock: Clock,
    pub log: Rc<RefCell<Log>>,
    pub prompts: PromptReader,
    pub scratch: Rc<Scratch>,
    pub batches: RefCell<BatchStore>,
}

/// A provider with its engine.
pub(crate) struct ServedProvider {
    pub provider: Provider,
    pub driver: Rc<Driver>,
}

/// Answers the requests of all connections of one port.
pub(crate) struct Routes {
    pub shared: Rc<Shared>,
    /// Index of the only provider of this port; `None` if it serves all of them.
    pub provider_index: Option<usize>,
}

/// An error response: status and message.
struct ErrorResponse(StatusCode, String);

impl Shared {
    /// Requests that no engine has ended.
    pub fn open(&self) -> usize {
        self.providers.iter().map(|served| served.driver.open()).sum()
    }

    /// Sum of the statistics of all engines.
    pub fn stats(&self) -> Stats {
        self.providers.iter().map(|served| served.driver.stats()).sum()
    }

    /// The truth log so far.
    pub fn truth(&self) -> Truth {
        let open = self.providers.iter().flat_map(|served| served.driver.open_truths());
        self.log.borrow().snapshot(open)
    }
}

impl ServedProvider {
    /// The model's name on the shared port.
    fn full_name(&self) -> String {
        format!("{}/{}", self.provider.persona.name, self.provider.model)
    }

    fn check_key(&self, head: &Parts) -> Result<(), ErrorResponse> {
        let Some(key) = &self.provider.api_key else { return Ok(()) };
        let mut shown = presented_keys(&head.headers).chain(key_of_query(head)).chain(key_of_protocol(head)).peekable();
        if shown.peek().is_none() {
            return Err(ErrorResponse(StatusCode::UNAUTHORIZED, "the API key is missing".to_owned()));
        }
        match shown.any(|shown| key.matches(shown)) {
            true => Ok(()),
            false => Err(ErrorResponse(StatusCode::UNAUTHORIZED, "the API key is wrong".to_owned())),
        }
    }
}

impl Handler for Routes {
    type Body = AnswerBody;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<AnswerBody> {
        let id = request.headers().get(REQUEST_ID).cloned();
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let mut response = match Dialect::of_path(target) {
            _ if batches::is_path(request.uri().path()) => {
                let (head, body) = request.into_parts();
                openai_error(self.batches(&head, body).await)
            }
            Some(routed) => {
                let dialect = routed.dialect;
                self.call(routed, request, tap)
                    .await
                    .unwrap_or_else(|ErrorResponse(status, message)| error_response(dialect, status, &message))
            }
            None if let Some(form) = embeddings::Form::of_path(request.uri().path()) => {
                let (head, body) = request.into_parts();
                let answered = self.embeddings(form, &head, body, tap).await;
                answered
                    .unwrap_or_else(|ErrorResponse(status, message)| error_response(form.dialect(), status, &message))
            }
            None if images::is_path(request.uri().path()) => {
                let (head, body) = request.into_parts();
                openai_error(self.images(&head, body, tap).await)
            }
            None if speech::is_path(request.uri().path()) => {
                let (head, body) = request.into_parts();
                openai_error(self.speech(&head, body, tap).await)
            }
            None if transcription::is_path(request.uri().path()) => {
                let (head, body) = request.into_parts();
                openai_error(self.transcription(&head, body, tap).await)
            }
            None if realtime::is_path(request.uri().path()) => {
                let has_body = request.body().is_some();
                openai_error(self.realtime(&request.into_parts().0, has_body, &tap))
            }
            None => openai_error(self.page(&request.into_parts().0)),
        };
        if let Some(id) = id {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }

    fn takes_form(&self, head: &Request<RequestBody>) -> bool {
        batches::is_path(head.uri().path()) || transcription::is_path(head.uri().path())
    }

    fn error_body(&self, head: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        let target = head.uri().path_and_query().map_or("", |target| target.as_str());
        let dialect = Dialect::of_path(target).map_or(Dialect::OpenAiChat, |routed| routed.dialect);
        encode_error_response(dialect, status.as_u16(), message)
    }
}

impl Routes {
    async fn call(
        &self,
        routed: Routed,
        request: Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        let (head, body) = request.into_parts();
        self.check_key(&head)?;
        if head.method != Method::POST {
            let path = head.uri.path();
            return Err(ErrorResponse(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("this method is not allowed for {path}"),
            ));
        }
        self.answer(routed, &head, body, tap).await
    }

    /// On the port of one provider, its key.
    fn check_key(&self, head: &Parts) -> Result<(), ErrorResponse> {
        self.provider_index.map_or(Ok(()), |index| self.shared.providers[index].check_key(head))
    }

    /// The same, and the method of what takes a body.
    fn check_call(&self, head: &Parts) -> Result<(), ErrorResponse> {
        self.check_key(head)?;
        if head.method == Method::POST {
            return Ok(());
        }
        let message = format!("this method is not allowed for {}; use POST", head.uri.path());
        Err(ErrorResponse(StatusCode::METHOD_NOT_ALLOWED, message))
    }

    /// The providers of this port.
    fn served(&self) -> &[ServedProvider] {
        match self.provider_index {
            Some(index) => std::slice::from_ref(&self.shared.providers[index]),
            None => &self.shared.providers,
        }
    }
}

/// The key among the subprotocols of a WebSocket, where browsers put it.
fn key_of_protocol(head: &Parts) -> Option<&[u8]> {
    let offered = head.headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let offered = offered.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    offered.filter_map(|protocol| protocol.strip_prefix(b"openai-insecure-api-key.")).next()
}

/// The key in the query, as Google has it: `?key=…`.
fn key_of_query(head: &Parts) -> Option<&[u8]> {
    let pairs = head.uri.query()?.split('&');
    pairs.filter_map(|pair| pair.strip_prefix("key=")).map(str::as_bytes).next()
}

/// An answer, errors in the form of OpenAI.
fn openai_error(answered: Result<Response<AnswerBody>, ErrorResponse>) -> Response<AnswerBody> {
    answered.unwrap_or_else(|ErrorResponse(status, message)| error_response(Dialect::OpenAiChat, status, &message))
}

fn error_response(dialect: Dialect, status: StatusCode, message: &str) -> Response<AnswerBody> {
    let body = encode_error_response(dialect, status.as_u16(), message);
    let mut response = with_type("application/json", AnswerBody::Plain(Some(Bytes::from(body))));
    *response.status_mut() = status;
    response
}

fn with_type(content_type: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

//! What clients ask of a response that is kept or goes on in the background: its state and result, its items, its end. It goes to the
//! lane that has the response and to no other.
//!
//! Invariant: a client reaches the jobs of its own key only; the first time that a result is seen, it is accounted for.

use super::worker::Worker;
use crate::admission::credentials::Credentials;
use crate::api::is_object_id;
use crate::respond::body::CallBody;
use crate::respond::error::ErrorResponse;
use crate::state::jobs::Job;
use crate::state::plan::{Lane, Plan};
use crate::upstream::attempt::{Attempt, AttemptStart};
use crate::upstream::body::{BodyReader, UpstreamBody};
use bytes::Bytes;
use http::header::{ACCEPT, DATE};
use http::{HeaderValue, Method, Response, StatusCode};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokrate_core::FailureKind;
use tokrate_net::{Limits, Outgoing, Redactor};
use tokrate_record::AttemptRole;
use tokrate_wire::{Decoder, Dialect, Shape};

/// What follows the identifier in the path, and the methods that it takes.
pub(crate) static STORED: [(&str, &[Method]); 3] =
    [("", &[Method::GET, Method::DELETE]), ("/cancel", &[Method::POST]), ("/input_items", &[Method::GET])];

/// What is asked of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredResponse {
    pub method: Method,
    pub id: String,
    /// What follows the identifier in the path.
    pub tail: &'static str,
    pub query: Option<String>,
}

impl StoredResponse {
    /// What a method and a path with its query ask for; `None` for another path.
    pub fn of(method: &Method, path: &str, query: Option<&str>) -> Option<StoredResponse> {
        let (_, rest) = path.split_once("/responses/")?;
        let (id, tail) = rest.split_once('/').map_or((rest, ""), |(id, _)| (id, &rest[id.len()..]));
        let (tail, _) = STORED.iter().find(|(known, _)| *known == tail)?;
        is_object_id(id).then(|| StoredResponse {
            method: if method == Method::HEAD { Method::GET } else { method.clone() },
            id: id.to_owned(),
            tail,
            query: query.filter(|query| !query.is_empty()).map(str::to_owned),
        })
    }

    /// Whether the method fits what is asked for.
    pub fn is_allowed(&self) -> bool {
        STORED.iter().any(|(tail, methods)| *tail == self.tail && methods.contains(&self.method))
    }

    fn path(&self) -> String {
        let query = self.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        format!("/responses/{}{}{query}", self.id, self.tail)
    }
}

/// Asks the lane that has the response, and passes on what it says.
pub(crate) async fn follow_up(
    worker: &Rc<Worker>,
    plan: &Arc<Plan>,
    credentials: &Credentials,
    stored: &StoredResponse,
) -> Result<Response<CallBody>, ErrorResponse> {
    let query = stored.query.as_deref().unwrap_or_default();
    if query.split('&').any(|pair| pair == "stream=true") {
        let message =
            "`stream=true`: the state of a response is not streamed here; ask for it without, again and again";
        return Err(ErrorResponse::bad_request(message));
    }
    let key = credentials.key().map(|key| key.config.name.as_str());
    let job = worker.shared.jobs.get(&stored.id).filter(|job| job.key.as_deref() == key);
    let lane = match &job {
        Some(job) => job.lane_of(plan).cloned().ok_or_else(|| gone(stored)),
        None => only_lane(plan).ok_or_else(|| unknown(stored)),
    };
    exchange(worker, plan, &lane?, job.as_deref(), stored).await
}

/// The lane that must have a response which is not known here: the only one with responses, of a gateway whose clients are one.
fn only_lane(plan: &Plan) -> Option<Arc<Lane>> {
    let mut lanes = plan.lanes.iter().filter(|lane| responses_endpoint(lane).is_some());
    let only = lanes.next().filter(|_| plan.keys.is_empty())?;
    lanes.next().is_none().then(|| Arc::clone(only))
}

fn responses_endpoint(lane: &Lane) -> Option<usize> {
    lane.endpoints.iter().position(|endpoint| endpoint.config.dialect == Dialect::OpenAiResponses)
}

fn unknown(stored: &StoredResponse) -> ErrorResponse {
    let message = format!(
        "the response `{}` is not known here: a gateway remembers which lane has a response that was begun since the \
         gateway was started, for the key that began it",
        stored.id
    );
    ErrorResponse::new(StatusCode::NOT_FOUND, message)
}

fn gone(stored: &StoredResponse) -> ErrorResponse {
    let message = format!("the lane that has the response `{}` is no longer in the settings", stored.id);
    ErrorResponse::new(StatusCode::NOT_FOUND, message)
}

async fn exchange(
    worker: &Rc<Worker>,
    plan: &Arc<Plan>,
    lane: &Arc<Lane>,
    job: Option<&Job>,
    stored: &StoredResponse,
) -> Result<Response<CallBody>, ErrorResponse> {
    let failed = |kind, message: &str| ErrorResponse::of_failure(kind, &lane.config.name, message, None);
    let endpoint = responses_endpoint(lane).ok_or_else(|| unknown(stored))?;
    let config = &lane.endpoints[endpoint].config;
    let client =
        worker.client(plan, lane, endpoint).map_err(|error| failed(FailureKind::Connect, &error.to_string()))?;
    let mut headers = config.headers.clone();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let path = config.base.path_with(&stored.path());
    let outgoing = Outgoing { method: stored.method.clone(), path, headers, body: Bytes::new() };
    let clock = worker.shared.clock;
    let start = AttemptStart {
        lane: Arc::clone(lane),
        endpoint,
        streamed: false,
        role: AttemptRole::First,
        at: clock.now(),
        unix_ms: clock.wall_nanos() / 1_000_000,
        in_flight: 0,
        api: None,
    };
    let decoder = Box::new(Decoder::new(Dialect::OpenAiResponses, Shape::Whole));
    let reader = BodyReader::PassThrough { decoder, filter: None };
    let redactor = Redactor::new(lane.endpoints[endpoint].secrets.clone(), Bytes::new());
    let body = UpstreamBody::new(reader, Rc::clone(&worker.batch)).with_redactor(redactor);
    let limits =
        Limits { idle: plan.limits.first_token, total: plan.limits.total, max_body_bytes: plan.limits.answer_bytes };
    let mut attempt =
        Attempt::start(start, client, (outgoing, None), body.with_byte_budget(&worker.shared.answers), limits);
    poll_fn(|context| if attempt.poll(context) { Poll::Ready(()) } else { Poll::Pending }).await;
    if let (Some(job), Some(measured)) = (job, attempt.measured()) {
        let status = attempt.body.borrow().answer.head().map(|head| head.status.as_u16());
        let row = job.settle(&measured.usage, status, clock.wall_nanos() / 1_000_000);
        row.into_iter().for_each(|row| worker.shared.write(row));
    }
    let mut body = attempt.body.borrow_mut();
    let Some(head) = body.answer.head().filter(|_| attempt.is_complete()) else {
        let kind = attempt.measured_failure().unwrap_or(FailureKind::Closed);
        return Err(failed(kind, &attempt.error_message()));
    };
    let (status, mut headers) = (head.status, head.headers.clone());
    headers.remove(DATE);
    let bytes = match status.is_success() {
        true => body.take_ready().unwrap_or_default(),
        false => attempt.redacted_refusal(&body),
    };
    let mut response = Response::new(CallBody::plain(bytes));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_says_what_is_asked_of_which_response() {
        let of = |method: Method, path: &str| {
            let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
            StoredResponse::of(&method, path, query).map(|stored| (stored.path(), stored.is_allowed()))
        };
        let path = |text: &str| text.to_owned();
        assert_eq!(of(Method::GET, "/v1/responses/resp_1"), Some((path("/responses/resp_1"), true)));
        assert_eq!(of(Method::DELETE, "/v1/responses/resp_1"), Some((path("/responses/resp_1"), true)));
        assert_eq!(of(Method::POST, "/v1/responses/resp_1"), Some((path("/responses/resp_1"), false)));
        assert_eq!(of(Method::POST, "/v1/responses/r/cancel"), Some((path("/responses/r/cancel"), true)));
        let items = "/v1/responses/r/input_items?limit=2&order=asc";
        assert_eq!(of(Method::GET, items), Some((path("/responses/r/input_items?limit=2&order=asc"), true)));
        for other in
            ["/v1/responses", "/v1/responses/", "/v1/responses/a/b", "/v1/responses/../models", "/v1/responses/a%2fb"]
        {
            assert_eq!(of(Method::GET, other), None, "{other}");
        }
    }
}

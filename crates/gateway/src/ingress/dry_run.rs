//! Runs requests through ingress without sockets and reports what would be sent to lanes; for tests and fuzzing.
//!
//! It calls what serves clients. Invariant: nothing is sent; only host names are resolved, when it is made.

use crate::admission::open_call::OpenCall;
use crate::config::Config;
use crate::dispatch::start::{effective_mode, eligible_lanes};
use crate::dispatch::worker::Worker;
use crate::error::GatewayError;
use crate::ingress::route::Route;
use crate::ingress::service::{Admission, Asked, Ingress, ReceivedRequest, admit, error_dialect};
use crate::respond::error::ErrorResponse;
use crate::state::plan::Plan;
use crate::state::shared::Shared;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::Tick;
use tokrate_net::server::ConnectionTap;
use tokrate_net::{Clock, Dial};
use tokrate_wire::Dialect;

/// The ingress of a gateway, for arbitrary requests.
pub struct DryRun {
    ingress: Ingress,
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The gateway responds by itself.
    Respond {
        /// HTTP status.
        status: u16,
        /// The body.
        body: Bytes,
        /// The client's dialect, which errors are written in.
        dialect: Dialect,
    },
    /// Lanes that can carry it, each with what it would be sent.
    Forward(Vec<UpstreamRequest>),
}

/// What would be sent to a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamRequest {
    /// Name of the lane.
    pub lane: String,
    /// Its dialect; `None` for what passes by the table of paths.
    pub dialect: Option<Dialect>,
    /// Path and query.
    pub path: String,
    /// The request's body.
    pub body: Bytes,
}

impl DryRun {
    /// Makes the ingress of such a gateway, with a clock that stands still. Blocks while host names are resolved.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn new(config: &Config) -> Result<DryRun, GatewayError> {
        let (clock, _) = Clock::manual(Tick::ZERO);
        let plan = Plan::resolve_blocking(config, clock)?;
        let shared = Arc::new(Shared::new(clock, plan, None));
        Ok(DryRun { ingress: Ingress { worker: Rc::new(Worker::new(shared, config.client.clone(), Dial::tcp())) } })
    }

    /// Decides on a request whose body was read whole.
    pub fn evaluate(&self, head: Parts, body: Bytes) -> Decision {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let route = Route::of(&head.method, path);
        let dialect = error_dialect(&route, &head.headers);
        let outcome = self.upstream_requests(route, head, body);
        let response = match outcome {
            Ok(Ok(forwarded)) => return Decision::Forward(forwarded),
            Ok(Err(response)) => response,
            Err(error) => error.into_response(dialect),
        };
        let status = response.status().as_u16();
        Decision::Respond { status, body: response.into_body(), dialect }
    }

    fn upstream_requests(
        &self,
        route: Route,
        head: Parts,
        body: Bytes,
    ) -> Result<Result<Vec<UpstreamRequest>, Response<Bytes>>, ErrorResponse> {
        let plan = self.ingress.worker.plan();
        let mut asked = Asked::default();
        let (credentials, wanted) = match admit(&plan, route, &head, &ConnectionTap::default(), &mut asked)? {
            Admission::Respond(response) => return Ok(Err(response)),
            // It goes to the lane that has it, if any has.
            Admission::FollowUp(..) => return Ok(Ok(Vec::new())),
            Admission::Call(credentials, wanted) => (credentials, wanted),
        };
        let key = credentials.admit_call(&self.ingress.worker.shared)?;
        let open = OpenCall::begin(&self.ingress.worker.shared, plan.limits.calls)?;
        let received = ReceivedRequest { credentials, key, wanted, head, body, streamed: None, at: Tick::ZERO };
        let (account, mode) = self.ingress.account(plan, received, open, &mut asked)?;
        let lanes = eligible_lanes(&account, effective_mode(&account, mode).1)?;
        let forwarded = lanes.into_iter().map(|(id, destination)| {
            let lane = account.plan.lane(id);
            let outgoing = account.request.upstream_request(lane, destination, account.plan.limits.answer_bytes);
            let (outgoing, _) = outgoing.expect("eligible lanes can carry the request");
            let dialect = account.request.routed.as_ref().map(|_| lane.endpoints[destination.endpoint].config.dialect);
            UpstreamRequest { lane: lane.config.name.clone(), dialect, path: outgoing.path, body: outgoing.body }
        });
        Ok(Ok(forwarded.collect()))
    }
}

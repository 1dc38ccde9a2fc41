//! The door without sockets: what a request comes to, up to the point at which lanes would be asked.
//!
//! It refuses to ask lanes, and to decide anything by itself: what serves clients is what is called here. Invariant: nothing but
//! names of hosts is looked up, and that when it is made.

use crate::admission::open_call::OpenCall;
use crate::config::Config;
use crate::dispatch::start::usable_lanes;
use crate::dispatch::worker::Worker;
use crate::error::GatewayError;
use crate::ingress::route::Ask;
use crate::ingress::service::{Admitted, Came, Front, admit, dialect_of_errors};
use crate::state::plan::Plan;
use crate::state::shared::House;
use bytes::Bytes;
use http::request::Parts;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::Tick;
use tokrate_net::server::ConnectionTap;
use tokrate_net::{Clock, Dial};
use tokrate_wire::Dialect;

/// A gateway's door: for tests that hand it whatever they like.
pub struct Door {
    front: Front,
}

/// What a request comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The gateway answers by itself; `dialect` is that in which an error is told.
    Answered {
        /// HTTP status.
        status: u16,
        /// The answer.
        body: Bytes,
        /// The client's.
        dialect: Dialect,
    },
    /// Lanes would be asked.
    Asked(Vec<Upstream>),
}

/// What a lane would be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// The lane's name.
    pub lane: String,
    /// How it is spoken with; `None` for embeddings.
    pub dialect: Option<Dialect>,
    /// Path and query.
    pub path: String,
    /// The request's body.
    pub body: Bytes,
}

impl Door {
    /// The door of such a gateway, at which it is always the same moment. Blocks while names are resolved.
    ///
    /// # Errors
    /// When the configuration makes no sense.
    pub fn new(config: &Config) -> Result<Door, GatewayError> {
        let (clock, _) = Clock::manual(Tick::ZERO);
        let plan = Plan::resolve_blocking(config, clock)?;
        let house = Arc::new(House::new(clock, plan, None));
        Ok(Door { front: Front { worker: Rc::new(Worker::new(house, config.client.clone(), Dial::tcp())) } })
    }

    /// What a request comes to, its body read whole.
    pub fn decide(&self, head: Parts, body: Bytes) -> Decision {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let ask = Ask::of(&head.method, path);
        let dialect = dialect_of_errors(&ask, &head.headers);
        let decided = self.asked(ask, head, body);
        let response = match decided {
            Ok(Ok(asked)) => return Decision::Asked(asked),
            Ok(Err(response)) => response,
            Err(denied) => denied.into_response(dialect),
        };
        let status = response.status().as_u16();
        Decision::Answered { status, body: response.into_body(), dialect }
    }

    fn asked(
        &self,
        ask: Ask,
        head: Parts,
        body: Bytes,
    ) -> Result<Result<Vec<Upstream>, Own>, crate::respond::error::Denied> {
        let plan = self.front.worker.plan();
        let (shown, routed) = match admit(&plan, ask, &head, &ConnectionTap::default())? {
            Admitted::Answered(response) => return Ok(Err(response)),
            Admitted::Call(shown, routed) => (shown, routed),
        };
        let key = shown.enter(&self.front.worker.house)?;
        let open = OpenCall::begin(&self.front.worker.house, plan.limits.calls)?;
        let came = Came { shown, key, routed, head, body, at: Tick::ZERO };
        let (account, _) = self.front.account(plan, came, open)?;
        let (lanes, endpoints) = usable_lanes(&account)?;
        let asked = lanes.into_iter().zip(endpoints).map(|(id, endpoint)| {
            let lane = account.plan.lane(id);
            let outgoing = account.request.for_lane(lane, endpoint, account.plan.limits.answer_bytes);
            let (outgoing, _) = outgoing.expect("what can carry a request can be asked");
            let dialect = account.request.routed.as_ref().map(|_| lane.endpoints[endpoint].config.dialect);
            Upstream { lane: lane.config.name.clone(), dialect, path: outgoing.path, body: outgoing.body }
        });
        Ok(Ok(asked.collect()))
    }
}

/// An answer of the gateway's own.
type Own = http::Response<Bytes>;

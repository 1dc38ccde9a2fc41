//! One worker thread: its connections to providers, and what its calls share.
//!
//! Invariant: a connection belongs to one thread and one plan.

use crate::dispatch::drain::Drains;
use crate::state::plan::{Lane, Plan};
use crate::state::shared::Shared;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::EventBatch;
use tokrate_net::{Client, ClientConfig, Dial, HttpVersion, NetError};

/// What the calls of one thread share.
pub(crate) struct Worker {
    pub shared: Arc<Shared>,
    /// One arena for all decoders: a batch is emptied before the next read is decoded.
    pub batch: Rc<RefCell<EventBatch>>,
    /// Losers that are read to their end.
    pub drains: Drains,
    client_config: ClientConfig,
    dial: Dial,
    current: RefCell<PlanClients>,
}

/// A plan and the connections that were opened for it.
struct PlanClients {
    generation: u64,
    plan: Arc<Plan>,
    /// By lane and endpoint.
    clients: BTreeMap<(u32, usize), Rc<Client>>,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, client_config: ClientConfig, dial: Dial) -> Worker {
        let current = PlanClients { generation: shared.generation(), plan: shared.plan(), clients: BTreeMap::new() };
        let (batch, drains) = (Rc::default(), Drains::default());
        Worker { shared, batch, drains, client_config, dial, current: RefCell::new(current) }
    }

    /// The plan in force. Connections of an earlier plan are closed when its last call has ended.
    pub fn plan(&self) -> Arc<Plan> {
        let generation = self.shared.generation();
        let mut current = self.current.borrow_mut();
        if current.generation != generation {
            *current = PlanClients { generation, plan: self.shared.plan(), clients: BTreeMap::new() };
        }
        Arc::clone(&current.plan)
    }

    /// All clients of the plan in force.
    pub fn clients(&self) -> Vec<Rc<Client>> {
        self.current.borrow().clients.values().cloned().collect()
    }

    /// A client for an endpoint of a lane whose connections can be upgraded: that is HTTP/1.1's alone here.
    pub fn upgrading_client(&self, plan: &Arc<Plan>, lane: &Lane, endpoint: usize) -> Result<Rc<Client>, NetError> {
        if self.client_config.http == HttpVersion::Http1 {
            return self.client(plan, lane, endpoint);
        }
        let config = ClientConfig { http: HttpVersion::Http1, reuse: false, ..self.client_config.clone() };
        self.open(config, lane, endpoint)
    }

    /// A new client for an endpoint of a lane.
    fn open(&self, config: ClientConfig, lane: &Lane, endpoint: usize) -> Result<Rc<Client>, NetError> {
        let endpoint = &lane.endpoints[endpoint];
        let client = Client::with_dial(config, endpoint.route.clone(), self.shared.clock, self.dial.clone())?;
        Ok(Rc::new(client.authorized_by(endpoint.config.authorizer.clone())))
    }

    /// The client for an endpoint of a lane.
    pub fn client(&self, plan: &Arc<Plan>, lane: &Lane, endpoint: usize) -> Result<Rc<Client>, NetError> {
        let open = || self.open(self.client_config.clone(), lane, endpoint);
        let mut current = self.current.borrow_mut();
        if !Arc::ptr_eq(&current.plan, plan) {
            // A call of an earlier plan uses connections of its own.
            return open();
        }
        if let Some(client) = current.clients.get(&(lane.id.0, endpoint)) {
            return Ok(Rc::clone(client));
        }
        let client = open()?;
        current.clients.insert((lane.id.0, endpoint), Rc::clone(&client));
        Ok(client)
    }
}

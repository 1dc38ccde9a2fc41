//! A gateway without threads and sockets: what serves clients, in a world that the caller makes.
//!
//! It refuses to do anything by itself: every function here calls what a gateway with threads calls. Invariant: where clock,
//! connections and log are deterministic, so is all that is served here.

use crate::admission::calendar::month_of;
use crate::config::Config;
use crate::dispatch::worker::Worker;
use crate::error::GatewayError;
use crate::server::serve_clients;
use crate::state::lock::locked;
use crate::state::plan::Plan;
use crate::state::shared::Shared;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;
use tokrate_core::Span;
use tokrate_net::server::Accept;
use tokrate_net::{ClientConfig, Clock, Dial};
use tokrate_route::Spending;
use tokrate_store::Log;

/// A gateway whose clock, connections and log are handed in.
pub struct SimulatedGateway {
    shared: Arc<Shared>,
    client_config: ClientConfig,
    drain: Span,
    shutdown: watch::Sender<bool>,
    /// Every plan that calls ever went by.
    plans: RefCell<Vec<Arc<Plan>>>,
}

/// What calls hold of a gateway. When none is open and no loser is read on, all of it is zero.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeldResources {
    /// Calls open.
    pub calls: usize,
    /// Attempts that lanes have in flight, over all plans.
    pub in_flight: u32,
    /// Calls under way of all keys, over all plans.
    pub streams: u32,
    /// Dollars held for extra requests, over all aliases and plans.
    pub extra_usd: f64,
}

/// What the gateway has counted since its start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// Attempts.
    pub attempts: u64,
    /// What they cost (USD).
    pub cost_usd: f64,
}

impl SimulatedGateway {
    /// One that serves nobody yet, and whose keys have spent nothing.
    ///
    /// # Errors
    /// When the configuration makes no sense.
    pub fn new(config: &Config, clock: Clock, log: Option<Log>) -> Result<SimulatedGateway, GatewayError> {
        let plan = Plan::resolve_blocking(config, clock)?;
        let shared = Arc::new(Shared::new(clock, plan, log));
        let plans = RefCell::new(vec![shared.plan()]);
        let client_config = config.client.clone();
        Ok(SimulatedGateway { shared, client_config, drain: config.drain, shutdown: watch::channel(false).0, plans })
    }

    /// What one thread of a gateway does until [`SimulatedGateway::stop`].
    pub fn serve(&self, clients: impl Accept + 'static, dial: Dial) -> impl Future<Output = ()> + 'static {
        let worker = Worker::new(Arc::clone(&self.shared), self.client_config.clone(), dial);
        serve_clients(Rc::new(worker), clients, self.shutdown.subscribe(), self.drain)
    }

    /// Takes over another configuration.
    ///
    /// # Errors
    /// When it makes no sense; the old one then stays.
    pub fn reconfigure(&self, config: &Config) -> Result<(), GatewayError> {
        self.shared.reconfigure(config)?;
        self.plans.borrow_mut().push(self.shared.plan());
        Ok(())
    }

    /// Begins the end: no further client is served, open calls may go on for the configured time.
    pub fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    /// What calls hold now.
    pub fn held(&self) -> HeldResources {
        let mut held =
            HeldResources { calls: self.shared.open_calls.load(Ordering::Relaxed), ..HeldResources::default() };
        for plan in self.plans.borrow().iter() {
            let router = locked(&plan.router);
            held.in_flight += plan.lanes.iter().map(|lane| router.in_flight(lane.id)).sum::<u32>();
            held.streams += plan.keys.values().map(|key| locked(&key.meter).streams()).sum::<u32>();
            held.extra_usd += plan.aliases.values().map(|alias| locked(&alias.budget).reserved_usd()).sum::<f64>();
        }
        held
    }

    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        let stats = self.shared.stats.snapshot();
        Totals { attempts: stats.attempts, cost_usd: stats.cost_usd }
    }

    /// Dollars of a key's month in which a wall time lies (seconds since 1970), if the plan of today has such a key.
    pub fn key_spending(&self, name: &str, wall_seconds: u64) -> Option<Spending> {
        let plan = self.shared.plan();
        let key = plan.keys.values().find(|key| key.config.name == name)?;
        Some(locked(&key.meter).spending(month_of(wall_seconds)))
    }
}

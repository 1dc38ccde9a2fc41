//! A gateway without threads and sockets, for deterministic simulation: clock, connections and log are handed in.
//!
//! Everything here calls what a gateway with threads calls, so that what is simulated is what runs.

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
    /// Every plan that was ever in force.
    plans: RefCell<Vec<Arc<Plan>>>,
}

/// What open calls hold. When no call is open and no loser is being drained, all of it is zero.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeldResources {
    /// Open calls.
    pub calls: usize,
    /// Attempts in flight over all lanes and plans.
    pub in_flight: u32,
    /// Calls under way of all keys, over all plans.
    pub streams: u32,
    /// Dollars reserved for extra attempts, over all aliases and plans.
    pub extra_usd: f64,
}

/// Totals since the start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// Attempts.
    pub attempts: u64,
    /// Their cost (USD).
    pub cost_usd: f64,
    /// Requests refused before a lane was asked.
    pub refused: u64,
}

impl SimulatedGateway {
    /// A gateway that does not serve yet, and whose keys have spent nothing.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn new(config: &Config, clock: Clock, log: Option<Log>) -> Result<SimulatedGateway, GatewayError> {
        let plan = Plan::resolve_blocking(config, clock)?;
        let shared = Arc::new(Shared::new(clock, plan, log));
        let plans = RefCell::new(vec![shared.plan()]);
        let client_config = config.client.clone();
        Ok(SimulatedGateway { shared, client_config, drain: config.drain, shutdown: watch::channel(false).0, plans })
    }

    /// What a worker thread does until [`SimulatedGateway::stop`].
    pub fn serve(&self, clients: impl Accept + 'static, dial: Dial) -> impl Future<Output = ()> + 'static {
        let worker = Worker::new(Arc::clone(&self.shared), self.client_config.clone(), dial);
        serve_clients(Rc::new(worker), clients, self.shutdown.subscribe(), self.drain)
    }

    /// Switches to another configuration.
    ///
    /// # Errors
    ///
    /// If it is invalid; the old one then stays in force.
    pub fn reconfigure(&self, config: &Config) -> Result<(), GatewayError> {
        self.shared.reconfigure(config)?;
        self.plans.borrow_mut().push(self.shared.plan());
        Ok(())
    }

    /// Stops accepting clients; open calls may go on for the configured time.
    pub fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    /// What open calls hold now.
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

    /// Totals so far.
    pub fn totals(&self) -> Totals {
        let stats = self.shared.stats.snapshot();
        let refused = self.shared.refusals.counts().into_iter().map(|(_, count)| count).sum();
        Totals { attempts: stats.attempts, cost_usd: stats.cost_usd, refused }
    }

    /// What a key has spent in the month of a wall time (seconds since 1970), if the plan in force has such a key.
    pub fn key_spending(&self, name: &str, wall_seconds: u64) -> Option<Spending> {
        let plan = self.shared.plan();
        let key = plan.keys.values().find(|key| key.config.name == name)?;
        Some(locked(&key.meter).spending(month_of(wall_seconds)))
    }
}

//! What all threads of a gateway share: the plan, the router, the log, the counts.
//!
//! It refuses to know sockets. Invariant: a lock is held for a decision, never while anything is waited for.

use crate::config::Config;
use crate::error::GatewayError;
use crate::otel::status::ExportStatus;
use crate::settle::stats::Stats;
use crate::state::lane_health::BreakerNotices;
use crate::state::plan::Plan;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokrate_meter::Attempt as Row;
use tokrate_net::Clock;
use tokrate_net::server::ByteBudget;
use tokrate_store::Log;

/// Shared by every thread.
pub(crate) struct Shared {
    pub clock: Clock,
    pub log: Option<Log>,
    /// What the admin side shows.
    pub stats: Stats,
    /// Lanes that are left alone since this was last asked.
    pub breaker_notices: BreakerNotices,
    /// What the admin side tells of the export.
    pub exports: ExportStatus,
    /// What the bodies of all open calls may hold.
    pub bodies: Arc<ByteBudget>,
    /// What the answers of all open calls may hold.
    pub answers: Arc<ByteBudget>,
    /// Calls open, and begun since the start.
    pub open_calls: AtomicUsize,
    calls: AtomicU64,
    /// What sets this run's calls apart from those of others.
    prefix: String,
    plan: RwLock<Arc<Plan>>,
    /// Of the plan, so that threads notice a new one.
    generation: AtomicU64,
}

impl Shared {
    pub fn new(clock: Clock, plan: Plan, log: Option<Log>) -> Shared {
        // Wall time in nanoseconds does not come twice on one machine.
        let prefix = format!("{:x}", clock.wall_nanos());
        Shared {
            bodies: ByteBudget::new(plan.limits.bodies_bytes),
            answers: ByteBudget::new(plan.limits.answers_bytes),
            clock,
            log,
            stats: Stats::default(),
            breaker_notices: BreakerNotices::default(),
            exports: ExportStatus::default(),
            open_calls: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            prefix,
            plan: RwLock::new(Arc::new(plan)),
            generation: AtomicU64::new(0),
        }
    }

    /// The plan of today.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The plan, to be changed by a test before anybody else has it.
    #[cfg(test)]
    pub fn plan_alone(&mut self) -> &mut Plan {
        let plan = self.plan.get_mut().unwrap_or_else(PoisonError::into_inner);
        Arc::get_mut(plan).expect("nobody else has it")
    }

    /// Which plan that is.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Goes by another configuration from now on; what was learned and counted stays. Blocks while names are resolved.
    pub fn reconfigure(&self, config: &Config) -> Result<(), GatewayError> {
        let (clock, earlier) = (self.clock, self.plan());
        let mut plan = Plan::resolve_blocking(config, clock)?;
        // What can fail comes before what changes the limits of calls under way.
        let log = self.log.as_ref();
        let spent = log.map(|log| plan.spent(log, clock.wall_seconds(), Some(&earlier))).transpose()?;
        plan.inherit(&earlier, clock.now());
        spent.iter().for_each(|spent| plan.restore(spent));
        self.adopt(plan);
        Ok(())
    }

    fn adopt(&self, plan: Plan) {
        *self.plan.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plan);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// A name for the next call, unlike that of every other.
    pub fn next_call(&self) -> String {
        format!("{}-{:x}", self.prefix, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// A name of this run, unlike that of every other.
    pub fn run(&self) -> &str {
        &self.prefix
    }

    /// Tells the admin side of a row, and writes it to the log if there is one.
    pub fn write(&self, mut row: Row) {
        // A provider may say a megabyte and call it the name of a model.
        row.bound_texts();
        self.stats.record(&row);
        if let Some(log) = &self.log {
            log.write(row);
        }
    }
}

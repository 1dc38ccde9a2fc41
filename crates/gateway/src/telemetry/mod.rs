//! The state of a running gateway as plain values, for its admin side and for exporters.

pub(crate) mod aliases;
pub(crate) mod changes;
pub mod metrics;
pub(crate) mod refusals;
pub(crate) mod settings;
pub(crate) mod snapshot;

pub use crate::otel::status::ExportCounts;
pub use crate::settle::stats::histogram::{Exemplar, Histogram};
pub use crate::settle::stats::{
    AliasStats, AttemptTrace, Band, CallTrace, Distribution, FailureCounts, LaneStats, LastHour, MINUTES, Minute,
    OPEN_MINUTES, Operation, OperationStats, SPEED_STEPS, StatsSnapshot,
};
pub use crate::state::lane_health::BreakerChange;
pub use crate::trace::queue::SpanCounts;
pub use aliases::AliasStatus;
pub use changes::LaneChange;
pub use settings::{Setting, SettingsInForce};
pub use snapshot::{KeyStatus, LaneState, LaneStatus, LogStatus, Snapshot, blame_name};

use crate::state::shared::Shared;
use std::sync::Arc;
use tokrate_core::Tick;
use tokrate_net::Clock;
use tokrate_store::Log;

/// Read access to a running gateway.
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
    started_at: Tick,
}

impl Observer {
    pub(crate) fn new(shared: Arc<Shared>, started_at: Tick) -> Observer {
        Observer { shared, started_at }
    }

    /// The state of the gateway now. Blocks for as long as it takes to read a file of `/proc`.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.shared, self.started_at)
    }

    /// Keeps changes that were found in the traffic of lanes, for the page, the API and the metrics.
    pub fn report_changes(&self, found: Vec<LaneChange>) {
        self.shared.changes.add(found);
    }

    /// Shows these settings as those in force. No secret may be in them.
    pub fn report_settings(&self, settings: Vec<Setting>) {
        self.shared.settings.report(settings, self.shared.clock.wall_nanos() / 1_000_000);
    }

    /// The throughput log, if one is kept.
    pub fn log(&self) -> Option<&Log> {
        self.shared.log.as_ref()
    }

    /// SHA-256 of the key that the admin side asks for, by the configuration in force.
    pub fn admin_key(&self) -> Option<[u8; 32]> {
        self.shared.plan().admin_key
    }

    /// The clock of the gateway.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }
}

//! The state of a running gateway as plain values, for its admin side and for exporters.

pub(crate) mod aliases;
pub mod metrics;
pub(crate) mod snapshot;

pub use crate::otel::exports::ExportCounts;
pub use crate::settle::stats::histogram::Histogram;
pub use crate::settle::stats::{
    AliasStats, Attempted, Band, Failing, Heard, Hour, LaneStats, MINUTES, MINUTES_OPEN, Minute, Operation,
    OperationStats, SPEED_STEPS, Spread, Trail,
};
pub use aliases::AliasView;
pub use snapshot::{LaneState, LaneView, LogView, View, blame_name};

use crate::state::shared::House;
use std::sync::Arc;
use tokrate_core::Tick;
use tokrate_net::Clock;
use tokrate_store::Log;

/// Read access to a running gateway.
#[derive(Clone)]
pub struct Observer {
    house: Arc<House>,
    started_at: Tick,
}

impl Observer {
    pub(crate) fn new(house: Arc<House>, started_at: Tick) -> Observer {
        Observer { house, started_at }
    }

    /// The state of the gateway now. Blocks for as long as it takes to read a file of `/proc`.
    pub fn snapshot(&self) -> View {
        View::of(&self.house, self.started_at)
    }

    /// The throughput log, if one is kept.
    pub fn log(&self) -> Option<&Log> {
        self.house.log.as_ref()
    }

    /// SHA-256 of the key that the admin side asks for, by the configuration in force.
    pub fn admin_key(&self) -> Option<[u8; 32]> {
        self.house.plan().admin_key
    }

    /// The clock of the gateway.
    pub fn clock(&self) -> Clock {
        self.house.clock
    }
}

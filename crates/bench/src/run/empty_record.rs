//! The record of a target before its first phase: tool, conditions, price; no results.

use crate::config::Config;
use crate::endpoint::{Endpoint, conditions};
use tokrate_net::Clock;
use tokrate_record::{ConditionsRow, Record, Status, Tool};

/// The record of a target before its first phase.
pub(super) fn empty_record(config: &Config, clock: Clock, endpoint: &Endpoint) -> Record {
    Record {
        schema: Record::SCHEMA.to_owned(),
        tool: Tool { name: "tokrate".to_owned(), version: config.version.clone() },
        kind: "bench".to_owned(),
        started_at: clock.wall_rfc3339(),
        wall_seconds: 0.0,
        status: Status::Partial,
        reason: Some("the run is not over".to_owned()),
        conditions: ConditionsRow::from(&conditions(config, endpoint, None)),
        price: endpoint.price.clone(),
        engine_host: config.target.remote().and_then(|remote| remote.engine_host.clone()),
        search: None,
        until: None,
        spending: None,
        phases: Vec::new(),
        timeline: None,
        curve: None,
        assertions: Vec::new(),
        estimate: None,
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

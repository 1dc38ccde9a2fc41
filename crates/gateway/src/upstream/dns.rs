//! Re-resolves the host names of lanes while the gateway runs.
//!
//! Open connections stay. Invariant: a name that cannot be resolved keeps its last addresses; a lane whose name never
//! had one is skipped until it has.

use crate::config::Config;
use crate::error::GatewayError;
use crate::state::look_ups::side_by_side;
use crate::state::plan::{Lane, Plan};
use crate::state::shared::Shared;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use tokrate_core::Span;
use tokrate_net::{Clock, Route};

/// How often names are resolved again.
pub(crate) const REFRESH_INTERVAL: Span = Span::from_secs(60);

/// The thread that resolves; it ends when this is dropped.
pub(crate) struct DnsRefresher {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DnsRefresher {
    /// Starts the thread, which follows the plan in force.
    pub fn start(shared: &Arc<Shared>) -> Result<DnsRefresher, GatewayError> {
        // A weak reference: the gateway must be able to end, and close its log, while a look-up hangs.
        let shared = Arc::downgrade(shared);
        let (end, ended) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("tokrate-dns".to_owned())
            .spawn(move || {
                while ended.recv_timeout(REFRESH_INTERVAL.as_duration()) == Err(RecvTimeoutError::Timeout) {
                    let Some(plan) = shared.upgrade().map(|shared| shared.plan()) else { return };
                    refresh_blocking(&plan);
                }
            })
            .map_err(GatewayError::Thread)?;
        Ok(DnsRefresher { end: Some(end), thread: Some(thread) })
    }
}

/// Resolves all names of a plan again. Blocks.
pub(crate) fn refresh_blocking(plan: &Plan) {
    let routes: Vec<&Route> =
        plan.lanes.iter().flat_map(|lane| &lane.endpoints).map(|endpoint| &endpoint.route).collect();
    // On failure the old addresses stay; if they are dead, calls to this lane report it.
    side_by_side(&routes, |_, route| drop(route.refresh_blocking()));
}

/// The lanes with a name that has no address, each with the resolver's message.
pub(crate) fn unresolved<'a>(lanes: impl Iterator<Item = &'a Lane>) -> Vec<String> {
    lanes.filter_map(|lane| Some(format!("lane {}: {}", lane.config.name, lane.unresolved()?))).collect()
}

/// The lanes of a configuration with a name that has no address now, each with the resolver's message. Blocks while
/// names are resolved.
///
/// # Errors
///
/// If a lane can never be connected to.
pub fn unresolved_blocking(config: &Config) -> Result<Vec<String>, GatewayError> {
    Ok(unresolved(Lane::resolve_all(&config.lanes, &config.client, Clock::monotonic())?.iter()))
}

impl Drop for DnsRefresher {
    fn drop(&mut self) {
        self.end = None;
        // A look-up in progress is not waited for: the resolver may take arbitrarily long.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{SampleGateway, lane_config};
    use crate::telemetry::snapshot::{LaneState, Snapshot};
    use tokrate_core::Tick;
    use tokrate_net::{ClientConfig, SharedTls, Target};

    #[test]
    fn a_lane_comes_into_service_when_its_name_has_an_address() {
        let mut sample = SampleGateway::new(vec![lane_config("a", "p", "m", None)]);
        let target = Target::parse("http://localhost:9/v1").expect("a URL");
        let shared = Arc::get_mut(&mut sample.shared).expect("nobody else has it");
        shared.plan_mut().lanes[0] = {
            let mut lane = Lane::resolve(
                0,
                &lane_config("a", "p", "m", None),
                &ClientConfig::default(),
                &SharedTls::default(),
                shared.clock,
            );
            let endpoint = &mut lane.as_mut().expect("a lane").endpoints[0];
            endpoint.forget_addresses(&target, "no such host");
            Arc::new(lane.expect("a lane"))
        };
        let shared = &sample.shared;
        let state = || Snapshot::of(shared, Tick::ZERO).lanes[0].state;
        assert_eq!(state(), LaneState::Unresolved);
        assert!(!Snapshot::of(shared, Tick::ZERO).is_ready());
        assert_eq!(unresolved(shared.plan().lanes.iter().map(Arc::as_ref)), ["lane a: no such host"]);
        refresh_blocking(&shared.plan());
        assert_eq!(state(), LaneState::Ready);
    }
}

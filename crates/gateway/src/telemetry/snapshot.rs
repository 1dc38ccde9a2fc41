//! A snapshot of the gateway: all that the page, the metrics and the API show, as plain values.
//!
//! Invariant: locks are held only while references and counters are copied; what is unknown is `None`.

use super::aliases::{AliasStatus, aliases};
use super::changes::LaneChange;
use super::settings::SettingsInForce;
use crate::admission::calendar::month_of;
use crate::settle::stats::{LaneStats, StatsSnapshot, first_minute_of_hour};
use crate::state::lane_health::BreakerChange;
use crate::state::lock::locked;
use crate::state::plan::{Key, Plan};
use crate::state::shared::Shared;
use crate::trace::queue::SpanCounts;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokrate_core::{Money, Price, Span, Tick};
use tokrate_record::RefusalReason;
use tokrate_route::{
    Blame, BreakerState, Expectation, KeyLimits, LaneId, LaneSnapshot, LoserPolicy, SnapshotPoint, Spending,
};
use tokrate_store::LogCounts;

/// The state of a gateway at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Wall time (ms since 1970).
    pub now_unix_ms: u64,
    /// Version of tokrate.
    pub version: &'static str,
    /// How long the gateway has been running.
    pub uptime: Span,
    /// Calls that clients have open.
    pub open_calls: usize,
    /// In the order of the configuration.
    pub lanes: Vec<LaneStatus>,
    /// Sorted by name.
    pub aliases: Vec<AliasStatus>,
    /// Sorted by name.
    pub keys: Vec<KeyStatus>,
    /// Requests refused before a lane was asked, by reason; every reason once.
    pub refusals: Vec<(RefusalReason, u64)>,
    /// Lanes of earlier configurations included.
    pub stats: StatsSnapshot,
    /// The throughput log, if one is kept.
    pub log: Option<LogStatus>,
    /// Changes that were found in the traffic, the newest first; `None` where nobody watches.
    pub changes: Option<Vec<LaneChange>>,
    /// The settings in force, as whoever started the gateway reports them.
    pub settings: Arc<SettingsInForce>,
    /// Memory of the process that is in RAM, if the operating system says so.
    pub resident_bytes: Option<u64>,
    /// Counts of the metrics export, if there is one.
    pub exports: Option<crate::otel::status::ExportCounts>,
    /// What became of the spans of calls, if they are traced.
    pub spans: Option<SpanCounts>,
}

/// The state of a configured lane.
#[derive(Clone, Debug)]
pub struct LaneStatus {
    /// Its name.
    pub name: String,
    /// Name of its provider.
    pub provider: String,
    /// The model as the provider knows it.
    pub model: String,
    /// Whether it takes calls now.
    pub state: LaneState,
    /// Attempts in flight.
    pub in_flight: u32,
    /// Attempts that may be in flight at once.
    pub cap: Option<u32>,
    /// The cap that was learned from refusals.
    pub learned_cap: Option<f64>,
    /// Recent share of attempts that failed, 0 to 1.
    pub failing: f64,
    /// What a call with a prompt of [`LaneSnapshot::PROMPT_TOKENS`] may expect now.
    pub expected: Option<Expectation>,
    /// The same at other loads.
    pub curve: Vec<SnapshotPoint>,
    /// Statistics since the start; `None` before its first attempt has ended.
    pub stats: Option<LaneStats>,
    /// What it charges, if that is known.
    pub price: Option<Price>,
    /// The most that a call of a service costs, where its tokens do not say.
    pub fees: Vec<(String, Money)>,
    /// Longest prompts and answers (tokens), as far as the settings say.
    pub max_tokens: (Option<u64>, Option<u64>),
    /// What happens to an attempt that lost a race.
    pub loser: LoserPolicy,
    /// When its breaker opened and closed, the newest first.
    pub breaker_changes: Vec<BreakerChange>,
}

/// A configured key.
#[derive(Clone, Debug)]
pub struct KeyStatus {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub limits: KeyLimits,
    /// What it has spent this month; without a monthly budget, since the gateway was started.
    pub spending: Spending,
    /// Calls that it has open.
    pub open_calls: u32,
}

/// Whether a lane takes calls.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LaneState {
    /// It takes calls.
    Ready,
    /// As many calls are in flight as its limit allows.
    Full,
    /// Its breaker is open.
    CoolingDown {
        /// Until it is tried again.
        left: Span,
        /// What the failures were attributed to.
        why: Blame,
    },
    /// Its breaker is half-open: one call may probe it.
    OnTrial,
    /// A host name has no address yet.
    Unresolved,
}

/// The state of the log.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// Path of the database.
    pub path: String,
    /// Rows written, waiting and lost.
    pub counts: LogCounts,
    /// The newest error.
    pub error: Option<String>,
    /// Whether rows reach the database.
    pub is_healthy: bool,
}

impl Snapshot {
    /// Takes a snapshot of a gateway that has been running since `started_at`. Reads a file of the operating system.
    pub(crate) fn of(shared: &Shared, started_at: Tick) -> Snapshot {
        let now = shared.clock.now();
        let (stats, plan) = (shared.stats.snapshot(), shared.plan());
        let log = shared.log.as_ref().map(|log| LogStatus {
            path: log.path().display().to_string(),
            counts: log.counts(),
            error: log.failure(),
            is_healthy: log.is_healthy(),
        });
        Snapshot {
            now_unix_ms: shared.clock.wall_nanos() / 1_000_000,
            version: env!("CARGO_PKG_VERSION"),
            uptime: now - started_at,
            open_calls: shared.open_calls.load(Ordering::Relaxed),
            lanes: lanes(&plan, now, &stats),
            aliases: aliases(shared, &plan, now, &stats),
            keys: keys(&plan, shared.clock.wall_seconds()),
            refusals: shared.refusals.counts().to_vec(),
            stats,
            log,
            changes: shared.changes.newest_first(),
            settings: shared.settings.current(),
            resident_bytes: resident_bytes(),
            exports: shared.exports.counts(),
            spans: shared.traces.as_ref().map(|traces| traces.counts()),
        }
    }

    /// The current minute (since 1970).
    pub fn minute(&self) -> u64 {
        self.now_unix_ms / 60_000
    }

    /// The first minute of the last hour.
    pub fn first_minute_of_hour(&self) -> u64 {
        first_minute_of_hour(self.minute())
    }

    /// Whether a call could be answered now, as far as is known.
    pub fn is_ready(&self) -> bool {
        self.lanes.iter().any(|lane| !matches!(lane.state, LaneState::CoolingDown { .. } | LaneState::Unresolved))
    }
}

impl LaneState {
    fn of(snapshot: &LaneSnapshot, now: Tick) -> LaneState {
        let is_full = snapshot.cap.is_some_and(|cap| snapshot.in_flight >= cap);
        match snapshot.breaker {
            BreakerState::Open { until, blame } => LaneState::CoolingDown { left: until - now, why: blame },
            BreakerState::HalfOpen { .. } => LaneState::OnTrial,
            BreakerState::Closed if is_full => LaneState::Full,
            BreakerState::Closed => LaneState::Ready,
        }
    }

    /// The name in JSON and in style sheets.
    pub fn name(self) -> &'static str {
        match self {
            LaneState::Ready => "ready",
            LaneState::Full => "full",
            LaneState::CoolingDown { .. } => "cooling_down",
            LaneState::OnTrial => "on_trial",
            LaneState::Unresolved => "unresolved",
        }
    }
}

/// The name in JSON of what failures were attributed to.
pub fn blame_name(blame: Blame) -> &'static str {
    match blame {
        Blame::Client => "client",
        Blame::Key => "key",
        Blame::Load => "load",
        Blame::Lane => "lane",
        Blame::Nobody => "nobody",
    }
}

fn lanes(plan: &Plan, now: Tick, stats: &StatsSnapshot) -> Vec<LaneStatus> {
    let router = locked(&plan.router);
    let snapshots = router.snapshot(now);
    let expected: Vec<Option<Expectation>> =
        plan.lanes.iter().map(|lane| router.expect(lane.id, now, LaneSnapshot::PROMPT_TOKENS)).collect();
    drop(router);
    let mut lanes = Vec::with_capacity(snapshots.len());
    for ((lane, snapshot), expected) in plan.lanes.iter().zip(snapshots).zip(expected) {
        debug_assert_eq!(lane.id, LaneId(lanes.len() as u32));
        let config = &lane.config;
        lanes.push(LaneStatus {
            name: config.name.clone(),
            provider: config.provider.clone(),
            model: config.model.clone(),
            state: match lane.unresolved() {
                Some(_) => LaneState::Unresolved,
                None => LaneState::of(&snapshot, now),
            },
            in_flight: snapshot.in_flight,
            cap: snapshot.cap,
            learned_cap: snapshot.learned_cap,
            failing: snapshot.failure_rate,
            expected,
            curve: snapshot.curve,
            stats: stats.lane(&config.name, &config.provider, &config.model).cloned(),
            price: config.price,
            fees: config.services.fees.clone(),
            max_tokens: (config.token_limits.input, config.token_limits.output),
            loser: config.loser,
            breaker_changes: lane.health.breaker_changes(),
        });
    }
    lanes
}

fn keys(plan: &Plan, wall_seconds: u64) -> Vec<KeyStatus> {
    let status = |key: &Arc<Key>| {
        let meter = locked(&key.meter);
        KeyStatus {
            name: key.config.name.clone(),
            limits: key.config.limits,
            spending: meter.spending(month_of(wall_seconds)),
            open_calls: meter.streams(),
        }
    };
    let mut keys: Vec<KeyStatus> = plan.keys.values().map(status).collect();
    keys.sort_by(|one, other| one.name.cmp(&other.name));
    keys
}

/// Resident memory of the process; known only where the operating system has `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(breaker: BreakerState, in_flight: u32, cap: Option<u32>) -> LaneSnapshot {
        LaneSnapshot {
            in_flight,
            cap,
            learned_cap: None,
            breaker,
            peak_ewma_seconds: 0.0,
            failure_rate: 0.0,
            curve: Vec::new(),
            started: 0,
            succeeded: 0,
            failed: 0,
            cancelled: 0,
        }
    }

    #[test]
    fn an_open_breaker_takes_precedence_over_a_full_lane() {
        let now = Tick::from_nanos(1_000);
        let until = now + Span::from_secs(3);
        let open = BreakerState::Open { until, blame: Blame::Key };
        assert_eq!(
            LaneState::of(&snapshot(open, 4, Some(4)), now),
            LaneState::CoolingDown { left: Span::from_secs(3), why: Blame::Key }
        );
        assert_eq!(LaneState::of(&snapshot(BreakerState::Closed, 4, Some(4)), now), LaneState::Full);
        assert_eq!(LaneState::of(&snapshot(BreakerState::Closed, 4, None), now), LaneState::Ready);
        let trial = BreakerState::HalfOpen { probing: true };
        assert_eq!(LaneState::of(&snapshot(trial, 0, None), now), LaneState::OnTrial);
    }

    #[test]
    fn the_resident_memory_of_this_process_is_known() {
        let bytes = resident_bytes().expect("tests run where there is /proc");
        assert!((1 << 20..1 << 40).contains(&bytes), "{bytes}");
    }
}

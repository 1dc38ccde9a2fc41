//! The state that all threads of a gateway share: plan, router, log, counters.
//!
//! Invariant: a lock is held for a decision, never across a wait.

use crate::config::{Config, TracesConfig};
use crate::error::GatewayError;
use crate::otel::status::ExportStatus;
use crate::settle::stats::Stats;
use crate::state::jobs::{Jobs, ObjectKind};
use crate::state::lane_health::BreakerNotices;
use crate::state::plan::{Lane, Plan};
use crate::telemetry::changes::Changes;
use crate::telemetry::refusals::Refusals;
use crate::telemetry::settings::Settings;
use crate::trace::queue::TraceQueue;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tokio::sync::Notify;
use tokrate_net::Clock;
use tokrate_net::server::ByteBudget;
use tokrate_record::{Attempt as Row, Refusal};
use tokrate_store::{Log, StoredObject};

/// Shared by all threads.
pub(crate) struct Shared {
    pub clock: Clock,
    pub log: Option<Log>,
    /// Statistics for the admin side.
    pub stats: Stats,
    /// Breakers that have opened and were not reported yet.
    pub breaker_notices: BreakerNotices,
    /// Responses that go on in the background.
    pub jobs: Jobs,
    /// Told when a lane may have to be probed.
    pub probes_wanted: Notify,
    /// Requests refused before a lane was asked.
    pub refusals: Refusals,
    /// Changes that were found in the traffic of lanes.
    pub changes: Changes,
    /// The settings in force.
    pub settings: Settings,
    /// How the metrics export fares.
    pub exports: ExportStatus,
    /// Traces of calls that have ended; `None` where they are off.
    pub traces: Option<Arc<TraceQueue>>,
    /// How their export fares.
    pub trace_exports: ExportStatus,
    /// The budget for bodies of open calls.
    pub bodies: Arc<ByteBudget>,
    /// The budget for buffered answers of open calls.
    pub answers: Arc<ByteBudget>,
    /// Open calls, and calls since the start.
    pub open_calls: AtomicUsize,
    calls: AtomicU64,
    /// The prefix of this run's call ids.
    prefix: String,
    /// The key of prompts' hashes, drawn when the first is needed.
    prompt_key: OnceLock<[u64; 2]>,
    plan: RwLock<Arc<Plan>>,
    /// Rises with every new plan, so that threads notice it.
    generation: AtomicU64,
}

impl Shared {
    pub fn new(clock: Clock, plan: Plan, log: Option<Log>) -> Shared {
        // Wall time in nanoseconds is unique to a run on one machine.
        let prefix = format!("{:x}", clock.wall_nanos());
        Shared {
            bodies: ByteBudget::new(plan.limits.bodies_bytes),
            answers: ByteBudget::new(plan.limits.answers_bytes),
            clock,
            log,
            stats: Stats::default(),
            breaker_notices: BreakerNotices::default(),
            jobs: Jobs::default(),
            probes_wanted: Notify::new(),
            refusals: Refusals::default(),
            changes: Changes::default(),
            settings: Settings::default(),
            exports: ExportStatus::default(),
            traces: None,
            trace_exports: ExportStatus::default(),
            open_calls: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            prefix,
            prompt_key: OnceLock::new(),
            plan: RwLock::new(Arc::new(plan)),
            generation: AtomicU64::new(0),
        }
    }

    /// Has calls traced.
    pub fn with_traces(mut self, config: Option<TracesConfig>) -> Shared {
        let seed = self.clock.wall_nanos();
        self.traces = config.map(|config| Arc::new(TraceQueue::new(config, seed)));
        self
    }

    /// The plan in force.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The plan, to be changed by a test before it is shared.
    #[cfg(test)]
    pub fn plan_mut(&mut self) -> &mut Plan {
        let plan = self.plan.get_mut().unwrap_or_else(PoisonError::into_inner);
        Arc::get_mut(plan).expect("nobody else has it")
    }

    /// The generation of the plan.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Switches to another configuration; what was learned and counted stays. Blocks while host names are resolved.
    pub fn reconfigure(&self, config: &Config) -> Result<(), GatewayError> {
        let (clock, previous) = (self.clock, self.plan());
        let mut plan = Plan::resolve_blocking(config, clock)?;
        // What can fail comes before the limits of open calls are changed.
        let log = self.log.as_ref();
        let spent = log.map(|log| plan.spent(log, clock.wall_seconds(), Some(&previous))).transpose()?;
        plan.inherit(&previous, clock.now());
        spent.iter().for_each(|spent| plan.restore(spent));
        self.adopt(plan);
        Ok(())
    }

    fn adopt(&self, plan: Plan) {
        *self.plan.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plan);
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.probes_wanted.notify_one();
    }

    /// The secret under which prompts are hashed: it never leaves the process, so that nobody outside can find prompts whose hashes
    /// collide, and no hash means anything to another process.
    pub fn prompt_key(&self) -> [u64; 2] {
        *self.prompt_key.get_or_init(|| {
            // Without random numbers the hashes are still right, only not secret.
            let bytes =
                tokrate_net::random_bytes::<16>().unwrap_or_else(|_| u128::from(self.clock.wall_nanos()).to_le_bytes());
            let (one, other) = bytes.split_at(8);
            let number = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of 16 bytes is 8"));
            [number(one), number(other)]
        })
    }

    /// A unique id for the next call. Ids rise, so that the log's index of calls grows at its end.
    pub fn next_call_id(&self) -> String {
        call_id(&self.prefix, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// A unique id of this run.
    pub fn run_id(&self) -> &str {
        &self.prefix
    }

    /// Counts a refused request, and writes it to the log if there is one.
    pub fn refuse(&self, refusal: Refusal, message: &str) {
        self.refusals.record(self.clock.now(), refusal.reason, refusal.status, message);
        if let Some(log) = &self.log {
            log.refuse(refusal);
        }
    }

    /// Keeps in the log's file whose an object is.
    pub fn keep_object(&self, kind: ObjectKind, id: &str, lane: &Lane, key: Option<&str>) {
        let Some(log) = &self.log else { return };
        log.remember(StoredObject {
            id: id.to_owned(),
            kind: kind.name().to_owned(),
            key: key.map(str::to_owned),
            lane: lane.config.name.clone(),
            target: lane.target(),
            made_unix_ms: self.clock.wall_nanos() / 1_000_000,
        });
    }

    /// Remembers the objects that the log's file has. Blocks.
    pub fn restore_objects(&self) {
        let Some(log) = &self.log else { return };
        match log.reader().and_then(|reader| reader.objects()) {
            Ok(objects) => self.jobs.restore(objects, &self.plan()),
            Err(error) => tracing::warn!("files, batches and responses that were made before are not known: {error}"),
        }
    }

    /// Counts a row, and writes it to the log if there is one.
    pub fn write(&self, row: Row) {
        self.write_beside(row, false);
    }

    /// The same; `is_beside`: the attempt was not needed beside another one, which the row alone does not say.
    pub fn write_beside(&self, mut row: Row, is_beside: bool) {
        // A provider may put a megabyte where the model's name belongs.
        row.bound_texts();
        self.stats.record_beside(&row, is_beside);
        if let Some(log) = &self.log {
            log.write(row);
        }
    }
}

/// The id of a call: eight hexadecimal digits and more once they are needed, so that ids sort as their numbers. Written by
/// hand, because it stands before every call.
fn call_id(prefix: &str, mut number: u64) -> String {
    let mut digits = [b'0'; 16];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(8).min(8);
    let mut id = String::with_capacity(prefix.len() + 1 + digits.len() - start);
    id.push_str(prefix);
    id.push('-');
    id.extend(digits[start..].iter().map(|digit| char::from(*digit)));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_calls_are_hexadecimal_and_sort_as_their_numbers() {
        let numbers = [0, 1, 9, 10, 15, 16, 255, 0xffff_ffff];
        let ids = numbers.map(|number| call_id("1a", number));
        assert_eq!(ids, numbers.map(|number| format!("1a-{number:08x}")));
        assert!(ids.is_sorted());
        assert_eq!(call_id("1a", u64::MAX), "1a-ffffffffffffffff");
    }
}

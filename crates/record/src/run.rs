//! One phase of a run: all requests of one load level, summarised.
//!
//! Invariant: distributions hold answered requests outside the warm-up only; every started request is counted exactly once;
//! cuts follow rules that the result states.

mod adapters;
mod agents;
mod audio;
mod batch;
mod counts;
mod items;
mod lengths;
mod level;
mod load;
mod media;
mod missing;
mod opening;
mod phase;
mod rounds;
mod server_timings;
mod sessions;
mod steady;
mod streams;
mod structure;
mod summary;
mod sweep;
mod unreadable;
mod validity;

pub use adapters::AdapterSummary;
pub use agents::{AgentSummary, RoleSummary};
pub use audio::AudioSummary;
pub(crate) use audio::real_time_factor;
pub use batch::BatchSummary;
pub use counts::{Connections, Counts, FailureCount, NameCount, RateLimited};
pub use items::ItemSummary;
pub use lengths::LengthSummary;
pub use media::{MediaGroup, MediaSummary, Slope};
pub use missing::missing_figures;
pub(crate) use opening::taken;
pub use opening::{OpeningSummary, STEPS};
pub use phase::{PhaseInput, PhaseResult, TimerLag, mark_warmup};
pub use rounds::{Rounds, by_load, by_rising_load, most_throughput, whole_rounds};
pub use server_timings::{ServerTimingSummary, TimingMedian};
pub use sessions::{SessionSummary, TurnSummary};
pub use steady::{Steady, Throughput};
pub(crate) use steady::{in_flight, slots};
pub use streams::StreamSummary;
pub use structure::StructureSummary;
pub use summary::{ComfortBands, InputTokens, MissingSpeed, SpeedSummary, TokenSummary};
pub(crate) use summary::{as_speed, tpot_distribution};
pub use sweep::{ObservedConcurrency, Sweep};
pub use unreadable::UnreadableEvents;

use serde::{Deserialize, Serialize};
use tokrate_core::Span;

/// What decided when requests were sent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "loop")]
pub enum Load {
    /// A fixed number of requests in flight; the next is sent when one ends.
    Closed {
        /// Requests in flight.
        concurrency: u32,
    },
    /// The same of requests with several texts each, for a vector or a score of each.
    Batched {
        /// Requests in flight.
        concurrency: u32,
        /// Texts of a request.
        batch: u32,
    },
    /// A schedule of arrivals that waits for nothing.
    Open {
        /// Arrivals per second.
        rate: f64,
        /// Requests in flight above which arrivals are forfeited, if there is such a cap.
        cap: Option<u32>,
    },
    /// A closed loop whose concurrency changes with time.
    ClosedRamp {
        /// Requests in flight at the start.
        from: u32,
        /// Requests in flight at the end.
        to: u32,
        /// How long it takes (s).
        seconds: f64,
    },
    /// An open loop whose rate changes with time.
    OpenRamp {
        /// Arrivals per second at the start.
        from: f64,
        /// Arrivals per second at the end.
        to: f64,
        /// How long it takes (s).
        seconds: f64,
        /// As of `open`.
        cap: Option<u32>,
    },
    /// The arrivals of a recorded trace, on their absolute schedule.
    Trace {
        /// Mean arrivals per second.
        rate: f64,
        /// As of `open`.
        cap: Option<u32>,
    },
    /// Conversations, each of which waits for its answer and thinks before its next turn.
    Sessions {
        /// Sessions at the same time.
        sessions: u32,
        /// Turns of each.
        turns: u32,
    },
    /// Recorded sessions of agents, whose steps wait for each other.
    Agents {
        /// Sessions at the same time; absent where each begins at its own time.
        sessions: Option<u32>,
    },
}

/// What is left out at the beginning of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Warmup {
    /// Nothing.
    #[default]
    None,
    /// The first requests, in order of `due_at`.
    Requests(u64),
    /// Requests due within this time from the start of the phase.
    Time(Span),
}

impl Warmup {
    /// The rule in words, as the result states it.
    pub fn rule(self) -> String {
        match self {
            Warmup::None => "no warm-up".to_owned(),
            Warmup::Requests(1) => "the first request is warm-up".to_owned(),
            Warmup::Requests(count) => format!("the first {count} requests are warm-up"),
            Warmup::Time(span) => format!("requests due in the first {span} are warm-up"),
        }
    }
}

#[cfg(test)]
mod tests;

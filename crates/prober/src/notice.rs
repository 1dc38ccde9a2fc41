//! What a prober has to say besides its probes.
//!
//! Invariant: every probe that was planned and not sent is in a notice, with its reason.

use crate::budget::BudgetKind;
use std::fmt;

/// Why a probe was not sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MissedReason {
    /// Its endpoint or host was still busy with another, or as many endpoints as allowed were.
    Busy,
    /// The prober was asleep or stopped, or the wall clock was set.
    Away,
    /// It might have cost more than was left.
    Budget(BudgetKind),
}

impl MissedReason {
    /// In words, such as `busy`.
    pub const fn name(self) -> &'static str {
        match self {
            MissedReason::Busy => "busy",
            MissedReason::Away => "away",
            MissedReason::Budget(BudgetKind::Money) => "usd_per_month",
            MissedReason::Budget(BudgetKind::Tokens) => "tokens_per_day",
        }
    }
}

/// Something that users should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The wall clock went ahead by so much (ms): it was set, or the machine was asleep.
    ClockAhead {
        /// By how much (ms).
        ms: u64,
    },
    /// The wall clock went back.
    ClockBack {
        /// By how much (ms).
        ms: u64,
        /// Whether it was so far that the schedule begins anew.
        restarted: bool,
    },
    /// The prober was not running for so long (ms).
    Stopped {
        /// For how long (ms).
        ms: u64,
    },
    /// Probes that were planned and not sent.
    Missed {
        /// How many.
        count: u64,
        /// Endpoint and workload, where it was a single one.
        series: Option<(String, String)>,
        /// Why.
        reason: MissedReason,
    },
    /// The budget does not suffice: series that are probed less often from now on.
    Lowered {
        /// Which budget.
        budget: BudgetKind,
        /// Endpoint, workload, and in one cycle of how many.
        series: Vec<(String, String, u32)>,
    },
    /// The budget suffices not even for one probe of each series in a week.
    Short {
        /// Which budget.
        budget: BudgetKind,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::ClockAhead { ms } => write!(
                formatter,
                "the clock is {} ahead of the time that has passed: it was set, or the machine was asleep",
                length(*ms)
            ),
            Notice::ClockBack { ms, restarted } => {
                let then = if *restarted { "the schedule begins anew" } else { "nothing is probed twice" };
                write!(formatter, "the clock went back by {}; {then}", length(*ms))
            }
            Notice::Stopped { ms } => write!(formatter, "the prober was stopped for {}", length(*ms)),
            Notice::Missed { count, series, reason } => {
                let what = match series {
                    Some((endpoint, workload)) => format!("a probe of {endpoint}, {workload}, was not sent"),
                    None if *count == 1 => "1 probe was not sent".to_owned(),
                    None => format!("{count} probes were not sent"),
                };
                let why = match reason {
                    MissedReason::Busy => "too much was in flight",
                    MissedReason::Away => "the prober was away",
                    MissedReason::Budget(BudgetKind::Money) => "usd_per_month could have been exceeded",
                    MissedReason::Budget(BudgetKind::Tokens) => "tokens_per_day could have been exceeded",
                };
                write!(formatter, "{what}: {why}")
            }
            Notice::Lowered { budget, series } => {
                write!(
                    formatter,
                    "{} does not suffice; probed less often, where intervals are narrowest: ",
                    budget.key()
                )?;
                let shown = series
                    .iter()
                    .take(5)
                    .map(|(endpoint, workload, every)| format!("{endpoint} {workload} (one cycle in {every})"));
                let shown: Vec<String> = shown.collect();
                formatter.write_str(&shown.join(", "))?;
                match series.len().saturating_sub(5) {
                    0 => Ok(()),
                    more => write!(formatter, " and {more} more"),
                }
            }
            Notice::Short { budget } => write!(
                formatter,
                "{} does not suffice for one probe of each endpoint and workload in a week; some will not be sent",
                budget.key()
            ),
        }
    }
}

/// A length of time in its largest unit.
fn length(ms: u64) -> String {
    let seconds = ms as f64 / 1_000.0;
    match seconds {
        0.0..120.0 => format!("{seconds:.0} s"),
        120.0..7_200.0 => format!("{:.0} minutes", seconds / 60.0),
        7_200.0..172_800.0 => format!("{:.1} hours", seconds / 3_600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

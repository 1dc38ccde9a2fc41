//! What a load allows and what its loop is.
//!
//! It refuses to know requests. Invariant: every shape of load is closed or open, and says how many requests it allows.

use super::Load;

impl Load {
    /// The most requests in flight that the plan allows.
    pub fn cap(&self) -> Option<u32> {
        match *self {
            Load::Closed { concurrency } => Some(concurrency),
            Load::ClosedRamp { from, to, .. } => Some(from.max(to)),
            Load::Sessions { sessions, .. } => Some(sessions),
            Load::Open { cap, .. } | Load::OpenRamp { cap, .. } | Load::Trace { cap, .. } => cap,
        }
    }

    /// How much it is: requests in flight, sessions, or arrivals per second.
    pub fn amount(&self) -> f64 {
        match *self {
            Load::Closed { concurrency } => f64::from(concurrency),
            Load::Open { rate, .. } | Load::Trace { rate, .. } => rate,
            Load::Sessions { sessions, .. } => f64::from(sessions),
            // A ramp is many levels; where it ended is the one that it is named for.
            Load::ClosedRamp { to, .. } => f64::from(to),
            Load::OpenRamp { to, .. } => to,
        }
    }

    /// Whether requests wait for others to end.
    pub fn is_closed(&self) -> bool {
        matches!(self, Load::Closed { .. } | Load::ClosedRamp { .. } | Load::Sessions { .. })
    }

    /// The level in few words, for the head of a column.
    pub fn short(&self) -> String {
        match self {
            Load::Closed { concurrency } => format!("c = {concurrency}"),
            Load::Open { rate, .. } => format!("{rate} req/s"),
            Load::ClosedRamp { from, to, .. } => format!("c = {from}..{to}"),
            Load::OpenRamp { from, to, .. } => format!("{from}..{to} req/s"),
            Load::Trace { rate, .. } => format!("trace, {rate:.3} req/s"),
            Load::Sessions { sessions, turns } => format!("{sessions} sessions × {turns}"),
        }
    }
}

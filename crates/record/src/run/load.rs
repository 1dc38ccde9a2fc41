//! Properties of a load: closed or open, amount, concurrency cap.

use super::Load;
use tokrate_core::format;

impl Load {
    /// The most requests in flight that the plan allows.
    pub fn cap(&self) -> Option<u32> {
        match *self {
            Load::Closed { concurrency } | Load::Batched { concurrency, .. } => Some(concurrency),
            Load::ClosedRamp { from, to, .. } => Some(from.max(to)),
            Load::Sessions { sessions, .. } => Some(sessions),
            // Steps of a session run side by side.
            Load::Agents { .. } => None,
            Load::Open { cap, .. } | Load::OpenRamp { cap, .. } | Load::Trace { cap, .. } => cap,
        }
    }

    /// How much it is: requests (or texts of them) in flight, sessions, or arrivals per second.
    pub fn amount(&self) -> f64 {
        match *self {
            Load::Closed { concurrency } => f64::from(concurrency),
            Load::Batched { concurrency, batch } => f64::from(concurrency) * f64::from(batch),
            Load::Open { rate, .. } | Load::Trace { rate, .. } => rate,
            Load::Sessions { sessions, .. } => f64::from(sessions),
            Load::Agents { sessions } => sessions.map_or(0.0, f64::from),
            // A ramp is many levels; where it ended is the one that it is named for.
            Load::ClosedRamp { to, .. } => f64::from(to),
            Load::OpenRamp { to, .. } => to,
        }
    }

    /// Whether requests wait for others to end.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Load::Closed { .. }
                | Load::Batched { .. }
                | Load::ClosedRamp { .. }
                | Load::Sessions { .. }
                | Load::Agents { .. }
        )
    }

    /// The level in few words, for the head of a column.
    pub fn short(&self) -> String {
        match self {
            Load::Closed { concurrency } => format!("c = {concurrency}"),
            Load::Batched { concurrency, batch } => format!("c = {concurrency} × {batch}"),
            Load::Open { rate, .. } => format!("{rate} req/s"),
            Load::ClosedRamp { from, to, .. } => format!("c = {from}..{to}"),
            Load::OpenRamp { from, to, .. } => format!("{from}..{to} req/s"),
            Load::Trace { rate, .. } => format!("trace, {} req/s", format::number(*rate)),
            Load::Sessions { sessions, turns } => format!("{sessions} sessions × {turns}"),
            Load::Agents { sessions: Some(1) } => "1 agent".to_owned(),
            Load::Agents { sessions: Some(sessions) } => format!("{sessions} agents"),
            Load::Agents { sessions: None } => "agents, own times".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_its_loop_amount_cap_and_name() {
        let actual = |load: Load| (load.is_closed(), load.amount(), load.cap(), load.short());
        let row = |is_closed, amount, cap, name: &str| (is_closed, amount, cap, name.to_owned());
        assert_eq!(actual(Load::Closed { concurrency: 8 }), row(true, 8.0, Some(8), "c = 8"));
        assert_eq!(actual(Load::Batched { concurrency: 2, batch: 32 }), row(true, 64.0, Some(2), "c = 2 × 32"));
        assert_eq!(actual(Load::Open { rate: 2.5, cap: None }), row(false, 2.5, None, "2.5 req/s"));
        assert_eq!(actual(Load::Open { rate: 20.0, cap: Some(64) }), row(false, 20.0, Some(64), "20 req/s"));
        let ramp = |from, to| Load::ClosedRamp { from, to, seconds: 30.0 };
        assert_eq!(actual(ramp(1, 16)), row(true, 16.0, Some(16), "c = 1..16"));
        assert_eq!(actual(ramp(16, 1)), row(true, 1.0, Some(16), "c = 16..1"), "a ramp may fall");
        let ramp = Load::OpenRamp { from: 0.5, to: 10.0, seconds: 30.0, cap: Some(9) };
        assert_eq!(actual(ramp), row(false, 10.0, Some(9), "0.5..10 req/s"));
        let trace = Load::Trace { rate: 1.0 / 3.0, cap: None };
        assert_eq!(actual(trace), row(false, 1.0 / 3.0, None, "trace, 0.333 req/s"));
        let sessions = Load::Sessions { sessions: 4, turns: 3 };
        assert_eq!(actual(sessions), row(true, 4.0, Some(4), "4 sessions × 3"));
        assert_eq!(actual(Load::Agents { sessions: Some(3) }), row(true, 3.0, None, "3 agents"));
        assert_eq!(actual(Load::Agents { sessions: None }), row(true, 0.0, None, "agents, own times"));
    }
}

//! Routing policies and their names.
//!
//! A new policy is a variant and a row of `POLICIES` here, and its score in `pick`; settings, help, the page and the
//! documentation take the name from here.

use std::fmt;
use std::mem::discriminant;
use tokrate_core::Span;

/// How lanes are chosen.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Policy {
    /// Least total time for all calls: the expected completion time of this call at the load it would cause, times how
    /// much it slows the others down; see [`crate::LaneModel::marginal_seconds`].
    #[default]
    Completion,
    /// Least expected completion time of this call alone.
    OwnCompletion,
    /// Least expected time to first token, given what each lane holds of the prompt, and how much what is new there holds up the others.
    Cache,
    /// The cheapest lane that is expected to meet both limits; the others follow, fastest first.
    Cheapest {
        /// Longest mean time to first token.
        max_ttft: Option<Span>,
        /// Lowest output speed (tokens per second).
        min_speed: Option<f64>,
    },
    /// Least sum of price and weighted time.
    Weighted {
        /// Value of a second (USD).
        usd_per_second: f64,
    },
    /// The better of two random lanes, by peak-EWMA latency times (calls in flight + 1).
    PeakEwma,
    /// In turn.
    RoundRobin,
    /// The fewest calls in flight.
    LeastBusy,
    /// Lowest average latency, regardless of load.
    LowestLatency,
    /// In the listed order.
    Fixed,
}

/// Name and policy, the default first; parameters at their defaults.
const POLICIES: [(&str, Policy); 10] = [
    ("completion", Policy::Completion),
    ("own-completion", Policy::OwnCompletion),
    ("cache", Policy::Cache),
    ("cheapest", Policy::Cheapest { max_ttft: None, min_speed: None }),
    ("weighted", Policy::Weighted { usd_per_second: 0.0 }),
    ("peak-ewma", Policy::PeakEwma),
    ("round-robin", Policy::RoundRobin),
    ("least-busy", Policy::LeastBusy),
    ("lowest-latency", Policy::LowestLatency),
    ("fixed", Policy::Fixed),
];

impl Policy {
    /// The names of all policies, the default's first.
    pub const NAMES: [&str; POLICIES.len()] = {
        let mut names = [""; POLICIES.len()];
        let mut place = 0;
        while place < names.len() {
            names[place] = POLICIES[place].0;
            place += 1;
        }
        names
    };

    /// The policy of a name, with parameters that limit nothing and weigh nothing.
    pub fn from_name(name: &str) -> Option<Policy> {
        POLICIES.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }

    /// The policies that have no parameters.
    pub fn without_parameters() -> impl Iterator<Item = Policy> {
        let has_parameters = |policy: &Policy| matches!(policy, Policy::Cheapest { .. } | Policy::Weighted { .. });
        POLICIES.into_iter().map(|(_, policy)| policy).filter(move |policy| !has_parameters(policy))
    }

    /// Its name in settings, flags and tables.
    pub fn name(&self) -> &'static str {
        let (name, _) = POLICIES
            .iter()
            .find(|(_, policy)| discriminant(policy) == discriminant(self))
            .expect("every policy has a row, as a test checks");
        name
    }
}

/// The name, with the parameters in words.
impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())?;
        match self {
            Policy::Cheapest { max_ttft, min_speed } => {
                if let Some(most) = max_ttft {
                    write!(out, ", TTFT at most {most}")?;
                }
                if let Some(least) = min_speed {
                    write!(out, ", at least {least} tok/s of output speed")?;
                }
                Ok(())
            }
            Policy::Weighted { usd_per_second } => write!(out, ", ${usd_per_second} a second"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_one_name() {
        // The compiler asks for a new variant here; its row is then missed below.
        let rows = |policy: &Policy| match policy {
            Policy::Completion
            | Policy::OwnCompletion
            | Policy::Cache
            | Policy::Cheapest { .. }
            | Policy::Weighted { .. }
            | Policy::PeakEwma
            | Policy::RoundRobin
            | Policy::LeastBusy
            | Policy::LowestLatency
            | Policy::Fixed => 1,
        };
        assert_eq!(POLICIES.iter().map(|(_, policy)| rows(policy)).sum::<usize>(), 10);
        for name in Policy::NAMES {
            assert_eq!(Policy::from_name(name).expect("a name of the list").name(), name);
        }
        assert_eq!(Policy::from_name(Policy::NAMES[0]), Some(Policy::default()));
        assert_eq!(Policy::from_name("fastest"), None);
    }

    #[test]
    fn parameters_stand_behind_the_name() {
        let cheapest = Policy::Cheapest { max_ttft: Some(Span::from_millis(800)), min_speed: Some(50.0) };
        assert_eq!(cheapest.to_string(), "cheapest, TTFT at most 800 ms, at least 50 tok/s of output speed");
        assert_eq!(Policy::Weighted { usd_per_second: 0.01 }.to_string(), "weighted, $0.01 a second");
        assert_eq!(Policy::LeastBusy.to_string(), "least-busy");
        assert_eq!(Policy::without_parameters().count(), 8);
    }
}

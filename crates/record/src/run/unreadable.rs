//! Events that could not be read: the answer goes on without what they held.

use serde::{Deserialize, Serialize};
use tokrate_core::Anomaly;
use tokrate_meter::RequestNumbers;

/// How many events of the measured answers could not be read. A request that failed for it says so itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadableEvents {
    /// Such events.
    pub events: u64,
    /// Answers that have one or more.
    pub answers: u64,
    /// How the first of them began, as it came; absent where it was not kept.
    pub example: Option<String>,
}

impl UnreadableEvents {
    /// Of the measured requests of a phase; `None` if all could be read.
    pub(super) fn of(measured: &[&RequestNumbers]) -> Option<UnreadableEvents> {
        let answered = measured.iter().filter(|request| request.failure.is_none());
        let ones = answered.filter_map(|request| {
            let events = u64::from(*request.anomalies.get(Anomaly::Unreadable.name())?);
            Some(UnreadableEvents { events, answers: 1, example: request.unreadable.clone() })
        });
        UnreadableEvents::sum(ones)
    }

    /// Several as one; `None` of none.
    pub fn sum(all: impl IntoIterator<Item = UnreadableEvents>) -> Option<UnreadableEvents> {
        all.into_iter().reduce(|sum, further| UnreadableEvents {
            events: sum.events + further.events,
            answers: sum.answers + further.answers,
            example: sum.example.or(further.example),
        })
    }
}

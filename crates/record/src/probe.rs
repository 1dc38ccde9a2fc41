//! One request that was sent to learn how fast an endpoint is: a row of a monitor.
//!
//! Invariant: an id names one probe, wherever it is kept, so that a probe that arrives twice is one row.

use crate::sample::{Sample, bound};
use serde::{Deserialize, Serialize};

/// Which part of tokrate sent a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SampleSource {
    /// A bench, under load.
    Bench,
    /// A monitor, alone.
    #[default]
    Monitor,
    /// A gateway, for a client.
    Gateway,
}

/// One request of a workload to an endpoint from a place. JSON has the fields of the sample beside those of the probe.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probe {
    /// Prober and sequence number; unique.
    pub id: String,
    /// What sent it.
    pub source: SampleSource,
    /// Target and model, as `target/model`.
    pub endpoint: String,
    /// What was asked.
    pub workload: String,
    /// Where it was asked from.
    pub place: String,
    /// Who asked.
    pub prober: String,
    /// Wall time at which it was to be sent (ms since 1970).
    pub due_unix_ms: u64,
    /// Why it counts in no statistic: what was wrong with the prober at that time. Absent if nothing was.
    #[serde(default)]
    pub quarantine: Option<String>,

    /// The request itself: where it went, what came of it, and under which conditions.
    #[serde(flatten)]
    pub sample: Sample,
}

impl Probe {
    /// Cuts every text to `tokrate_meter::MAX_TEXT_BYTES`, on one line, without control characters.
    pub fn bound_texts(&mut self) {
        let names = [&mut self.id, &mut self.endpoint, &mut self.workload, &mut self.place, &mut self.prober];
        bound(names.into_iter().chain(&mut self.quarantine));
        self.sample.bound_texts();
    }
}

impl SampleSource {
    /// Every source.
    pub const ALL: [SampleSource; 3] = [SampleSource::Bench, SampleSource::Monitor, SampleSource::Gateway];

    /// The name used in rows and tables.
    pub const fn name(self) -> &'static str {
        match self {
            SampleSource::Bench => "bench",
            SampleSource::Monitor => "monitor",
            SampleSource::Gateway => "gateway",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::every_text_is_bounded;

    #[test]
    fn names_are_those_of_json() {
        for source in SampleSource::ALL {
            assert_eq!(serde_json::to_value(source).expect("plain data"), source.name());
        }
    }

    #[test]
    fn every_text_of_a_probe_is_bounded() {
        assert_eq!(every_text_is_bounded(&Probe::default(), Probe::bound_texts), 17);
    }

    #[test]
    fn a_probe_is_read_as_it_was_written() {
        let sample = Sample { ttft_ns: Some(u64::MAX), cost_usd: Some(0.1 + 0.2), ..Sample::default() };
        let probe = Probe { id: "a-1".to_owned(), quarantine: Some("offline".to_owned()), sample, ..Probe::default() };
        let written = serde_json::to_string(&probe).expect("plain data");
        assert_eq!(serde_json::from_str::<Probe>(&written).expect("what was written"), probe);
    }
}

//! Lines of samples: each is one or says why not, and whatever they hold, the events are finite and in order.

use crate::text;
use tokrate_detect::{Detector, FalseAlarms, Sample};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let mut samples: Vec<Sample> = text(input).lines().filter_map(|line| Sample::parse(line).ok()).collect();
    samples.sort_by_key(|sample| sample.at);
    let mut detector = Detector::new(FalseAlarms::default());
    let mut events: Vec<_> = samples.into_iter().flat_map(|sample| detector.push(sample)).collect();
    events.extend(detector.end_hour());
    for event in &events {
        assert!(event.change.is_finite() && event.low.is_finite() && event.high.is_finite(), "{event:?}");
        assert!(event.since_earliest <= event.since && event.since <= event.since_latest, "{event:?}");
        assert!(serde_json::to_string(event).is_ok(), "{event:?}");
    }
}

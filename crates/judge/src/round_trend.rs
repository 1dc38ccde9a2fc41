//! Rounds of a level that go one way: what is measured changes while it is measured.
//!
//! Invariant: said only of what chance makes of alike rounds in one level of a hundred, and of more than a client's error could be.

use tokrate_core::format;
use tokrate_record::run::{Rounds, whole_rounds};
use tokrate_record::{Metric, PhaseResult};
use tokrate_stats::{midpoint_median, trend_p};

/// How often rounds that are alike may be said to go one way, at a level of two figures.
const FALSE_ALARM: f64 = 0.01;
/// Less between the first and the last half of the rounds is not worth a sentence (docs/method.md: figures may be off by as much).
const NOTABLE: f64 = 0.02;

/// A metric and what a round has of it.
type Figure = (Metric, fn(&PhaseResult) -> Option<f64>);

/// Of answers that stream, and of others.
const STREAMED: [Figure; 2] = [
    (Metric::Ttft, |phase| phase.ttft.p50.stated()),
    (Metric::OutputSpeed, |phase| phase.output_speed.median.stated()),
];
const WHOLE: [Figure; 1] = [(Metric::E2e, |phase| phase.e2e.p50.stated())];

/// A sentence for every level and figure whose rounds go one way; one that was cut off is none of them.
pub fn round_trends(phases: &[PhaseResult]) -> Vec<String> {
    let figures = if phases.iter().all(|phase| phase.ttft.is_empty()) { &WHOLE[..] } else { &STREAMED[..] };
    let of_level = |rounds: &Rounds<'_>| -> Vec<String> {
        let said = figures.iter().filter_map(|(metric, of)| {
            let values: Vec<f64> = rounds.phases.iter().filter_map(|phase| of(phase)).collect();
            sentence(rounds.name(), *metric, &values)
        });
        said.collect()
    };
    whole_rounds(phases).iter().flat_map(of_level).collect()
}

fn sentence(level: &str, metric: Metric, values: &[f64]) -> Option<String> {
    let p = trend_p(values).filter(|p| *p <= FALSE_ALARM / 2.0)?;
    let half = values.len() / 2;
    let (first, last) =
        (midpoint_median(values[..half].to_vec()), midpoint_median(values[values.len() - half..].to_vec()));
    let change = last / first - 1.0;
    if !change.is_finite() || change.abs() < NOTABLE {
        return None;
    }
    let (way, unit) = (if change > 0.0 { "rises" } else { "falls" }, metric.unit());
    Some(format!(
        "{level}: {} {way} from round to round: {} in the median of the first {half} of {} rounds, {} of the last {half} (alike rounds do so by chance in {}); the \
         server's state changes while it is measured, as when caches fill or clocks fall, and neither is its steady figure",
        metric.label(),
        format::quantity(first, unit),
        values.len(),
        format::quantity(last, unit),
        format::percent(p),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::steady_request;
    use tokrate_record::fixtures::{closed, phase};

    fn said(ttfts: &[u64]) -> Vec<String> {
        let round = |ttft: u64| {
            phase(&closed(8), &(0..11).map(|i| steady_request(i, i * 2_000, ttft + i % 3, 10, 40)).collect::<Vec<_>>())
        };
        round_trends(&ttfts.iter().copied().map(round).collect::<Vec<_>>())
    }

    #[test]
    fn a_server_that_slows_down_from_round_to_round_is_named_with_its_first_and_last_rounds() {
        insta::assert_snapshot!(said(&[100, 104, 110, 120, 131, 150]).join("\n"));
    }

    #[test]
    fn rounds_in_any_order_few_rounds_and_small_changes_are_no_trend() {
        assert_eq!(said(&[100, 131, 104, 150, 110, 120]), [""; 0]);
        assert_eq!(said(&[100, 120, 140, 160]), [""; 0], "four rounds go one way in one of twelve runs");
        assert_eq!(said(&[1_000, 1_001, 1_002, 1_003, 1_004, 1_005]), [""; 0]);
    }
}
